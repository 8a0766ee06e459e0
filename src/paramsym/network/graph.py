"""The small intermediate representation: one node per tensor operation, in topological order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

__all__ = ["Graph", "Node", "Ref", "grouping", "references", "renumbered"]


@dataclass(frozen=True, slots=True)
class Ref:
    """An argument that is the value of another node.

    >>> print(Ref(3))
    %3
    """

    index: int

    def __str__(self) -> str:
        return f"%{self.index}"


@dataclass(frozen=True, eq=False)
class Node:
    """One value of the traced function: `value = op(*args, **kwargs)`.

    `op` is "parameter", "buffer", "constant", "input", "getitem" or the name of an operation such
    as "aten.linear.default". `args` are complete and positional, defaults filled in; a `Ref` stands
    for another node. `shape` and `dtype` are None for a node with several outputs.

    >>> weight = Node(0, "fc.weight", "parameter", (), {}, (2, 3), torch.float32, "fc", "fc.weight")
    >>> print(weight)
    %0   parameter fc.weight  (2, 3)  [fc]
    """

    index: int
    name: str
    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: tuple[int, ...] | None
    dtype: torch.dtype | None
    module: str
    target: str = ""

    def __str__(self) -> str:
        inner = ", ".join(
            [_show(a) for a in self.args] + [f"{k}={_show(v)}" for k, v in self.kwargs.items()]
        )
        call = f"{self.op} {self.target}" if self.target else f"{self.op}({inner})"
        shape = "" if self.shape is None else f"  {self.shape}"
        return f"{f'%{self.index}':<4} {call}{shape}" + (
            f"  [{self.module}]" if self.module else ""
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; a reference becomes `{"ref": index}`."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, eq=False)
class Graph:
    """A traced model: every node refers to earlier nodes only, and nothing is done in place.

    `aliases` maps the canonical name of a tied tensor to every name of it; `constants` holds the
    values that depend on neither parameters nor inputs, and the buffers' values where known;
    `mutations` maps a buffer to the node that holds its value after the call.

    >>> from paramsym.network.trace import trace
    >>> print(trace(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), torch.zeros(1, 2)))
    %0   parameter 0.weight  (3, 2)  [0]
    %1   parameter 0.bias  (3,)  [0]
    %2   input x  (1, 2)
    %3   aten.linear.default(%2, %0, %1)  (1, 3)  [0]
    %4   aten.relu.default(%3)  (1, 3)  [1]
    outputs: %4
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    constants: dict[int, Tensor] = field(default_factory=dict)
    mutations: dict[str, int] = field(default_factory=dict)
    branch_only: bool = False

    def users(self, index: int) -> tuple[int, ...]:
        """The nodes that read node `index`, in order."""
        return self._users[index]

    def refs(self, node: Node | int) -> Iterator[int]:
        """The nodes that `node` reads, in the order of its arguments (repeats included)."""
        node = self.nodes[node] if isinstance(node, int) else node
        return references((node.args, node.kwargs))

    def pruned(self, outputs: Sequence[int] | None = None) -> Graph:
        """The part of the graph that the outputs at these positions (None: all) depend on."""
        wanted = self.outputs if outputs is None else [self.outputs[i] for i in outputs]
        live = set(wanted)
        for node in reversed(self.nodes):
            if node.index in live:
                live.update(self.refs(node))
        place = {old: new for new, old in enumerate(sorted(live))}
        nodes = tuple(
            replace(
                node,
                index=place[node.index],
                args=renumbered(node.args, place),
                kwargs=renumbered(node.kwargs, place),
            )
            for node in map(self.nodes.__getitem__, place)
        )
        constants = {place[i]: value for i, value in self.constants.items() if i in place}
        return replace(
            self,
            nodes=nodes,
            outputs=tuple(place[i] for i in wanted),
            constants=constants,
            mutations={},
        )

    @cached_property
    def _users(self) -> tuple[tuple[int, ...], ...]:
        users: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for index in dict.fromkeys(self.refs(node)):
                users[index].append(node.index)
        return tuple(tuple(readers) for readers in users)

    def __str__(self) -> str:
        lines = [str(node) for node in self.nodes]
        lines.append("outputs: " + ", ".join(f"%{index}" for index in self.outputs))
        lines += [f"tied: {' = '.join(names)}" for names in self.aliases.values()]
        lines += [f"after the call: {name} = %{index}" for name, index in self.mutations.items()]
        if self.branch_only:
            lines.append("valid for the branch taken only")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: nodes, outputs, ties and mutations (values of constants left out)."""
        return {
            "nodes": [node.to_dict() for node in self.nodes],
            "outputs": list(self.outputs),
            "aliases": {name: list(names) for name, names in self.aliases.items()},
            "constants": sorted(self.constants),
            "mutations": dict(self.mutations),
            "branch_only": self.branch_only,
        }


def references(argument: Any) -> Iterator[int]:
    """The indices of every `Ref` in a nested argument.

    >>> list(references((Ref(1), [Ref(0), 2.0], {"bias": Ref(4)})))
    [1, 0, 4]
    """
    if isinstance(argument, Ref):
        yield argument.index
    elif isinstance(argument, (tuple, list)):
        for item in argument:
            yield from references(item)
    elif isinstance(argument, dict):
        for item in argument.values():
            yield from references(item)


def renumbered(argument: Any, place: Mapping[int, int]) -> Any:
    """A nested argument whose references go to other nodes.

    >>> print(*renumbered((Ref(4), [2]), {4: 0}))
    %0 [2]
    """
    if isinstance(argument, Ref):
        return Ref(place[argument.index])
    if isinstance(argument, (list, tuple)):
        return type(argument)(renumbered(item, place) for item in argument)
    if isinstance(argument, dict):
        return {key: renumbered(item, place) for key, item in argument.items()}
    return argument


Groups = list[tuple[list[int], list[int]]]


def grouping(before: Sequence[int], after: Sequence[int]) -> Groups:
    """The finest groups of axes with equal products, as (axes before, axes after)."""
    groups: Groups = []
    i = j = 0
    while i < len(before) or j < len(after):
        ins, outs, left, right = [], [], 1, 1
        if i < len(before):
            ins, left, i = [i], before[i], i + 1
        if j < len(after):
            outs, right, j = [j], after[j], j + 1
        while left != right:
            if left < right and i < len(before):
                left, ins, i = left * before[i], [*ins, i], i + 1
            elif j < len(after):
                right, outs, j = right * after[j], [*outs, j], j + 1
            else:
                left, ins, i = left * before[i], [*ins, i], i + 1
        groups.append((ins, outs))
    return groups


def _show(argument: Any) -> str:
    if isinstance(argument, (list, tuple)):
        return "[" + ", ".join(_show(item) for item in argument) + "]"
    return str(argument)


def _plain(value: Any) -> Any:
    if isinstance(value, Ref):
        return {"ref": value.index}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if is_dataclass(value):
        return repr(value)
    return str(value)
