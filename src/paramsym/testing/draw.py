"""Reproducible random elements of groups, and what is computed from them once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from paramsym.groups import Element, Group
from paramsym.groups.elements import homogeneous
from paramsym.numerics import MOVED_TOLERANCE

SCALE = 0.3  # of sampled elements: far from the identity, near enough for exact arithmetic
COUNTABLE = 64  # components up to which a law counts them one by one


@dataclass(frozen=True)
class Draw:
    """Random elements of groups, the same ones for the same seed."""

    seed: int
    trials: int
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def elements(self, group: Group, count: int = 1, scale: float = SCALE) -> list[Element]:
        """Some independent batches of elements."""
        generator = torch.Generator().manual_seed(self.seed)
        return [
            group.sample(generator=generator, scale=scale, shape=(self.trials,))
            for _ in range(count)
        ]

    def vectors(self, size: int, count: int = 1) -> list[Tensor]:
        """Some independent batches of Gaussian vectors."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        shape = (count, self.trials, size)
        return list(torch.randn(shape, generator=generator, dtype=torch.float64) * SCALE)

    def matrices(self, group: Group, scale: float = SCALE) -> Tensor:
        """One batch of elements as homogeneous matrices; representatives at scale zero."""

        def drawn() -> Tensor:
            (g,) = self.elements(group, scale=scale)
            return homogeneous(group.linear(g), group.offset(g))

        return self._once(("matrices", group, scale), drawn)

    def inside(self, group: Group, source: Group, scale: float = SCALE) -> Tensor:
        """Which of the matrices of one group are in another, (trials,)."""
        key = ("inside", group, source, scale)
        return self._once(key, lambda: group.is_member(self.matrices(source, scale)))

    def algebra(self, group: Group) -> Tensor:
        """A basis of the Lie algebra, one homogeneous matrix a row."""

        def flat() -> Tensor:
            x = group.algebra()
            if not group.affine:
                x = torch.nn.functional.pad(x, (0, 1, 0, 1))
            return x.flatten(1)

        return self._once(("algebra", group), flat)

    def _once(self, key: Hashable, compute: Callable[[], Tensor]) -> Tensor:
        if key not in self._kept:
            self._kept[key] = compute()
        found: Tensor = self._kept[key]
        return found


def outside(group: Group, matrices: Tensor) -> float:
    """The share of matrices that are not members."""
    return share(~group.is_member(matrices))


def share(where: Tensor) -> float:
    """How much of a mask is true."""
    return float(where.double().mean()) if where.numel() else 0.0


def representatives(group: Group, seed: int) -> Tensor:
    """The distinct matrices discrete sampling reaches, enough draws to reach all of few."""
    draws = 32 + 16 * min(group.order, COUNTABLE)
    matrices = group.matrix(group.sample(seed, 0.0, (draws,)))
    _, which = (matrices / MOVED_TOLERANCE).round().unique(dim=0, return_inverse=True)
    first = torch.zeros(int(which.max()) + 1, dtype=torch.long)
    return matrices[first.scatter(0, which, torch.arange(draws))]
