"""What one operation of torch does to the tape: reads, writes, and the nodes in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from paramsym.errors import TraceError
from paramsym.network.graph import Ref
from paramsym.network.tracing.forms import COMPOSITES, FORMS, Event
from paramsym.network.tracing.operations import (
    complete,
    is_composite,
    not_default,
    packet_of,
    without_writing,
    written_arguments,
)
from paramsym.network.tracing.tape import Tape, Value, memory, values_in

__all__ = ["OPENED", "Opener", "perform"]

# Runs an operation as the smaller ones it consists of.
Opener = Callable[[OpOverload, Sequence[Any], dict[str, Any]], Any]

# Operations taken apart although torch would keep them: their pieces have rules already.
OPENED = frozenset(
    [
        "lstm",
        "gru",
        "rnn_tanh",
        "rnn_relu",
        "lstm_cell",
        "gru_cell",
        "rnn_tanh_cell",
        "rnn_relu_cell",
        "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
    ]
)
# Operations that check something and return nothing of use.
CHECKS = ("_assert", "sym_constrain", "sym_size", "sym_stride", "sym_numel", "sym_storage_offset")
# Operations that write running statistics in train mode, which their schemas do not say.
RUNNING = frozenset(
    ["batch_norm", "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "instance_norm"]
)


def perform(
    tape: Tape,
    op: OpOverload,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    result: Any,
    opener: Opener,
) -> Any:
    """Append `op` to the tape and return `result` with a `Value` in place of every tensor.

    `args` and `kwargs` hold a `Value` for every tensor; `result` holds the tensors the operation
    returned, real or fake: their shapes, dtypes and storages are read, never their numbers.
    """
    packet = packet_of(op)
    if packet.startswith(CHECKS):
        return None
    positional, keywords = complete(op, args, kwargs)
    sources = list(values_in((positional, keywords)))
    written = written_arguments(op, positional, keywords)
    if written:
        return _perform_in_place(tape, op, positional, keywords, written, result)
    if _must_open(op, packet):
        pieces = list(values_in(opener(op, args, kwargs)))
        opened = [tape.read(piece).index for piece in pieces]
        return _values(tape, opened[0] if isinstance(result, Tensor) else opened, result, sources)
    event = Event(tape, str(op), *_read(tape, op, positional, keywords), result)
    nodes = _emit(event)
    if packet in RUNNING and positional[5]:
        _update_statistics(tape, packet, positional, event)
    return _values(tape, nodes, result, sources)


def _perform_in_place(
    tape: Tape,
    op: OpOverload,
    positional: list[Any],
    keywords: dict[str, Any],
    written: dict[str, Any],
    result: Any,
) -> Any:
    """The operation that returns a new tensor, and a write of that tensor."""
    name = without_writing(op, list(written))
    target = next(iter(written.values()))
    tensors = isinstance(result, Tensor) and isinstance(target, Value)
    if name is None or not tensors or tuple(result.shape) != target.shape:
        raise TraceError(
            f"{op} changes tensors in a way that cannot be represented",
            where=tape.module or "forward",
            remedy="use the operation that returns a new tensor",
        )
    kept = {key: value for key, value in keywords.items() if key != "out"}
    node = _emit(Event(tape, name, *_read(tape, op, positional, kept), result))
    assert isinstance(node, int)
    if node != tape.read(target).index:
        tape.write(target, node, str(op))
    return target


def _emit(event: Event) -> int | list[int]:
    form = FORMS.get(event.name)
    return event.plain() if form is None else form(event)


def _must_open(op: OpOverload, packet: str) -> bool:
    """Composite operations are taken apart unless they have a form or are kept on purpose."""
    if packet in OPENED:
        return True
    return str(op) not in FORMS and str(op) not in COMPOSITES and is_composite(op)


def _read(
    tape: Tape, op: OpOverload, positional: list[Any], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as they are at this moment."""

    def now(argument: Any) -> Any:
        if isinstance(argument, Value):
            return tape.read(argument)
        if isinstance(argument, (list, tuple)):
            return [now(item) for item in argument]
        if isinstance(argument, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise NotImplementedError(f"{op} takes a number that depends on data")
        return argument

    return now(positional), {key: now(value) for key, value in not_default(op, keywords).items()}


def _values(tape: Tape, nodes: int | list[int], result: Any, sources: list[Value]) -> Any:
    """A value per returned tensor, known as a view where it shares memory with an argument."""

    def value(node: int, tensor: Tensor) -> Value:
        place = memory(tensor)
        source = next((value for value in sources if value.storage == place), None)
        return tape.value(node, tensor, source)

    if isinstance(nodes, int):
        return value(nodes, result)
    parts = iter(nodes) if len(nodes) < len(result) else _with_tensors(nodes, result)
    return [value(next(parts), part) if isinstance(part, Tensor) else None for part in result]


def _with_tensors(nodes: list[int], result: Sequence[Any]) -> Iterator[int]:
    return (node for node, part in zip(nodes, result, strict=True) if isinstance(part, Tensor))


def _update_statistics(tape: Tape, packet: str, positional: list[Any], event: Event) -> None:
    """`new = (1 - momentum) old + momentum statistic(x)`, as a write to the buffer."""
    kind = "instance_norm" if packet == "instance_norm" else "batch_norm"
    for place, statistic in ((3, "running_mean"), (4, "running_var")):
        buffer = positional[place]
        if isinstance(buffer, Value):
            old: Ref = event.args[place]
            args = (event.args[0], old, event.args[6])
            new = tape.emit(f"{kind}.{statistic}", args, tape.shape(old), tape.dtype(old))
            tape.write(buffer, new, f"{kind} in train mode")
