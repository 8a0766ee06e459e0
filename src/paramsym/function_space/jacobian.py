"""The derivative of every output by every parameter, as one dense float64 matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from paramsym.errors import ParamsymError
from paramsym.network.function import ModelFunction
from paramsym.numerics import LARGEST_DENSE

# Output entries differentiated at once.
CHUNK = 256


def jacobian(
    model: nn.Module, x: Any, params: Mapping[str, Tensor] | None = None, *, seed: int = 0
) -> Tensor:
    """J = ∂F(θ)(x)/∂θ: a row per output entry, a column per parameter entry.

    Rows run over all floating outputs, flattened in order; columns over `named_parameters()`.

    >>> jacobian(nn.Linear(2, 1), torch.tensor([[3.0, 4.0]]))
    tensor([[3., 4., 1.]], dtype=torch.float64)
    """
    return jacobian_of(ModelFunction.of(model, x, params, seed=seed))


def jacobian_of(function: ModelFunction) -> Tensor:
    """The Jacobian of a model function at its own state."""
    leaves = {name: p.detach().requires_grad_() for name, p in function.parameters.items()}
    with torch.enable_grad():
        outputs = function.stacked({**function.state, **leaves})
    if not bool(torch.isfinite(outputs).all()):
        raise ParamsymError(
            "the model returns NaN or infinite values for this input",
            where=type(function.model).__name__,
            remedy="check inputs and weights",
        )
    columns = sum(leaf.numel() for leaf in leaves.values())
    if outputs.numel() * columns > LARGEST_DENSE:
        raise ParamsymError(
            f"a dense Jacobian of {outputs.numel()} outputs by {columns} parameters is too large",
            where=type(function.model).__name__,
            remedy="measure fewer inputs or a narrower model",
        )
    if not outputs.requires_grad:
        return outputs.new_zeros(outputs.numel(), columns)
    return torch.cat([_rows(outputs, leaves, at) for at in range(0, outputs.numel(), CHUNK)])


def _rows(outputs: Tensor, leaves: Mapping[str, Tensor], start: int) -> Tensor:
    """A chunk of rows: one batched backward pass, or one pass each where that is impossible."""
    stop = min(start + CHUNK, outputs.numel())
    picks = torch.zeros(stop - start, outputs.numel(), dtype=outputs.dtype, device=outputs.device)
    picks[torch.arange(stop - start), torch.arange(start, stop)] = 1
    try:
        return _backward(outputs, leaves, picks, batched=True)
    except RuntimeError:  # an operation whose derivative cannot be batched
        return torch.cat([_backward(outputs, leaves, pick, batched=False) for pick in picks])


def _backward(
    outputs: Tensor, leaves: Mapping[str, Tensor], picks: Tensor, *, batched: bool
) -> Tensor:
    gradients = torch.autograd.grad(
        outputs,
        list(leaves.values()),
        picks,
        retain_graph=True,
        is_grads_batched=batched,
        allow_unused=True,
        materialize_grads=True,
    )
    rows = len(picks) if batched else 1
    return torch.cat([gradient.reshape(rows, -1) for gradient in gradients], dim=1)
