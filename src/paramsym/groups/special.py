"""Elements of determinant 1 (or ±1) of another group: SL(n), SO(n), Aₙ, and all of their kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paramsym.groups.base import Group
from paramsym.groups.elements import Element
from paramsym.groups.text import subscript


@dataclass(frozen=True)
class Special(Group):
    """S(G) = {g ∈ G : det g = 1}, or |det g| = 1 with `up_to_sign`; elements are those of G.

    >>> from paramsym.groups import Permutation, Product, Orthogonal
    >>> print(Special(Permutation(5)), Special(Product((Orthogonal(2), Orthogonal(3)))))
    A₅ S(O(2) × O(3))
    """

    inner: Group
    up_to_sign: bool = False
    n: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.inner.n)

    @property
    def dim(self) -> int:
        return self.inner.dim - bool(self.inner.traces.any())

    @property
    def order(self) -> int:
        # π₀(ker det) is the kernel of π₀(G) → π₀(det G), since det G ⊂ R∖0 has no loops.
        return self.inner.order // self._halves

    @property
    def log10_order(self) -> float:
        return self.inner.log10_order - math.log10(self._halves)

    @property
    def _halves(self) -> int:
        return 2 if self.inner.flips and not self.up_to_sign else 1

    @property
    def affine(self) -> bool:
        return self.inner.affine

    @property
    def flips(self) -> bool:
        return self.up_to_sign and self.inner.flips

    @property
    def traces(self) -> Tensor:
        return torch.zeros(self.dim, dtype=torch.float64)

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
        return self.inner.exp(self._embedded(coefficients))

    def hat(self, coefficients: Tensor) -> Tensor:
        return self.inner.hat(self._embedded(coefficients))

    def _embedded(self, coefficients: Tensor) -> Tensor:
        """Coefficients in the orthonormal basis of {c : tr Σ cᵢXᵢ = 0}, by one reflection.

        The reflection takes the last axis to the direction of the traces, hence the others to
        its complement.
        """
        normal = self.inner.traces.to(coefficients)
        if not normal.any():
            return coefficients
        normal = normal / normal.norm()
        last = torch.zeros_like(normal)
        last[-1] = 1 if normal[-1] >= 0 else -1
        axis = (normal + last) / (normal + last).norm()
        zero = coefficients.new_zeros(*coefficients.shape[:-1], 1)
        padded = torch.cat([coefficients, zero], -1)
        reflected: Tensor = padded - 2 * (padded @ axis).unsqueeze(-1) * axis
        return reflected

    def linear(self, g: Element) -> Tensor:
        return self.inner.linear(g)

    def offset(self, g: Element) -> Tensor:
        return self.inner.offset(g)

    def apply(self, g: Element, z: Tensor) -> Tensor:
        return self.inner.apply(g, z)

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        element = self.inner.discrete(shape, generator, dtype)
        if self._halves == 1:
            return element
        negative = torch.linalg.slogdet(self.inner.linear(element)).sign < 0
        return self.inner.compose(element, self.inner.flip(negative, dtype))

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        return self.inner.flip(where, dtype)

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        return self.inner.has_linear(matrix, tol) & self._unit(matrix, tol)

    def has(self, linear: Tensor, offset: Tensor, tol: float) -> Tensor:
        return self.inner.has(linear, offset, tol) & self._unit(linear, tol)

    def _unit(self, linear: Tensor, tol: float) -> Tensor:
        sign, logarithm = torch.linalg.slogdet(linear)
        unit: Tensor = ((sign > 0) | self.up_to_sign) & (logarithm.abs() <= tol * self.n)
        return unit

    def __str__(self) -> str:
        text, sign = str(self.inner), "±" if self.up_to_sign else ""
        if text == f"S{subscript(self.n)}" and not sign:
            return f"A{subscript(self.n)}"
        if text == f"GL({self.n})":
            return f"SL{sign}({self.n})"
        return f"SO({self.n})" if text == f"O({self.n})" and not sign else f"S{sign}({text})"
