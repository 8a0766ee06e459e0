"""Intersections of groups, and which contains which.

Everything reduces to four questions: what of a group is block diagonal (`restrict`), what of it is
repeated (`core`), what of it permutes blocks, and how atoms (GL, O, monomial groups, and these
with translations) meet.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import lru_cache

from paramsym.errors import GroupError
from paramsym.groups.affine import Affine, Translation
from paramsym.groups.atoms import is_atom, linear_part, meet_atoms, resized
from paramsym.groups.base import Group
from paramsym.groups.blocks import core, restrict, separate, split
from paramsym.groups.canonical import affine, canonical, product, repeated, special, wreath
from paramsym.groups.diagonal import DiagonalGroup
from paramsym.groups.product import Product
from paramsym.groups.repeated import Repeated
from paramsym.groups.special import Special
from paramsym.groups.wreath import Wreath

_WITNESSES = 32  # random elements that decide containment where no rule applies


@lru_cache(maxsize=2**12)  # groups are immutable, and the rules ask for the same parts again
def meet(a: Group, b: Group) -> Group:
    """The intersection in canonical form, or an error where no group of ours equals it."""
    if a.n != b.n:
        raise GroupError(
            f"{a} acts on R^{a.n} and {b} on R^{b.n}: they have no meet",
            remedy="bring both to one space with Product, Repeated or Wreath",
        )
    a, b = canonical(a), canonical(b)
    if a == b:
        return a
    for rule in (_affine, _special, _repeated, _special_factors, _product, _wreath, meet_atoms):
        for x, y in ((a, b), (b, a)):
            with suppress(GroupError):  # another rule may get further
                found = rule(x, y)
                if found is not None:
                    return found
    for x, y in ((a, b), (b, a)):
        if _holds_samples(x, y):
            return y
    raise _inexpressible(a, b)


def contains(a: Group, b: Group) -> bool:
    """Whether b ⊂ a, that is a ∩ b = b."""
    if a.n != b.n:
        return False
    try:
        common = meet(a, b)
    except GroupError:  # a smaller group is always expressible as itself
        return False
    return common == canonical(b) or _fills(common, b)


def _fills(part: Group, whole: Group) -> bool:
    """Whether a subgroup is everything: as large, and of an index below two, which is one."""
    index = whole.log10_order - part.log10_order
    return part.dim == whole.dim and index < math.log10(2) / 2


def _holds_samples(a: Group, b: Group) -> bool:
    """Whether random elements of b lie in a: each one outside a proper subgroup at odds ≥ 1/2.

    One after the other: the first usually decides, and a wide group has room for few matrices.
    """
    witnesses = (b.matrix(b.sample(seed, scale=1 / b.n)) for seed in range(_WITNESSES))
    return all(bool(a.is_member(witness)) for witness in witnesses)


def _inexpressible(a: Group, b: Group) -> GroupError:
    return GroupError(
        f"the intersection of {a} and {b} is not a product, repetition or wreath of known groups",
        remedy="split the space along the blocks both have, or claim a smaller group",
    )


# -- rules: None where they do not apply ----------------------------------------------------


def _affine(a: Group, b: Group) -> Group | None:
    """(L ⋉ Rⁿ) ∩ B = L ∩ B for linear B, and translations remain where both have all."""
    if not isinstance(a, Affine | Translation):
        return None
    if not b.affine:
        return meet(linear_part(a), b)
    both = isinstance(b, Affine | Translation)
    return affine(meet(linear_part(a), linear_part(b))) if both else None


def _special(a: Group, b: Group) -> Group | None:
    """S(G) ∩ B = S(G ∩ B)."""
    return special(meet(a.inner, b), a.up_to_sign) if isinstance(a, Special) else None


def _special_factors(a: Group, b: Group) -> Group | None:
    """The same for the factors of a product, which G ∩ B respects."""
    if not isinstance(a, Product) or not any(isinstance(f, Special) for f in a.factors):
        return None
    free = [f.inner if isinstance(f, Special) else f for f in a.factors]
    parts = split(meet(product(free), b), a.bounds)
    return product(
        [
            special(part, f.up_to_sign) if isinstance(f, Special) else part
            for f, part in zip(a.factors, parts, strict=True)
        ]
    )


def _repeated(a: Group, b: Group) -> Group | None:
    """(G ⊗ 1) ∩ B = (G ∩ {g : g ⊗ 1 ∈ B}) ⊗ 1."""
    return repeated(meet(a.inner, core(b, a.k)), a.k) if isinstance(a, Repeated) else None


def _product(a: Group, b: Group) -> Group | None:
    """(G × H) ∩ B, factor by factor in the block diagonal part of B."""
    if not isinstance(a, Product):
        return None
    inside = restrict(b, a.bounds)
    parts = separate(inside, a.bounds)
    if parts is not None:
        return product([meet(f, part) for f, part in zip(a.factors, parts, strict=True)])
    return meet(a, inside) if inside != b else None


def _wreath(a: Group, b: Group) -> Group | None:
    """Blocks permuted by a: finer blocks nest into coarser ones, atoms are the same on each."""
    if not isinstance(a, Wreath):
        return None
    size = a.inner.n
    if isinstance(b, Wreath):
        inside, rest = divmod(b.inner.n, size)
        return wreath(meet(b.inner, wreath(a.inner, inside)), b.k) if rest == 0 else None
    if not is_atom(b):
        return None
    block = meet(a.inner, resized(b, size))
    fixed = isinstance(linear_part(b), DiagonalGroup)
    return product([block] * a.k) if fixed else wreath(block, a.k)
