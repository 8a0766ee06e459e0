"""Elements of groups as tensors: batches, homogeneous matrices, comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Element: TypeAlias = Any
"""A tensor or a nested tuple of tensors; leading dimensions are batch dimensions."""


def homogeneous(linear: Tensor, offset: Tensor) -> Tensor:
    """[[linear, offset], [0, 1]]."""
    offset = offset.unsqueeze(-1)
    top = torch.cat([linear.expand(*offset.shape[:-2], *linear.shape[-2:]), offset], -1)
    last = torch.zeros_like(top[..., :1, :])
    return torch.cat([top, torch.cat([last[..., :-1], last[..., -1:] + 1], -1)], -2)


def near(actual: Tensor, expected: Tensor, tol: float, event: int = 2) -> Tensor:
    """Whether all entries over the last `event` axes agree, relative to the largest or to 1."""
    axes = tuple(range(-event, 0))
    scale = expected.abs().amax(axes).clamp(min=1)
    return (actual - expected).abs().amax(axes) <= tol * scale


def over(template: Element, element: Element, change: Callable[[Tensor, int], Tensor]) -> Element:
    """Change every tensor of an element, told how many axes follow its batch axes.

    The template is the same element without batch axes.
    """
    if isinstance(template, tuple):
        return tuple(over(t, e, change) for t, e in zip(template, element, strict=True))
    return change(element, template.ndim)
