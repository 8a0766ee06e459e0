"""Sums, means, extrema, norms and pooling."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from paramsym.network.axes import Kind, Leaf, branches, leaves
from paramsym.network.charges import ZERO
from paramsym.network.rules import rule
from paramsym.network.rules.contract import combine
from paramsym.network.rules.elementwise import add
from paramsym.network.rules.layout import held, passed, view
from paramsym.network.solve import Op, Result
from paramsym.network.values import Cell, Charge, Value


def axes_of(x: Value, dims: Sequence[int] | int | None) -> list[int]:
    """The axes that a reduction runs over; none given means all."""
    chosen = [dims] if isinstance(dims, int) else list(dims or range(len(x.axes)))
    return sorted(d % len(x.axes) for d in chosen)


@rule("aten.sum.dim_IntList", "aten.mean.dim")
def sum_rule(op: Op) -> Result:
    """A sum reads an axis against the vector of ones, which some rotations fix."""
    x, axes, keepdim = op[0], axes_of(op[0], op[1]), bool(op[2])
    if x.free:
        return op.engine.fixed(op.node.shape or (), op.node.index)
    if x.square is not None:
        return squared_norm(op, x.square, axes, keepdim=keepdim)
    factor = 1.0
    if op.name == "sum":
        for axis in axes:
            factor *= x.shape[axis]
    return summed(op, x, axes, keepdim=keepdim, factor=factor)


def summed(
    op: Op, x: Value, axes: Sequence[int], *, keepdim: bool, factor: float | None = None
) -> Value:
    """``x.sum(axes)``; ``factor`` is the number that the mean is multiplied by."""
    engine = op.engine
    if factor is None:
        factor = 1.0
        for axis in axes:
            factor *= x.shape[axis]
    for axis in axes:
        engine.factors.lower_tree(x.axes[axis], Kind.CENTRED, f"{op.where} adds entries up")
    rest = [k for k in range(len(x.axes)) if k not in axes]
    result = Value(tuple(x.axes[k] for k in rest), node=op.node.index, free=x.free)
    if engine.final:
        result = replace(result, charges=_summed_charges(op, x, axes, rest))
    shape = (
        [1 if k in axes else n for k, n in enumerate(x.shape)] if keepdim else list(result.shape)
    )
    flow = x.flow
    expression = x.expression
    attrs = {"axes": list(axes), "keepdim": False, "factor": factor}
    if flow is not None:
        support = engine.flows.steps[flow].support
        after = frozenset(k for k, axis in enumerate(rest) if axis in support)
        flow = engine.flows.add("reduce", (flow,), result.shape, after, **attrs)
    if expression is not None:
        everywhere = frozenset(range(len(rest)))
        expression = engine.flows.add("reduce", (expression,), result.shape, everywhere, **attrs)
    result = replace(result, flow=flow, expression=expression)
    return view(op, result, shape) if keepdim else result


def _summed_charges(
    op: Op, x: Value, axes: Sequence[int], rest: Sequence[int]
) -> dict[Cell, Charge]:
    """What is summed must scale alike."""
    engine = op.engine
    found: dict[Cell, Charge] = {}
    own = [branches(engine.factors.resolve(x.axes[k])) for k in rest]
    lost = [branches(engine.factors.resolve(x.axes[k])) for k in axes]
    for kept in itertools.product(*own):
        key = frozenset(leaf.slot for branch in kept for leaf in branch)
        for gone in itertools.product(*lost):
            summed_leaves = list(itertools.chain(*gone))
            if any(leaf.what == "zero" and leaf.factor is None for leaf in summed_leaves):
                continue
            charge = x.charge([*itertools.chain(*kept), *summed_leaves])
            term = engine.along(charge, summed_leaves, op.where)
            if key in found:
                engine.equal(found[key], term)
            found[key] = term
    return found


def squared_norm(op: Op, x: Value, axes: Sequence[int], *, keepdim: bool) -> Value:
    """``(x * x).sum(axes)``: a contraction of ``x`` with itself, which rotations preserve."""
    rest = [k for k in range(len(x.axes)) if k not in axes]
    op.engine.flows.wall(x.flow)
    x = replace(x, flow=None, expression=None)
    value = combine(op, x, x, [(k, k) for k in rest], [(k, k) for k in axes])
    shape = [1 if k in axes else n for k, n in enumerate(x.shape)]
    return view(op, value, shape) if keepdim else value


@rule("aten.linalg_vector_norm.default")
def vector_norm(op: Op) -> Result:
    """The Euclidean norm scales with its argument and is preserved by rotations."""
    x, order, dims, keepdim = op[0], op[1], op[2], bool(op[3])
    if order != 2:
        return None
    square = squared_norm(op, x, axes_of(x, dims), keepdim=keepdim)
    charges = {
        cell: Charge(charge.scale.times(Fraction(1, 2)), ZERO)
        for cell, charge in square.charges.items()
    }
    return replace(square, charges=charges)


@rule("aten.amax.default", "aten.amin.default")
def extremum(op: Op) -> Result:
    """The largest entry: permutations and positive scales of the whole pass."""
    x, axes, keepdim = op[0], axes_of(op[0], op[1]), bool(op[2])
    monotone_ = monotone(op, x)
    flow = monotone_.flow
    if flow is not None and op.engine.flows.steps[flow].support & set(axes):
        op.engine.flows.wall(flow)
        flow = None
    return summed(op, replace(monotone_, flow=flow), axes, keepdim=keepdim, factor=1.0)


@rule("aten.maximum.default", "aten.minimum.default", "aten.fmax.default", "aten.fmin.default")
def larger(op: Op) -> Result:
    """The larger of two tensors that move alike, by permutations and positive scales."""
    for x in (op[0], op[1]):
        op.engine.flows.wall(x.flow)
    one, other = (monotone(op, replace(x, flow=None)) for x in (op[0], op[1]))
    return replace(add(op, one, other), flow=None)


def monotone(op: Op, x: Value) -> Value:
    """Only positive scales and permutations may act on this tensor."""
    engine = op.engine
    engine.entrywise(x, f"{op.where} compares entries")
    for charge in x.charges.values():
        engine.signs.require_zero(charge.sign)
    unsigned = {cell: Charge(charge.scale) for cell, charge in x.charges.items()}
    return replace(x, charges=unsigned, expression=None)


# pooling and resampling ---------------------------------------------------------------------------


def _pooled(op: Op, x: Value, *, uniform_passes: bool = True) -> Value:
    """Entries along trailing axes are replaced by others; these axes keep their places."""
    shape = op.node.shape or ()
    axes = [k for k in range(2 if len(shape) > 2 else 1, len(shape))]
    spatial = [k for k in axes if _holds(x, k)]
    moved = x.flow is not None and op.engine.flows.steps[x.flow].support & set(axes)
    if moved or not uniform_passes:
        op.engine.flows.wall(x.flow)
        x = replace(x, flow=None)
    x = held(op, x, spatial, "mixes neighbouring entries") if spatial else x
    sized = [
        replace(axis, size=n, what="fixed") if k in axes and isinstance(axis, Leaf) else axis
        for k, (axis, n) in enumerate(zip(x.axes, shape, strict=True))
    ]
    return passed(op, x, replace(x, axes=tuple(sized)))


def _holds(x: Value, axis: int) -> bool:
    tree = x.axes[axis]
    return not isinstance(tree, Leaf) or any(leaf.factor is not None for leaf in leaves(tree))


@rule(
    *(f"aten.max_pool{d}d.default" for d in (1, 2, 3)),
    *(f"aten.adaptive_max_pool{d}d.values" for d in (1, 2, 3)),
)
def max_pool(op: Op) -> Result:
    """The largest of some pixels: positive scales and permutations of the channels pass."""
    return _pooled(op, monotone(op, op[0]))


@rule(*(f"aten.avg_pool{d}d.default" for d in (1, 2, 3)))
def avg_pool(op: Op) -> Result:
    """A mean over pixels passes anything linear; zeros at the border do not pass shifts."""
    padded = any(op[3] or (0,))
    plain = op[6] is None and (not padded or op[5] is False)
    return _pooled(op, op[0], uniform_passes=plain)


@rule(
    *(f"aten.adaptive_avg_pool{d}d.default" for d in (1, 2, 3)),
    *(
        f"aten.{name}.vec"
        for name in (
            "upsample_nearest1d",
            "upsample_nearest2d",
            "upsample_nearest3d",
            "_upsample_nearest_exact1d",
            "_upsample_nearest_exact2d",
            "_upsample_nearest_exact3d",
            "upsample_linear1d",
            "upsample_bilinear2d",
            "upsample_trilinear3d",
            "upsample_bicubic2d",
            "_upsample_bilinear2d_aa",
            "_upsample_bicubic2d_aa",
        )
    ),
)
def resample(op: Op) -> Result:
    """Weighted means of pixels, the weights fixed and of sum one: anything linear passes."""
    return _pooled(op, op[0])
