"""A tensor of the graph while a symmetry is derived: its axes, its forms, its translation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from paramsym.network.axes import (
    Leaf,
    Product,
    Tree,
    branches,
    inner_cuts,
    leaves,
    product,
)
from paramsym.network.charges import ZERO, Form, Slot

Cell = frozenset[Slot]


class Charge(NamedTuple):
    """How one block of a tensor scales: ``exp(scale) * sign``."""

    scale: Form = ZERO
    sign: Form = ZERO

    def rename(self, names: Mapping[Slot, Slot]) -> Charge:
        """The same charge with its slots called by other names."""
        return Charge(self.scale.rename(names), self.sign.rename(names))

    def plus(self, other: Charge, factor: Fraction | int = 1) -> Charge:
        """The charge of a product of two tensors, the second to an integer power."""
        return Charge(self.scale.plus(other.scale, factor), self.sign.plus(other.sign, factor))


NEUTRAL = Charge()


@dataclass(frozen=True)
class Value:
    """What the derivation knows about one tensor.

    ``node`` is its place in the graph, ``free`` tells that it depends on no parameter, ``flow`` is
    the step of its translation (None: none). ``expression`` is the step that computes it where it
    is a parameter seen through layout operations only. ``square`` is the tensor whose square
    this is, where only sums of the square are used.
    """

    axes: tuple[Tree, ...]
    charges: Mapping[Cell, Charge] = field(default_factory=dict)
    node: int = -1
    free: bool = False
    flow: int | None = None
    expression: int | None = None
    square: Value | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return tuple(axis.size for axis in self.axes)

    def leaves(self) -> Iterable[Leaf]:
        """Every leaf of every axis."""
        for axis in self.axes:
            yield from leaves(axis)

    def charge(self, chosen: Iterable[Leaf]) -> Charge:
        """The charge of the block that a choice of one branch per axis names."""
        return self.charges.get(frozenset(leaf.slot for leaf in chosen), NEUTRAL)


def cells(axes: Sequence[Tree]) -> Iterable[tuple[Leaf, ...]]:
    """The blocks of a tensor: one pure product per axis, flattened."""
    for chosen in itertools.product(*(branches(axis) for axis in axes)):
        yield tuple(itertools.chain(*chosen))


def stretched(tree: Tree, size: int) -> Tree:
    """An axis of size one broadcast to the given size."""
    if isinstance(tree, Leaf) and tree.size == 1 and size != 1:
        return replace(tree, size=size, factor=None, what="uniform")
    return tree


def conformed(tree: Tree, like: Tree, slot: Callable[[], Slot], origin: dict[Slot, Slot]) -> Tree:
    """The axis with places where nothing acts cut as the other axis is; ``origin`` is extended."""
    if isinstance(like, Leaf) or (isinstance(tree, Leaf) and tree.factor is not None):
        return tree
    if isinstance(tree, Leaf):
        return _cut_alike(tree, like, slot, origin)
    if isinstance(tree, Product) and isinstance(like, Product):
        inner = inner_cuts([c.size for c in tree.children], [c.size for c in like.children])
        cut = [
            _cut_alike(child, Product(tuple(Leaf(n, -1) for n in sizes)), slot, origin)
            if len(sizes) > 1 and isinstance(child, Leaf) and child.factor is None
            else child
            for child, sizes in zip(tree.children, inner, strict=True)
        ]
        tree = product(cut)
    if isinstance(tree, Leaf) or type(tree) is not type(like):
        return tree
    if [c.size for c in tree.children] != [c.size for c in like.children]:
        return tree
    pairs = zip(tree.children, like.children, strict=True)
    return replace(tree, children=tuple(conformed(x, y, slot, origin) for x, y in pairs))


def _cut_alike(leaf: Leaf, like: Tree, slot: Callable[[], Slot], origin: dict[Slot, Slot]) -> Tree:
    if isinstance(like, Leaf):
        new = replace(leaf, size=like.size, slot=slot())
        origin[new.slot] = leaf.slot
        return new
    return replace(
        like, children=tuple(_cut_alike(leaf, child, slot, origin) for child in like.children)
    )


def recut(value: Value, axes: Sequence[Tree], origin: Mapping[Slot, Slot]) -> Value:
    """The value on axes some of whose places were cut further; every piece keeps its charge."""
    axes = tuple(axes)
    charges = {}
    for cell in cells(axes) if value.charges else ():
        key = frozenset(leaf.slot for leaf in cell)
        charges[key] = value.charges[frozenset(origin.get(s, s) for s in key)]
    return replace(value, axes=axes, charges=charges)


def rekeyed(value: Value, axes: Sequence[Tree]) -> Value:
    """The value on axes that cut the same entries otherwise, block for block."""
    axes = tuple(axes)
    charges = {}
    if value.charges:
        for old, new in zip(cells(value.axes), cells(axes), strict=True):
            factors = [
                [leaf.slot for leaf in cell if leaf.factor is not None] for cell in (old, new)
            ]
            names = dict(zip(*factors, strict=True))
            charges[frozenset(leaf.slot for leaf in new)] = value.charge(old).rename(names)
    return replace(value, axes=axes, charges=charges)


def rename_tree(tree: Tree, names: Mapping[Slot, Slot]) -> Tree:
    """The tree with its slots called by other names."""
    if isinstance(tree, Leaf):
        return replace(tree, slot=names.get(tree.slot, tree.slot))
    return replace(tree, children=tuple(rename_tree(c, names) for c in tree.children))


def refreshed(value: Value, slot: Callable[[Slot], Slot]) -> Value:
    """The value under fresh slots, so that it can meet itself in one operation."""
    names = {leaf.slot: slot(leaf.slot) for leaf in value.leaves()}
    charges = {
        frozenset(names[s] for s in cell): charge.rename(names)
        for cell, charge in value.charges.items()
    }
    axes = tuple(rename_tree(axis, names) for axis in value.axes)
    return replace(value, axes=axes, charges=charges)


def split_axis(tree: Tree, sizes: tuple[int, ...]) -> tuple[Tree, ...] | None:
    """Distribute the children of a product over axes of the given sizes, if they fit."""
    children = list(tree.children) if isinstance(tree, Product) else [tree]
    result: list[Tree] = []
    position = 0
    for size in sizes:
        taken: list[Tree] = []
        have = 1
        while have < size and position < len(children):
            have *= children[position].size
            taken.append(children[position])
            position += 1
        if have != size:
            return None
        result.append(Leaf(1, -1) if not taken else _joined(taken))
    return tuple(result) if position == len(children) else None


def _joined(taken: list[Tree]) -> Tree:
    return taken[0] if len(taken) == 1 else Product(tuple(taken))
