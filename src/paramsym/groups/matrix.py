"""Linear groups whose elements are matrices: what to start from for a group of your own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from paramsym.groups.base import Group
from paramsym.groups.elements import Element


class MatrixGroup(Group):
    """A linear group whose elements are its own matrices.

    A new family supplies `dim`, `hat` and `has_linear`; and `flips = True` if it has a second
    component, the one of the reflection of the first axis.
    """

    @property
    def order(self) -> int:
        return 2 if self.flips else 1

    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        return torch.eye(self.n, dtype=dtype, device=device).repeat(*shape, 1, 1)

    def compose(self, g: Element, h: Element) -> Element:
        return g @ h

    def inverse(self, g: Element) -> Element:
        return torch.linalg.inv(g)

    def dual(self, g: Element) -> Element:
        return self.inverse(g).mT

    @abstractmethod
    def hat(self, coefficients: Tensor) -> Tensor:
        """The algebra element Σ cᵢ Xᵢ, (..., dim) to (..., n, n)."""

    def exp(self, coefficients: Tensor) -> Element:
        # matrix_exp refuses some strides that slicing coefficients leaves behind
        return torch.linalg.matrix_exp(self.hat(coefficients).contiguous())

    def linear(self, g: Element) -> Tensor:
        matrix: Tensor = g
        return matrix

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        bits = torch.randint(2, tuple(shape), generator=generator, device=generator.device)
        return self.flip((bits == 1) & self.flips, dtype)

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        element = MatrixGroup.identity(self, where.shape, dtype, where.device)
        element[..., 0, 0] -= 2 * where.to(dtype)
        return element
