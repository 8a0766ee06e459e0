"""Tracing by `torch.export`: its graph is read node by node onto the tape."""

from __future__ import annotations

import io
import logging
import operator
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any

from torch import Tensor, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram, export
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from paramsym.network.call import outputs_of
from paramsym.network.graph import Graph
from paramsym.network.ties import canonical_names
from paramsym.network.tracing.inputs import Inputs
from paramsym.network.tracing.model import finish, leaves_of
from paramsym.network.tracing.program import Opener, perform
from paramsym.network.tracing.recorder import open_operation
from paramsym.network.tracing.tape import UNCHANGED, Tape, Value, memory

__all__ = ["from_export"]

# Regions whose body means the same without the wrapper: gradients on or off, a casting policy.
WRAPPERS = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast"})
# Loggers and streams on which export announces failures that are handled here.
NOISY = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")


def from_export(model: nn.Module, inputs: Inputs) -> Graph:
    """The graph of the model, valid whatever the values; raises whatever export raises."""
    with _quiet():
        program = export(_Flat(model, inputs), tuple(inputs.tensors), strict=False)
    tape = Tape()
    leaves = leaves_of(tape, model)
    values = _placeholders(tape, model, inputs, program, leaves)
    outputs = _interpret(tape, program.graph_module, values)
    return finish(tape, model, leaves, outputs, branch_only=False)


class _Flat(nn.Module):
    """The model with tensors in and a list of floating tensors out, whatever it nests them in."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        self._inputs = inputs

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        args, kwargs = self._inputs.fill(list(tensors))
        return outputs_of(self.model(*args, **kwargs))


def _placeholders(
    tape: Tape,
    model: nn.Module,
    inputs: Inputs,
    program: ExportedProgram,
    leaves: dict[str, Value],
) -> dict[FxNode, Any]:
    names = canonical_names(model)
    input_names = iter(inputs.names)
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    values: dict[FxNode, Any] = {}
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        target = spec.target or ""
        tensor = node.meta["val"]
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            leaf = leaves[names[target.removeprefix("model.")]]
            values[node] = Value(leaf.node, tensor, leaf, UNCHANGED)
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            values[node] = tape.leaf("constant", "", program.constants[target])
        elif spec.kind is InputKind.USER_INPUT and isinstance(tensor, Tensor):
            values[node] = tape.leaf("input", next(input_names), tensor)
        else:
            raise NotImplementedError(f"an input of kind {spec.kind}")
        values[node].storage = memory(tensor)
    return values


def _interpret(tape: Tape, module: GraphModule, values: dict[FxNode, Any]) -> list[Value]:
    """Perform the nodes of an exported graph on the tape; return what it outputs."""
    outputs: list[Value] = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            continue
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        if node.op == "output":
            outputs = pytree.tree_leaves(args)
        elif node.op == "get_attr":
            values[node] = getattr(module, str(node.target))
        else:
            tape.module = _module_path(node)
            values[node] = _call(tape, node, args, kwargs)
    return outputs


def _call(tape: Tape, node: FxNode, args: Any, kwargs: dict[str, Any]) -> Any:
    if node.target is operator.getitem:
        return args[0][args[1]]
    if isinstance(node.target, OpOverload):
        result = node.meta.get("val")
        return perform(tape, node.target, args, kwargs, result, _opener(tape, node))
    if str(node.target) in WRAPPERS:
        return _inline(tape, args)
    if not isinstance(node.meta.get("val"), (Tensor, tuple, list)):
        # Arithmetic on numbers; it matters only if an operation takes its result.
        return node.meta.get("val")
    raise NotImplementedError(f"{node.target} in an exported graph")


def _inline(tape: Tape, args: Sequence[Any]) -> list[Value]:
    place = next(i for i, argument in enumerate(args) if isinstance(argument, GraphModule))
    body: GraphModule = args[place]
    inner = [node for node in body.graph.nodes if node.op == "placeholder"]
    return _interpret(tape, body, dict(zip(inner, args[place + 1 :], strict=True)))


def _opener(tape: Tape, node: FxNode) -> Opener:
    def opener(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        tensors = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        return open_operation(tape, op, (args, kwargs), tensors)

    return opener


def _module_path(node: FxNode) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    return "" if path == "model" else path.removeprefix("model.")


@contextmanager
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
