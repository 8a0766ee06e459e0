"""The same element on several copies of a space: g ⊗ 1, as flattening pixels does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paramsym.groups.base import Group, positive
from paramsym.groups.elements import Element, near, over
from paramsym.groups.text import bracketed, subscript


@dataclass(frozen=True)
class Repeated(Group):
    """G ⊗ 1ₖ = {g ⊗ 1ₖ}: coordinate (i, j) sits at position i·k + j; elements are those of G.

    >>> from paramsym.groups import GeneralLinear
    >>> group = Repeated(GeneralLinear(4), 9)
    >>> print(group, group.n, group.dim)
    GL(4) ⊗ 1₉ 36 16
    """

    inner: Group
    k: int
    n: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        positive(self, k=self.k)
        object.__setattr__(self, "n", self.inner.n * self.k)

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def order(self) -> int:
        return self.inner.order

    @property
    def log10_order(self) -> float:
        return self.inner.log10_order

    @property
    def affine(self) -> bool:
        return self.inner.affine

    @property
    def flips(self) -> bool:
        return self.inner.flips and self.k % 2 == 1

    @property
    def traces(self) -> Tensor:
        return self.k * self.inner.traces

    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        return self.inner.identity(shape, dtype, device)

    def compose(self, g: Element, h: Element) -> Element:
        return self.inner.compose(g, h)

    def inverse(self, g: Element) -> Element:
        return self.inner.inverse(g)

    def dual(self, g: Element) -> Element:
        return self.inner.dual(g)

    def exp(self, coefficients: Tensor) -> Element:
        return self.inner.exp(coefficients)

    def linear(self, g: Element) -> Tensor:
        return self._spread(self.inner.linear(g))

    def _spread(self, matrix: Tensor) -> Tensor:
        """matrix ⊗ 1ₖ."""
        one = torch.eye(self.k).to(matrix)
        return (matrix[..., :, None, :, None] * one[:, None, :]).flatten(-4, -3).flatten(-2, -1)

    def offset(self, g: Element) -> Tensor:
        return self.inner.offset(g).repeat_interleave(self.k, -1)

    def apply(self, g: Element, z: Tensor) -> Tensor:
        one = over(self.inner.identity(), g, lambda part, event: part.unsqueeze(-1 - event))
        copies = z.unflatten(-1, (self.inner.n, self.k)).mT
        return self.inner.apply(one, copies).mT.flatten(-2)

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        return self.inner.discrete(shape, generator, dtype)

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        return self.inner.flip(where, dtype)

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        return self.has(matrix, torch.zeros_like(matrix[..., 0]), tol)

    def has(self, linear: Tensor, offset: Tensor, tol: float) -> Tensor:
        one, shift = linear[..., :: self.k, :: self.k], offset[..., :: self.k]
        same = near(linear, self._spread(one), tol)
        same &= near(offset, shift.repeat_interleave(self.k, -1), tol, 1)
        return same & self.inner.has(one, shift, tol)

    def __str__(self) -> str:
        return f"{bracketed(str(self.inner))} ⊗ 1{subscript(self.k)}"
