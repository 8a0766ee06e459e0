"""The ledger of a model: every flat direction, and which symmetry it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from paramsym.action.protocol import Action
from paramsym.errors import ShapeError
from paramsym.function_space.jacobian import jacobian_of
from paramsym.function_space.shares import parameter_shares, shares_table
from paramsym.network.function import ModelFunction
from paramsym.numerics import (
    FLAT_TOLERANCE,
    GENERATOR_TOLERANCE,
    Rank,
    Threshold,
    matrix_rank,
    normalised_rows,
    null_space,
)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Measured flat directions against the generators of a symmetry.

    `nullity` = dim ker J, `explained` = rank of the generators inside it, `completeness` their
    ratio, and `leftover` an orthonormal basis (rows) of what remains of the kernel. `by_space` and
    `by_kind` divide `explained` among the labels of the generators: a direction that several of
    them share counts for the first. `unsound` names generators that move the function.
    """

    nullity: int
    explained: int
    leftover: Tensor
    by_space: dict[str, int]
    by_kind: dict[str, int]
    unsound: tuple[str, ...]
    rank: Rank
    shapes: dict[str, tuple[int, ...]]

    @property
    def completeness(self) -> float:
        """explained / nullity, 1 when there is nothing to explain."""
        return self.explained / self.nullity if self.nullity else 1.0

    @property
    def sound(self) -> bool:
        """Does every generator leave the function alone to first order?"""
        return not self.unsound

    @property
    def leftover_shares(self) -> dict[str, float]:
        """How much of the leftover lies in each parameter; they sum to 1."""
        return parameter_shares(self.leftover, self.shapes)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "nullity": self.nullity,
            "explained": self.explained,
            "completeness": self.completeness,
            "by_space": dict(self.by_space),
            "by_kind": dict(self.by_kind),
            "unsound": list(self.unsound),
            "rank": self.rank.to_dict(),
            "leftover": self.leftover.tolist(),
            "leftover_shares": self.leftover_shares,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.explained} of {self.nullity} flat directions explained, completeness "
            f"{self.completeness:.3f} (rank {int(self.rank)}, gap {self.rank.gap:.1e})"
        ]
        width = max((len(label) for label in self.by_space), default=0)
        lines += [f"  {label:<{width}}  {count}" for label, count in self.by_space.items()]
        if len(self.leftover):
            lines += [f"unexplained: {len(self.leftover)}, in", *shares_table(self.leftover_shares)]
        lines += [f"NOT a symmetry: {label} moves the function" for label in self.unsound]
        return "\n".join(lines)


def explain(
    model: nn.Module,
    x: Any,
    params: Mapping[str, Tensor] | None = None,
    sym: Action | None = None,
    *,
    threshold: Threshold = "float64",
    seed: int = 0,
) -> Explanation:
    """Which flat directions of a model on these inputs its symmetries explain.

    `sym` is any action with generators and labels, by default what `ps.symmetries` derives. The
    kernel is measured on `x`: pass many generic inputs.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> explain(net, torch.randn(20, 2)).completeness
    1.0
    """
    function = ModelFunction.of(model, x, params, seed=seed)
    if sym is None:
        from paramsym.network.derive import symmetries

        sym = symmetries(model, x, seed=seed)
    generators = sym.generators(dict(function.state)).detach().to(torch.float64)
    columns = sum(p.numel() for p in function.parameters.values())
    if generators.dim() != 2 or generators.shape[1] != columns:
        raise ShapeError(
            f"generators of shape {tuple(generators.shape)} do not run over {columns} parameters",
            where="explain",
            remedy="pass a symmetry of this model",
        )
    labels = list(getattr(sym, "labels", ())) or [f"generator {i}" for i in range(len(generators))]
    return _ledger(function, generators, labels, threshold)


def _ledger(
    function: ModelFunction, generators: Tensor, labels: Sequence[str], threshold: Threshold
) -> Explanation:
    matrix = jacobian_of(function)
    kernel, rank = null_space(matrix, threshold)
    rows = normalised_rows(generators)
    steepest = float(rank.spectrum[0]) if rank.spectrum.numel() else 0.0
    flat = (rows @ matrix.T).norm(dim=1) <= FLAT_TOLERANCE * steepest
    unsound = tuple(label for label, fine in zip(labels, flat.tolist(), strict=True) if not fine)
    named = [label for label, fine in zip(labels, flat.tolist(), strict=True) if fine]
    # Inside the kernel, where what rounding added outside of it does not count.
    inside = rows[flat] @ kernel.T
    missing, _ = null_space(inside, GENERATOR_TOLERANCE)
    return Explanation(
        nullity=len(kernel),
        explained=len(kernel) - len(missing),
        leftover=missing @ kernel,
        by_space=_divided(inside, [space_of(label) for label in named]),
        by_kind=_divided(inside, [kind_of(label) for label in named]),
        unsound=unsound,
        rank=rank,
        shapes={name: tuple(p.shape) for name, p in function.parameters.items()},
    )


def _divided(rows: Tensor, keys: Sequence[str]) -> dict[str, int]:
    """What the rows of each key add to the rank of the rows of the keys before it."""
    counts: dict[str, int] = {}
    taken: list[int] = []
    before = 0
    for key in dict.fromkeys(keys):
        taken += [i for i, other in enumerate(keys) if other == key]
        total = int(matrix_rank(rows[taken], GENERATOR_TOLERANCE))
        counts[key], before = total - before, total
    return counts


def space_of(label: str) -> str:
    """The space that a generator's label names.

    >>> space_of("layers.0: scale of unit 3")
    'layers.0'
    """
    return label.rpartition(": ")[0] or label


def kind_of(label: str) -> str:
    """The kind of motion that a generator's label names.

    >>> kind_of("layers.0: scale of unit 3")
    'scale'
    """
    return label.rpartition(": ")[2].partition(" of ")[0]
