"""Weights that read what adds up to nothing, and may move along it."""

from __future__ import annotations

import math
from dataclasses import replace

from paramsym.network.axes import ordered
from paramsym.network.solve import Op
from paramsym.network.sums import Total
from paramsym.network.values import Value


def with_reading(op: Op, y: Value, weight: Value, axis: int) -> Value:
    """The product with what a move of the weight along the inverse gains adds to it.

    Against ``x`` with ``sum_i x_i / gamma_i = sum_i beta_i / gamma_i`` the move ``u / gamma`` adds
    ``u`` times that sum: nothing, or a constant that a bias takes back. ``axis`` is the one of the
    weight that is summed over; what a kernel has further back are offsets, summed over as well.
    """
    engine, total = op.engine, op.engine.sums.of(op.node.args[0])
    if total is None or weight.expression is None:
        return y
    name = engine.flows.tensor_of(weight.expression)
    reading = next((r for r in engine.readings.get(name, ()) if r.frame == total.frame), None)
    if reading is None:
        return y
    moved = engine.flows.replayed(weight.expression, engine.reading_source(reading))
    return _with_rows(op, y, _per_row(op, moved, axis, total)) if total.offsets else y


def _per_row(op: Op, moved: int, axis: int, total: Total) -> int:
    """A move that is the same along an axis, times the total: a number for each output."""
    flows, shape = op.engine.flows, op.engine.flows.steps[moved].shape
    rows = frozenset({1 - axis})
    one = tuple(1 if k == axis else n for k, n in enumerate(shape))
    support = rows | frozenset(range(2, len(shape)))
    step = flows.add("narrow", (moved,), one, support, axis=axis, places=[0])
    offsets = list(range(2, len(shape)))
    if offsets:
        attrs = {"axes": offsets, "keepdim": False, "factor": float(math.prod(shape[2:]))}
        step = flows.add("reduce", (step,), one[:2], rows, **attrs)
    step = flows.add("view", (step,), (one[1 - axis],), frozenset({0}), groups=[([0, 1], [0])])
    frame = [[gain.name, gain.eps, power] for gain, power in ordered(total.frame)]
    attrs = {"offsets": list(total.offsets), "frame": frame}
    return flows.add("times", (step,), (one[1 - axis],), frozenset({0}), **attrs)


def _with_rows(op: Op, y: Value, step: int) -> Value:
    """The value with a shift of its outputs: along the last axis, or the channels of an image."""
    flows, image = op.engine.flows, op.name == "convolution"
    axis = 1 if image else len(y.axes) - 1
    if image:
        shape = (y.shape[1], *(1 for _ in y.axes[2:]))
        groups = [([0], list(range(len(shape))))]
        step = flows.add("view", (step,), shape, frozenset({0}), groups=groups)
    inputs = (step,) if y.flow is None else (y.flow, step)
    support = frozenset({axis}) | (flows.steps[y.flow].support if y.flow is not None else set())
    flow = flows.add("sum", inputs, y.shape, support, factors=[1.0] * len(inputs))
    return replace(y, flow=flow)
