"""What makes a group one: its verbs, algebra and facts fit together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from paramsym.groups import Element, Group
from paramsym.groups.elements import over
from paramsym.numerics import largest_entry, matrix_rank, relative_error
from paramsym.testing.draw import COUNTABLE, SCALE, Draw, outside, representatives
from paramsym.testing.law import LawReport, Suite, check, law

GROUP_LAWS: Suite = []


def check_group(group: Group, seed: int = 0, trials: int = 4) -> LawReport:
    """Test that a group is one, and that its verbs, algebra and facts fit together.

    >>> from paramsym.groups import Monomial
    >>> check_group(Monomial(3)).passed
    True
    """
    return check(GROUP_LAWS, str(group), group, Draw(seed, trials))


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
    inside = [outside(group, group.matrix(x)) for x in (g, group.compose(g, h), group.inverse(g))]
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
    # relative to the products: where the algebra is abelian the difference is rounding only
    return _residual(group, x @ y - y @ x, size=largest_entry(x @ y))


@law(GROUP_LAWS, "g X g⁻¹ of an algebra element is in the algebra")
def conjugation(group: Group, draw: Draw) -> float:
    (g,), (x,) = draw.elements(group), map(group.hat, draw.vectors(group.dim))
    return _residual(group, group.matrix(g) @ x @ group.matrix(group.inverse(g)))


@law(GROUP_LAWS, "exp of the algebra is in the group, and exp(0) = 1")
def exponential(group: Group, draw: Draw) -> float:
    (c,) = draw.vectors(group.dim)
    start = _distance(group, group.exp(0 * c), group.identity((draw.trials,)))
    return max(start, outside(group, group.matrix(group.exp(c))))


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
    return off + abs(len(representatives(group, draw.seed)) - group.order)


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
        outside(group, group.matrix(flipped)),
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
        a, b = (over(template, element, entry(i)) for element in (g, h))
        one = group.matrix(group.compose(a, group.inverse(b)))
        worst = max(worst, relative_error(both[i], one))
    return worst


def entry(i: int) -> Callable[[Tensor, int], Tensor]:
    """The i-th of a batch, part by part of an element."""
    return lambda part, _: part[i]


@law(GROUP_LAWS, "from_dict(to_dict()) is the same group, with the same hash and name")
def data(group: Group, draw: Draw) -> float:
    again = Group.from_dict(group.to_dict())
    return float(again != group or hash(again) != hash(group) or str(again) != str(group))


def _distance(group: Group, g: Element, h: Element) -> float:
    return relative_error(group.matrix(g), group.matrix(h))


def _residual(group: Group, matrices: Tensor, size: float | None = None) -> float:
    """How far matrices are from the span of the algebra, relative to ``size`` (their own)."""
    span, targets = group.algebra().flatten(1), matrices.flatten(1)
    if not group.dim:
        return float(targets.abs().max())
    missed = largest_entry(targets @ torch.linalg.pinv(span) @ span - targets)
    return missed / (size or largest_entry(targets) or 1.0)


__all__ = ["GROUP_LAWS", "check_group"]
