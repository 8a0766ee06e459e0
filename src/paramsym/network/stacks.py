"""Tensors that are stacked only to be taken apart again.

Packed projections are often written ``qkv.view(.., 3, width).permute(..).select(0, k)``: the three
parts then look like one index set three times over. Read from the other end, each is a slice of the
packed axis, and that is how the graph should say it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paramsym.network.graph import Graph, Node, Ref, grouping, renumbered
from paramsym.network.idioms import VIEWS

_SAME = ("aten.clone.default", "aten.contiguous.default", "aten.alias.default")


def unstacked(graph: Graph) -> Graph:
    """The graph with every selection of a part of a cut axis replaced by a slice of that axis.

    >>> import torch
    >>> from paramsym.network.trace import trace
    >>> class Halves(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = torch.nn.Parameter(torch.ones(6))
    ...
    ...     def forward(self, x):
    ...         return x * self.weight.view(2, 3)[1]
    >>> print(unstacked(trace(Halves(), torch.ones(3))))
    %0   parameter weight  (6,)
    %1   input x  (3,)
    %2   aten.view.default(%0, [2, 3])  (2, 3)
    %3   aten.slice.Tensor(%0, 0, 3, 6, 1)  (3,)
    %4   aten.view.default(%3, [3])  (3,)
    %5   aten.mul.Tensor(%1, %4)  (3,)
    outputs: %5
    """
    return _Rewriting(graph).run()


@dataclass
class _Rewriting:
    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)

    def run(self) -> Graph:
        """Copy the nodes in order, selections in their new form."""
        for node in self.graph.nodes:
            select = node.op == "aten.select.int"
            if select and self._cut(node.args[0].index, self._axis(node)):
                new = self._part(node.args[0].index, self._axis(node), node.args[2])
            else:
                new = self._add(node, renumbered(node.args, self.place))
            self.place[node.index] = new
        graph, place = self.graph, self.place
        return replace(
            graph,
            nodes=tuple(self.nodes),
            outputs=tuple(place[k] for k in graph.outputs),
            constants={place[k]: value for k, value in graph.constants.items()},
            mutations={name: place[k] for name, k in graph.mutations.items()},
        )

    def _axis(self, node: Node) -> int:
        return int(node.args[1]) % len(self.graph.nodes[node.args[0].index].shape or ())

    def _add(self, like: Node, args: tuple[Any, ...], **changes: Any) -> int:
        kwargs = renumbered(like.kwargs, self.place)
        self.nodes.append(
            replace(like, index=len(self.nodes), args=args, **{"kwargs": kwargs, **changes})
        )
        return len(self.nodes) - 1

    def _cut(self, index: int, axis: int) -> bool:
        """Whether an axis of a node is the first part of an axis that was cut."""
        node = self.graph.nodes[index]
        before = self._before(node, axis)
        if before is None:
            return False
        source, own, rest = before
        return rest > 1 or self._cut(source, own)

    def _before(self, node: Node, axis: int) -> tuple[int, int, int] | None:
        """The node and the axis of which this one is the first part, and the size of the rest."""
        if node.op in _SAME:
            return node.args[0].index, axis, 1
        if node.op == "aten.permute.default":
            return node.args[0].index, int(node.args[1][axis]), 1
        if node.op not in VIEWS:
            return None
        before, after = self.graph.nodes[node.args[0].index].shape or (), node.shape or ()
        for ins, outs in grouping(before, after):
            long = [k for k in ins if before[k] > 1]
            first = next((k for k in outs if after[k] > 1), None)
            if axis in outs and len(long) == 1 and first == axis:
                return node.args[0].index, long[0], before[long[0]] // after[axis]
        return None

    def _part(self, index: int, axis: int, place: int) -> int:
        """A node without an axis, at one place of it, from the point on where the axis was cut."""
        node = self.graph.nodes[index]
        before = self._before(node, axis)
        assert before is not None
        source, own, rest = before
        shape = _without(node.shape or (), axis)
        if rest > 1:
            return self._reshaped(node, self._slice(node, source, own, place, rest), shape)
        part = self._part(source, own, place)
        if node.op == "aten.permute.default":
            dims = [d - (d > own) for d in node.args[1] if d != own]
            return self._add(node, (Ref(part), dims), shape=shape)
        return part if node.op in _SAME else self._reshaped(node, part, shape)

    def _slice(self, like: Node, source: int, axis: int, place: int, size: int) -> int:
        shape = self.graph.nodes[source].shape or ()
        count = shape[axis] // size
        start = (place % count) * size
        args = (Ref(self.place[source]), axis, start, start + size, 1)
        cut = tuple(size if k == axis else n for k, n in enumerate(shape))
        return self._add(like, args, op="aten.slice.Tensor", shape=cut)

    def _reshaped(self, like: Node, part: int, shape: Sequence[int]) -> int:
        args = (Ref(part), list(shape))
        return self._add(like, args, op="aten.view.default", shape=tuple(shape))


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(n for k, n in enumerate(shape) if k != axis)
