"""Functions of one number on a batch that never crosses their kink.

A unit that is on for all of the batch is linear there, one that is off does nothing at all: what
feeds it and what reads it is free. The group found so is valid on the batch, near the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import torch
from torch import Tensor

from paramsym.network.activations import ActivationFacts
from paramsym.network.axes import Kind, Leaf, Product, Ranges, Sum, Tree, leaves
from paramsym.network.charges import ZERO
from paramsym.network.solve import Op
from paramsym.network.values import NEUTRAL, Charge, Value, cells


class State(Enum):
    """What a unit does on a batch."""

    MIXED = 0
    ON = 1
    OFF = -1


def image(op: Op, charge: Charge, facts: ActivationFacts, reflected: bool) -> Charge:
    """The charge after a function: scales by the degree, signs by the parity."""
    engine = op.engine
    scale, sign = charge.scale, charge.sign
    if facts.degree is None:
        engine.scales.require_zero(scale)
        scale = ZERO
    else:
        scale = scale.times(facts.degree)
    if facts.even:
        sign = ZERO
    elif not facts.odd and not reflected:
        engine.signs.require_zero(sign)
        sign = ZERO
    return Charge(scale, sign)


@dataclass(frozen=True)
class Pieces:
    """A function with a kink at zero, applied where ``pattern`` is what it was applied to."""

    op: Op
    x: Value
    facts: ActivationFacts
    axis: int
    pattern: Tensor

    def run(self) -> Value | None:
        """Linear on the units that are on, zero on those that are off, as always on the rest."""
        states = self._states()
        if all(state is State.MIXED for state in states):
            return None
        engine, places = self.op.engine, _places(states)
        cut = Sum(tuple(engine.factors.special(len(p), "fixed") for p in places), places)
        like = engine.fixed([1] * len(self.x.axes))
        axes = [cut if k == self.axis else axis for k, axis in enumerate(like.axes)]
        matched = engine.matched(
            self.x, replace(like, axes=tuple(axes), charges={}), [(self.axis, self.axis)]
        )
        if matched is None:
            return None
        x = matched[0]
        status = _status(x.axes[self.axis], range(x.axes[self.axis].size), states)
        return self._split(x, status, states)

    def _states(self) -> list[State]:
        """One state for each index of the axis; blocks of a product go together."""
        flat = self.pattern.movedim(self.axis, 0).flatten(1)
        tree = self.op.engine.factors.resolve(self.x.axes[self.axis])
        head = tree.children[0].size if isinstance(tree, Product) else tree.size
        rows = flat.reshape(head, -1)
        on, off = (rows > 0).all(1), (rows < 0).all(1)
        each = [
            State.ON if a else State.OFF if b else State.MIXED for a, b in zip(on, off, strict=True)
        ]
        return [state for state in each for _ in range(tree.size // head)]

    def _split(self, x: Value, status: dict[int, State], states: Sequence[State]) -> Value:
        engine, op = self.op.engine, self.op
        dies = not self._slope(State.OFF)
        zeros: dict[int, int] = {}
        for leaf in leaves(x.axes[self.axis]):
            state = status.get(leaf.slot, State.MIXED)
            if state is State.MIXED:
                engine.factors.lower(leaf, Kind.PERMUTATION, f"{op.where} works entry by entry")
            elif state is State.OFF and dies:
                engine.swallow(op, leaf)
                zeros[leaf.slot] = engine.factors.slot()
        axes = [_dead(axis, zeros) if k == self.axis else axis for k, axis in enumerate(x.axes)]
        result = Value(tuple(axes), node=op.node.index, flow=self._flow(x, states, dies))
        if not engine.final:
            return result
        charges = {}
        for cell in cells(x.axes):
            key = frozenset(zeros.get(leaf.slot, leaf.slot) for leaf in cell)
            charges[key] = self._charge(x, cell, status, zeros)
        return replace(result, charges=charges)

    def _charge(
        self, x: Value, cell: tuple[Leaf, ...], status: dict[int, State], zeros: dict[int, int]
    ) -> Charge:
        if any(leaf.slot in zeros for leaf in cell):
            return NEUTRAL
        known = [status[leaf.slot] for leaf in cell if leaf.slot in status]
        if known and known[0] is not State.MIXED:
            return x.charge(cell)
        return image(self.op, x.charge(cell), self.facts, False)

    def _slope(self, state: State) -> float:
        """The slope of the function on one side."""
        point = torch.tensor(float(state.value), dtype=torch.float64)
        value = self.op.engine.evaluate(self.op.node, point)
        return float(value) * state.value

    def _flow(self, x: Value, states: Sequence[State], dies: bool) -> int | None:
        """Shifts pass where the function is linear, vanish where it is zero, and stop elsewhere."""
        flows = self.op.engine.flows
        if x.flow is None:
            return None
        support = flows.steps[x.flow].support | {self.axis}
        parts: dict[State, int] = {}
        for state in State:
            places = [k for k, other in enumerate(states) if other is state]
            if places:
                attrs = {"axis": self.axis, "places": places}
                parts[state] = flows.add("mask", (x.flow,), x.shape, support, **attrs)
        flows.wall(parts.pop(State.MIXED, None))
        if dies:
            parts.pop(State.OFF, None)
        if not parts:
            return None
        factors = [self._slope(state) for state in parts]
        return flows.add("sum", tuple(parts.values()), x.shape, support, factors=factors)


def _places(states: Sequence[State]) -> tuple[Ranges, ...]:
    """The places of every state that occurs, in order of appearance."""
    return tuple(
        tuple(k for k, other in enumerate(states) if other is state)
        for state in dict.fromkeys(states)
    )


def _status(tree: Tree, places: Sequence[int], states: Sequence[State]) -> dict[int, State]:
    """The state of every leaf that leads a part of an axis."""
    if isinstance(tree, Leaf):
        return {tree.slot: states[places[0]]}
    if isinstance(tree, Product):
        return _status(tree.children[0], places[:: tree.size // tree.children[0].size], states)
    found: dict[int, State] = {}
    for child, own in zip(tree.children, tree.places, strict=True):
        found |= _status(child, [places[k] for k in own], states)
    return found


def _dead(tree: Tree, zeros: dict[int, int]) -> Tree:
    """The axis with zeros in place of some leaves."""
    if isinstance(tree, Leaf):
        return Leaf(tree.size, zeros[tree.slot], what="zero") if tree.slot in zeros else tree
    return replace(tree, children=tuple(_dead(child, zeros) for child in tree.children))
