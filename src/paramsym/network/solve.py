"""From a graph to the largest group per index set: the verbs that rules are written in.

Every axis of every parameter starts with the full linear group. Reading the graph can only merge
index sets, split them and lower what may act on them, so reading it again and again ends; only then
are scales, signs and translations solved for, on the final structure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from paramsym.network.axes import (
    Factors,
    Kind,
    Leaf,
    Mismatch,
    Product,
    Sum,
    Tree,
    is_uniform,
    leaves,
    partition,
)
from paramsym.network.charges import Form, Slot, System
from paramsym.network.flow import Flows, Support
from paramsym.network.graph import Graph, Node, Ref
from paramsym.network.idioms import only_added
from paramsym.network.rotary import ROTARY, rotaries
from paramsym.network.settle import Settlement, settle
from paramsym.network.sums import Reading, Sums
from paramsym.network.tracing.operations import overload_of
from paramsym.network.unseen import Unseen
from paramsym.network.values import (
    NEUTRAL,
    Cell,
    Charge,
    Value,
    cells,
    conformed,
    recut,
    refreshed,
    stretched,
)

# Where variables come from that only an epsilon keeps from being symmetries.
EPS = "eps"
Pairs = list[tuple[tuple[Leaf, ...], tuple[Leaf, ...]]]
Result = Value | tuple[Value | None, ...] | None


@dataclass(frozen=True)
class Op:
    """One node while its rule runs: its arguments with references replaced by values."""

    engine: Derivation
    node: Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __getitem__(self, position: int) -> Any:
        return self.args[position] if position < len(self.args) else None

    @property
    def name(self) -> str:
        """The short name of the operation, as in "relu"."""
        return self.node.op.split(".")[1] if "." in self.node.op else self.node.op

    @property
    def where(self) -> str:
        """The operation and the module it sits in, for reasons and messages."""
        return f"{self.name} ({self.node.module})" if self.node.module else self.name

    def values(self) -> Iterable[Value]:
        """Every tensor argument, nested ones included."""
        yield from _values((self.args, tuple(self.kwargs.values())))


def _values(item: Any) -> Iterable[Value]:
    if isinstance(item, Value):
        yield item
    elif isinstance(item, (tuple, list)):
        for part in item:
            yield from _values(part)


@dataclass(frozen=True)
class Tracked:
    """A buffer with the mean (or the variance) of a tensor, and how that tensor is shifted."""

    value: Value
    flow: int | None
    squared: bool


@dataclass(frozen=True)
class Slope:
    """A learned slope that is inverted where ``sign`` is -1, and what then follows from it.

    There ``log`` and ``negative`` (variables of the scales and of the signs) are the logarithm of
    the size of the new slope, and whether it is negative. ``slot`` indexes the slopes (None: one).
    """

    sign: Form
    slot: Slot | None
    log: Form
    negative: Form


class Derivation:
    """The state of one derivation: factors, linear systems, flows and the values of all nodes."""

    def __init__(
        self,
        graph: Graph,
        rules: Callable[[str], Callable[[Op], Result] | None],
        *,
        pinned: frozenset[str] = frozenset(),
        outputs: Sequence[int] | None = None,
        patterns: dict[int, Tensor] | None = None,
        eps: bool = False,
        loss: bool = False,
        shape: bool = False,
    ) -> None:
        self.graph = graph
        self.rules = rules
        self.pinned = pinned
        self.outputs = tuple(graph.outputs if outputs is None else outputs)
        self.patterns = patterns or {}
        self.eps, self.shape = eps, shape
        self.unseen = Unseen(graph, self.outputs, last=loss)
        self.sums = Sums(graph)
        self.readings: dict[str, list[Reading]] = {}
        for reading in self.sums.readings():
            if reading.name not in pinned:
                self.readings.setdefault(reading.name, []).append(reading)
        self.factors = Factors(name_singles=bool(patterns))
        self.trees: dict[str, tuple[Tree, ...]] = {}
        self.attached: dict[int, str] = {}
        self.unknown: dict[int, str] = {}
        self.settlement: Settlement | None = None
        self.lost: set[str] = set()
        self.held: frozenset[str] = frozenset()
        self.touched: list[tuple[int, str]] = []
        self.swallowed: set[tuple[int, int]] = set()
        self.final = False
        self.values: dict[int, Any] = {}
        self.tracked: dict[str, Tracked] = {}
        self.slopes: dict[str, Slope] = {}
        self.constants: dict[str, Value] = {}
        self._free = self._parameter_free()
        self.rotaries = {
            k: r for k, r in rotaries(graph).items() if self._free.issuperset(r.angles)
        }
        self._skipped = frozenset[int]().union(*(r.inside for r in self.rotaries.values()))
        self._reset()

    # running ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Read the graph until nothing changes, then once more for scales, signs and shifts.

        Which fixed vectors are absorbed is assumed, and corrected until the assumption holds.
        """
        self.final = False
        while True:
            self._stabilise()
            if self._decide() or self._settle():
                continue
            self.final = True
            version = self.factors.version
            self._read()
            assert self.factors.version == version, "the structure changed while it was being used"
            if not self._settle():
                self._name_broken()
                return
            self.final = False

    def _name_broken(self) -> None:
        """Call what an epsilon breaks by variables of their own: without these all is exact."""
        for form in self.broken:
            form = self.scales.reduce(form)
            if form:
                self.scales.require_zero(form.plus(self.scales.variable(form.slots(), EPS), -1))

    def _settle(self) -> bool:
        """Choose who absorbs what; True if a fixed vector turns out to be absorbed by nobody."""
        self.settlement = settle(self.flows)
        lost = self.settlement.pinned & self.constants.keys()
        self.lost |= lost
        return bool(lost)

    def _stabilise(self) -> None:
        while True:
            version = self.factors.version
            self._read()
            if self.factors.version == version:
                return

    def _decide(self) -> bool:
        """Make the choices that no operation forced; True if anything changed."""
        version = self.factors.version
        for root in self.factors.roots():
            for other in sorted(self.factors.base(root)):
                self._decide_pair(root, other)
        if self.factors.version == version:
            for factor, gain in self.attached.items():
                leaf = self.factors.leaf(factor)
                self.factors.lower(leaf, Kind.FIXED, f"{gain} scales what others rotate")
        return self.factors.version != version

    def _decide_pair(self, root: int, other: int) -> None:
        """An index that another is fibred over can be permuted, not mixed; one of two leads."""
        factors = self.factors
        mine, its = factors.get(root), factors.get(other)
        mutual = root in factors.base(other)
        if its.kind > Kind.PERMUTATION and mutual and mine.kind > Kind.PERMUTATION:
            first = min(root, other)
            factors.lower(factors.leaf(first), Kind.PERMUTATION, "it indexes blocks of an axis")
        elif its.kind > Kind.PERMUTATION or (mutual and root < other and its.kind > Kind.FIXED):
            factors.within(root, factors.base(root) - {other})

    def _reset(self) -> None:
        self.values = {}
        self.flows = Flows()
        self.slots: dict[Slot, int] = {}
        self.scales = System(0, self._closed)
        self.signs = System(2, self._closed)
        self.own: dict[str, Value] = {}
        self.attached = {}
        self.tracked = {}
        self.slopes = {}
        self.constants = {}
        self.read_sources: dict[str, int] = {}
        self.broken: list[Form] = []

    def _closed(self, slots: Iterable[Slot]) -> tuple[Slot, ...]:
        """The slots that can index a variable together, in a fixed order."""
        kept = sorted(set(slots))
        while True:
            classes = {self.slots[s] for s in kept}
            closed = [s for s in kept if self.factors.base(self.slots[s]) <= classes]
            if closed == kept:
                return tuple(kept)
            kept = closed

    def _read(self) -> None:
        self._reset()
        for node in self.graph.nodes:
            if node.index in self._skipped:
                continue
            value = self._value(node)
            if isinstance(value, Value):
                value = self._without_unseen(value, node)
                self._notice(value)
            self.values[node.index] = value
        for index in self.outputs:
            value = self.values[index]
            if isinstance(value, Value):
                self.pin(value, "the model returns it")

    def _without_unseen(self, value: Value, node: Node) -> Value:
        """The value without a shift that no output notices."""
        if value.flow is None:
            return value
        support = self.flows.steps[value.flow].support
        plain = (d for d in self.unseen[node.index] if not any(x.frame for x in d.axes.values()))
        unseen = any(support.isdisjoint(d.axes) for d in plain)
        return replace(value, flow=None) if unseen else value

    def _notice(self, value: Value) -> None:
        """A factor may be fibred only over index sets that every tensor it occurs in has.

        Where a tensor has one twice (rows and columns), only that on the factor's own axis counts.
        """
        if self.final and not value.free and value.square is None:
            blocks = {frozenset(leaf.slot for leaf in cell) for cell in cells(value.axes)}
            assert blocks == value.charges.keys(), f"{self.graph.nodes[value.node]} lost blocks"
        if not value.free:
            self.made(value.axes)

    def made(self, axes: Iterable[Tree]) -> None:
        """The same for a tensor that an operation makes on its way, a statistic over some axes."""
        if self.final:
            return
        on_axis = [self._roots(leaves(self.factors.resolve(axis))) for axis in axes]
        everywhere = list(itertools.chain(*on_axis))
        once = frozenset(root for root in everywhere if everywhere.count(root) == 1)
        for roots in on_axis:
            for root in set(roots):
                self.factors.within(root, once | frozenset(roots))

    def _roots(self, found: Iterable[Leaf]) -> list[int]:
        return [root for root in map(self.factors.root, found) if root is not None]

    def _value(self, node: Node) -> Any:
        if node.op in ("parameter", "buffer"):
            return self._own(node)
        if node.op == "getitem":
            ref, item = node.args
            return self.values[ref.index][item]
        if node.shape is not None and node.index in self._free:
            return self.fixed(node.shape, node.index, self._what(node))
        if node.op in ("input", "constant"):
            return self.fixed(node.shape or (), node.index, self._what(node))
        if node.index in self.rotaries:
            node = self._rotary_node(node)
        op = Op(self, node, self._arguments(node.args), self._arguments(node.kwargs))
        if all(value.free for value in op.values()):
            return self._fixed_like(node)
        rule = self.rules(node.op)
        result = None if rule is None else rule(op)
        if result is None:
            return self._refused(op, "has no rule" if rule is None else "is used in an unknown way")
        return result

    def _what(self, node: Node) -> str:
        """Whether a tensor that depends on no parameter is known to be zero."""
        value = self.graph.constants.get(node.index) if node.op == "constant" else None
        zero = value is not None and not value.is_meta and not bool(value.any())
        return "zero" if zero else "fixed"

    def _rotary_node(self, node: Node) -> Node:
        """The one operation that several nodes come down to."""
        rotary = self.rotaries[node.index]
        args = (Ref(rotary.source), rotary.halves, *map(Ref, rotary.angles))
        return replace(node, op=ROTARY, args=args, kwargs={})

    def _refused(self, op: Op, why: str) -> Any:
        """Pin everything that an operation without a rule reads: never claim what is not known."""
        reason = f"{op.where} {why}"
        for value in op.values():
            if not value.free:
                self.unknown[op.node.index] = reason
                self.pin(value, reason)
        return self._fixed_like(op.node)

    def _fixed_like(self, node: Node) -> Any:
        if node.shape is not None:
            return self.fixed(node.shape, node.index)
        users = [self.graph.nodes[u] for u in self.graph.users(node.index)]
        items = {u.args[1]: self.fixed(u.shape or (), u.index) for u in users}
        return tuple(items.get(k) for k in range(max(items, default=-1) + 1))

    def _arguments(self, item: Any) -> Any:
        if isinstance(item, Ref):
            return self.values[item.index]
        if isinstance(item, dict):
            return {k: self._arguments(v) for k, v in item.items()}
        if isinstance(item, (tuple, list)):
            return tuple(self._arguments(v) for v in item)
        return item

    def _parameter_free(self) -> frozenset[int]:
        """The nodes that depend on no parameter and no buffer that may move."""
        free: set[int] = set()
        for node in self.graph.nodes:
            own = node.op in ("parameter", "buffer")
            if not own and all(ref in free for ref in self.graph.refs(node)):
                free.add(node.index)
        return frozenset(free)

    # making values ------------------------------------------------------------------------------

    def fixed(self, shape: Sequence[int], node: int = -1, what: str = "fixed") -> Value:
        """A tensor on which nothing acts."""
        axes = tuple(self.factors.special(n, "uniform" if n == 1 else what) for n in shape)
        whole = {frozenset(leaf.slot for leaf in axes): NEUTRAL}
        return Value(axes, whole if self.final else {}, node=node, free=True)

    def _own(self, node: Node) -> Value:
        """A parameter or buffer: a fresh index set per axis, one scale and one sign per entry."""
        name, factors = node.target, self.factors
        if name not in self.trees:
            kind = Kind.LINEAR if node.op == "parameter" else Kind.PERMUTATION
            kind = Kind.FIXED if name in self.pinned else kind
            ids = [factors.new(n, name, kind) if n != 1 else None for n in node.shape or ()]
            present = frozenset(i for i in ids if i is not None)
            for i in present:
                factors.within(i, present)
            self.trees[name] = tuple(
                factors.special(1, "uniform") if i is None else factors.leaf(i) for i in ids
            )
        self.trees[name] = tuple(factors.resolve(tree) for tree in self.trees[name])
        value = Value(self.trees[name], node=node.index)
        if node.dtype is None or not node.dtype.is_floating_point:
            self.pin(value, f"{name} is not a floating tensor")
        if self.final:
            moves = node.op == "parameter" and name not in self.pinned
            value = replace(value, charges=self._fresh_charges(value, name, moves))
        self.own[name] = value
        shape = tuple(node.shape or ())
        step = self.flows.add("tensor", (), shape, frozenset(range(len(shape))), name=name)
        free = node.op == "parameter" and name not in self.pinned | self.held
        source = self._source(value, name) if free and only_added(self.graph, node.index) else None
        return replace(value, expression=step, flow=source)

    def _source(self, value: Value, name: str) -> int:
        """The step at which shifts of a parameter that is only ever added enter."""
        support = frozenset(
            k for k, axis in enumerate(value.axes) if axis.size > 1 and not is_uniform(axis)
        )
        parts = partition(value.axes[min(support)]) if len(support) == 1 else ()
        return self.flows.source(name, value.shape, value.shape, support, parts)

    def looked_up(self, table: Ref) -> str | None:
        """The name of a parameter that embeddings alone read."""
        node = self.graph.nodes[table.index]
        users = (self.graph.nodes[k].op for k in self.graph.users(node.index))
        free = node.op == "parameter" and node.target not in self.pinned | self.held
        alone = node.index not in self.graph.outputs
        return node.target if free and alone and set(users) == {"aten.embedding.default"} else None

    def reading_source(self, reading: Reading) -> int:
        """The move of a parameter along the inverse of the gains that it is read through."""
        if reading.key not in self.read_sources:
            shape = self.own[reading.name].shape
            own = tuple(1 if k == reading.axis else n for k, n in enumerate(shape))
            support = frozenset(k for k, n in enumerate(own) if n > 1)
            parts = [] if reading.rows is None else [reading.rows]
            self.read_sources[reading.key] = self.flows.source(
                reading.key, own, shape, support, parts
            )
        return self.read_sources[reading.key]

    def without(self, lost: Iterable[Reading], held: Iterable[str]) -> None:
        """Do without some readings, and without the shifts of some parameters."""
        gone = set(lost)
        self.held |= frozenset(held)
        self.readings = {n: [r for r in rs if r not in gone] for n, rs in self.readings.items()}

    def _fresh_charges(self, value: Value, name: str, moves: bool) -> dict[Cell, Charge]:
        charges: dict[Cell, Charge] = {}
        for chosen in cells(value.axes):
            slots = []
            for leaf in chosen:
                if leaf.factor is not None and leaf.size > 1:
                    self._register(leaf)
                    if self.factors.kind(leaf) <= Kind.PERMUTATION or self.factors.seen(leaf)[1]:
                        slots.append(leaf.slot)
            key = frozenset(leaf.slot for leaf in chosen)
            charges[key] = (
                Charge(self.scales.variable(slots, name), self.signs.variable(slots, name))
                if moves
                else NEUTRAL
            )
        return charges

    def _register(self, leaf: Leaf) -> None:
        root = self.factors.root(leaf)
        if root is not None:
            self.slots[leaf.slot] = root

    def _fresh_slot(self, slot: Slot) -> Slot:
        new = self.factors.slot()
        if slot in self.slots:
            self.slots[new] = self.slots[slot]
        return new

    def apart(self, a: Value, b: Value) -> Value:
        """``b`` under slots that ``a`` does not use."""
        used = {leaf.slot for leaf in a.leaves()}
        return b if used.isdisjoint(x.slot for x in b.leaves()) else self.fresh(b)

    def fresh(self, value: Value) -> Value:
        """The value under fresh slots."""
        return refreshed(value, self._fresh_slot)

    def track(self, name: str, value: Value, flow: int | None, squared: bool) -> None:
        """A buffer that holds a statistic of ``value`` per entry of its axis 1 moves with it."""
        self.tracked[name] = Tracked(value, flow, squared)

    # restricting --------------------------------------------------------------------------------

    def swallow(self, op: Op, leaf: Leaf) -> None:
        """Whatever this index set does, the operation makes nothing of it."""
        if self.final and leaf.factor is not None:
            self.swallowed.add((op.node.index, leaf.factor))

    def evaluate(self, node: Node, z: Tensor) -> Tensor:
        """A function of one number at some points."""
        values: list[Any] = [z if isinstance(arg, Ref) else arg for arg in node.args]
        overload = overload_of(node.op)
        assert overload is not None
        result: Tensor = overload(*values, **node.kwargs)
        return result

    def summed_together(self, matched: Iterable[tuple[Leaf, Leaf]]) -> None:
        """What is summed over may depend on indices that both factors of the product share."""
        pairs = list(matched)
        roots = frozenset(self._roots(itertools.chain(*pairs)))
        for root in roots:
            self.factors.within(root, roots)

    def pin(self, value: Value, reason: str) -> None:
        """Nothing may move this tensor."""
        for axis in value.axes:
            self.factors.lower_tree(axis, Kind.FIXED, reason)
        self.still(value)

    def still(self, value: Value) -> None:
        """This tensor is neither scaled, nor flipped, nor shifted."""
        for charge in value.charges.values():
            self.scales.require_zero(charge.scale)
            self.signs.require_zero(charge.sign)
        self.flows.wall(value.flow)

    def entrywise(self, value: Value, reason: str) -> Value:
        """Only what maps entries to entries may act on this tensor."""
        for axis in value.axes:
            self.factors.lower_tree(axis, Kind.PERMUTATION, reason)
        if self.final:
            self.touched += [(x.factor, reason) for x in value.leaves() if x.factor is not None]
        return value

    def unscaled(self, charge: Charge) -> None:
        """Nothing scales this tensor, to which an epsilon is added (or: that breaks the scale)."""
        if self.eps:
            self.broken.append(charge.scale)
        else:
            self.scales.require_zero(charge.scale)

    def equal(self, a: Charge, b: Charge) -> None:
        """Two blocks scale alike."""
        self.scales.require_zero(a.scale.plus(b.scale, -1))
        self.signs.require_zero(a.sign.plus(b.sign, -1))

    def along(self, charge: Charge, chosen: Iterable[Leaf], origin: str) -> Charge:
        """The charge of a sum over the chosen indices: it may not depend on them."""
        slots = frozenset(leaf.slot for leaf in chosen)
        return Charge(
            self.scales.constant_along(charge.scale, slots, origin),
            self.signs.constant_along(charge.sign, slots, origin),
        )

    def absorbed(self, key: str) -> bool:
        """Whether a constant shift named ``key`` is taken back by some bias."""
        return key not in self.lost

    def constant_step(
        self, key: str, value: Value, mode: str, constant: Any, support: Support
    ) -> int:
        """A shift that a fixed vector causes because ``value`` moves (see ``flow``)."""
        self.constants[key] = value
        atoms = {str(k): _atoms(value.axes[k]) for k in support} if mode != "buffer" else {}
        attrs = {"key": key, "mode": mode, "value": constant, "atoms": atoms}
        return self.flows.add("constant", (), value.shape, support, **attrs)

    def log_shift(
        self, key: str, value: Value, support: Support, rate: float
    ) -> tuple[dict[Cell, Charge], int]:
        """A new scale for every entry along ``support``, and the shift of the exponent it takes."""
        charges: dict[Cell, Charge] = {}
        if self.final:
            for cell in cells(value.axes):
                slots = [leaf.slot for leaf in cell if leaf.factor is not None]
                charges[frozenset(x.slot for x in cell)] = Charge(self.scales.variable(slots, key))
        step = self.constant_step(key, replace(value, charges=charges), "log", 1.0 / rate, support)
        return charges, step

    def broadcast(self, value: Value, rank: int) -> Value:
        """The value with uniform axes in front, up to the given rank."""
        missing = rank - len(value.axes)
        if missing <= 0:
            return value
        new = tuple(self.factors.special(1, "uniform") for _ in range(missing))
        slots = frozenset(leaf.slot for leaf in new)
        charges = {cell | slots: charge for cell, charge in value.charges.items()}
        axes = new + value.axes
        groups: list[Any] = [([], [k]) for k in range(missing)]
        groups += [([k], [k + missing]) for k in range(len(value.axes))]
        shape = tuple(axis.size for axis in axes)

        def widened(step: int | None) -> int | None:
            if step is None:
                return None
            support = frozenset(k + missing for k in self.flows.steps[step].support)
            return self.flows.add("view", (step,), shape, support, groups=groups)

        flow, expression = widened(value.flow), widened(value.expression)
        return replace(value, axes=axes, charges=charges, flow=flow, expression=expression)

    def matched(
        self, a: Value, b: Value, pairs: Iterable[tuple[int, int]]
    ) -> tuple[Value, Value, list[Pairs]] | None:
        """Both tensors with the paired axes cut alike, and the pure products of each pair.

        None, and both pinned, where the axes do not match.
        """
        pairs = list(pairs)
        sizes = [max(a.axes[i].size, b.axes[j].size) for i, j in pairs]
        axes, others = list(a.axes), list(b.axes)
        try:
            for (i, j), size in zip(pairs, sizes, strict=True):
                axes[i], others[j] = stretched(axes[i], size), stretched(others[j], size)
                self.factors.align(axes[i], others[j])
        except Mismatch:
            self.pin(a, "two axes meet whose index sets do not fit")
            self.pin(b, "two axes meet whose index sets do not fit")
            return None
        axes = [self.factors.resolve(axis) for axis in axes]
        others = [self.factors.resolve(axis) for axis in others]
        origin: dict[Slot, Slot] = {}
        for i, j in pairs:
            axes[i] = conformed(axes[i], others[j], self.factors.slot, origin)
            others[j] = conformed(others[j], axes[i], self.factors.slot, origin)
        found = [self.factors.align(axes[i], others[j]) for i, j in pairs]
        return recut(a, axes, origin), recut(b, others, origin), found


def _atoms(tree: Tree) -> list[list[Any]]:
    """The stretches of an axis, and whether what acts on the axis tells their entries apart."""
    if not isinstance(tree, Product) or any(isinstance(c, Sum) for c in tree.children):
        return [[tree.size, True]]
    return [[child.size, not is_uniform(child)] for child in tree.children]
