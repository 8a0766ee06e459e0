"""What the claims act on: perceptrons with generic weights, real images, and action (22)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

import paramsym as ps
from paramsym.numerics import VERIFY_TOLERANCE, relative_error

Params = dict[str, Tensor]


class Power(nn.Module):
    """σ(z) = max(z, 0)^α on every unit: homogeneous of degree α."""

    def __init__(self, degree: float) -> None:
        super().__init__()
        self.degree = degree

    def forward(self, z: Tensor) -> Tensor:
        """Apply to every unit."""
        return torch.relu(z) ** self.degree


def shrink(r: Tensor) -> Tensor:
    """f(r) = 1/(1 + r), far from constant at any r."""
    return 1 / (1 + r)


class Radial(nn.Module):
    """σ(z) = f(‖z‖) z."""

    def __init__(self, f: Callable[[Tensor], Tensor] = shrink) -> None:
        super().__init__()
        self.f = f

    def forward(self, z: Tensor) -> Tensor:
        """Rescale every vector along the last axis."""
        return self.f(torch.linalg.vector_norm(z, dim=-1, keepdim=True)) * z


@dataclass(frozen=True)
class Equivariant:
    """An activation σ with a group G and π such that σ(gz) = π(g)σ(z), and a pair that breaks it.

    `outside` maps a member g to a pair (g', π') that does not belong together.
    """

    name: str
    activation: nn.Module
    group: Callable[[int], ps.groups.Group]
    pi: Callable[[Tensor], Tensor]
    dpi: Callable[[Tensor], Tensor]
    outside: Callable[[Tensor], tuple[Tensor, Tensor]]


def same(matrix: Tensor) -> Tensor:
    """π(g) = g."""
    return matrix


def power(degree: float) -> Callable[[Tensor], Tensor]:
    """π(g) = g^α for a diagonal g."""
    return lambda g: torch.diag(g.diagonal() ** degree)


def times(degree: float) -> Callable[[Tensor], Tensor]:
    """dπ(M) = αM."""
    return lambda m: degree * m


def one_negative(g: Tensor) -> tuple[Tensor, Tensor]:
    """One scale of the wrong sign."""
    flipped = torch.ones(len(g), dtype=g.dtype)
    flipped[0] = -1.0
    return g * flipped, g * flipped


def homogeneous(degree: float) -> Equivariant:
    """max(z, 0)^α and the positive diagonal matrices."""
    return Equivariant(
        f"max(z, 0)^{degree:g}",
        nn.ReLU() if degree == 1 else Power(degree),
        ps.groups.PositiveScaling,
        power(degree),
        times(degree),
        # A negative scale has no real power of a fractional degree; π(g) = |g|^α is what is left.
        lambda g: (one_negative(g)[0], power(degree)(g)),
    )


LINEAR = Equivariant(
    "identity",
    nn.Identity(),
    ps.groups.GeneralLinear,
    same,
    same,
    lambda g: (g, torch.linalg.inv(g)),
)
RELU = homogeneous(1)
RELU_SQUARED = homogeneous(2)
RADIAL = Equivariant(
    "radial",
    Radial(),
    ps.groups.Orthogonal,
    same,
    same,
    lambda g: (1.5 * g, 1.5 * g),
)


def leaky(slope: float) -> Equivariant:
    """LeakyReLU and the positive diagonal matrices."""
    return Equivariant(
        f"LeakyReLU({slope:g})",
        nn.LeakyReLU(slope),
        ps.groups.PositiveScaling,
        same,
        same,
        one_negative,
    )


def normal(*shape: int, seed: int) -> Tensor:
    """Independent standard normal entries in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def perceptron(
    widths: Sequence[int], *activations: nn.Module, bias: bool = True, seed: int = 0
) -> nn.Sequential:
    """Linear layers of these widths at generic weights, the activations in turn in between."""
    layers: list[nn.Module] = []
    for (fan_in, fan_out), activation in zip(pairwise(widths), cycle(activations), strict=False):
        layers += [nn.Linear(fan_in, fan_out, bias=bias), activation]
    return at_random(nn.Sequential(*layers[:-1]), seed)


Net = TypeVar("Net", bound=nn.Module)


def at_random(net: Net, seed: int) -> Net:
    """The same net in float64, with normal weights that keep the size of what passes through."""
    net.double()
    with torch.no_grad():
        for index, parameter in enumerate(net.parameters()):
            bias = parameter.dim() == 1
            scale = 0.3 if bias else 1 / math.sqrt(parameter[0].numel())
            parameter.copy_(scale * normal(*parameter.shape, seed=1000 * seed + index))
    return net


def weights(net: nn.Module) -> Params:
    """The parameters as a dict of plain tensors."""
    return {name: value.detach().clone() for name, value in net.named_parameters()}


def outputs(net: nn.Module, params: Params, x: Tensor) -> Tensor:
    """F(θ)(x) at the given θ."""
    result: Tensor = torch.func.functional_call(net, params, (x,))
    return result


@cache
def _images() -> Tensor:
    from sklearn.datasets import load_digits

    pixels = torch.tensor(load_digits().data, dtype=torch.float64)
    return pixels - pixels.mean(0)


def digits(count: int, features: int = 64) -> Tensor:
    """Images of handwritten digits: their first principal components, scaled to size one."""
    pixels = _images()
    axes = torch.linalg.svd(pixels, full_matrices=False).Vh[:features]
    projected = pixels @ axes.T
    # Pixels that are always blank leave directions without any variance.
    scaled: Tensor = projected / projected.std(0).clamp_min(projected.std() * 1e-3)
    return scaled[:count]


def member(group: ps.groups.Group, seed: int) -> Tensor:
    """The matrix of a random element, discrete part included; well conditioned at any size."""
    scale = 0.3 * math.sqrt(group.n / max(group.dim, 1))
    return group.matrix(group.sample(seed=seed, scale=scale))


def combination(group: ps.groups.Group, seed: int) -> Tensor:
    """A random element of the Lie algebra."""
    return group.hat(normal(group.dim, seed=seed))


def act(params: Params, g: Sequence[Tensor], pi: Sequence[Tensor]) -> Params:
    """W_i ↦ g_i W_i π_{i−1}⁻¹ and b_i ↦ g_i b_i, eq. (22); g and pi run over hidden layers."""
    names = [name for name in params if name.endswith("weight")]
    result = dict(params)
    for i, name in enumerate(names):
        weight, bias = params[name], name.replace("weight", "bias")
        if i > 0:
            weight = torch.linalg.solve(pi[i - 1].T, weight.T).T
        if i < len(g):
            weight = g[i] @ weight
            if bias in params:
                result[bias] = g[i] @ params[bias]
        result[name] = weight
    return result


def tangent(params: Params, m: Sequence[Tensor], dpi: Sequence[Tensor]) -> Params:
    """M_i W_i − W_i dπ(M_{i−1}) and M_i b_i, eq. (23)."""
    names = [name for name in params if name.endswith("weight")]
    result = {name: torch.zeros_like(value) for name, value in params.items()}
    for i, name in enumerate(names):
        bias = name.replace("weight", "bias")
        if i > 0:
            result[name] = result[name] - params[name] @ dpi[i - 1]
        if i < len(m):
            result[name] = result[name] + m[i] @ params[name]
            if bias in params:
                result[bias] = m[i] @ params[bias]
    return result


def hidden(params: Params) -> list[int]:
    """The widths of the hidden layers of a perceptron."""
    return [len(value) for name, value in params.items() if name.endswith("weight")][:-1]


def derivative(
    function: Callable[[Tensor], Tensor], at: Tensor, along: Tensor
) -> tuple[Tensor, Tensor]:
    """A function's value, and its derivative along a direction."""
    pair = torch.func.jvp(function, (at,), (along,))
    return pair[0], pair[1]


def flatten(params: Params) -> Tensor:
    """One vector, in the order of the dict."""
    return torch.cat([value.reshape(-1) for value in params.values()])


def unflatten(vector: Tensor, like: Params) -> Params:
    """The dict that `flatten` made a vector of."""
    pieces = vector.split([value.numel() for value in like.values()])
    return {name: piece.view_as(like[name]) for name, piece in zip(like, pieces, strict=True)}


def change(net: nn.Module, params: Params, moved: Params, x: Tensor) -> float:
    """How much the function changed on x, relative to its largest output."""
    return relative_error(outputs(net, moved, x), outputs(net, params, x))


def odd() -> Equivariant:
    """Tanh and the matrices that permute units and flip signs: a finite group."""
    return Equivariant(
        "tanh",
        nn.Tanh(),
        ps.groups.SignedPermutation,
        same,
        same,
        lambda g: (1.5 * g, 1.5 * g),
    )


def holds(error: float) -> bool:
    """An equality of real numbers, measured in float64."""
    return error < VERIFY_TOLERANCE


def broken(error: float) -> bool:
    """A control has to be off by more than half of the digits that an equality has."""
    return error > math.sqrt(VERIFY_TOLERANCE)
