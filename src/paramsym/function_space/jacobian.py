"""The derivative of every output by every parameter, as one dense float64 matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from paramsym.errors import ParamsymError
from paramsym.network.function import ModelFunction
from paramsym.numerics import LARGEST_DENSE, SAMPLES_TOLERANCE

# Output entries differentiated at once.
CHUNK = 256
# Parts that a batch is cut into: more save work in each, and cost a call of the model each.
PARTS = 64
# Output entries times input entries up to which the calls would cost more than they save.
SMALL = 2**20


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
    leaves = _leaves(function)
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
    parts = _parts(function.x, outputs.numel())
    rows = _part_by_part(function, parts) if len(parts) > 1 else None
    if rows is not None and _are_rows_of(rows, outputs, leaves):
        return rows
    return _rows(outputs, leaves)


def _leaves(function: ModelFunction) -> dict[str, Tensor]:
    return {name: p.detach().requires_grad_() for name, p in function.parameters.items()}


def _parts(x: Any, entries: int) -> list[Any]:
    """A nested input cut along the axis that all its tensors share, where that saves work."""
    values, structure = pytree.tree_flatten(x)
    tensors = [value for value in values if isinstance(value, Tensor)]
    sizes = {tensor.shape[0] if tensor.dim() else 0 for tensor in tensors}
    if len(sizes) != 1 or entries * sum(tensor.numel() for tensor in tensors) <= SMALL:
        return []
    length = math.ceil(max(sizes) / PARTS) or 1

    def part(start: int) -> Any:
        end = start + length
        return structure.unflatten(v[start:end] if isinstance(v, Tensor) else v for v in values)

    return [part(start) for start in range(0, max(sizes), length)]


def _part_by_part(function: ModelFunction, parts: list[Any]) -> Tensor | None:
    """The rows if no output depended on another part's input; None where a part does not run.

    A row then costs a pass through its own part of the batch, not through all of it.
    """
    try:
        blocks = [_blocks(function.at(part)) for part in parts]
    except Exception:  # whatever the model says of a batch of another size
        return None
    return torch.cat([torch.cat(same_output) for same_output in zip(*blocks, strict=True)])


def _blocks(function: ModelFunction) -> tuple[Tensor, ...]:
    """The rows of each output of the model."""
    leaves = _leaves(function)
    with torch.enable_grad():
        outputs = function.outputs({**function.state, **leaves})
    rows = _rows(torch.cat([y.reshape(-1) for y in outputs]), leaves)
    return torch.split(rows, [y.numel() for y in outputs])


def _are_rows_of(rows: Tensor, outputs: Tensor, leaves: Mapping[str, Tensor]) -> bool:
    """Whether uᵀ rows = uᵀJ for a random u, which any other matrix fails with probability one."""
    if len(rows) != len(outputs):
        return False
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(len(outputs), generator=generator, dtype=rows.dtype).to(rows.device)
    error = (u @ rows - _backward(outputs, leaves, u, batched=False)).abs().max()
    return bool(error <= SAMPLES_TOLERANCE * rows.norm(dim=0).max())


def _rows(outputs: Tensor, leaves: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([_chunk(outputs, leaves, at) for at in range(0, outputs.numel(), CHUNK)])


def _chunk(outputs: Tensor, leaves: Mapping[str, Tensor], start: int) -> Tensor:
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
