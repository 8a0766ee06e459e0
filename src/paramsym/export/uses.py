"""Where on the axes of a model's tensors the units of an index set sit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from paramsym.network.axes import Leaf, Tree, leaves, ordered
from paramsym.network.element import Factor
from paramsym.network.motion import Motion, base_dims, over_cells
from paramsym.network.symmetry import Symmetry

Blocks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Use:
    """One axis of one tensor that is moved along.

    `blocks[i]` are the positions on the axis that belong to unit i (None: unit i is position i).
    `power` is that of a scale; `gains` are the vectors, each with the number added under a square
    root and a power, in whose frame a matrix acts: z ↦ f·T(z/f) with f their product.
    """

    parameter: str
    axis: int
    blocks: Blocks | None = None
    power: float = 1.0
    gains: tuple[tuple[str, float | None, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Place:
    """One occurrence of an index set: the leaf, and the positions of its units.

    `positions` has a row of positions per unit, behind one dimension for each index set that it is
    fibred over.
    """

    parameter: str
    axis: int
    size: int
    leaf: Leaf
    positions: Tensor

    def use(self, block: tuple[int, ...] = ()) -> Use:
        """The units at one value of what the index set is fibred over."""
        gains = tuple((gain.name, gain.eps, k) for gain, k in ordered(self.leaf.frame))
        return Use(
            self.parameter, self.axis, as_blocks(self.positions[block], self.size), gains=gains
        )


class Part(NamedTuple):
    """A block of an axis of some size: its positions with a dimension per leaf, and its leaves."""

    size: int
    positions: Tensor
    leaves: tuple[Leaf, ...]

    @property
    def slots(self) -> frozenset[int]:
        """The names of its indices."""
        return frozenset(leaf.slot for leaf in self.leaves)

    def units(self, binding: Sequence[int]) -> Blocks | None:
        """The positions at every value of some of its indices."""
        names = [leaf.slot for leaf in self.leaves]
        rows = self.rows([names.index(slot) for slot in binding]).flatten(0, -2)
        return as_blocks(rows, self.size)

    def rows(self, first: Sequence[int]) -> Tensor:
        """The positions with some dimensions in front, and all others in one behind them."""
        rest = [k for k in range(self.positions.ndim) if k not in first]
        front = [self.positions.shape[k] for k in first] or [1]
        return self.positions.permute(*first, *rest).reshape(*front, -1)


def cells_of(tree: Tree) -> list[Part]:
    """The blocks of one axis."""
    found: list[Part] = []

    def note(cell: Tensor, chosen: tuple[Leaf, ...]) -> Tensor:
        found.append(Part(tree.size, cell, chosen))
        return cell

    over_cells(torch.arange(tree.size), [tree], note)
    return found


def as_blocks(rows: Tensor, size: int) -> Blocks | None:
    """A row of positions per unit; None where unit i is position i of an axis of that size."""
    whole = rows.shape == (size, 1) and torch.equal(rows[:, 0], torch.arange(size))
    return None if whole else tuple(tuple(row) for row in rows.tolist())


def places(sym: Symmetry, c: int) -> list[Place] | None:
    """Every occurrence of a class in the model's tensors.

    None where what it is fibred over lies on another axis of some tensor: what is done to one axis
    then depends on the other.
    """
    classes, found = sym.structure.classes, list[Place]()
    for name in sym.motions.keys() & sym.shapes.keys():
        for axis, tree in enumerate(sym.motions[name].axes):
            for part in cells_of(tree):
                present = {leaf.factor for leaf in part.leaves}
                for k, leaf in enumerate(part.leaves):
                    if leaf.factor != c:
                        continue
                    if not present.issuperset(classes[c].base):
                        return None
                    rows = part.rows([*base_dims(k, part.leaves, classes), k])
                    found.append(Place(name, axis, tree.size, leaf, rows))
    order = list(sym.shapes)
    return sorted(found, key=lambda place: (order.index(place.parameter), place.axis))


def indices(sym: Symmetry, c: int) -> list[tuple[int, ...]]:
    """Every value of what a class is fibred over."""
    return list(product(*(range(n) for n in sym.structure.extent(sym.structure.classes[c].base))))


def absorbed(sym: Symmetry) -> set[Factor]:
    """The factors that move fixed vectors, which biases then have to take back.

    A buffer that moves as what it is added to moves is none of them: nothing is left to take back.
    """
    found: set[Factor] = set()
    for step in sym.program.steps:
        if step.kind == "constant":
            needed = _moves(sym.constants[step.attrs["key"]])
            if step.attrs["mode"] == "buffer":
                own = sym.motions.get(step.attrs["value"]["name"])
                needed ^= _moves(own) if own is not None else set()
            found |= {(where, key) for where, key, _ in needed}
    return found


def _moves(motion: Motion) -> set[tuple[str, int, Fraction]]:
    """The classes and scales that a motion has, each scale with its powers."""
    present = [leaf.factor for axis in motion.axes for leaf in leaves(axis)]
    forms = [block.scale for block in motion.blocks.values()]
    scales = {("scale", var, power) for form in forms for (var, _), power in form.terms.items()}
    return scales | {("class", c, Fraction(1)) for c in present if c is not None}
