"""What may be added to a tensor of the graph without any output noticing.

A layer norm does not see the mean of what comes in, a softmax no number that is the same along its
axis. Read backwards from there, through everything linear, such *unseen directions* reach the
parameters: the bias of the keys, the mean of all that is written to a residual stream.

A direction says along which axes the added tensor must be uniform (or proportional to a product of
gains); along all others it is free. The set of them at a node is what all its readers ignore.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paramsym.network.axes import PLAIN, Frame, Gain, frame_plus
from paramsym.network.graph import Graph, Node, Ref, grouping
from paramsym.network.idioms import VIEWS, centred_axes, vector_name

# More alternatives than this at one node are not followed: the ones found first are enough.
MOST = 4


class Along(NamedTuple):
    """How a direction lies on one axis: uniform over blocks of ``inner`` entries, times gains."""

    inner: int
    frame: Frame = PLAIN


@dataclass(frozen=True)
class Direction:
    """All tensors that are uniform along the named axes, up to gains, and arbitrary along others.

    >>> print(Direction({1: Along(6)}))
    uniform along 1
    """

    axes: Mapping[int, Along]

    def __hash__(self) -> int:
        return hash(frozenset(self.axes.items()))

    def __str__(self) -> str:
        return "uniform along " + ", ".join(map(str, sorted(self.axes)))

    def contains(self, other: Direction) -> bool:
        """Whether every tensor of the other direction is one of this."""
        return all(
            axis in other.axes
            and other.axes[axis].frame == own.frame
            and other.axes[axis].inner % own.inner == 0
            for axis, own in self.axes.items()
        )

    def meet(self, other: Direction) -> Direction | None:
        """The tensors of both, if these are a direction."""
        axes = dict(self.axes)
        for axis, its in other.axes.items():
            own = axes.get(axis, its)
            if own.frame != its.frame:
                return None
            axes[axis] = Along(math.lcm(own.inner, its.inner), own.frame)
        return Direction(axes)


Directions = tuple[Direction, ...]
NOTHING: Directions = ()
EVERYTHING: Directions = (Direction({}),)
Pull = Callable[[Graph, Node, int, Directions], Directions]

_PULLS: dict[str, Pull] = {}


class Unseen:
    """The unseen directions of every node, computed from the outputs backwards.

    ``last`` adds the direction of the last axis at each output: what a loss that starts with a
    softmax does not see.

    >>> import torch
    >>> from paramsym.network.trace import trace
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softmax(-1))
    >>> graph = trace(net, torch.zeros(1, 2))
    >>> print(*Unseen(graph, graph.outputs)[0])
    uniform along 0
    """

    def __init__(self, graph: Graph, outputs: Iterable[int], *, last: bool = False) -> None:
        self.graph = graph
        self.outputs = frozenset(outputs)
        self.last = last
        self._found: dict[int, Directions] = {}
        for node in reversed(graph.nodes):
            self._found[node.index] = self._of(node)

    def __getitem__(self, index: int) -> Directions:
        return self._found[index]

    def _of(self, node: Node) -> Directions:
        found = EVERYTHING
        if node.index in self.outputs:
            last = len(node.shape or ()) - 1
            seen = not self.last or last < 0
            found = () if seen else (_uniform(node.shape or (), [last]),)
        users = [self.graph.nodes[user] for user in self.graph.users(node.index)]
        centre = self._centring(node, users)
        for user in users:
            if not found:
                break
            if centre is not None and user.index in centre.members:
                pulled: Directions = (centre.direction,)
            else:
                pulled = self._through(user, node.index)
            found = _both(found, pulled)
        return found

    def _through(self, user: Node, index: int) -> Directions:
        """What one reader ignores of a node."""
        places = [k for k, arg in enumerate(user.args) if arg == Ref(index)]
        inside = [arg for arg in user.args if isinstance(arg, (tuple, list)) and Ref(index) in arg]
        pull = _PULLS.get(user.op)
        times = len(places) + sum(list(arg).count(Ref(index)) for arg in inside)
        if pull is None or times != 1 or user.shape is None:
            return NOTHING
        after = self._found[user.index]
        place = places[0] if places else -1 - list(inside[0]).index(Ref(index))
        return _kept(pull(self.graph, user, place, after))

    def _centring(self, node: Node, users: Sequence[Node]) -> _Centring | None:
        """The readers that together subtract the node's own mean from it."""
        for user in users:
            axes = centred_axes(self.graph, user)
            if axes is None:
                continue
            mean = user.args[1].index
            readers = self.graph.users(mean)
            if all(centred_axes(self.graph, self.graph.nodes[k]) == axes for k in readers):
                direction = _uniform(node.shape or (), axes)
                return _Centring(frozenset({mean, *readers}), direction)
        return None


class _Centring(NamedTuple):
    members: frozenset[int]
    direction: Direction


def _both(a: Directions, b: Directions) -> Directions:
    return _kept(d for x in a for y in b if (d := x.meet(y)) is not None)


def _kept(found: Iterable[Direction]) -> Directions:
    """The largest directions, each once, the first few of them."""
    result: list[Direction] = []
    for new in found:
        if not any(old.contains(new) for old in result):
            result = [old for old in result if not new.contains(old)] + [new]
    return tuple(result[:MOST])


def _uniform(shape: Sequence[int], axes: Iterable[int]) -> Direction:
    return Direction({axis: Along(shape[axis]) for axis in axes if shape[axis] > 1})


def _shape(graph: Graph, node: Node, place: int) -> tuple[int, ...]:
    """The shape of an argument; a negative place counts in the list that comes first."""
    ref = node.args[0][-1 - place] if place < 0 else node.args[place]
    return graph.nodes[ref.index].shape or ()


# -- rules: what an operation ignores of an argument, given what is ignored of its result ----------


def _pull(*names: str) -> Callable[[Pull], Pull]:
    def register(function: Pull) -> Pull:
        for name in names:
            _PULLS[name] = function
        return function

    return register


@_pull("aten.layer_norm.default")
def _layer_norm(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """The mean of what comes in; of the bias, what is ignored of the result."""
    shape = _shape(graph, node, 0)
    if place == 0:
        first = len(shape) - len(node.args[1])
        return (_uniform(shape, range(first, len(shape))),)
    return _broadcast(graph, node, place, after) if place == 3 else NOTHING


@_pull("aten.group_norm.default")
def _group_norm(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """The mean of each group of channels over all pixels."""
    if place != 0:
        return NOTHING
    shape = _shape(graph, node, 0)
    pixels = _uniform(shape, range(2, len(shape))).axes
    inner = shape[1] // node.args[1]
    return (Direction({**pixels, 1: Along(inner)} if inner > 1 else pixels),)


@_pull("aten.instance_norm.default")
def _instance_norm(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """The mean of each channel over all pixels."""
    shape = _shape(graph, node, 0)
    return (_uniform(shape, range(2, len(shape))),) if place == 0 and node.args[5] else NOTHING


@_pull("aten.softmax.int", "aten.log_softmax.int")
def _softmax(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """Whatever is the same along the axis; a single entry may have had neighbours."""
    shape = _shape(graph, node, 0)
    axis = node.args[1] % len(shape)
    return (_uniform(shape, [axis]),) if shape[axis] > 1 else NOTHING


@_pull("aten.scaled_dot_product_attention.default")
def _attention(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """A shift of all keys, or of a row of the mask, adds a constant to each row of scores."""
    if place not in (1, 3) or node.args[4]:
        return NOTHING
    shape = _shape(graph, node, place)
    axis = len(shape) - (2 if place == 1 else 1)
    return (_uniform(shape, [axis]),) if shape[axis] > 1 else NOTHING


@_pull("aten.var.correction", "aten.std.correction")
def _deviation(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """The mean."""
    shape = _shape(graph, node, 0)
    return (_uniform(shape, [d % len(shape) for d in node.args[1] or range(len(shape))]),)


@_pull(
    "aten.add.Tensor",
    "aten.sub.Tensor",
    "aten.neg.default",
    "aten.expand.default",
)
def _broadcast(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """Where an argument is broadcast it is uniform anyway."""
    shape, out = _shape(graph, node, place), node.shape or ()
    offset = len(out) - len(shape)
    return tuple(d for x in after if (d := _narrowed(x, shape, offset)) is not None)


def _narrowed(direction: Direction, shape: tuple[int, ...], offset: int) -> Direction | None:
    axes: dict[int, Along] = {}
    for axis, along in direction.axes.items():
        own = axis - offset
        if own >= 0 and shape[own] > 1:
            axes[own] = along
        elif along.frame:
            return None
    return Direction(axes)


@_pull("aten._to_copy.default")
def _converted(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """A floating type for another changes nothing."""
    floating = node.dtype is not None and node.dtype.is_floating_point
    return after if floating else NOTHING


@_pull("aten.mul.Tensor", "aten.div.Tensor")
def _scaled(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """Multiplied by a number, by something uniform along the direction, or by a gain."""
    power = -1 if node.op == "aten.div.Tensor" else 1
    if place == 1 and power == -1:
        return NOTHING
    other = node.args[1 - place]
    if not isinstance(other, Ref):
        return _broadcast(graph, node, place, after)
    shape, out = _shape(graph, node, 1 - place), node.shape or ()
    varying = {k + len(out) - len(shape) for k, n in enumerate(shape) if n > 1}
    gain = vector_name(graph, other.index)
    found = []
    for direction in after:
        met = varying & direction.axes.keys()
        if met and (gain is None or met != varying):
            continue
        axes = dict(direction.axes)
        for axis in met:
            (inner, frame) = axes[axis]
            axes[axis] = Along(inner, frame_plus(frame, frozenset({(Gain(gain or ""), 1)}), -power))
        found.append(Direction(axes))
    return _broadcast(graph, node, place, tuple(found))


@_pull("aten.permute.default")
def _permuted(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """The same axes in another order."""
    dims = node.args[1]
    return tuple(Direction({dims[k]: own for k, own in d.axes.items()}) for d in after)


@_pull(*VIEWS)
def _viewed(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """Axes are merged and cut: uniform along the last of several is uniform over blocks."""
    groups = grouping(_shape(graph, node, 0), node.shape or ())
    found = (_regrouped(d, groups, _shape(graph, node, 0), node.shape or ()) for d in after)
    return tuple(d for d in found if d is not None)


def _regrouped(
    direction: Direction,
    groups: list[tuple[list[int], list[int]]],
    before: tuple[int, ...],
    after: tuple[int, ...],
) -> Direction | None:
    axes: dict[int, Along] = {}
    for ins, outs in groups:
        named = {k: direction.axes[k] for k in outs if k in direction.axes}
        if not named:
            continue
        sizes = [k for k in ins if before[k] > 1], [k for k in outs if after[k] > 1]
        if len(sizes[0]) == len(sizes[1]) == 1:
            axes[sizes[0][0]] = named[sizes[1][0]]
            continue
        block = _trailing(named, outs, after)
        if block is None:
            return None
        for k in reversed(ins):
            if block == 1:
                break
            inner = math.gcd(before[k], block)
            axes[k] = Along(inner)
            if inner < before[k] and inner != block:
                return None
            block //= inner
    return Direction({k: own for k, own in axes.items() if own.inner > 1})


def _trailing(
    named: Mapping[int, Along], outs: Sequence[int], after: tuple[int, ...]
) -> int | None:
    """The number of neighbouring entries that are alike, if the direction is no more than that."""
    block, ended = 1, False
    for k in reversed(outs):
        own = named.get(k, Along(1))
        if own.frame or (ended and own.inner > 1):
            return None
        ended = ended or own.inner < after[k]
        block *= own.inner
    return block


@_pull("aten.slice.Tensor")
def _sliced(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """A part of something uniform is uniform; what is cut by blocks or gains is not followed."""
    axis, size = node.args[1] % len(node.shape or (1,)), _shape(graph, node, 0)[node.args[1]]
    found = []
    for d in after:
        own = d.axes.get(axis)
        if own is None:
            found.append(d)
        elif own == Along((node.shape or (1,))[axis]):
            found.append(Direction({**d.axes, axis: Along(size)}))
    return tuple(found)


@_pull("aten.index_select.default")
def _picked(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """Along the axis that is picked from, entries may be read many times or not at all."""
    axis = node.args[1] % len(node.shape or (1,))
    return tuple(d for d in after if axis not in d.axes) if place == 0 else NOTHING


@_pull("aten.select.int")
def _selected(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """The other axes keep their order."""
    gone = node.args[1] % (len(node.shape or ()) + 1)
    return tuple(Direction({k + (k >= gone): own for k, own in d.axes.items()}) for d in after)


@_pull("aten.cat.default")
def _joined(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """Each part alone may move where the direction does not tie it to the others."""
    axis = node.args[1] % len(node.shape or (1,))
    return tuple(d for d in after if axis not in d.axes)


@_pull("aten.linear.default")
def _linear(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """x[.., i] w[o, i] + b[o]."""
    if place == 2:
        return _broadcast(graph, node, 2, after)
    batch = [f"t{k}" for k in range(len(node.shape or ()) - 1)]
    return _contracted(graph, node, place, after, [[*batch, "i"], ["o", "i"]], [*batch, "o"])


@_pull("aten.matmul.default")
def _multiplied(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """a[.., m, k] b[.., k, n], for tensors of equal rank."""
    shapes = [_shape(graph, node, k) for k in (0, 1)]
    if len(shapes[0]) != len(shapes[1]) or len(shapes[0]) < 2:
        return NOTHING
    batch = [f"t{k}" for k in range(len(shapes[0]) - 2)]
    terms = [[*batch, "m", "k"], [*batch, "k", "n"]]
    return _contracted(graph, node, place, after, terms, [*batch, "m", "n"])


@_pull("aten.einsum.default")
def _einsum(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """Any sum of products of two tensors."""
    inputs, _, output = node.args[0].replace(" ", "").partition("->")
    terms = [list(term) for term in inputs.split(",")]
    if "." in inputs or any(len(set(term)) < len(term) for term in terms):
        return NOTHING
    return (
        NOTHING if len(terms) != 2 else _contracted(graph, node, place, after, terms, list(output))
    )


def _contracted(
    graph: Graph,
    node: Node,
    place: int,
    after: Directions,
    terms: Sequence[Sequence[str]],
    output: Sequence[str],
) -> Directions:
    """One factor moves alone where the direction lies on axes that only it has."""
    mine = abs(place) - 1 if place < 0 else place
    own, other = terms[mine], terms[1 - mine]
    found = []
    for direction in after:
        letters = {output[k]: along for k, along in direction.axes.items()}
        if all(letter in own and letter not in other for letter in letters):
            found.append(Direction({own.index(x): along for x, along in letters.items()}))
    return tuple(found)


@_pull("aten.convolution.default")
def _convolved(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """The bias is constant along pixels; all kernels of a layer may move by the same kernel."""
    if place == 2:
        # a bias is alike at all pixels, and in no proportion to a gain there
        fit = [d for d in after if not any(own.frame for k, own in d.axes.items() if k != 1)]
    elif place == 1 and not node.args[6] and node.args[8] == 1:
        fit = [d for d in after if d.axes.keys() == {1}]
    else:
        fit = []
    return tuple(Direction({0: d.axes[1]} if 1 in d.axes else {}) for d in fit)


@_pull("aten.embedding.default")
def _embedded(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """Rows by number: uniform along where they go is uniform along the rows."""
    if place != 0:
        return NOTHING
    last, rows = len(node.shape or ()) - 1, _shape(graph, node, 0)[0]
    found = []
    for direction in after:
        axes: dict[int, Along] = {}
        if last in direction.axes:
            axes[1] = direction.axes[last]
        places = [own for k, own in direction.axes.items() if k != last]
        if any(own.frame for own in places):
            continue
        found.append(Direction({**axes, 0: Along(rows)} if places else axes))
    return tuple(found)


@_pull("aten.sum.dim_IntList", "aten.mean.dim")
def _reduced(graph: Graph, node: Node, place: int, after: Directions) -> Directions:
    """What is added up may move as it likes."""
    rank = len(_shape(graph, node, 0))
    gone = {d % rank for d in node.args[1]}
    kept = [k for k in range(rank) if node.args[2] or k not in gone]
    return tuple(Direction({kept[k]: own for k, own in d.axes.items()}) for d in after)
