"""Functions of torch said in other words: in every precision, with all of their derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

__all__ = ["Substitutes"]


class Substitutes(TorchFunctionMode):
    """Within this context the functions below compute the same numbers by other means.

    An embedding keeps the gradient of its padding row, which torch withholds from optimisers; a
    product of groups of rows with one matrix each works in float64 too.

    >>> x, w = torch.ones(3, 2, dtype=torch.float64), torch.ones(2, 2, 1, dtype=torch.float64)
    >>> with Substitutes():
    ...     F.grouped_mm(x, w, offs=torch.tensor([1, 3], dtype=torch.int32)).shape
    torch.Size([3, 1])
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        substitute = SUBSTITUTES.get(func)
        result = NotImplemented if substitute is None else substitute(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if result is NotImplemented else result


def embedding(
    ids: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    *_: Any,
    **__: Any,
) -> Any:
    """The rows that `ids` name. A table that is shortened while it is read stays torch's."""
    if max_norm is not None or (padding_idx is None and not __):
        return NotImplemented
    return F.embedding(ids, weight)


def grouped_product(
    x: Tensor,
    weight: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Rows up to `offs[0]` times the first matrix, from there to `offs[1]` times the second, …"""
    if x.dim() != 2 or weight.dim() != 3 or offs is None or bias is not None:
        return NotImplemented
    rows = torch.arange(len(x), device=x.device, dtype=offs.dtype)
    group = torch.searchsorted(offs, rows, right=True).clamp_max(len(weight) - 1)
    return torch.bmm(x.unsqueeze(1), weight.index_select(0, group)).squeeze(1)


SUBSTITUTES: dict[Any, Callable[..., Any]] = {F.embedding: embedding}
if hasattr(torch, "_grouped_mm"):  # since torch 2.8
    SUBSTITUTES[torch._grouped_mm] = grouped_product
