"""What makes a meet an intersection, and containment an inclusion."""

from __future__ import annotations

from itertools import product

import torch

from paramsym.groups import Group
from paramsym.numerics import matrix_rank
from paramsym.testing.draw import COUNTABLE, SCALE, Draw, representatives, share
from paramsym.testing.law import LawReport, Suite, check, law

PAIR_LAWS: Suite = []


def check_pair(a: Group, b: Group, seed: int = 0, trials: int = 32) -> LawReport:
    """Test the meet of two groups and their containment against elements and algebras.

    >>> from paramsym.groups import Monomial, Orthogonal
    >>> check_pair(Monomial(3), Orthogonal(3)).passed
    True
    """
    return check(PAIR_LAWS, f"{a}  ∩  {b}", a, b, Draw(seed, trials))


@law(PAIR_LAWS, "the algebra of the meet has the dimension of the algebras' intersection")
def meet_algebra(a: Group, b: Group, draw: Draw) -> float:
    together = torch.cat([draw.algebra(a), draw.algebra(b)])
    rank = int(matrix_rank(together)) if len(together) else 0
    return abs(a.meet(b).dim - (a.dim + b.dim - rank))


@law(PAIR_LAWS, "elements of the meet are in both")
def meet_inside(a: Group, b: Group, draw: Draw) -> float:
    meet = a.meet(b)
    return max(share(~draw.inside(group, meet)) for group in (a, b))


@law(PAIR_LAWS, "elements of one that are in the other are in the meet")
def meet_largest(a: Group, b: Group, draw: Draw) -> float:
    meet, worst = a.meet(b), 0.0
    for (x, y), scale in product(((a, b), (b, a)), (0.0, SCALE)):
        missing = draw.inside(y, x, scale) & ~draw.inside(meet, x, scale)
        worst = max(worst, share(missing))
    return worst


@law(PAIR_LAWS, "the meet of a finite group has as many elements as both have in common")
def meet_order(a: Group, b: Group, draw: Draw) -> float:
    for x, y in ((a, b), (b, a)):
        if x.dim == 0 and x.order <= COUNTABLE:
            common = int(y.is_member(representatives(x, draw.seed)).sum())
            return abs(a.meet(b).order - common)
    return 0.0


@law(PAIR_LAWS, "a ∩ b = b ∩ a, (a ∩ b) ∩ b = a ∩ b, and both contain it")
def meet_algebraic(a: Group, b: Group, draw: Draw) -> float:
    meet = a.meet(b)
    held = b.meet(a) == meet == meet.meet(b) and a.contains(meet) and b.contains(meet)
    return float(not held)


@law(PAIR_LAWS, "a contains b exactly if all elements of b are in a")
def containment(a: Group, b: Group, draw: Draw) -> float:
    right = (x.contains(y) == bool(draw.inside(x, y).all()) for x, y in ((a, b), (b, a)))
    return float(not all(right))


__all__ = ["PAIR_LAWS", "check_pair"]
