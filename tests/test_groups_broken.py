"""Negative controls: each law of the suites rejects a group made to break it, and says which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from paramsym.errors import GroupError
from paramsym.groups import (
    Diagonal,
    GeneralLinear,
    Group,
    MatrixGroup,
    Monomial,
    Orthogonal,
    Permutation,
    PositiveScaling,
    Signs,
    SpecialLinear,
    Trivial,
)
from paramsym.groups.elements import near
from paramsym.testing import (
    GROUP_LAWS,
    LATTICE_LAWS,
    PAIR_LAWS,
    LawError,
    check,
    check_group,
    check_lattice,
    check_pair,
    law,
)

# -- a group of one's own, and that it passes --------------------------------------------------


@dataclass(frozen=True)
class Symplectic(MatrixGroup):
    n: int

    @property
    def dim(self) -> int:
        return self.n * (self.n + 1) // 2

    def form(self) -> Tensor:
        return torch.kron(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), torch.eye(self.n // 2)).double()

    def hat(self, coefficients: Tensor) -> Tensor:
        upper = coefficients.new_zeros(self.dim, self.n, self.n)
        upper[torch.arange(self.dim), *torch.triu_indices(self.n, self.n)] = 1
        symmetric = torch.einsum("...d,dij->...ij", coefficients, upper + upper.mT)
        return self.form() @ symmetric

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        return near(matrix.mT @ self.form() @ matrix, self.form().expand_as(matrix), tol)

    def __str__(self) -> str:
        return f"Sp({self.n})"


def test_a_group_of_ones_own_passes_and_meets() -> None:
    group = Symplectic(4)
    assert check_group(group).passed
    assert check_pair(group, SpecialLinear(4)).passed
    assert group <= SpecialLinear(4) < GeneralLinear(4)
    assert group.meet(Trivial(4)) == Trivial(4)
    assert not group.contains(Permutation(4))
    assert Group.from_dict(group.to_dict()) == group


def test_two_groups_of_one_name_are_told_apart_by_their_modules() -> None:
    class Twin(Signs):
        __module__ = "another_module"

    theirs = Twin(3)
    Ours = type("Twin", (Signs,), {"__qualname__": Twin.__qualname__, "__module__": __name__})
    assert type(Group.from_dict(theirs.to_dict())) is Twin
    assert type(Group.from_dict(Ours(3).to_dict())) is Ours


def test_a_group_defined_again_replaces_the_first() -> None:
    first, second = (type("Again", (Signs,), {"__module__": __name__}) for _ in range(2))
    assert type(Group.from_dict(first(3).to_dict())) is second


# -- broken groups ------------------------------------------------------------------------------


class WrongOrder(Permutation):
    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return super().compose(h, g)


class Averaging(PositiveScaling):
    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return (g + h) / 2


class WrongUnit(PositiveScaling):
    def identity(
        self,
        shape: Sequence[int] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | None = None,
    ) -> Tensor:
        return 2 * super().identity(shape, dtype, device)


class WrongInverse(GeneralLinear):
    def inverse(self, g: Tensor) -> Tensor:
        return g.mT


class Everything(Signs):
    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        return torch.ones(matrix.shape[:-2], dtype=torch.bool)


class TooLarge(GeneralLinear):
    @property
    def dim(self) -> int:
        return 2 * self.n**2

    def hat(self, coefficients: Tensor) -> Tensor:
        a, b = coefficients.chunk(2, -1)
        return super().hat(a + b)


class HalfSpeed(PositiveScaling):
    def exp(self, coefficients: Tensor) -> Tensor:
        return super().exp(coefficients / 2)


class NotClosed(GeneralLinear):
    """Symmetric matrices are no algebra: brackets of two are antisymmetric."""

    @property
    def dim(self) -> int:
        return self.n * (self.n + 1) // 2

    def hat(self, coefficients: Tensor) -> Tensor:
        upper = torch.zeros(self.dim, self.n, self.n, dtype=torch.float64)
        upper[torch.arange(self.dim), *torch.triu_indices(self.n, self.n)] = 1
        return torch.einsum("...d,dij->...ij", coefficients, (upper + upper.mT) / 2)


class FirstOnly(Monomial):
    """Scales of the first coordinate only, although permutations move it."""

    @property
    def dim(self) -> int:
        return 1

    def exp(self, coefficients: Tensor) -> Any:
        rest = coefficients.new_zeros(*coefficients.shape[:-1], self.n - 1)
        return super().exp(torch.cat([coefficients, rest], -1))

    def hat(self, coefficients: Tensor) -> Tensor:
        return Group.hat(self, coefficients)


class Leaving(Orthogonal):
    def hat(self, coefficients: Tensor) -> Tensor:
        return super().hat(coefficients).triu()


class Curved(PositiveScaling):
    def exp(self, coefficients: Tensor) -> Tensor:
        return (coefficients + coefficients**2).exp()


class Miscounted(Signs):
    @property
    def order(self) -> int:
        return int(2 ** (self.n + 1))

    @property
    def log10_order(self) -> float:
        return float((self.n + 1) * torch.log10(torch.tensor(2.0, dtype=torch.float64)))


class WrongLogarithm(Signs):
    @property
    def log10_order(self) -> float:
        return float(self.n)


class HiddenFlips(Signs):
    flips = False


class FlipsNothing(Signs):
    def flip(self, where: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        return self.identity(where.shape, dtype)


class WrongDual(PositiveScaling):
    def dual(self, g: Tensor) -> Tensor:
        return g


class WrongApply(PositiveScaling):
    def apply(self, g: Tensor, z: Tensor) -> Tensor:
        return z / g


class MixesBatch(PositiveScaling):
    def inverse(self, g: Tensor) -> Tensor:
        return 1 / g.flip(0)


class Forgetful(Signs):
    def to_dict(self) -> dict[str, Any]:
        return Signs(self.n + 1).to_dict()


BROKEN: list[tuple[Group, str]] = [
    (WrongOrder(4), "homomorphism"),
    (Averaging(3), "associativity"),
    (WrongUnit(3), "identity"),
    (WrongInverse(3), "inverse"),
    (Everything(3), "membership"),
    (TooLarge(2), "basis"),
    (HalfSpeed(3), "tangent"),
    (NotClosed(3), "brackets"),
    (FirstOnly(3), "conjugation"),
    (Leaving(3), "exponential"),
    (Curved(3), "one parameter"),
    (Miscounted(3), "components"),
    (WrongLogarithm(3), "components"),
    (HiddenFlips(3), "determinant"),
    (FlipsNothing(3), "determinant"),
    (WrongDual(3), "action"),
    (WrongApply(3), "action"),
    (MixesBatch(3), "batches"),
    (Forgetful(3), "data"),
]


@pytest.mark.parametrize(("group", "name"), BROKEN, ids=lambda x: type(x).__name__)
def test_a_broken_group_is_rejected_by_the_law_it_breaks(group: Group, name: str) -> None:
    with pytest.raises(LawError, match=f"'{name}'"):
        check_group(group)


def test_every_law_of_groups_has_a_group_that_breaks_it() -> None:
    assert {name for _, name in BROKEN} == {each.name for each in GROUP_LAWS}


# -- broken meets -------------------------------------------------------------------------------


class Meets(Monomial):
    """A group that answers questions about the lattice with whatever it was told."""

    answer: Group
    claims: bool | None = None

    def meet(self, other: Group) -> Group:
        return self.answer

    def contains(self, other: Group) -> bool:
        return super().contains(other) if self.claims is None else self.claims


class TooSmall(Meets):
    answer = Trivial(3)


class TooBig(Meets):
    answer = GeneralLinear(3)


class Overcounts(Meets):
    answer = Monomial(3)


class ClaimsAll(Meets):
    answer = Signs(3)
    claims = True


WRONG: list[tuple[Group, Group, str]] = [
    (TooSmall(3), Diagonal(3), "meet algebra"),
    (TooBig(3), Orthogonal(3), "meet inside"),
    (TooSmall(3), Signs(3), "meet largest"),
    (Overcounts(3), Permutation(3), "meet order"),
    (TooSmall(3), PositiveScaling(3), "meet algebraic"),
    (ClaimsAll(3), Orthogonal(3), "containment"),
]


@pytest.mark.parametrize(("a", "b", "name"), WRONG, ids=lambda x: str(x))
def test_a_wrong_meet_is_rejected_by_the_law_it_breaks(a: Group, b: Group, name: str) -> None:
    with pytest.raises(LawError, match=f"'{name}'"):
        check_pair(a, b)


def test_every_law_of_pairs_has_a_pair_that_breaks_it() -> None:
    assert {name for *_, name in WRONG} == {each.name for each in PAIR_LAWS}


# -- broken lattices ----------------------------------------------------------------------------


class Loner(Signs):
    """Denies containing anything, itself included."""

    def contains(self, other: Group) -> bool:
        return False


class Refuses(Signs):
    """Says that its meets cannot be expressed."""

    def meet(self, other: Group) -> Group:
        raise GroupError("no")


CROOKED: list[tuple[list[Group], str]] = [
    ([Loner(3)], "partial order"),
    ([TooSmall(3), Diagonal(3), Signs(3)], "greatest lower bound"),
    ([TooSmall(3), Diagonal(3), Signs(3)], "shared elements"),
    ([Refuses(3), Diagonal(3)], "refusals"),
]


@pytest.mark.parametrize(("groups", "name"), CROOKED, ids=[name for _, name in CROOKED])
def test_a_crooked_lattice_is_rejected_by_the_law_it_breaks(groups: list[Group], name: str) -> None:
    with pytest.raises(LawError, match=f"'{name}'"):
        check_lattice(groups)


def test_every_law_of_lattices_has_a_list_that_breaks_it() -> None:
    assert {name for _, name in CROOKED} == {each.name for each in LATTICE_LAWS}


def test_suites_grow_by_decoration() -> None:
    suite: list[Any] = []

    @law(suite, "numbers are small")
    def small(number: float) -> float:
        return abs(number)

    assert check(suite, "zero", 0.0).passed
    with pytest.raises(LawError, match=r"one breaks 'small' \(numbers are small\)"):
        check(suite, "one", 1.0)
