"""Activations with parameters or randomness of their own."""

from __future__ import annotations

from dataclasses import replace

from paramsym.network.axes import Kind, leaves
from paramsym.network.charges import Form
from paramsym.network.rules import rule
from paramsym.network.rules.elementwise import blocks
from paramsym.network.rules.layout import view
from paramsym.network.solve import Op, Result
from paramsym.network.values import Charge, Slope, Value


@rule("aten.prelu.default")
def prelu(op: Op) -> Result:
    """Positive scales, permutations together with the slopes, and the flip z -> -z, a -> 1/a.

    A flipped unit puts out ``-prelu(z)/a``, so what reads it is multiplied by ``-a``.
    """
    x, slope = op[0], op[1]
    engine = op.engine
    engine.entrywise(x, f"{op.where} works entry by entry")
    engine.flows.wall(x.flow)
    channel = 1 if len(x.axes) > 1 else 0
    if slope.shape[0] > 1:
        shaped = view(op, slope, (slope.shape[0], *(1 for _ in x.axes[channel + 1 :])))
        pairs = engine.aligned(x, engine.broadcast(shaped, len(x.axes)), [(channel, channel)])
        for a, b in (pair for block in blocks(pairs or []) for pair in block):
            engine.factors.share(a, b, f"{op.where} has a slope per channel")
    names = _slots_of_slopes(op, x, slope, channel)
    charges = {}
    for cell, charge in x.charges.items():
        engine.unflipped(charge)
        sign = _flip(op, charge, slope, names)
        flips = ((Slope(engine.graph.nodes[slope.node].target, names), sign),) if sign else ()
        charges[cell] = Charge(charge.scale, sign, flips)
    for charge in slope.charges.values():
        engine.scales.require_zero(charge.scale)
        engine.signs.require_zero(charge.sign)
    return Value(x.axes, charges, node=op.node.index)


def _slots_of_slopes(op: Op, x: Value, slope: Value, channel: int) -> int | None:
    """The slot of ``x`` that indexes the slopes, if there is one and only one."""
    del op
    if slope.shape[0] == 1:
        return None
    found = [leaf.slot for leaf in leaves(x.axes[channel])]
    return found[0] if len(found) == 1 else -1


def _flip(op: Op, charge: Charge, slope: Value, slot: int | None) -> Form:
    """The sign with which the slopes are inverted; none where several readers would disagree."""
    engine = op.engine
    node = engine.graph.nodes[slope.node] if slope.node >= 0 else None
    simple = node is not None and node.op == "parameter" and slot != -1
    if not simple or len(engine.graph.users(slope.node)) != 1 or len(slope.charges) > 1:
        engine.signs.require_zero(charge.sign)
        return Form()
    wanted = {s for s in charge.sign.slots()} - ({slot} if slot is not None else set())
    sign = engine.signs.constant_along(charge.sign, frozenset(wanted), op.where)
    engine.inverted[node.target] = (slope, sign, slot)  # type: ignore[union-attr]
    return sign


@rule("aten.dropout.default", "aten.feature_dropout.default")
def dropout(op: Op) -> Result:
    """A fixed random mask: entries keep their places, scales and signs pass."""
    x = op[0]
    op.engine.flows.wall(x.flow)
    x = replace(x, flow=None, expression=None, bias=None)
    moving = [
        k for k, axis in enumerate(x.axes) if any(leaf.factor is not None for leaf in leaves(axis))
    ]
    for k in moving:
        op.engine.factors.lower_tree(x.axes[k], Kind.FIXED, f"{op.where} masks entries at random")
    return replace(x, node=op.node.index)
