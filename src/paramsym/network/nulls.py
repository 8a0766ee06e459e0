"""Translations of whole matrices along directions that nothing reads.

A null adds ``u x d`` to a parameter: ``u`` is free, ``d`` lies along some of its axes, uniform
there, or over blocks, or a product of gains. Two nulls of one parameter, or a null and the free
shift of a bias, may share such a product; the later one then has entries that add up to zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from paramsym.network.axes import (
    PLAIN,
    Gain,
    Kind,
    Leaf,
    Product,
    Tree,
    is_split,
    leaves,
    ordered,
)
from paramsym.network.motion import (
    Block,
    Framed,
    IndexClass,
    Motion,
    Read,
    bare,
    in_frame,
    over_cells,
    without_frames,
)
from paramsym.network.sums import Reading
from paramsym.network.unseen import Along, Direction
from paramsym.network.values import cells


@dataclass(frozen=True)
class Null:
    """A free translation ``key`` of the parameter ``name`` along ``axes`` (see ``Along``).

    ``balanced`` is an axis along which the entries of ``u`` add up to zero (None: they are free),
    ``rows`` the places along the first axis at which they are free (None: at all). One that is not
    ``exact`` is seen by the outputs, but not by a loss.
    With ``read`` the direction is one that every reader of the parameter makes nothing of, up to a
    constant; without, one in which no output sees what the parameter writes.
    """

    key: str
    name: str
    axes: Mapping[int, Along]
    balanced: int | None = None
    read: bool = False
    rows: tuple[int, ...] | None = None
    exact: bool = True

    def mask(self, shape: Sequence[int]) -> Tensor | None:
        """Which entries of u are free, where not all are."""
        if self.rows is None:
            return None
        free = torch.zeros(self.own(shape), dtype=torch.bool)
        free[list(self.rows)] = True
        return free

    def own(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of u."""
        return tuple(n // self.axes[k].inner if k in self.axes else n for k, n in enumerate(shape))

    def lifted(self, u: Tensor, motion: Motion, gains: Read) -> Tensor:
        """``u`` out of the frames in which its axes are rotated."""
        axes = [
            Leaf(n, -1 - k) if k in self.axes else axis
            for k, (n, axis) in enumerate(zip(u.shape, motion.axes, strict=True))
        ]
        return over_cells(u, axes, lambda cell, at: in_frame(cell, at, gains))

    def spread(self, u: Tensor, gains: Read) -> Tensor:
        """``u x d`` in the shape of the parameter, for ``u`` lifted and gains as they are now."""
        moved = u
        for k, along in self.axes.items():
            moved = moved.repeat_interleave(along.inner, k)
        directions = [
            Leaf(n, -1 - k, frame=self.axes[k].frame) if k in self.axes else Leaf(n, -1 - k)
            for k, n in enumerate(moved.shape)
        ]
        return in_frame(moved, directions, gains)

    def removed(self, shift: Tensor, gains: Read) -> Tensor:
        """A shift of the parameter without its component along the direction."""
        along = {k: own for k, own in self.axes.items() if shift.shape[k] > 1}
        leaves_ = [
            Leaf(n, -1 - k, frame=along[k].frame if k in along else PLAIN)
            for k, n in enumerate(shift.shape)
        ]
        direction = in_frame(torch.ones_like(shift), leaves_, gains)
        mean = shift / direction
        for k, own in along.items():
            blocks = mean.unflatten(k, (-1, own.inner)).mean(k + 1)
            mean = blocks.repeat_interleave(own.inner, k)
        return shift - direction * mean

    def motion(self, motions: Mapping[str, Motion]) -> Motion | None:
        """How ``u`` is moved by the rest of an element; None where that is not known."""
        whole = motions[self.name]
        axes: list[Tree] = []
        for k, axis in enumerate(whole.axes):
            short = _shortened(axis, self.axes[k].inner) if k in self.axes else axis
            if short is None:
                return None
            axes.append(without_frames(short))
        kept = {leaf.slot for axis in axes for leaf in leaves(axis)}
        blocks: dict[frozenset[int], Block] = {}
        touched = self._touched(whole)
        for chosen in cells(whole.axes):
            cell = frozenset(leaf.slot for leaf in chosen)
            if touched is not None and cell not in touched:
                continue
            block = bare(whole.blocks.get(cell, Block()), self._framed(chosen), motions)
            if block is None:
                return None
            tied = not block.scale.slots() | block.sign.slots() <= kept
            if tied or cell & kept in blocks:
                return None
            blocks[cell & kept] = block
        return Motion(tuple(axes), {cell: block for cell, block in blocks.items() if any(block)})

    def _touched(self, whole: Motion) -> set[frozenset[int]] | None:
        """The blocks of the parameter that have some of the rows (None: all)."""
        if self.rows is None:
            return None
        shape = [axis.size for axis in whole.axes]
        where = torch.zeros(shape, dtype=torch.bool)
        where[list(self.rows)] = True
        found: set[frozenset[int]] = set()

        def note(cell: Tensor, chosen: tuple[Leaf, ...]) -> Tensor:
            if bool(cell.any()):
                found.add(frozenset(leaf.slot for leaf in chosen))
            return cell

        over_cells(where, whole.axes, note)
        return found

    def _framed(self, chosen: Sequence[Leaf]) -> list[Framed]:
        """The gains of each leaf; on the axes of the direction, its gains."""
        free = [((leaf,), leaf.frame) for leaf in chosen if leaf.axis not in self.axes]
        along = [
            ([leaf for leaf in chosen if leaf.axis == k], own.frame) for k, own in self.axes.items()
        ]
        return [*free, *along]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        axes = [
            [k, along.inner, [[gain.name, gain.eps, p] for gain, p in ordered(along.frame)]]
            for k, along in sorted(self.axes.items())
        ]
        return {**vars(self), "axes": axes}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Null:
        """The null that ``to_dict`` wrote."""
        axes = {
            k: Along(inner, frozenset((Gain(name, eps), power) for name, eps, power in frame))
            for k, inner, frame in data["axes"]
        }
        rows = None if data["rows"] is None else tuple(data["rows"])
        return cls(**{**data, "axes": axes, "rows": rows})


def unseen_nulls(name: str, directions: Iterable[Direction]) -> list[Null]:
    """The nulls of a parameter along directions that no output sees."""
    found = []
    for direction in directions:
        where = ", ".join(map(str, sorted(direction.axes)))
        key = f"{name} unseen along axis {where}" if where else f"{name} unseen"
        found.append(Null(key, name, direction.axes))
    return found


def unread_key(table: str) -> str:
    """What the null of the rows that are never looked up is called."""
    return f"{table} unread rows"


def unread_null(table: str, rows: tuple[int, ...]) -> Null:
    """The null of the rows of a table that are never looked up."""
    return Null(unread_key(table), table, {}, rows=rows)


def reading_null(reading: Reading, size: int) -> Null:
    """The null of a parameter that is contracted with what adds up to nothing."""
    frame = frozenset((gain, -power) for gain, power in reading.frame)
    along = {reading.axis: Along(size, frame)}
    return Null(reading.key, reading.name, along, read=True, rows=reading.rows)


def independent(
    nulls: Sequence[Null],
    shifted: Mapping[str, tuple[int, ...]],
    motions: Mapping[str, Motion],
    classes: Mapping[int, IndexClass],
) -> list[Null]:
    """The nulls that add something to each other and to the free shifts, nothing counted twice.

    ``shifted`` gives the shapes of the free shifts of parameters.
    """
    kept: list[Null] = []
    unread = {n.name: set(n.rows) for n in nulls if n.rows is not None and not n.read}
    for null in nulls:
        motion = motions[null.name]
        same = [other for other in kept if other.name == null.name]
        others = [other.axes for other in same if other.rows is None]
        if null.name in shifted:
            sizes = [axis.size for axis in motion.axes]
            own = enumerate(zip(shifted[null.name], sizes, strict=True))
            others.append({k: Along(n) for k, (m, n) in own if m < n})
        reduced = null if null.rows is not None else _apart(null, others, motion, classes)
        if reduced is not None and null.name in unread and null.rows is None:
            reduced = _off_rows(reduced, unread[null.name], motion.axes[0].size)
        if reduced is not None:
            kept.append(reduced)
    return kept


def _off_rows(null: Null, gone: set[int], size: int) -> Null | None:
    """The null on the rows that are looked up; one of them stands back where u adds up to zero."""
    if 0 in null.axes or null.balanced not in (None, 0):
        return null if 0 in null.axes else None
    rows = [k for k in range(size) if k not in gone]
    kept = rows if null.balanced is None else rows[1:]
    return replace(null, rows=tuple(kept), balanced=None) if kept else None


def _apart(
    null: Null,
    others: Sequence[Mapping[int, Along]],
    motion: Motion,
    classes: Mapping[int, IndexClass],
) -> Null | None:
    """The null without what another one has; None where nothing is left, or it is not known."""
    for axes in others:
        if any(axes[k] != null.axes[k] for k in axes.keys() & null.axes.keys()):
            continue
        beyond = sorted(axes.keys() - null.axes.keys())
        if not beyond:
            return None
        moving = [leaf.factor for leaf in leaves(motion.axes[beyond[0]]) if leaf.factor is not None]
        keeps_sums = all(classes[c].kind <= Kind.CENTRED for c in moving)
        if len(beyond) > 1 or null.balanced not in (None, beyond[0]) or not keeps_sums:
            return None
        null = replace(null, balanced=beyond[0])
    return null


def _shortened(tree: Tree, inner: int) -> Tree | None:
    """An axis with one entry in place of each block of neighbours, if it is made of such blocks."""
    if is_split(tree):
        return None  # its parts move on their own
    if inner == tree.size:
        return Leaf(1, next(iter(leaves(tree))).slot)
    if isinstance(tree, Leaf) and tree.factor is None:
        return replace(tree, size=tree.size // inner)
    if not isinstance(tree, Product):
        return None
    children, size = list(tree.children), 1
    while size < inner:
        size *= children.pop().size
    if size != inner:
        return None
    return children[0] if len(children) == 1 else Product(tuple(children))
