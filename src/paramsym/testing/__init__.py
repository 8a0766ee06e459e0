"""Law suites for groups and rules of your own: each law is a function of what it tests.

`check_group`, `check_pair` and `check_lattice` (for groups) and `check_symmetry` (for the rules of
a model's operations) run every law they know and raise a `LawError` that names the broken ones. A
suite is a plain list, so a package that adds rules or actions adds laws with
`law(SUITE, statement)`.
"""

from paramsym.testing.draw import Draw
from paramsym.testing.group import GROUP_LAWS, check_group
from paramsym.testing.lattice import LATTICE_LAWS, check_lattice
from paramsym.testing.law import Law, LawError, LawReport, check, law
from paramsym.testing.pair import PAIR_LAWS, check_pair
from paramsym.testing.symmetry import SYMMETRY_LAWS, check_symmetry

__all__ = [
    "GROUP_LAWS",
    "LATTICE_LAWS",
    "PAIR_LAWS",
    "SYMMETRY_LAWS",
    "Draw",
    "Law",
    "LawError",
    "LawReport",
    "check",
    "check_group",
    "check_lattice",
    "check_pair",
    "check_symmetry",
    "law",
]
