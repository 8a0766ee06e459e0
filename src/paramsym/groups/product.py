"""Direct products acting on direct sums. Elements are tuples, one entry per factor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

from paramsym.errors import GroupError
from paramsym.groups.base import Group
from paramsym.groups.elements import Element
from paramsym.groups.text import bracketed


@dataclass(frozen=True)
class Product(Group):
    """G₁ × G₂ × … acting on the direct sum of their spaces, block diagonally.

    >>> from paramsym.groups import GeneralLinear, Permutation
    >>> group = Product((GeneralLinear(4), Permutation(3)))
    >>> print(group, group.n, group.dim, group.order)
    GL(4) × S₃ 7 16 12
    """

    factors: tuple[Group, ...]
    n: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.factors:
            raise GroupError("a product of no groups acts on nothing", remedy="give one factor")
        object.__setattr__(self, "n", sum(self.sizes))

    @property
    def sizes(self) -> list[int]:
        """The sizes of the diagonal blocks."""
        return [factor.n for factor in self.factors]

    @property
    def bounds(self) -> list[int]:
        """The coordinates at which a new block starts."""
        return list(accumulate(self.sizes))[:-1]

    @property
    def dim(self) -> int:
        return sum(factor.dim for factor in self.factors)

    @property
    def order(self) -> int:
        return math.prod(factor.order for factor in self.factors)

    @property
    def log10_order(self) -> float:
        return sum(factor.log10_order for factor in self.factors)

    @property
    def affine(self) -> bool:
        return any(factor.affine for factor in self.factors)

    @property
    def flips(self) -> bool:
        return any(factor.flips for factor in self.factors)

    @property
    def traces(self) -> Tensor:
        return torch.cat([factor.traces for factor in self.factors])

    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        return tuple(factor.identity(shape, dtype, device) for factor in self.factors)

    def compose(self, g: Element, h: Element) -> Element:
        return tuple(f.compose(a, b) for f, a, b in zip(self.factors, g, h, strict=True))

    def inverse(self, g: Element) -> Element:
        return tuple(f.inverse(a) for f, a in zip(self.factors, g, strict=True))

    def dual(self, g: Element) -> Element:
        return tuple(f.dual(a) for f, a in zip(self.factors, g, strict=True))

    def exp(self, coefficients: Tensor) -> Element:
        parts = coefficients.split([factor.dim for factor in self.factors], -1)
        return tuple(f.exp(c) for f, c in zip(self.factors, parts, strict=True))

    def linear(self, g: Element) -> Tensor:
        blocks = [f.linear(a) for f, a in zip(self.factors, g, strict=True)]
        ends = accumulate(self.sizes)
        rows = [
            torch.nn.functional.pad(block, (end - block.shape[-1], self.n - end))
            for block, end in zip(blocks, ends, strict=True)
        ]
        return torch.cat(rows, -2)

    def offset(self, g: Element) -> Tensor:
        return torch.cat([f.offset(a) for f, a in zip(self.factors, g, strict=True)], -1)

    def apply(self, g: Element, z: Tensor) -> Tensor:
        parts = z.split(self.sizes, -1)
        images = [f.apply(a, part) for f, a, part in zip(self.factors, g, parts, strict=True)]
        return torch.cat(images, -1)

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        return tuple(factor.discrete(shape, generator, dtype) for factor in self.factors)

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        first = next(i for i, factor in enumerate(self.factors) if factor.flips)
        return tuple(
            factor.flip(where, dtype)
            if i == first
            else factor.identity(where.shape, dtype, where.device)
            for i, factor in enumerate(self.factors)
        )

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        return self.has(matrix, torch.zeros_like(matrix[..., 0]), tol)

    def has(self, linear: Tensor, offset: Tensor, tol: float) -> Tensor:
        inside = torch.ones(linear.shape[:-2], dtype=torch.bool, device=linear.device)
        scale = linear.abs().amax((-2, -1)).clamp(min=1)
        start = 0
        for factor in self.factors:
            end = start + factor.n
            row = linear[..., start:end, :].clone()
            inside &= factor.has(row[..., start:end].clone(), offset[..., start:end], tol)
            row[..., start:end] = 0
            inside &= row.abs().amax((-2, -1)) <= tol * scale
            start = end
        return inside

    def __str__(self) -> str:
        return " × ".join(bracketed(str(factor)) for factor in self.factors)
