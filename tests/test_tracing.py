"""Traces say what the model computes, in few words, and leave the model as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import paramsym as ps
from paramsym.network.call import call, to_float64
from paramsym.network.replay import replay
from paramsym.network.trace import trace

Forward = Callable[[Tensor, Tensor], Tensor]
LOWEST = torch.finfo(torch.float64).min


class Reading(nn.Module):
    """Something done with a table and an input."""

    def __init__(self, forward: Forward, *shape: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(*shape, generator=torch.Generator().manual_seed(0)))
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(self.table, x)


def numbers(*entries: Any) -> Tensor:
    return torch.tensor(entries)


def two_axes(table: Tensor, x: Tensor) -> Tensor:
    """Entries along two axes at once, counted from the end too."""
    return table[torch.arange(3), x % 2 - 1] + table[0, 0]


def mask_below(table: Tensor, x: Tensor) -> Tensor:
    return torch.where(x[:, None] > 1, table, float("-inf")).exp()


def mask_filled(table: Tensor, x: Tensor) -> Tensor:
    return table.masked_fill(x[:, None] > 1, LOWEST).exp()


def grouped(table: Tensor, x: Tensor) -> Tensor:
    rows = table.reshape(6, 2)
    ends = torch.tensor([1, 4, 6], dtype=torch.int32)
    return F.grouped_mm(rows, table.transpose(1, 2), offs=ends) * x[:1]


READINGS = {
    "pick rows": (lambda table, x: table[x], (3, 4), "index_select"),
    "pick rows in a grid": (lambda table, x: table[x[None]], (3, 4), "embedding"),
    "pick along the second axis": (lambda t, x: t[:, x[None]], (2, 3, 4), "index_select"),
    "pick pairs": (two_axes, (3, 2, 4), "index_select"),
    "mask by minus infinity": (mask_below, (3, 4), "add"),
    "mask by the lowest number": (mask_filled, (3, 4), "add"),
    "product by groups": (grouped, (3, 2, 2), "matmul"),
}
each = pytest.mark.parametrize("name", READINGS)
X = numbers(2, 0, 1)


@each
def test_graph_computes_what_the_model_does(name: str) -> None:
    """Traced in either precision, the graph gives the model's numbers on another input."""
    forward, shape, spelling = READINGS[name]
    for model in (Reading(forward, *shape), Reading(forward, *shape).double()):
        graph = trace(model, X)
        assert spelling in {node.op.split(".")[1] for node in graph.nodes if "." in node.op}, graph
        twin, other = to_float64(model), numbers(1, 1, 2)
        state = {"table": twin.table.detach()}
        values = replay(graph, state, {"x": other})
        torch.testing.assert_close(values[graph.outputs[0]].double(), call(twin, {}, other))


def packed(table: Tensor, x: Tensor) -> Tensor:
    """Three parts behind one another, as `nn.MultiheadAttention` takes them apart."""
    parts = (table + x[:, None]).unflatten(-1, (3, 4)).unsqueeze(0).transpose(0, -2).squeeze(-2)
    return parts[0] * parts[1] + parts[2]


def unbound(table: Tensor, x: Tensor) -> Tensor:
    q, k, v = (table * x[:, None]).view(3, 3, 2, 2).permute(1, 2, 0, 3).unbind()
    return q * k + v


def interleaved(table: Tensor, x: Tensor) -> Tensor:
    """Parts that alternate are no slices."""
    q, k, v = (table * x[:, None]).view(3, 4, 3).unbind(-1)
    return q * k + v


@pytest.mark.parametrize(
    ("forward", "slices"),
    [(packed, 3), (unbound, 3), (interleaved, 0)],
    ids=["stacked", "unbound", "interleaved"],
)
def test_parts_are_slices_where_they_lie_behind_one_another(forward: Forward, slices: int) -> None:
    model = Reading(forward, 3, 12).double()
    graph = trace(model, X)
    ops = [node.op for node in graph.nodes]
    assert (ops.count("aten.slice.Tensor"), ops.count("aten.select.int")) == (slices, 3 - slices)
    other = numbers(1, 1, 2)
    values = replay(graph, {"table": model.table.detach()}, {"x": other})
    torch.testing.assert_close(values[graph.outputs[0]], call(model, {}, other))


def test_a_part_can_be_written_to() -> None:
    """It is a view of the whole, however it is read."""

    def forward(table: Tensor, x: Tensor) -> Tensor:
        whole = table * x[:, None]
        whole.view(3, 2, 2)[:, 1].add_(5.0)
        return whole

    model = Reading(forward, 3, 4).double()
    values = replay(graph := trace(model, X), {"table": model.table.detach()}, {"x": X})
    torch.testing.assert_close(values[graph.outputs[0]], call(model, {}, X))


def test_zeros_leave_no_trace() -> None:
    """Starting a sum from zeros, or recurring on them, is not a use of fixed values."""

    def forward(table: Tensor, x: Tensor) -> Tensor:
        state = torch.zeros(3, 4)
        for _ in range(2):
            state = table * state + table
        return torch.zeros(3, 4) + state

    ops = [node.op for node in trace(Reading(forward, 3, 4), X).nodes]
    assert ops.count("aten.mul.Tensor") == 1
    assert ops.count("aten.add.Tensor") == 1
    assert "constant" not in ops


class Hooked(nn.Module):
    """Registers a hook in its first call, as transformers does."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.hooked = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.hooked:
            self.inner.register_forward_hook(lambda module, args, output: output + 1)
            self.hooked = True
        return self.inner(x)


def test_hooks_of_a_first_call_are_taken_back() -> None:
    """Else the next call registers them a second time."""
    model, x = Hooked(), torch.ones(1, 2)
    trace(model, x)
    assert not model.hooked and not model.inner._forward_hooks
    torch.testing.assert_close(model(x), F.linear(x, model.inner.weight, model.inner.bias) + 1)


def test_padding_row_keeps_its_derivative() -> None:
    """Torch withholds it from optimisers; the function depends on the row all the same."""
    model = nn.Embedding(3, 2, padding_idx=0).double()
    x = numbers([0, 1, 2])
    assert ps.flat_directions(model, x).nullity == 0
    assert ps.flat_directions(model, numbers([0, 1])).nullity == 2, "a row that is never read"
