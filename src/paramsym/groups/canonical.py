"""One normal form per set of maps, so that equal groups are equal data.

Special moves inward where it can, Repeated outward, products are flat, and blocks of size one
become monomial groups. Each function below takes groups already in normal form.
"""

from __future__ import annotations

import math

from paramsym.groups.affine import Affine, Translation
from paramsym.groups.base import Group
from paramsym.groups.centred import Centred
from paramsym.groups.diagonal import Diagonal, DiagonalGroup, PositiveScaling, Signs, Trivial
from paramsym.groups.general_linear import GeneralLinear
from paramsym.groups.monomial import sparse
from paramsym.groups.orthogonal import Orthogonal
from paramsym.groups.permutation import Permutation
from paramsym.groups.product import Product
from paramsym.groups.repeated import Repeated
from paramsym.groups.sparse import SparseGroup
from paramsym.groups.special import Special
from paramsym.groups.wreath import Wreath


def canonical(group: Group) -> Group:
    """The same set of maps in normal form.

    >>> from paramsym.groups import Signs, Wreath
    >>> print(canonical(Wreath(Signs(1), 4)))
    {±1}⁴ ⋊ S₄
    """
    match group:
        case Special(inner, up_to_sign):
            return special(canonical(inner), up_to_sign)
        case Repeated(inner, k):
            return repeated(canonical(inner), k)
        case Wreath(inner, k):
            return wreath(canonical(inner), k)
        case Product(factors):
            return product([canonical(factor) for factor in factors])
        case Affine():
            return affine(canonical(group.linear_part))
        case GeneralLinear(1):
            return Diagonal(1)
        case Orthogonal(1):
            return Signs(1)
        case Centred(1):
            return Trivial(1)
        case Centred(2):
            return Permutation(2)
        case SparseGroup(n=1):
            return sparse(1, group.signs, group.scales, permuted=False)
    return group


def affine(part: Group) -> Group:
    """part ⋉ Rⁿ."""
    match part:
        case Trivial(n):
            return Translation(n)
        case Product(factors):
            return product([affine(factor) for factor in factors])
        case Special(inner, up_to_sign):
            return special(affine(inner), up_to_sign)
        case Wreath(inner, k):
            return wreath(affine(inner), k)
    return Affine(part.n, part)


def repeated(group: Group, k: int) -> Group:
    """group ⊗ 1ₖ."""
    match group:
        case Trivial(n):
            return Trivial(n * k)
        case Repeated(inner, m):
            return Repeated(inner, m * k)
    return group if k == 1 else Repeated(group, k)


def wreath(inner: Group, k: int) -> Group:
    """inner ≀ Sₖ."""
    match inner:
        case _ if k == 1:
            return inner
        case Trivial(n):
            return repeated(Permutation(k), n)
        case Repeated(core, m):
            return repeated(wreath(core, k), m)
        case DiagonalGroup(n=1):
            return sparse(k, inner.signs, inner.scales, permuted=True)
        case Translation(1):
            return Affine(k, Permutation(k))
        case Affine(1, DiagonalGroup() as part):
            return Affine(k, wreath(part, k))
    return Wreath(inner, k)


# -- products ------------------------------------------------------------------------------


def product(factors: list[Group]) -> Group:
    """The direct product: flat, neighbours merged, the common multiplicity taken out."""
    flat: list[Group] = []
    for factor in factors:
        for part in _flat(factor):
            merged = _merged(flat[-1], part) if flat else None
            flat = [*flat, part] if merged is None else [*flat[:-1], merged]
    if len(flat) == 1:
        return flat[0]
    common = math.gcd(*map(_multiplicity, flat))
    if common == 1:
        return Product(tuple(flat))
    return Repeated(Product(tuple(_divided(factor, common) for factor in flat)), common)


def _flat(factor: Group) -> list[Group]:
    match factor:
        case Product(factors):
            return list(factors)
        case Repeated(Product(factors), k):
            return [repeated(part, k) for part in factors]
    return [factor]


def _merged(a: Group, b: Group) -> Group | None:
    """a × b as one group of the same kind, where groups of that kind are products."""
    match a, b:
        case DiagonalGroup(), DiagonalGroup() if type(a) is type(b):
            return type(a)(a.n + b.n)
        case Translation(n), Translation(m):
            return Translation(n + m)
        case Affine(), Affine():
            part = _merged(a.linear_part, b.linear_part)
            return part and Affine(part.n, part)
        case Repeated(x, k), Repeated(y, m) if k == m:
            inner = _merged(x, y)
            return inner and Repeated(inner, k)
    return None


def _multiplicity(group: Group) -> int:
    match group:
        case Trivial(n):
            return n
        case Repeated(_, k):
            return k
    return 1


def _divided(group: Group, k: int) -> Group:
    """The group whose k-fold repetition is the given one."""
    match group:
        case Repeated(inner, m):
            return repeated(inner, m // k)
    return Trivial(group.n // k)


# -- determinants --------------------------------------------------------------------------


def special(group: Group, up_to_sign: bool = False) -> Group:
    """{g : det g = 1}, or |det g| = 1."""
    if not has_volume(group) and (up_to_sign or not group.flips):
        return group
    up_to_sign = up_to_sign and group.flips
    match group:
        case Special(inner, outer):
            return special(inner, up_to_sign and outer)
        case Repeated(inner, k):
            return repeated(special(inner, up_to_sign or k % 2 == 0), k)
        case Product(factors):
            return _special_product(list(factors), up_to_sign)
        case Affine():
            part = special(group.linear_part, up_to_sign)
            if part != Special(group.linear_part, up_to_sign):
                return affine(part)
        case DiagonalGroup(n=1):
            return sparse(1, group.signs and up_to_sign, False, permuted=False)
        case Signs(2):  # two equal signs
            return Repeated(Signs(1), 2)
    upright = None if up_to_sign else _upright(group)
    return Special(group, up_to_sign) if upright is None else special(upright)


def _special_product(factors: list[Group], up_to_sign: bool) -> Group:
    """A condition on a product of determinants, on the fewest neighbouring factors.

    Absolute values come first: they concern the factors that have volume, whatever the others.
    """
    growing = [i for i, factor in enumerate(factors) if has_volume(factor)]
    flipping = [i for i, factor in enumerate(factors) if factor.flips]
    involved = growing or flipping
    first, last = involved[0], involved[-1] + 1
    if last - first < len(factors):
        part = special(product(factors[first:last]), up_to_sign or bool(growing))
        return special(product([*factors[:first], part, *factors[last:]]), up_to_sign)
    if len(factors) == 2 and all(f == repeated(Signs(1), f.n) for f in factors):
        return Repeated(Signs(1), factors[0].n + factors[1].n)  # two equal signs again
    if len(flipping) == 1 and not up_to_sign:  # nothing can compensate its sign
        only = factors[flipping[0]]
        upright = _upright(only) if has_volume(only) else special(only)
        if upright is not None:
            factors[flipping[0]] = upright
            return special(product(factors))
    return Special(product(factors), up_to_sign)


def _upright(group: Group) -> Group | None:
    """{g : det g > 0} where it has a name that does not say so."""
    match group:
        case Diagonal(1):
            return PositiveScaling(1)
        case SparseGroup(n=2, signs=False, permuted=True):  # a swap is all that flips
            return sparse(2, False, group.scales, permuted=False)
        case Wreath(inner, 2) if inner.n % 2 and not inner.flips:
            return product([inner, inner])
        case Repeated(inner, k):
            upright = _upright(inner)
            return upright and repeated(upright, k)
        case Affine():
            upright = _upright(group.linear_part)
            return upright and affine(upright)
    return None


def has_volume(group: Group) -> bool:
    """Whether determinants take more values than ±1."""
    return bool(group.traces.any())
