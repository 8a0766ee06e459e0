"""Whether tensors, in memory or in a file, are those that a symmetry acts on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from paramsym.errors import ParamsymError, ShapeError

if TYPE_CHECKING:
    from paramsym.network.symmetry import Symmetry


def canonical_of(sym: Symmetry) -> dict[str, str]:
    """Each further name of a tied tensor mapped to the one the symmetry knows it by."""
    return {alias: name for name, names in sym.aliases.items() for alias in names}


def refuse_misfit(
    sym: Symmetry, shapes: Mapping[str, Iterable[int]], needed: Iterable[str], where: str
) -> None:
    """Raise one error that lists everything missing and everything of another shape."""
    canonical = canonical_of(sym)
    found = {name: tuple(shape) for name, shape in shapes.items()}
    present = {canonical.get(name, name) for name in found}
    missing = [name for name in needed if name not in present]
    wrong = [
        f"{name} has shape {shape}, not {sym.shapes[own]}"
        for name, shape in found.items()
        if (own := canonical.get(name, name)) in sym.shapes and sym.shapes[own] != shape
    ]
    if wrong:
        raise ShapeError(
            "; ".join([*wrong, *(f"{name} is missing" for name in missing)]),
            where=where,
            remedy="pass tensors of the model that the symmetry was derived from",
        )
    if missing:
        buffers = any(name not in sym.parameters for name in missing)
        raise ParamsymError(
            f"the action moves {', '.join(missing)}, which are missing",
            where=where,
            remedy="pass the model's state_dict()" if buffers else "pass all parameters",
        )
