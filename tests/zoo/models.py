"""Small real models, what their symmetry must be counted by hand, and why anything is left over.

Every case fixes its weights, biases, gains and buffers at generic values. `dim` is the dimension
of the group, counted in the comment or note beside it; `order` the order of its discrete part;
`kernel` the number of flat directions when it differs from `dim`; `leftover` the most flat
directions that no generator may explain, with the reason in `note`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import dense

Inputs = Callable[[int, torch.Generator], Any]


@dataclass(frozen=True)
class Case:
    """One model of the zoo and what must come out of it."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Inputs
    dim: int | None = None
    order: int | None = None
    kernel: int | None = None
    leftover: int | None = 0
    on_batch: bool = False
    train: bool = False
    pinned: tuple[str, ...] = ()
    note: str = ""
    adjust: Callable[[nn.Module], None] | None = None

    def model(self, seed: int | None = None) -> nn.Module:
        """The model in float64 with every parameter and buffer at a generic value."""
        seed = SEEDS.get(self.name, 0) if seed is None else seed
        torch.manual_seed(seed)
        model = self.build().double().train(self.train)
        randomise(model, seed)
        calibrate(model, self.x(64), seed)
        if self.adjust is not None:
            with torch.no_grad():
                self.adjust(model)
        return model

    def x(self, batch: int, seed: int = 0) -> Any:
        """`batch` generic inputs."""
        return self.inputs(batch, torch.Generator().manual_seed(1000 + seed))

    def many(self, model: nn.Module) -> list[Any]:
        """Batches on which the rank of the Jacobian has saturated.

        Statistics of one batch are constants that the gains absorb, so train mode needs several.
        """
        entries = sum(y.numel() for y in dense.outputs(model, self.x(4))) / 4
        size = sum(p.numel() for p in model.parameters())
        count = 12 + int(1.6 * size / entries)
        if self.on_batch:  # every kink must be crossed by enough of the inputs
            count = max(count, min(4 * count, 120))
        pieces = 6 if self.train else 1
        return [self.x(max(4, -(-count // pieces)), seed=i) for i in range(pieces)]

    @property
    def flat(self) -> int | None:
        """Flat directions expected on many generic inputs."""
        return self.dim if self.kernel is None else self.kernel


# Where no unit is always on or always off, so that the kernel on a batch is the counted one.
SEEDS = {
    "resnet-relu": 37,
    "squeeze-excite-relu": 138,
    "mlp-softsign": 10,
    "mlp-elu": 1,
    "mlp-relu": 3,
    "mlp-leaky-relu": 1,
    "mlp-abs": 1,
    "resnet-relu-train": 6,
    "shufflenet-relu": 2,
    "shared-relu": 1,
    "residual-relu": 1,
    "expand": 7,
    "batch-norm-train-relu": 1,
}


# ------------------------------------------------------------------------------ generic values


def randomise(model: nn.Module, seed: int) -> None:
    """Generic weights, biases, gains away from zero, positive slopes and variances."""
    generator = torch.Generator().manual_seed(seed)
    slopes = {id(p) for m in model.modules() if isinstance(m, nn.PReLU) for p in m.parameters()}
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    with torch.no_grad():
        for parameter in model.parameters():
            _fill(parameter, generator, id(parameter) in slopes, id(parameter) in tables)
        for name, buffer in model.named_buffers():
            if not buffer.is_floating_point() or "fixed" in name:
                continue
            if "var" in name:
                buffer.uniform_(0.5, 1.5, generator=generator)
            else:
                buffer.normal_(0.0, 0.5, generator=generator)


def calibrate(model: nn.Module, x: Any, seed: int) -> None:
    """Running statistics near those of the data, so that no channel is always on or off."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    modes, momenta = [m.training for m in norms], [m.momentum for m in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    if norms:
        dense.forward(model, x)
    generator = torch.Generator().manual_seed(seed)
    for norm, mode, momentum in zip(norms, modes, momenta, strict=True):
        norm.train(mode)
        norm.momentum = momentum
        norm.running_mean.add_(torch.randn(norm.num_features, generator=generator) * 0.1)
        norm.running_var.mul_(torch.rand(norm.num_features, generator=generator) * 0.4 + 0.8)


def _fill(p: Tensor, generator: torch.Generator, slope: bool, table: bool) -> None:
    if slope:
        p.uniform_(0.15, 0.6, generator=generator)
    elif p.dim() < 2:
        p.uniform_(0.3, 0.9, generator=generator)
        p.mul_(torch.randint(0, 2, p.shape, generator=generator).mul(2).sub(1))
    else:
        fan_in = 1 if table else max(p.numel() // p.shape[0], 1)
        p.normal_(0.0, 1.2 / math.sqrt(fan_in), generator=generator)


# -------------------------------------------------------------------------------------- inputs


def normal(*shape: int) -> Inputs:
    """One floating tensor of standard normal entries."""
    return lambda batch, g: torch.randn(batch, *shape, dtype=torch.float64, generator=g)


def tokens(vocabulary: int, length: int) -> Inputs:
    """One tensor of token indices."""
    return lambda batch, g: torch.randint(vocabulary, (batch, length), generator=g)


def several(*parts: Inputs) -> Inputs:
    """A tuple of positional inputs."""
    return lambda batch, g: tuple(part(batch, g) for part in parts)


def named(**parts: Inputs) -> Inputs:
    """A dict of keyword inputs."""
    return lambda batch, g: {key: part(batch, g) for key, part in parts.items()}


# ----------------------------------------------------------------------------------- activations


class Pointwise(nn.Module):
    """A pointwise function as a module with a readable name."""

    def __init__(self, function: Callable[[Tensor], Tensor], name: str = "") -> None:
        super().__init__()
        self.function = function
        self.label = name or getattr(function, "__name__", "function")

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return self.label


def relu_squared(x: Tensor) -> Tensor:
    return F.relu(x) ** 2


def gaussian(x: Tensor) -> Tensor:
    return torch.exp(-(x**2))


def cube(x: Tensor) -> Tensor:
    return x**3


def identity(x: Tensor) -> Tensor:
    return x


class Radial(nn.Module):
    """z ↦ z f(‖z‖), which commutes with every rotation."""

    def forward(self, z: Tensor) -> Tensor:
        norm = z.norm(dim=-1, keepdim=True)
        return z * (torch.tanh(norm) / norm)


# -------------------------------------------------------------------------------------------- MLPs


def mlp(
    activation: Callable[[], nn.Module], *widths: int, bias: bool = True, after: int = 0
) -> nn.Module:
    """Linear layers with an activation between neighbours."""
    widths = widths or (4, 5, 4, 3)
    layers: list[nn.Module] = []
    for i, (n, m) in enumerate(pairwise(widths)):
        layers += [nn.Linear(n, m, bias=bias)]
        if i < len(widths) - 2:
            layers += [activation()]
    return nn.Sequential(*layers)


def per_unit_prelu() -> nn.Module:
    """Two hidden layers with one PReLU slope per unit."""
    return nn.Sequential(
        nn.Linear(4, 5), nn.PReLU(5), nn.Linear(5, 4), nn.PReLU(4), nn.Linear(4, 3)
    )


def _switch_units(model: nn.Module) -> None:
    model[0].bias[:3] = torch.tensor([20.0, 25.0, -20.0], dtype=torch.float64)


UNITS = 9  # hidden widths 5 and 4
SHUFFLES = math.factorial(5) * math.factorial(4)
SIGNS = 2**UNITS


def _mlp_cases() -> list[Case]:
    """One MLP 4-5-4-3 per class of activation: what one unit contributes decides the count."""
    none = (0, SHUFFLES)  # permutations only
    signs = (0, SHUFFLES * SIGNS)
    scales = (UNITS, SHUFFLES)
    both = (UNITS, SHUFFLES * SIGNS)
    shift = (UNITS, SHUFFLES)  # exp: one translation per unit, undone by a scale
    polynomial = "polynomial: a form of low degree has many more decompositions than units"
    table: list[tuple[str, Callable[[], nn.Module], tuple[int, int], dict[str, Any]]] = [
        ("tanh", nn.Tanh, signs, {}),
        ("sin", partial(Pointwise, torch.sin), signs, {}),
        ("erf", partial(Pointwise, torch.erf), signs, {}),
        ("softsign", nn.Softsign, signs, {}),
        ("cos", partial(Pointwise, torch.cos), signs, {}),
        ("gaussian", partial(Pointwise, gaussian), signs, {}),
        ("sigmoid", nn.Sigmoid, signs, {}),
        (
            "hardsigmoid",
            nn.Hardsigmoid,
            signs,
            {"leftover": None, "note": "piecewise linear: units inside |z| < 3 are linear here"},
        ),
        (
            "hardtanh",
            nn.Hardtanh,
            signs,
            {"leftover": None, "note": "piecewise linear: units may be linear or flat here"},
        ),
        ("gelu", nn.GELU, none, {}),
        ("gelu-tanh", partial(nn.GELU, approximate="tanh"), none, {}),
        ("silu", nn.SiLU, none, {}),
        ("mish", nn.Mish, none, {}),
        ("softplus", nn.Softplus, none, {}),
        ("logsigmoid", nn.LogSigmoid, none, {}),
        ("elu", nn.ELU, none, {}),
        ("relu6", nn.ReLU6, none, {"leftover": None, "note": "piecewise linear"}),
        ("exp", partial(Pointwise, torch.exp), shift, {}),
        ("relu", nn.ReLU, scales, {"on_batch": True}),
        ("leaky-relu", partial(nn.LeakyReLU, 0.2), scales, {"on_batch": True}),
        ("prelu-shared", partial(nn.PReLU, 1, 0.3), scales, {"order": None, "on_batch": True}),
        ("relu-squared", partial(Pointwise, relu_squared), scales, {"on_batch": True}),
        ("abs", partial(Pointwise, torch.abs), both, {"leftover": 0}),
        ("square", partial(Pointwise, torch.square), both, {"leftover": None, "note": polynomial}),
        ("cube", partial(Pointwise, cube), both, {"leftover": None, "note": polynomial}),
    ]
    cases = []
    for name, activation, (dim, order), extra in table:
        settings = {"dim": dim, "order": order, **extra}
        cases.append(Case(f"mlp-{name}", partial(mlp, activation), normal(4), **settings))
    # Per-unit slopes: z ↦ −z, a ↦ 1/a is one sign per unit on top of the scales.
    cases.append(
        Case(
            "mlp-prelu-per-unit",
            per_unit_prelu,
            normal(4),
            dim=UNITS,
            order=SHUFFLES * SIGNS,
            on_batch=True,
        )
    )
    # On a batch: two units always on, a GL(2) ⋉ R² (6); one always off, whose 5 + 3 weights are
    # free; the other three switch and keep their scales.
    cases.append(
        Case(
            "mlp-relu-partly-on",
            partial(mlp, nn.ReLU, 4, 6, 3),
            normal(4),
            dim=6,
            order=math.factorial(6),
            kernel=6 + 8 + 3,
            on_batch=True,
            adjust=_switch_units,
        )
    )
    cases.append(
        Case(
            "mlp-tanh-no-bias",
            partial(mlp, nn.Tanh, bias=False),
            normal(4),
            dim=0,
            order=SHUFFLES * SIGNS,
        )
    )
    # Without a bias behind it, a flipped sigmoid leaves a constant nobody absorbs.
    cases.append(
        Case(
            "mlp-sigmoid-no-bias",
            partial(mlp, nn.Sigmoid, bias=False),
            normal(4),
            dim=0,
            order=SHUFFLES,
        )
    )
    # exp(Wx) without a bias: nothing can translate z.
    cases.append(
        Case(
            "mlp-exp-no-bias",
            partial(mlp, partial(Pointwise, torch.exp), bias=False),
            normal(4),
            dim=0,
            order=SHUFFLES,
        )
    )
    # GL(4) ⋉ R⁴ twice, and GL(4) twice; no width is below 4.
    cases.append(Case("linear-bias", partial(mlp, nn.Identity, 5, 4, 4, 6), normal(5), dim=40))
    cases.append(
        Case("linear-no-bias", partial(mlp, nn.Identity, 5, 4, 4, 6, bias=False), normal(5), dim=32)
    )
    # GL(6) ⋉ R⁶ has dimension 42, but on 4 → 6 → 3 it has a stabilizer: orbit 36 − 2·3 + 6.
    cases.append(
        Case(
            "linear-overcomplete", partial(mlp, nn.Identity, 4, 6, 3), normal(4), dim=42, kernel=36
        )
    )
    # A bottleneck of 3 outputs behind a stream of 5: directions that belong to no group.
    cases.append(
        Case(
            "linear-bottleneck",
            partial(mlp, nn.Identity, 5, 4, 5, 3),
            normal(5),
            dim=16 + 4 + 25 + 5,
            leftover=None,
            note="three outputs read a stream of rank four: what they do not see is free",
        )
    )
    # O(3) in each of two hidden spaces.
    cases.append(Case("radial", partial(mlp, Radial, 4, 3, 3, 4), normal(4), dim=6))
    return cases


# --------------------------------------------------------------------------------- convolutions


def vgg(activation: Callable[[], nn.Module]) -> nn.Module:
    """Two convolution stages with batch norm and pooling."""
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        activation(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        activation(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside an identity or a strided 1×1 shortcut."""

    def __init__(
        self, width_in: int, width: int, stride: int, activation: Callable[[], nn.Module]
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.activation = activation()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or width_in != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(width_in, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return self.activation(h + self.shortcut(x))


class ResNet(nn.Module):
    """A stem and two basic blocks, the second one strided."""

    def __init__(self, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 2, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(2)
        self.activation = activation()
        self.layer1 = BasicBlock(2, 2, 1, activation)
        self.layer2 = BasicBlock(2, 3, 2, activation)
        self.head = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation(self.bn(self.stem(x)))
        h = self.layer2(self.layer1(h))
        return self.head(h.mean(dim=(2, 3)))


class InvertedResidual(nn.Module):
    """Expand by 1×1, filter by depthwise 3×3, project linearly, add to the stream."""

    def __init__(self, width: int, expanded: int, norm_last: bool) -> None:
        super().__init__()
        self.expand = nn.Conv2d(width, expanded, 1)
        self.bn1 = nn.BatchNorm2d(expanded)
        self.depthwise = nn.Conv2d(expanded, expanded, 3, padding=1, groups=expanded)
        self.bn2 = nn.BatchNorm2d(expanded)
        self.project = nn.Conv2d(expanded, width, 1)
        self.bn3 = nn.BatchNorm2d(width) if norm_last else nn.Identity()
        self.activation = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation(self.bn1(self.expand(x)))
        h = self.activation(self.bn2(self.depthwise(h)))
        return x + self.bn3(self.project(h))


class MobileNet(nn.Module):
    """A linear stream of 4 channels with one inverted residual block."""

    def __init__(self, norm_last: bool) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4) if norm_last else nn.Identity()
        self.block = InvertedResidual(4, 6, norm_last)
        self.last = nn.Conv2d(4, 5, 1)
        self.head = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.silu(self.last(self.block(self.bn(self.stem(x)))))
        return self.head(h.mean(dim=(2, 3)))


class DenseNet(nn.Module):
    """Each convolution reads the concatenation of everything before it."""

    def __init__(self, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(2, 3, 3, padding=1)
        self.conv1 = nn.Conv2d(3, 2, 3, padding=1)
        self.conv2 = nn.Conv2d(5, 2, 3, padding=1)
        self.activation = activation()
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation(self.conv0(x))
        h = torch.cat([h, self.activation(self.conv1(h))], dim=1)
        h = torch.cat([h, self.activation(self.conv2(h))], dim=1)
        return self.head(h.mean(dim=(2, 3)))


class PreActivationDenseNet(nn.Module):
    """Batch norm and activation come after the concatenation, so the features are linear."""

    def __init__(self) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(2, 3, 3, padding=1)
        self.bn1, self.conv1 = nn.BatchNorm2d(3), nn.Conv2d(3, 2, 3, padding=1)
        self.bn2, self.conv2 = nn.BatchNorm2d(5), nn.Conv2d(5, 2, 3, padding=1)
        self.bn3 = nn.BatchNorm2d(7)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv0(x)
        h = torch.cat([h, self.conv1(F.silu(self.bn1(h)))], dim=1)
        h = torch.cat([h, self.conv2(F.silu(self.bn2(h)))], dim=1)
        return self.head(F.silu(self.bn3(h)).mean(dim=(2, 3)))


class UNet(nn.Module):
    """One level down and up, the skip concatenated."""

    def __init__(self, up: str, mode: str = "zeros") -> None:
        super().__init__()
        conv = partial(nn.Conv2d, kernel_size=3, padding=1, padding_mode=mode)
        self.down = conv(2, 3)
        self.inner = conv(3, 4)
        self.up: nn.Module
        if up == "transposed":
            self.up = nn.ConvTranspose2d(4, 3, 2, stride=2)
        else:
            self.up = nn.Upsample(scale_factor=2, mode=up)
        self.merge = conv(6 if up == "transposed" else 7, 4)
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.silu(self.down(x))
        h = F.silu(self.inner(F.avg_pool2d(skip, 2)))
        h = torch.cat([skip, self.up(h)], dim=1)
        return self.head(F.silu(self.merge(h)))


class ShuffleNet(nn.Module):
    """Grouped convolutions with the channels shuffled between the groups."""

    def __init__(self, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1, groups=2)
        self.conv3 = nn.Conv2d(6, 4, 1, groups=2)
        self.activation = activation()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation(self.conv2(self.activation(self.conv1(x))))
        b, c, height, width = h.shape
        h = h.view(b, 2, c // 2, height, width).transpose(1, 2).reshape(b, c, height, width)
        return self.head(self.activation(self.conv3(h)).mean(dim=(2, 3)))


class SqueezeExcite(nn.Module):
    """Channels rescaled by a gate computed from their means."""

    def __init__(self, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1)
        self.squeeze, self.excite = nn.Linear(4, 3), nn.Linear(3, 4)
        self.conv2 = nn.Conv2d(4, 3, 3, padding=1)
        self.activation = activation()
        self.head = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation(self.conv1(x))
        gate = self.excite(self.activation(self.squeeze(h.mean(dim=(2, 3)))))
        h = h * torch.sigmoid(gate)[:, :, None, None]
        return self.head(self.activation(self.conv2(h)).mean(dim=(2, 3)))


def conv_pool(pool: nn.Module, flat: int, activation: Callable[[], nn.Module]) -> nn.Module:
    """Convolution, activation, pooling, flatten of (C, H, W), linear."""
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), activation(), pool, nn.Flatten(), nn.Linear(flat, 4)
    )


def conv1d_net() -> nn.Module:
    """Two one-dimensional convolutions, strided and dilated."""
    return nn.Sequential(
        nn.Conv1d(2, 4, 3, stride=2, padding=1),
        nn.Tanh(),
        nn.Conv1d(4, 3, 3, dilation=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


def conv3d_net() -> nn.Module:
    """Three-dimensional convolutions with a transposed one between."""
    return nn.Sequential(
        nn.Conv3d(1, 3, 2),
        nn.GELU(),
        nn.ConvTranspose3d(3, 3, 2),
        nn.GELU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(3, 3),
    )


def padded_convs(mode: str) -> nn.Module:
    """A linear hidden space read through padding: zeros forbid its translations."""
    return nn.Sequential(
        nn.Conv2d(3, 3, 1),
        nn.Conv2d(3, 4, 3, padding=1, padding_mode=mode),
        nn.SiLU(),
        nn.Conv2d(4, 2, 1),
    )


class PadWithOne(nn.Module):
    """A constant border of ones: rescaling a channel would rescale the border too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 3, 3), nn.Conv2d(3, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(F.pad(F.relu(self.conv1(x)), (1, 1, 1, 1), value=1.0))


# ------------------------------------------------------------------------ sharing, ties, products


class Shared(nn.Module):
    """The same linear layer applied twice."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.shared, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation(self.first(x))
        h = self.activation(self.shared(h))
        h = self.activation(self.shared(h))
        return self.last(h)


class Recurrent(nn.Module):
    """An unrolled recurrent net."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.read, self.carry = nn.Linear(3, 4), nn.Linear(4, 4, bias=False)
        self.start = nn.Parameter(torch.zeros(4))
        self.last = nn.Linear(4, 4)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        h = self.start
        for t in range(x.shape[1]):
            h = self.activation(self.read(x[:, t]) + self.carry(h))
        return self.last(h)


class TiedAutoencoder(nn.Module):
    """Encoder W and decoder Wᵀ."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.encoder = nn.Linear(5, 3)
        self.bias = nn.Parameter(torch.zeros(5))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.activation(self.encoder(x)), self.encoder.weight.t(), self.bias)


class Gated(nn.Module):
    """act(gate) ⊙ up, then down."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 3)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class ResidualMLP(nn.Module):
    """A linear stream of 4 with two residual blocks."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 4), nn.Linear(4, 5)
        self.inner = nn.ModuleList(nn.Linear(4, 6) for _ in range(2))
        self.outer = nn.ModuleList(nn.Linear(6, 4) for _ in range(2))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for inner, outer in zip(self.inner, self.outer, strict=True):
            h = h + outer(self.activation(inner(h)))
        return self.last(h)


class BagOfTokens(nn.Module):
    """Embedding, mean over the tokens, MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 3)
        self.hidden, self.last = nn.Linear(3, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.hidden(self.embedding(x).mean(dim=1))))


class TiedLanguageModel(nn.Module):
    """The embedding table is also the output head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 3)
        self.inner, self.outer = nn.Linear(3, 5), nn.Linear(5, 3)
        self.head = nn.Linear(3, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.embedding(x).mean(dim=1)
        return self.head(h + self.outer(F.gelu(self.inner(h))))


# --------------------------------------------------------------- layout, bare parameters, plumbing


class Branches(nn.Module):
    """One hidden layer chunked into branches with their own activations."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.left, self.right = nn.Linear(3, 3), nn.Linear(3, 2)
        self.last = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.first(x).chunk(2, dim=-1)
        left, right = self.left(torch.tanh(left)), self.right(torch.sigmoid(right))
        return self.last(F.gelu(torch.cat([left, right], dim=-1)))


class UnevenSplit(nn.Module):
    """split and slices of one layer, one part unused by the nonlinear branch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.a, self.b, self.c = nn.Linear(1, 3), nn.Linear(2, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        one, two, _ = h.split([1, 2, 3], dim=-1)
        three = h[:, 3:]
        return self.a(torch.tanh(one)) + self.b(F.silu(two)) + self.c(torch.tanh(three))


class Scaled(nn.Module):
    """A bare gain vector behind the activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)) * self.scale)


class Positions(nn.Module):
    """Bare positions added to an embedded sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.hidden, self.last = nn.Linear(4, 3), nn.Linear(3, 5), nn.Linear(5, 3)
        self.positions = nn.Parameter(torch.zeros(1, 4, 3))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.hidden(self.first(x) + self.positions))
        return self.last(h.mean(dim=1))


class Functional(nn.Module):
    """Bare parameters and functional calls only."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.b1 = nn.Parameter(torch.zeros(4, 5)), nn.Parameter(torch.zeros(5))
        self.w2, self.b2 = nn.Parameter(torch.zeros(3, 5)), nn.Parameter(torch.zeros(3))
        self.w3 = nn.Parameter(torch.zeros(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(x @ self.w1 + self.b1)
        h = F.gelu(torch.addmm(self.b2, h, self.w2.t()))
        return torch.matmul(h, self.w3)


class InPlace(nn.Module):
    """In-place activations and additions."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.skip = nn.Linear(4, 5), nn.Linear(5, 4), nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        h.tanh_()
        h = self.b(h)
        h += self.skip(x)
        F.silu(h, inplace=True)
        return self.last(h)


class Buffered(nn.Module):
    """A fixed buffer multiplies or shifts a hidden linear space."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(5, 4), nn.Linear(4, 5), nn.Linear(5, 3)
        value = {
            "zero shift": torch.zeros(4),
            "shift": torch.tensor([0.3, -1.1, 0.7, 2.0]),
            "mask": torch.tensor([1.0, -0.5, 2.0, 0.7]),
        }[kind]
        self.register_buffer("fixed", value)
        self.multiply = kind == "mask"

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        h = h * self.fixed if self.multiply else h + self.fixed
        return self.last(torch.tanh(self.middle(h)))


def dropout_net() -> nn.Module:
    """Dropout behind ReLU."""
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 3))


class TwoInputs(nn.Module):
    """Two positional inputs, embedded and multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.last = nn.Linear(4, 5), nn.Linear(3, 5), nn.Linear(5, 4)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.last(torch.tanh(self.left(a) + self.right(b)))


class TupleOutput(nn.Module):
    """Returns its output and its hidden state, which pins the hidden space."""

    def __init__(self, as_dict: bool) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 5), nn.Linear(5, 4), nn.Linear(4, 3)
        self.as_dict = as_dict

    def forward(self, x: Tensor) -> Any:
        hidden = torch.tanh(self.a(x))
        out = self.c(torch.tanh(self.b(hidden)))
        return {"out": out, "hidden": hidden} if self.as_dict else (out, (hidden, None))


class Unused(nn.Module):
    """One linear layer is never called, one parameter is multiplied into nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 3)
        self.never = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)))


def frozen_net() -> nn.Module:
    """The first layer does not train."""
    model = mlp(nn.Tanh, 4, 5, 3)
    model[0].requires_grad_(False)
    return model


class Unknown(nn.Module):
    """One space meets an operation no rule can know, the other does not."""

    def __init__(self, operation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 5), nn.Linear(5, 4), nn.Linear(4, 3)
        self.operation = operation

    def forward(self, x: Tensor) -> Tensor:
        return self.c(torch.tanh(self.b(self.operation(torch.tanh(self.a(x))))))


def cumsum_channels(z: Tensor) -> Tensor:
    return torch.cumsum(z, dim=-1)


def sort_channels(z: Tensor) -> Tensor:
    return torch.sort(z, dim=-1).values


def resnet18_like(width: int = 64, classes: int = 1000) -> nn.Module:
    """The shape of ResNet-18 at full size, for benchmarks."""

    def stage(width_in: int, width_out: int, stride: int) -> nn.Module:
        return nn.Sequential(
            BasicBlock(width_in, width_out, stride, nn.ReLU),
            BasicBlock(width_out, width_out, 1, nn.ReLU),
        )

    return nn.Sequential(
        nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        stage(width, width, 1),
        stage(width, 2 * width, 2),
        stage(2 * width, 4 * width, 2),
        stage(4 * width, 8 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


# ------------------------------------------------------------------------------------------ cases


def _conv_cases() -> list[Case]:
    f = math.factorial
    image = normal(2, 6, 6)
    small = normal(2, 4, 4)
    return [
        # Before each eval batch norm: a scale and a translation per channel, 2·(3 + 4); the sign
        # of that scale is discrete. Behind SiLU nothing continuous.
        Case("vgg-silu", partial(vgg, nn.SiLU), image, dim=14, order=2**7 * f(3) * f(4)),
        # and a scale per channel behind ReLU, 3 + 4.
        Case(
            "vgg-relu",
            partial(vgg, nn.ReLU),
            image,
            dim=21,
            order=2**7 * f(3) * f(4),
            on_batch=True,
        ),
        # Batch statistics: translations and signs are exact, the scales are broken by eps.
        Case(
            "vgg-silu-train",
            partial(vgg, nn.SiLU),
            image,
            dim=7,
            order=2**7 * f(3) * f(4),
            train=True,
        ),
        Case(
            "vgg-relu-train",
            partial(vgg, nn.ReLU),
            image,
            dim=14,
            order=2**7 * f(3) * f(4),
            train=True,
            on_batch=True,
        ),
        # A scale in front of each of the 6 batch norms: 2·3 + 3·3; the two summands of the second
        # block trade a translation: 3.
        Case("resnet-silu", partial(ResNet, nn.SiLU), small, dim=18),
        # and the scales behind ReLU: stream 2, inner 2, inner 3, stream 3.
        Case("resnet-relu", partial(ResNet, nn.ReLU), small, dim=28, on_batch=True),
        # Train mode keeps the traded translation; convolutions here have no bias.
        Case("resnet-silu-train", partial(ResNet, nn.SiLU), small, dim=3, train=True),
        Case(
            "resnet-relu-train", partial(ResNet, nn.ReLU), small, dim=13, train=True, on_batch=True
        ),
        # Stream GL(4) and one translation before and after the block: 16 + 8. Expansion and
        # depthwise stages: scale and translation in front of a batch norm of 6, twice: 24.
        Case("mobilenet-silu", partial(MobileNet, False), small, dim=48),
        # With batch norm on the stream: diagonal (4) in front of each of the two and diagonal
        # behind them (4), translations in front of each (8) and of the two stages (8), inner 24.
        # GL(4) beyond its diagonal is absorbed by conjugating through the gains: 12 more.
        Case(
            "mobilenet-bn-stream",
            partial(MobileNet, True),
            small,
            kernel=4 + 4 + 4 + 8 + 8 + 24 + 12,
            leftover=12,
            note="GL(4) of the linear stream passes through the batch norm gains of its writers "
            "only by conjugation with the gains; its 12 off-diagonal directions may be left",
        ),
        Case("densenet-silu", partial(DenseNet, nn.SiLU), small, dim=0, order=f(3) * 2 * 2),
        Case(
            "densenet-relu",
            partial(DenseNet, nn.ReLU),
            small,
            dim=7,
            order=f(3) * 2 * 2,
            on_batch=True,
        ),
        # Seven linear features, each read through eval batch norms: scale and translation.
        Case(
            "densenet-preactivation",
            PreActivationDenseNet,
            small,
            dim=14,
            order=2**7 * f(3) * 2 * 2,
        ),
        # The upsampled branch is linear: GL(3); zero padding forbids its translation.
        Case("unet-transposed", partial(UNet, "transposed"), small, dim=9),
        # Circular padding allows it.
        Case(
            "unet-transposed-circular",
            partial(UNet, "transposed", "circular"),
            normal(2, 8, 8),
            dim=12,
        ),
        Case("unet-nearest", partial(UNet, "nearest"), small, dim=0, order=f(3) * f(4) * f(4)),
        Case("unet-bilinear", partial(UNet, "bilinear"), small, dim=0, order=f(3) * f(4) * f(4)),
        Case("shufflenet-silu", partial(ShuffleNet, nn.SiLU), small, dim=0),
        # 6 + 6 + 4 scales; the 6 in front of the shuffle are lost.
        Case(
            "shufflenet-relu",
            partial(ShuffleNet, nn.ReLU),
            small,
            dim=6 + 4,
            kernel=6 + 6 + 4,
            leftover=6,
            on_batch=True,
            note="3 x 2 shuffled channels are cut into 2 groups of 3: the index sets on both sides "
            "have no common refinement, so the space between them is pinned",
        ),
        # A gate is a ratio: the channel scales (4) pass through it, the squeezed units have theirs
        # (3), and so do the last channels (3).
        Case("squeeze-excite-relu", partial(SqueezeExcite, nn.ReLU), small, dim=10, on_batch=True),
        Case(
            "squeeze-excite-silu",
            partial(SqueezeExcite, nn.SiLU),
            small,
            dim=0,
            order=f(4) * f(3) * f(3),
        ),
        Case("conv1d-tanh", conv1d_net, normal(2, 12), dim=0, order=2**7 * f(4) * f(3)),
        Case("conv3d-gelu", conv3d_net, normal(1, 4, 4, 4), dim=0, order=f(3) ** 2),
        Case(
            "flatten-relu",
            partial(conv_pool, nn.Identity(), 3 * 16, nn.ReLU),
            small,
            dim=3,
            order=f(3),
            on_batch=True,
        ),
        # Max-pooling is monotone and commutes with shifts: scale and translation per channel.
        Case(
            "max-pool-linear",
            partial(conv_pool, nn.MaxPool2d(2), 3 * 4, nn.Identity),
            small,
            dim=6,
            order=f(3),
            on_batch=True,
        ),
        Case(
            "max-pool-tanh",
            partial(conv_pool, nn.MaxPool2d(2), 3 * 4, nn.Tanh),
            small,
            dim=0,
            order=f(3),
        ),
        Case(
            "avg-pool-tanh",
            partial(conv_pool, nn.AvgPool2d(2), 3 * 4, nn.Tanh),
            small,
            dim=0,
            order=2**3 * f(3),
        ),
        Case(
            "adaptive-max-pool-silu",
            partial(conv_pool, nn.AdaptiveMaxPool2d(2), 3 * 4, nn.SiLU),
            small,
            dim=0,
            order=f(3),
        ),
        # Linear averages of linear features: GL(3) ⋉ R³.
        Case(
            "global-average-linear",
            partial(conv_pool, nn.AdaptiveAvgPool2d(1), 3, nn.Identity),
            small,
            dim=12,
        ),
        # 1×1 into 3×3: GL(3), and the translation unless zeros pad the border.
        Case("padding-zeros", partial(padded_convs, "zeros"), normal(3, 4, 4), dim=9),
        Case("padding-circular", partial(padded_convs, "circular"), normal(3, 4, 4), dim=12),
        Case("padding-replicate", partial(padded_convs, "replicate"), normal(3, 4, 4), dim=12),
        Case("padding-reflect", partial(padded_convs, "reflect"), normal(3, 4, 4), dim=12),
        Case("padding-with-one", PadWithOne, small, dim=0, order=f(3), on_batch=True),
    ]


class HalfShifted(nn.Module):
    """Tokens that a bias shifts beside tokens that none does, and what meets both."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(3, 4)
        self.last = nn.Linear(4, 5)
        self.kind = kind
        if kind == "norm":
            self.norm = nn.BatchNorm2d(4)
        else:
            self.third = nn.Linear(3, 4)
            self.bias = nn.Parameter(torch.zeros(4))
        if kind == "mixed":
            self.mix = nn.Linear(3, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h, still = self.first(x), F.gelu(self.second(x))
        if self.kind == "norm":
            tokens = torch.cat([h, still], 1).transpose(1, 2).unsqueeze(-1)
            return self.last(self.norm(tokens).squeeze(-1).transpose(1, 2))
        everywhere = self.third(torch.cat([x, 2 * x], 1))
        if self.kind == "mixed":
            h = self.mix(h.transpose(1, 2)).transpose(1, 2)
        if self.kind == "scaled":
            h = torch.cat([h[:, :1], 3 * h[:, 1:]], 1)
        return self.last(F.gelu(everywhere + torch.cat([h + self.bias, still], 1)))


class NormedCopies(nn.Module):
    """Batch norm with statistics of its own for each of three copies of two units."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(5, 2), nn.BatchNorm1d(6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        copies = torch.tanh(self.first(x))[:, None].expand(-1, 3, -1)
        return self.last(self.norm(copies.flatten(1)))


def _sharing_cases() -> list[Case]:
    f = math.factorial
    return [
        Case("shared-tanh", partial(Shared, torch.tanh), normal(3), dim=0, order=2**4 * f(4)),
        # D W D⁻¹: the shared layer makes the three hidden spaces one.
        Case("shared-relu", partial(Shared, F.relu), normal(3), dim=4, order=f(4), on_batch=True),
        Case(
            "recurrent-tanh", partial(Recurrent, torch.tanh), normal(3, 3), dim=0, order=2**4 * f(4)
        ),
        Case(
            "recurrent-relu",
            partial(Recurrent, F.relu),
            normal(3, 3),
            dim=4,
            order=f(4),
            on_batch=True,
        ),
        # Linear state: GL(4), and 4 + 4 biases that only add to the constant of the output.
        Case(
            "recurrent-linear",
            partial(Recurrent, identity),
            normal(3, 3),
            kernel=16 + 8,
            leftover=8,
            note="the start and the bias of every step reach the output as one constant, absorbed "
            "by the last bias; as a translation it runs through powers of the shared layer",
        ),
        Case(
            "tied-autoencoder-tanh",
            partial(TiedAutoencoder, torch.tanh),
            normal(5),
            dim=0,
            order=2**3 * f(3),
        ),
        # W and Wᵀ: O(3); the translation of the code is absorbed by the output bias: 3 + 3.
        Case("tied-autoencoder-linear", partial(TiedAutoencoder, identity), normal(5), dim=6),
        # The up branch is linear: one scale per unit.
        Case("glu", partial(Gated, torch.sigmoid), normal(4), dim=5, order=2**5 * f(5)),
        Case("swiglu", partial(Gated, F.silu), normal(4), dim=5, order=2**5 * f(5)),
        # ReLU adds a positive scale on the gate.
        Case("reglu", partial(Gated, F.relu), normal(4), dim=10, order=2**5 * f(5), on_batch=True),
        Case("gated-tanh", partial(Gated, torch.tanh), normal(4), dim=5, order=2**10 * f(5)),
        Case(
            "bilinear",
            partial(Gated, identity),
            normal(4),
            dim=10,
            leftover=None,
            note="polynomial: products of linear forms may also be exchanged and recombined",
        ),
        # GL(4) on the stream, a translation before, between and after the two blocks: 16 + 3·4.
        Case("residual-gelu", partial(ResidualMLP, F.gelu), normal(5), dim=28),
        # and the scales of 2·6 hidden units.
        Case("residual-relu", partial(ResidualMLP, F.relu), normal(5), dim=40, on_batch=True),
        # GL(3) ⋉ R³ on the embedding.
        Case("bag-of-tokens", BagOfTokens, tokens(7, 3), dim=12),
        # The tied table must serve both sides: O(3).
        Case("tied-language-model", TiedLanguageModel, tokens(7, 3), dim=3),
        # The first layer's parts are read by odd, affine-flip and other units.
        Case("branches", Branches, normal(4), dim=0 + 0, order=2**6 * f(3) ** 2 * f(3) * f(2)),
        # Three biases of summands: two translations of 3.
        Case("uneven-split", UnevenSplit, normal(4), dim=6, order=2**4 * 2 * f(3)),
        # Diagonal behind the gain: 5; signs before and behind it.
        Case("bare-scale", Scaled, normal(4), dim=5, order=2**10 * f(5)),
        # GL(3), bias against positions (3), positions against the next bias (3).
        Case("bare-positions", Positions, normal(4, 4), dim=15),
        Case("functional", Functional, normal(4), dim=0, order=2**5 * f(5) * f(3)),
        # The biases of the two summands trade a translation of 4.
        Case("in-place", InPlace, normal(4), dim=4, order=2**5 * f(5) * f(4)),
        Case("buffer-zero-shift", partial(Buffered, "zero shift"), normal(5), dim=20),
        # GL(4) acts about the origin that the constant displaces.
        Case("buffer-shift", partial(Buffered, "shift"), normal(5), dim=20),
        Case(
            "buffer-mask",
            partial(Buffered, "mask"),
            normal(5),
            kernel=20,
            leftover=12,
            note="GL(4) passes a constant diagonal by conjugation; off the diagonal it may be left",
        ),
        # A bias reaches half of the tokens: one that reaches all of them cannot take it back.
        Case(
            "half-shifted-norm",
            partial(HalfShifted, "norm"),
            normal(3, 3),
            dim=4,
            kernel=4 + 4,
            leftover=4,
            note="the bias of the norm and that of its reader still trade a translation, but are "
            "pinned together with the bias that nothing takes back",
        ),
        Case("half-shifted", partial(HalfShifted, "plain"), normal(3, 3), dim=4),
        # One sign and scale between the first layer and the mixing of its tokens.
        Case("half-shifted-mixed", partial(HalfShifted, "mixed"), normal(3, 3), dim=1),
        Case("half-shifted-scaled", partial(HalfShifted, "scaled"), normal(3, 3), dim=0),
        Case(
            "normed-copies",
            NormedCopies,
            normal(5),
            dim=6 + 6,
            order=(2**3 * f(3)) ** 2 * 2,
            kernel=6 + 6 + 4 * 4,
            leftover=4 * 4,
            note="the reader sees every unit three times and only the sum of its columns counts",
        ),
        Case("dropout-eval", dropout_net, normal(4), dim=6, order=f(6), on_batch=True),
        # A fixed mask distinguishes the units: scales remain, permutations do not.
        Case("dropout-train", dropout_net, normal(4), dim=6, order=1, on_batch=True, train=True),
        Case("two-inputs", TwoInputs, several(normal(4), normal(3)), dim=5, order=2**5 * f(5)),
        Case(
            "keyword-inputs", TwoInputs, named(a=normal(4), b=normal(3)), dim=5, order=2**5 * f(5)
        ),
        Case("tuple-output", partial(TupleOutput, False), normal(4), dim=0, order=2**4 * f(4)),
        Case("dict-output", partial(TupleOutput, True), normal(4), dim=0, order=2**4 * f(4)),
        # A layer nobody calls: all 9 of its entries are free.
        Case("unused-layer", Unused, normal(4), dim=9, order=2**5 * f(5)),
        Case("frozen-layer", frozen_net, normal(4), dim=0, order=2**5 * f(5)),
        Case(
            "unknown-cumsum",
            partial(Unknown, cumsum_channels),
            normal(4),
            dim=0,
            order=2**4 * f(4),
            pinned=("cumsum",),
            note="cumsum mixes the channels in order: the first hidden space is trivial",
        ),
        Case(
            "unknown-sort",
            partial(Unknown, sort_channels),
            normal(4),
            dim=0,
            order=2**4 * f(4),
            pinned=("sort",),
            note="sorting the channels forgets which unit is which: not ours to claim",
        ),
    ]


CASES: tuple[Case, ...] = (*_mlp_cases(), *_conv_cases(), *_sharing_cases())
