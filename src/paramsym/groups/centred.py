"""The rotations that leave the vector of ones where it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from paramsym.groups.base import positive
from paramsym.groups.elements import Element, near
from paramsym.groups.matrix import MatrixGroup
from paramsym.groups.orthogonal import Orthogonal


@dataclass(frozen=True)
class Centred(MatrixGroup):
    """{Q ∈ O(n) : Q1 = 1}, a copy of O(n−1): what subtracting the mean allows.

    >>> print(Centred(6), Centred(6).dim, Centred(3).order)
    O(6)₁ 10 2
    """

    n: int

    def __post_init__(self) -> None:
        positive(self, n=self.n)

    @property
    def flips(self) -> bool:
        return self.n > 1

    @property
    def dim(self) -> int:
        return (self.n - 1) * (self.n - 2) // 2

    @property
    def traces(self) -> Tensor:
        return torch.zeros(self.dim, dtype=torch.float64)

    def hat(self, coefficients: Tensor) -> Tensor:
        """B A Bᵀ for A antisymmetric, the columns of B an orthonormal basis of 1^⊥."""
        if self.n == 1:
            return coefficients.new_zeros(*coefficients.shape[:-1], 1, 1)
        basis = contrasts(self.n).to(coefficients)
        return basis @ Orthogonal(self.n - 1).hat(coefficients) @ basis.mT

    def inverse(self, g: Element) -> Element:
        return g.mT

    def dual(self, g: Element) -> Element:
        return g

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        """A swap of the first two axes: the reflection along e₀ − e₁."""
        element = self.identity(where.shape, dtype, where.device)
        if self.n > 1:
            swap = torch.tensor([[-1.0, 1.0], [1.0, -1.0]], dtype=dtype, device=where.device)
            element[..., :2, :2] += swap * where.to(dtype)[..., None, None]
        return element

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        ones = torch.ones(self.n).to(matrix)
        fixed = near(matrix @ ones, ones.expand(matrix.shape[:-1]), tol, 1)
        return fixed & Orthogonal(self.n).has_linear(matrix, tol)

    def __str__(self) -> str:
        return f"O({self.n})₁"


@lru_cache(maxsize=64)
def contrasts(n: int) -> Tensor:
    """Orthonormal columns orthogonal to the ones, (n, n−1): column k is 1 above k+1, −(k+1) there.

    >>> contrasts(2).round(decimals=4).flatten().tolist()
    [0.7071, -0.7071]
    """
    rows = torch.arange(n, dtype=torch.float64)[:, None]
    columns = torch.arange(1, n, dtype=torch.float64)
    raw = (rows < columns).double() - columns * (rows == columns).double()
    return raw / (columns * (columns + 1)).sqrt()
