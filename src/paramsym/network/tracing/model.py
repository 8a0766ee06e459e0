"""The model's side of a trace: what can be traced, its tensors as leaves, the finished graph."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from paramsym.errors import TraceError
from paramsym.network.call import unwrap
from paramsym.network.graph import Graph
from paramsym.network.ties import canonical_names, named_state, ties
from paramsym.network.tracing.tape import Tape, Value

__all__ = ["checked", "finish", "leaves_of"]


def checked(model: nn.Module) -> nn.Module:
    """The module inside wrappers, or one clear error if its tensors cannot be worked with."""
    if not isinstance(model, nn.Module):
        raise TraceError(
            f"{type(model).__name__} is not a torch.nn.Module", remedy="wrap it in a module"
        )
    model = unwrap(model)
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise TraceError(
                "a ScriptModule cannot be traced",
                where=path or type(module).__name__,
                remedy="pass the python module it was made from",
            )
        if "quantized" in type(module).__module__.split("."):
            raise TraceError(
                "is quantised: its weights are packed away",
                where=path or type(module).__name__,
                remedy="trace the model before quantisation",
            )
    for name, tensor in named_state(model):
        _check_tensor(name, tensor)
    _check_devices(model)
    return model


def _check_tensor(name: str, tensor: torch.Tensor) -> None:
    problem = remedy = ""
    is_parameter = isinstance(tensor, nn.Parameter)
    if nn.parameter.is_lazy(tensor):
        problem, remedy = "has no shape yet", "run the lazy module once before tracing"
    elif tensor.is_quantized:
        problem, remedy = "is quantised", "trace the model before quantisation"
    elif tensor.layout is not torch.strided:
        problem, remedy = f"has layout {tensor.layout}", "store it dense (.to_dense())"
    elif is_parameter and tensor.is_complex():
        problem = "is a complex parameter"
        remedy = "store real and imaginary part as torch.view_as_real(...)"
    elif is_parameter and not tensor.is_meta and not bool(torch.isfinite(tensor).all()):
        problem, remedy = "holds NaN or infinite values", "load a finite checkpoint"
    if problem:
        raise TraceError(problem, where=name, remedy=remedy)


def _check_devices(model: nn.Module) -> None:
    by_device = {parameter.device: name for name, parameter in model.named_parameters()}
    if len(by_device) > 1:
        (one, name), (two, other) = list(by_device.items())[:2]
        raise TraceError(
            f"the parameters live on several devices: {name} on {one}, {other} on {two}",
            where=type(model).__name__,
            remedy="move the model to one device, or to 'meta' to derive without weights",
        )


def leaves_of(tape: Tape, model: nn.Module) -> dict[str, Value]:
    """One leaf per tensor of the model, tied ones once, under its canonical name."""
    names = canonical_names(model)
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    transient = set(_transient(model))
    leaves = {}
    for name, tensor in named_state(model):
        if names[name] == name:
            # A buffer that no checkpoint holds cannot be moved: it is part of the function.
            kind = "constant" if name in transient else "buffer"
            kind = "parameter" if name in parameters else kind
            leaves[name] = tape.leaf(kind, name, tensor, name.rpartition(".")[0])
    return leaves


def _transient(model: nn.Module) -> Iterator[str]:
    for path, module in model.named_modules(remove_duplicate=False):
        for name in module._non_persistent_buffers_set:
            yield f"{path}.{name}" if path else name


def finish(
    tape: Tape,
    model: nn.Module,
    leaves: dict[str, Value],
    outputs: list[Value],
    *,
    branch_only: bool,
) -> Graph:
    """The graph of the outputs, and of what the run left in the buffers."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    changed = {name: value for name, value in leaves.items() if value.base.version}
    for name in changed:
        if name in parameters:
            raise parameter_written(name)
    mutations = {name: tape.read(value).index for name, value in changed.items()}
    nodes = [tape.read(value).index for value in outputs]
    return tape.graph(nodes, mutations, ties(model), branch_only)


def parameter_written(name: str) -> TraceError:
    """Forward must be a function of the parameters."""
    return TraceError(
        "forward changes a parameter in place", where=name, remedy="change a copy of it instead"
    )
