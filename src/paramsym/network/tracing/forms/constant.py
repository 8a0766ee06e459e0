"""Tensors whose values are known while tracing, and what in-place fills and copies leave behind."""

from __future__ import annotations

from typing import Any

import torch

from paramsym.network.graph import Ref
from paramsym.network.tracing.forms.layout import spread
from paramsym.network.tracing.forms.registry import Event, Result, form


def _filled(e: Event, value: Any) -> int:
    # One stored number, seen everywhere: a large constant costs nothing.
    number = torch.full((), value, dtype=e.out.dtype)
    return e.tape.constant(number.expand(tuple(int(n) for n in e.out.shape)))


@form("zero.default", "zeros.default", "zeros_like.default", "new_zeros.default")
@form("empty.memory_format", "empty_like.default", "empty_permuted.default")
@form("empty_strided.default", "new_empty.default", "new_empty_strided.default")
def zeros(e: Event) -> Result:
    """Uninitialised memory counts as zero: a model that reads it is not a function."""
    return _filled(e, 0)


@form("ones.default", "ones_like.default", "new_ones.default")
def ones(e: Event) -> Result:
    """All one."""
    return _filled(e, 1)


@form("full.default", "full_like.default", "fill.Scalar")
def full(e: Event) -> Result:
    """(shape or tensor, value)."""
    return _filled(e, e.args[1])


@form("new_full.default")
def new_full(e: Event) -> Result:
    """(tensor, shape, value)."""
    return _filled(e, e.args[2])


@form("fill.Tensor")
def fill_tensor(e: Event) -> Result:
    """One number, given as a tensor, everywhere."""
    return spread(e, e.args[1])


@form("copy.default")
def copy(e: Event) -> Result:
    """The source spread over the destination; rounding is left out as in every cast."""
    source: Ref = e.args[1]
    before, after = e.tape.dtype(source), e.out.dtype
    if before != after and not (before and before.is_floating_point and after.is_floating_point):
        shape, kind = e.tape.shape(source), {"dtype": after}
        source = Ref(e.tape.emit("aten._to_copy.default", (source,), shape, after, kind))
    return spread(e, source)
