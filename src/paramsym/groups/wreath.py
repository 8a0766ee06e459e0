"""Equal blocks, each with its own element, and permuted as wholes: attention heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paramsym.groups.base import Group, positive
from paramsym.groups.elements import Element, near, over
from paramsym.groups.permutation import gathered, one_hot, random_permutation, swap_first_two
from paramsym.groups.text import bracketed, subscript


@dataclass(frozen=True)
class Wreath(Group):
    """G ≀ Sₖ on k blocks: (g·z)ᵢ = hᵢ z_{pᵢ}.

    An element is a pair (h, p): h an element of G with one more batch axis, of length k, and p
    the permutation of blocks.

    >>> from paramsym.groups import GeneralLinear
    >>> group = Wreath(GeneralLinear(4), 3)
    >>> print(group, group.n, group.dim, group.order)
    GL(4) ≀ S₃ 12 48 48
    """

    inner: Group
    k: int
    n: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        positive(self, k=self.k)
        object.__setattr__(self, "n", self.inner.n * self.k)

    @property
    def dim(self) -> int:
        return self.inner.dim * self.k

    @property
    def order(self) -> int:
        return int(self.inner.order**self.k) * math.factorial(self.k)

    @property
    def log10_order(self) -> float:
        return self.k * self.inner.log10_order + math.lgamma(self.k + 1) / math.log(10)

    @property
    def affine(self) -> bool:
        return self.inner.affine

    @property
    def flips(self) -> bool:
        return self.inner.flips or (self.inner.n % 2 == 1 and self.k > 1)

    @property
    def traces(self) -> Tensor:
        return self.inner.traces.repeat(self.k)

    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        blocks = self.inner.identity((*shape, self.k), dtype, device)
        return blocks, torch.arange(self.k, device=device).repeat(*shape, 1)

    def compose(self, g: Element, h: Element) -> Element:
        (a, p), (b, q) = g, h
        return self.inner.compose(a, self._picked(b, p)), gathered(q, p)

    def inverse(self, g: Element) -> Element:
        a, p = g
        back = p.argsort(-1)
        return self.inner.inverse(self._picked(a, back)), back

    def dual(self, g: Element) -> Element:
        return self.inner.dual(g[0]), g[1]

    def exp(self, coefficients: Tensor) -> Element:
        blocks = coefficients.unflatten(-1, (self.k, self.inner.dim))
        p = torch.arange(self.k, device=coefficients.device)
        return self.inner.exp(blocks), p.repeat(*coefficients.shape[:-1], 1)

    def _picked(self, blocks: Element, p: Tensor) -> Element:
        """The blocks in the order p."""

        def pick(part: Tensor, event: int) -> Tensor:
            return torch.take_along_dim(part, p.reshape(p.shape + (1,) * event), -1 - event)

        return over(self.inner.identity(), blocks, pick)

    def linear(self, g: Element) -> Tensor:
        return self._assembled(self.inner.linear(g[0]), g[1])

    def _assembled(self, blocks: Tensor, p: Tensor) -> Tensor:
        where = one_hot(p, blocks.dtype)
        grid = blocks[..., :, :, None, :] * where[..., :, None, :, None]
        return grid.flatten(-4, -3).flatten(-2, -1)

    def offset(self, g: Element) -> Tensor:
        return self.inner.offset(g[0]).flatten(-2)

    def apply(self, g: Element, z: Tensor) -> Tensor:
        a, p = g
        blocks = z.unflatten(-1, (self.k, self.inner.n))
        return self.inner.apply(a, gathered(blocks.mT, p.unsqueeze(-2)).mT).flatten(-2)

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        size = (*shape, self.k)
        return self.inner.discrete(size, generator, dtype), random_permutation(size, generator)

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        blocks, p = self.identity(where.shape, dtype, where.device)
        if not self.inner.flips:
            return blocks, swap_first_two(where, self.k)
        first = torch.arange(self.k, device=where.device) == 0
        return self.inner.flip(where.unsqueeze(-1) & first, dtype), p

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        return self.has(matrix, torch.zeros_like(matrix[..., 0]), tol)

    def has(self, linear: Tensor, offset: Tensor, tol: float) -> Tensor:
        size = (self.k, self.inner.n)
        grid = linear.unflatten(-1, size).unflatten(-3, size).transpose(-3, -2)
        p = grid.abs().amax((-2, -1)).argmax(-1)
        blocks = torch.take_along_dim(grid, p[..., None, None, None], -3).squeeze(-3)
        inside: Tensor = (p.sort(-1).values == torch.arange(self.k, device=p.device)).all(-1)
        inside &= near(linear, self._assembled(blocks, p), tol)
        inside &= self.inner.has(blocks, offset.unflatten(-1, size), tol).all(-1)
        return inside

    def __str__(self) -> str:
        return f"{bracketed(str(self.inner))} ≀ S{subscript(self.k)}"
