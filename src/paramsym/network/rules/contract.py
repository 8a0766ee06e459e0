"""Products of two tensors: entry by entry along some axes, summed along others.

A sum over an axis ties the element on one side to the dual of the element on the other. A product
entry by entry leaves only a common permutation, unless one side is a gain: a vector that does
nothing but scale, and so becomes part of the frame in which the other side is rotated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters

from paramsym.network.axes import (
    Gain,
    Kind,
    Leaf,
    Tree,
    branches,
    frame_plus,
    is_uniform,
    picked,
)
from paramsym.network.graph import Graph, Ref
from paramsym.network.solve import Derivation, Op, Pairs
from paramsym.network.values import NEUTRAL, Cell, Charge, Value

AxisPairs = Sequence[tuple[int, int]]
Branch = tuple[Leaf, ...]


def combine(
    op: Op,
    a: Value,
    b: Value,
    batch: AxisPairs = (),
    contract: AxisPairs = (),
    power: int = 1,
    eps: float | None = None,
    *,
    means: bool = False,
) -> Value:
    """The product of ``a`` and ``b`` to a power: shared along ``batch``, summed along ``contract``.

    The result has the batch axes, then what is left of ``a``, then what is left of ``b``. With
    ``eps`` the second factor is the buffer ``sqrt(b + eps)``. With ``means`` the entries of ``a``
    add up to one along the axis that is summed.
    """
    engine = op.engine
    b = engine.apart(a, b)
    mean = means and b.flow is not None and _passes_means(op, a, b, batch, contract)
    flow = _mean_flow(op, a, b) if mean else _flow(op, a, b, batch, contract, power, eps)
    if is_zero(a) or is_zero(b):
        shape = _Combination(op, a, b, tuple(batch), tuple(contract), power, eps).shape()
        return engine.fixed(shape, op.node.index, "zero")
    matched = engine.matched(a, b, [*batch, *contract])
    if matched is None:
        shape = _Combination(op, a, b, tuple(batch), tuple(contract), power, eps).shape()
        return engine.fixed(shape, op.node.index)
    a, b, pairs = matched
    along, across = pairs[: len(batch)], pairs[len(batch) :]
    product_ = _Combination(op, a, b, tuple(batch), tuple(contract), power, eps)
    shared = [product_.shared_axis(*pair) for pair in zip(batch, along, strict=True)]
    axes = [*shared, *product_.free_axes()]
    for summed in across:
        for x, y in _zipped(summed):
            product_.contract_leaves(x, y)
    if across:
        engine.summed_together(_zipped(itertools.chain(*along, *across)))
    result = Value(tuple(axes), node=op.node.index, free=a.free and b.free, flow=flow)
    if engine.final:
        result = replace(result, charges=product_.charges(along, across))
    return result


@dataclass(frozen=True)
class _Combination:
    """One product while its axes and charges are worked out."""

    op: Op
    a: Value
    b: Value
    batch: tuple[tuple[int, int], ...]
    contract: tuple[tuple[int, int], ...]
    power: int
    eps: float | None

    def _rest(self, side: int) -> list[int]:
        used = {pair[side] for pair in (*self.batch, *self.contract)}
        return [k for k in range(len((self.a, self.b)[side].axes)) if k not in used]

    def free_axes(self) -> list[Tree]:
        return [self.a.axes[i] for i in self._rest(0)] + [self.b.axes[j] for j in self._rest(1)]

    def shape(self) -> list[int]:
        shared = [max(self.a.axes[i].size, self.b.axes[j].size) for i, j in self.batch]
        return shared + [axis.size for axis in self.free_axes()]

    def shared_axis(self, pair: tuple[int, int], pairs: Pairs) -> Tree:
        """One axis of an entrywise product."""
        i, j = pair
        gain = self._gain(self.a.axes[i], self.b.axes[j])
        if gain is not None:
            x, y = pairs[0][0][0], pairs[0][1][0]
            if y.factor is not None:
                self.op.engine.attached[y.factor] = gain
            return replace(
                x, frame=frame_plus(x.frame, frozenset({(Gain(gain, self.eps), self.power)}))
            )
        for xs, ys in pairs:
            for x, y in zip(xs, ys, strict=True):
                self._index_alike(x, y)
        return picked(self.a.axes[i], self.b.axes[j])

    def _index_alike(self, x: Leaf, y: Leaf) -> None:
        factors, where = self.op.engine.factors, self.op.where
        if x.factor is not None and y.factor is not None:
            factors.share(x, y, f"{where} multiplies entry by entry")
            return
        for one, other in ((x, y), (y, x)):
            if one.factor is None and one.what == "fixed":
                factors.lower(other, Kind.FIXED, f"{where} multiplies by fixed values")

    def _gain(self, axis_a: Tree, axis_b: Tree) -> str | None:
        """The name of ``b`` if it is a vector that scales a rotated axis of ``a`` and no more."""
        factors = self.op.engine.factors
        x, y = factors.resolve(axis_a), factors.resolve(axis_b)
        if not isinstance(x, Leaf) or not isinstance(y, Leaf) or x.size != y.size or x.size == 1:
            return None
        if factors.kind(x) <= Kind.PERMUTATION:
            return None
        name = gain_name(self.op.engine, self.b)
        if name is None or is_uniform(y):  # it varies along another axis
            return None
        if y.factor is None:
            return name
        alone = factors.get(factors.find(y.factor).root).members == 1
        return name if alone else None

    def contract_leaves(self, x: Leaf, y: Leaf) -> None:
        factors, where = self.op.engine.factors, self.op.where
        if x.factor is not None and y.factor is not None:
            factors.same(x, y, f"{where} contracts an axis with itself", dual=True)
            return
        for one, other in ((x, y), (y, x)):
            if one.factor is None and one.what == "zero":
                self.op.engine.swallow(self.op, other)
            elif one.factor is None and other.factor is not None:
                kind = Kind.CENTRED if one.what == "uniform" else Kind.FIXED
                factors.lower(other, kind, f"{where} reads it against values that stay")

    def charges(self, along: list[Pairs], across: list[Pairs]) -> dict[Cell, Charge]:
        resolve = self.op.engine.factors.resolve
        own_a = [branches(resolve(self.a.axes[i])) for i in self._rest(0)]
        own_b = [branches(resolve(self.b.axes[j])) for j in self._rest(1)]
        found: dict[Cell, Charge] = {}
        for shared in itertools.product(*along):
            for left in itertools.product(*own_a):
                for right in itertools.product(*own_b):
                    key = {
                        kept(x, y).slot for xs, ys in shared for x, y in zip(xs, ys, strict=True)
                    }
                    key |= {leaf.slot for branch in (*left, *right) for leaf in branch}
                    found[frozenset(key)] = self._summed(shared, across, left, right)
        return found

    def _summed(
        self,
        shared: Sequence[tuple[Branch, Branch]],
        across: list[Pairs],
        left: Sequence[Branch],
        right: Sequence[Branch],
    ) -> Charge:
        """The terms of a sum must scale alike and not depend on what is summed over."""
        engine, total = self.op.engine, None
        for summed in itertools.product(*across):
            if any(leaf.what == "zero" for xs, ys in summed for leaf in (*xs, *ys)):
                continue
            matched = list(_zipped((*shared, *summed)))
            names = {
                y.slot: x.slot for x, y in matched if x.factor is not None and y.factor is not None
            }
            one = self.a.charge([*(x for x, _ in matched), *itertools.chain(*left)])
            other = self.b.charge([*(y for _, y in matched), *itertools.chain(*right)])
            lost = [x if x.factor is not None else y for x, y in _zipped(summed)]
            if summed and self.b.expression is not None:
                engine.scales.absorb(one.scale, other.rename(names).scale)
                engine.signs.absorb(one.sign, other.rename(names).sign)
            term = one.plus(other.rename(names), self.power)
            term = engine.along(term, lost, self.op.where)
            if total is not None:
                engine.equal(total, term)
            total = term
        return NEUTRAL if total is None else total


def is_zero(x: Value) -> bool:
    """Whether all entries are known to be zero."""
    special = [axis for axis in x.axes if isinstance(axis, Leaf) and axis.factor is None]
    return x.free and any(axis.what == "zero" for axis in special)


def _zipped(pairs: Iterable[tuple[Branch, Branch]]) -> Iterable[tuple[Leaf, Leaf]]:
    for xs, ys in pairs:
        yield from zip(xs, ys, strict=True)


def kept(x: Leaf, y: Leaf) -> Leaf:
    """The leaf that a tensor made of two aligned ones has."""
    tree = picked(x, y)
    assert isinstance(tree, Leaf)
    return tree


def gain_name(engine: Derivation, value: Value) -> str | None:
    """The state name of a vector that every reader multiplies by, else None."""
    if value.node < 0:
        return None
    node = engine.graph.nodes[value.node]
    vector = sum(n > 1 for n in node.shape or ()) == 1
    if node.op not in ("parameter", "buffer") or not vector:
        return None
    return node.target if _only_scales(engine.graph, node.index) else None


def _only_scales(graph: Graph, index: int) -> bool:
    """Whether all that happens to a vector is that something is multiplied by it."""
    for user in map(graph.nodes.__getitem__, graph.users(index)):
        if user.op in ("aten.view.default", "aten.unsqueeze.default"):
            if not _only_scales(graph, user.index):
                return False
        elif user.op not in ("aten.mul.Tensor", "aten.div.Tensor"):
            places = {k for k, arg in enumerate(user.args) if arg == Ref(index)}
            if not places <= _SCALES.get(user.op, frozenset()):
                return False
    return True


# The arguments of a normalisation that only scale: its weight, its running variance.
_SCALES = {
    "aten.batch_norm.default": {1, 4},
    "aten.instance_norm.default": {1},
    "aten.group_norm.default": {2},
    "aten.layer_norm.default": {2},
    "aten.rms_norm.default": {2},
}


def _flow(
    op: Op,
    a: Value,
    b: Value,
    batch: AxisPairs,
    contract: AxisPairs,
    power: int,
    eps: float | None,
) -> int | None:
    """How shifts of the operands travel: through fixed readers and gains, and not beyond."""
    engine = op.engine
    if a.flow is not None and b.flow is not None:
        engine.flows.wall(a.flow)
        engine.flows.wall(b.flow)
        return None
    if a.flow is None and b.flow is None:
        return None
    moved, still = (a, b) if a.flow is not None else (b, a)
    if contract and still.expression is not None and power == 1:
        return _contracted_flow(op, a, b, batch, contract)
    name = gain_name(engine, still)
    if not contract and name is not None and moved is a:
        step = engine.flows.steps[moved.flow or 0]
        axis = next(k for k, x in enumerate(still.axes) if x.size > 1)
        attrs = {"name": name, "eps": eps, "axis": axis, "power": power}
        support = step.support | {axis}
        return engine.flows.add("gain", (moved.flow or 0,), step.shape, support, **attrs)
    engine.flows.wall(moved.flow)
    return None


def _passes_means(op: Op, a: Value, b: Value, batch: AxisPairs, contract: AxisPairs) -> bool:
    """Whether ``a @ b`` hands a shift of ``b`` on: it does not vary along what is summed."""
    rank = len(b.axes)
    product_ = list(batch) == [(k, k) for k in range(rank - 2)]
    matrices = product_ and list(contract) == [(rank - 1, rank - 2)] and a.flow is None
    return matrices and rank - 2 not in op.engine.flows.steps[b.flow or 0].support


def _mean_flow(op: Op, a: Value, b: Value) -> int:
    """The mean of a shift that is the same everywhere."""
    flows = op.engine.flows
    support = flows.steps[b.flow or 0].support
    return flows.add("broadcast", (b.flow or 0,), (*a.shape[:-1], b.shape[-1]), support)


def _contracted_flow(op: Op, a: Value, b: Value, batch: AxisPairs, contract: AxisPairs) -> int:
    """The same contraction, applied to the shift."""
    letters = iter(ascii_letters)
    one = [next(letters) for _ in a.axes]
    other = [next(letters) for _ in b.axes]
    for i, j in (*batch, *contract):
        other[j] = one[i]
    used = {one[i] for i, _ in (*batch, *contract)}
    out = [one[i] for i, _ in batch]
    out += [x for x in one if x not in used] + [y for y in other if y not in used]
    sizes: dict[str, int] = {}
    for letter, size in (*zip(one, a.shape, strict=True), *zip(other, b.shape, strict=True)):
        sizes[letter] = max(size, sizes.get(letter, 1))
    flows = op.engine.flows
    moved, still = (a, b) if a.flow is not None else (b, a)
    names = (one, other) if moved is a else (other, one)
    moving = flows.steps[moved.flow or 0].support
    varying = {names[0][k] for k in moving}
    varying |= {letter for letter, n in zip(names[1], still.shape, strict=True) if n > 1}
    support = frozenset(k for k, x in enumerate(out) if x in varying)
    equation = f"{''.join(names[0])},{''.join(names[1])}->{''.join(out)}"
    return flows.add(
        "einsum",
        (moved.flow or 0, still.expression or 0),
        tuple(sizes[x] for x in out),
        support,
        equation=equation,
    )
