"""GL(n), and SL(n) inside it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paramsym.groups.base import positive
from paramsym.groups.matrix import MatrixGroup
from paramsym.groups.special import Special


@dataclass(frozen=True)
class GeneralLinear(MatrixGroup):
    """All invertible matrices: what a linear layer into a linear layer allows.

    >>> print(GeneralLinear(64), GeneralLinear(64).dim)
    GL(64) 4096
    """

    n: int
    flips = True

    def __post_init__(self) -> None:
        positive(self, n=self.n)

    @property
    def dim(self) -> int:
        return self.n**2

    @property
    def traces(self) -> Tensor:
        return torch.eye(self.n, dtype=torch.float64).flatten()

    def hat(self, coefficients: Tensor) -> Tensor:
        return coefficients.reshape(*coefficients.shape[:-1], self.n, self.n)

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        values: Tensor = torch.linalg.svdvals(matrix)
        return values[..., -1] > tol * values[..., 0]

    def __str__(self) -> str:
        return f"GL({self.n})"


def SpecialLinear(n: int) -> Special:
    """Matrices of determinant 1.

    >>> print(SpecialLinear(3), SpecialLinear(3).dim)
    SL(3) 8
    """
    return Special(GeneralLinear(n))
