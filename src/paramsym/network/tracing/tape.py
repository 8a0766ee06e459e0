"""The tape: a stream of operations, in-place ones and views included, becomes functional nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from paramsym.errors import TraceError
from paramsym.network.graph import Graph, Node, Ref, references, renumbered
from paramsym.network.tracing.operations import overload_of

__all__ = ["Step", "Tape", "Value", "memory", "values_in"]

# Constants with more elements than this are not computed while tracing.
LARGEST_FOLD = 2**24

# An operation with its arguments; the first one is the tensor it is a view of.
Step = tuple[str, tuple[Any, ...]]
UNCHANGED: Step = ("", ())

# Views that can be written through, and what writes them back into the tensor they look at.
SCATTER = {
    "aten.slice.Tensor": "aten.slice_scatter.default",
    "aten.select.int": "aten.select_scatter.default",
    "aten.diagonal.default": "aten.diagonal_scatter.default",
}
RESHAPES = frozenset({"aten.view.default", "aten.unsqueeze.default", "aten.squeeze.dims"})
VIEWS = frozenset({"aten.permute.default", "aten.expand.default"}) | RESHAPES | SCATTER.keys()


class Value:
    """A tensor of the program: the node that holds it now, and the value it is a view of."""

    __slots__ = ("base", "node", "parent", "shape", "step", "storage", "version")

    def __init__(
        self, node: int, tensor: Tensor, parent: Value | None = None, step: Step | None = None
    ) -> None:
        self.node, self.parent, self.step = node, parent, step
        self.shape, self.storage = tuple(tensor.shape), memory(tensor)
        self.base: Value = self if parent is None else parent.base
        self.version: int = 0 if parent is None else parent.base.version


class Tape:
    """Collects nodes; `read` and `write` give in-place operations a functional meaning.

    Writing to a view rewrites the tensor it is a view of (`slice_scatter` and friends), and every
    other view of that tensor is derived anew when it is read next.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[int, Tensor] = {}
        self.dependent: set[int] = set()
        self.module = ""
        self._steps: dict[int, Step] = {}

    def leaf(self, op: str, name: str, tensor: Tensor, module: str = "") -> Value:
        """A parameter, buffer, input or constant."""
        index = self._append(op, (), {}, tensor.shape, tensor.dtype, module, name)
        if op in ("parameter", "buffer"):
            self.dependent.add(index)
        if op == "buffer" and not tensor.is_meta:
            self.constants[index] = tensor.detach()
        if op == "constant" and not tensor.is_meta:
            self.constants[index] = tensor.detach().cpu()
        return Value(index, tensor)

    def constant(self, tensor: Tensor) -> int:
        """A node that holds a value computed while tracing."""
        index = self._append("constant", (), {}, tensor.shape, tensor.dtype, self.module)
        self.constants[index] = tensor
        return index

    def emit(
        self,
        op: str,
        args: tuple[Any, ...],
        shape: Sequence[int] | None,
        dtype: torch.dtype | None,
        kwargs: dict[str, Any] | None = None,
    ) -> int:
        """Append a node; a node that depends on constants only is computed at once."""
        kwargs = kwargs or {}
        folded = self._fold(op, args, kwargs)
        if folded is None:
            index = self._append(op, args, kwargs, shape, dtype, self.module)
        else:
            index = self.constant(folded)
        if op in VIEWS:
            self._steps[index] = (op, args)
        return index

    def sees(self, index: int, step: Step) -> None:
        """Node `index` is also this view, by which it can be written to."""
        self._steps[index] = step

    def shape(self, ref: Ref) -> tuple[int, ...]:
        """The shape of a node with one output."""
        shape = self.nodes[ref.index].shape
        assert shape is not None, "nodes with several outputs are read through getitem"
        return shape

    def dtype(self, ref: Ref) -> torch.dtype | None:
        """The dtype of a node with one output."""
        return self.nodes[ref.index].dtype

    def depends(self, value: Value) -> bool:
        """Whether the value depends on parameters or buffers."""
        return self.read(value).index in self.dependent

    def value(self, index: int, tensor: Tensor, source: Value | None = None) -> Value:
        """The value of node `index`; `source` is the value it is a view of, if any."""
        if source is None:
            return Value(index, tensor)
        if index == source.node:
            return Value(index, tensor, source, UNCHANGED)
        step = self._steps.get(index)
        direct = step is not None and step[1][0] == Ref(source.node)
        return Value(index, tensor, source, step if direct else None)

    def read(self, value: Value) -> Ref:
        """The node that holds `value` now, derived anew if its base was written to."""
        if value.version != value.base.version:
            if value.parent is None or value.step is None:
                raise self._cannot(
                    f"a view of shape {value.shape} is read after a write to its base"
                )
            parent = self.read(value.parent)
            op, args = value.step
            again = (parent, *args[1:])
            dtype = self.dtype(parent)
            value.node = self.emit(op, again, value.shape, dtype) if op else parent.index
            value.version = value.base.version
        return Ref(value.node)

    def write(self, value: Value, node: int, op: str) -> None:
        """`value` becomes `node`; so do, accordingly, the tensors it is a view of."""
        chain = [value]
        new = [node]
        while (outer := chain[-1].parent) is not None:
            new.append(self._written_back(chain[-1], self.read(outer), new[-1], op))
            chain.append(outer)
        base = value.base
        base.version += 1
        for link, index in zip(chain, new, strict=True):
            link.node, link.version = index, base.version

    def _written_back(self, view: Value, parent: Ref, new: int, op: str) -> int:
        """The tensor `parent` that `view` looks at, once the view has become `new`."""
        if view.step == UNCHANGED:
            return new
        kind, args = view.step if view.step is not None else (None, ())
        shape, dtype = self.shape(parent), self.dtype(parent)
        if kind in RESHAPES:
            return self.emit("aten.view.default", (Ref(new), list(shape)), shape, dtype)
        if kind == "aten.permute.default":
            inverse = [args[1].index(axis) for axis in range(len(shape))]
            return self.emit(kind, (Ref(new), inverse), shape, dtype)
        if kind in SCATTER:
            return self.emit(SCATTER[kind], (parent, Ref(new), *args[1:]), shape, dtype)
        raise self._cannot(f"{op} writes in place through a view")

    def _cannot(self, what: str) -> TraceError:
        return TraceError(
            f"{what}, in a way that cannot be represented",
            where=self.module or "forward",
            remedy="write it out of place, or clone the tensor before writing",
        )

    def _append(
        self,
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        shape: Sequence[int] | None,
        dtype: torch.dtype | None,
        module: str,
        target: str = "",
    ) -> int:
        index = len(self.nodes)
        # A size that depends on the data has no value here: int() raises, and export is left.
        known = None if shape is None else tuple(int(n) for n in shape)
        self.nodes.append(Node(index, target, op, args, kwargs, known, dtype, module, target))
        if any(ref in self.dependent for ref in references((args, kwargs))):
            self.dependent.add(index)
        return index

    def _fold(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
        for index in references((args, kwargs)):
            if self.nodes[index].op != "constant" or index not in self.constants:
                return None
        overload = overload_of("aten.reshape.default" if op == "aten.view.default" else op)
        if overload is None or torch.Tag.nondeterministic_seeded in overload.tags:
            return None
        try:
            result = overload(*self._known(args), **self._known(kwargs))
        except (RuntimeError, NotImplementedError):
            # The CPU lacks some operations in low precision; the node stays as it is.
            return None
        small = isinstance(result, Tensor) and result.numel() <= LARGEST_FOLD
        return result if small else None

    def _known(self, argument: Any) -> Any:
        if isinstance(argument, Ref):
            return self.constants[argument.index]
        if isinstance(argument, (list, tuple)):
            return [self._known(item) for item in argument]
        if isinstance(argument, dict):
            return {key: self._known(item) for key, item in argument.items()}
        return argument

    def graph(
        self,
        outputs: Sequence[int],
        mutations: dict[str, int],
        aliases: dict[str, tuple[str, ...]],
        branch_only: bool,
    ) -> Graph:
        """The nodes that matter, renumbered: leaves of the model, and what outputs depend on."""
        alive = {*outputs, *mutations.values()}
        for node in reversed(self.nodes):
            if node.op in ("parameter", "buffer", "input"):
                alive.add(node.index)
            if node.index in alive:
                alive.update(references((node.args, node.kwargs)))
        place = {old: new for new, old in enumerate(sorted(alive))}
        counts: dict[str, int] = {}
        nodes = tuple(
            replace(
                node,
                index=place[node.index],
                name=node.target or _unique(node.op, counts),
                args=renumbered(node.args, place),
                kwargs=renumbered(node.kwargs, place),
            )
            for node in self.nodes
            if node.index in alive
        )
        return Graph(
            nodes=nodes,
            outputs=tuple(place[index] for index in outputs),
            aliases=aliases,
            constants={place[i]: tensor for i, tensor in self.constants.items() if i in alive},
            mutations={name: place[index] for name, index in mutations.items()},
            branch_only=branch_only,
        )


def memory(tensor: Tensor) -> int:
    """A number that two tensors share exactly when one can be a view of the other."""
    if tensor.layout is not torch.strided:
        return -id(tensor)
    return int(tensor.untyped_storage()._cdata)


def values_in(argument: Any) -> Iterator[Value]:
    """Every `Value` in a nested argument."""
    if isinstance(argument, Value):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for item in argument:
            yield from values_in(item)
    elif isinstance(argument, dict):
        yield from values_in(list(argument.values()))


def _unique(op: str, counts: dict[str, int]) -> str:
    """`linear`, `linear_1`, …: a short name for a node that has no name of its own."""
    stem = op.split(".")[1] if op.startswith("aten.") else op.replace(".", "_")
    count = counts[stem] = counts.get(stem, -1) + 1
    return f"{stem}_{count}" if count else stem
