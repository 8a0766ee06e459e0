"""Random models: seeded directed graphs of operations, printed as the code that builds them.

A program is a few lines of `__init__` and a few of `forward`. Every line is chosen among those that
fit the shapes at hand; the same text is executed and printed, so that a failing seed is a script.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo import dense
from zoo.models import randomise

BATCH = 3
MIN_OPS, MAX_OPS = 6, 14
ATTEMPTS = 60

Shape = tuple[int, ...]  # without the batch


class Unfit(Exception):
    """The choice does not fit what is there: choose again."""


@dataclass
class Program:
    """The text of a module, grown line by line, with the shape of every value."""

    seed: int
    rng: random.Random
    init: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    kind_of: dict[int, str] = field(default_factory=dict)  # of each line of forward
    kinds: Counter[str] = field(default_factory=Counter)  # of the lines that count
    layers: dict[str, tuple[str, Shape, Shape]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)  # values that parameters wrote
    tokens: bool = False
    unknown: bool = False
    training: bool = False
    inputs: Shape = ()

    # -- lines ---------------------------------------------------------------------------

    def member(self, text: str, prefix: str = "m") -> str:
        """A new attribute of the module."""
        name = f"{prefix}{len(self.init)}"
        self.init.append(text.replace("$", f"self.{name}"))
        return name

    def let(self, text: str, shape: Shape, kind: str, *sources: str) -> str:
        """A new value."""
        name = f"v{len(self.forward)}"
        self.kind_of[len(self.forward)] = kind
        self.forward.append(f"{name} = {text}")
        self.shapes[name] = shape
        if any(source in self.hidden for source in sources):
            self.hidden.add(name)
        return name

    # -- choices -------------------------------------------------------------------------

    def pick(self, *ranks: int, written: bool = True, last: int = 6) -> tuple[str, Shape]:
        """A recent value whose rank (without the batch) is among these."""
        names = [
            name
            for name in list(self.shapes)[-last:]
            if len(self.shapes[name]) in ranks and (not written or name in self.hidden)
        ]
        if not names:
            raise Unfit
        name = self.rng.choice(names)
        return name, self.shapes[name]

    def partner(self, name: str, same: Callable[[Shape, Shape], bool]) -> str:
        """Another written value that fits this one."""
        shape = self.shapes[name]
        names = [
            other
            for other in self.shapes
            if other != name and other in self.hidden and same(shape, self.shapes[other])
        ]
        if not names:
            raise Unfit
        return self.rng.choice(names)

    def width(self) -> int:
        return self.rng.randint(3, 5)

    # -- results -------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The module as code."""
        init = "\n".join(f"        {line}" for line in self.init)
        body = "\n".join(f"        {line}" for line in self.forward)
        return (
            f"class Fuzzed(nn.Module):  # seed {self.seed}{', train mode' * self.training}\n"
            "    def __init__(self):\n        super().__init__()\n"
            f"{init}\n\n    def forward(self, x):\n{body}\n"
        )

    def build(self) -> nn.Module:
        """The module, in float64, at generic values."""
        scope: dict[str, Any] = {"nn": nn, "torch": torch, "F": F}
        exec(self.source, scope)
        torch.manual_seed(self.seed % 2**31)
        model: nn.Module = scope["Fuzzed"]().double()
        randomise(model, self.seed % 2**31)
        return model.train(self.training)

    def x(self, batch: int = BATCH, seed: int = 0) -> Tensor:
        """Generic inputs."""
        generator = torch.Generator().manual_seed((self.seed + 7919 * seed) % 2**31)
        if self.tokens:
            return torch.randint(6, (batch, *self.inputs), generator=generator)
        return torch.randn(batch, *self.inputs, dtype=torch.float64, generator=generator)


# --------------------------------------------------------------------------------- operations
#
# Each adds one or more lines or raises Unfit. Ranks without the batch: 1 a vector (C), 2 a sequence
# (T, C), 3 an image (C, H, W).

Step = Callable[[Program], str]
STEPS: dict[str, tuple[float, Step]] = {}


def step(weight: float) -> Callable[[Step], Step]:
    """Register a kind of line under the name of its function."""

    def register(function: Step) -> Step:
        STEPS[function.__name__.rstrip("_")] = (weight, function)
        return function

    return register


POINTWISE = {
    "relu": ["torch.relu({})", "F.relu({})", "{}.clamp(min=0)", "F.leaky_relu({}, 0.2)"],
    "odd": ["torch.tanh({})", "torch.sin({})", "torch.erf({})", "F.softsign({})"],
    "smooth": ["F.gelu({})", "F.silu({})", "F.softplus({})", "F.elu({})", "F.mish({})"],
    "sigmoid": ["torch.sigmoid({})", "F.hardsigmoid({})"],
    "even": ["torch.cos({})", "torch.exp(-{} ** 2)"],
    "power": ["{}.abs()", "torch.square({})", "{} ** 3"],
    "exp": ["torch.exp(0.3 * {})"],
}


@step(8)
def linear(p: Program) -> str:
    v, shape = p.pick(1, 2)
    return _linear(p, v, shape)


def _linear(p: Program, v: str, shape: Shape, out: int | None = None) -> str:
    out = out or p.width()
    bias = p.rng.random() < 0.75
    m = p.member(f"$ = nn.Linear({shape[-1]}, {out}, bias={bias})")
    p.layers[m] = ("linear", shape[-1:], (out,))
    new = p.let(f"self.{m}({v})", (*shape[:-1], out), "linear", v)
    p.hidden.add(new)
    return new


@step(6)
def conv(p: Program) -> str:
    v, (c, h, w) = p.pick(3)
    out, k = p.width(), p.rng.choice([1, 2, 3])
    stride, padding = p.rng.choice([(1, 0), (1, k // 2), (2, k // 2)])
    mode = p.rng.choice(["zeros", "zeros", "circular", "replicate"])
    if h + 2 * padding < k or w + 2 * padding < k or padding >= min(h, w):
        raise Unfit
    groups = p.rng.choice([1, 1, 1, c])
    out = c * p.rng.choice([1, 2]) if groups == c else out
    size = [(n + 2 * padding - k) // stride + 1 for n in (h, w)]
    m = p.member(
        f"$ = nn.Conv2d({c}, {out}, {k}, stride={stride}, padding={padding}, groups={groups}, "
        f"padding_mode={mode!r}, bias={p.rng.random() < 0.75})"
    )
    new = p.let(f"self.{m}({v})", (out, *size), "conv", v)
    p.hidden.add(new)
    return new


@step(4)
def conv_transpose(p: Program) -> str:
    v, (c, h, w) = p.pick(3)
    if h > 3 or w > 3:
        raise Unfit
    out = p.width()
    m = p.member(f"$ = nn.ConvTranspose2d({c}, {out}, 2, stride=2)")
    new = p.let(f"self.{m}({v})", (out, 2 * h, 2 * w), "conv_transpose", v)
    p.hidden.add(new)
    return new


@step(9)
def pointwise(p: Program) -> str:
    v, shape = p.pick(1, 2, 3, last=3)
    kind = p.rng.choice([*POINTWISE, "relu", "odd", "smooth"])
    text = p.rng.choice(POINTWISE[kind])
    return p.let(text.format(v), shape, kind, v)


@step(1)
def in_place(p: Program) -> str:
    v, shape = p.pick(1, 2, 3, last=1)
    name = p.let(f"{v}.clone()", shape, "in_place", v)
    p.forward.append(
        p.rng.choice([f"{name}.tanh_()", f"F.silu({name}, inplace=True)", f"{name}.mul_(0.5)"])
    )
    return name


@step(1)
def prelu(p: Program) -> str:
    v, shape = p.pick(1, 3, last=3)
    c = shape[0]
    m = p.member(f"$ = nn.PReLU({p.rng.choice([1, c])}, init=0.3)")
    return p.let(f"self.{m}({v})", shape, "prelu", v)


@step(3)
def batch_norm(p: Program) -> str:
    v, shape = p.pick(1, 3)
    if len(shape) == 3:
        m = p.member(f"$ = nn.BatchNorm2d({shape[0]})")
    else:
        m = p.member(f"$ = nn.BatchNorm1d({shape[0]})")
    return p.let(f"self.{m}({v})", shape, "batch_norm", v)


@step(4)
def add(p: Program) -> str:
    v, shape = p.pick(1, 2, 3)
    other = p.partner(v, lambda a, b: a == b)
    text = p.rng.choice(["{} + {}", "{} - {}", "{} + 0.5 * {}", "torch.add({}, {}, alpha=2)"])
    return p.let(text.format(v, other), shape, "add", v, other)


@step(2.5)
def residual(p: Program) -> str:
    v, shape = p.pick(1, 2)
    inner = _linear(p, v, shape)
    act = p.let(
        p.rng.choice(["torch.relu({})", "F.gelu({})", "torch.tanh({})"]).format(inner),
        p.shapes[inner],
        "smooth",
        inner,
    )
    back = _linear(p, act, p.shapes[act], shape[-1])
    return p.let(f"{v} + {back}", shape, "residual", v, back)


@step(3)
def mul(p: Program) -> str:
    v, shape = p.pick(1, 2, 3)
    other = p.partner(v, lambda a, b: a == b)
    text = p.rng.choice(
        ["{} * {}", "{} * torch.sigmoid({})", "F.silu({}) * {}", "{} / (1 + {} ** 2)"]
    )
    return p.let(text.format(v, other), shape, "mul", v, other)


@step(1.5)
def gated(p: Program) -> str:
    v, shape = p.pick(1, 2)
    n = p.width()
    both = _linear(p, v, shape, 2 * n)
    new = p.rng.choice(["F.glu({0}, dim=-1)", "F.silu({0}.chunk(2, -1)[0]) * {0}.chunk(2, -1)[1]"])
    return p.let(new.format(both), (*shape[:-1], n), "gated", both)


@step(1)
def squeeze_excite(p: Program) -> str:
    v, (c, h, w) = p.pick(3)
    s = p.let(f"{v}.mean((2, 3))", (c,), "mean", v)
    gate = _linear(p, s, (c,), c)
    return p.let(
        f"{v} * torch.sigmoid({gate})[:, :, None, None]", (c, h, w), "squeeze_excite", v, gate
    )


@step(3)
def cat(p: Program) -> str:
    v, shape = p.pick(1, 2, 3)
    axis = 0 if len(shape) == 3 else len(shape) - 1

    def off(s: Shape) -> Shape:
        return (*s[:axis], *s[axis + 1 :])

    other = p.partner(v, lambda a, b: len(a) == len(b) and off(a) == off(b))
    total = shape[axis] + p.shapes[other][axis]
    if total > 10:
        raise Unfit
    new = (*shape[:axis], total, *shape[axis + 1 :])
    return p.let(f"torch.cat([{v}, {other}], {axis + 1})", new, "cat", v, other)


@step(3)
def cat_tokens(p: Program) -> str:
    v, (t, c) = p.pick(2)
    other = p.partner(v, lambda a, b: len(b) == 2 and a[1] == b[1])
    if t + p.shapes[other][0] > 7:
        raise Unfit
    return p.let(
        f"torch.cat([{v}, {other}], 1)", (t + p.shapes[other][0], c), "cat_tokens", v, other
    )


@step(2)
def split(p: Program) -> str:
    v, shape = p.pick(1, 2, 3)
    axis = 0 if len(shape) == 3 else len(shape) - 1
    n = shape[axis]
    if n < 3:
        raise Unfit
    cut = p.rng.randint(1, n - 1)
    name = f"s{len(p.forward)}"
    form = p.rng.choice(["split", "slice", "chunk", "narrow"])
    if form == "chunk" and n % 2 == 0:
        cut = n // 2
        p.forward.append(f"{name} = {v}.chunk(2, {axis + 1})")
    elif form == "narrow":
        p.forward.append(
            f"{name} = {v}.narrow({axis + 1}, 0, {cut}), {v}.narrow({axis + 1}, {cut}, {n - cut})"
        )
    elif form == "slice":
        ax = ":, " * (axis + 1)
        p.forward.append(f"{name} = {v}[{ax}:{cut}], {v}[{ax}{cut}:]")
    else:
        p.forward.append(f"{name} = {v}.split([{cut}, {n - cut}], {axis + 1})")
    parts = [(*shape[:axis], m, *shape[axis + 1 :]) for m in (cut, n - cut)]
    left = p.let(f"{name}[0]", parts[0], "split", v)
    right = p.let(f"{name}[1]", parts[1], "split", v)
    if p.rng.random() < 0.6:  # treat them differently and put them back
        p.let(f"torch.tanh({left})", parts[0], "odd", left)
        first = list(p.shapes)[-1]
        return p.let(f"torch.cat([{right}, {first}], {axis + 1})", shape, "cat", right, first)
    return right


@step(1.5)
def flatten(p: Program) -> str:
    v, shape = p.pick(2, 3)
    total = 1
    for n in shape:
        total *= n
    if total > 40:
        raise Unfit
    text = p.rng.choice(["{}.flatten(1)", "{}.reshape({}.shape[0], -1)", "torch.flatten({}, 1)"])
    return p.let(text.replace("{}", v), (total,), "flatten", v)


@step(3)
def heads(p: Program) -> str:
    v, (t, c) = p.pick(2)
    if c % 2:
        raise Unfit
    a = p.rng.choice(["torch.relu", "torch.tanh", "F.gelu"])
    inner = p.let(f"{a}({v}.view(-1, {t}, 2, {c // 2}).transpose(1, 2))", (2, t, c // 2), "view", v)
    del p.shapes[inner]  # not a (C, H, W) image
    return p.let(f"{inner}.transpose(1, 2).reshape(-1, {t}, {c})", (t, c), "view", v)


@step(1.5)
def to_sequence(p: Program) -> str:
    v, (c, h, w) = p.pick(3)
    return p.let(f"{v}.flatten(2).transpose(1, 2)", (h * w, c), "to_sequence", v)


@step(4)
def to_image(p: Program) -> str:
    v, (t, c) = p.pick(2)
    if t not in (4, 6, 9):
        raise Unfit
    h, w = {4: (2, 2), 6: (2, 3), 9: (3, 3)}[t]
    return p.let(f"{v}.permute(0, 2, 1).reshape(-1, {c}, {h}, {w})", (c, h, w), "to_image", v)


@step(2)
def unflatten(p: Program) -> str:
    v, (n,) = p.pick(1)
    if n % 2 or n < 4:
        raise Unfit
    return p.let(f"{v}.view(-1, 2, {n // 2})", (2, n // 2), "unflatten", v)


@step(1.2)
def expand(p: Program) -> str:
    v, (c,) = p.pick(1)
    t = p.rng.choice([2, 3])
    return p.let(f"{v}[:, None, :].expand(-1, {t}, -1)", (t, c), "expand", v)


@step(4)
def broadcast(p: Program) -> str:
    v, (t, c) = p.pick(2)
    other = p.partner(v, lambda a, b: b == a[1:])
    sign = p.rng.choice(["+", "*"])
    return p.let(f"{v} {sign} {other}[:, None]", (t, c), "broadcast", v, other)


@step(2)
def mean(p: Program) -> str:
    v, shape = p.pick(2, 3)
    verb = p.rng.choice(["mean", "mean", "sum"])
    if len(shape) == 2:
        return p.let(f"{v}.{verb}(1)", shape[1:], "mean", v)
    return p.let(f"{v}.{verb}((2, 3))", shape[:1], "mean", v)


@step(1)
def mean_of_units(p: Program) -> str:
    v, (t, c) = p.pick(2)
    return p.let(f"{v} - {v}.mean(-1, keepdim=True)", (t, c), "mean_of_units", v)


@step(2)
def pool(p: Program) -> str:
    v, (c, h, w) = p.pick(3)
    if min(h, w) < 2:
        raise Unfit
    forms = {
        "F.max_pool2d({}, 2)": (h // 2, w // 2),
        "F.avg_pool2d({}, 2)": (h // 2, w // 2),
        "F.max_pool2d({}, 3, 1, 1)": (h, w),
        "F.avg_pool2d({}, 3, 1, 1)": (h, w),
        "F.adaptive_avg_pool2d({}, (2, 2))": (2, 2),
        "F.adaptive_max_pool2d({}, 1)": (1, 1),
    }
    form = p.rng.choice(list(forms))
    return p.let(form.format(v), (c, *forms[form]), "pool", v)


@step(3)
def interpolate(p: Program) -> str:
    v, (c, h, w) = p.pick(3)
    if h > 4:
        raise Unfit
    mode = p.rng.choice(["nearest", "bilinear"])
    return p.let(
        f"F.interpolate({v}, scale_factor=2, mode={mode!r})", (c, 2 * h, 2 * w), "interpolate", v
    )


@step(2)
def pad(p: Program) -> str:
    v, (c, h, w) = p.pick(3)
    extra = p.rng.choice(["", ", value=0.5", ", mode='replicate'"])
    return p.let(f"F.pad({v}, (1, 0, 0, 1){extra})", (c, h + 1, w + 1), "pad", v)


@step(1.2)
def matmul(p: Program) -> str:
    v, (t, _) = p.pick(2)
    other = p.partner(v, lambda a, b: len(b) == 2 and a[1] == b[1] and b[0] <= 6)
    s = p.shapes[other][0]
    return p.let(f"{v} @ {other}.transpose(1, 2) * 0.3", (t, s), "matmul", v, other)


@step(2)
def attend(p: Program) -> str:
    v, (t, _) = p.pick(2)
    other = p.partner(v, lambda a, b: len(b) == 2 and b[0] == a[0])
    scores = p.let(f"{v} @ {v}.transpose(1, 2) * 0.3", (t, t), "matmul", v)
    return p.let(f"{scores} @ {other}", (t, p.shapes[other][1]), "attend", scores, other)


@step(2)
def reuse(p: Program) -> str:
    v, shape = p.pick(1, 2)
    fits = [m for m, (_, a, _) in p.layers.items() if a == shape[-1:]]
    if not fits:
        raise Unfit
    m = p.rng.choice(fits)
    new = p.let(f"self.{m}({v})", (*shape[:-1], p.layers[m][2][0]), "reuse", v)
    p.hidden.add(new)
    return new


@step(1.5)
def tied(p: Program) -> str:
    v, shape = p.pick(1, 2)
    fits = [m for m, (_, _, b) in p.layers.items() if b == shape[-1:]]
    if not fits:
        raise Unfit
    m = p.rng.choice(fits)
    new = p.let(f"F.linear({v}, self.{m}.weight.t())", (*shape[:-1], p.layers[m][1][0]), "tied", v)
    p.hidden.add(new)
    return new


@step(0.8)
def tied_module(p: Program) -> str:
    v, shape = p.pick(1, 2)
    fits = [m for m, (_, a, _) in p.layers.items() if a == shape[-1:]]
    if not fits:
        raise Unfit
    m = p.rng.choice(fits)
    out = p.layers[m][2][0]
    twin = p.member(f"$ = nn.Linear({shape[-1]}, {out})")
    p.init.append(f"self.{twin}.weight = self.{m}.weight")
    new = p.let(f"self.{twin}({v})", (*shape[:-1], out), "tied_module", v)
    p.hidden.add(new)
    return new


@step(2)
def bare(p: Program) -> str:
    v, shape = p.pick(1, 2)
    c = shape[-1]
    size = p.rng.choice([f"{c}", "1", ", ".join(map(str, shape))])
    g = p.member(f"$ = nn.Parameter(torch.zeros({size}))", "p")
    return p.let(f"{v} {p.rng.choice(['+', '*'])} self.{g}", shape, "bare", v)


@step(1)
def bare_matrix(p: Program) -> str:
    v, shape = p.pick(1, 2)
    out = p.width()
    w = p.member(f"$ = nn.Parameter(torch.zeros({shape[-1]}, {out}))", "p")
    new = p.let(f"torch.matmul({v}, self.{w})", (*shape[:-1], out), "bare_matrix", v)
    p.hidden.add(new)
    return new


@step(1.5)
def bare_start(p: Program) -> str:
    v, (t, c) = p.pick(2)
    w = p.member(f"$ = nn.Parameter(torch.zeros(1, 1, {c}))", "p")
    start = f"self.{w}.expand({v}.shape[0], -1, -1)"
    return p.let(f"torch.cat([{start}, {v}], 1)", (t + 1, c), "bare_start", v)


@step(1)
def channel_gain(p: Program) -> str:
    v, shape = p.pick(3)
    g = p.member(f"$ = nn.Parameter(torch.zeros({shape[0]}, 1, 1))", "p")
    return p.let(f"{v} {p.rng.choice(['+', '*'])} self.{g}", shape, "channel_gain", v)


@step(0.7)
def buffer(p: Program) -> str:
    v, shape = p.pick(1, 2)
    size = p.rng.choice([shape[-1], 1])
    value = p.rng.choice(["zeros", "ones", "rand"])
    name = f"b{len(p.init)}"
    p.init.append(f"self.register_buffer('{name}', torch.{value}({size}) + 0.1)")
    return p.let(f"{v} {p.rng.choice(['+', '*'])} self.{name}", shape, "buffer", v)


@step(0.7)
def scalar(p: Program) -> str:
    v, shape = p.pick(1, 2, 3)
    text = p.rng.choice(["2.0 * {}", "-{}", "{} / 3", "1.0 - {}", "{} + 0.3"])
    return p.let(text.format(v), shape, "scalar", v)


@step(1.5)
def token_mixing(p: Program) -> str:
    v, (t, c) = p.pick(2)
    out = p.width()
    m = p.member(f"$ = nn.Linear({t}, {out}, bias={p.rng.random() < 0.5})")
    new = p.let(f"self.{m}({v}.transpose(1, 2)).transpose(1, 2)", (out, c), "token_mixing", v)
    p.hidden.add(new)
    return new


@step(2)
def select(p: Program) -> str:
    v, shape = p.pick(2)
    i = p.rng.randrange(shape[0])
    return p.let(
        p.rng.choice([f"{v}[:, {i}]", f"{v}.select(1, {i})", f"{v}.unbind(1)[{i}]"]),
        shape[1:],
        "select",
        v,
    )


@step(1.5)
def stack(p: Program) -> str:
    v, (c,) = p.pick(1)
    other = p.partner(v, lambda a, b: a == b)
    return p.let(f"torch.stack([{v}, {other}], 1)", (2, c), "stack", v, other)


@step(0.6)
def radial(p: Program) -> str:
    v, shape = p.pick(1, 2)
    norm = p.rng.choice([f"{v}.norm(dim=-1, keepdim=True)", f"({v} ** 2).sum(-1, keepdim=True)"])
    return p.let(f"{v} / (1 + {norm})", shape, "radial", v)


@step(0.5)
def dropout(p: Program) -> str:
    v, shape = p.pick(1, 2, 3)
    m = p.member("$ = nn.Dropout(0.4)")
    return p.let(f"self.{m}({v})", shape, "dropout", v)


@step(0.6)
def again_from_input(p: Program) -> str:
    """A fresh branch from the input, for later sums and concatenations."""
    if p.tokens or len(p.inputs) == 3:
        raise Unfit
    return _linear(p, "x", p.inputs)


UNKNOWN = ["torch.cumsum({}, -1)", "torch.sort({}, -1).values", "torch.cummax({}, -1).values"]


def _unknown(p: Program) -> str:
    v, shape = p.pick(1, 2)
    return p.let(p.rng.choice(UNKNOWN).format(v), shape, "unknown", v)


# --------------------------------------------------------------------------------- generation


def generate(seed: int, unknown: bool = False) -> Program:
    """The program of a seed; with `unknown`, one operation nobody has a rule for."""
    for attempt in range(ATTEMPTS):
        program = Program(seed, random.Random(f"{seed}/{attempt}/{unknown}"))
        program.unknown = unknown
        _grow(program, unknown)
        if _sane(program):
            return program
    raise AssertionError(f"no sane program in {ATTEMPTS} attempts from seed {seed}")


def _grow(p: Program, unknown: bool) -> None:
    _start(p)
    names = list(STEPS)
    weights = [STEPS[name][0] for name in names]
    wanted = p.rng.randint(MIN_OPS, MAX_OPS)
    at = p.rng.randrange(2, wanted) if unknown else -1
    p.training = p.rng.random() < 0.15  # batch statistics and dropout masks
    for i in range(wanted):
        for _ in range(12):
            function = STEPS[p.rng.choices(names, weights)[0]][1]
            try:
                _unknown(p) if i == at else function(p)
                break
            except Unfit:
                continue
    _finish(p)


def _start(p: Program) -> None:
    """An input and a writer, so that there is at least one hidden space."""
    kind = p.rng.choice(["vector", "vector", "sequence", "image", "image", "tokens"])
    if kind == "tokens":
        p.tokens, p.inputs = True, (3,)
        m = p.member("$ = nn.Embedding(6, 4)")
        p.hidden.add(p.let(f"self.{m}(x)", (3, 4), "embedding"))
    elif kind == "image":
        p.inputs = (2, 4, 4)
        m = p.member("$ = nn.Conv2d(2, 4, 3, padding=1)")
        p.hidden.add(p.let(f"self.{m}(x)", (4, 4, 4), "conv"))
    else:
        p.inputs = (5,) if kind == "vector" else (4, 5)
        _linear(p, "x", p.inputs)
    if p.rng.random() < 0.7:
        pointwise(p)


def _finish(p: Program) -> None:
    """Readers for the last value and for up to two others that nobody has read."""
    names = [name for name in p.shapes if name in p.hidden]
    read = Counter(name for line in p.forward for name in NAMES.findall(line)[1:])
    unread = [name for name in names[:-1] if not read[name]]
    chosen = {names[-1], *p.rng.sample(unread, min(len(unread), p.rng.randint(0, 2)))}
    ends = [_read(p, name) for name in names if name in chosen]
    p.forward.append(f"return {', '.join(ends)}")
    _prune(p)


def _read(p: Program, v: str) -> str:
    shape = p.shapes[v]
    if len(shape) == 3:
        m = p.member(f"$ = nn.Conv2d({shape[0]}, 3, 1)")
        return p.let(f"self.{m}({v})", (3, *shape[1:]), "conv", v)
    return _linear(p, v, shape, 4)


NAMES = re.compile(r"\b[vspmb]\d+\b")


def _prune(p: Program) -> None:
    """Drop what the outputs do not read: an unread parameter would be a symmetry for nothing."""
    needed: set[str] = set()
    kept: list[int] = []
    for i in range(len(p.forward) - 1, -1, -1):
        names = NAMES.findall(p.forward[i])
        returns = p.forward[i].startswith("return")
        if returns or names[0] in needed:
            needed.update(names)
            kept.append(i)
    kept.reverse()
    kinds = [p.kind_of.get(i) for i in kept]
    p.forward = [p.forward[i] for i in kept]
    p.kinds = Counter(kind for kind in kinds if kind)
    for line in reversed(p.init):
        names = NAMES.findall(line)
        if names[0] in needed:
            needed.update(names)  # a tied layer needs the one it shares with
    p.init = [line for line in p.init if NAMES.findall(line)[0] in needed]


def _sane(p: Program) -> bool:
    """Finite, of moderate size, not constant, and not amplifying rounding."""
    if bool(p.kinds["unknown"]) != p.unknown or p.kinds.total() < 4:
        return False
    try:
        model = p.build()
        x = p.x(6)
        ys = dense.outputs(model, x)
    except (RuntimeError, IndexError, ValueError):
        return False
    if not ys or any(not y.isfinite().all() or y.abs().max() > 1e4 for y in ys):
        return False
    if any(y.abs().max() < 1e-3 or (y[0] - y[1]).abs().max() < 1e-6 * y.abs().max() for y in ys):
        return False
    return _noise(model, x) < 1e-12


def _noise(model: nn.Module, x: Tensor) -> float:
    """Change of the outputs under a relative jitter of 1e-15 of every parameter."""
    state = dense.state_of(model)
    generator = torch.Generator().manual_seed(0)
    jittered = {
        name: value
        * (1 + 1e-15 * torch.randn(value.shape, dtype=torch.float64, generator=generator))
        if value.is_floating_point()
        else value
        for name, value in state.items()
    }
    return dense.change(model, x, jittered)
