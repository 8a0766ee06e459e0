"""Watching a model run: each operation that torch dispatches goes onto a tape."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from paramsym.errors import TraceError
from paramsym.network.tracing.cells import CELLS, layer_by_layer
from paramsym.network.tracing.model import parameter_written
from paramsym.network.tracing.operations import complete, packet_of, written_arguments
from paramsym.network.tracing.program import OPENED, perform
from paramsym.network.tracing.tape import Tape, Value, memory, values_in

# Recurrent nets of several layers.
LAYERED = frozenset(
    (
        torch.ops.aten.lstm.input,
        torch.ops.aten.gru.input,
        torch.ops.aten.rnn_tanh.input,
        torch.ops.aten.rnn_relu.input,
    )
)

__all__ = ["Recorder", "open_operation", "recording"]

aten = torch.ops.aten
# Functions recorded whole; below them only their pieces could be seen.
WHOLE: dict[Any, OpOverload] = {
    F.linear: aten.linear.default,
    torch.matmul: aten.matmul.default,
    torch.Tensor.matmul: aten.matmul.default,
    torch.Tensor.__matmul__: aten.matmul.default,
    F.scaled_dot_product_attention: aten.scaled_dot_product_attention.default,
    torch.dropout: aten.dropout.default,
    torch.feature_dropout: aten.feature_dropout.default,
    torch.alpha_dropout: aten.alpha_dropout.default,
    torch.feature_alpha_dropout: aten.feature_alpha_dropout.default,
    torch.lstm: aten.lstm.input,
    torch.gru: aten.gru.input,
    torch.rnn_tanh: aten.rnn_tanh.input,
    torch.rnn_relu: aten.rnn_relu.input,
    torch.lstm_cell: aten.lstm_cell.default,
    torch.gru_cell: aten.gru_cell.default,
    torch.rnn_tanh_cell: aten.rnn_tanh_cell.default,
    torch.rnn_relu_cell: aten.rnn_relu_cell.default,
}
# Functions of python that only forward to one of the above, unless asked to work in place.
FORWARDING: dict[Any, Any] = {
    F.dropout: torch.dropout,
    F.alpha_dropout: torch.alpha_dropout,
    F.feature_alpha_dropout: torch.feature_alpha_dropout,
}
# Functions that hand the numbers to python without torch dispatching anything.
READERS = frozenset({torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__})


class Recorder(TorchDispatchMode):
    """Performs every dispatched operation on a tape as well.

    What was recorded holds for the branch taken: truth values and whole numbers may steer python
    code, but a floating number read from a value that depends on the parameters is refused.
    """

    def __init__(self, tape: Tape) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tape = tape
        self.silent = False
        self._known: dict[int, tuple[Tensor, Value]] = {}
        self._by_memory: dict[int, list[tuple[Tensor, Value]]] = {}

    def know(self, tensor: Tensor, value: Value) -> None:
        """From now on `tensor`, which is kept alive with its id, stands for `value`."""
        value.storage = memory(tensor)
        self._known[id(tensor)] = (tensor, value)
        self._by_memory.setdefault(memory(tensor), []).append((tensor, value))

    def value(self, tensor: Tensor) -> Value:
        """What `tensor` stands for; a tensor from elsewhere is a constant."""
        if id(tensor) in self._known:
            return self._known[id(tensor)][1]
        relatives = self._by_memory.get(memory(tensor), [])
        for known, value in relatives:
            if _same_place(known, tensor):
                self._known[id(tensor)] = (tensor, value)
                return value
        if relatives:
            raise TraceError(
                f"a tensor of shape {tuple(tensor.shape)} looks into another tensor's memory in a "
                "way that cannot be followed",
                where=self.tape.module or "forward",
                remedy="use indexing or view instead of .data, set_ or numpy",
            )
        value = self.tape.leaf("constant", "", tensor.detach().clone())
        self.know(tensor, value)
        return value

    def perform(self, op: OpOverload, args: Any, kwargs: Any, run: Callable[[], Any]) -> Any:
        """Run an operation, and put it onto the tape."""
        values, keywords = pytree.tree_map_only(Tensor, self.value, (args, kwargs))
        self._refuse_writes(op, values, keywords)

        def opener(op: OpOverload, a: Sequence[Any], k: dict[str, Any]) -> Any:
            return open_operation(self.tape, op, (a, k), (args, kwargs))

        before, self.silent = self.silent, True
        try:
            result = run()
            done = perform(self.tape, op, values, keywords, result, opener)
        finally:
            self.silent = before
        for tensor, value in zip(_tensors(result), values_in(done), strict=True):
            if id(tensor) not in self._known:
                self.know(tensor, value)
        return result

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.silent or func.namespace == "prim":
            return func(*args, **kwargs)
        if func is aten._local_scalar_dense.default:
            self.refuse_number(args[0], ".item()")
            return func(*args, **kwargs)
        return self.perform(func, args, kwargs, lambda: func(*args, **kwargs))

    def refuse_number(self, tensor: Tensor, how: str) -> None:
        """A python number would silently lose its dependence on the parameters."""
        if tensor.is_floating_point() and self.tape.depends(self.value(tensor)):
            raise TraceError(
                f"{how} turns a tensor of shape {tuple(tensor.shape)} that depends on the "
                "parameters into python numbers",
                where=self.tape.module or "forward",
                remedy="keep it a tensor: drop .item(), float(), .tolist() or .numpy()",
            )

    def _refuse_writes(self, op: OpOverload, values: Any, keywords: Any) -> None:
        """Before it happens: the recorder runs on the model's own parameters."""
        written = written_arguments(op, *complete(op, values, keywords))
        for value in values_in(list(written.values())):
            node = self.tape.nodes[value.base.node]
            if node.op == "parameter":
                raise parameter_written(node.target)


class _Functions(TorchFunctionMode):
    """Catches the functions that are recorded whole before torch takes them apart."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._recorder.silent:
            return func(*args, **kwargs)
        if func in READERS:
            self._recorder.refuse_number(args[0], f".{func.__name__}()")
        if func in FORWARDING and not kwargs["inplace"]:
            func, args, kwargs = FORWARDING[func], (args[0], kwargs["p"], kwargs["training"]), {}
        op = WHOLE.get(func)
        if op is aten.lstm.input and isinstance(args[1], Tensor):
            op = aten.lstm.data
        if op is None:
            return func(*args, **kwargs)
        return self._recorder.perform(op, args, kwargs, lambda: func(*args, **kwargs))


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Everything torch does in this block goes onto the recorder's tape."""
    with recorder, _Functions(recorder):
        yield


def open_operation(tape: Tape, op: OpOverload, values: Any, tensors: Any) -> Any:
    """Run a composite operation on `tensors` piece by piece; `values` are what they stand for."""
    recorder = Recorder(tape)
    for tensor, value in zip(_tensors(tensors), values_in(values), strict=True):
        recorder.know(tensor, value)
    packet = packet_of(op)
    pieces: Callable[..., Any] = op.decompose
    if packet in OPENED:
        pieces = CELLS.get(packet) or decomposition_table[op]
        if op in LAYERED and tensors[0][4] > 1:
            pieces = partial(layer_by_layer, pieces)
    args, kwargs = tensors
    with _no_fused_kernels(), recording(recorder):
        result = pieces(*args, **kwargs)
    return pytree.tree_map_only(Tensor, recorder.value, result)


@contextmanager
def _no_fused_kernels() -> Iterator[None]:
    """One kernel for a whole recurrent layer would hide its pieces again."""
    with warnings.catch_warnings():
        # Setting a flag sets all of them, and some builds announce that they lack one.
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False):
            yield


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def _same_place(left: Tensor, right: Tensor) -> bool:
    return (left.storage_offset(), left.shape, left.stride(), left.dtype) == (
        right.storage_offset(),
        right.shape,
        right.stride(),
        right.dtype,
    )
