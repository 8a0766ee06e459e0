"""Operations entry by entry: sums, products, and functions of one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paramsym.network.activations import ActivationFacts, facts_of_op
from paramsym.network.axes import Kind, Leaf, Tree, is_split, leaves, picked
from paramsym.network.flow import Support
from paramsym.network.idioms import adds_eps, centred_axes
from paramsym.network.rules import rule
from paramsym.network.rules.contract import combine, gain_name, kept
from paramsym.network.rules.pieces import Pieces, image
from paramsym.network.solve import Op, Pairs, Result
from paramsym.network.values import Cell, Charge, Value, cells

# sums ---------------------------------------------------------------------------------------------


@rule("aten.add.Tensor", "aten.sub.Tensor")
def add_rule(op: Op) -> Result:
    """Both terms carry the same element; a constant is shifted back by a bias, or fixes it."""
    axes = centred_axes(op.engine.graph, op.node)
    if axes is not None:
        return centred(op, op[0], axes)
    if op.engine.eps and adds_eps(op.engine.graph, op.node):
        for charge in op[0].charges.values():
            op.engine.unscaled(charge)
        return unchanged(op)
    if not isinstance(op[1], Value) and op[1] == 0:
        return unchanged(op)
    sign = -1.0 if op.name == "sub" else 1.0
    return add(op, as_value(op, op[0]), as_value(op, op[1]), sign)


def centred(op: Op, x: Value, axes: Sequence[int]) -> Value:
    """``x - x.mean(axes)``: rotations that fix the ones, one scale and one sign for all."""
    engine = op.engine
    for k in axes:
        engine.factors.lower_tree(x.axes[k], Kind.CENTRED, f"{op.where} subtracts a mean")
    engine.made(axis for k, axis in enumerate(x.axes) if k not in axes)
    engine.flows.wall(x.flow)
    lost = [leaf for k in axes for leaf in leaves(engine.factors.resolve(x.axes[k]))]
    charges: dict[Cell, Charge] = {}
    total: Charge | None = None
    for cell, charge in x.charges.items():
        charges[cell] = even = engine.along(charge, lost, op.where)
        if total is not None:
            engine.equal(total, even)
        total = even
    return Value(x.axes, charges, node=op.node.index)


def as_value(op: Op, item: Any) -> Value:
    """A tensor argument, or a number as a tensor without axes."""
    return item if isinstance(item, Value) else op.engine.fixed(())


def add(op: Op, a: Value, b: Value, sign: float = 1.0) -> Value:
    """``a + sign * b``."""
    engine = op.engine
    rank = max(len(a.axes), len(b.axes))
    a, b = engine.broadcast(a, rank), engine.broadcast(b, rank)
    shifted = shifted_by_constant(op, a, b, sign)
    if shifted is None:
        shifted = shifted_by_constant(op, b if sign > 0 else scaled(op, b, -1.0), a)
    if shifted is not None:
        return shifted
    b = engine.apart(a, b)
    flow = _sum_flow(op, a, b, sign)
    matched = engine.matched(a, b, [(k, k) for k in range(rank)])
    if matched is None:
        shape = [max(x.size, y.size) for x, y in zip(a.axes, b.axes, strict=True)]
        return engine.fixed(shape, op.node.index)
    a, b, pairs = matched
    for axis in pairs:
        for xs, ys in axis:
            for x, y in zip(xs, ys, strict=True):
                same_leaf(op, x, y)
    axes = [picked(x, y) for x, y in zip(a.axes, b.axes, strict=True)]
    result = Value(tuple(axes), node=op.node.index, free=a.free and b.free, flow=flow)
    if engine.final:
        result = replace(result, charges=equal_charges(op, a, b, pairs))
    return result


def same_leaf(op: Op, x: Leaf, y: Leaf) -> None:
    """Two index sets of a sum move alike."""
    factors = op.engine.factors
    if x.factor is not None and y.factor is not None:
        factors.same(x, y, f"{op.where} adds it to something that moves in another way")
        return
    for one, other in ((x, y), (y, x)):
        if one.factor is None and other.factor is not None and one.what != "zero":
            kind = Kind.CENTRED if one.what == "uniform" else Kind.FIXED
            factors.lower(other, kind, f"{op.where} adds it to values that stay")


def equal_charges(op: Op, a: Value, b: Value, pairs: list[Pairs]) -> dict[Cell, Charge]:
    """The charges of a sum, block by block; a block of zeros takes any."""
    engine = op.engine
    found: dict[Cell, Charge] = {}
    for matched in blocks(pairs):
        zero_a = any(x.what == "zero" and x.factor is None for x, _ in matched)
        zero_b = any(y.what == "zero" and y.factor is None for _, y in matched)
        names = {y.slot: x.slot for x, y in matched if None not in (x.factor, y.factor)}
        one = a.charge(x for x, _ in matched)
        other = b.charge(y for _, y in matched).rename(names)
        if not zero_a and not zero_b:
            engine.equal(one, other)
        key = frozenset(kept(x, y).slot for x, y in matched)
        found[key] = other if zero_a else one
    return found


def blocks(pairs: list[Pairs]) -> list[list[tuple[Leaf, Leaf]]]:
    """Every choice of one pure product per axis, as matched leaves."""
    found: list[list[tuple[Leaf, Leaf]]] = [[]]
    for axis in pairs:
        found = [[*block, *zip(xs, ys, strict=True)] for block in found for xs, ys in axis]
    return found


def _sum_flow(op: Op, a: Value, b: Value, sign: float) -> int | None:
    """The shift of a sum."""
    flows = op.engine.flows
    shape = tuple(max(x.size, y.size) for x, y in zip(a.axes, b.axes, strict=True))
    inputs, factors = [], []
    for value, factor in ((a, 1.0), (b, sign)):
        flow = value.flow
        if flow is not None:
            inputs.append(flow)
            factors.append(factor)
    if not inputs:
        return None
    support = frozenset().union(*(_aligned_support(op, i, len(shape)) for i in inputs))
    return flows.add("sum", tuple(inputs), shape, support, factors=factors)


def _aligned_support(op: Op, flow: int, rank: int) -> Support:
    step = op.engine.flows.steps[flow]
    offset = rank - len(step.shape)
    return frozenset(axis + offset for axis in step.support)


def shifted_by_constant(op: Op, x: Value, c: Value, sign: float = 1.0) -> Value | None:
    """``x + sign * c`` for a number or a buffer, if a bias takes back what that shifts.

    Where ``x`` moves by T the sum does too, up to the shift c' - T c; then c restricts nothing.
    """
    engine = op.engine
    key = f"constant {op.node.index}"
    whole = all(n in (1, m) for n, m in zip(c.shape, x.shape, strict=True))
    if x.free or not whole or not engine.absorbed(key):
        return None
    support = varying_of(x)
    if known_constant(c):
        step = engine.constant_step(key, x, "fixed", sign * constant_spec(op), support)
    else:
        axis = _follow(op, x, c)
        if axis is None:
            return None
        spec = {"name": engine.graph.nodes[c.node].target, "sign": sign, "axis": axis}
        step = engine.constant_step(key, x, "buffer", spec, support | {axis})
    inputs = (step,) if x.flow is None else (x.flow, step)
    support = frozenset().union(*(engine.flows.steps[i].support for i in inputs))
    flow = engine.flows.add("sum", inputs, x.shape, support, factors=[1.0] * len(inputs))
    return replace(x, flow=flow, node=op.node.index, expression=None)


def _follow(op: Op, x: Value, buffer: Value) -> int | None:
    """Let a buffer follow the permutations of the axis that it lies along, and nothing else."""
    engine = op.engine
    long = [k for k, n in enumerate(buffer.shape) if n > 1]
    node = engine.graph.nodes[buffer.node] if buffer.node >= 0 else None
    if node is None or node.op != "buffer" or len(long) != 1:
        return None
    matched = engine.matched(x, buffer, [(long[0], long[0])])
    blocks_ = [] if matched is None else matched[2][0]
    pairs = [pair for xs, ys in blocks_ for pair in zip(xs, ys, strict=True)]
    if any(entry.what in ("uniform", "zero") and own.factor is not None for entry, own in pairs):
        return None  # equal entries that become different: what permutes them is the buffer's own
    for entry, own in pairs:
        if entry.factor is None or own.factor is None:
            same_leaf(op, entry, own)
        elif engine.factors.kind(entry) <= Kind.PERMUTATION:
            engine.factors.share(entry, own, f"{op.where} has a buffer entry for each")
        else:
            engine.attached[own.factor] = node.target
    return long[0]


def known_constant(value: Value) -> bool:
    """Whether a tensor is a number written in the model."""
    return value.free and value.node < 0 and not any(n > 1 for n in value.shape)


def constant_spec(op: Op) -> float:
    """The number that a scalar argument is."""
    return float(next(arg for arg in op.args if isinstance(arg, (int, float))))


def varying_of(value: Value) -> Support:
    """The axes along which what an element does to a tensor may vary."""
    return frozenset(
        k
        for k, axis in enumerate(value.axes)
        if is_split(axis) or any(leaf.factor is not None for leaf in leaves(axis))
    )


# products -----------------------------------------------------------------------------------------


@rule("aten.mul.Tensor", "aten.div.Tensor")
def multiply(op: Op) -> Result:
    """Products entry by entry: scales add, an index set is shared, a number changes nothing."""
    power = -1 if op.name == "div" else 1
    if not isinstance(op[1], Value):
        return scaled(op, op[0], float(op[1]) ** power)
    if not isinstance(op[0], Value):
        return pointwise(op, op[1], facts_of_op(op.node.op, op.node.args, op.node.kwargs))
    return product_of(op, op[0], op[1], power)


def product_of(op: Op, a: Value, b: Value, power: int = 1) -> Value:
    """``a * b ** power``, broadcast."""
    engine = op.engine
    if a.node == b.node >= 0 and a.shape == b.shape:
        return squared(op, a) if power == 1 else engine.fixed(a.shape, op.node.index)
    rank = max(len(a.axes), len(b.axes))
    a, b = engine.broadcast(a, rank), engine.broadcast(b, rank)
    # a gain goes second, and else what varies less
    first, second = ((gain_name(engine, x) is None, len(varying_of(x))) for x in (a, b))
    if power == 1 and first < second:
        a, b = b, a
    return combine(op, a, b, [(k, k) for k in range(rank)], power=power)


def squared(op: Op, x: Value) -> Value:
    """``x * x``: signs are lost, scales double."""
    value = pointwise(op, x, facts_of_op("aten.pow.Tensor_Scalar", (op.node.args[0], 2), {}))
    assert isinstance(value, Value)
    return value


def scaled(op: Op, x: Value, factor: float) -> Value:
    """A tensor times a number: whatever moves the tensor moves the result."""
    flow = x.flow
    if flow is not None:
        step = op.engine.flows.steps[flow]
        flow = op.engine.flows.add("sum", (flow,), step.shape, step.support, factors=[factor])
    return replace(x, flow=flow, node=op.node.index, expression=None)


@rule("aten.neg.default")
def negate(op: Op) -> Result:
    """Minus commutes with every linear map."""
    return scaled(op, op[0], -1.0)


def unchanged(op: Op) -> Result:
    """The same values."""
    x: Value = op[0]
    return replace(x, node=op.node.index)


@rule("aten._to_copy.default")
def converted(op: Op) -> Result:
    """Another floating type changes nothing; an integer type is a step function."""
    x: Value = op[0]
    dtype = op.node.dtype
    if dtype is None or not dtype.is_floating_point:
        return None
    return replace(x, node=op.node.index)


# functions of one number --------------------------------------------------------------------------


def pointwise(op: Op, x: Value, facts: ActivationFacts | None) -> Result:
    """A function of one number, entry by entry, through the facts that were probed of it."""
    if facts is None:
        return None
    if x.free:
        return op.engine.fixed(x.shape, op.node.index)
    engine = op.engine
    if facts.linear:
        engine.flows.wall(x.flow)
        return replace(x, node=op.node.index, flow=None, expression=None)
    if summed_square(op):
        return Value(x.axes, node=op.node.index, square=x)
    pieces = fixed_pieces(op, x, facts)
    if pieces is not None:
        return pieces
    engine.entrywise(x, f"{op.where} works entry by entry")
    key = f"reflection {op.node.index}"
    flow = None
    reflected = facts.reflection == "affine" and engine.absorbed(key)
    if reflected:
        constant = facts.reflection_constant
        flow = engine.constant_step(key, x, "reflect", constant, varying_of(x))
    shifted = _exponential(op, x, facts.rate) if facts.exponential else None
    if shifted is None:
        engine.flows.wall(x.flow)
    axes = tuple(_through(axis, facts) for axis in x.axes)
    result = Value(axes, node=op.node.index, flow=flow)
    if engine.final:
        charges = {
            frozenset(leaf.slot for leaf in cell): image(op, x.charge(cell), facts, reflected)
            for cell in cells(x.axes)
        }
        for cell, shift in (shifted or {}).items():
            charges[cell] = charges[cell].plus(shift)
        result = replace(result, charges=charges)
    return result


def fixed_pieces(op: Op, x: Value, facts: ActivationFacts) -> Value | None:
    """A function with one kink, where the batch at hand never crosses it for some of the units."""
    pattern = op.engine.patterns.get(op.node.index)
    axes = sorted(varying_of(x))
    if pattern is None or len(axes) != 1:
        return None
    return Pieces(op, x, facts, axes[0], pattern).run()


def _through(axis: Tree, facts: ActivationFacts) -> Tree:
    """Zeros stay zeros only where the function fixes zero."""
    if isinstance(axis, Leaf):
        zero = axis.what == "zero" and axis.factor is None and not facts.zero_value
        return replace(axis, what="uniform") if zero else axis
    return replace(axis, children=tuple(_through(child, facts) for child in axis.children))


def summed_square(op: Op) -> bool:
    """Whether this node squares a tensor of which only sums are used: then it is a norm."""
    graph, node = op.engine.graph, op.node
    power = node.op == "aten.pow.Tensor_Scalar" and node.args[1] == 2
    times_itself = node.op == "aten.mul.Tensor" and node.args[0] == node.args[1]
    readers = [graph.nodes[user] for user in graph.users(node.index)]
    sums = ("aten.sum.dim_IntList", "aten.mean.dim")
    used = bool(readers) and node.index not in op.engine.outputs
    return (power or times_itself) and used and all(reader.op in sums for reader in readers)


def _exponential(op: Op, x: Value, rate: float) -> dict[Cell, Charge] | None:
    """A shift of the exponent is a scale of the result, where a bias can make it."""
    engine = op.engine
    key = f"exponent {op.node.index}"
    if x.flow is None or not engine.absorbed(key):
        return None
    support = varying_of(x)
    charges, step = engine.log_shift(key, x, support, rate)
    joint = support | engine.flows.steps[x.flow].support
    flow = engine.flows.add("sum", (x.flow, step), x.shape, joint, factors=[1.0, -1.0])
    engine.flows.wall(flow)
    return charges


@rule("any function of one number")
def unary(op: Op) -> Result:
    """Any other operation of one tensor, if it works entry by entry."""
    tensors = list(op.values())
    facts = facts_of_op(op.node.op, op.node.args, op.node.kwargs) if len(tensors) == 1 else None
    return pointwise(op, tensors[0], facts) if facts is not None else None
