"""How tangent vectors spread over the parameters of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

# Parameters listed in a printed record.
LISTED = 8


def parameter_shares(basis: Tensor, shapes: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """‖columns of a parameter‖² over ‖basis‖² for each parameter; empty for an empty basis.

    >>> parameter_shares(torch.eye(3)[:2], {"weight": (2,), "bias": (1,)})
    {'weight': 1.0, 'bias': 0.0}
    """
    total = float((basis**2).sum())
    if not total:
        return {}
    sizes = [math.prod(shape) for shape in shapes.values()]
    parts = torch.split(basis, sizes, dim=1)
    return {name: float((part**2).sum()) / total for name, part in zip(shapes, parts, strict=True)}


def shares_table(shares: Mapping[str, float]) -> Iterator[str]:
    """The largest shares, one line each."""
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    shown = [(name, share) for name, share in ranked if share >= 5e-4][:LISTED]
    width = max((len(name) for name, _ in shown), default=0)
    for name, share in shown:
        yield f"  {name:<{width}}  {share:6.1%}"
    if len(ranked) > len(shown):
        rest = sum(share for _, share in ranked[len(shown) :])
        yield f"  {f'{len(ranked) - len(shown)} more':<{width}}  {rest:6.1%}"
