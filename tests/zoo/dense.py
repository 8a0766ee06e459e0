"""Slow and obvious references: eager evaluation, the dense Jacobian, its kernel."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

NOISE_SEED = 0  # dropout masks are part of the function being compared


class Kernel(NamedTuple):
    """Nullity of a matrix with the ratio of the singular values on either side of the cut."""

    nullity: int
    gap: float
    rank: int


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer of the model, detached copies under all names."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def flat_parameters(model: nn.Module, values: dict[str, Tensor]) -> Tensor:
    """The vector of `values` over `named_parameters()`, the layout of every tangent vector."""
    return torch.cat([values[name].detach().reshape(-1) for name, _ in model.named_parameters()])


def tensors(result: Any) -> list[Tensor]:
    """Every floating tensor inside a model's result."""
    if isinstance(result, Tensor):
        return [result] if result.is_floating_point() else []
    if isinstance(result, dict):
        return [t for value in result.values() for t in tensors(value)]
    if isinstance(result, (tuple, list)):
        return [t for value in result for t in tensors(value)]
    return []


def forward(model: nn.Module, x: Any) -> list[Tensor]:
    """The floating outputs of the eager module, with noise fixed."""
    torch.manual_seed(NOISE_SEED)
    if isinstance(x, dict):
        return tensors(model(**x))
    if isinstance(x, tuple):
        return tensors(model(*x))
    return tensors(model(x))


def outputs(model: nn.Module, x: Any, state: dict[str, Tensor] | None = None) -> list[Tensor]:
    """Outputs of a copy of the eager module after loading `state` into it."""
    twin = copy.deepcopy(model)
    if state is not None:
        twin.load_state_dict(state, strict=True)
    with torch.no_grad():
        return forward(twin, x)


def change(model: nn.Module, x: Any, state: dict[str, Tensor]) -> float:
    """Largest difference of the outputs at `state` and at the model, relative to their size."""
    before, after = outputs(model, x), outputs(model, x, state)
    assert len(before) == len(after) > 0, "the model returns no floating tensor"
    errors = [_relative(b, a) for b, a in zip(before, after, strict=True)]
    return max(errors)


def _relative(before: Tensor, after: Tensor) -> float:
    assert before.shape == after.shape
    if before.numel() == 0:
        return 0.0
    difference = (before - after).abs().max()
    return float(difference / before.abs().max().clamp_min(1e-30))


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    """Largest entry by which two states differ."""
    return max(
        float((after[name] - value).abs().max())
        for name, value in before.items()
        if value.is_floating_point() and value.numel()
    )


def jacobian(model: nn.Module, x: Any) -> Tensor:
    """Derivative of all outputs by all parameters, one backward pass per output entry."""
    twin = copy.deepcopy(model)
    parameters = [p.requires_grad_() for _, p in twin.named_parameters()]
    stacked = torch.cat([y.reshape(-1) for y in forward(twin, x)])
    basis = torch.eye(stacked.numel(), dtype=stacked.dtype)
    rows = torch.autograd.grad(stacked, parameters, basis, is_grads_batched=True, allow_unused=True)
    columns = [
        basis.new_zeros(len(basis), p.numel()) if r is None else r.reshape(len(basis), -1)
        for r, p in zip(rows, parameters, strict=True)
    ]
    return torch.cat(columns, dim=1).detach()


def kernel(matrix: Tensor) -> Kernel:
    """Nullity of a matrix over its columns, from singular values."""
    values = torch.linalg.svdvals(matrix)
    columns = matrix.shape[1]
    if values.numel() == 0 or values[0] == 0:
        return Kernel(columns, float("inf"), 0)
    tolerance = max(matrix.shape) * torch.finfo(matrix.dtype).eps * values[0] * 10
    rank = int((values > tolerance).sum())
    floor = values[0] * torch.finfo(matrix.dtype).eps
    dropped = values[rank].clamp_min(floor) if rank < values.numel() else floor
    return Kernel(columns - rank, float(values[rank - 1] / dropped), rank)


def orthogonal_rest(vectors: Tensor, span: Tensor) -> float:
    """How far the rows of `vectors` lie outside the row space of `span`, relative to their size."""
    scale = vectors.norm().clamp_min(1e-30)
    if span.shape[0] == 0:
        return float(vectors.norm() / scale)
    _, values, rows = torch.linalg.svd(span, full_matrices=False)
    rows = rows[values > values[0] * 1e-10]
    return float((vectors - vectors @ rows.T @ rows).norm() / scale)
