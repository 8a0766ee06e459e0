"""The symmetric group. Elements are long tensors p with (p·z)ᵢ = z[pᵢ]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paramsym.groups.elements import Element
from paramsym.groups.sparse import SparseGroup


@dataclass(frozen=True)
class Permutation(SparseGroup):
    """Sₙ permuting coordinates.

    >>> group = Permutation(3)
    >>> print(group, group.order)
    S₃ 6
    >>> group.apply(torch.tensor([2, 0, 1]), torch.tensor([10, 20, 30])).tolist()
    [30, 10, 20]
    """

    signs = False
    scales = False
    permuted = True

    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        return torch.arange(self.n, device=device).repeat(*shape, 1)

    def compose(self, g: Element, h: Element) -> Element:
        return gathered(h, g)

    def inverse(self, g: Element) -> Element:
        return g.argsort(-1)

    def dual(self, g: Element) -> Element:
        return g

    def exp(self, coefficients: Tensor) -> Element:
        return self.identity(coefficients.shape[:-1], device=coefficients.device)

    def linear(self, g: Element) -> Tensor:
        return one_hot(g, torch.float64)

    def apply(self, g: Element, z: Tensor) -> Tensor:
        return gathered(z, g)

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        return random_permutation((*shape, self.n), generator)

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        return swap_first_two(where, self.n)


def gathered(z: Tensor, p: Tensor) -> Tensor:
    """z[pᵢ] on the last axis, batch axes broadcasting.

    >>> gathered(torch.tensor([10, 20, 30]), torch.tensor([2, 0, 1])).tolist()
    [30, 10, 20]
    """
    return torch.take_along_dim(z, p, -1) if z.ndim == p.ndim else _aligned(z, p)


def _aligned(z: Tensor, p: Tensor) -> Tensor:
    missing = z.ndim - p.ndim
    z = z.reshape((1,) * -missing + z.shape)
    return torch.take_along_dim(z, p.reshape((1,) * missing + p.shape), -1)


def one_hot(p: Tensor, dtype: torch.dtype) -> Tensor:
    """The permutation matrix with ones at (i, pᵢ)."""
    return (p.unsqueeze(-1) == torch.arange(p.shape[-1], device=p.device)).to(dtype)


def random_permutation(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """A batch of uniform permutations of the last axis."""
    keys = torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)
    return keys.argsort(-1)


def swap_first_two(where: Tensor, n: int) -> Tensor:
    """The transposition of 0 and 1 where the mask is true, the identity elsewhere."""
    p = torch.arange(n, device=where.device).repeat(*where.shape, 1)
    p[..., 0] += where.long()
    p[..., 1] -= where.long()
    return p
