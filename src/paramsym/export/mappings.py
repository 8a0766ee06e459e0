"""The scales and matrices of a symmetry as sources and sinks, as quantization tools use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any

from paramsym.export.uses import Use, absorbed, cells_of, indices, places
from paramsym.network.axes import Kind
from paramsym.network.motion import Motion
from paramsym.network.symmetry import Symmetry
from paramsym.network.values import cells

MATRICES = {
    Kind.PLANE: "rotations of the plane",
    Kind.CENTRED: "orthogonal, fixing the vector of ones",
    Kind.ORTHOGONAL: "orthogonal",
    Kind.LINEAR: "of determinant 1 or -1",
}


@dataclass(frozen=True)
class Mapping:
    """What may be moved from some tensors into others.

    `kind` is "scale" (positive factors s, each use multiplied by s to its power), "rotation" or
    "mixing" (matrices of the sort `matrices`: T acts on the sources, its inverse transpose on the
    sinks; for a rotation the two are the same). `size` is the number of units.
    """

    name: str
    kind: str
    size: int
    sources: tuple[Use, ...]
    sinks: tuple[Use, ...]
    matrices: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def mappings(sym: Symmetry) -> list[Mapping]:
    """Every scale and every matrix that can be traded between tensors, each by itself exact.

    What lists of axes cannot say is left out: a scale that moves a fixed vector, a matrix that one
    axis chooses for another. Scalars are scales, so matrices come without them.

    >>> import paramsym as ps, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> (scale,) = mappings(ps.symmetries(net, torch.ones(1, 2)))
    >>> scale.kind, [use.parameter for use in scale.sources], [use.parameter for use in scale.sinks]
    ('scale', ['0.weight', '0.bias'], ['2.weight'])
    """
    left_out = absorbed(sym) | {("scale", log) for log, _ in sym.slopes.values()}
    found: list[Mapping] = []
    for part in sym.factors:
        if (part.where, part.key) in left_out:
            continue
        if part.where == "scale":
            found += _scale(sym, part.label, int(part.key))
        elif part.where == "class":
            found += _matrices(sym, part.label, int(part.key))
    return found


def _matrices(sym: Symmetry, name: str, c: int) -> list[Mapping]:
    record, where = sym.structure.classes[c], places(sym, c)
    if record.kind not in MATRICES or where is None:
        return []
    kind = "mixing" if record.kind == Kind.LINEAR else "rotation"
    result = []
    for block in indices(sym, c):
        signed = [(place.leaf.turn, place.use(block)) for place in where]
        sources, sinks = _sides(sym, signed)
        label = ".".join([name, *map(str, block)])
        result.append(Mapping(label, kind, record.size, sources, sinks, MATRICES[record.kind]))
    return result


def _scale(sym: Symmetry, name: str, var: int) -> list[Mapping]:
    size = prod(sym.structure.extent(sym.structure.scales[var].dims))
    signed: list[tuple[float, Use]] = []
    for parameter, motion in sym.motions.items():
        uses = _scaled(parameter, motion, var) if parameter in sym.shapes else ()
        if uses is None:
            return []
        signed += [(use.power, use) for use in uses]
    sources, sinks = _sides(sym, signed)
    if sources and sources[0].power < 0:
        sources, sinks = (
            tuple(replace(use, power=-use.power) for use in side) for side in (sources, sinks)
        )
    return [Mapping(name, "scale", size, sources, sinks)]


def _scaled(parameter: str, motion: Motion, var: int) -> list[Use] | None:
    """Where a scale multiplies a tensor; None where no single axis says it."""
    found: dict[Use, None] = {}
    own = {frozenset(leaf.slot for leaf in cell) for cell in cells(motion.axes)}
    for cell, block in motion.blocks.items():
        for (other, binding), power in block.scale.terms.items():
            if other != var:
                continue
            parts = (
                (axis, part)
                for axis, tree in enumerate(motion.axes)
                for part in cells_of(tree)
                if set(binding) <= part.slots <= cell
            )
            for axis, part in parts:
                alike = [c for c in own if part.slots <= c]
                term = (other, binding)
                if all(
                    c in motion.blocks and motion.blocks[c].scale.terms.get(term) == power
                    for c in alike
                ):
                    blocks = part.units(binding)
                    found[Use(parameter, axis, blocks, float(power))] = None
                    break
            else:
                return None
    return list(found)


def _sides(
    sym: Symmetry, signed: Sequence[tuple[float, Use]]
) -> tuple[tuple[Use, ...], tuple[Use, ...]]:
    """Sources and sinks: vectors (biases, gains) belong to what writes, else the first tensor."""
    sides = [tuple(use for power, use in signed if (power > 0) == up) for up in (True, False)]
    vectors = [any(len(sym.shapes[use.parameter]) == 1 for use in side) for side in sides]
    order = list(sym.shapes)
    first = [
        min((order.index(use.parameter) for use in side), default=len(order)) for side in sides
    ]
    swapped = vectors[1] if vectors[0] != vectors[1] else first[1] < first[0]
    return (sides[1], sides[0]) if swapped else (sides[0], sides[1])
