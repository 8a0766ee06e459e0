"""Meets are intersections, containment is a partial order, and both agree with the matrices."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paramsym.errors import GroupError
from paramsym.groups import (
    Affine,
    Centred,
    Diagonal,
    GeneralLinear,
    Group,
    Monomial,
    Orthogonal,
    Permutation,
    PositiveMonomial,
    PositiveScaling,
    Product,
    Repeated,
    SignedPermutation,
    Signs,
    Special,
    SpecialLinear,
    SpecialOrthogonal,
    Translation,
    Trivial,
    Wreath,
)
from paramsym.testing import GROUP_LAWS, LATTICE_LAWS, PAIR_LAWS, check_lattice, check_pair
from zoo import groups as zoo

SPACES = [*(zoo.plain(n) for n in (1, 2, 3)), zoo.ON_R4, zoo.ON_R6]


each_space = pytest.mark.parametrize("space", SPACES, ids=lambda groups: f"R{groups[0].n}")


def expressible(a: Group, b: Group) -> bool:
    return frozenset({str(a.canonical()), str(b.canonical())}) not in zoo.INEXPRESSIBLE


@each_space
def test_every_pair_of_groups_obeys_the_laws_of_a_lattice(space: list[Group]) -> None:
    report = check_lattice(space)
    assert report.passed
    assert report.errors.keys() == {each.name for each in (*GROUP_LAWS, *PAIR_LAWS, *LATTICE_LAWS)}


@each_space
def test_only_known_pairs_have_no_meet(space: list[Group]) -> None:
    for a, b in itertools.combinations_with_replacement(space, 2):
        if not expressible(a, b):
            with pytest.raises(GroupError, match="intersection of"):
                a.meet(b)
        else:
            a.meet(b)


@given(st.data(), st.integers(1, 8), st.integers(0, 2**31))
def test_meet_and_containment_of_random_trees(data: st.DataObject, n: int, seed: int) -> None:
    def choose(k: int) -> int:
        return data.draw(st.integers(0, k - 1))

    a, b = (zoo.random_group(n, choose, depth=2) for _ in range(2))
    try:
        a.meet(b)
    except GroupError:
        assert not a.contains(b)
        return
    check_pair(a, b, seed=seed)


def test_few_random_pairs_are_inexpressible(fuzz_seed: int) -> None:
    draw = random.Random(fuzz_seed)
    refused = 0
    for _ in range(200):
        n = draw.choice([2, 3, 4, 6, 8])
        a, b = (zoo.random_group(n, draw.randrange, depth=3) for _ in range(2))
        try:
            a.meet(b)
        except GroupError:
            refused += 1
    assert refused <= 10


@each_space
def test_meet_is_associative(space: list[Group], fuzz_seed: int) -> None:
    draw = random.Random(fuzz_seed)
    for _ in range(300):
        a, b, c = draw.choices(space, k=3)
        if expressible(a, b) and expressible(b, c):
            try:
                left, right = a.meet(b).meet(c), a.meet(b.meet(c))
            except GroupError:
                continue
            assert left == right


MEETS = [
    (Orthogonal(4), PositiveScaling(4), Trivial(4)),
    (Orthogonal(4), Monomial(4), SignedPermutation(4)),
    (Orthogonal(4), PositiveMonomial(4), Permutation(4)),
    (Orthogonal(4), Diagonal(4), Signs(4)),
    (Orthogonal(4), Centred(4), Centred(4)),
    (Centred(4), Monomial(4), Permutation(4)),
    (Centred(4), Diagonal(4), Trivial(4)),
    (Centred(4), Product((GeneralLinear(1), GeneralLinear(3))), Product((Trivial(1), Centred(3)))),
    (SpecialOrthogonal(4), Monomial(4), Special(SignedPermutation(4))),
    (SpecialLinear(4), Permutation(4), Special(Permutation(4))),
    (SpecialLinear(4), Orthogonal(4), SpecialOrthogonal(4)),
    (PositiveMonomial(4), SignedPermutation(4), Permutation(4)),
    (Affine(4), GeneralLinear(4), GeneralLinear(4)),
    (Affine(4), Translation(4), Translation(4)),
    (Affine(4, Orthogonal(4)), Affine(4, Monomial(4)), Affine(4, SignedPermutation(4))),
    (GeneralLinear(4), Translation(4), Trivial(4)),
    (Wreath(GeneralLinear(2), 2), Monomial(4), Wreath(Monomial(2), 2)),
    (Wreath(GeneralLinear(2), 2), PositiveScaling(4), PositiveScaling(4)),
    (Wreath(GeneralLinear(2), 2), Repeated(GeneralLinear(2), 2), Repeated(Monomial(2), 2)),
    (SpecialLinear(4), Repeated(Diagonal(1), 4), Repeated(Signs(1), 4)),
    (
        Product((GeneralLinear(1), GeneralLinear(3))),
        Product((GeneralLinear(3), GeneralLinear(1))),
        Product((Diagonal(1), GeneralLinear(2), Diagonal(1))),
    ),
    (
        Product((GeneralLinear(2), SpecialLinear(3))),
        Product((GeneralLinear(3), GeneralLinear(2))),
        Product((GeneralLinear(2), Special(Product((Diagonal(1), GeneralLinear(2)))))),
    ),
]


@pytest.mark.parametrize(("a", "b", "expected"), MEETS, ids=str)
def test_known_meets(a: Group, b: Group, expected: Group) -> None:
    assert a.meet(b) == expected
    assert b.meet(a) == expected


SAME = [
    (GeneralLinear(1), Diagonal(1)),
    (SpecialOrthogonal(1), Trivial(1)),
    (Wreath(Signs(1), 5), SignedPermutation(5)),
    (Wreath(Affine(1), 3), Affine(3, Monomial(3))),
    (Wreath(Trivial(3), 2), Repeated(Permutation(2), 3)),
    (Wreath(Repeated(Orthogonal(2), 3), 2), Repeated(Wreath(Orthogonal(2), 2), 3)),
    (Product((Signs(2), Signs(3))), Signs(5)),
    (Product((Affine(2), Affine(3))), Affine(5, Product((GeneralLinear(2), GeneralLinear(3))))),
    (Repeated(Product((Signs(1), Orthogonal(2))), 2), Special(
        Product((Repeated(Signs(1), 2), Repeated(Orthogonal(2), 2)))
    )),
    (Special(Product((GeneralLinear(2), PositiveScaling(1), PositiveScaling(1)))), Special(
        Product((GeneralLinear(2), PositiveScaling(2)))
    )),
    (Special(PositiveMonomial(2)), Special(PositiveScaling(2))),
    (Special(Wreath(SpecialLinear(3), 2)), Product((SpecialLinear(3), SpecialLinear(3)))),
    (Special(Product((PositiveScaling(1), Wreath(PositiveScaling(3), 2)))), Special(
        PositiveScaling(7)
    )),
    (Special(Product((Affine(2, PositiveMonomial(2)), PositiveScaling(1)))), Special(
        Product((Affine(2, PositiveScaling(2)), PositiveScaling(1)))
    )),
    (Special(Product((Signs(1), Repeated(Signs(1), 3)))), Repeated(Signs(1), 4)),
    (Affine(3, SpecialLinear(3)), Special(Affine(3))),
    (
        Special(Product((Permutation(3), Signs(1), Trivial(2)))),
        Product((Special(Product((Permutation(3), Signs(1)))), Trivial(2))),
    ),
    (
        Special(Product((GeneralLinear(2), Diagonal(2), Orthogonal(2)))),
        Special(
            Product(
                (
                    Special(Product((GeneralLinear(2), Diagonal(2))), up_to_sign=True),
                    Orthogonal(2),
                )
            )
        ),
    ),
    (Special(Special(GeneralLinear(3), up_to_sign=True)), SpecialLinear(3)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SAME, ids=str)
def test_equal_groups_have_one_canonical_form(a: Group, b: Group) -> None:
    assert a.canonical() == b.canonical()
    assert a <= b <= a
    assert not a < b


def test_operators_order_subgroups() -> None:
    assert Permutation(3) < Orthogonal(3) < GeneralLinear(3) < Affine(3)
    assert not Orthogonal(3) <= PositiveScaling(3)
    assert Affine(3) >= Translation(3)


def test_groups_of_different_spaces_do_not_meet() -> None:
    with pytest.raises(GroupError, match=r"R\^2.*R\^3"):
        Signs(2).meet(Signs(3))
    assert not GeneralLinear(3).contains(Trivial(2))


def test_coupled_blocks_are_refused_with_a_remedy() -> None:
    a = Product((GeneralLinear(2), SpecialLinear(4)))
    with pytest.raises(GroupError, match="claim a smaller group"):
        a.meet(Repeated(GeneralLinear(2), 3))


def test_meets_at_width_ten_thousand_need_no_matrices() -> None:
    n = 10_000
    assert not Trivial(n).contains(Permutation(n))
    assert Orthogonal(n).meet(Monomial(n)) == SignedPermutation(n)
    assert Wreath(GeneralLinear(100), 100).meet(PositiveMonomial(n)) == Wreath(
        PositiveMonomial(100), 100
    )
    assert PositiveMonomial(n) <= GeneralLinear(n)


def test_containment_does_not_hang_on_the_normal_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """A meet of full dimension and index one is the whole group, whatever it is written as."""
    swap = Wreath(SpecialLinear(3), 2)
    monkeypatch.setattr("paramsym.groups.lattice.canonical", lambda group: group)
    assert Product((SpecialLinear(3), SpecialLinear(3))).contains(Special(swap))
    assert not Product((SpecialLinear(3), SpecialLinear(3))).contains(swap)


def test_membership_judges_each_scale_by_itself() -> None:
    scales = torch.tensor([1e-12, 1.0, 1e12], dtype=torch.float64)
    assert PositiveScaling(3).is_member(torch.diag(scales))
    assert PositiveMonomial(3).is_member(torch.diag(scales).roll(1, 0))
    assert not PositiveScaling(3).is_member(torch.diag(-scales))
    off = torch.diag(scales)
    off[0, 1] = 1e-12
    assert not Monomial(3).is_member(off)


@pytest.mark.parametrize("group", zoo.ON_R4, ids=str)
def test_membership_refuses_a_generic_matrix_unless_all_are_allowed(group: Group) -> None:
    generator = torch.Generator().manual_seed(0)
    generic = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    assert bool(group.is_member(generic)) == group.contains(GeneralLinear(4))
