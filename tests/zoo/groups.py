"""Groups the laws are tested on: several spaces, every family, and families inside families."""

from __future__ import annotations

from collections.abc import Callable

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


def plain(n: int) -> list[Group]:
    """One of each family that exists on every Rⁿ."""
    linear = (
        *(Trivial, Signs, PositiveScaling, Diagonal, Permutation, SignedPermutation),
        *(PositiveMonomial, Monomial, Centred, Orthogonal, SpecialOrthogonal, SpecialLinear),
        GeneralLinear,
    )
    affine = [Translation(n), Affine(n), Affine(n, Permutation(n)), Affine(n, Orthogonal(n))]
    return [family(n) for family in linear] + affine


ON_R4: list[Group] = [
    *plain(4),
    Special(Permutation(4)),
    Special(Signs(4)),
    Special(SignedPermutation(4)),
    Special(PositiveScaling(4)),
    Special(Monomial(4)),
    Special(GeneralLinear(4), up_to_sign=True),
    Product((GeneralLinear(2), GeneralLinear(2))),
    Product((GeneralLinear(1), GeneralLinear(3))),
    Product((GeneralLinear(3), Signs(1))),
    Product((SpecialLinear(3), Trivial(1))),
    Product((Orthogonal(2), PositiveMonomial(2))),
    Product((Permutation(3), PositiveScaling(1))),
    Product((Translation(1), Orthogonal(3))),
    Product((Trivial(2), Affine(2))),
    Special(Product((GeneralLinear(2), Orthogonal(2)))),
    Repeated(GeneralLinear(2), 2),
    Repeated(Permutation(2), 2),
    Repeated(Diagonal(1), 4),
    Repeated(SpecialLinear(2), 2),
    Repeated(Affine(2), 2),
    Repeated(Product((Signs(1), PositiveScaling(1))), 2),
    Wreath(GeneralLinear(2), 2),
    Wreath(Orthogonal(2), 2),
    Product((Trivial(1), Centred(3))),
    Special(Centred(4)),
    Wreath(SpecialLinear(2), 2),
    Wreath(Monomial(2), 2),
    Wreath(Permutation(2), 2),
    Wreath(Translation(2), 2),
    Wreath(Repeated(Diagonal(1), 2), 2),
    Wreath(Product((Translation(1), Signs(1))), 2),
    Special(Wreath(GeneralLinear(2), 2)),
]

ON_R6: list[Group] = [
    *plain(6),
    Product((GeneralLinear(2), SpecialLinear(4))),
    Product((Permutation(3), Orthogonal(3))),
    Product((GeneralLinear(4), Translation(2))),
    Repeated(GeneralLinear(2), 3),
    Repeated(GeneralLinear(3), 2),
    Repeated(Permutation(3), 2),
    Repeated(Special(GeneralLinear(2), up_to_sign=True), 3),
    Wreath(GeneralLinear(2), 3),
    Wreath(GeneralLinear(3), 2),
    Wreath(Orthogonal(3), 2),
    Wreath(Centred(3), 2),
    Repeated(Centred(3), 2),
    Wreath(Repeated(Signs(1), 2), 3),
    Wreath(Product((GeneralLinear(2), PositiveScaling(1))), 2),
    Product((Wreath(GeneralLinear(1), 2), Wreath(GeneralLinear(2), 2))),
    Product((Repeated(Orthogonal(2), 2), Repeated(PositiveScaling(1), 2))),
]

SMALL: list[Group] = [*plain(1), *plain(2), *plain(3)]

NESTED: list[Group] = [
    Wreath(Wreath(PositiveMonomial(2), 2), 2),
    Wreath(Product((Orthogonal(2), Repeated(Affine(1), 2))), 2),
    Repeated(Wreath(GeneralLinear(2), 2), 2),
    Product((Wreath(Special(Permutation(3)), 2), Product((Signs(1), Translation(2))))),
    Special(Product((Wreath(Signs(1), 3), Repeated(GeneralLinear(2), 2)))),
    Affine(6, Wreath(Orthogonal(2), 3)),
]

ALL: list[Group] = [*SMALL, *ON_R4, *ON_R6, *NESTED]

# Pairs whose meet no type here can hold: blocks of 2 and of 3 only share a reversal of their
# common boundaries, and a determinant over 1 + 3 copies weighs two scales differently.
INEXPRESSIBLE: set[frozenset[str]] = {
    frozenset({"GL(2) ≀ S₃", "GL(3) ≀ S₂"}),
    frozenset({"GL(2) ≀ S₃", "O(3) ≀ S₂"}),
    frozenset({"GL(2) ≀ S₃", "O(3)₁ ≀ S₂"}),
    frozenset({"GL(2) ≀ S₃", "(GL(2) × R₊) ≀ S₂"}),
    frozenset({"GL(2) × SL(4)", "GL(2) ⊗ 1₃"}),
    frozenset({"GL(2) × SL(4)", "SL±(2) ⊗ 1₃"}),
}


def random_group(n: int, choose: Callable[[int], int], depth: int = 2) -> Group:
    """A random tree of families on Rⁿ; choose(k) picks a number below k."""
    divisors = [k for k in range(2, n + 1) if n % k == 0]
    kind = choose(7 if depth else 1)
    if kind == 1 and n > 1:
        size = 1 + choose(n - 1)
        sides = (size, n - size)
        return Product(tuple(random_group(side, choose, depth - 1) for side in sides))
    if kind in (2, 3) and divisors:
        k = divisors[choose(len(divisors))]
        inner = random_group(n // k, choose, depth - 1)
        return Wreath(inner, k) if kind == 2 else Repeated(inner, k)
    if kind == 4:
        return Special(random_group(n, choose, depth - 1), up_to_sign=bool(choose(2)))
    if kind == 5:
        part = random_group(n, choose, depth - 1)
        return part if part.affine else Affine(n, part)
    families = plain(n)
    return families[choose(len(families))]
