"""One operation between a writer and a reader: one entry per row of the table of groups.

`first` writes the space under test, `op` sits on it, `last` reads it. For every entry the dimension
and the order of its largest group are counted by hand; `allowed` and `forbidden` are motions of the
weights written by hand, true and false symmetries that need no engine to be judged.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.models import (
    Case,
    Pointwise,
    Radial,
    cube,
    gaussian,
    normal,
    relu_squared,
    several,
    tokens,
)

State = dict[str, Tensor]
Motion = Callable[[State], State]
N = 4  # units in the space under test
PERMUTED = math.factorial(N)
SIGNED = 2**N * PERMUTED


@dataclass(frozen=True)
class Operation(Case):
    """A one-operation net, the row of the table it stands for, and motions written by hand."""

    row: str = ""
    allowed: dict[str, Motion] = field(default_factory=dict)
    forbidden: dict[str, Motion] = field(default_factory=dict)


# --------------------------------------------------------------------------- motions by hand


def through(
    matrix: Tensor | None = None,
    reader: Tensor | None = None,
    *,
    shift: Tensor | None = None,
    constant: Tensor | None = None,
    first: str = "first",
    last: str = "last",
) -> Motion:
    """W ↦ AW, b ↦ Ab + t and out ↦ out·B⁻¹, its bias less out·B⁻¹·c; A and B default to 1."""

    def move(state: State) -> State:
        new = dict(state)
        width = state[f"{last}.weight"].shape[1]
        one = torch.eye(width, dtype=torch.float64)
        a = one if matrix is None else matrix
        back = torch.linalg.inv(a if reader is None else reader)
        weight = state[f"{first}.weight"]
        new[f"{first}.weight"] = (a @ weight.flatten(1)).reshape(weight.shape)
        if f"{first}.bias" in state:
            bias = a @ state[f"{first}.bias"]
            new[f"{first}.bias"] = bias if shift is None else bias + shift
        read = state[f"{last}.weight"]
        new[f"{last}.weight"] = torch.einsum("oi...,ij->oj...", read, back)
        if constant is not None:
            new[f"{last}.bias"] = state[f"{last}.bias"] - read @ back @ constant
        return new

    return move


def diagonal(*values: float) -> Tensor:
    return torch.diag(torch.tensor(values, dtype=torch.float64))


def generic(n: int = N) -> Tensor:
    """A matrix of no special kind, well conditioned."""
    g = torch.Generator().manual_seed(7)
    return torch.eye(n, dtype=torch.float64) + 0.4 * torch.randn(
        n, n, dtype=torch.float64, generator=g
    )


def rotation(n: int = N) -> Tensor:
    return torch.linalg.qr(generic(n)).Q


def swap(n: int = N) -> Tensor:
    return torch.eye(n, dtype=torch.float64)[[1, 0, *range(2, n)]]


def only_writer(state: State) -> State:
    """The writer moves and nobody follows."""
    new = dict(state)
    new["first.weight"] = state["first.weight"] * 1.5
    return new


SHIFT = torch.tensor([0.5, -0.3, 0.8, 0.2], dtype=torch.float64)
ONE_SCALE = diagonal(1.7, 1.0, 1.0, 1.0)
SCALES = diagonal(1.7, 0.4, 2.0, 0.9)
FLIP = diagonal(-1.0, 1.0, 1.0, 1.0)
MIXED = diagonal(-1.7, 0.4, -2.0, 0.9)


# ------------------------------------------------------------------------------------- the nets


def chain(op: Callable[[], nn.Module], bias: bool = True, read: bool = True) -> nn.Module:
    """Linear(5, 4), the operation, Linear(4, 5)."""
    parts = {"first": nn.Linear(5, N, bias=bias), "op": op(), "last": nn.Linear(N, 5, bias=read)}
    return nn.Sequential(OrderedDict(parts))


def function(f: Callable[[Tensor], Tensor]) -> Callable[[], nn.Module]:
    return partial(Pointwise, f)


def pointwise(
    name: str, row: str, op: Callable[[], nn.Module], dim: int, order: int | None, **rest: Any
) -> Operation:
    """An entry for one pointwise operation between two linear layers."""
    bias, read = rest.pop("bias", True), rest.pop("read", True)
    return Operation(
        name, partial(chain, op, bias, read), normal(5), dim=dim, order=order, row=row, **rest
    )


class Between(nn.Module):
    """A writer, a free-form body on what it wrote, a reader."""

    def __init__(
        self,
        body: Callable[[Tensor], Tensor],
        width: int = N,
        wide: int = N,
        out: int = 5,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, width, bias=bias), nn.Linear(wide, out)
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(self.first(x)))


class ConvBetween(nn.Module):
    """A convolution writes, a body moves pixels, a 1×1 convolution or a linear layer reads."""

    def __init__(self, body: Callable[[Tensor], Tensor], last: nn.Module) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 3, 1), last
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(self.first(x)))


class TwoWriters(nn.Module):
    """Two writers meet in one operation."""

    def __init__(self, meet: Callable[[Tensor, Tensor], Tensor], wide: int = N) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, N), nn.Linear(5, N)
        self.last = nn.Linear(wide, 5)
        self.meet = meet

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.meet(self.first(x), self.second(x)))


class Tied(nn.Module):
    """W writes and Wᵀ reads."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first = nn.Linear(5, N)
        self.bias = nn.Parameter(torch.zeros(5))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.activation(self.first(x)), self.first.weight.t(), self.bias)


class Scores(nn.Module):
    """Products of two projections of a sequence, tokens against tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, N), nn.Linear(5, N)

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.first(x), self.last(x).transpose(1, 2))


class TokenMixing(nn.Module):
    """A linear layer along the tokens between two along the channels."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, N), nn.Linear(N, 5)
        self.mix = nn.Linear(3, 4, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x)).transpose(1, 2)
        return self.last(torch.tanh(self.mix(h)).transpose(1, 2))


class Lookup(nn.Module):
    """An embedding writes."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Embedding(7, N), nn.Linear(N, 5)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.activation(self.first(x)).mean(dim=1))


class Gain(nn.Module):
    """A bare vector of gains between an activation and a reader."""

    def __init__(self, shape: tuple[int, ...] = (N,), divide: bool = False) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, N), nn.Linear(N, 5)
        self.gain = nn.Parameter(torch.ones(shape))
        self.divide = divide

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        return self.last(h / self.gain if self.divide else h * self.gain)


def pixel(
    body: Callable[[Tensor], Tensor], last: Callable[[], nn.Module]
) -> Callable[[], nn.Module]:
    return lambda: ConvBetween(body, last())


# --------------------------------------------------------------------------------- the entries


def _nothing() -> list[Operation]:
    row = "nothing"
    gl = {"matrix": through(generic())}
    affine = {**gl, "translation": through(generic(), shift=SHIFT, constant=SHIFT)}
    half = {"translation": through(generic(), shift=SHIFT)}
    off = {"writer alone": only_writer}
    return [
        # GL(4) ⋉ R⁴
        pointwise("nothing-bias", row, nn.Identity, 20, None, allowed=affine, forbidden=off),
        pointwise(
            "nothing-no-bias", row, nn.Identity, 16, None, bias=False, allowed=gl, forbidden=off
        ),
        # The first bias needs a second one to absorb a translation.
        pointwise(
            "nothing-unread-bias",
            row,
            nn.Identity,
            16,
            None,
            read=False,
            allowed=gl,
            forbidden=half,
        ),
        pointwise(
            "scalar-multiple", row, function(lambda z: 2.5 * z), 20, None, allowed=gl, forbidden=off
        ),
        pointwise("negation", row, function(torch.neg), 20, None, allowed=gl, forbidden=off),
        pointwise(
            "dropout-eval", row, partial(nn.Dropout, 0.5), 20, None, allowed=gl, forbidden=off
        ),
        pointwise(
            "cast",
            row,
            function(lambda z: z.to(torch.float64)),
            20,
            None,
            allowed=gl,
            forbidden=off,
        ),
        pointwise("clone", row, function(torch.clone), 20, None, allowed=gl, forbidden=off),
    ]


def _homogeneous() -> list[Operation]:
    row = "homogeneous"
    one = {"scales": through(SCALES), "swap": through(swap())}
    two = {"scales": through(SCALES, SCALES**2), "swap": through(swap())}
    root = {"scales": through(SCALES, SCALES**0.5)}
    off = {"flip": through(FLIP), "matrix": through(generic()), "writer alone": only_writer}
    entry = partial(pointwise, dim=N, order=PERMUTED, on_batch=True, allowed=one, forbidden=off)
    table: list[tuple[str, Callable[[], nn.Module]]] = [
        ("relu", nn.ReLU),
        ("relu-in-place", partial(nn.ReLU, inplace=True)),
        ("leaky-relu", partial(nn.LeakyReLU, 0.3)),
        ("rrelu-eval", nn.RReLU),
        ("clamp-at-zero", function(lambda z: z.clamp(min=0))),
        ("maximum-of-multiples", function(lambda z: torch.maximum(z, 0.3 * z))),
        ("relu-of-leaky", lambda: nn.Sequential(nn.LeakyReLU(0.3), nn.ReLU())),
    ]
    return [
        *(entry(name, row, op) for name, op in table),
        entry("relu-no-bias", row, nn.ReLU, bias=False),
        entry("relu-squared", row, function(relu_squared), allowed=two),
        entry(
            "sqrt-of-relu",
            row,
            function(lambda z: F.relu(z).sqrt()),
            allowed=root,
            leftover=None,
            note="the square root has no derivative at a unit that is off",
        ),
        entry(
            "prelu-shared",
            row,
            partial(nn.PReLU, 1, 0.3),
            order=2 * PERMUTED,
            allowed={**one, "all flips": _prelu_flip(list(range(N)))},
            forbidden={**off, "one flip": _prelu_flip([0])},
        ),
    ]


def _prelu_flip(units: list[int]) -> Motion:
    """w ↦ −w, a ↦ 1/a, w_out ↦ −a·w_out on some units."""

    def move(state: State) -> State:
        new = {name: value.clone() for name, value in state.items()}
        slopes = state["op.weight"].expand(N)
        for unit in units:
            new["first.weight"][unit] *= -1
            new["first.bias"][unit] *= -1
            new["last.weight"][:, unit] *= -slopes[unit]
            new["op.weight"][unit if new["op.weight"].numel() > 1 else 0] = 1 / slopes[unit]
        return new

    return move


def _parity() -> list[Operation]:
    odd, even = "odd", "even"
    both = {"flip": through(FLIP), "swap": through(swap())}
    blind = {"flip": through(FLIP, torch.eye(N, dtype=torch.float64)), "swap": through(swap())}
    off = {"scale": through(ONE_SCALE), "matrix": through(generic())}
    entry = partial(pointwise, dim=0, order=SIGNED, allowed=both, forbidden=off)
    smooth: list[tuple[str, Callable[[], nn.Module]]] = [
        ("tanh", nn.Tanh),
        ("erf", function(torch.erf)),
        ("sin", function(torch.sin)),
        ("atan", function(torch.atan)),
        ("asinh", function(torch.asinh)),
        ("tanhshrink", nn.Tanhshrink),
    ]
    kinked: list[tuple[str, Callable[[], nn.Module]]] = [
        ("hardtanh", nn.Hardtanh),
        ("clamp-symmetric", function(lambda z: z.clamp(-0.7, 0.7))),
        ("softsign", nn.Softsign),
        ("softshrink", partial(nn.Softshrink, 0.3)),
        ("hardshrink", partial(nn.Hardshrink, 0.3)),
    ]
    cut = "only piecewise smooth: units that stay in one piece are flat in more directions"
    return [
        *(entry(name, odd, op) for name, op in smooth),
        *(entry(name, odd, op, leftover=None, note=cut) for name, op in kinked),
        entry("cos", even, function(torch.cos), allowed=blind),
        entry("gaussian", even, function(gaussian), allowed=blind),
        entry("cosh", even, function(torch.cosh), allowed=blind),
        entry("tanh-squared", even, function(lambda z: torch.tanh(z) ** 2), allowed=blind),
    ]


def _exponential() -> list[Operation]:
    row = "exp"
    scale = torch.diag(torch.exp(SHIFT))
    one = torch.eye(N, dtype=torch.float64)
    motion = {"translation": through(one, scale, shift=SHIFT), "swap": through(swap())}
    off = {"scale": through(ONE_SCALE), "flip": through(FLIP)}
    return [
        pointwise("exp", row, function(torch.exp), N, PERMUTED, allowed=motion, forbidden=off),
        pointwise(
            "exp-no-bias",
            row,
            function(torch.exp),
            0,
            PERMUTED,
            bias=False,
            allowed={"swap": motion["swap"]},
            forbidden=off,
        ),
    ]


def _prelu() -> list[Operation]:
    allowed = {
        "flip": _prelu_flip([0]),
        "scales": through(SCALES),
        "two flips": _prelu_flip([1, 3]),
    }
    return [
        pointwise(
            "prelu-per-unit",
            "PReLU slope",
            partial(nn.PReLU, N),
            N,
            SIGNED,
            on_batch=True,
            allowed=allowed,
            forbidden={"flip that keeps the slope": through(FLIP), "matrix": through(generic())},
        )
    ]


def _monomials() -> list[Operation]:
    row = "homogeneous and odd or even"
    note = "polynomial: quadratic and cubic forms have more decompositions than their units show"
    off = {"matrix": through(generic()), "writer alone": only_writer}
    entry = partial(pointwise, dim=N, order=SIGNED, forbidden=off)
    size = MIXED.abs()
    return [
        entry(
            "abs",
            row,
            function(torch.abs),
            on_batch=True,
            allowed={"diagonal": through(MIXED, size)},
        ),
        entry(
            "square",
            row,
            function(torch.square),
            leftover=None,
            note=note,
            allowed={"diagonal": through(MIXED, size**2 + 0 * size)},
        ),
        entry(
            "cube",
            row,
            function(cube),
            leftover=None,
            note=note,
            allowed={"diagonal": through(MIXED, MIXED**3)},
        ),
        entry(
            "signed-square",
            row,
            function(lambda z: z * z.abs()),
            on_batch=True,
            allowed={"diagonal": through(MIXED, MIXED * size)},
        ),
        entry(
            "pow-1.5-of-abs",
            row,
            function(lambda z: z.abs() ** 1.5),
            on_batch=True,
            allowed={"diagonal": through(MIXED, size**1.5)},
        ),
    ]


def _affine_flips() -> list[Operation]:
    row = "sigmoid flip"
    unit = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    flip = through(FLIP, FLIP, constant=unit)
    off = {"scale": through(ONE_SCALE), "flip without the constant": through(FLIP)}
    entry = partial(pointwise, dim=0)
    cut = "hardsigmoid is linear inside |z| < 3"
    return [
        entry(
            "sigmoid",
            row,
            nn.Sigmoid,
            order=SIGNED,
            allowed={"flip": flip, "swap": through(swap())},
            forbidden=off,
        ),
        entry(
            "sigmoid-unread-bias",
            row,
            nn.Sigmoid,
            order=PERMUTED,
            read=False,
            allowed={"swap": through(swap())},
            forbidden=off,
        ),
        entry(
            "hardsigmoid",
            row,
            nn.Hardsigmoid,
            order=SIGNED,
            allowed={"flip": flip},
            forbidden=off,
            leftover=None,
            note=cut,
        ),
    ]


def _others() -> list[Operation]:
    swapped = {"swap": through(swap())}
    off = {"flip": through(FLIP), "scale": through(ONE_SCALE), "matrix": through(generic())}
    soft = partial(
        pointwise, row="softplus, SiLU, GELU", dim=0, order=PERMUTED, allowed=swapped, forbidden=off
    )
    other = partial(
        pointwise, row="any other", dim=0, order=PERMUTED, allowed=swapped, forbidden=off
    )
    kink = {"leftover": None, "note": "only piecewise smooth"}
    return [
        soft("softplus", op=nn.Softplus),
        soft("silu", op=nn.SiLU),
        soft("gelu", op=nn.GELU),
        soft("gelu-tanh", op=partial(nn.GELU, approximate="tanh")),
        soft("hardswish", op=nn.Hardswish, **kink),
        other("mish", op=nn.Mish),
        other("logsigmoid", op=nn.LogSigmoid),
        other("elu", op=nn.ELU, **kink),
        other("selu", op=nn.SELU, **kink),
        other("celu", op=partial(nn.CELU, 0.7), **kink),
        other("relu6", op=nn.ReLU6, forbidden={"scale": through(20 * ONE_SCALE)}, **kink),
        other("threshold", op=partial(nn.Threshold, 0.2, 0.1), **kink),
        other("clamp-skewed", op=function(lambda z: z.clamp(-0.5, 1.0)), **kink),
        # An addition of one is a translation in between: no sign, no scale.
        other("tanh-of-shifted", op=function(lambda z: torch.tanh(torch.tanh(z) + 1.0))),
        # 1/(1 + z²) is even.
        other(
            "lorentzian",
            op=function(lambda z: 1.0 / (1.0 + z**2)),
            order=SIGNED,
            row="even",
            allowed={"flip": through(FLIP, torch.eye(N, dtype=torch.float64))},
            forbidden={"scale": through(ONE_SCALE)},
        ),
    ]


def _radial() -> list[Operation]:
    off = {"scale": through(ONE_SCALE), "matrix": through(generic())}
    return [
        Operation(
            "radial",
            partial(chain, Radial),
            normal(5),
            dim=6,
            row="radial",
            allowed={"rotation": through(rotation())},
            forbidden=off,
        ),
        Operation(
            "radial-of-squares",
            lambda: Between(lambda z: z / (1 + (z**2).sum(-1, keepdim=True)).sqrt()),
            normal(5),
            dim=6,
            row="radial",
            allowed={"rotation": through(rotation())},
            forbidden=off,
        ),
    ]


def normed(after: Callable[[], nn.Module], bias: bool = True) -> nn.Module:
    """Linear, batch norm, activation, linear."""
    parts = {
        "first": nn.Linear(5, N, bias=bias),
        "norm": nn.BatchNorm1d(N),
        "op": after(),
        "last": nn.Linear(N, 5),
    }
    return nn.Sequential(OrderedDict(parts))


def _into_norm(scale: Tensor, shift: Tensor | None) -> Motion:
    """A rescaling in front of an eval batch norm, undone by its gain and bias."""

    def move(state: State) -> State:
        new = dict(state)
        c = scale.diagonal()
        t = torch.zeros(N, dtype=torch.float64) if shift is None else shift
        new["first.weight"] = c[:, None] * state["first.weight"]
        new["first.bias"] = c * state["first.bias"] + t
        rate = state["norm.weight"] / (state["norm.running_var"] + 1e-5).sqrt()
        new["norm.weight"] = state["norm.weight"] / c
        new["norm.bias"] = (
            state["norm.bias"] - rate * state["norm.running_mean"] * (1 - 1 / c) - rate * t / c
        )
        return new

    return move


def _batch_norm() -> list[Operation]:
    row = "BatchNorm"
    eval_allowed = {"scales": _into_norm(SCALES, None), "diagonal": _into_norm(MIXED, SHIFT)}
    off = {"writer alone": only_writer}

    def train_shift(state: State) -> State:
        return {**state, "first.bias": state["first.bias"] + SHIFT}

    def train_flip(state: State) -> State:
        flip = FLIP.diagonal()
        return {
            **state,
            "first.weight": flip[:, None] * state["first.weight"],
            "first.bias": flip * state["first.bias"],
            "norm.weight": flip * state["norm.weight"],
        }

    def train_scale(state: State) -> State:
        return {**state, "first.weight": SCALES @ state["first.weight"]}

    train: dict[str, Any] = {
        "train": True,
        "allowed": {"translation": train_shift, "flip": train_flip},
        "forbidden": {"scale, broken by eps": train_scale},
    }
    silu, relu, tanh = partial(normed, nn.SiLU), partial(normed, nn.ReLU), partial(normed, nn.Tanh)
    entry = partial(Operation, inputs=normal(5), row=row)
    still: dict[str, Any] = {"allowed": eval_allowed, "forbidden": off}
    return [
        # Scale and translation in front; the sign of the scale is discrete, tanh has its own.
        entry("batch-norm-eval-silu", silu, dim=2 * N, order=SIGNED, **still),
        entry("batch-norm-eval-relu", relu, dim=3 * N, order=SIGNED, on_batch=True, **still),
        entry("batch-norm-eval-tanh", tanh, dim=2 * N, order=2**N * SIGNED, **still),
        entry("batch-norm-eval-no-bias", partial(normed, nn.SiLU, False), dim=N, order=SIGNED),
        entry("batch-norm-train-silu", silu, dim=N, order=SIGNED, **train),
        entry("batch-norm-train-relu", relu, dim=2 * N, order=SIGNED, on_batch=True, **train),
        entry("batch-norm-train-tanh", tanh, dim=N, order=2**N * SIGNED, **train),
        # A linear reader: the gain's diagonal and the bias' translation behind the norm as well;
        # in eval mode all of GL(4) ⋉ R⁴ passes by conjugation with the gains.
        entry(
            "batch-norm-eval-linear",
            partial(normed, nn.Identity),
            kernel=16 + 4 + 4 + 4,
            leftover=12,
            note="off-diagonal GL(4) passes the gains by conjugation only",
            **still,
        ),
        entry(
            "batch-norm-train-linear",
            partial(normed, nn.Identity),
            dim=3 * N,
            order=2**N * SIGNED,
            **train,
        ),
    ]


def _products() -> list[Operation]:
    row = "GLU"
    f = math.factorial

    def up(values: Tensor) -> Motion:
        return through(values, first="second")

    units = {"diagonal on up": up(MIXED)}
    off = {"scale on the gate": through(ONE_SCALE), "rotation on up": up(generic())}
    entry = partial(Operation, inputs=normal(5), row=row, allowed=units, forbidden=off)

    def gate(act: Callable[[Tensor], Tensor]) -> Callable[[], nn.Module]:
        return lambda: TwoWriters(lambda g, u: act(g) * u)

    halves = partial(Between, width=2 * N)
    return [
        entry("sigmoid-gate", gate(torch.sigmoid), dim=N, order=SIGNED),
        entry("silu-gate", gate(F.silu), dim=N, order=SIGNED),
        entry("gelu-gate", gate(F.gelu), dim=N, order=SIGNED),
        entry("tanh-gate", gate(torch.tanh), dim=N, order=2**N * SIGNED),
        entry(
            "relu-gate",
            gate(F.relu),
            dim=2 * N,
            order=SIGNED,
            on_batch=True,
            forbidden={"flip of the gate": through(FLIP)},
        ),
        Operation(
            "glu", lambda: halves(partial(F.glu, dim=-1)), normal(5), dim=N, order=SIGNED, row=row
        ),
        Operation(
            "swiglu-chunk",
            lambda: halves(lambda z: F.silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1]),
            normal(5),
            dim=N,
            order=SIGNED,
            row=row,
        ),
        # g ⊙ u: one free diagonal each.
        Operation(
            "bilinear",
            gate(lambda g: g),
            normal(5),
            dim=2 * N,
            leftover=None,
            row=row,
            allowed={**units, "diagonal on the gate": through(MIXED)},
            forbidden={"rotation on up": up(generic())},
            note="polynomial",
        ),
        # u / (1 + g²): up keeps its diagonal, the gate its signs.
        Operation(
            "quotient",
            lambda: TwoWriters(lambda g, u: u / (1.0 + g**2)),
            normal(5),
            dim=N,
            order=2**N * SIGNED,
            row=row,
            allowed=units,
            forbidden=off,
        ),
        # A gate of one number per sample leaves the channels to GL(4).
        Operation(
            "scalar-gate",
            lambda: Between(lambda z: z[:, :4] * torch.sigmoid(z[:, 4:]), width=5),
            normal(5),
            dim=16,
            row=row,
        ),
        Operation("gain-parameter", Gain, normal(5), dim=N, order=2**N * SIGNED, row=row),
        Operation(
            "gain-division",
            partial(Gain, divide=True),
            normal(5),
            dim=N,
            order=2**N * SIGNED,
            row=row,
        ),
        # One gain for all units: a single scale, its sign, and the signs of tanh.
        Operation(
            "gain-scalar", partial(Gain, shape=(1,)), normal(5), dim=1, order=2 * SIGNED, row=row
        ),
        # q·k: (A, A⁻ᵀ), the biases move along.
        Operation(
            "scores",
            Scores,
            normal(3, 5),
            dim=N * N,
            row=row,
            allowed={"matrix": _scores(generic())},
            forbidden={"writer alone": only_writer},
        ),
        Operation(
            "three-factors",
            lambda: Between(lambda z: torch.tanh(z[:, :2]) * z[:, 2:4] * z[:, 4:], width=6, wide=2),
            normal(5),
            leftover=None,
            note="polynomial in two of the three factors: they may be exchanged",
            dim=4,
            row=row,
        ),
        Operation(
            "softsign-by-hand",
            lambda: Between(lambda z: z / (1 + z.abs())),
            normal(5),
            dim=0,
            order=SIGNED,
            leftover=None,
            note="not smooth at 0",
            row="odd",
            allowed={"flip": through(FLIP)},
            forbidden={"scale": through(ONE_SCALE)},
        ),
        Operation(
            "silu-by-hand",
            lambda: Between(lambda z: z * torch.sigmoid(z)),
            normal(5),
            dim=0,
            order=f(N),
            row="softplus, SiLU, GELU",
            allowed={"swap": through(swap())},
            forbidden={"flip": through(FLIP)},
        ),
    ]


def _scores(matrix: Tensor) -> Motion:
    def move(state: State) -> State:
        dual = torch.linalg.inv(matrix).T
        return {
            "first.weight": matrix @ state["first.weight"],
            "first.bias": matrix @ state["first.bias"],
            "last.weight": dual @ state["last.weight"],
            "last.bias": dual @ state["last.bias"],
        }

    return move


def _sums() -> list[Operation]:
    residual, concat = "residual add", "concat"
    f = math.factorial

    def joint(matrix: Tensor) -> Motion:
        def move(state: State) -> State:
            new = through(matrix)(state)
            for name in ("second.weight", "second.bias"):
                new[name] = matrix @ state[name]
            return new

        return move

    def trade(state: State) -> State:
        return {
            **state,
            "first.bias": state["first.bias"] + SHIFT,
            "second.bias": state["second.bias"] - SHIFT,
        }

    add = partial(Operation, inputs=normal(5), row=residual)
    cat = partial(Operation, inputs=normal(5), row=concat)
    alone = {"one summand alone": through(FLIP)}
    return [
        add(
            "add-tanh-tanh",
            lambda: TwoWriters(lambda a, b: torch.tanh(a) + torch.tanh(2 * b)),
            dim=0,
            order=SIGNED,
            allowed={"flip": joint(FLIP)},
            forbidden=alone,
        ),
        add(
            "add-relu-relu",
            lambda: TwoWriters(lambda a, b: F.relu(a) + F.relu(b)),
            dim=N,
            on_batch=True,
            order=PERMUTED,
            allowed={"scales": joint(SCALES)},
            forbidden=alone,
        ),
        add(
            "subtract-relu-relu",
            lambda: TwoWriters(lambda a, b: F.relu(a) - 2 * F.relu(b)),
            dim=N,
            on_batch=True,
            order=PERMUTED,
            allowed={"scales": joint(SCALES)},
            forbidden=alone,
        ),
        add(
            "add-relu-tanh",
            lambda: TwoWriters(lambda a, b: F.relu(a) + torch.tanh(b)),
            dim=0,
            order=PERMUTED,
            on_batch=True,
            allowed={"swap": joint(swap())},
            forbidden=alone,
        ),
        # The sum before the activation: the biases trade a translation.
        add(
            "tanh-of-sum",
            lambda: TwoWriters(lambda a, b: torch.tanh(a + 0.5 * b)),
            kernel=N + 5 * N,
            leftover=5 * N,
            order=SIGNED,
            dim=None,
            allowed={"flip": joint(FLIP)},
            forbidden=alone,
            note="both summands read the same x: the sum of their weights is all that counts",
        ),
        add(
            "skip-of-units",
            lambda: Between(lambda z: z + torch.tanh(z)),
            dim=0,
            order=SIGNED,
            allowed={"flip": through(FLIP)},
            forbidden={"scale": through(ONE_SCALE)},
        ),
        cat(
            "cat-tanh-relu",
            lambda: TwoWriters(lambda a, b: torch.cat([torch.tanh(a), F.relu(b)], -1), 2 * N),
            dim=N,
            order=SIGNED * PERMUTED,
            on_batch=True,
        ),
        cat(
            "cat-linear-silu",
            lambda: TwoWriters(lambda a, b: torch.cat([a, F.silu(b)], -1), 2 * N),
            dim=20,
            kernel=20,
            leftover=0,
        ),
        cat(
            "split-and-cat",
            lambda: Between(lambda z: torch.cat(z.split([1, 3], -1)[::-1], -1).tanh()),
            dim=0,
            order=None,
        ),
        cat(
            "stack-sum",
            lambda: TwoWriters(lambda a, b: torch.stack([torch.tanh(a), F.silu(b)], 1).sum(1)),
            dim=0,
            order=f(N),
            forbidden={"flip": joint(FLIP)},
        ),
    ]


def _layout() -> list[Operation]:
    f = math.factorial
    flat, mixed = "flatten", "layout"
    pixels = normal(4, 3, 3)
    linear_read = partial(nn.Linear, 27, 8)
    one = partial(nn.Conv2d, 3, 4, 1)
    three = partial(nn.Conv2d, 3, 4, 3)
    return [
        Operation(
            "flatten-relu",
            pixel(lambda z: F.relu(z).flatten(1), linear_read),
            pixels,
            dim=3,
            order=f(3),
            on_batch=True,
            row=flat,
        ),
        Operation(
            "flatten-tanh",
            pixel(lambda z: torch.tanh(z).flatten(1), linear_read),
            pixels,
            dim=0,
            order=8 * f(3),
            row=flat,
        ),
        # g ⊗ I with g in GL(3) ⋉ R³.
        Operation(
            "flatten-linear", pixel(lambda z: z.flatten(1), linear_read), pixels, dim=12, row=flat
        ),
        Operation(
            "view-and-back",
            lambda: Between(lambda z: torch.tanh(z.view(-1, 2, 2)).flatten(1)),
            normal(5),
            dim=0,
            row=mixed,
        ),
        Operation(
            "permute",
            pixel(lambda z: F.silu(z.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), one),
            pixels,
            dim=0,
            order=f(3),
            row=mixed,
        ),
        Operation(
            "transpose-linear", pixel(lambda z: z.transpose(2, 3), three), pixels, dim=12, row=mixed
        ),
        Operation(
            "roll-pixels", pixel(lambda z: z.roll(1, dims=3), three), pixels, dim=12, row=mixed
        ),
        Operation("flip-pixels", pixel(lambda z: z.flip(2), three), pixels, dim=12, row=mixed),
        Operation(
            "slice-pixels",
            pixel(lambda z: F.relu(z[:, :, 1:, ::2]), one),
            pixels,
            dim=3,
            order=f(3),
            on_batch=True,
            row=mixed,
        ),
        Operation(
            "select-pixel",
            lambda: ConvBetween(lambda z: torch.tanh(z[:, :, 1, 1]), nn.Linear(3, 4)),
            pixels,
            dim=0,
            order=8 * f(3),
            row=mixed,
        ),
        Operation(
            "expand",
            pixel(lambda z: F.relu(z.mean((2, 3), keepdim=True)).expand(-1, -1, 3, 3), one),
            pixels,
            dim=3,
            on_batch=True,
            order=f(3),
            leftover=0,
            row=mixed,
        ),
        Operation(
            "repeat",
            lambda: Between(lambda z: torch.tanh(z).repeat(1, 2), wide=2 * N),
            normal(5),
            dim=0,
            order=SIGNED * 2**N,  # the two copies of every unit may be exchanged
            kernel=5 * N,
            leftover=5 * N,
            row=mixed,
            note="the reader sees every unit twice and only the sum of its two columns counts",
        ),
        Operation(
            "slice-units",
            lambda: Between(lambda z: torch.tanh(z[:, :3]), width=3, wide=3),
            normal(5),
            dim=0,
            order=8 * f(3),
            row=mixed,
        ),
        Operation(
            "token-mixing", partial(TokenMixing, False), normal(3, 5), dim=0, order=None, row=mixed
        ),
        Operation(
            "token-mixing-bias",
            partial(TokenMixing, True),
            normal(3, 5),
            dim=0,
            order=None,
            row=mixed,
        ),
    ]


def _pooling() -> list[Operation]:
    f = math.factorial
    pixels = normal(4, 4, 4)
    one = partial(nn.Conv2d, 3, 4, 1)
    three = partial(nn.Conv2d, 3, 4, 2)
    top, average = "max-pool", "average-pool"
    scale3 = diagonal(1.7, 0.4, 2.0)
    flip3, matrix3 = diagonal(-1.0, 1.0, 1.0), generic(3)
    peak: dict[str, Any] = {
        "allowed": {"scales": through(scale3)},
        "forbidden": {"flip": through(flip3), "matrix": through(matrix3)},
    }
    mean: dict[str, Any] = {
        "allowed": {"matrix": through(matrix3)},
        "forbidden": {"writer alone": only_writer},
    }
    # Maxima commute with positive scales and with translations.
    return [
        Operation(
            "max-pool",
            pixel(partial(F.max_pool2d, kernel_size=2), one),
            pixels,
            dim=6,
            order=f(3),
            on_batch=True,
            row=top,
            **peak,
        ),
        Operation(
            "adaptive-max-pool",
            pixel(partial(F.adaptive_max_pool2d, output_size=2), one),
            pixels,
            dim=6,
            order=f(3),
            on_batch=True,
            row=top,
            **peak,
        ),
        Operation(
            "amax",
            pixel(lambda z: z.amax((2, 3), keepdim=True), one),
            pixels,
            dim=6,
            order=f(3),
            on_batch=True,
            row=top,
            **peak,
        ),
        Operation(
            "max-pool-tanh",
            pixel(lambda z: F.max_pool2d(torch.tanh(z), 2), one),
            pixels,
            dim=0,
            order=f(3),
            row=top,
            forbidden={"flip": through(flip3)},
        ),
        Operation(
            "avg-pool",
            pixel(partial(F.avg_pool2d, kernel_size=2), three),
            pixels,
            dim=12,
            row=average,
            **mean,
        ),
        Operation(
            "adaptive-avg-pool",
            pixel(partial(F.adaptive_avg_pool2d, output_size=2), three),
            pixels,
            dim=12,
            row=average,
            **mean,
        ),
        Operation(
            "mean",
            pixel(lambda z: z.mean((2, 3), keepdim=True), one),
            pixels,
            dim=12,
            row=average,
            **mean,
        ),
        Operation(
            "sum",
            pixel(lambda z: z.sum((2, 3), keepdim=True), one),
            pixels,
            dim=12,
            row=average,
            **mean,
        ),
        Operation(
            "avg-pool-tanh",
            pixel(lambda z: F.avg_pool2d(torch.tanh(z), 2), one),
            pixels,
            dim=0,
            order=8 * f(3),
            row=average,
        ),
        # Averaging with zeros at the border shrinks a constant: no translation.
        Operation(
            "avg-pool-padded",
            pixel(partial(F.avg_pool2d, kernel_size=3, stride=1, padding=1), three),
            pixels,
            dim=9,
            row=average,
            **mean,
        ),
        Operation(
            "upsample-nearest",
            pixel(partial(F.interpolate, scale_factor=2), three),
            pixels,
            dim=12,
            row=average,
            **mean,
        ),
        Operation(
            "upsample-bilinear",
            pixel(partial(F.interpolate, scale_factor=2, mode="bilinear"), three),
            pixels,
            dim=12,
            row=average,
            **mean,
        ),
        Operation(
            "pixel-pad-zero",
            pixel(lambda z: F.pad(z, (1, 0, 0, 1)), three),
            pixels,
            dim=9,
            row=average,
            **mean,
        ),
        Operation(
            "pixel-pad-circular",
            pixel(lambda z: F.pad(z, (1, 1, 1, 1), mode="circular"), three),
            pixels,
            dim=12,
            row=average,
            **mean,
        ),
        Operation(
            "pixel-pad-value",
            pixel(lambda z: F.pad(F.relu(z), (1, 0, 0, 1), value=0.7), three),
            pixels,
            dim=0,
            order=f(3),
            on_batch=True,
            row=average,
            forbidden={"scales": through(scale3)},
        ),
        # The mean over the units themselves: permutations, and all signs at once.
        Operation(
            "mean-over-units",
            lambda: Between(lambda z: torch.tanh(z).mean(-1, keepdim=True), wide=1, out=1),
            normal(5),
            dim=0,
            order=2 * f(N),
            row=average,
            allowed={"swap": _permuted_writer},
            forbidden={"scale": _scaled_writer},
        ),
    ]


def _permuted_writer(state: State) -> State:
    return {
        **state,
        "first.weight": swap() @ state["first.weight"],
        "first.bias": swap() @ state["first.bias"],
    }


def _scaled_writer(state: State) -> State:
    return {
        **state,
        "first.weight": SCALES @ state["first.weight"],
        "first.bias": SCALES @ state["first.bias"],
    }


def _ties() -> list[Operation]:
    row = "tied weights"

    def rotate(matrix: Tensor) -> Motion:
        return lambda state: {
            **state,
            "first.weight": matrix @ state["first.weight"],
            "first.bias": matrix @ state["first.bias"],
        }

    return [
        # O(4) and the translation of the code.
        Operation(
            "tied-linear",
            partial(Tied, lambda z: z),
            normal(5),
            dim=6 + 4,
            row=row,
            allowed={"rotation": rotate(rotation())},
            forbidden={"matrix": rotate(generic())},
        ),
        Operation(
            "tied-tanh",
            partial(Tied, torch.tanh),
            normal(5),
            dim=0,
            order=SIGNED,
            row=row,
            allowed={"flip": rotate(FLIP)},
            forbidden={"rotation": rotate(rotation())},
        ),
        # Scales meet their inverse transpose: nothing but ±1, which ReLU forbids.
        Operation(
            "tied-relu",
            partial(Tied, F.relu),
            normal(5),
            dim=0,
            order=PERMUTED,
            on_batch=True,
            row=row,
            allowed={"swap": rotate(swap())},
            forbidden={"scales": rotate(SCALES), "flip": rotate(FLIP)},
        ),
        Operation(
            "embedding-linear", partial(Lookup, lambda z: z), tokens(7, 3), dim=20, row="nothing"
        ),
        Operation(
            "embedding-tanh",
            partial(Lookup, torch.tanh),
            tokens(7, 3),
            dim=0,
            kernel=20,
            leftover=20,
            order=SIGNED,
            row="odd",
            note="the activation of a table is a table: GL(4) acts on it, but not linearly",
        ),
    ]


def _unknown() -> list[Operation]:
    row = "unknown"
    entry = partial(Operation, inputs=normal(5), dim=0, order=1, row=row, leftover=None)
    why = "an operation without a rule pins what it touches"
    bodies: dict[str, Callable[[Tensor], Tensor]] = {
        "cumsum": lambda z: torch.cumsum(torch.tanh(z), -1),
        "sort": lambda z: torch.sort(torch.tanh(z), -1).values,
        "cummax": lambda z: torch.cummax(torch.tanh(z), -1).values,
        "fft": lambda z: torch.fft.rfft(torch.tanh(z)).abs() @ torch.ones(3, N, dtype=z.dtype),
    }
    return [
        entry(f"unknown-{name}", lambda body=body: Between(body), pinned=(name,), note=why)
        for name, body in bodies.items()
    ]


OPERATIONS: tuple[Operation, ...] = (
    *_nothing(),
    *_homogeneous(),
    *_parity(),
    *_exponential(),
    *_prelu(),
    *_monomials(),
    *_affine_flips(),
    *_others(),
    *_radial(),
    *_batch_norm(),
    *_products(),
    *_sums(),
    *_layout(),
    *_pooling(),
    *_ties(),
    *_unknown(),
)

ROWS = frozenset(operation.row for operation in OPERATIONS)

__all__ = ["OPERATIONS", "ROWS", "Operation", "several"]
