"""Rearrangements: each is a view, permute, expand, slice, select, cat or index_select."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from paramsym.network.graph import Ref
from paramsym.network.tracing.forms.packed import narrowed
from paramsym.network.tracing.forms.registry import FORMS, Event, Form, Result, axis_of, form


@form(
    "view.default",
    "_unsafe_view.default",
    "reshape.default",
    "_reshape_copy.default",
    "_reshape_alias.default",
    "view_copy.default",
    "flatten.using_ints",
    "unflatten.int",
    "view_as.default",
    "reshape_as.default",
    "ravel.default",
)
def view(e: Event) -> Result:
    """`view(x, shape)`; memory order is of no concern, so this is a reshape."""
    shape = list(e.out.shape)
    return e.same() if e.shape() == tuple(shape) else e.emit("view.default", e.args[0], shape)


@form("squeeze.default", "squeeze.dim", "squeeze.dims")
def squeeze(e: Event) -> Result:
    """`squeeze(x, axes)` with the axes that vanish."""
    shape = e.shape()
    asked = e.args[1] if len(e.args) > 1 else list(range(len(shape)))
    asked = [asked] if isinstance(asked, int) else asked
    axes = sorted({axis_of(axis, len(shape)) for axis in asked if shape and shape[axis] == 1})
    return e.emit("squeeze.dims", e.args[0], axes) if axes else e.same()


@form("unsqueeze.default")
def unsqueeze(e: Event) -> Result:
    """`unsqueeze(x, axis)`."""
    return e.emit("unsqueeze.default", e.args[0], axis_of(e.args[1], e.out.dim()))


def _permutation(name: str) -> Form:
    packet, overload = name.split(".")
    permuting = getattr(getattr(torch.ops.aten, packet), overload)

    def permute(e: Event) -> Result:
        # The same operation on a tensor whose axis k has k entries names its permutation.
        labels = torch.empty(tuple(range(e.dims)), device="meta")
        axes = list(permuting(labels, *e.args[1:]).shape)
        return e.same() if axes == sorted(axes) else e.emit("permute.default", e.args[0], axes)

    return permute


for _name in (
    "permute.default",
    "transpose.int",
    "t.default",
    "numpy_T.default",
    "mT.default",
    "movedim.int",
    "movedim.intlist",
    "moveaxis.int",
    "moveaxis.intlist",
    "swapaxes.default",
    "swapdims.default",
):
    FORMS[f"aten.{_name}"] = _permutation(_name)


@form("expand.default", "expand_as.default", "broadcast_to.default")
def expand(e: Event) -> Result:
    """`expand(x, shape)`."""
    return spread(e, e.args[0])


def spread(e: Event, x: Ref) -> int:
    """`x` broadcast to the shape of the result."""
    shape = list(e.out.shape)
    return x.index if e.tape.shape(x) == tuple(shape) else e.emit("expand.default", x, shape)


@form("repeat.default", "tile.default")
def repeat(e: Event) -> Result:
    """Copies side by side: a new axis in front of each repeated one, spread, then merged."""
    times = [1] * (e.out.dim() - len(e.args[1])) + list(e.args[1])
    sizes = [1] * (e.out.dim() - e.dims) + list(e.shape())
    single: list[int] = []
    copies: list[int] = []
    for count, size in zip(times, sizes, strict=True):
        new_axis = count > 1 and size > 1
        single += [1, size] if new_axis else [size]
        copies += [count, size] if new_axis else [count * size]
    return _copies(e, single, copies)


@form("repeat_interleave.self_int")
def repeat_interleave(e: Event) -> Result:
    """Each entry several times: a new axis behind the repeated one, spread, then merged."""
    shape = list(e.shape()) if e.args[2] is not None else [math.prod(e.shape())]
    behind = axis_of(e.args[2] or 0, len(shape)) + 1
    head, tail = shape[:behind], shape[behind:]
    return _copies(e, [*head, 1, *tail], [*head, e.args[1], *tail])


def _copies(e: Event, single: list[int], copies: list[int]) -> int:
    x: Ref = e.args[0]
    for op, shape in (("view", single), ("expand", copies), ("view", list(e.out.shape))):
        if e.tape.shape(x) != tuple(shape):
            x = e.ref(f"{op}.default", x, shape, shape=shape)
    return x.index


def _slice(e: Event, axis: int, start: int, end: int, step: int = 1, part: int = 0) -> int:
    """`x[start:end:step]` along one axis, all four numbers explicit and non-negative."""
    if (start, end, step) == (0, e.shape()[axis], 1):
        return e.same()
    return e.emit("slice.Tensor", e.args[0], axis, start, end, step, part=part)


@form("slice.Tensor")
def slice_(e: Event) -> Result:
    """`slice(x, axis, start, end, step)`."""
    axis = axis_of(e.args[1], e.dims)
    start, end, step = slice(*e.args[2:]).indices(e.shape()[axis])
    return _slice(e, axis, start, max(start, end), step)


@form("narrow.default")
def narrow(e: Event) -> Result:
    """(x, axis, start, length)."""
    axis = axis_of(e.args[1], e.dims)
    start = axis_of(e.args[2], e.shape()[axis])
    return _slice(e, axis, start, start + e.args[3])


@form("select.int")
def select(e: Event) -> Result:
    """`select(x, axis, index)`, or a slice from before the axis was split off."""
    axis = axis_of(e.args[1], e.dims)
    return _select(e, axis, axis_of(e.args[2], e.shape()[axis]))


def _select(e: Event, axis: int, entry: int, part: int = 0) -> int:
    x: Ref = e.args[0]
    early = narrowed(e.tape, x, axis, entry)
    if early is None:
        return e.emit("select.int", x, axis, entry, part=part)
    node = e.emit("squeeze.dims", early, [axis], part=part)
    e.tape.sees(node, ("aten.select.int", (x, axis, entry)))
    return node


@form(
    "split.Tensor",
    "split.sizes",
    "split_with_sizes.default",
    "chunk.default",
    "unsafe_split.Tensor",
    "unsafe_split_with_sizes.default",
    "unsafe_chunk.default",
    "tensor_split.sections",
    "tensor_split.indices",
)
def split(e: Event) -> Result:
    """One slice per part."""
    axis = axis_of(e.args[2], e.dims)
    ends = list(itertools.accumulate(part.shape[axis] for part in e.out))
    bounds = enumerate(zip([0, *ends], ends, strict=False))
    return [_slice(e, axis, start, end, part=part) for part, (start, end) in bounds]


@form("unbind.int")
def unbind(e: Event) -> Result:
    """One selection per part."""
    axis = axis_of(e.args[1], e.dims)
    return [_select(e, axis, i, part=i) for i in range(len(e.out))]


@form("cat.default", "concat.default", "concatenate.default")
def cat(e: Event) -> Result:
    """`cat(parts, axis)`."""
    return _cat(e, e.args[0])


@form("stack.default")
def stack(e: Event) -> Result:
    """A concatenation along a new axis."""
    axis = axis_of(e.args[1], e.out.dim())
    shape = [1 if place == axis else n for place, n in enumerate(e.out.shape)]
    return _cat(e, [e.ref("unsqueeze.default", part, axis, shape=shape) for part in e.args[0]])


def _cat(e: Event, parts: Sequence[Ref]) -> int:
    # An empty one-dimensional tensor joins anything and adds nothing.
    kept = [part for part in parts if e.tape.shape(part) != (0,)] or list(parts[:1])
    axis = axis_of(e.args[1], e.out.dim())
    return kept[0].index if len(kept) == 1 else e.emit("cat.default", kept, axis)


@form("index.Tensor")
def index(e: Event) -> Result:
    """Picking entries of neighbouring axes by number is an `index_select` or an `embedding`."""
    picks = {axis: entry for axis, entry in enumerate(e.args[1]) if entry is not None}
    first, last = min(picks), max(picks)
    if len(picks) != last + 1 - first or not all(_is_number(e, pick) for pick in picks.values()):
        return e.plain()
    before, after = e.shape()[:first], e.shape()[last + 1 :]
    sizes = e.shape()[first : last + 1]
    places = _joined(e, list(picks.values()), sizes)
    table = e.args[0]
    if len(picks) > 1:
        merged = [*before, math.prod(sizes), *after]
        table = e.ref("view.default", table, merged, shape=merged)
    shape = e.tape.shape(places)
    if len(shape) == 1:
        return e.emit("index_select.default", table, first, places)
    if not before and len(after) == 1:
        return e.emit("embedding.default", table, places, -1, False, False)
    flat = Ref(e.tape.emit("aten.view.default", (places, [-1]), (math.prod(shape),), torch.int64))
    length = [*before, math.prod(shape), *after]
    picked = e.ref("index_select.default", table, first, flat, shape=length)
    return e.emit("view.default", picked, list(e.out.shape))


def _is_number(e: Event, pick: Ref) -> bool:
    return e.tape.dtype(pick) in (torch.int64, torch.int32)


def _joined(e: Event, picks: Sequence[Ref], sizes: Sequence[int]) -> Ref:
    """Numbers of entries along several axes as numbers along their product."""

    def whole(op: str, x: Ref, y: Ref | int) -> Ref:
        other = e.tape.shape(y) if isinstance(y, Ref) else ()
        shape = torch.broadcast_shapes(e.tape.shape(x), other)
        return Ref(e.tape.emit(f"aten.{op}", (x, y), shape, torch.int64))

    joined: Ref | None = None
    for pick, size in zip(picks, sizes, strict=True):
        counted = whole("remainder.Scalar", pick, size)  # -1 is the last entry
        if joined is not None:
            counted = whole("add.Tensor", whole("mul.Tensor", joined, size), counted)
        joined = counted
    assert joined is not None, "an index without numbers"
    return joined


@form("index_select.default")
def index_select(e: Event) -> Result:
    """`index_select(x, axis, which)`."""
    return e.emit("index_select.default", e.args[0], axis_of(e.args[1], e.dims), e.args[2])


@form("flip.default")
def flip(e: Event) -> Result:
    """Each axis read backwards."""
    orders = {axis_of(axis, e.dims): torch.arange(e.shape()[axis]).flip(0) for axis in e.args[1]}
    return _reorder(e, orders)


@form("roll.default")
def roll(e: Event) -> Result:
    """Each axis read from another start; without axes all entries move as one list."""
    if not e.args[2]:
        return e.plain()
    moves = zip(e.args[2], e.args[1], strict=True)
    orders = {axis_of(axis, e.dims): torch.arange(e.shape()[axis]).roll(by) for axis, by in moves}
    return _reorder(e, orders)


def _reorder(e: Event, orders: dict[int, Tensor]) -> int:
    x: Ref = e.args[0]
    for axis, order in orders.items():
        x = e.ref("index_select.default", x, axis, Ref(e.tape.constant(order)))
    return x.index
