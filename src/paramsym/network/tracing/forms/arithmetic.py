"""Arithmetic: weighted sums become plain sums and products, scalars stay python numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from paramsym.network.graph import Ref
from paramsym.network.tracing.forms.layout import spread
from paramsym.network.tracing.forms.registry import Event, Result, axis_of, form


@form("add.Tensor", "add.Scalar")
def add(e: Event) -> Result:
    """`x + alpha y`; adding zeros is none."""
    x, y = e.args[:2]
    for zeros, other in ((x, y), (y, x)):
        whole = isinstance(other, Ref) and e.tape.dtype(other) == e.out.dtype
        if whole and _is_zero(e, zeros) and (other is x or _alpha(e) == 1):
            return spread(e, other)
    return e.emit("add.Tensor", x, scaled(e, y, _alpha(e)))


@form("sub.Tensor", "sub.Scalar", "subtract.Tensor", "subtract.Scalar")
def sub(e: Event) -> Result:
    """`x - alpha y`."""
    return e.emit("sub.Tensor", e.args[0], scaled(e, e.args[1], _alpha(e)))


@form("rsub.Tensor", "rsub.Scalar")
def rsub(e: Event) -> Result:
    """`y - alpha x`."""
    minus = e.ref("neg.default", scaled(e, e.args[0], _alpha(e)), shape=e.shape())
    return e.emit("add.Tensor", minus, e.args[1])


@form("mul.Tensor", "mul.Scalar", "multiply.Tensor", "multiply.Scalar")
def mul(e: Event) -> Result:
    """`x y`; the product with zeros is zero, since numbers are finite."""
    if any(_is_zero(e, factor) for factor in e.args):
        zero = torch.zeros((), dtype=e.out.dtype)
        return e.tape.constant(zero.expand(tuple(int(n) for n in e.out.shape)))
    return e.emit("mul.Tensor", *e.args)


@form("div.Tensor", "div.Scalar", "divide.Tensor", "divide.Scalar")
@form("true_divide.Tensor", "true_divide.Scalar")
def div(e: Event) -> Result:
    """`x / y`."""
    return e.emit("div.Tensor", *e.args)


@form("neg.default", "negative.default")
def neg(e: Event) -> Result:
    """`-x`."""
    return e.emit("neg.default", *e.args)


@form("abs.default", "absolute.default")
def abs_(e: Event) -> Result:
    """`|x|`."""
    return e.emit("abs.default", *e.args)


@form("square.default")
def square(e: Event) -> Result:
    """`x²`."""
    return e.emit("pow.Tensor_Scalar", e.args[0], 2)


@form("addcmul.default")
def addcmul(e: Event) -> Result:
    """`x + value y z`."""
    return _add_term(e, "mul.Tensor")


@form("addcdiv.default")
def addcdiv(e: Event) -> Result:
    """`x + value y / z`."""
    return _add_term(e, "div.Tensor")


def _add_term(e: Event, op: str) -> int:
    shape = torch.broadcast_shapes(e.shape(1), e.shape(2))
    term = e.ref(op, e.args[1], e.args[2], shape=shape)
    return e.emit("add.Tensor", e.args[0], scaled(e, term, e.keywords.get("value", 1)))


@form("lerp.Tensor", "lerp.Scalar")
def lerp(e: Event) -> Result:
    """`x + weight (y - x)`."""
    shape = torch.broadcast_shapes(e.shape(0), e.shape(1))
    difference = e.ref("sub.Tensor", e.args[1], e.args[0], shape=shape)
    return e.emit("add.Tensor", e.args[0], e.ref("mul.Tensor", difference, e.args[2]))


@form("relu6.default")
def relu6(e: Event) -> Result:
    """`min(max(x, 0), 6)`."""
    return e.emit("hardtanh.default", e.args[0], 0.0, 6.0)


@form("_prelu_kernel.default", "prelu.default")
def prelu(e: Event) -> Result:
    """`prelu(x, slope)`."""
    return e.emit("prelu.default", *e.args)


@form("glu.default")
def glu(e: Event) -> Result:
    """The first half of an axis times the sigmoid of the second."""
    x, axis = e.args[0], axis_of(e.args[1], e.dims)
    size, shape = e.shape()[axis] // 2, e.out.shape
    up = e.ref("slice.Tensor", x, axis, 0, size, 1, shape=shape)
    gate = e.ref("slice.Tensor", x, axis, size, 2 * size, 1, shape=shape)
    return e.emit("mul.Tensor", up, e.ref("sigmoid.default", gate, shape=shape))


@form("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(e: Event) -> Result:
    """`where(condition, x, y)`, scalars as constants; a mask of minus infinity is a sum."""
    return _chosen(e, e.args[0], _tensor(e, e.args[1]), _tensor(e, e.args[2]))


@form("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(e: Event) -> Result:
    """`where(mask, value, x)`."""
    return _chosen(e, e.args[1], _tensor(e, e.args[2]), e.args[0])


def _chosen(e: Event, condition: Ref, x: Ref, y: Ref) -> int:
    """`x + where(condition, 0, lowest)` says the same as `where(condition, x, lowest)`."""
    known = _constant(e, condition)
    if known is not None and bool(known.all() or not known.any()):
        return spread(e, x if bool(known.all()) else y)
    zero = Ref(e.tape.constant(torch.zeros((), dtype=e.out.dtype)))
    shape = e.tape.shape(condition)
    if _is_lowest(e, y):
        return e.emit("add.Tensor", x, e.ref("where.self", condition, zero, y, shape=shape))
    if _is_lowest(e, x):
        return e.emit("add.Tensor", y, e.ref("where.self", condition, x, zero, shape=shape))
    return e.emit("where.self", condition, x, y)


def _is_lowest(e: Event, x: Ref) -> bool:
    """A number so low that adding to it changes nothing."""
    value = _constant(e, x)
    if value is None or value.numel() != 1 or not value.is_floating_point():
        return False
    return float(value) <= torch.finfo(value.dtype).min


def _is_zero(e: Event, x: Any) -> bool:
    value = _constant(e, x) if isinstance(x, Ref) else None
    return value is not None and not bool(value.any())


def _constant(e: Event, x: Ref) -> Tensor | None:
    return e.tape.constants.get(x.index) if e.tape.nodes[x.index].op == "constant" else None


def scaled(e: Event, x: Any, factor: Any) -> Any:
    """`factor x`, or x itself for the factor one."""
    if factor == 1:
        return x
    return (
        e.ref("mul.Tensor", x, factor, shape=e.tape.shape(x)) if isinstance(x, Ref) else x * factor
    )


def _alpha(e: Event) -> Any:
    return e.args[2] if len(e.args) > 2 else e.keywords.get("alpha", 1)


def _tensor(e: Event, x: Any) -> Ref:
    return x if isinstance(x, Ref) else Ref(e.tape.constant(torch.tensor(x, dtype=e.out.dtype)))
