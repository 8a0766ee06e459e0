"""What every group is: the verbs all families share, for matrices (or affine maps) of Rⁿ."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from paramsym.errors import GroupError
from paramsym.groups.elements import Element, homogeneous, near, over
from paramsym.numerics import VERIFY_TOLERANCE


class Group(ABC):
    """A group of invertible linear or affine maps of Rⁿ.

    A new family supplies `dim`, `identity`, `compose`, `inverse`, `dual`, `exp`,
    `linear`, `has_linear`, and, where it has a discrete part, `order` and `discrete`. Everything
    else follows. `paramsym.testing.check_group` tells whether it really is a group.
    """

    n: int
    # Every family is a frozen dataclass: its fields are its data.
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _FAMILIES[family_name(cls)] = cls

    # -- facts ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the Lie algebra."""

    @property
    def order(self) -> int:
        """Number of connected components, exactly."""
        return 1

    @property
    def log10_order(self) -> float:
        """log₁₀ of `order`, without forming the integer where that would be slow."""
        return math.log10(self.order)

    @property
    def affine(self) -> bool:
        """Whether elements may move the origin."""
        return False

    @property
    def flips(self) -> bool:
        """Whether some element has a negative determinant."""
        return False

    @property
    def traces(self) -> Tensor:
        """Trace of the linear part of each algebra basis element, (dim,)."""
        basis = self.algebra()[:, : self.n, : self.n]
        return basis.diagonal(dim1=-2, dim2=-1).sum(-1)

    # -- elements ------------------------------------------------------------------------

    @abstractmethod
    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        """A batch of neutral elements."""

    @abstractmethod
    def compose(self, g: Element, h: Element) -> Element:
        """g after h: matrix(compose(g, h)) = matrix(g) @ matrix(h)."""

    @abstractmethod
    def inverse(self, g: Element) -> Element:
        """The element that undoes g."""

    @abstractmethod
    def exp(self, coefficients: Tensor) -> Element:
        """exp(Σ cᵢ Xᵢ) over the algebra basis, (..., dim) to a batch of elements."""

    @abstractmethod
    def dual(self, g: Element) -> Element:
        """Laid out like an element; its linear part is the inverse transpose of g's."""

    @abstractmethod
    def linear(self, g: Element) -> Tensor:
        """The linear part of g, (..., n, n)."""

    def offset(self, g: Element) -> Tensor:
        """Where g sends the origin, (..., n)."""
        matrix = self.linear(g)
        return matrix.new_zeros(matrix.shape[:-1])

    def matrix(self, g: Element) -> Tensor:
        """The matrix of g: (..., n, n), or homogeneous (..., n+1, n+1) when affine."""
        return homogeneous(self.linear(g), self.offset(g)) if self.affine else self.linear(g)

    def apply(self, g: Element, z: Tensor) -> Tensor:
        """g·z on the last axis of z; the other axes broadcast with the batch of g."""
        image = (self.linear(g) @ z.unsqueeze(-1)).squeeze(-1)
        return image + self.offset(g) if self.affine else image

    # -- algebra and randomness ----------------------------------------------------------

    def hat(self, coefficients: Tensor) -> Tensor:
        """The algebra element Σ cᵢ Xᵢ as a matrix: the derivative of exp at zero."""
        zero = torch.zeros_like(coefficients)
        tangent: Tensor
        tangent = torch.func.jvp(lambda c: self.matrix(self.exp(c)), (zero,), (coefficients,))[1]
        return tangent

    def algebra(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """A basis of the Lie algebra, (dim, n, n) or homogeneous (dim, n+1, n+1)."""
        return self.hat(torch.eye(self.dim, dtype=dtype))

    def discrete(
        self, shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> Element:
        """Representatives of connected components, uniform over the components."""
        return self.identity(shape, dtype, generator.device)

    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Element:
        """The identity, but one fixed element of determinant −1 where the mask is true."""
        raise GroupError(f"{self} has no element of negative determinant")

    def sample(
        self,
        seed: int | None = None,
        scale: float = 1.0,
        shape: Sequence[int] = (),
        discrete: bool = True,
        *,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Element:
        """exp of Gaussian coefficients of deviation `scale`, times a uniform discrete part.

        >>> from paramsym.groups import Signs
        >>> Signs(4).sample(seed=1).abs().tolist()
        [1.0, 1.0, 1.0, 1.0]
        """
        if generator is None:
            if seed is None:
                raise GroupError("sample needs randomness", remedy="pass seed= or generator=")
            generator = torch.Generator().manual_seed(seed)
        size = (*shape, self.dim)
        noise = torch.randn(size, generator=generator, dtype=dtype, device=generator.device)
        element = self.exp(scale * noise)
        if discrete:
            element = self.compose(element, self.discrete(shape, generator, dtype))
        return over(self.identity(), element, lambda part, _: part.to(device or part.device))

    # -- membership and the lattice ------------------------------------------------------

    @abstractmethod
    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        """Which linear maps (..., n, n) are in the group, as booleans (...)."""

    def has(self, linear: Tensor, offset: Tensor, tol: float) -> Tensor:
        """Which affine maps z ↦ linear z + offset are in the group."""
        return self.has_linear(linear, tol) & near(offset, torch.zeros_like(offset), tol, 1)

    def is_member(self, matrix: Tensor, tol: float = VERIFY_TOLERANCE) -> Tensor:
        """Which matrices, n×n or homogeneous (n+1)×(n+1), are in the group.

        >>> from paramsym.groups import Orthogonal
        >>> bool(Orthogonal(2).is_member(2 * torch.eye(2)))
        False
        """
        n = self.n
        if matrix.shape[-2:] == (n, n):
            return self.has(matrix, torch.zeros_like(matrix[..., 0]), tol)
        if matrix.shape[-2:] != (n + 1, n + 1):
            raise GroupError(
                f"{self} acts on R^{n} and was given a matrix of shape {tuple(matrix.shape)}",
                remedy=f"pass (..., {n}, {n}), or homogeneous (..., {n + 1}, {n + 1})",
            )
        last = torch.zeros_like(matrix[..., n, :])
        last[..., n] = 1
        inside = self.has(matrix[..., :n, :n], matrix[..., :n, n], tol)
        return inside & near(matrix[..., n, :], last, tol, 1)

    def canonical(self) -> Group:
        """The same set of maps in its one normal form."""
        # The lattice knows every family and so sits above them; hence imported late.
        from paramsym.groups.canonical import canonical

        return canonical(self)

    def meet(self, other: Group) -> Group:
        """The intersection of two groups, in canonical form.

        >>> from paramsym.groups import Monomial, Orthogonal
        >>> print(Orthogonal(3).meet(Monomial(3)))
        {±1}³ ⋊ S₃
        """
        from paramsym.groups.lattice import meet

        return meet(self, other)

    def contains(self, other: Group) -> bool:
        """Whether every map of `other` is a map of this group."""
        from paramsym.groups.lattice import contains

        return contains(self, other)

    def __le__(self, other: Group) -> bool:
        return other.contains(self)

    def __lt__(self, other: Group) -> bool:
        return other.contains(self) and not self.contains(other)

    # -- data ----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which `from_dict` rebuilds the group."""
        data = {f.name: encoded(getattr(self, f.name)) for f in fields(self) if f.init}
        return {"group": family_name(type(self)), **data}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Group:
        """The group that `to_dict` described.

        >>> from paramsym.groups import Permutation
        >>> Group.from_dict(Permutation(3).to_dict())
        Permutation(n=3)
        """
        family = _FAMILIES.get(str(data.get("group")))
        if family is None:
            raise GroupError(
                f"there is no group family called {data.get('group')!r}",
                remedy=f"import the module that defines it, or use one of {sorted(_FAMILIES)}",
            )
        rest = {name: decoded(value) for name, value in data.items() if name != "group"}
        return family(**rest)


def positive(group: Group, **sizes: int) -> None:
    """Refuse sizes that are not positive integers."""
    for name, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise GroupError(
                f"{type(group).__name__} needs a positive integer {name}, not {value!r}",
                remedy="leave an empty space out",
            )


# Every family by its name in data; a class defined again, as in a notebook, replaces the old one.
_FAMILIES: dict[str, type[Group]] = {}


def family_name(family: type[Group]) -> str:
    """What data calls a family: those from outside the package carry their module's name too.

    >>> from paramsym.groups import Permutation
    >>> family_name(Permutation)
    'Permutation'
    """
    own = family.__module__.partition(".")[0] == __name__.partition(".")[0]
    return family.__name__ if own else f"{family.__module__}.{family.__qualname__}"


def encoded(value: Any) -> Any:
    """A field as plain data."""
    if isinstance(value, Group):
        return value.to_dict()
    return [encoded(v) for v in value] if isinstance(value, tuple) else value


def decoded(value: Any) -> Any:
    """A field from plain data."""
    if isinstance(value, dict):
        return Group.from_dict(value)
    return tuple(decoded(v) for v in value) if isinstance(value, list) else value
