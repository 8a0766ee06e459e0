"""O(n), and SO(n) inside it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paramsym.groups.base import positive
from paramsym.groups.elements import Element, near
from paramsym.groups.matrix import MatrixGroup
from paramsym.groups.special import Special


@dataclass(frozen=True)
class Orthogonal(MatrixGroup):
    """Rotations and reflections: what a radial activation allows.

    >>> print(Orthogonal(512), Orthogonal(3).dim, Orthogonal(3).order)
    O(512) 3 2
    """

    n: int
    flips = True

    def __post_init__(self) -> None:
        positive(self, n=self.n)

    @property
    def dim(self) -> int:
        return self.n * (self.n - 1) // 2

    @property
    def traces(self) -> Tensor:
        return torch.zeros(self.dim, dtype=torch.float64)

    def hat(self, coefficients: Tensor) -> Tensor:
        # E_ij − E_ji for i < j, written as a lookup so that every torch.func transform works
        rows, columns = torch.triu_indices(self.n, self.n, offset=1)
        place = torch.full((self.n, self.n), 2 * self.dim)
        place[rows, columns] = torch.arange(self.dim)
        place[columns, rows] = torch.arange(self.dim) + self.dim
        zero = coefficients.new_zeros(*coefficients.shape[:-1], 1)
        return torch.cat([coefficients, -coefficients, zero], -1)[..., place]

    def inverse(self, g: Element) -> Element:
        return g.mT

    def dual(self, g: Element) -> Element:
        return g

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        return near(matrix @ matrix.mT, torch.eye(self.n).to(matrix), tol)

    def __str__(self) -> str:
        return f"O({self.n})"


def SpecialOrthogonal(n: int) -> Special:
    """Rotations.

    >>> print(SpecialOrthogonal(3), SpecialOrthogonal(3).dim, SpecialOrthogonal(3).order)
    SO(3) 3 1
    """
    return Special(Orthogonal(n))
