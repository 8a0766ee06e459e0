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

from collections.abc import Callable, Mapping
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


@dataclass(frozen=True)
class _Arrival:
    """How a source arrives at a step: undistorted along one path (``clean``) or not."""

    clean: bool
    support: Support


@dataclass(frozen=True)
class Settlement:
    """Which sources are absorbed, by what, and which are not."""

    pivots: dict[str, tuple[int, ...]]
    pinned: frozenset[str]
    free: frozenset[str]


_TRANSPARENT = ("sum", "gain", "view", "permute")


class Flows:
    """The program of shifts of one model, written while its graph is read."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.walls: list[int] = []
        self._keys: dict[int, str] = {}

    def add(
        self,
        kind: str,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        support: Support,
        **attrs: Any,
    ) -> int:
        """Append a step and return its index."""
        self.steps.append(Step(kind, inputs, shape, support, attrs))
        return len(self.steps) - 1

    def source(
        self, name: str, own: tuple[int, ...], shape: tuple[int, ...], support: Support
    ) -> int:
        """The shift of a parameter of shape ``own`` that is added to a tensor of ``shape``."""
        step = self.add("source", (), shape, support, name=name, own=list(own))
        self._keys[step] = name
        return step

    def constant(self, key: str, shape: tuple[int, ...], support: Support, **attrs: Any) -> int:
        """The shift that a fixed vector causes; ``key`` names the place."""
        step = self.add("constant", (), shape, support, key=key, **attrs)
        self._keys[step] = key
        return step

    def wall(self, step: int | None) -> None:
        """Require that the shift vanishes here."""
        if step is not None and step not in self.walls:
            self.walls.append(step)

    def settle(self) -> Settlement:
        """Choose a pivot for every wall; pin what no pivot can absorb."""
        return _Settling(self).run()

    def key(self, step: int) -> str | None:
        """The name of the source that a step is, if it is one."""
        return self._keys.get(step)


class _Settling:
    """Gaussian elimination on arrivals: each wall is solved for the latest bias that reaches it."""

    def __init__(self, flows: Flows) -> None:
        self.flows = flows
        self.pinned: set[str] = set()
        self.pivots: dict[str, tuple[int, ...]] = {}
        self.needs: dict[str, frozenset[str]] = {}
        self.solved: set[int] = set()
        self.arrivals: dict[int, dict[str, _Arrival]] = {}

    def run(self) -> Settlement:
        for wall in sorted(self.flows.walls):
            self._solve(wall)
        names = {s.attrs["name"] for s in self.flows.steps if s.kind == "source"}
        free = names - self.pinned - set(self.pivots)
        return Settlement(self.pivots, frozenset(self.pinned), frozenset(free))

    def _solve(self, wall: int) -> None:
        arriving = {k: a for k, a in self._at(wall).items() if k not in self.pinned}
        if not arriving:
            return
        reach = frozenset().union(*(a.support for a in arriving.values()))
        for step, key in sorted(self.flows._keys.items(), reverse=True):
            arrival = arriving.get(key)
            fits = arrival is not None and arrival.clean and arrival.support >= reach
            if fits and self._may_absorb(step, key, frozenset(arriving) - {key}):
                self.pivots[key] = self._path(step, wall)
                self.needs[key] = frozenset(arriving) - {key}
                self.solved.add(wall)
                self.arrivals.clear()
                return
        self._pin(frozenset(arriving))

    def _may_absorb(self, step: int, key: str, others: frozenset[str]) -> bool:
        is_bias = self.flows.steps[step].kind == "source" and key not in self.pivots
        return is_bias and key not in self._closure(others)

    def _closure(self, keys: frozenset[str]) -> set[str]:
        """The keys and everything that the pivots among them depend on."""
        found: set[str] = set()
        todo = list(keys)
        while todo:
            key = todo.pop()
            if key not in found:
                found.add(key)
                todo.extend(self.needs.get(key, ()))
        return found

    def _pin(self, keys: frozenset[str]) -> None:
        self.pinned |= {k for k in self._closure(keys) if k not in self.pivots}
        self.arrivals.clear()

    def _at(self, index: int) -> dict[str, _Arrival]:
        """The sources that arrive at a step, computed once until something changes."""
        if index in self.solved:
            return {}
        if index not in self.arrivals:
            for earlier in range(index + 1):
                if earlier not in self.arrivals:
                    solved = earlier in self.solved
                    self.arrivals[earlier] = {} if solved else self._arrive(earlier)
        return self.arrivals[index]

    def _arrive(self, index: int) -> dict[str, _Arrival]:
        step = self.flows.steps[index]
        key = self.flows.key(index)
        if key is not None:
            return {} if key in self.pinned else {key: _Arrival(True, step.support)}
        result: dict[str, _Arrival] = {}
        for position in step.inputs:
            for name, arrival in self.arrivals.get(position, {}).items():
                clean = arrival.clean and step.kind in _TRANSPARENT and name not in result
                support = carried(self.flows.steps[position], step, arrival.support)
                before = result.get(name)
                joint = support | before.support if before else support
                result[name] = _Arrival(clean and before is None, joint)
        return result

    def _path(self, start: int, end: int) -> tuple[int, ...]:
        """The single path of steps from a source to a wall."""
        path = [end]
        key = self.flows.key(start)
        while path[-1] != start:
            inputs = self.flows.steps[path[-1]].inputs
            path.append(next(i for i in inputs if key in self.arrivals[i]))
        return tuple(reversed(path))


def carried(before: Step, step: Step, support: Support) -> Support:
    """The support of one source after a step."""
    if step.kind == "permute":
        dims = step.attrs["dims"]
        return frozenset(k for k, d in enumerate(dims) if d in support)
    if step.kind == "view":
        return frozenset(
            out
            for ins, outs in step.attrs["groups"]
            if support & set(ins)
            for out in outs
            if step.shape[out] > 1
        )
    if step.kind == "sum":
        offset = len(step.shape) - len(before.shape)
        return frozenset(axis + offset for axis in support)
    if step.kind == "gain":
        return support
    return step.support


@dataclass(frozen=True)
class Program:
    """The shifts of a finished symmetry, as data: steps, pivots, and what follows a statistic."""

    steps: tuple[Step, ...] = ()
    pivots: dict[str, tuple[int, ...]] = field(default_factory=dict)
    free: tuple[str, ...] = ()
    tracked: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "steps": [step.to_dict() for step in self.steps],
            "pivots": {name: list(path) for name, path in self.pivots.items()},
            "free": list(self.free),
            "tracked": dict(self.tracked),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Program:
        """The program that ``to_dict`` wrote."""
        return cls(
            tuple(Step.from_dict(step) for step in data["steps"]),
            {name: tuple(path) for name, path in data["pivots"].items()},
            tuple(data["free"]),
            dict(data["tracked"]),
        )


@dataclass
class Run:
    """One evaluation of a program: ``read`` gives moved tensors, ``shift`` the free shifts.

    ``constant`` returns the shift c - T c of a constant step.
    """

    program: Program
    read: Callable[[str], Tensor]
    shift: Callable[[str], Tensor | None]
    constant: Callable[[Step], Tensor]
    gain: Callable[[Step], Tensor]
    _done: dict[int, Tensor | None] = field(default_factory=dict)

    def bias(self, name: str) -> Tensor | None:
        """What is added to a bias, in its own shape; None for nothing."""
        path = self.program.pivots.get(name)
        return self.shift(name) if path is None else self._absorbed(name, path)

    def tracked(self, name: str) -> Tensor | None:
        """The shift of the tensor whose statistic a buffer is."""
        return self._at(self.program.tracked[name])

    @cached_property
    def _absorbed_at(self) -> frozenset[int]:
        """The steps at which a pivot takes back all that arrives."""
        return frozenset(path[-1] for path in self.program.pivots.values())

    def _at(self, index: int) -> Tensor | None:
        if index not in self._done:
            self._done[index] = self._evaluate(index)
        return self._done[index]

    def _evaluate(self, index: int) -> Tensor | None:
        if index in self._absorbed_at:
            return None
        step = self.program.steps[index]
        if step.kind == "source":
            bias = self.bias(step.attrs["name"])
            return None if bias is None else bias.reshape(compact(step))
        if step.kind == "constant":
            return self.constant(step)
        if step.kind == "tensor":
            return self.read(step.attrs["name"])
        return self._apply(step, [self._at(i) for i in step.inputs])

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
        if step.kind == "einsum":
            assert inputs[1] is not None
            return torch.einsum(step.attrs["equation"], first, inputs[1])
        return _laid_out(step, first, self.program.steps[step.inputs[0]])

    def _absorbed(self, name: str, path: tuple[int, ...]) -> Tensor | None:
        """Minus what arrives at the wall without this bias, pulled back along the path."""
        arriving: Tensor | None = None
        for before, index in pairwise(path):
            step = self.program.steps[index]
            inputs = [arriving if i == before else self._at(i) for i in step.inputs]
            arriving = self._apply(step, inputs)
        if arriving is None:
            return None
        back = -arriving
        for before, index in reversed(list(pairwise(path))):
            back = self._undo(self.program.steps[index], before, back)
        start = self.program.steps[path[0]]
        full = [n if axis in start.support else 1 for axis, n in enumerate(start.shape)]
        return back.expand(torch.broadcast_shapes(back.shape, full)).reshape(
            self.program.steps[path[0]].attrs["own"]
        )

    def _undo(self, step: Step, before: int, value: Tensor) -> Tensor:
        if step.kind == "gain":
            return value / self.gain(step)
        source = self.program.steps[before]
        if step.kind == "sum":
            value = value / step.attrs["factors"][step.inputs.index(before)]
            return value.reshape(value.shape[value.ndim - len(source.shape) :])
        if step.kind == "permute":
            order = step.attrs["dims"]
            return value.permute([order.index(k) for k in range(len(order))])
        groups = [(outs, ins) for ins, outs in step.attrs["groups"]]
        return regroup(value, step.shape, source.shape, groups)


def compact(step: Step) -> list[int]:
    """The stored shape of a shift: full along its support, one elsewhere."""
    return [n if axis in step.support else 1 for axis, n in enumerate(step.shape)]


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
        return total * step.attrs["factor"]
    if step.kind == "narrow":
        axis, places = step.attrs["axis"], step.attrs["places"]
        return value if value.shape[axis] == 1 else value[(slice(None),) * axis + (places,)]
    if step.kind == "broadcast":
        return value
    raise AssertionError(f"unknown step {step.kind}")
