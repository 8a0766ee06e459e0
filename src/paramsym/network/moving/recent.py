"""A cache of tensors that forgets what was asked for longest ago."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

# Bytes of moved tensors that one action keeps at hand.
BUDGET = 2**28


@dataclass
class Recent:
    """Tensors by name, together at most `budget` bytes (but always the last one).

    >>> import torch
    >>> recent = Recent(budget=8)
    >>> recent.get("a", lambda: torch.zeros(2)), recent.get("b", lambda: torch.ones(1))
    (tensor([0., 0.]), tensor([1.]))
    >>> list(recent.held)
    ['b']
    """

    budget: int = BUDGET
    held: dict[str, Tensor] = field(default_factory=dict)

    def get(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        """The tensor of that name, made again if it has been forgotten."""
        tensor = self.held.pop(name) if name in self.held else make()
        self.held[name] = tensor
        while len(self.held) > 1 and sum(t.nbytes for t in self.held.values()) > self.budget:
            self.held.pop(next(iter(self.held)))
        return tensor
