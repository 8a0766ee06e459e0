"""Tracing by running the model and watching: for models whose python code branches on values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as module_hooks

from paramsym.errors import TraceError
from paramsym.network.call import outputs_of
from paramsym.network.graph import Graph
from paramsym.network.ties import canonical_names, named_state
from paramsym.network.tracing.inputs import Inputs
from paramsym.network.tracing.model import finish, leaves_of
from paramsym.network.tracing.recorder import Recorder, recording
from paramsym.network.tracing.tape import Tape

__all__ = ["from_recording"]


def from_recording(model: nn.Module, inputs: Inputs) -> Graph:
    """The graph of the branch that the example input takes."""
    tape = Tape()
    recorder = Recorder(tape)
    leaves = leaves_of(tape, model)
    names = canonical_names(model)
    held = {n: tensor.detach() for n, tensor in named_state(model) if names[n] == n}
    for name, tensor in model.named_buffers():
        # Statistics that the run updates must not be the model's own.
        if names[name] == name:
            held[name] = tensor.detach().clone()
    for name, value in leaves.items():
        recorder.know(held[name], value)
    tensors = [tensor.clone() for tensor in inputs.tensors]
    for name, tensor in zip(inputs.names, tensors, strict=True):
        recorder.know(tensor, tape.leaf("input", name, tensor))
    state = {name: held[canonical] for name, canonical in names.items()}
    args, kwargs = inputs.fill(tensors)
    running = _Running(model, tape)
    try:
        with running.watched(), recording(recorder):
            result = torch.func.functional_call(model, state, args, kwargs, tie_weights=False)
    except TraceError:
        raise
    except Exception as failure:  # the model's own failure, whatever it is
        raise running.failed(failure, inputs) from failure
    outputs = [recorder.value(tensor) for tensor in outputs_of(result)]
    return finish(tape, model, leaves, outputs, branch_only=True)


class _Running:
    """The modules that are running, outermost first, and what the innermost was given."""

    def __init__(self, model: nn.Module, tape: Tape) -> None:
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._stack: list[tuple[str, nn.Module, Any]] = [("", model, ())]
        self._tape = tape

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keeps the tape's module at the innermost one, by hooks that leave the model alone."""

        def enter(module: nn.Module, args: Any) -> None:
            path = self._paths.get(id(module), self._stack[-1][0])
            self._stack.append((path, module, args))
            self._tape.module = path

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            self._stack.pop()
            self._tape.module = self._stack[-1][0]

        hooks = [
            module_hooks.register_module_forward_pre_hook(enter),
            module_hooks.register_module_forward_hook(leave),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def failed(self, failure: Exception, inputs: Inputs) -> TraceError:
        """Which module failed, what it is and what it was given."""
        path, module, args = self._stack[-1]
        given = ", ".join(str(tuple(a.shape)) for a in args if isinstance(a, torch.Tensor))
        kind = repr(module) if not list(module.children()) else type(module).__name__
        reason = (str(failure) or type(failure).__name__).splitlines()[0]
        remedy = "call model(x) yourself and trace with an x for which it works"
        if any(tensor.is_meta for tensor in inputs.tensors):
            remedy = "it may need values: load the weights instead of tracing on the meta device"
        return TraceError(
            f"the model fails on the input {inputs}: {reason}",
            where=f"{path or 'forward'}: {kind}" + (f" given {given}" if given else ""),
            remedy=remedy,
        )
