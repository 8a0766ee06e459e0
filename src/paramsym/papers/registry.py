"""Every claim of every paper folder, and the selection of some of them by name."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module

from paramsym.errors import ClaimError
from paramsym.papers.claim import Claim

_REGISTERED: dict[str, Claim] = {}


def register(claim: Claim) -> None:
    """Add a claim; the same id for another function is an error, a reloaded module is not."""
    known = _REGISTERED.get(claim.id)
    if known is not None and _home(known) != _home(claim):
        raise ClaimError(
            f"{claim.id} is registered twice",
            where=f"{_home(known)} and {_home(claim)}",
            remedy="rename one of them",
        )
    _REGISTERED[claim.id] = claim


def _home(claim: Claim) -> str:
    return f"{claim.measure.__module__}.{getattr(claim.measure, '__qualname__', '')}"


@cache
def _import_papers() -> None:
    package = import_module("paramsym.papers")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)


def all_claims() -> tuple[Claim, ...]:
    """The claims of all paper folders, sorted by id, and those registered by hand."""
    _import_papers()
    return tuple(_REGISTERED[id] for id in sorted(_REGISTERED))


def select(
    selection: str | Sequence[str] | None = None, claims: Iterable[Claim] | None = None
) -> tuple[Claim, ...]:
    """The claims a selection names: nothing (all), a paper, a claim, a pattern, or several.

    >>> [claim.id for claim in select("flat_minima/theorem-3-3-h*")]
    ['flat_minima/theorem-3-3-homogeneous']
    """
    pool = tuple(all_claims() if claims is None else claims)
    if selection is None:
        return pool
    patterns = (selection,) if isinstance(selection, str) else tuple(selection)
    wanted: set[str] = set()
    for pattern in patterns:
        found = {claim.id for claim in pool if _matches(pattern, claim)}
        if not found:
            raise _unknown(pattern, pool)
        wanted |= found
    return tuple(claim for claim in pool if claim.id in wanted)


def _matches(pattern: str, claim: Claim) -> bool:
    pattern = pattern.rstrip("/")
    return claim.paper == pattern or fnmatchcase(claim.id, pattern)


def _unknown(pattern: str, pool: tuple[Claim, ...]) -> ClaimError:
    papers = sorted({claim.paper for claim in pool})
    names = papers + [claim.id for claim in pool]
    near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.5)
    # A bare claim name without its paper is the most likely slip.
    near += [c.id for c in pool if pattern and pattern in c.id and c.id not in near][:3]
    remedy = f"did you mean {', '.join(near)}?" if near else f"papers here: {', '.join(papers)}"
    return ClaimError(f"no claim matches {pattern!r}", remedy=remedy)
