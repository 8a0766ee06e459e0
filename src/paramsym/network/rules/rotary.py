"""Rotary position embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paramsym.network.axes import Kind, leaves
from paramsym.network.rotary import ROTARY
from paramsym.network.rules import rule
from paramsym.network.rules.layout import held, view
from paramsym.network.solve import Op, Result
from paramsym.network.values import Value


@rule(ROTARY)
def rotary(op: Op) -> Result:
    """What commutes with every rotation: rotations and scales of each pair of entries.

    The angles differ from pair to pair and along other axes of theirs (positions), which stay.
    Scales are those of whole pairs.
    """
    engine, x, halves = op.engine, op[0], op[1]
    engine.flows.wall(x.flow)
    x = replace(x, flow=None, expression=None)
    last, shape = len(x.axes) - 1, x.shape
    x = held(op, x, sorted(_places(len(shape), op.args[2:])), "turns by place")
    pairs = (2, shape[-1] // 2) if halves else (shape[-1] // 2, 2)
    cut = view(op, x, (*shape[:-1], *pairs))
    pair, frequency = (last, last + 1) if halves else (last + 1, last)
    engine.factors.lower_tree(cut.axes[pair], Kind.PLANE, f"{op.where} turns pairs of entries")
    engine.factors.lower_tree(cut.axes[frequency], Kind.FIXED, f"{op.where} turns each by its own")
    mixed = list(leaves(engine.factors.resolve(cut.axes[pair])))
    charges = {cell: engine.along(c, mixed, op.where) for cell, c in cut.charges.items()}
    return replace(view(op, replace(cut, charges=charges), shape), node=op.node.index)


def _places(rank: int, angles: Sequence[Value]) -> set[int]:
    """The axes of a tensor along which some angles vary, the last one aside."""
    return {
        k + rank - len(angle.shape)
        for angle in angles
        for k, n in enumerate(angle.shape[:-1])
        if n > 1
    }
