"""Flat directions: the tangent vectors of parameter space along which no output moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from paramsym.function_space.jacobian import jacobian_of
from paramsym.function_space.shares import parameter_shares, shares_table
from paramsym.network.function import ModelFunction
from paramsym.numerics import Rank, Threshold, null_space


@dataclass(frozen=True, eq=False)
class FlatDirections:
    """The kernel of the parameter Jacobian J on given inputs, measured in float64.

    `basis` holds `nullity` orthonormal rows over `named_parameters()`, and `shapes` how those
    columns split into parameters. `nullity` = D − `rank`.
    """

    rank: Rank
    basis: Tensor
    shapes: dict[str, tuple[int, ...]]

    @property
    def nullity(self) -> int:
        """The dimension of ker J."""
        return len(self.basis)

    @property
    def spectrum(self) -> Tensor:
        """The singular values of J, descending."""
        return self.rank.spectrum

    @property
    def gap(self) -> float:
        """The smallest singular value kept over the largest one dropped."""
        return self.rank.gap

    @property
    def shares(self) -> dict[str, float]:
        """How much of the flat directions lies in each parameter; they sum to 1."""
        return parameter_shares(self.basis, self.shapes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, the basis included."""
        return {
            "rank": self.rank.to_dict(),
            "nullity": self.nullity,
            "basis": self.basis.tolist(),
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
        }

    def __str__(self) -> str:
        size = self.basis.shape[1]
        title = f"{self.nullity} flat directions of {size} (rank {int(self.rank)}"
        return "\n".join([f"{title}, gap {self.gap:.1e})", *shares_table(self.shares)])


def flat_directions(
    model: nn.Module,
    x: Any,
    params: Mapping[str, Tensor] | None = None,
    *,
    threshold: Threshold = "float64",
    seed: int = 0,
) -> FlatDirections:
    """Measure ker J_X(θ) on the inputs given: pass many generic ones.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> flat_directions(net, torch.randn(20, 2)).nullity  # GL(2) and its translations
    6
    """
    return flat_directions_of(ModelFunction.of(model, x, params, seed=seed), threshold)


def flat_directions_of(function: ModelFunction, threshold: Threshold = "float64") -> FlatDirections:
    """The flat directions of a model function at its own state."""
    basis, rank = null_space(jacobian_of(function), threshold)
    shapes = {name: tuple(p.shape) for name, p in function.parameters.items()}
    return FlatDirections(rank, basis, shapes)
