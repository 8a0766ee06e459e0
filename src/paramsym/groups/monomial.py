"""Diagonals times permutations. Elements are pairs (d, p) with (g·z)ᵢ = dᵢ z[pᵢ]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paramsym.groups.diagonal import Diagonal, PositiveScaling, Signs, Trivial
from paramsym.groups.elements import Element
from paramsym.groups.permutation import Permutation, gathered, one_hot, random_permutation
from paramsym.groups.sparse import SparseGroup, random_signs


class MonomialGroup(SparseGroup):
    """diag(d) times the permutation p."""

    permuted = True

    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        ones = torch.ones(*shape, self.n, dtype=dtype, device=device)
        return ones, torch.arange(self.n, device=device).repeat(*shape, 1)

    def compose(self, g: Element, h: Element) -> Element:
        (d, p), (e, q) = g, h
        return d * gathered(e, p), gathered(q, p)

    def inverse(self, g: Element) -> Element:
        d, p = g
        back = p.argsort(-1)
        return 1 / gathered(d, back), back

    def dual(self, g: Element) -> Element:
        d, p = g
        return 1 / d, p

    def exp(self, coefficients: Tensor) -> Element:
        batch, like = coefficients.shape[:-1], coefficients
        d, p = self.identity(batch, like.dtype, like.device)
        return (coefficients.exp() if self.scales else d), p

    def linear(self, g: Element) -> Tensor:
        d, p = g
        matrix: Tensor = d.unsqueeze(-1) * one_hot(p, d.dtype)
        return matrix

    def apply(self, g: Element, z: Tensor) -> Tensor:
        d, p = g
        image: Tensor = d * gathered(z, p)
        return image

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        size = (*shape, self.n)
        ones = torch.ones(size, dtype=dtype, device=generator.device)
        d = random_signs(size, generator, dtype) if self.signs else ones
        return d, random_permutation(size, generator)

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        d, p = self.identity(where.shape, dtype, where.device)
        if self.signs:
            return Signs(self.n).flip(where, dtype), p
        return d, Permutation(self.n).flip(where, dtype)


@dataclass(frozen=True)
class SignedPermutation(MonomialGroup):
    """The hyperoctahedral group: what odd activations allow.

    >>> print(SignedPermutation(8), SignedPermutation(2).order)
    {±1}⁸ ⋊ S₈ 8
    """

    signs = True
    scales = False


@dataclass(frozen=True)
class PositiveMonomial(MonomialGroup):
    """Positive scales and permutations: what ReLU allows.

    >>> print(PositiveMonomial(10), PositiveMonomial(10).dim)
    R₊¹⁰ ⋊ S₁₀ 10
    """

    signs = False
    scales = True


@dataclass(frozen=True)
class Monomial(MonomialGroup):
    """Nonzero scales and permutations.

    >>> print(Monomial(5))
    (R∖0)⁵ ⋊ S₅
    """

    signs = True
    scales = True


_KINDS: dict[tuple[bool, bool, bool], type[SparseGroup]] = {
    (kind.signs, kind.scales, kind.permuted): kind
    for kind in (
        *(Trivial, Signs, PositiveScaling, Diagonal),
        *(Permutation, SignedPermutation, PositiveMonomial, Monomial),
    )
}


def sparse(n: int, signs: bool, scales: bool, permuted: bool) -> SparseGroup:
    """The group of monomial matrices with these features.

    >>> sparse(3, signs=True, scales=False, permuted=True)
    SignedPermutation(n=3)
    """
    return _KINDS[signs, scales, permuted](n)
