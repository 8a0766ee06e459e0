"""Operations that move entries and change none."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from paramsym.network.axes import (
    Kind,
    Leaf,
    Mismatch,
    Product,
    Ranges,
    Sum,
    Tree,
    branches,
    direct_sum,
    is_uniform,
    leaves,
    picked,
    product,
)
from paramsym.network.flow import Step, moved_support
from paramsym.network.graph import grouping
from paramsym.network.idioms import VIEWS
from paramsym.network.rules import rule
from paramsym.network.rules.elementwise import blocks, same_leaf
from paramsym.network.solve import Op, Pairs, Result
from paramsym.network.values import Cell, Charge, Value, rekeyed, split_axis

# views --------------------------------------------------------------------------------------------


@rule(*VIEWS)
def view_rule(op: Op) -> Result:
    """A row-major regrouping of the axes."""
    return view(op, op[0], op.node.shape or ())


def view(op: Op, x: Value, shape: Sequence[int]) -> Value:
    """``x.view(shape)``: products are merged and cut again, splitting index sets where needed."""
    engine = op.engine
    groups = grouping(x.shape, shape)
    axes: list[Tree] = [engine.factors.special(1, "uniform") for _ in shape]
    try:
        for ins, outs in groups:
            if all(shape[o] == 1 for o in outs):
                continue
            whole = product([x.axes[i] for i in ins])
            sizes = tuple(shape[o] for o in outs)
            cut = engine.factors.cut(whole, sizes)
            parts = split_axis(engine.factors.resolve(cut), sizes)
            if parts is None:
                raise Mismatch
            for o, part in zip(outs, parts, strict=True):
                if shape[o] > 1:
                    axes[o] = part
    except Mismatch:
        engine.pin(x, f"{op.where} cuts an axis across its parts")
        return engine.fixed(shape, op.node.index)
    current = replace(x, axes=tuple(engine.factors.resolve(axis) for axis in x.axes))
    result = rekeyed(current, axes) if engine.final else replace(x, axes=tuple(axes))
    return _with_flow(op, x, result, "view", groups=groups)


def _with_flow(op: Op, x: Value, result: Value, kind: str, **attrs: object) -> Value:
    """The result with the shift and the expression of ``x`` carried along a layout step."""
    flows, shape = op.engine.flows, result.shape
    flow = expression = None
    if x.flow is not None:
        step = Step(kind, (x.flow,), shape, frozenset(), attrs)
        support = moved_support(flows.steps[x.flow].support, step)
        flow = flows.add(kind, (x.flow,), shape, support, **attrs)
    if x.expression is not None:
        everywhere = frozenset(range(len(shape)))
        expression = flows.add(kind, (x.expression,), shape, everywhere, **attrs)
    return replace(
        result,
        node=x.node if kind == "view" else op.node.index,
        flow=flow,
        expression=expression,
    )


@rule("aten.permute.default")
def permute_rule(op: Op) -> Result:
    """The axes in another order."""
    return permute(op, op[0], op[1])


def permute(op: Op, x: Value, dims: Sequence[int]) -> Value:
    """``x.permute(dims)``."""
    result = replace(x, axes=tuple(x.axes[d] for d in dims))
    return _with_flow(op, x, result, "permute", dims=list(dims))


@rule("aten.expand.default")
def expand_rule(op: Op) -> Result:
    """Axes of size one repeated: the result is uniform along them."""
    shape = op.node.shape or ()
    return expand(op, view(op, op[0], (1,) * (len(shape) - len(op[0].axes)) + op[0].shape), shape)


def expand(op: Op, x: Value, shape: Sequence[int]) -> Value:
    """``x.expand(shape)`` for equal ranks."""
    axes = [
        replace(axis, size=n) if isinstance(axis, Leaf) and axis.size == 1 else axis
        for axis, n in zip(x.axes, shape, strict=True)
    ]
    return passed(op, x, rekeyed(x, axes))


def passed(op: Op, x: Value, result: Value) -> Value:
    """The result with the shift of ``x``, which is constant along whatever changed."""
    flow = x.flow
    if flow is not None:
        flow = op.engine.flows.add(
            "broadcast", (flow,), result.shape, op.engine.flows.steps[flow].support
        )
    return replace(result, node=op.node.index, flow=flow, expression=None)


# parts --------------------------------------------------------------------------------------------


@rule("aten.slice.Tensor")
def slice_rule(op: Op) -> Result:
    """Some entries of one axis."""
    x, axis, start, end, step = op.args[:5]
    size = x.shape[axis]
    return taken(op, x, axis, tuple(range(size))[slice(start, min(end, size), step)])


@rule("aten.select.int")
def select_rule(op: Op) -> Result:
    """One entry of one axis, which thereby has a place of its own."""
    x, axis = op[0], op[1]
    if any(leaf.factor is not None for leaf in leaves(x.axes[axis])):
        x = held(op, x, [axis], "selects one of its entries")
    part = taken(op, x, axis, (op[2],))
    shape = [n for k, n in enumerate(part.shape) if k != axis]
    return replace(view(op, part, shape), node=op.node.index)


@rule("aten.index_select.default")
def index_select(op: Op) -> Result:
    """Entries picked by number: each then has a place of its own."""
    x, axis, places = op[0], op[1], op[2]
    if not places.free or x.free:
        return None
    shift = x.flow is not None and axis in op.engine.flows.steps[x.flow].support
    if shift:
        op.engine.flows.wall(x.flow)
        x = replace(x, flow=None)
    x = held(op, x, [axis], "picks entries by number")
    size = (op.node.shape or ())[axis]
    axes = [replace(t, size=size) if k == axis else t for k, t in enumerate(x.axes)]
    return passed(op, x, rekeyed(x, axes))


def held(op: Op, x: Value, axes: Sequence[int], why: str) -> Value:
    """Let nothing move along some axes, which become plain places."""
    engine = op.engine
    lost: list[Leaf] = []
    for k in axes:
        engine.factors.lower_tree(x.axes[k], Kind.FIXED, f"{op.where} {why}")
        lost.extend(leaves(engine.factors.resolve(x.axes[k])))
    held_axes = [
        engine.factors.special(
            axis.size, "uniform" if is_uniform(axis) or axis.size == 1 else "fixed"
        )
        if k in axes
        else axis
        for k, axis in enumerate(x.axes)
    ]
    result = replace(x, axes=tuple(held_axes), charges={}, expression=None)
    if engine.final:
        result = replace(result, charges=_held_charges(op, x, held_axes, axes, lost))
    return result


def _held_charges(
    op: Op, x: Value, after: list[Tree], axes: Sequence[int], lost: list[Leaf]
) -> dict[Cell, Charge]:
    """The charges on axes that have become places: nothing may depend on these."""
    engine = op.engine
    found: dict[Cell, Charge] = {}
    own = [branches(engine.factors.resolve(axis)) for axis in x.axes]
    for chosen in itertools.product(*own):
        charge = x.charge(itertools.chain(*chosen))
        term = engine.along(charge, lost, op.where)
        kept = [branches(after[k])[0] if k in axes else branch for k, branch in enumerate(chosen)]
        key = frozenset(leaf.slot for branch in kept for leaf in branch)
        if key in found:
            engine.equal(found[key], term)
        found[key] = term
    return found


def taken(op: Op, x: Value, axis: int, places: Ranges) -> Value:
    """The entries at ``places`` of one axis, in increasing order."""
    engine = op.engine
    try:
        part = restricted(op, x.axes[axis], places)
    except Mismatch:
        engine.pin(x, f"{op.where} cuts an axis across its parts")
        shape = [len(places) if k == axis else n for k, n in enumerate(x.shape)]
        return engine.fixed(shape, op.node.index)
    axes = tuple(part if k == axis else engine.factors.resolve(t) for k, t in enumerate(x.axes))
    raw = replace(x, axes=axes)
    clean = tuple(engine.factors.resolve(t) for t in axes)
    result = rekeyed(raw, clean) if engine.final else replace(x, axes=clean)
    flow, expression = x.flow, None
    attrs = {"axis": axis, "places": list(places)}
    if flow is not None:
        support = engine.flows.steps[flow].support
        flow = engine.flows.add("narrow", (flow,), result.shape, support, **attrs)
    if x.expression is not None:
        everywhere = frozenset(range(len(axes)))
        expression = engine.flows.add("narrow", (x.expression,), result.shape, everywhere, **attrs)
    return replace(result, node=op.node.index, flow=flow, expression=expression)


def restricted(op: Op, tree: Tree, places: Ranges) -> Tree:
    """The part of an axis at the given places; an index set is split where they cut it."""
    factors = op.engine.factors
    tree = factors.resolve(tree)
    if len(places) == tree.size:
        return tree
    if isinstance(tree, Leaf):
        if tree.factor is None:
            return replace(tree, size=len(places))
        chosen = frozenset(places)
        groups = _runs(tree.size, chosen)
        factors.split_sum(tree, groups)
        return restricted(op, tree, places)
    if isinstance(tree, Product):
        return _restricted_product(op, tree, places)
    return _restricted_sum(op, tree, places)


def _runs(size: int, chosen: frozenset[int]) -> tuple[Ranges, ...]:
    """The chosen places and the runs of places between them."""
    runs: list[list[int]] = []
    for i in range(size):
        if i not in chosen:
            if not runs or runs[-1][-1] != i - 1:
                runs.append([])
            runs[-1].append(i)
    parts = [tuple(sorted(chosen)), *(tuple(run) for run in runs)]
    return tuple(sorted((p for p in parts if p), key=lambda p: p[0]))


def _restricted_product(op: Op, tree: Product, places: Ranges) -> Tree:
    head, tail = tree.children[0], tree.children[1:]
    rest = tree.size // head.size
    outer = tuple(dict.fromkeys(p // rest for p in places))
    inner = tuple(dict.fromkeys(p % rest for p in places))
    if places != tuple(o * rest + r for o in outer for r in inner):
        raise Mismatch
    below: Tree = tail[0] if len(tail) == 1 else Product(tail)
    return Product((restricted(op, head, outer), restricted(op, below, inner)))


def _restricted_sum(op: Op, tree: Sum, places: Ranges) -> Tree:
    where = {p: k for k, p in enumerate(places)}
    parts, new_places = [], []
    for child, own in zip(tree.children, tree.places, strict=True):
        local = tuple(k for k, p in enumerate(own) if p in where)
        if local:
            parts.append(restricted(op, child, local))
            new_places.append(tuple(where[own[k]] for k in local))
    return parts[0] if len(parts) == 1 else Sum(tuple(parts), tuple(new_places))


# concatenation ------------------------------------------------------------------------------------


@rule("aten.cat.default")
def cat_rule(op: Op) -> Result:
    """A direct sum along one axis; along the others all parts move alike."""
    return concatenated(op, list(op[0]), op[1])


def concatenated(op: Op, parts: Sequence[Value], axis: int) -> Value:
    """``torch.cat(parts, axis)``."""
    engine = op.engine
    parts = [engine.fresh(part) for part in parts if part.shape[axis:] != (0,)]
    others = [k for k in range(len(parts[0].axes)) if k != axis]
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    along = [(k, k) for k in others]
    for turn in range(2):  # the second time with all the cuts that the first one made
        for k in range(1, len(parts)):
            matched = engine.matched(parts[0], parts[k], along)
            if matched is None:
                for part in parts:
                    engine.pin(part, f"{op.where} joins axes that do not fit")
                return engine.fixed(shape, op.node.index)
            parts[0], parts[k], pairs = matched
            for x, y in (pair for block in blocks(pairs) for pair in block) if turn else ():
                same_leaf(op, x, y)
    common = list(parts[0].axes)
    for part in parts[1:]:
        for k in others:
            common[k] = picked(common[k], part.axes[k])
    common[axis] = direct_sum(engine.factors.resolve(part.axes[axis]) for part in parts)
    result = Value(tuple(common), node=op.node.index, free=all(part.free for part in parts))
    if engine.final:
        result = replace(result, charges=_joined_charges(op, parts, result, axis, others))
    return replace(result, flow=_joined_flow(op, parts, axis, tuple(shape)))


def _joined_charges(
    op: Op, parts: Sequence[Value], result: Value, axis: int, others: list[int]
) -> dict[Cell, Charge]:
    """Every block keeps the charge of the part it comes from."""
    found: dict[Cell, Charge] = {}
    for part in parts:
        matched = op.engine.matched(result, part, [(k, k) for k in others])
        pairs = [] if matched is None else matched[2]
        own = [leaf_pairs(part.axes[axis], op)]
        for block in blocks([*pairs, *own]):
            names = {y.slot: x.slot for x, y in block if None not in (x.factor, y.factor)}
            key = frozenset(x.slot for x, _ in block)
            found[key] = part.charge(y for _, y in block).rename(names)
    return found


def leaf_pairs(tree: Tree, op: Op) -> Pairs:
    """An axis paired with itself."""
    return [(branch, branch) for branch in branches(op.engine.factors.resolve(tree))]


def _joined_flow(op: Op, parts: Sequence[Value], axis: int, shape: tuple[int, ...]) -> int | None:
    flows = op.engine.flows
    inputs = [part.flow for part in parts if part.flow is not None]
    if not inputs:
        return None
    order: list[tuple[int | None, int]] = []
    for part in parts:
        which = None if part.flow is None else len([o for o in order if o[0] is not None])
        order.append((which, part.shape[axis]))
    support = frozenset({axis}).union(*(flows.steps[i].support for i in inputs))
    return flows.add("cat", tuple(inputs), shape, support, axis=axis, order=order)


@rule("aten.pad.default")
def pad_rule(op: Op) -> Result:
    """Zeros around an axis move with anything linear; other values stay where they are."""
    engine, widths, mode, fill = op.engine, op[1], op[2], op[3]
    x: Value = op[0]
    if not any(widths):
        return replace(x, node=op.node.index)
    if mode != "constant" or fill not in (None, 0, 0.0):
        axes = [len(x.axes) - 1 - k for k in range(len(widths) // 2)]
        x = held(op, x, axes, "copies some of its entries")
        if mode == "constant":
            engine.entrywise(x, f"{op.where} adds values that stay")
            engine.still(x)
        shape = op.node.shape or ()
        sized = [
            replace(t, size=n) if isinstance(t, Leaf) and k in axes else t
            for k, (t, n) in enumerate(zip(x.axes, shape, strict=True))
        ]
        return passed(op, replace(x, flow=x.flow), rekeyed(x, sized))
    engine.flows.wall(x.flow)
    result = replace(x, flow=None)
    for k in range(len(widths) // 2):
        axis = len(x.axes) - 1 - k
        before, after = widths[2 * k], widths[2 * k + 1]
        result = zero_padded(op, result, axis, before, after)
    return replace(result, node=op.node.index, expression=None)


def zero_padded(op: Op, x: Value, axis: int, before: int, after: int) -> Value:
    """Zeros (or with negative widths nothing) in front of an axis and behind it."""
    engine = op.engine
    size = x.shape[axis]
    kept = tuple(range(max(0, -before), size - max(0, -after)))
    x = taken(op, x, axis, kept) if len(kept) < size else x
    tree = x.axes[axis]
    if isinstance(tree, Leaf) and tree.factor is None:
        grown = replace(tree, size=tree.size + max(0, before) + max(0, after), what="fixed")
        return rekeyed(x, [grown if k == axis else t for k, t in enumerate(x.axes)])
    zeros = [
        engine.fixed([n if k == axis else s for k, s in enumerate(x.shape)], what="zero")
        for n in (max(0, before), max(0, after))
    ]
    zeros = [replace(z, axes=tuple(_zero(t) for t in z.axes)) for z in zeros]
    parts = [part for part in (zeros[0], x, zeros[1]) if part.shape[axis]]
    return concatenated(op, parts, axis)


def _zero(tree: Tree) -> Tree:
    assert isinstance(tree, Leaf)
    return replace(tree, what="zero")
