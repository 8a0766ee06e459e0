"""Normalisations and softmax."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from paramsym.network.axes import Kind, leaves
from paramsym.network.charges import ZERO
from paramsym.network.rules import rule
from paramsym.network.rules.contract import combine
from paramsym.network.rules.elementwise import add, centred, product_of
from paramsym.network.rules.layout import view
from paramsym.network.rules.reduce import squared_norm
from paramsym.network.solve import Op, Result
from paramsym.network.values import NEUTRAL, Charge, Value


def per_channel(op: Op, vector: Value, like: Value) -> Value:
    """A vector over channels, shaped to act on axis 1."""
    return view(op, vector, (vector.shape[0], *(1 for _ in like.axes[2:])))


def affine(op: Op, x: Value, weight: Value | None, bias: Value | None) -> Value:
    """``weight * x + bias`` with the parameters of a normalisation."""
    if weight is not None:
        x = product_of(op, x, weight)
    return x if bias is None else add(op, x, bias)


@rule("aten.batch_norm.default")
def batch_norm(op: Op) -> Result:
    """In train mode statistics of the batch, in eval mode a diagonal affine map of the buffers."""
    x, weight, bias, mean, variance, training, _, eps = op.args[:8]
    weight = None if weight is None else per_channel(op, weight, x)
    bias = None if bias is None else per_channel(op, bias, x)
    if training or mean is None:
        return affine(op, standardised(op, x, mean, variance, eps), weight, bias)
    x = add(op, x, per_channel(op, mean, x), -1.0)
    return affine(op, _over_deviation(op, x, variance, eps), weight, bias)


def standardised(op: Op, x: Value, mean: Value | None, variance: Value | None, eps: float) -> Value:
    """``(x - mean) / sqrt(var + eps)`` over the batch: shifts of a channel vanish, signs pass.

    Scales pass only where eps is 0.
    """
    engine = op.engine
    engine.entrywise(x, f"{op.where} divides every channel by its deviation")
    for k in (0, *range(2, len(x.axes))):
        engine.factors.lower_tree(x.axes[k], Kind.PERMUTATION, f"{op.where} averages over it")
    engine.made([x.axes[1]])
    flow = x.flow
    if flow is not None and not engine.flows.steps[flow].support <= {1}:
        engine.flows.wall(flow)
        flow = None
    for buffer in (mean, variance):
        if buffer is not None and buffer.node >= 0:
            engine.track(engine.graph.nodes[buffer.node].target, x, flow, buffer is variance)
    charges = {}
    for cell, charge in x.charges.items():
        if eps > 0:
            engine.unscaled(charge)
        other = [leaf for k, axis in enumerate(x.axes) if k != 1 for leaf in leaves(axis)]
        charges[cell] = Charge(ZERO, engine.along(charge, other, op.where).sign)
    return Value(x.axes, charges, node=op.node.index)


def _over_deviation(op: Op, x: Value, variance: Value, eps: float) -> Value:
    """``x / sqrt(variance + eps)``: a gain that does not move."""
    variance = op.engine.broadcast(per_channel(op, variance, x), len(x.axes))
    return combine(op, x, variance, [(k, k) for k in range(len(x.axes))], power=-1, eps=eps)


@rule("aten.layer_norm.default")
def layer_norm(op: Op) -> Result:
    """``weight * (x - mean) / sqrt(var + eps) + bias`` over the last axes."""
    x, shape, weight, bias, eps = op.args[:5]
    axes = list(range(len(x.axes) - len(shape), len(x.axes)))
    return affine(op, unit(op, centred(op, x, axes), axes, eps), weight, bias)


@rule("aten.rms_norm.default")
def rms_norm(op: Op) -> Result:
    """``weight * x / sqrt(mean square + eps)`` over the last axes."""
    x, shape, weight, eps = op.args[:4]
    axes = list(range(len(x.axes) - len(shape), len(x.axes)))
    return affine(op, unit(op, x, axes, 1.0 if eps is None else eps), weight, None)


def unit(op: Op, x: Value, axes: list[int], eps: float) -> Value:
    """``x / sqrt(mean square + eps)`` over some axes: rotations, and scales where eps is 0."""
    square = squared_norm(op, x, axes, keepdim=True)
    op.engine.made(square.axes)
    for charge in square.charges.values():
        if eps > 0:
            op.engine.unscaled(charge)
    inverse = {
        cell: Charge(charge.scale.times(Fraction(-1, 2))) for cell, charge in square.charges.items()
    }
    root = replace(square, charges=inverse, node=-1)
    still = replace(x, flow=None, expression=None)
    return product_of(op, still, root)


@rule("aten.group_norm.default")
def group_norm(op: Op) -> Result:
    """Each group of channels is normalised: groups permute as blocks, channels inside them."""
    x, groups, weight, bias, eps = op.args[:5]
    n, channels, *pixels = x.shape
    inner = view(op, x, (n, groups, channels // groups, *pixels))
    axes = list(range(2, len(inner.axes)))
    y = unit(op, centred(op, inner, axes), axes, eps)
    y = view(op, y, x.shape)
    weight = None if weight is None else per_channel(op, weight, x)
    return affine(op, y, weight, None if bias is None else per_channel(op, bias, x))


@rule("aten.instance_norm.default")
def instance_norm(op: Op) -> Result:
    """Each channel of each sample is normalised."""
    x, weight, bias, use_input_stats, eps = op[0], op[1], op[2], op[5], op[7]
    if not use_input_stats:
        return None
    axes = list(range(2, len(x.axes)))
    y = unit(op, centred(op, x, axes), axes, eps)
    weight = None if weight is None else per_channel(op, weight, x)
    return affine(op, y, weight, None if bias is None else per_channel(op, bias, x))


@rule("aten.softmax.int", "aten.log_softmax.int")
def softmax(op: Op) -> Result:
    """Permutations pass, and nothing else."""
    x = op[0]
    engine = op.engine
    engine.entrywise(x, f"{op.where} is not linear")
    engine.made(axis for k, axis in enumerate(x.axes) if k != op[1] % len(x.axes))
    engine.still(x)
    return Value(x.axes, dict.fromkeys(x.charges, NEUTRAL), node=op.node.index)
