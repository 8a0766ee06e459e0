"""Running a graph: the dense reference that shows a graph is the model it was traced from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from paramsym.errors import TraceError
from paramsym.network.graph import Graph, Node, Ref
from paramsym.network.tracing.operations import overload_of

__all__ = ["replay"]


def replay(
    graph: Graph, state: Mapping[str, Tensor], inputs: Mapping[str, Tensor]
) -> dict[int, Any]:
    """The value of every node, given parameters and buffers by name and inputs by name.

    >>> import torch
    >>> from paramsym.network.trace import trace
    >>> graph = trace(torch.nn.ReLU(), torch.zeros(2))
    >>> replay(graph, {}, {"x": torch.tensor([-1.0, 2.0])})[graph.outputs[0]]
    tensor([0., 2.])
    """
    values: dict[int, Any] = {}
    for node in graph.nodes:
        if node.op in ("parameter", "buffer"):
            values[node.index] = state[node.target]
        elif node.op == "input":
            values[node.index] = inputs[node.target]
        elif node.op == "constant":
            values[node.index] = graph.constants[node.index]
        else:
            args = [_filled(argument, values) for argument in node.args]
            kwargs = {key: _filled(argument, values) for key, argument in node.kwargs.items()}
            values[node.index] = _run(node, args, kwargs)
    return values


def _filled(argument: Any, values: dict[int, Any]) -> Any:
    if isinstance(argument, Ref):
        return values[argument.index]
    return [_filled(a, values) for a in argument] if isinstance(argument, list) else argument


def _run(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if node.op == "getitem":
        return args[0][args[1]]
    if node.op == "aten.view.default":
        # The graph knows no memory layout: a view is any reshape.
        return args[0].reshape(args[1])
    if node.op.endswith((".running_mean", ".running_var")):
        return _statistic(node.op, *args)
    overload = overload_of(node.op)
    if overload is None:
        raise TraceError(f"{node.op} cannot be run by itself", where=node.name)
    return overload(*args, **kwargs)


def _statistic(op: str, x: Tensor, old: Tensor, momentum: float) -> Tensor:
    """Per channel, over all other axes; an instance norm averages the samples' own statistics."""
    per_sample = op.startswith("instance_norm")
    axes = [axis for axis in range(x.dim()) if axis > 1 or (axis == 0 and not per_sample)]
    new = x.mean(axes) if op.endswith("mean") else x.var(axes)
    new = new.mean(0) if per_sample else new
    return (1 - momentum) * old + momentum * new
