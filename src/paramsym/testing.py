"""Law suites for groups of your own: each law is a function of what it tests, and has a name.

`check_group` and `check_pair` run every law they know and raise a `LawError` that names the
broken ones. A suite is a plain list, so a package that adds rules or actions adds laws with
`law(SUITE, statement)`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paramsym.errors import ParamsymError
from paramsym.groups import Element, Group
from paramsym.groups.elements import homogeneous, over
from paramsym.numerics import MOVED_TOLERANCE, VERIFY_TOLERANCE, matrix_rank, relative_error

SCALE = 0.3  # of sampled elements: far from the identity, near enough for exact arithmetic
COUNTABLE = 64  # components up to which a law counts them one by one


class LawError(ParamsymError):
    """Something breaks a law that everything of its kind obeys."""


@dataclass(frozen=True)
class Law:
    """A statement and the measured deviation from it, 0 where it holds."""

    name: str
    statement: str
    error: Callable[..., float]


Suite = list[Law]
GROUP_LAWS: Suite = []
PAIR_LAWS: Suite = []


def law(suite: Suite, statement: str) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Add a function to a suite under its own name; it returns how far the statement is off."""

    def added(function: Callable[..., float]) -> Callable[..., float]:
        suite.append(Law(function.__name__.replace("_", " "), statement, function))
        return function

    return added


@dataclass(frozen=True)
class LawReport:
    """How far each law is off, for one subject."""

    subject: str
    errors: dict[str, float]
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether all laws hold."""
        return all(error <= self.tolerance for error in self.errors.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"subject": self.subject, "errors": self.errors, "tolerance": self.tolerance}

    def __str__(self) -> str:
        rows = [f"  {name:<24}{error:9.1e}" for name, error in self.errors.items()]
        return "\n".join([self.subject, *rows])


def check(
    suite: Sequence[Law], subject: str, *args: Any, tolerance: float = VERIFY_TOLERANCE
) -> LawReport:
    """Run every law of a suite on the arguments; raise a LawError naming the broken ones."""
    errors: dict[str, float] = {}
    said: list[str] = []
    for each in suite:
        try:
            errors[each.name] = each.error(*args)
            deviation = f"is off by {errors[each.name]:.1e}"
        except RuntimeError as error:  # torch refuses shapes that do not fit together
            errors[each.name] = math.inf
            deviation = f"cannot be evaluated: {error}"
        if not errors[each.name] <= tolerance:
            said.append(f"{each.name!r} ({each.statement}) {deviation}")
    if said:
        raise LawError(
            f"{subject} breaks " + "; ".join(said),
            remedy="the first law named is usually the cause of the rest",
        )
    return LawReport(subject, errors, tolerance)


def check_group(group: Group, seed: int = 0, trials: int = 4) -> LawReport:
    """Test that a group is one, and that its verbs, algebra and facts fit together.

    >>> from paramsym.groups import Monomial
    >>> check_group(Monomial(3)).passed
    True
    """
    return check(GROUP_LAWS, str(group), group, Draw(seed, trials))


def check_pair(a: Group, b: Group, seed: int = 0, trials: int = 32) -> LawReport:
    """Test the meet of two groups and their containment against elements and algebras.

    >>> from paramsym.groups import Monomial, Orthogonal
    >>> check_pair(Monomial(3), Orthogonal(3)).passed
    True
    """
    return check(PAIR_LAWS, f"{a}  ∩  {b}", a, b, Draw(seed, trials))


@dataclass(frozen=True)
class Draw:
    """Reproducible random elements."""

    seed: int
    trials: int

    def elements(self, group: Group, count: int = 1, scale: float = SCALE) -> list[Element]:
        """Some independent batches of elements."""
        generator = torch.Generator().manual_seed(self.seed)
        return [
            group.sample(generator=generator, scale=scale, shape=(self.trials,))
            for _ in range(count)
        ]

    def vectors(self, size: int, count: int = 1) -> list[Tensor]:
        """Some independent batches of Gaussian vectors."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        shape = (count, self.trials, size)
        return list(torch.randn(shape, generator=generator, dtype=torch.float64) * SCALE)


# -- one group -------------------------------------------------------------------------------


@law(GROUP_LAWS, "matrix(gh) = matrix(g) matrix(h)")
def homomorphism(group: Group, draw: Draw) -> float:
    g, h = draw.elements(group, 2)
    product = group.matrix(group.compose(g, h))
    return relative_error(product, group.matrix(g) @ group.matrix(h))


@law(GROUP_LAWS, "(gh)k = g(hk)")
def associativity(group: Group, draw: Draw) -> float:
    g, h, k = draw.elements(group, 3)
    left = group.compose(group.compose(g, h), k)
    return _distance(group, left, group.compose(g, group.compose(h, k)))


@law(GROUP_LAWS, "1g = g = g1, and matrix(1) = 1")
def identity(group: Group, draw: Draw) -> float:
    (g,) = draw.elements(group)
    one = group.identity((draw.trials,))
    size = group.n + group.affine
    unit = torch.eye(size, dtype=torch.float64).expand(draw.trials, size, size)
    return max(
        _distance(group, group.compose(one, g), g),
        _distance(group, group.compose(g, one), g),
        relative_error(group.matrix(one), unit),
    )


@law(GROUP_LAWS, "g g⁻¹ = 1 = g⁻¹ g")
def inverse(group: Group, draw: Draw) -> float:
    (g,) = draw.elements(group)
    one, back = group.identity((draw.trials,)), group.inverse(g)
    return max(
        _distance(group, group.compose(g, back), one), _distance(group, group.compose(back, g), one)
    )


@law(GROUP_LAWS, "samples, products and inverses pass is_member; the zero matrix does not")
def membership(group: Group, draw: Draw) -> float:
    g, h = draw.elements(group, 2)
    inside = [_outside(group, group.matrix(x)) for x in (g, group.compose(g, h), group.inverse(g))]
    zero = torch.zeros(group.n, group.n, dtype=torch.float64)
    return max(*inside, float(group.is_member(zero)))


@law(GROUP_LAWS, "the algebra is a basis: dim independent matrices")
def basis(group: Group, draw: Draw) -> float:
    vectors = group.algebra().flatten(1)
    rank = int(matrix_rank(vectors)) if group.dim else 0
    return abs(len(vectors) - group.dim) + abs(rank - group.dim)


@law(GROUP_LAWS, "d/dt exp(tX) = X at 0, also through vmap(jvp)")
def tangent(group: Group, draw: Draw) -> float:
    if not group.dim:
        return 0.0
    zero = torch.zeros(group.dim, dtype=torch.float64)

    def moved(c: Tensor) -> Tensor:
        return group.matrix(group.exp(c))

    def derivative(direction: Tensor) -> Tensor:
        tangent: Tensor = torch.func.jvp(moved, (zero,), (direction,))[1]
        return tangent

    tangents = torch.func.vmap(derivative)(torch.eye(group.dim, dtype=torch.float64))
    return relative_error(tangents, group.algebra())


@law(GROUP_LAWS, "[X, Y] of two algebra elements is in the algebra")
def brackets(group: Group, draw: Draw) -> float:
    x, y = map(group.hat, draw.vectors(group.dim, 2))
    return _residual(group, x @ y - y @ x)


@law(GROUP_LAWS, "g X g⁻¹ of an algebra element is in the algebra")
def conjugation(group: Group, draw: Draw) -> float:
    (g,), (x,) = draw.elements(group), map(group.hat, draw.vectors(group.dim))
    return _residual(group, group.matrix(g) @ x @ group.matrix(group.inverse(g)))


@law(GROUP_LAWS, "exp of the algebra is in the group, and exp(0) = 1")
def exponential(group: Group, draw: Draw) -> float:
    (c,) = draw.vectors(group.dim)
    start = _distance(group, group.exp(0 * c), group.identity((draw.trials,)))
    return max(start, _outside(group, group.matrix(group.exp(c))))


@law(GROUP_LAWS, "exp((s+t)X) = exp(sX) exp(tX)")
def one_parameter(group: Group, draw: Draw) -> float:
    (c,) = draw.vectors(group.dim)
    halves = group.compose(group.exp(0.7 * c), group.exp(-1.6 * c))
    return _distance(group, group.exp(-0.9 * c), halves)


@law(GROUP_LAWS, "order counts the components that discrete sampling reaches")
def components(group: Group, draw: Draw) -> float:
    if group.log10_order > 15:
        return 0.0
    off: float = abs(10.0**group.log10_order / group.order - 1)
    if group.order > COUNTABLE:
        return off
    return off + abs(len(_representatives(group, draw.seed)) - group.order)


@law(GROUP_LAWS, "traces are those of the algebra; flips tells whether det < 0 occurs")
def determinant(group: Group, draw: Draw) -> float:
    n = group.n
    traces = group.algebra()[:, :n, :n].diagonal(dim1=-2, dim2=-1).sum(-1)
    off = float((group.traces - traces).abs().max()) if group.dim else 0.0
    linear = group.linear(group.sample(draw.seed, SCALE, (COUNTABLE,)))
    if not group.flips:
        return max(off, float((torch.linalg.det(linear) < 0).any()))
    where = torch.tensor([True, False])
    flipped = group.flip(where)
    signs = torch.linalg.det(group.linear(flipped))
    return max(
        off,
        relative_error(signs, torch.tensor([-1.0, 1.0], dtype=torch.float64)),
        _outside(group, group.matrix(flipped)),
    )


@law(GROUP_LAWS, "apply is the matrix, dual its inverse transpose")
def action(group: Group, draw: Draw) -> float:
    (g,), z, w = draw.elements(group), *draw.vectors(group.n, 2)
    image = (group.linear(g) @ z.unsqueeze(-1)).squeeze(-1) + group.offset(g)
    back = group.linear(g).mT @ group.linear(group.dual(g))
    unit = torch.eye(group.n, dtype=torch.float64).expand_as(back)
    spread = group.apply(g, w[0])  # one vector, a batch of elements
    return max(
        relative_error(group.apply(g, z), image),
        relative_error(back, unit),
        relative_error(spread[-1], group.apply(g, w[0].expand_as(w))[-1]),
    )


@law(GROUP_LAWS, "a batch is computed entry by entry")
def batches(group: Group, draw: Draw) -> float:
    g, h = draw.elements(group, 2)
    both = group.matrix(group.compose(g, group.inverse(h)))
    template = group.identity()
    worst = 0.0
    for i in range(draw.trials):
        a, b = (over(template, element, lambda part, _, i=i: part[i]) for element in (g, h))  # type: ignore[misc]
        one = group.matrix(group.compose(a, group.inverse(b)))
        worst = max(worst, relative_error(both[i], one))
    return worst


@law(GROUP_LAWS, "from_dict(to_dict()) is the same group, with the same hash and name")
def data(group: Group, draw: Draw) -> float:
    again = Group.from_dict(group.to_dict())
    return float(again != group or hash(again) != hash(group) or str(again) != str(group))


# -- two groups ------------------------------------------------------------------------------


@law(PAIR_LAWS, "the algebra of the meet has the dimension of the algebras' intersection")
def meet_algebra(a: Group, b: Group, draw: Draw) -> float:
    x, y = _flat_algebra(a), _flat_algebra(b)
    together = torch.cat([x, y])
    rank = int(matrix_rank(together)) if len(together) else 0
    return abs(a.meet(b).dim - (a.dim + b.dim - rank))


@law(PAIR_LAWS, "elements of the meet are in both")
def meet_inside(a: Group, b: Group, draw: Draw) -> float:
    meet = a.meet(b)
    (g,) = draw.elements(meet)
    return max(_outside(a, meet.matrix(g)), _outside(b, meet.matrix(g)))


@law(PAIR_LAWS, "elements of one that are in the other are in the meet")
def meet_largest(a: Group, b: Group, draw: Draw) -> float:
    worst = 0.0
    for (x, y), scale in itertools.product(((a, b), (b, a)), (0.0, SCALE)):
        matrices = x.matrix(*draw.elements(x, scale=scale))
        shared = matrices[y.is_member(matrices)]
        worst = max(worst, _outside(a.meet(b), shared))
    return worst


@law(PAIR_LAWS, "the meet of a finite group has as many elements as both have in common")
def meet_order(a: Group, b: Group, draw: Draw) -> float:
    for x, y in ((a, b), (b, a)):
        if x.dim == 0 and x.order <= COUNTABLE:
            common = int(y.is_member(_representatives(x, draw.seed)).sum())
            return abs(a.meet(b).order - common)
    return 0.0


@law(PAIR_LAWS, "a ∩ b = b ∩ a, (a ∩ b) ∩ b = a ∩ b, and both contain it")
def meet_algebraic(a: Group, b: Group, draw: Draw) -> float:
    meet = a.meet(b)
    held = b.meet(a) == meet == meet.meet(b) and a.contains(meet) and b.contains(meet)
    return float(not held)


@law(PAIR_LAWS, "a contains b exactly if all elements of b are in a")
def containment(a: Group, b: Group, draw: Draw) -> float:
    worst = 0.0
    for x, y in ((a, b), (b, a)):
        inside = _outside(x, y.matrix(*draw.elements(y))) == 0
        worst = max(worst, float(inside != x.contains(y)))
    return worst


# -- measurements ----------------------------------------------------------------------------


def _distance(group: Group, g: Element, h: Element) -> float:
    return relative_error(group.matrix(g), group.matrix(h))


def _outside(group: Group, matrices: Tensor) -> float:
    """The share of matrices that are not members."""
    inside = group.is_member(matrices)
    return float((~inside).double().mean()) if inside.numel() else 0.0


def _residual(group: Group, matrices: Tensor) -> float:
    """How far matrices are from the span of the algebra."""
    span, targets = group.algebra().flatten(1), matrices.flatten(1)
    if not group.dim:
        return float(targets.abs().max())
    fitted = targets @ torch.linalg.pinv(span) @ span
    return relative_error(fitted, targets) if targets.any() else 0.0


def _representatives(group: Group, seed: int) -> Tensor:
    """The distinct matrices discrete sampling reaches, enough draws to reach all of few."""
    draws = 32 + 16 * min(group.order, COUNTABLE)
    matrices = group.matrix(group.sample(seed, 0.0, (draws,)))
    _, which = (matrices / MOVED_TOLERANCE).round().unique(dim=0, return_inverse=True)
    first = torch.zeros(int(which.max()) + 1, dtype=torch.long)
    return matrices[first.scatter(0, which, torch.arange(draws))]


def _flat_algebra(group: Group) -> Tensor:
    """The algebra as rows, in homogeneous coordinates for every group."""
    x = group.algebra()
    if not group.affine:
        x = homogeneous(x, x.new_zeros(x.shape[:-1]))
        x[..., -1, -1] = 0
    return x.flatten(1)


__all__ = [
    "GROUP_LAWS",
    "PAIR_LAWS",
    "Draw",
    "Law",
    "LawError",
    "LawReport",
    "check",
    "check_group",
    "check_pair",
    "law",
]
