"""Rotary position embeddings, recognised in the ways in which models write them.

A rotary embedding turns each pair of entries (x_1, x_2) of its argument by an angle that depends on
the position: (x_1 cos - x_2 sin, x_2 cos + x_1 sin). Pairs are the two halves of the last axis, or
neighbours on it. The operations it is written in say less than the whole: what commutes with all of
these rotations are the rotations and scales of each pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from paramsym.network.graph import Graph, Node, Ref
from paramsym.network.idioms import VIEWS

# What the operation is called when it is one.
ROTARY = "paramsym.rotary.default"


@dataclass(frozen=True)
class Rotary:
    """A rotation of pairs of entries on the last axis of ``source``.

    With ``halves`` entry i is paired with i + n/2, else 2i with 2i + 1. ``angles`` are the nodes of
    the cosines and sines, ``inside`` those that serve nothing but the rotation.
    """

    source: int
    halves: bool
    angles: tuple[int, ...]
    inside: frozenset[int]


def rotaries(graph: Graph) -> dict[int, Rotary]:
    """Every rotary embedding of a graph, by the node of its result."""
    found: dict[int, Rotary] = {}
    for node in graph.nodes:
        rotary = _sum(graph, node) or _pair(graph, node) or _complex(graph, node)
        if rotary is not None and _private(graph, rotary, node.index):
            found[node.index] = rotary
    return found


def _private(graph: Graph, rotary: Rotary, result: int) -> bool:
    """Whether nothing else reads the steps in between, and they keep the shape."""
    known = rotary.inside | {result}
    same = graph.nodes[rotary.source].shape == graph.nodes[result].shape
    read = all(set(graph.users(k)) <= known for k in rotary.inside)
    return same and read and not rotary.inside & set(graph.outputs)


# -- the ways to write it --------------------------------------------------------------------------


def _sum(graph: Graph, node: Node) -> Rotary | None:
    """``x cos + J x sin``, J x = (-x_2, x_1) for each pair."""
    plain, turned = _arguments(graph, node, "aten.add.Tensor")
    if plain is None or turned is None:
        return None
    for x, cosine in _factors(graph, plain):
        for quarter, sine in _factors(graph, turned):
            split = _split(graph, quarter)
            if split is None:
                continue
            first, second, halves, inside = split
            steps = _unwrapped(graph, first, "aten.neg.default")
            if steps is None:
                continue
            pair = _halved(graph, (second, steps), halves)
            doubled = all(_doubled(graph, k, halves) for k in (cosine, sine))
            if pair == x and doubled:
                own = {plain.index, turned.index, quarter, first, second, steps}
                return Rotary(x, halves, (cosine, sine), inside | own)
    return None


def _pair(graph: Graph, node: Node) -> Rotary | None:
    """``(x_1 cos - x_2 sin, x_2 cos + x_1 sin)``, side by side or stacked."""
    split = _split(graph, node.index)
    if split is None:
        return None
    first, second, halves, inside = split
    minus = _arguments(graph, graph.nodes[first], "aten.sub.Tensor")
    plus = _arguments(graph, graph.nodes[second], "aten.add.Tensor")
    for a, b in (plus, plus[::-1]):
        terms = (minus[0], minus[1], a, b)
        if any(term is None for term in terms):
            return None
        found = _matched(graph, [_factors(graph, term) for term in terms if term is not None])
        if found is None:
            continue
        x1, x2, angles = found
        source = _halved(graph, (x1, x2), halves)
        if source is not None:
            steps = {term.index for term in terms if term is not None}
            return Rotary(source, halves, angles, inside | steps | {first, second, x1, x2})
    return None


def _matched(
    graph: Graph, factors: list[list[tuple[int, int]]]
) -> tuple[int, int, tuple[int, int]] | None:
    """x_1, x_2 and the angles of the products x_1 c, x_2 s, x_2 c, x_1 s, in any order inside."""
    for x1, cosine in factors[0]:
        for x2, sine in factors[1]:
            if (x2, cosine) in factors[2] and (x1, sine) in factors[3]:
                return x1, x2, (cosine, sine)
    return None


def _complex(graph: Graph, node: Node) -> Rotary | None:
    """Neighbours read as complex numbers and multiplied by others."""
    if node.op not in VIEWS:
        return None
    real = graph.nodes[node.args[0].index]
    if real.op != "aten.view_as_real.default":
        return None
    product = graph.nodes[real.args[0].index]
    for z, angle in _factors(graph, product):
        complex_ = graph.nodes[z]
        pairs = graph.nodes[complex_.args[0].index] if complex_.args else complex_
        shape = (graph.nodes[angle].shape or (0,))[-1]
        known = complex_.op == "aten.view_as_complex.default" and pairs.op in VIEWS
        if known and pairs.shape and pairs.shape[-2:] == (shape, 2):
            inside = frozenset({real.index, product.index, z, pairs.index})
            return Rotary(pairs.args[0].index, False, (angle,), inside)
    return None


# -- pieces ----------------------------------------------------------------------------------------


def _arguments(graph: Graph, node: Node, op: str) -> tuple[Node | None, Node | None]:
    if node.op != op or not all(isinstance(arg, Ref) for arg in node.args[:2]):
        return None, None
    return graph.nodes[node.args[0].index], graph.nodes[node.args[1].index]


def _factors(graph: Graph, node: Node) -> list[tuple[int, int]]:
    """The two factors of a product, in both orders, the second one free of parameters."""
    a, b = _arguments(graph, node, "aten.mul.Tensor")
    if a is None or b is None:
        return []
    return [(a.index, b.index), (b.index, a.index)]


def _split(graph: Graph, index: int) -> tuple[int, int, bool, frozenset[int]] | None:
    """The two tensors that a node holds as halves of its last axis, or as neighbours on it."""
    node = graph.nodes[index]
    halves, inside = True, frozenset[int]()
    if node.op in VIEWS and isinstance(node.args[0], Ref):
        node = graph.nodes[node.args[0].index]
        halves, inside = False, frozenset({node.index})
    last = len(node.shape or ()) - 1
    if node.op != "aten.cat.default" or node.args[1] % (last + 1) != last or len(node.args[0]) != 2:
        return None
    first, second = (ref.index for ref in node.args[0])
    if halves:
        return first, second, True, inside
    parts = [graph.nodes[k] for k in (first, second)]
    if any(part.op not in VIEWS or (part.shape or ())[-1:] != (1,) for part in parts):
        return None
    below = [part.args[0].index for part in parts]
    return below[0], below[1], False, inside | {first, second}


def _unwrapped(graph: Graph, index: int, op: str) -> int | None:
    node = graph.nodes[index]
    return int(node.args[0].index) if node.op == op else None


def _halved(graph: Graph, pair: tuple[int, int], halves: bool) -> int | None:
    """The tensor of which two nodes are the first and the second entries of all pairs."""
    nodes = [graph.nodes[k] for k in pair]
    if (
        any(node.op != "aten.slice.Tensor" for node in nodes)
        or nodes[0].args[0] != nodes[1].args[0]
    ):
        return None
    shape = graph.nodes[nodes[0].args[0].index].shape or (0,)
    size, last = shape[-1], len(shape) - 1
    wanted = [(0, size // 2, 1), (size // 2, size, 1)] if halves else [(0, size, 2), (1, size, 2)]
    found = [(min(n.args[2], size), min(n.args[3], size), n.args[4]) for n in nodes]
    along = all(node.args[1] % len(shape) == last for node in nodes)
    return int(nodes[0].args[0].index) if along and not size % 2 and found == wanted else None


def _doubled(graph: Graph, index: int, halves: bool) -> bool:
    """Whether both entries of each pair get the same angle: by value, or as they were computed."""
    node, value = graph.nodes[index], graph.constants.get(index)
    if value is not None and not value.is_meta:
        pairs = value.unflatten(-1, (2, -1) if halves else (-1, 2))
        return bool(torch.equal(*pairs.unbind(-2 if halves else -1)))
    if node.op == "aten.cat.default" and halves:
        same = len(node.args[0]) == 2 and node.args[0][0] == node.args[0][1]
        return same and node.args[1] % len(node.shape or (1,)) == len(node.shape or ()) - 1
    inputs = [graph.nodes[k] for k in graph.refs(node)]
    keeps = [n for n in inputs if (n.shape or ())[-1:] == (node.shape or ())[-1:]]
    return (
        node.op in _ENTRYWISE
        and len(inputs) == len(keeps) == 1
        and _doubled(graph, keeps[0].index, halves)
    )


_ENTRYWISE = (
    "aten.cos.default",
    "aten.sin.default",
    "aten.mul.Tensor",
    "aten._to_copy.default",
    "aten.unsqueeze.default",
    "aten.expand.default",
)
