"""Groups of matrices with one entry per row and column: which values, and permuted or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from paramsym.groups.base import Group, positive
from paramsym.groups.text import subscript, superscript

_VALUES = {(True, False): "{±1}", (False, True): "R₊", (True, True): "(R∖0)"}


@dataclass(frozen=True)
class SparseGroup(Group):
    """Monomial matrices of one kind; the three flags say which."""

    n: int
    signs: ClassVar[bool]
    scales: ClassVar[bool]
    permuted: ClassVar[bool]

    def __post_init__(self) -> None:
        positive(self, n=self.n)

    @property
    def dim(self) -> int:
        return self.n if self.scales else 0

    @property
    def order(self) -> int:
        signs = 2**self.n if self.signs else 1
        return signs * math.factorial(self.n) if self.permuted else signs

    @property
    def log10_order(self) -> float:
        signs = self.n * math.log10(2) if self.signs else 0.0
        return signs + (math.lgamma(self.n + 1) / math.log(10) if self.permuted else 0.0)

    @property
    def flips(self) -> bool:
        return self.signs or (self.permuted and self.n > 1)

    @property
    def traces(self) -> Tensor:
        return torch.ones(self.dim, dtype=torch.float64)

    def hat(self, coefficients: Tensor) -> Tensor:
        if self.scales:
            return torch.diag_embed(coefficients)
        return coefficients.new_zeros(*coefficients.shape[:-1], self.n, self.n)

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        largest = matrix.abs().amax(-1, keepdim=True)  # of each row: scales may differ widely
        support = matrix.abs() > tol * largest
        inside = (support.sum(-1) == 1).all(-1) & (support.sum(-2) == 1).all(-1)
        if not self.permuted:
            inside &= support.diagonal(dim1=-2, dim2=-1).all(-1)
        if not self.signs:
            inside &= (matrix >= -tol * largest).all(-1).all(-1)
        if not self.scales:
            inside &= ((matrix.abs() - support.to(matrix)).abs() <= tol).all(-1).all(-1)
        return inside

    def __str__(self) -> str:
        parts = []
        if (self.signs, self.scales) in _VALUES:
            parts.append(_VALUES[self.signs, self.scales] + superscript(self.n))
        if self.permuted:
            parts.append(f"S{subscript(self.n)}")
        return " ⋊ ".join(parts) or "1"


def random_signs(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Independent uniform ±1."""
    bits = torch.randint(2, shape, generator=generator, device=generator.device)
    return (2 * bits - 1).to(dtype)
