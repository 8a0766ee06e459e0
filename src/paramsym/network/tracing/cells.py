"""Recurrent cells written with linear maps, as torch's documentation defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

__all__ = ["CELLS", "layer_by_layer"]


def lstm_cell(
    x: Tensor,
    state: list[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`c' = f c + i g`, `h' = o tanh(c')` with the gates i, f, g, o."""
    hidden, memory = state
    gates = linear(x, w_ih, b_ih) + linear(hidden, w_hh, b_hh)
    i, f, g, o = gates.chunk(4, dim=-1)
    memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(memory), memory


def gru_cell(
    x: Tensor,
    hidden: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """`h' = n + z (h - n)` with the gates r, z and `n = tanh(x_n + r h_n)`."""
    x_r, x_z, x_n = linear(x, w_ih, b_ih).chunk(3, dim=-1)
    h_r, h_z, h_n = linear(hidden, w_hh, b_hh).chunk(3, dim=-1)
    new = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return new + torch.sigmoid(x_z + h_z) * (hidden - new)


def _elman(activation: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def cell(
        x: Tensor,
        hidden: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor:
        return activation(linear(x, w_ih, b_ih) + linear(hidden, w_hh, b_hh))

    return cell


CELLS: dict[str, Callable[..., Any]] = {
    "lstm_cell": lstm_cell,
    "gru_cell": gru_cell,
    "rnn_tanh_cell": _elman(torch.tanh),
    "rnn_relu_cell": _elman(torch.relu),
}


def layer_by_layer(layer: Callable[..., Any], *args: Any) -> tuple[Tensor, ...]:
    """A recurrent net of several layers as nets of one ``layer``, with the dropout in between.

    torch's own pieces of such a net leave that dropout out.
    """
    x, state, params, has_biases, layers, p, train, both_ways, batch_first = args
    states = list(state) if isinstance(state, (list, tuple)) else [state]
    ways, each = 1 + both_ways, len(params) // layers
    ends: list[tuple[Tensor, ...]] = []
    for k in range(layers):
        own = [h[k * ways : (k + 1) * ways] for h in states]
        hidden = own if isinstance(state, (list, tuple)) else own[0]
        weights = params[k * each : (k + 1) * each]
        x, *end = layer(x, hidden, weights, has_biases, 1, 0.0, train, both_ways, batch_first)
        ends.append(tuple(end))
        if train and p and k < layers - 1:
            x = torch.dropout(x, p, True)
    return x, *(torch.cat(parts) for parts in zip(*ends, strict=True))
