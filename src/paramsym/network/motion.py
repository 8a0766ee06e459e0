"""How one tensor moves, as data: its axes, and the scales and signs of its blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from paramsym.network.axes import (
    PLAIN,
    Frame,
    Gain,
    Kind,
    Leaf,
    Product,
    Sum,
    Tree,
    leaves,
    ordered,
)
from paramsym.network.charges import Form
from paramsym.network.values import Cell, cells

Read = Callable[[str], Tensor]


@dataclass(frozen=True)
class IndexClass:
    """One index set: its size, what acts on it, and the index sets that it is fibred over."""

    size: int
    kind: Kind
    base: tuple[int, ...]
    origin: str
    reason: str


class Block(NamedTuple):
    """What multiplies one block of a tensor: ``exp(scale) * sign``."""

    scale: Form = Form()
    sign: Form = Form()


class Moves(Protocol):
    """What a motion asks of a group element."""

    @property
    def classes(self) -> Mapping[int, Tensor]: ...

    @property
    def scales(self) -> Mapping[int, Tensor]: ...

    @property
    def signs(self) -> Mapping[int, Tensor]: ...


@dataclass(frozen=True)
class Motion:
    """A tensor's axes as trees of index sets, and what multiplies every block.

    ``inverted`` is the sign under which a learned slope a becomes 1/a.
    """

    axes: tuple[Tree, ...]
    blocks: Mapping[Cell, Block] = field(default_factory=dict)
    inverted: Form | None = None

    def is_still(self, classes: Mapping[int, IndexClass]) -> bool:
        """Whether no element moves this tensor."""
        moving = any(
            leaf.factor is not None and classes[leaf.factor].kind > Kind.FIXED
            for axis in self.axes
            for leaf in leaves(axis)
        )
        charged = any(any(block) for block in self.blocks.values())
        return not moving and not charged and self.inverted is None

    def is_moved_by(self, g: Moves) -> bool:
        """Whether an element holds anything that moves this tensor."""
        forms = [self.inverted, *(form for block in self.blocks.values() for form in block)]
        named = {var for form in forms if form is not None for var, _ in form.terms}
        factors = {leaf.factor for axis in self.axes for leaf in leaves(axis)}
        scaled = not named.isdisjoint(g.scales) or not named.isdisjoint(g.signs)
        return scaled or not factors.isdisjoint(g.classes)

    def gains(self, classes: Mapping[int, IndexClass]) -> set[str]:
        """The vectors in whose frames this tensor is rotated."""
        return {
            gain.name
            for axis in self.axes
            for leaf in leaves(axis)
            if leaf.factor is not None and classes[leaf.factor].kind > Kind.PERMUTATION
            for gain, _ in leaf.frame
        }

    def apply(
        self, tensor: Tensor, g: Moves, classes: Mapping[int, IndexClass], read: Read
    ) -> Tensor:
        """The tensor moved by ``g``; ``read`` gives the vectors that frames and slopes name."""
        return _Application(self, g, classes, read).run(tensor)

    def log_scale(self, shape: Sequence[int], g: Moves, like: Tensor) -> Tensor:
        """The exponents that the scales of the blocks add up to, in the shape of the tensor."""

        def of_cell(cell: Tensor, chosen: tuple[Leaf, ...]) -> Tensor:
            block = self.blocks.get(frozenset(x.slot for x in chosen), Block())
            return read_form(block.scale, g.scales, chosen, cell)

        return over_cells(like.new_zeros(()).expand(tuple(shape)), self.axes, of_cell)


@dataclass(frozen=True)
class _Application:
    motion: Motion
    g: Moves
    classes: Mapping[int, IndexClass]
    read: Read

    def run(self, tensor: Tensor) -> Tensor:
        moved = over_cells(tensor, self.motion.axes, self._cell)
        if self.motion.inverted is None:
            return moved
        return over_cells(moved, self.motion.axes, self._inverted)

    def _cell(self, cell: Tensor, chosen: tuple[Leaf, ...]) -> Tensor:
        rotated = [leaf if self._rotates(leaf) else replace(leaf, frame=PLAIN) for leaf in chosen]
        cell = in_frame(cell, rotated, self.read, -1)
        for k in _outer_first(chosen, self.classes):
            cell = act_on(cell, k, chosen, self.g.classes, self.classes)
        cell = in_frame(cell, rotated, self.read)
        block = self.motion.blocks.get(frozenset(leaf.slot for leaf in chosen))
        return cell if block is None else self._multiplied(cell, block, chosen)

    def _rotates(self, leaf: Leaf) -> bool:
        return leaf.factor is not None and self.classes[leaf.factor].kind > Kind.PERMUTATION

    def _multiplied(self, cell: Tensor, block: Block, chosen: tuple[Leaf, ...]) -> Tensor:
        if block.scale:
            cell = cell * read_form(block.scale, self.g.scales, chosen, cell).exp()
        if block.sign:
            cell = cell * read_signs(block.sign, self.g.signs, chosen, cell)
        return cell

    def _inverted(self, cell: Tensor, chosen: tuple[Leaf, ...]) -> Tensor:
        assert self.motion.inverted is not None
        sign = read_signs(self.motion.inverted, self.g.signs, chosen, cell)
        return torch.where(sign < 0, 1 / cell, cell)


def in_frame(cell: Tensor, chosen: Sequence[Leaf], read: Read, sign: int = 1) -> Tensor:
    """A block multiplied by the gains of its leaves, each to its power times ``sign``."""
    for k, leaf in enumerate(chosen):
        for gain, power in ordered(leaf.frame):
            values = gain_values(gain, read).to(cell.dtype)
            cell = cell * along(values, k, cell.ndim) ** (sign * power)
    return cell


# Some leaves of a block that stand for one vector, and the gains in front of them.
Framed = tuple[Sequence[Leaf], Frame]


def bare(block: Block, framed: Iterable[Framed], motions: Mapping[str, Motion]) -> Block | None:
    """What multiplies a block in the frames of its leaves, where gains do not show.

    What scales the block may scale the gains in front of it as well. None where a gain is cut in
    another way than the axis that it scales.
    """
    scale, sign = block
    for chosen, frame in framed:
        for gain, power in ordered(frame):
            own = motions.get(gain.name)
            if own is None or gain.eps is not None:
                continue
            its = _laid_along(own, [leaf for leaf in chosen if leaf.size > 1])
            if its is None:
                return None
            scale = scale.plus(its.scale, -power)
            sign = sign.plus(its.sign, power)
    return Block(scale, Form({term: c % 2 for term, c in sign.terms.items() if c % 2}))


def _laid_along(vector: Motion, leaves_: Sequence[Leaf]) -> Block | None:
    """What multiplies a vector where it lies along the given leaves, by their slots."""
    for chosen in cells(vector.axes):
        own = [leaf for leaf in chosen if leaf.size > 1]
        whole = len(own) == len(leaves_) == 1
        if whole or [(x.size, x.factor) for x in own] == [(x.size, x.factor) for x in leaves_]:
            names = {x.slot: y.slot for x, y in zip(own, leaves_, strict=True)}
            block = vector.blocks.get(frozenset(leaf.slot for leaf in chosen), Block())
            return Block(block.scale.rename(names), block.sign.rename(names))
    return None


def along(vector: Tensor, dim: int, rank: int) -> Tensor:
    """A vector laid along one dimension of a tensor of the given rank."""
    return vector.reshape([-1 if k == dim else 1 for k in range(rank)])


def gain_values(gain: Gain, read: Read) -> Tensor:
    """The entries of a gain."""
    values = read(gain.name).flatten()
    return values if gain.eps is None else (values + gain.eps).sqrt()


def over_cells(
    tensor: Tensor, axes: Sequence[Tree], function: Callable[[Tensor, tuple[Leaf, ...]], Tensor]
) -> Tensor:
    """Apply a function to every block of a tensor, one dimension per leaf, and reassemble."""
    for k, tree in enumerate(axes):
        if isinstance(tree, Product):
            sizes = [child.size for child in tree.children]
            inner = (*axes[:k], *tree.children, *axes[k + 1 :])
            result = over_cells(tensor.unflatten(k, sizes), inner, function)
            return result.flatten(k, k + len(sizes) - 1)
        if isinstance(tree, Sum):
            return _over_sum(tensor, k, tree, axes, function)
    return function(tensor, tuple(axes))  # type: ignore[arg-type]


def _over_sum(
    tensor: Tensor,
    k: int,
    tree: Sum,
    axes: Sequence[Tree],
    function: Callable[[Tensor, tuple[Leaf, ...]], Tensor],
) -> Tensor:
    parts = []
    for child, places in zip(tree.children, tree.places, strict=True):
        where = torch.tensor(places, device=tensor.device)
        inner = (*axes[:k], child, *axes[k + 1 :])
        parts.append(over_cells(tensor.index_select(k, where), inner, function))
    order = torch.tensor(list(itertools.chain(*tree.places)), device=tensor.device)
    return torch.cat(parts, k).index_select(k, order.argsort())


def _outer_first(chosen: Sequence[Leaf], classes: Mapping[int, IndexClass]) -> list[int]:
    """The dimensions on which something acts, what others are fibred over first."""
    moving = [
        k
        for k, leaf in enumerate(chosen)
        if leaf.factor is not None and classes[leaf.factor].kind > Kind.FIXED
    ]
    return sorted(moving, key=lambda k: len(classes[chosen[k].factor or 0].base))


def base_dims(k: int, chosen: Sequence[Leaf], classes: Mapping[int, IndexClass]) -> list[int]:
    """For a leaf, the dimensions that carry the index sets it is fibred over.

    On its own axis, if they are there (rows and columns of one matrix may both be blocks), else
    the nearest.
    """
    leaf = chosen[k]
    assert leaf.factor is not None
    dims = []
    for base in classes[leaf.factor].base:
        found = [j for j, other in enumerate(chosen) if other.factor == base]
        dims.append(min(found, key=lambda j: (chosen[j].axis != leaf.axis, abs(j - k))))
    return dims


def act_on(
    cell: Tensor,
    k: int,
    chosen: Sequence[Leaf],
    elements: Mapping[int, Tensor],
    classes: Mapping[int, IndexClass],
) -> Tensor:
    """Let the element of leaf ``k`` act on dimension ``k`` of a block."""
    leaf = chosen[k]
    assert leaf.factor is not None
    if leaf.factor not in elements:
        return cell
    element, bases = elements[leaf.factor], base_dims(k, chosen, classes)
    if classes[leaf.factor].kind == Kind.PERMUTATION:
        return permute_along(cell, k, element, bases)
    matrix = element.to(cell.dtype)
    if leaf.turn < 0 and classes[leaf.factor].kind == Kind.LINEAR:
        matrix = torch.linalg.inv(matrix).mT
    return multiply_along(cell, k, matrix, bases)


def permute_along(cell: Tensor, k: int, order: Tensor, bases: Sequence[int]) -> Tensor:
    """``z[.., i, ..] -> z[.., order[base indices, i], ..]``."""
    if not bases:
        return cell.index_select(k, order)
    dims = [*bases, k]
    source = sorted(range(len(dims)), key=lambda j: dims[j])
    index = order.permute(source)
    shape = [cell.shape[j] if j in dims else 1 for j in range(cell.ndim)]
    return cell.gather(k, index.reshape(shape).expand(cell.shape))


def multiply_along(cell: Tensor, k: int, matrix: Tensor, bases: Sequence[int]) -> Tensor:
    """``z[.., j, ..] -> sum_j matrix[base indices, i, j] z[.., j, ..]``."""
    inputs = list(range(cell.ndim))
    fresh = cell.ndim
    outputs = [fresh if j == k else j for j in inputs]
    return torch.einsum(matrix, [*bases, fresh, k], cell, inputs, outputs)


def read_form(
    form: Form, values: Mapping[int, Tensor], chosen: Sequence[Leaf], cell: Tensor
) -> Tensor:
    """``sum_k c_k v_k`` at every entry of a block."""
    total = cell.new_zeros(())
    for (var, binding), coefficient in form.terms.items():
        if var in values:
            spread = _spread(values[var], binding, chosen, cell)
            total = total + spread.to(cell.dtype) * float(coefficient)
    return total.expand(cell.shape)


def read_signs(
    form: Form, values: Mapping[int, Tensor], chosen: Sequence[Leaf], cell: Tensor
) -> Tensor:
    """The product of sign variables at every entry of a block."""
    total = cell.new_ones(())
    for var, binding in form.terms:
        if var in values:
            total = total * _spread(values[var], binding, chosen, cell).to(cell.dtype)
    return total.expand(cell.shape)


def _spread(values: Tensor, binding: Sequence[int], chosen: Sequence[Leaf], cell: Tensor) -> Tensor:
    """A variable's values along the dimensions that its slots name."""
    dims = [next(k for k, leaf in enumerate(chosen) if leaf.slot == slot) for slot in binding]
    order = sorted(range(len(dims)), key=lambda j: dims[j])
    shape = [cell.shape[k] if k in dims else 1 for k in range(cell.ndim)]
    return values.permute(order).reshape(shape)


def narrowed(motion: Motion, shape: tuple[int, ...]) -> Motion:
    """The motion of a tensor that is constant along the axes where the shape is one."""
    axes = tuple(
        Leaf(1, next(iter(leaves(axis))).slot) if n == 1 and axis.size > 1 else axis
        for n, axis in zip(shape, motion.axes, strict=True)
    )
    kept = {leaf.slot for axis in axes for leaf in leaves(axis)}
    return Motion(axes, {cell & kept: block for cell, block in motion.blocks.items()})


# plain data ---------------------------------------------------------------------------------------


def tree_to_dict(tree: Tree) -> Any:
    """An axis as plain JSON types."""
    if isinstance(tree, Leaf):
        frame = [[gain.name, gain.eps, power] for gain, power in ordered(tree.frame)]
        return {
            "size": tree.size,
            "slot": tree.slot,
            "class": tree.factor,
            "turn": tree.turn,
            "frame": frame,
            "what": tree.what,
            "axis": tree.axis,
        }
    children = [tree_to_dict(child) for child in tree.children]
    if isinstance(tree, Sum):
        return {"sum": children, "places": [list(place) for place in tree.places]}
    return {"product": children}


def tree_from_dict(data: Mapping[str, Any]) -> Tree:
    """The axis that ``tree_to_dict`` wrote."""
    if "product" in data:
        return Product(tuple(tree_from_dict(child) for child in data["product"]))
    if "sum" in data:
        children = tuple(tree_from_dict(child) for child in data["sum"])
        return Sum(children, tuple(tuple(place) for place in data["places"]))
    frame = frozenset((Gain(name, eps), power) for name, eps, power in data["frame"])
    return Leaf(
        data["size"],
        data["slot"],
        data["class"],
        data["turn"],
        frame,
        data["what"],
        data["axis"],
    )


def form_to_list(form: Form) -> list[Any]:
    """A form as a list of [variable, slots, coefficient]."""
    return [[var, list(binding), str(c)] for (var, binding), c in sorted(form.terms.items())]


def form_from_list(data: Sequence[Any]) -> Form:
    """The form that ``form_to_list`` wrote."""
    return Form({(var, tuple(binding)): Fraction(c) for var, binding, c in data})


def block_to_dict(cell: Cell, block: Block) -> dict[str, Any]:
    """A block as plain JSON types."""
    return {
        "slots": sorted(cell),
        "scale": form_to_list(block.scale),
        "sign": form_to_list(block.sign),
    }


def block_from_dict(data: Mapping[str, Any]) -> tuple[Cell, Block]:
    """The block that ``block_to_dict`` wrote."""
    block = Block(form_from_list(data["scale"]), form_from_list(data["sign"]))
    return frozenset(data["slots"]), block


def motion_to_dict(motion: Motion) -> dict[str, Any]:
    """A motion as plain JSON types."""
    return {
        "axes": [tree_to_dict(axis) for axis in motion.axes],
        "blocks": [block_to_dict(cell, block) for cell, block in motion.blocks.items()],
        "inverted": None if motion.inverted is None else form_to_list(motion.inverted),
    }


def motion_from_dict(data: Mapping[str, Any]) -> Motion:
    """The motion that ``motion_to_dict`` wrote."""
    inverted = None if data["inverted"] is None else form_from_list(data["inverted"])
    blocks = dict(block_from_dict(block) for block in data["blocks"])
    return Motion(tuple(tree_from_dict(axis) for axis in data["axes"]), blocks, inverted)


def without_frames(tree: Tree) -> Tree:
    """The axis as it would be without gains."""
    if isinstance(tree, Leaf):
        return replace(tree, frame=frozenset())
    return replace(tree, children=tuple(without_frames(child) for child in tree.children))
