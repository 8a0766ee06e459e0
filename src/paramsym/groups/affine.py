"""Translations, and affine groups L ⋉ Rⁿ with any linear group L."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paramsym.errors import GroupError
from paramsym.groups.base import Group, positive
from paramsym.groups.elements import Element
from paramsym.groups.general_linear import GeneralLinear
from paramsym.groups.text import bracketed, superscript


@dataclass(frozen=True)
class Translation(Group):
    """z ↦ z + t; an element is t, (..., n).

    >>> print(Translation(6), Translation(6).dim)
    R⁶ 6
    """

    n: int
    affine = True

    def __post_init__(self) -> None:
        positive(self, n=self.n)

    @property
    def dim(self) -> int:
        return self.n

    @property
    def traces(self) -> Tensor:
        return torch.zeros(self.n, dtype=torch.float64)

    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        return torch.zeros(*shape, self.n, dtype=dtype, device=device)

    def compose(self, g: Element, h: Element) -> Element:
        return g + h

    def inverse(self, g: Element) -> Element:
        return -g

    def dual(self, g: Element) -> Element:
        return torch.zeros_like(g)

    def exp(self, coefficients: Tensor) -> Element:
        return coefficients

    def linear(self, g: Element) -> Tensor:
        return torch.diag_embed(torch.ones_like(g))

    def offset(self, g: Element) -> Tensor:
        shift: Tensor = g
        return shift

    def apply(self, g: Element, z: Tensor) -> Tensor:
        image: Tensor = g + z
        return image

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        return ((matrix - torch.eye(self.n).to(matrix)).abs() <= tol).all(-1).all(-1)

    def has(self, linear: Tensor, offset: Tensor, tol: float) -> Tensor:
        return self.has_linear(linear, tol)

    def __str__(self) -> str:
        return f"R{superscript(self.n)}"


@dataclass(frozen=True)
class Affine(Group):
    """z ↦ A z + t with A in a linear group (GL(n) unless given); an element is (A, t).

    >>> from paramsym.groups import Permutation
    >>> print(Affine(6), Affine(6).dim, Affine(3, Permutation(3)))
    Aff(6) 42 S₃ ⋉ R³
    """

    n: int
    part: Group | None = None
    affine = True

    def __post_init__(self) -> None:
        positive(self, n=self.n)
        if self.part == GeneralLinear(self.n):  # one way to write each group
            object.__setattr__(self, "part", None)
        if self.linear_part.n != self.n or self.linear_part.affine:
            raise GroupError(
                f"the linear part of an affine group of R^{self.n} cannot be {self.part}",
                remedy="give a linear group of the same dimension",
            )

    @property
    def linear_part(self) -> Group:
        """The group of the A."""
        return self.part or GeneralLinear(self.n)

    @property
    def dim(self) -> int:
        return self.linear_part.dim + self.n

    @property
    def order(self) -> int:
        return self.linear_part.order

    @property
    def log10_order(self) -> float:
        return self.linear_part.log10_order

    @property
    def flips(self) -> bool:
        return self.linear_part.flips

    @property
    def traces(self) -> Tensor:
        return torch.cat([self.linear_part.traces, torch.zeros(self.n, dtype=torch.float64)])

    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        shift = torch.zeros(*shape, self.n, dtype=dtype, device=device)
        return self.linear_part.identity(shape, dtype, device), shift

    def compose(self, g: Element, h: Element) -> Element:
        return self.linear_part.compose(g[0], h[0]), self.linear_part.apply(g[0], h[1]) + g[1]

    def inverse(self, g: Element) -> Element:
        back = self.linear_part.inverse(g[0])
        return back, -self.linear_part.apply(back, g[1])

    def dual(self, g: Element) -> Element:
        return self.linear_part.dual(g[0]), torch.zeros_like(g[1])

    def exp(self, coefficients: Tensor) -> Element:
        inner, shift = coefficients.split([self.linear_part.dim, self.n], -1)
        if self.linear_part.dim:
            # the last column of exp [[X, v], [0, 0]] is φ(X)v, φ(x) = (eˣ − 1)/x
            generator = torch.cat([self.linear_part.hat(inner), shift.unsqueeze(-1)], -1)
            generator = torch.cat([generator, torch.zeros_like(generator[..., :1, :])], -2)
            shift = torch.linalg.matrix_exp(generator)[..., :-1, -1]
        return self.linear_part.exp(inner), shift

    def linear(self, g: Element) -> Tensor:
        return self.linear_part.linear(g[0])

    def offset(self, g: Element) -> Tensor:
        shift: Tensor = g[1]
        return shift

    def apply(self, g: Element, z: Tensor) -> Tensor:
        image: Tensor = self.linear_part.apply(g[0], z) + g[1]
        return image

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        shift = torch.zeros(*shape, self.n, dtype=dtype, device=generator.device)
        return self.linear_part.discrete(shape, generator, dtype), shift

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        shift = torch.zeros(*where.shape, self.n, dtype=dtype, device=where.device)
        return self.linear_part.flip(where, dtype), shift

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        return self.linear_part.has_linear(matrix, tol)

    def has(self, linear: Tensor, offset: Tensor, tol: float) -> Tensor:
        return self.linear_part.has_linear(linear, tol)

    def __str__(self) -> str:
        if self.part is None:
            return f"Aff({self.n})"
        return f"{bracketed(str(self.linear_part))} ⋉ R{superscript(self.n)}"
