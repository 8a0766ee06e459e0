"""Activations with parameters or randomness of their own."""

from __future__ import annotations

from dataclasses import replace

from paramsym.network.axes import Kind, leaves
from paramsym.network.rules import rule
from paramsym.network.rules.elementwise import blocks
from paramsym.network.rules.layout import view
from paramsym.network.solve import Op, Result, Slope
from paramsym.network.values import NEUTRAL, Charge, Value


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
        shaped = engine.broadcast(shaped, len(x.axes))
        matched = engine.matched(x, shaped, [(channel, channel)])
        x, pairs = (x, []) if matched is None else (matched[0], matched[2])
        for a, b in (pair for block in blocks(pairs) for pair in block):
            engine.factors.share(a, b, f"{op.where} has a slope per channel")
    slot = _slot_of_slopes(x, slope, channel)
    flipped = _flipped(op, x, slope, slot)
    charges = {cell: charge.plus(flipped) for cell, charge in x.charges.items()}
    for charge in slope.charges.values():
        engine.scales.require_zero(charge.scale)
        engine.signs.require_zero(charge.sign)
    return Value(x.axes, charges, node=op.node.index)


def _slot_of_slopes(x: Value, slope: Value, channel: int) -> int | None:
    """The slot of ``x`` that indexes the slopes, if there is one; -1 if there are several."""
    if slope.shape[0] == 1:
        return None
    found = [leaf.slot for leaf in leaves(x.axes[channel])]
    return found[0] if len(found) == 1 else -1


def _flipped(op: Op, x: Value, slope: Value, slot: int | None) -> Charge:
    """What flips of the input add to every charge; none where readers of a slope would disagree."""
    engine = op.engine
    signs = [charge.sign for charge in x.charges.values()]
    if not any(signs):
        return NEUTRAL
    node = engine.graph.nodes[slope.node] if slope.node >= 0 else None
    simple = node is not None and node.op == "parameter" and slot != -1
    shared = len(engine.graph.users(slope.node)) != 1 or len(slope.charges) > 1
    if node is None or not simple or shared:
        for sign in signs:
            engine.signs.require_zero(sign)
        return NEUTRAL
    own = frozenset() if slot is None else frozenset({slot})
    signs = [engine.signs.constant_along(s, s.slots() - own, op.where) for s in signs]
    for other in signs[1:]:
        engine.signs.require_zero(other.plus(signs[0]))
    sign = engine.signs.reduce(signs[0])

    def release() -> None:
        engine.signs.require_zero(sign)

    log = engine.scales.bind(own, node.target, release)
    negative = engine.signs.bind(own, node.target, release)
    engine.slopes[node.target] = Slope(sign, slot, log, negative)
    return Charge(log, negative)


@rule("aten.dropout.default", "aten.feature_dropout.default")
def dropout(op: Op) -> Result:
    """A fixed random mask: entries keep their places, scales and signs pass."""
    x: Value = op[0]
    op.engine.flows.wall(x.flow)
    x = replace(x, flow=None, expression=None)
    moving = [
        k for k, axis in enumerate(x.axes) if any(leaf.factor is not None for leaf in leaves(axis))
    ]
    for k in moving:
        op.engine.factors.lower_tree(x.axes[k], Kind.FIXED, f"{op.where} masks entries at random")
    return replace(x, node=op.node.index)
