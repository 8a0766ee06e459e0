"""Rotary position embeddings."""

from __future__ import annotations

from dataclasses import replace

from paramsym.network.axes import Kind, leaves
from paramsym.network.rotary import ROTARY
from paramsym.network.rules import rule
from paramsym.network.rules.layout import held, view
from paramsym.network.solve import Op, Result


@rule(ROTARY)
def rotary(op: Op) -> Result:
    """What commutes with every rotation: rotations and scales of each pair of entries.

    The angles differ from pair to pair and along the axes of ``angle`` (positions), which stay.
    Scales are those of whole pairs.
    """
    engine, x, halves, angle = op.engine, op[0], op[1], op[2]
    engine.flows.wall(x.flow)
    x = replace(x, flow=None, expression=None)
    last, shape = len(x.axes) - 1, x.shape
    offset = len(shape) - len(angle.shape)
    x = held(op, x, [k + offset for k, n in enumerate(angle.shape[:-1]) if n > 1], "turns by place")
    pairs = (2, shape[-1] // 2) if halves else (shape[-1] // 2, 2)
    cut = view(op, x, (*shape[:-1], *pairs))
    pair, frequency = (last, last + 1) if halves else (last + 1, last)
    engine.factors.lower_tree(cut.axes[pair], Kind.PLANE, f"{op.where} turns pairs of entries")
    engine.factors.lower_tree(cut.axes[frequency], Kind.FIXED, f"{op.where} turns each by its own")
    mixed = list(leaves(engine.factors.resolve(cut.axes[pair])))
    charges = {cell: engine.along(c, mixed, op.where) for cell, c in cut.charges.items()}
    return replace(view(op, replace(cut, charges=charges), shape), node=op.node.index)
