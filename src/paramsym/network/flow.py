"""Translations: how a constant added to a bias travels, and which bias takes it back.

Shifting a bias adds a constant vector to everything linear after it. The shift is harmless if it
dies (a batch statistic removes it) or if another bias compensates it before anything nonlinear or
an output sees it. ``Flows`` records, while a graph is read, how shifts travel (a small program of
sums, contractions and layout steps) and the *walls* where they must vanish. ``settle`` then chooses
for each wall the bias that absorbs what arrives: its *pivot*. Biases that are neither pivots nor
pinned are free: they are the translations of the symmetry.

Constants of the model travel the same way. Where a tensor moves by T and a fixed vector c is added,
the difference c - T c is such a shift: if it is absorbed, the fixed vector restricts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

Support = frozenset[int]


@dataclass(frozen=True)
class Step:
    """One step of the program: ``kind`` applied to earlier steps, as plain data.

    ``shape`` is the shape of the tensor that is shifted and ``support`` the axes along which the
    shift varies; along all others it is constant and stored with size one.
    """

    kind: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    support: Support
    attrs: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "kind": self.kind,
            "inputs": list(self.inputs),
            "shape": list(self.shape),
            "support": sorted(self.support),
            "attrs": self.attrs,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Step:
        """The step that ``to_dict`` wrote."""
        return cls(
            data["kind"],
            tuple(data["inputs"]),
            tuple(data["shape"]),
            frozenset(data["support"]),
            dict(data["attrs"]),
        )


class Flows:
    """The program of shifts of one model, written while its graph is read."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.walls: list[int] = []
        self._known: dict[str, int] = {}

    def add(
        self,
        kind: str,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        support: Support,
        **attrs: Any,
    ) -> int:
        """The index of a step, a new one unless the same is there already."""
        if kind == "narrow" and attrs["axis"] not in support:
            attrs["places"] = list(range(len(attrs["places"])))  # all places look alike
        key = repr((kind, inputs, shape, sorted(support), sorted(attrs.items())))
        if key not in self._known:
            self._known[key] = len(self.steps)
            self.steps.append(Step(kind, inputs, shape, support, attrs))
        return self._known[key]

    def source(
        self,
        name: str,
        own: tuple[int, ...],
        shape: tuple[int, ...],
        support: Support,
        parts: Sequence[Sequence[int]] = (),
    ) -> int:
        """The shift of a parameter of shape ``own`` that is added to a tensor of ``shape``.

        ``parts`` are the places along its one support axis that are shifted independently; others
        are not shifted at all.
        """
        if not parts or (len(parts) == 1 and len(parts[0]) == math.prod(own)):
            return self._part(name, name, own, shape, support, None)
        if len(parts) == 1:
            return self._part(name, name, own, shape, support, list(parts[0]))
        keys = [f"{name}[{k}]" for k in range(len(parts))]
        pieces = [
            self._part(key, name, own, shape, support, list(places))
            for key, places in zip(keys, parts, strict=True)
        ]
        factors = [1.0] * len(pieces)
        return self.add("sum", tuple(pieces), shape, support, factors=factors)

    def _part(
        self,
        key: str,
        name: str,
        own: tuple[int, ...],
        shape: tuple[int, ...],
        support: Support,
        places: list[int] | None,
    ) -> int:
        attrs = {"key": key, "name": name, "own": list(own), "places": places}
        return self.add("source", (), shape, support, **attrs)

    def tensor_of(self, step: int) -> str:
        """The tensor that a chain of layout steps starts from."""
        found = self.steps[step]
        if found.kind == "tensor":
            return str(found.attrs["name"])
        return self.tensor_of(found.inputs[0])

    def replayed(self, chain: int, start: int) -> int:
        """The layout steps of a chain applied to another start of the same shape."""
        step = self.steps[chain]
        if step.kind == "tensor":
            return start
        before = self.replayed(step.inputs[0], start)
        support = moved_support(self.steps[before].support, step)
        return self.add(step.kind, (before,), step.shape, support, **step.attrs)

    def wall(self, step: int | None) -> None:
        """Require that the shift vanishes here."""
        if step is not None and step not in self.walls:
            self.walls.append(step)


def moved_support(support: Support, step: Step) -> Support:
    """The axes along which a shift varies after a layout step."""
    if step.kind == "permute":
        return frozenset(k for k, d in enumerate(step.attrs["dims"]) if d in support)
    if step.kind == "view":
        groups = step.attrs["groups"]
        outs = (o for ins, outs in groups if support & set(ins) for o in outs)
        return frozenset(o for o in outs if step.shape[o] > 1)
    return support


@dataclass(frozen=True)
class Program:
    """The shifts of a finished symmetry, as data: steps, pivots, and what follows a statistic.

    ``pivots`` gives for a source the path to the wall where it absorbs what arrives, ``needs`` what
    that is; ``free`` are the sources whose shift is an unknown of the group.
    """

    steps: tuple[Step, ...] = ()
    pivots: dict[str, tuple[int, ...]] = field(default_factory=dict)
    needs: dict[str, frozenset[str]] = field(default_factory=dict)
    free: tuple[str, ...] = ()
    tracked: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "steps": [step.to_dict() for step in self.steps],
            "pivots": {name: list(path) for name, path in self.pivots.items()},
            "needs": {name: sorted(keys) for name, keys in self.needs.items()},
            "free": list(self.free),
            "tracked": dict(self.tracked),
        }

    @cached_property
    def sources(self) -> dict[str, list[Step]]:
        """The source steps of every parameter that is shifted."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            if step.kind == "source" and step.attrs["key"] in self.known:
                found.setdefault(step.attrs["name"], []).append(step)
        return found

    @cached_property
    def shifting(self) -> frozenset[int]:
        """The steps at which a shift is found; the rest only lay out the tensors that it meets."""
        found: set[int] = set()
        for index, step in enumerate(self.steps):
            if step.kind in ("source", "constant") or not found.isdisjoint(step.inputs):
                found.add(index)
        return frozenset(found)

    @cached_property
    def absorbed_at(self) -> frozenset[int]:
        """The steps at which pivots take back all that arrives."""
        return frozenset(path[-1] for path in self.pivots.values())

    @cached_property
    def known(self) -> frozenset[str]:
        """The sources that are shifted, and the constants."""
        constants = {step.attrs["key"] for step in self.steps if step.kind == "constant"}
        return frozenset({*self.free, *self.pivots, *constants})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Program:
        """The program that ``to_dict`` wrote."""
        return cls(
            tuple(Step.from_dict(step) for step in data["steps"]),
            {name: tuple(path) for name, path in data["pivots"].items()},
            {name: frozenset(keys) for name, keys in data["needs"].items()},
            tuple(data["free"]),
            dict(data["tracked"]),
        )


@dataclass
class Run:
    """One evaluation of a program: ``read`` gives moved tensors, ``shift`` the free shifts.

    ``constant`` returns the shift c - T c of a constant step (None: none), ``gain`` the factors of
    a gain, ``number`` that of a step that multiplies by what some shifted vectors add up to.
    ``seen`` takes away from what a bias absorbs the part that no output sees: left in, it would
    depend on the order in which elements act.
    """

    program: Program
    read: Callable[[str], Tensor]
    shift: Callable[[str], Tensor | None]
    constant: Callable[[Step], Tensor | None]
    gain: Callable[[Step], Tensor]
    number: Callable[[Step], Tensor]
    seen: Callable[[str, Tensor], Tensor]
    _done: dict[tuple[int, frozenset[str]], Tensor | None] = field(default_factory=dict)

    def bias(self, name: str) -> Tensor | None:
        """What is added to a parameter; None for nothing."""
        return _total(self._source(step) for step in self.program.sources.get(name, ()))

    def tracked(self, name: str) -> Tensor | None:
        """The shift of the tensor whose statistic a buffer is."""
        return self._at(self.program.tracked[name], self.program.known)

    def _source(self, step: Step) -> Tensor | None:
        """The shift of one source in the parameter's own shape."""
        path = self.program.pivots.get(step.attrs["key"])
        whole = self.shift(step.attrs["name"]) if path is None else self._absorbed(step, path)
        if whole is None or step.attrs["places"] is None:
            return whole
        kept = torch.zeros(whole.numel(), dtype=torch.bool)
        kept[step.attrs["places"]] = True
        return torch.where(kept.reshape(whole.shape), whole, 0.0)

    def _at(self, index: int, only: frozenset[str]) -> Tensor | None:
        """The shift at a step that some of the sources and constants cause."""
        if index not in self.program.shifting:
            return self._evaluate(index, only)  # as large as a weight: not kept
        if (index, only) not in self._done:
            gone = index in self.program.absorbed_at
            self._done[index, only] = None if gone else self._evaluate(index, only)
        return self._done[index, only]

    def _evaluate(self, index: int, only: frozenset[str]) -> Tensor | None:
        step = self.program.steps[index]
        if step.kind == "tensor":
            return self.read(step.attrs["name"])
        if step.kind in ("source", "constant") and step.attrs["key"] not in only:
            return None
        if step.kind == "constant":
            return self.constant(step)
        if step.kind == "source":
            bias = self._source(step)
            return None if bias is None else bias.reshape(compact(step))
        first = self._at(step.inputs[0], only)
        if first is None and step.kind == "einsum":
            return None  # without reading the weight that it does not meet
        return self._apply(step, [first, *(self._at(i, only) for i in step.inputs[1:])])

    def _apply(self, step: Step, inputs: list[Tensor | None]) -> Tensor | None:
        if step.kind == "sum":
            return _summed(step, inputs)
        if step.kind == "cat":
            return _joined(step, inputs)
        first = inputs[0]
        if first is None:
            return None
        if step.kind == "gain":
            return first * self.gain(step)
        if step.kind == "times":
            return first * self.number(step)
        if step.kind == "einsum":
            assert inputs[1] is not None
            return torch.einsum(step.attrs["equation"], first, inputs[1])
        return _laid_out(step, first, self.program.steps[step.inputs[0]])

    def _absorbed(self, source: Step, path: tuple[int, ...]) -> Tensor | None:
        """Minus what arrives at the wall without this source, pulled back along the path."""
        others = self.program.needs[source.attrs["key"]]
        arriving: Tensor | None = None
        for before, index in pairwise(path):
            step = self.program.steps[index]
            if arriving is None and step.kind == "einsum":
                continue
            inputs = [arriving if i == before else self._at(i, others) for i in step.inputs]
            arriving = self._apply(step, inputs)
        if arriving is None:
            return None
        back = -arriving
        for before, index in reversed(list(pairwise(path))):
            back = self._undo(self.program.steps[index], before, back)
            back = compacted(back, self.program.steps[before])
        full = torch.broadcast_shapes(back.shape, tuple(compact(source)))
        whole = back.expand(full).reshape(source.attrs["own"])
        return self.seen(source.attrs["name"], whole)

    def _undo(self, step: Step, before: int, value: Tensor) -> Tensor:
        """The shift before a step, given the one after it that a single input causes."""
        source = self.program.steps[before]
        if step.kind == "gain":
            return value / self.gain(step)
        if step.kind == "times":
            return value / self.number(step)
        if step.kind == "sum":
            value = value / step.attrs["factors"][step.inputs.index(before)]
            return value.reshape(value.shape[value.ndim - len(source.shape) :])
        if step.kind == "permute":
            order = step.attrs["dims"]
            return value.permute([order.index(k) for k in range(len(order))])
        if step.kind == "view":
            groups = [(outs, ins) for ins, outs in step.attrs["groups"]]
            return regroup(value, step.shape, source.shape, groups)
        if step.kind in ("broadcast", "mask"):
            return value
        axis = step.attrs["axis"]
        if axis not in source.support:
            return value  # constant along the axis before the step, and so after it
        if step.kind == "cat":
            start, size = cat_place(step, step.inputs.index(before))
            return value.narrow(axis, start, size) if value.shape[axis] > 1 else value
        places = torch.tensor(step.attrs["places"], device=value.device)
        shape = [len(places) if k == axis else n for k, n in enumerate(value.shape)]
        zeros = value.new_zeros(
            [source.shape[axis] if k == axis else n for k, n in enumerate(shape)]
        )
        return zeros.index_copy(axis, places, value.expand(shape))


def cat_place(step: Step, which: int) -> tuple[int, int]:
    """Where an input of a concatenation stands: its start and its size."""
    start = 0
    for other, size in step.attrs["order"]:
        if other == which:
            return start, int(size)
        start += size
    raise AssertionError("an input that is not concatenated")


def _total(terms: Iterable[Tensor | None]) -> Tensor | None:
    present = [term for term in terms if term is not None]
    return sum(present[1:], start=present[0]) if present else None


def compact(step: Step) -> list[int]:
    """The stored shape of a shift: full along its support, one elsewhere."""
    return [n if axis in step.support else 1 for axis, n in enumerate(step.shape)]


def compacted(value: Tensor, step: Step) -> Tensor:
    """A shift that is constant off the support of a step, stored with size one there."""
    for axis, size in enumerate(compact(step)):
        if value.shape[axis] > size:
            value = value.narrow(axis, 0, size)
    return value


def regroup(value: Tensor, before: tuple[int, ...], after: tuple[int, ...], groups: Any) -> Tensor:
    """Reshape a compact tensor group by group; a group it is constant along stays of size one."""
    expanded, shape = list(value.shape), [1] * len(after)
    for ins, outs in groups:
        if any(value.shape[axis] > 1 for axis in ins):
            for axis in ins:
                expanded[axis] = before[axis]
            for axis in outs:
                shape[axis] = after[axis]
    return value.expand(expanded).reshape(shape)


def _summed(step: Step, inputs: list[Tensor | None]) -> Tensor | None:
    total: Tensor | None = None
    for factor, term in zip(step.attrs["factors"], inputs, strict=True):
        if term is not None:
            total = term * factor if total is None else total + term * factor
    if total is not None:
        total = total.reshape((1,) * (len(step.shape) - total.ndim) + tuple(total.shape))
    return total


def _joined(step: Step, inputs: list[Tensor | None]) -> Tensor | None:
    """Concatenate shifts; ``order`` gives for each part an input or None with its size."""
    present = [t for t in inputs if t is not None]
    if not present:
        return None
    axis = step.attrs["axis"]
    others = torch.broadcast_shapes(*((*t.shape[:axis], 1, *t.shape[axis + 1 :]) for t in present))
    parts = []
    for which, size in step.attrs["order"]:
        part = None if which is None else inputs[which]
        filled = present[0].new_zeros(()) if part is None else part
        shape = list(others)
        shape[axis] = size
        parts.append(filled.expand(shape))
    return torch.cat(parts, axis)


def _laid_out(step: Step, value: Tensor, source: Step) -> Tensor:
    if step.kind == "permute":
        return value.permute(step.attrs["dims"])
    if step.kind == "view":
        return regroup(value, source.shape, step.shape, step.attrs["groups"])
    if step.kind == "reduce":
        axes = step.attrs["axes"]
        total = value.mean(axes, keepdim=step.attrs["keepdim"])
        return total * float(step.attrs["factor"])
    if step.kind == "narrow":
        axis, places = step.attrs["axis"], step.attrs["places"]
        return value if value.shape[axis] == 1 else value[(slice(None),) * axis + (places,)]
    if step.kind == "mask":
        axis, size = step.attrs["axis"], step.shape[step.attrs["axis"]]
        kept = torch.zeros(size, dtype=value.dtype)
        kept[step.attrs["places"]] = 1.0
        return value * kept.reshape([size if k == axis else 1 for k in range(value.ndim)])
    if step.kind == "broadcast":
        return value
    raise AssertionError(f"unknown step {step.kind}")
