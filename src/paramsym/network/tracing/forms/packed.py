"""Parts of a packed tensor: taken out before the axis they lie along was split off.

`x.view(n, 3, d)[:, i]` and `x[:, i d : (i + 1) d]` are the same numbers. The second says which part
of `x` is read without an axis that counts the parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paramsym.network.graph import Node, Ref
from paramsym.network.tracing.tape import Tape

__all__ = ["narrowed"]


def narrowed(tape: Tape, x: Ref, axis: int, entry: int) -> Ref | None:
    """`x` with only one entry along an axis, which stays as an axis of size one.

    None where the axis is no leading part of one that was split.
    """
    node = tape.nodes[x.index]
    if node.op == "aten.view.default":
        return _split(tape, node.args[0], tape.shape(x), axis, entry)
    inner = _axis_before(tape, node, axis)
    part = None if inner is None else narrowed(tape, node.args[0], inner, entry)
    return None if part is None else _again(tape, x, part, axis)


def _split(tape: Tape, x: Ref, after: Sequence[int], axis: int, entry: int) -> Ref | None:
    """The slice of the axis that a view has split, seen in the same way."""
    before, count, leading = tape.shape(x), after[axis], math.prod(after[:axis])
    for place, size in enumerate(before):
        if math.prod(before[:place]) == leading and size % count == 0 and size > count > 1:
            length = size // count
            shape = [length if k == place else n for k, n in enumerate(before)]
            args = (x, place, entry * length, (entry + 1) * length, 1)
            part = Ref(tape.emit("aten.slice.Tensor", args, shape, tape.dtype(x)))
            seen = [1 if k == axis else n for k, n in enumerate(after)]
            return Ref(tape.emit("aten.view.default", (part, seen), seen, tape.dtype(x)))
    return None


def _axis_before(tape: Tape, node: Node, axis: int) -> int | None:
    """Which axis of the argument became `axis` of the result."""
    if node.op == "aten.permute.default":
        return int(node.args[1][axis])
    if node.op == "aten.unsqueeze.default":
        new = int(node.args[1])
        return None if axis == new else axis - (axis > new)
    if node.op == "aten.squeeze.dims":
        dims = len(tape.shape(node.args[0]))
        return [k for k in range(dims) if k not in node.args[1]][axis]
    return None


def _again(tape: Tape, x: Ref, part: Ref, axis: int) -> Ref:
    """The operation that made `x`, on a part of what it was made of."""
    node = tape.nodes[x.index]
    shape = [1 if k == axis else n for k, n in enumerate(tape.shape(x))]
    return Ref(tape.emit(node.op, (part, *node.args[1:]), shape, node.dtype))
