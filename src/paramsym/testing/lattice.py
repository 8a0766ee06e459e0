"""What makes a list of groups on one space a lattice: order, bounds, and every law of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement, product

import torch

from paramsym.errors import GroupError
from paramsym.groups import Group
from paramsym.testing.draw import SCALE, Draw, share
from paramsym.testing.group import GROUP_LAWS
from paramsym.testing.law import LawReport, Suite, check, law, worst
from paramsym.testing.pair import PAIR_LAWS

LATTICE_LAWS: Suite = []


def check_lattice(groups: Sequence[Group], seed: int = 0, trials: int = 16) -> LawReport:
    """Test every group, every meet, every pair and all of them together.

    Each group and each meet obeys the laws of groups, each pair those of pairs; and what lies in
    two groups lies in their meet, element by element and group by group. Pairs whose meet no type
    of group can hold are left out, and neither of the two may contain the other.

    >>> from paramsym.groups import Monomial, Orthogonal, Permutation
    >>> check_lattice([Monomial(3), Orthogonal(3), Permutation(3)]).passed
    True
    """
    draw, meets = Draw(seed, trials), expressible_meets(groups)
    reports = [check(LATTICE_LAWS, f"the lattice of {len(groups)} groups", groups, draw)]
    for group in dict.fromkeys((*groups, *meets.values())):
        reports.append(check(GROUP_LAWS, str(group), group, Draw(seed, trials)))
    for a, b in meets:
        reports.append(check(PAIR_LAWS, f"{a}  ∩  {b}", a, b, draw))
    return worst(f"{len(groups)} groups, {len(meets)} pairs", reports)


def expressible_meets(groups: Sequence[Group]) -> dict[tuple[Group, Group], Group]:
    """The meet of every pair that has one here."""
    meets = {}
    for a, b in combinations_with_replacement(groups, 2):
        try:
            meets[a, b] = a.meet(b)
        except GroupError:
            continue
    return meets


@law(LATTICE_LAWS, "≤ is reflexive and transitive, and what is ≤ both ways has one normal form")
def partial_order(groups: Sequence[Group], draw: Draw) -> float:
    below = {(a, b): b.contains(a) for a, b in product(groups, repeat=2)}
    pairs = [pair for pair, inside in below.items() if inside]
    reflexive = all(below[group, group] for group in groups)
    transitive = all(below[a, c] for a, b in pairs for c in groups if below[b, c])
    antisymmetric = all(a.canonical() == b.canonical() for a, b in pairs if below[b, a])
    return float(not (reflexive and transitive and antisymmetric))


@law(LATTICE_LAWS, "a group that lies in two others lies in their meet, and no other one does")
def greatest_lower_bound(groups: Sequence[Group], draw: Draw) -> float:
    holds = cache(lambda large, small: large.contains(small))
    bounds = product(expressible_meets(groups).items(), groups)
    right = (holds(m, c) == (holds(a, c) and holds(b, c)) for ((a, b), m), c in bounds)
    return float(not all(right))


@law(LATTICE_LAWS, "an element of any of the groups is in a meet exactly if it is in both")
def shared_elements(groups: Sequence[Group], draw: Draw) -> float:
    pool = torch.cat([draw.matrices(c, scale) for c in groups for scale in (0.0, SCALE)])
    inside = cache(lambda group: group.is_member(pool))
    meets = expressible_meets(groups).items()
    return max(share((inside(a) & inside(b)) ^ inside(meet)) for (a, b), meet in meets)


@law(LATTICE_LAWS, "a meet is refused only where neither group contains the other")
def refusals(groups: Sequence[Group], draw: Draw) -> float:
    refused = set(combinations_with_replacement(groups, 2)) - set(expressible_meets(groups))
    return float(any(draw.inside(x, y).all() for a, b in refused for x, y in ((a, b), (b, a))))


__all__ = ["LATTICE_LAWS", "check_lattice"]
