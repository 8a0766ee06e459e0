"""The parts of a group that respect blocks: block diagonal (`restrict`) and repeated (`core`)."""

from __future__ import annotations

import math

from paramsym.errors import GroupError
from paramsym.groups.affine import Affine
from paramsym.groups.atoms import is_atom, linear_part, meet_atoms, resized
from paramsym.groups.base import Group
from paramsym.groups.canonical import affine, product, repeated, special, wreath
from paramsym.groups.diagonal import DiagonalGroup
from paramsym.groups.product import Product
from paramsym.groups.repeated import Repeated
from paramsym.groups.special import Special
from paramsym.groups.wreath import Wreath

# -- block diagonal parts -------------------------------------------------------------------


def restrict(group: Group, points: list[int]) -> Group:
    """The part of the group that is block diagonal with boundaries at the points.

    >>> from paramsym.groups import Permutation, SpecialLinear
    >>> print(restrict(Permutation(5), [2]), restrict(SpecialLinear(5), [2]), sep=", ")
    S₂ × S₃, S(GL(2) × GL(3))
    """
    if not points:
        return group
    match group:
        case _ if is_atom(group):
            sizes = [end - start for start, end in intervals(points, group.n)]
            return product([resized(group, size) for size in sizes])
        case Affine():
            return affine(restrict(group.linear_part, points))
        case Special(inner, up_to_sign):
            return special(restrict(inner, points), up_to_sign)
        case Product(factors):
            ends = zip(factors, intervals(group.bounds, group.n), strict=True)
            return product([restrict(f, _within(points, *interval)) for f, interval in ends])
        case Repeated():
            return _restrict_repeated(group, points)
        case Wreath():
            return _restrict_wreath(group, points)
    raise GroupError(
        f"it is not known which part of {group} is block diagonal",
        remedy="keep its space in one block, or claim a smaller group",
    )


def _restrict_repeated(group: Repeated, points: list[int]) -> Group:
    """A cut through the copies of one coordinate isolates it, and ties both sides through it."""
    k, n = group.k, group.inner.n
    inner = restrict(group.inner, _edges(points, k, n))
    whole = repeated(inner, k)
    if any(point % k for point in points) and separate(whole, points) is None:
        raise GroupError(
            f"blocks with boundaries at {points} are tied to each other by the copies in {group}",
            remedy="keep the copies together, or claim a smaller group",
        )
    return whole


def _restrict_wreath(group: Wreath, points: list[int]) -> Group:
    """A block that is cut stays where it is; runs of whole blocks are permuted among themselves."""
    size = group.inner.n
    pieces: list[Group] = []
    for first, last in intervals(_edges(points, size, group.k), group.k):
        inside = _within(points, first * size, last * size)
        run = wreath(group.inner, last - first)
        pieces.append(restrict(group.inner, inside) if inside else run)
    return product(pieces)


def separate(group: Group, points: list[int]) -> list[Group] | None:
    """The independent factors between the points, None where the group has no such factors."""
    match group:
        case _ if not points:
            return [group]
        case _ if is_atom(group) and isinstance(linear_part(group), DiagonalGroup):
            return [resized(group, end - start) for start, end in intervals(points, group.n)]
        case Repeated(inner, k) if not any(point % k for point in points):
            parts = separate(inner, [point // k for point in points])
            return parts and [repeated(part, k) for part in parts]
        case Affine():
            parts = separate(group.linear_part, points)
            return parts and [affine(part) for part in parts]
        case Product():
            return _separate_product(group, points)
        case Repeated(Product(factors), k):
            return separate(Product(tuple(repeated(factor, k) for factor in factors)), points)
    return None


def _separate_product(group: Product, points: list[int]) -> list[Group] | None:
    pieces: list[Group] = []
    for factor, (start, end) in zip(group.factors, intervals(group.bounds, group.n), strict=True):
        found = separate(factor, _within(points, start, end))
        if found is None:
            return None
        pieces += found
    parts: list[list[Group]] = [[]]
    for piece in pieces:
        if sum(p.n for part in parts for p in part) in points and parts[-1]:
            parts.append([])
        parts[-1].append(piece)
    return [product(part) for part in parts]


def split(group: Group, points: list[int]) -> list[Group]:
    """The factors of the block diagonal part of the group, or an error where it has none."""
    parts = separate(restrict(group, points), points)
    if parts is None:
        raise GroupError(
            f"the blocks of {group} with boundaries at {points} depend on each other",
            remedy="keep them in one block, or claim a smaller group",
        )
    return parts


def _edges(points: list[int], size: int, count: int) -> list[int]:
    """Boundaries between cells of this size that enclose every point."""
    return sorted({edge for p in points for edge in (p // size, -(-p // size))} - {0, count})


def intervals(points: list[int], n: int) -> list[tuple[int, int]]:
    """The (start, end) of the blocks between the points."""
    return list(zip([0, *points], [*points, n], strict=True))


def _within(points: list[int], start: int, end: int) -> list[int]:
    return [point - start for point in points if start < point < end]


# -- repeated parts -------------------------------------------------------------------------


def core(group: Group, k: int) -> Group:
    """{g : g ⊗ 1ₖ ∈ group}.

    >>> from paramsym.groups import Orthogonal
    >>> print(core(Orthogonal(6), 2))
    O(3)
    """
    if k == 1:
        return group
    match group:
        case _ if is_atom(group):
            return resized(group, group.n // k)
        case Affine():
            return affine(core(group.linear_part, k))
        case Special(inner, up_to_sign):
            return special(core(inner, k), up_to_sign or k % 2 == 0)
        case Repeated(inner, m):
            both = math.lcm(k, m)
            return repeated(core(inner, both // m), both // k)
        case Wreath(inner):
            # a boundary inside the copies of a coordinate keeps its two blocks neighbours, so
            # what moves is whole runs between the boundaries common to blocks and copies
            run = math.lcm(k, inner.n)
            return wreath(core(product([inner] * (run // inner.n)), k), group.n // run)
        case Product():
            return _core_product(group, k)
    raise GroupError(
        f"it is not known which part of {group} has the form g ⊗ 1 with {k} copies",
        remedy="do not repeat its space, or claim a smaller group",
    )


def _core_product(group: Product, k: int) -> Group:
    """Factor by factor; a coordinate whose copies lie in several factors obeys all of them."""
    edges = [edge * k for edge in _edges(group.bounds, k, group.n // k)]
    points = sorted({*edges, *group.bounds})
    factors = split(group, points) if set(edges) - set(group.bounds) else group.factors
    cells: list[list[Group]] = [[]]
    for factor in factors:
        if sum(part.n for part in cells[-1]) % k == 0 and cells[-1]:
            cells.append([])
        cells[-1].append(factor)
    return product([_core_cell(cell, k) for cell in cells])


def _core_cell(cell: list[Group], k: int) -> Group:
    if len(cell) == 1:
        return core(cell[0], k)
    shared: Group | None = core(cell[0], cell[0].n)
    for part in cell[1:]:
        shared = shared and meet_atoms(shared, core(part, part.n))
    if shared is None:
        raise GroupError("groups of R^1 that are unknown here", remedy="use the monomial groups")
    return shared
