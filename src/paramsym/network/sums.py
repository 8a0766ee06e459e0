"""Which tensors of the graph have entries that add up to a known number along an axis.

The rows of a softmax add up to one: they take means, which leave a common shift alone. What comes
out of a layer norm adds up, once its gain is divided out, to what its bias adds up to:

    n = gamma * (x - mean) / deviation + beta,     sum_i n_i / gamma_i = sum_i beta_i / gamma_i.

A weight that reads n may therefore move along 1/gamma, if a bias takes the constant back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from paramsym.network.axes import PLAIN, Frame, Gain, frame_plus, ordered
from paramsym.network.graph import Graph, Node, Ref
from paramsym.network.idioms import LAYOUT, axis_before, centred_axes, vector_name


@dataclass(frozen=True)
class Total:
    """Divided by the gains of ``frame``, the entries along ``axis`` add up to ``number`` and more.

    The rest is what the parameters ``offsets`` add up to, divided by the same gains.
    """

    axis: int
    number: float = 0.0
    frame: Frame = PLAIN
    offsets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """A parameter that is contracted, along its own ``axis``, with what adds up to nothing.

    ``frame`` are the gains: the parameter may move along their inverse. ``rows`` are the places
    along its other axis that are read so (None: all).
    """

    name: str
    axis: int
    frame: Frame
    rows: tuple[int, ...] | None = None

    @property
    def key(self) -> str:
        """What its translations are called."""
        gains = "·".join(gain.name for gain, _ in ordered(self.frame))
        return f"{self.name} along 1/{gains}" if gains else f"{self.name} along 1"


# One use of a tensor: the axis that is contracted, the gains there, the places on the other axis.
Use = tuple[int, Frame, tuple[int, ...]]


class Sums:
    """The known totals of every node, computed from the inputs forwards.

    >>> import torch
    >>> from paramsym.network.trace import trace
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softmax(-1))
    >>> graph = trace(net, torch.zeros(1, 2))
    >>> Sums(graph).of(graph.outputs[0])
    Total(axis=1, number=1.0, frame=frozenset(), offsets=())
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._found: dict[int, Total] = {}
        for node in graph.nodes:
            total = self._total(node)
            if total is not None:
                self._found[node.index] = total

    def of(self, index: int | Ref) -> Total | None:
        """What is known of a node."""
        return self._found.get(index.index if isinstance(index, Ref) else index)

    def readings(self) -> list[Reading]:
        """The parameters, or rows of parameters, that may move along the inverse of a gain."""
        found: list[Reading] = []
        for node in self.graph.nodes:
            uses = list(self._uses(node.index)) if node.op == "parameter" else []
            known = [use for use in uses if use is not None]
            if known and len(known) == len(uses):
                found += _readings(node, known)
        return found

    # forwards -----------------------------------------------------------------------------------

    def _total(self, node: Node) -> Total | None:
        rank = len(node.shape or ())
        if node.op == "aten.softmax.int":
            return Total(node.args[1] % rank, 1.0)
        if node.op == "aten.layer_norm.default":
            return self._layer_norm(node)
        if node.op == "aten._to_copy.default":
            floating = node.dtype is not None and node.dtype.is_floating_point
            return self.of(node.args[0]) if floating else None
        if node.op in (*LAYOUT, "aten.select.int", "aten.index_select.default"):
            return self._laid_out(node)
        axes = centred_axes(self.graph, node)
        if axes is not None:
            return Total(axes[0]) if len(axes) == 1 else None
        if node.op in ("aten.mul.Tensor", "aten.div.Tensor", "aten.add.Tensor"):
            return self._combined(node)
        return None

    def _laid_out(self, node: Node) -> Total | None:
        """The same total where the axis is still whole."""
        total = self.of(node.args[0])
        if total is None:
            return None
        if node.op == "aten.select.int":
            gone = node.args[1] % (len(node.shape or ()) + 1)
            after = total.axis - (total.axis > gone)
            return None if gone == total.axis else replace(total, axis=after)
        if node.op == "aten.index_select.default":
            return None if node.args[1] % len(node.shape or (1,)) == total.axis else total
        for axis in range(len(node.shape or ())):
            if axis_before(self.graph, node, axis) == total.axis:
                return replace(total, axis=axis)
        return None

    def _layer_norm(self, node: Node) -> Total | None:
        _, shape, weight, bias = node.args[:4]
        if len(shape) != 1:
            return None
        total: Total | None = Total(len(node.shape or ()) - 1)
        if weight is not None:
            total = total and self._scaled(total, weight, total.axis + 1)
        return total if bias is None else total and self._shifted(total, bias, total.axis + 1)

    def _combined(self, node: Node) -> Total | None:
        """A balanced tensor times a gain or a number of its own for each row, or plus a bias."""
        for one, other in (node.args[:2], node.args[1::-1]):
            total = self.of(one) if isinstance(one, Ref) else None
            if total is None or total.number or self.graph.nodes[one.index].shape != node.shape:
                continue
            if node.op == "aten.add.Tensor":
                return self._shifted(total, other, len(node.shape or ()))
            if one is node.args[0] or node.op == "aten.mul.Tensor":
                power = -1 if node.op == "aten.div.Tensor" else 1
                return self._scaled(total, other, len(node.shape or ()), power)
        return None

    def _scaled(self, total: Total, factor: Ref | float, rank: int, power: int = 1) -> Total | None:
        if not isinstance(factor, Ref):
            return None if total.offsets else total
        if self._size(factor, rank, total.axis) == 1:
            return None if total.offsets else total
        name = vector_name(self.graph, factor.index)
        if name is None or total.offsets:
            return None
        return replace(total, frame=frame_plus(total.frame, frozenset({(Gain(name), 1)}), power))

    def _shifted(self, total: Total, term: Ref | float, rank: int) -> Total | None:
        if not isinstance(term, Ref) or self._size(term, rank, total.axis) == 1:
            return None
        name = vector_name(self.graph, term.index)
        return None if name is None else replace(total, offsets=(*total.offsets, name))

    def _size(self, ref: Ref, rank: int, axis: int) -> int:
        """The size of a broadcast argument along an axis of a result of the given rank."""
        shape = self.graph.nodes[ref.index].shape or ()
        own = axis - rank + len(shape)
        return shape[own] if own >= 0 else 1

    # backwards ----------------------------------------------------------------------------------

    def _uses(self, index: int) -> Iterator[Use | None]:
        """How each reader contracts a node; None for another use."""
        if index in self.graph.outputs:
            yield None
        for user in map(self.graph.nodes.__getitem__, self.graph.users(index)):
            if user.op not in LAYOUT:
                yield self._contraction(user, index)
                continue
            strided = user.op == "aten.slice.Tensor" and user.args[4] != 1
            for use in [None] if strided else self._uses(user.index):
                axis = None if use is None else axis_before(self.graph, user, use[0])
                if use is None or axis is None:
                    yield None
                else:
                    start = user.args[2] if user.op == "aten.slice.Tensor" else 0
                    yield axis, use[1], tuple(start + k for k in use[2])

    def _contraction(self, user: Node, index: int) -> Use | None:
        shape = self.graph.nodes[index].shape or ()
        axis = self._contracted_axis(user, shape)
        if axis is None or user.args[1] != Ref(index) or user.args[0] == Ref(index):
            return None
        total, rank = self.of(user.args[0]), len(self.graph.nodes[user.args[0].index].shape or ())
        along = 1 if user.op == "aten.convolution.default" else rank - 1
        if total is None or total.axis != along or total.number:
            return None
        padded = user.op == "aten.convolution.default" and any(user.args[4])
        return None if padded and total.offsets else (axis, total.frame, _all(shape[1 - axis]))

    def _contracted_axis(self, user: Node, shape: tuple[int, ...]) -> int | None:
        """The axis of the second factor that a product sums over."""
        if user.op == "aten.convolution.default":
            return None if user.args[6] or user.args[8] != 1 else 1
        if len(shape) != 2:
            return None
        return {"aten.linear.default": 1, "aten.matmul.default": 0}.get(user.op)


def _readings(node: Node, uses: list[Use]) -> list[Reading]:
    """One reading for each gain, where no row is read through two of them."""
    ways: dict[tuple[int, Frame], set[int]] = {}
    for axis, frame, rows in uses:
        ways.setdefault((axis, frame), set()).update(rows)
    if len(ways) == 1:
        ((axis, frame),) = ways
        return [Reading(node.target, axis, frame)]
    read = set[int]().union(*ways.values())
    apart = sum(map(len, ways.values())) == len(read) == (node.shape or (0,))[0]
    if not apart or any(axis != 1 for axis, _ in ways):
        return []
    return [Reading(node.target, axis, f, tuple(sorted(r))) for (axis, f), r in ways.items()]


def _all(size: int) -> tuple[int, ...]:
    return tuple(range(size))
