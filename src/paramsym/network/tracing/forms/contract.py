"""Sums of products: each is a linear, matmul, einsum or convolution."""

from __future__ import annotations

from typing import Any

import torch

from paramsym.network.graph import Ref
from paramsym.network.tracing.forms.arithmetic import scaled
from paramsym.network.tracing.forms.registry import FORMS, Event, Form, Result, form


@form("mm.default", "bmm.default", "mv.default", "dot.default", "vdot.default", "matmul.default")
def matmul(e: Event) -> Result:
    """`matmul(x, y)` with its broadcasting."""
    return e.emit("matmul.default", *e.args[:2])


@form("addmm.default", "baddbmm.default", "addmv.default")
def addmm(e: Event) -> Result:
    """`beta bias + alpha left @ right`."""
    product = e.ref("matmul.default", *e.args[1:3])
    bias = scaled(e, e.args[0], e.keywords.get("beta", 1))
    return e.emit("add.Tensor", scaled(e, product, e.keywords.get("alpha", 1)), bias)


@form("bilinear.default")
def bilinear(e: Event) -> Result:
    """`y_o = sum_ij x_i W_oij z_j + b_o`."""
    x, z, weight, bias = e.args
    batch = "abcdefgh"[: e.out.dim() - 1]
    product = e.ref("einsum.default", f"{batch}i,oij,{batch}j->{batch}o", [x, weight, z])
    return product.index if bias is None else e.emit("add.Tensor", product, bias)


@form("_grouped_mm.default")
def grouped_mm(e: Event) -> Result:
    """Each row of x times the matrix of its group: `offsets` says where each group ends."""
    x, matrices, offsets, *rest = e.args
    if e.dims != 2 or len(e.shape(1)) != 3 or offsets is None or any(r is not None for r in rest):
        return e.plain()
    rows, (groups, before, after) = e.shape()[0], e.shape(1)

    def numbers(op: str, *args: Any, **kwargs: Any) -> Ref:
        return Ref(e.tape.emit(f"aten.{op}", args, (rows,), torch.int64, kwargs))

    place = Ref(e.tape.constant(torch.arange(rows, dtype=e.tape.dtype(offsets))))
    group = numbers("searchsorted.Tensor", offsets, place, right=True)
    group = numbers("clamp.default", group, None, groups - 1)
    own = e.ref("index_select.default", matrices, 0, group, shape=(rows, before, after))
    row = e.ref("unsqueeze.default", x, 1, shape=(rows, 1, before))
    product = e.ref("matmul.default", row, own, shape=(rows, 1, after))
    return e.emit("squeeze.dims", product, [1])


# What transformers calls where the above is not available.
FORMS["transformers.grouped_mm_fallback.default"] = grouped_mm


def _convolution(n: int, transposed: bool) -> Form:
    def convolution(e: Event) -> Result:
        """(x, weight, bias, stride, padding, dilation, transposed, out padding, groups)."""
        if transposed:
            x, weight, bias, stride, padding, extra, groups, dilation = e.args
        else:
            x, weight, bias, stride, padding, dilation, groups = e.args
            extra = 0
        if e.out.dim() == n + 1:
            x = e.ref("unsqueeze.default", x, 0, shape=(1, *e.shape()))
        if isinstance(padding, str):
            x, padding = _padded(e, padding, x, weight, _sizes(dilation, n))
        sizes = [_sizes(size, n) for size in (stride, padding, dilation)]
        args = (x, weight, bias, *sizes, transposed, _sizes(extra, n), groups)
        if e.out.dim() == n + 2:
            return e.emit("convolution.default", *args)
        batch_of_one = e.ref("convolution.default", *args, shape=(1, *e.out.shape))
        return e.emit("squeeze.dims", batch_of_one, [0])

    return convolution


for _n in (1, 2, 3):
    FORMS[f"aten.conv{_n}d.default"] = _convolution(_n, False)
    FORMS[f"aten.conv{_n}d.padding"] = _convolution(_n, False)
    FORMS[f"aten.conv_transpose{_n}d.{'default' if _n == 1 else 'input'}"] = _convolution(_n, True)


@form("convolution.default", "_convolution.default", "convolution_overrideable.default")
def convolution(e: Event) -> Result:
    """The general convolution, without arguments about how it is computed."""
    return e.emit("convolution.default", *e.args[:9])


def _padded(
    e: Event, kind: str, x: Ref, weight: Ref, dilation: list[int]
) -> tuple[Ref, int | list[int]]:
    """Padding as numbers; what "same" adds on one side only is padded beforehand."""
    if kind == "valid":
        return x, 0
    kernel = e.tape.shape(weight)[2:]
    total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    if not any(amount % 2 for amount in total):
        return x, [amount // 2 for amount in total]
    shape = e.tape.shape(x)
    padded = [*shape[:2], *(n + more for n, more in zip(shape[2:], total, strict=True))]
    sides = [side for amount in reversed(total) for side in (amount // 2, amount - amount // 2)]
    return e.ref("pad.default", x, sides, "constant", None, shape=padded), 0


def _sizes(size: Any, n: int) -> list[int]:
    sizes = [size] if isinstance(size, int) else list(size)
    return sizes * n if len(sizes) == 1 else sizes
