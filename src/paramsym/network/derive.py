"""A model and an example input in, its symmetry group out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from paramsym.errors import ParamsymError, TraceError
from paramsym.network.activations import facts_of_op
from paramsym.network.axes import Kind, Leaf, Tree, leaves
from paramsym.network.call import unwrap
from paramsym.network.charges import Form, System
from paramsym.network.element import Structure
from paramsym.network.flow import Program
from paramsym.network.function import ModelFunction
from paramsym.network.graph import Graph
from paramsym.network.idioms import unread_rows
from paramsym.network.motion import (
    Block,
    IndexClass,
    Motion,
    bare,
    narrowed,
    over_cells,
    without_frames,
)
from paramsym.network.nulls import (
    Null,
    independent,
    reading_null,
    unread_key,
    unread_null,
    unseen_nulls,
)
from paramsym.network.replay import replay
from paramsym.network.rules import find_rule
from paramsym.network.solve import Derivation
from paramsym.network.spaces import listing
from paramsym.network.sums import Reading
from paramsym.network.symmetry import Symmetry
from paramsym.network.ties import canonical_names, named_state, ties
from paramsym.network.torus import Entry, Torus, torus
from paramsym.network.trace import trace
from paramsym.network.tracing.inputs import Inputs
from paramsym.network.values import Charge, Value, cells


def symmetries(
    model: nn.Module,
    x: Any,
    *,
    on: Any = None,
    outputs: Sequence[int] | None = None,
    trainable_only: bool = False,
    include: Iterable[str] = ("exact",),
    seed: int = 0,
) -> Symmetry:
    """The largest group of weight changes, of the kinds we know, that leaves `model` alone.

    Derived from the graph traced at the example input `x` (a tensor, a tuple, or a dict of keyword
    inputs), in the mode the model is in; weights are not needed. `outputs` selects by position the
    floating outputs that must stay; with `trainable_only` frozen parameters stay where they are.
    `seed` fixes noise in train mode.

    `include=("exact", "eps", "loss")` adds the scales that only the epsilon of a normalisation
    breaks, and the shifts of all logits alike that a loss starting with a softmax does not see;
    they have spaces of their own, whose `exactness` says so. "shape" adds what holds for inputs of
    the given shape alone: rows of a table that only longer inputs look up.

    With `on=batch` the group is the larger one of the net whose ReLU units that are on, or off, for
    all of the batch stay so: valid on the batch, near the model's weights.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    >>> print(symmetries(net, torch.ones(1, 2)).spaces[0].group)
    Aff(3)
    """
    wanted = _included(include)
    x = x if on is None else on
    graph = trace(model, x, seed=seed)
    if not graph.outputs:
        raise TraceError(
            "the model returns no floating tensor",
            where=type(model).__name__,
            remedy="trace the part that returns numbers that depend on weights",
        )
    model = unwrap(model)
    chosen = _selected(len(graph.outputs), outputs)
    frozen = {n for n, p in model.named_parameters() if trainable_only and not p.requires_grad}
    live = graph.pruned(chosen)
    patterns = {} if on is None else patterns_of(live, model, x, seed)

    def derived(kinds: frozenset[str]) -> Derivation:
        return Derivation(
            live,
            find_rule,
            pinned=frozenset(frozen),
            patterns=patterns,
            eps="eps" in kinds,
            loss="loss" in kinds,
            shape="shape" in kinds,
        )

    seen: frozenset[str] | None = None
    if "loss" in wanted:
        exact = _read_out(derived(wanted - {"eps", "loss"}), model, frozen)
        seen = frozenset(exact.structure.shifts)
    derivation = derived(wanted)
    result = _read_out(derivation, model, frozen, graph.branch_only, seen, local=on is not None)
    return replace(result, outputs=chosen, model=model, x=x, local=on is not None)


def _read_out(
    derivation: Derivation,
    model: nn.Module,
    frozen: set[str],
    branch_only: bool = False,
    seen: frozenset[str] | None = None,
    *,
    local: bool = False,
) -> Symmetry:
    """Run a derivation until every reading that it uses can be said."""
    while True:
        derivation.run()
        readout = _Readout(derivation, model, frozen, branch_only, seen, local)
        result = readout.run()
        if not readout.unsaid and not readout.held:
            return result
        derivation.without(readout.unsaid, readout.held)


def _included(include: Iterable[str]) -> frozenset[str]:
    wanted = frozenset([include] if isinstance(include, str) else include)
    if not wanted <= {"exact", "eps", "loss", "shape"}:
        raise ParamsymError(
            f"include= names {sorted(wanted)}",
            where="symmetries",
            remedy='choose among "exact", "eps", "loss" and "shape"',
        )
    return wanted


def _selected(count: int, outputs: Sequence[int] | None) -> tuple[int, ...] | None:
    if outputs is None:
        return None
    wrong = [i for i in outputs if not -count <= i < count]
    if wrong or not outputs:
        raise ParamsymError(
            f"the model returns {count} floating tensors, outputs= asks for {list(outputs)}",
            where="symmetries",
            remedy=f"give positions from 0 to {count - 1}",
        )
    return tuple(i % count for i in outputs)


def patterns_of(graph: Graph, model: nn.Module, x: Any, seed: int) -> dict[int, Tensor]:
    """What every function with one kink at zero is applied to, on a batch."""
    function = ModelFunction.of(model, x, seed=seed)
    inputs = Inputs(function.model, function.x)
    values = replay(graph, function.state, dict(zip(inputs.names, inputs.tensors, strict=True)))
    found: dict[int, Tensor] = {}
    for node in graph.nodes:
        refs = list(graph.refs(node))
        facts = facts_of_op(node.op, node.args, node.kwargs) if len(refs) == 1 else None
        if facts is not None and facts.piecewise_linear and facts.degree == 1 and not facts.linear:
            found[node.index] = values[refs[0]]
    return found


@dataclass
class _Readout:
    """A finished derivation as plain data.

    ``unsaid`` are the readings that no null says: the derivation has to do without them. So it has
    without the shifts ``held``, which would move with a learned slope. ``seen``
    are the exact translations, where others are there as well.
    """

    derivation: Derivation
    model: nn.Module
    frozen: set[str]
    branch_only: bool
    seen: frozenset[str] | None = None
    local: bool = False
    unsaid: list[Reading] = field(default_factory=list)
    held: list[str] = field(default_factory=list)

    def run(self) -> Symmetry:
        """Motions in the free unknowns, then a readable basis of these, then names."""
        names = canonical_names(self.model)
        tensors = {n: t for n, t in named_state(self.model) if names[n] == n}
        self.shapes = {n: tuple(t.shape) for n, t in tensors.items()}
        self.parameters = tuple(n for n, _ in self.model.named_parameters())
        for name in self.derivation.tracked:
            self.derivation.own.pop(name)  # it follows what it is the statistic of
        classes = self._classes(self._axes(v) for v in self.derivation.own.values())
        self.dead_classes = self._dead_classes()
        classes |= {c: replace(classes[c], kind=Kind.FIXED) for c in self.dead_classes}
        self.scale_basis = self._torus(self.derivation.scales, "scale", classes)
        self.sign_basis = self._torus(self.derivation.signs, "sign", classes)
        motions = {n: self._motion(v) for n, v in self.derivation.own.items()}
        motions |= {n: self._statistic(n) for n in self.derivation.tracked}
        program, unused = self._program(), self._unused()
        motions |= {n: Motion(_still_axes(self.shapes[n])) for n in unused}
        dead = self._dead_entries(motions, self.parameters)
        structure, nulls = self._structure(classes, motions, program, dead)
        found = listing(
            structure,
            motions,
            self.scale_basis.scalars,
            self._touched(),
            unused,
            [n for n in tensors if n in self.parameters],
            self._idle(program, dead),
            self._exponents(),
            self._inexact(structure.shifts),
            "batch" if self.local else "exact",
        )
        shifts, slopes = structure.shifts, self._slopes()
        kept = {
            *shifts,
            *program.sources,
            *program.tracked,
            *slopes,
            *dead,
            *(n.name for n in nulls),
        }
        return Symmetry(
            structure,
            {n: m for n, m in motions.items() if n in kept or not m.is_still(classes)},
            program,
            {k: self._motion(v) for k, v in self.derivation.constants.items()},
            found.spaces,
            found.parts,
            tuple(self._pinned()),
            self.shapes,
            self.parameters,
            ties(self.model),
            slopes,
            dead,
            nulls,
            branch_only=self.branch_only,
        )

    def _unused(self) -> list[str]:
        """The parameters that the outputs do not depend on."""
        if self.branch_only:
            return []
        known = {*self.derivation.own, *self.frozen}
        return [name for name in self.parameters if name not in known]

    def _exponents(self) -> frozenset[int]:
        """The scales that are translations in front of an exponential."""
        constants = self.derivation.constants.items()
        logs = [self._motion(value) for key, value in constants if key.startswith("exponent")]
        blocks = itertools.chain(*(motion.blocks.values() for motion in logs))
        return frozenset(var for block in blocks for var, _ in block.scale.terms)

    def _structure(
        self,
        classes: Mapping[int, IndexClass],
        motions: Mapping[str, Motion],
        program: Program,
        dead: Mapping[str, Tensor],
    ) -> tuple[Structure, tuple[Null, ...]]:
        """What elements consist of, and the translations along what nothing reads."""
        shapes = self.shapes
        own = self._shift_shapes(program) | {n: shapes[n] for n in dead}
        shifts = {n: narrowed(self._bare(n, motions), shape) for n, shape in own.items()}
        free = {n: m for n, m in shifts.items() if n not in self.derivation.held}
        self.held = [n for n, motion in free.items() if self._follows_slopes(motion)]
        shifts |= {n: motions[n] for n in self._unused()}
        extents = {n: own.get(n, shapes[n]) for n in shifts}
        nulls = self._nulls(program, own, motions, classes)
        for null, motion in nulls:
            if null.key not in program.pivots:
                shifts[null.key], extents[null.key] = motion, null.own(shapes[null.name])
        structure = Structure(
            classes,
            self.scale_basis.variables,
            self.sign_basis.variables,
            shifts,
            extents,
            self._masks(program, dead) | self._null_masks(nulls, shapes),
            {null.key: null.balanced for null, _ in nulls if null.balanced is not None},
        )
        return structure, tuple(null for null, _ in nulls)

    def _inexact(self, shifts: Iterable[str]) -> dict[tuple[str, int | str], str]:
        """The variables that an epsilon breaks, the translations that only a loss ignores."""
        broken = (self._scale(form) for form in self.derivation.broken)
        found: dict[tuple[str, int | str], str] = {
            ("scale", var): "eps" for form in broken for var, _ in form.terms
        }
        if self.seen is not None:
            found |= {("shift", key): "loss" for key in shifts if key not in self.seen}
        return found | {("shift", unread_key(n)): "shape" for n in self.derivation.own}

    # classes ------------------------------------------------------------------------------------

    def _axes(self, value: Value) -> tuple[Tree, ...]:
        return tuple(self._rooted(axis, k) for k, axis in enumerate(value.axes))

    def _rooted(self, tree: Tree, axis: int = 0) -> Tree:
        """The tree with every leaf seen from the root of its class."""
        if not isinstance(tree, Leaf):
            return replace(tree, children=tuple(self._rooted(c, axis) for c in tree.children))
        if tree.factor is None:
            return tree
        turn, frame = self.derivation.factors.seen(tree)
        root = self.derivation.factors.root(tree)
        return replace(tree, factor=root, turn=turn, frame=frame, axis=axis)

    def _classes(self, axes: Iterable[tuple[Tree, ...]]) -> dict[int, IndexClass]:
        """The classes that occur in parameters, and those they are fibred over."""
        factors = self.derivation.factors
        todo = [
            leaf.factor
            for tree in itertools.chain(*axes)
            for leaf in leaves(tree)
            if leaf.factor is not None
        ]
        found: dict[int, IndexClass] = {}
        while todo:
            root = todo.pop()
            if root not in found:
                record = factors.get(root)
                base = tuple(sorted(factors.base(root)))
                found[root] = IndexClass(
                    record.size, record.kind, base, record.origin, record.reason
                )
                todo.extend(base)
        return dict(sorted(found.items()))

    # scales and signs ---------------------------------------------------------------------------

    def _entries(self, system: System, part: str) -> list[Entry]:
        """Every block of every parameter with its form in the unknowns that are free."""
        found: list[Entry] = []
        for name, value in self.derivation.own.items():
            axes = self._axes(value)
            for chosen in cells(axes):
                key = frozenset(leaf.slot for leaf in chosen)
                if any(leaf.factor in self.dead_classes for leaf in chosen):
                    continue
                form = getattr(value.charge(chosen), part)
                found.append(((name, key), chosen, system.reduce(form)))
        return found

    def _torus(self, system: System, part: str, classes: Mapping[int, IndexClass]) -> Torus:
        entries = self._entries(system, part)
        free = system.free(form for _, _, form in entries)
        dims = {v: tuple(self._class_of(slot) for slot in system.dims[v]) for v in free}
        origins = {v: system.origin[v] for v in free}
        return torus(entries, dims, origins, classes, system.characteristic, len(system.dims))

    def _class_of(self, slot: int) -> int:
        return self.derivation.slots[slot]

    def _scale(self, form: Form) -> Form:
        reduced = self.scale_basis.form(self.derivation.scales.reduce(form))
        return Form(dict(sorted(reduced.terms.items())))

    def _sign(self, form: Form) -> Form:
        reduced = self.sign_basis.form(self.derivation.signs.reduce(form))
        return Form({term: c % 2 for term, c in sorted(reduced.terms.items()) if c % 2})

    # motions ------------------------------------------------------------------------------------

    def _motion(self, value: Value) -> Motion:
        blocks = {cell: self._block(charge) for cell, charge in value.charges.items()}
        slope = self._inverted(value)
        return Motion(self._axes(value), {c: b for c, b in blocks.items() if any(b)}, slope)

    def _block(self, charge: Charge) -> Block:
        return Block(self._scale(charge.scale), self._sign(charge.sign))

    def _inverted(self, value: Value) -> Form | None:
        """The sign under which a learned slope is inverted, named by the slope's own slot."""
        node = self.derivation.graph.nodes[value.node] if value.node >= 0 else None
        slope = None if node is None else self.derivation.slopes.get(node.target)
        if slope is None or node is None or node.op != "parameter":
            return None
        own = [leaf.slot for axis in value.axes for leaf in leaves(axis) if leaf.factor is not None]
        names = {} if slope.slot is None else {slope.slot: own[0]}
        return self._sign(slope.sign.rename(names)) or None

    def _slopes(self) -> dict[str, tuple[int, int]]:
        """The variables of every learned slope that some element inverts."""
        found: dict[str, tuple[int, int]] = {}
        for name, slope in self.derivation.slopes.items():
            ((log, _),), ((negative, _),) = slope.log.terms, slope.negative.terms
            if log in self.derivation.scales.bound:
                found[name] = (log, negative)
        return found

    def _statistic(self, name: str) -> Motion:
        """How a running mean or variance follows the tensor whose statistic it is."""
        tracked = self.derivation.tracked[name]
        value, axis = tracked.value, tracked.value.axes[1]
        own = {leaf.slot for leaf in leaves(axis)}
        blocks: dict[frozenset[int], Block] = {}
        for cell, charge in value.charges.items():
            block = self._block(charge)
            if tracked.squared:
                block = Block(block.scale.times(2))
            blocks[cell & own] = block
        return Motion((self._rooted(axis),), {c: b for c, b in blocks.items() if any(b)})

    # translations -------------------------------------------------------------------------------

    def _program(self) -> Program:
        settlement = self.derivation.settlement
        assert settlement is not None
        means = {n: t for n, t in self.derivation.tracked.items() if not t.squared}
        tracked = {n: t.flow for n, t in means.items() if t.flow is not None}
        return Program(
            settlement.steps, settlement.pivots, settlement.needs, settlement.free, tracked
        )

    def _idle(self, program: Program, dead: Mapping[str, Tensor]) -> frozenset[str]:
        """The parameters whose translations nothing has to take back."""
        settlement = self.derivation.settlement
        assert settlement is not None
        busy = {
            name
            for name, steps in program.sources.items()
            for step in steps
            if step.attrs["key"] in program.free and step.attrs["key"] not in settlement.idle
        }
        return frozenset({*program.sources, *dead} - busy)

    def _dead_classes(self) -> frozenset[int]:
        """The classes that every operation makes nothing of."""
        factors, graph = self.derivation.factors, self.derivation.graph
        swallowed = {(k, factors.find(f).root) for k, f in self.derivation.swallowed}
        inside: dict[int, set[int]] = {root: set() for _, root in swallowed}
        for index, value in self.derivation.values.items():
            for leaf in value.leaves() if isinstance(value, Value) else ():
                root = factors.root(leaf)
                if root in inside:
                    inside[root].add(index)

        def dies(root: int) -> bool:
            users = {user for index in inside[root] for user in graph.users(index)}
            gone = {k for k, other in swallowed if other == root}
            return users <= inside[root] | gone and not inside[root] & set(graph.outputs)

        return frozenset(root for root in inside if dies(root))

    def _dead_entries(
        self, motions: Mapping[str, Motion], parameters: Sequence[str]
    ) -> dict[str, Tensor]:
        """The entries of every parameter that the outputs do not depend on."""
        found: dict[str, Tensor] = {}
        for name, value in self.derivation.own.items():
            kept = name not in parameters or name in self.frozen
            if kept or not any(leaf.factor in self.dead_classes for leaf in self._leaves(value)):
                continue

            def marked(cell: Tensor, chosen: tuple[Leaf, ...]) -> Tensor:
                dead = any(leaf.factor in self.dead_classes for leaf in chosen)
                return torch.full_like(cell, dead)

            blank = torch.zeros(value.shape, dtype=torch.bool)
            found[name] = over_cells(blank, motions[name].axes, marked)
        return found

    def _leaves(self, value: Value) -> Iterable[Leaf]:
        """Every leaf of a value, seen from the root of its class."""
        return itertools.chain(*map(leaves, self._axes(value)))

    def _masks(self, program: Program, dead: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Which entries of a parameter are shifted freely, where not all are."""
        masks: dict[str, Tensor] = dict(dead)
        for name, steps in program.sources.items():
            free = [step for step in steps if step.attrs["key"] in program.free]
            if any(step.attrs["places"] is not None for step in free):
                mask = torch.zeros(math.prod(free[0].attrs["own"]), dtype=torch.bool)
                for step in free:
                    mask[step.attrs["places"]] = True
                mask = mask.reshape(free[0].attrs["own"])
                masks[name] = masks.get(name, torch.tensor(False)) | mask
        return masks

    def _follows_slopes(self, motion: Motion) -> bool:
        """Whether what moves a translation depends on the value of a learned slope."""
        bound = [("scale", v) for v in self.derivation.scales.bound]
        bound += [("sign", v) for v in self.derivation.signs.bound]
        moved = [("scale", v) for b in motion.blocks.values() for v, _ in b.scale.terms]
        moved += [("sign", v) for b in motion.blocks.values() for v, _ in b.sign.terms]
        return not set(bound).isdisjoint(moved)

    def _null_masks(
        self, nulls: Sequence[tuple[Null, Motion]], shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, Tensor]:
        masks = {null.key: null.mask(shapes[null.name]) for null, _ in nulls}
        return {key: mask for key, mask in masks.items() if mask is not None}

    def _shift_shapes(self, program: Program) -> dict[str, tuple[int, ...]]:
        """The shape of every free translation: an embedding moves all its rows alike."""
        found = {
            name: tuple(step.attrs["own"])
            for name, steps in program.sources.items()
            for step in steps
            if step.attrs["key"] in program.free
        }
        return {n: found[n] for n in self.derivation.own if n in found}

    def _nulls(
        self,
        program: Program,
        shifted: Mapping[str, tuple[int, ...]],
        motions: Mapping[str, Motion],
        classes: Mapping[int, IndexClass],
    ) -> list[tuple[Null, Motion]]:
        """The translations of matrices that nothing reads, with how they are moved."""
        graph, derivation = self.derivation.graph, self.derivation
        found: list[Null] = []
        for node in graph.nodes:
            if node.op == "parameter" and node.target not in self.frozen:
                rows = unread_rows(graph, node.index) if derivation.shape else ()
                found += [unread_null(node.target, rows)] if rows else []
                found += unseen_nulls(node.target, derivation.unseen[node.index])
        readings = itertools.chain(*derivation.readings.values())
        known = [reading for reading in readings if reading.key in program.known]
        for reading in known:
            size = derivation.own[reading.name].shape[reading.axis]
            found.append(reading_null(reading, size))
        # what is exact stays whole, and a reading, which has no blocks to be balanced in
        inexact = set() if self.seen is None else {n.key for n in found} - self.seen
        found.sort(key=lambda null: (null.key in inexact, not null.read, null.rows is None))
        kept = independent(found, shifted, motions, classes)
        moved = ((null, null.motion(motions)) for null in kept)
        said = [
            (null, motion)
            for null, motion in moved
            if motion is not None and not self._follows_slopes(motion)
        ]
        keys = {null.key for null, _ in said}
        if self.seen is not None:
            said = [(replace(null, exact=null.key in self.seen), motion) for null, motion in said]
        self.unsaid = [reading for reading in known if reading.key not in keys]
        return said

    def _bare(self, name: str, motions: Mapping[str, Motion]) -> Motion:
        """How a translation of a bias is moved, in the frame in which its axis is rotated.

        There the gains do not show, except that what scales the bias may scale the gain as well.
        """
        motion = motions[name]
        blocks = {}
        for chosen in cells(motion.axes):
            cell = frozenset(leaf.slot for leaf in chosen)
            own = motion.blocks.get(cell, Block())
            framed = [((leaf,), leaf.frame) for leaf in chosen]
            blocks[cell] = bare(own, framed, motions) or own
        axes = tuple(without_frames(axis) for axis in motion.axes)
        return Motion(axes, {c: b for c, b in blocks.items() if any(b)})

    # reasons ------------------------------------------------------------------------------------

    def _touched(self) -> dict[int, tuple[str, ...]]:
        """The operations that looked at the entries of each class."""
        found: dict[int, dict[str, None]] = {}
        for factor, where in self.derivation.touched:
            found.setdefault(self.derivation.factors.find(factor).root, {})[where] = None
        return {root: tuple(places) for root, places in found.items()}

    def _pinned(self) -> Iterable[tuple[str, str]]:
        for index, reason in self.derivation.unknown.items():
            node = self.derivation.graph.nodes[index]
            yield node.module or node.name, reason


def _still_axes(shape: tuple[int, ...]) -> tuple[Tree, ...]:
    return tuple(Leaf(n, -1 - k) for k, n in enumerate(shape))
