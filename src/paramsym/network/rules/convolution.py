"""Convolutions: a contraction of channels at every offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paramsym.network.rules import rule
from paramsym.network.rules.contract import combine
from paramsym.network.rules.elementwise import add
from paramsym.network.rules.layout import held, permute, view
from paramsym.network.rules.reading import with_reading
from paramsym.network.rules.reduce import summed
from paramsym.network.solve import Op, Result
from paramsym.network.values import Value, rekeyed


@rule("aten.convolution.default")
def convolution(op: Op) -> Result:
    """Each output channel sums the inputs of its group; offsets and pixels keep their places."""
    x, weight, bias = op[0], op[1], op[2]
    padding, transposed, groups = op[4], op[6], op[8]
    space = list(range(2, len(x.axes)))
    spread = transposed and (any(k != 1 for k in weight.shape[2:]) or any(s != 1 for s in op[3]))
    if not _shift_passes(op, x, space, spread=spread or any(padding) or any(op[7] or ())):
        op.engine.flows.wall(x.flow)
        x = replace(x, flow=None)
    x = held(op, x, space, "moves a window over its pixels")
    kernel = _kernel(op, weight)
    out = op.node.shape or ()
    y = (
        _grouped(op, x, kernel, groups, transposed)
        if groups > 1
        else _plain(op, x, kernel, 0 if transposed else 1)
    )
    y = with_reading(op, _with_pixels(op, y, out), weight, 1)
    if bias is None:
        return y
    return add(op, y, view(op, bias, (bias.shape[0], *(1 for _ in space))))


def _shift_passes(op: Op, x: Value, space: Sequence[int], *, spread: bool) -> bool:
    """A constant image stays constant only where no zeros enter, at the border or in between."""
    if x.flow is None:
        return True
    return not op.engine.flows.steps[x.flow].support & set(space) and not spread


def _kernel(op: Op, weight: Value) -> Value:
    """The kernel summed over offsets: what a constant image sees, and all that may move."""
    offsets = list(range(2, len(weight.axes)))
    held_ = held(op, weight, offsets, "has a place for every offset")
    return summed(op, replace(held_, expression=weight.expression), offsets, keepdim=False)


def _plain(op: Op, x: Value, kernel: Value, channel: int) -> Value:
    """Contract the channels; the result has the axes (N, pixels, O)."""
    y = combine(op, x, kernel, contract=[(1, channel)])
    last = len(y.axes) - 1
    return permute(op, y, [0, last, *range(1, last)])


def _grouped(op: Op, x: Value, kernel: Value, groups: int, transposed: bool) -> Value:
    """Contract the channels of each group; groups may be permuted as blocks."""
    n, channels, *pixels = x.shape
    inside = channels // groups
    x = view(op, x, (n, groups, inside, *pixels))
    if transposed:
        kernel = view(op, kernel, (groups, inside, kernel.shape[1]))
        contracted = 1
    else:
        kernel = view(op, kernel, (groups, kernel.shape[0] // groups, kernel.shape[1]))
        contracted = 2
    y = combine(op, x, kernel, [(1, 0)], [(2, contracted)])
    last = len(y.axes) - 1
    y = permute(op, y, [1, 0, last, *range(2, last)])
    return view(op, y, (n, groups * y.shape[2], *pixels))


def _with_pixels(op: Op, y: Value, out: Sequence[int]) -> Value:
    """The result on its own pixels: they keep their places, however many there are."""
    fresh = op.engine.fixed(out).axes
    result = rekeyed(y, (*y.axes[:2], *fresh[2:]))
    flow = y.flow
    if flow is not None:
        support = op.engine.flows.steps[flow].support
        flow = op.engine.flows.add("broadcast", (flow,), tuple(out), support)
    return replace(result, node=op.node.index, flow=flow, expression=None)
