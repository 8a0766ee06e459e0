"""Diagonal matrices: nothing, signs, positive scales, nonzero scales. Elements are diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paramsym.groups.elements import Element
from paramsym.groups.sparse import SparseGroup, random_signs


class DiagonalGroup(SparseGroup):
    """diag(d) with an element stored as d, (..., n)."""

    permuted = False

    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        return torch.ones(*shape, self.n, dtype=dtype, device=device)

    def compose(self, g: Element, h: Element) -> Element:
        return g * h

    def inverse(self, g: Element) -> Element:
        return 1 / g

    def dual(self, g: Element) -> Element:
        return 1 / g

    def exp(self, coefficients: Tensor) -> Element:
        if self.scales:
            return coefficients.exp()
        return self.identity(coefficients.shape[:-1], coefficients.dtype, coefficients.device)

    def linear(self, g: Element) -> Tensor:
        return torch.diag_embed(g)

    def apply(self, g: Element, z: Tensor) -> Tensor:
        image: Tensor = g * z
        return image

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        if self.signs:
            return random_signs((*shape, self.n), generator, dtype)
        return self.identity(shape, dtype, generator.device)

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        element = self.identity(where.shape, dtype, where.device)
        element[..., 0] -= 2 * where.to(dtype)
        return element


@dataclass(frozen=True)
class Trivial(DiagonalGroup):
    """The group of one element, on Rⁿ.

    >>> print(Trivial(3), Trivial(3).dim, Trivial(3).order)
    1 0 1
    """

    signs = False
    scales = False


@dataclass(frozen=True)
class Signs(DiagonalGroup):
    """diag(±1, …, ±1).

    >>> print(Signs(8), Signs(8).order)
    {±1}⁸ 256
    """

    signs = True
    scales = False


@dataclass(frozen=True)
class PositiveScaling(DiagonalGroup):
    """Positive diagonal matrices.

    >>> print(PositiveScaling(10), PositiveScaling(10).dim)
    R₊¹⁰ 10
    """

    signs = False
    scales = True


@dataclass(frozen=True)
class Diagonal(DiagonalGroup):
    """Invertible diagonal matrices.

    >>> print(Diagonal(5), Diagonal(5).dim, Diagonal(5).order)
    (R∖0)⁵ 5 32
    """

    signs = True
    scales = True
