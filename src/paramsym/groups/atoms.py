"""Atoms: families that exist in every dimension and whose blocks are of the same family.

GL, O, what of O fixes the ones, the monomial groups, and these with translations.
"""

from __future__ import annotations

from dataclasses import replace

from paramsym.errors import GroupError
from paramsym.groups.affine import Affine, Translation
from paramsym.groups.base import Group
from paramsym.groups.canonical import affine, canonical
from paramsym.groups.centred import Centred
from paramsym.groups.diagonal import Trivial
from paramsym.groups.general_linear import GeneralLinear
from paramsym.groups.monomial import sparse
from paramsym.groups.orthogonal import Orthogonal
from paramsym.groups.sparse import SparseGroup


def is_atom(group: Group) -> bool:
    """GL, O, O fixing the ones, a monomial group, or one of these with translations."""
    return isinstance(linear_part(group), GeneralLinear | Orthogonal | Centred | SparseGroup)


def resized(atom: Group, n: int) -> Group:
    """The atom of the same family on Rⁿ."""
    if isinstance(atom, Affine):
        return affine(resized(atom.linear_part, n))
    if not isinstance(atom, GeneralLinear | Orthogonal | Centred | SparseGroup | Translation):
        raise GroupError(f"{atom} has no counterpart on R^{n}")
    return canonical(replace(atom, n=n))


def linear_part(group: Group) -> Group:
    """What is left of an affine atom without its translations."""
    match group:
        case Affine():
            return group.linear_part
        case Translation(n):
            return Trivial(n)
    return group


def meet_atoms(a: Group, b: Group) -> Group | None:
    """Linear parts meet; translations remain where both have them. None unless both are atoms."""
    if not (is_atom(a) and is_atom(b)):
        return None
    part = _linear_atoms(linear_part(a), linear_part(b))
    return affine(part) if a.affine and b.affine else part


def _linear_atoms(a: Group, b: Group) -> Group:
    match a, b:
        case (GeneralLinear(), other) | (other, GeneralLinear()):
            return other
        case SparseGroup(n), SparseGroup():
            scales, permuted = a.scales and b.scales, a.permuted and b.permuted
            return sparse(n, a.signs and b.signs, scales, permuted)
        case (SparseGroup(n) as group, Centred()) | (Centred(), SparseGroup(n) as group):
            return sparse(n, False, False, group.permuted)
        case (Orthogonal(), other) | (other, Orthogonal()) if isinstance(other, Centred):
            return other
        case (SparseGroup(n) as group, _) | (_, SparseGroup(n) as group):
            return sparse(n, group.signs, False, group.permuted)
    return a
