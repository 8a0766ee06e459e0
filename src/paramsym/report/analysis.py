"""Everything the package can say of one model, gathered in one record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import paramsym as ps
from paramsym.network.call import call, outputs_of

if TYPE_CHECKING:
    from paramsym import Explanation, Symmetry, Verification

Inputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]

# The measurement takes a singular value decomposition, whose cost grows with the third power of
# this: beyond it, minutes.
LARGEST_MEASURED = 4000


@dataclass(frozen=True)
class Analysis:
    """A model's symmetry, its proof, and how much of the measured kernel it explains.

    `explanation` is None where nothing was measured, and `unmeasured` then says why.
    """

    symmetry: Symmetry
    verification: Verification
    explanation: Explanation | None
    unmeasured: str

    @property
    def holds(self) -> bool:
        """Did every check that ran succeed?"""
        return bool(self.verification.passed)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        symmetry, explanation = self.symmetry, self.explanation
        return {
            "holds": self.holds,
            "dim": symmetry.dim,
            "log10_order": symmetry.log10_order,
            "pinned": [{"where": where, "reason": reason} for where, reason in symmetry.pinned],
            "symmetry": symmetry.to_dict(),
            "verification": self.verification.to_dict(),
            "explanation": None if explanation is None else explanation.to_dict(),
            "unmeasured": self.unmeasured,
        }


def analyze(
    model: nn.Module, x: Inputs, *, tokens: int | None = None, trials: int = 8, seed: int = 0
) -> Analysis:
    """Derive the symmetry of a model, prove it, and measure what it leaves unexplained.

    The measurement draws its own inputs, as many as it needs, shaped like `x`; integer inputs
    stay below `tokens`, by default the largest one in `x`.

    >>> net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    >>> analyze(net, torch.randn(5, 3)).holds
    True
    """
    symmetry = ps.symmetries(model, x, seed=seed)
    verification = ps.verify(symmetry, x, trials=trials, seed=seed)
    weights = sum(parameter.numel() for parameter in model.parameters())
    if weights > LARGEST_MEASURED:
        why = f"{weights} parameters: the dense measurement stops at {LARGEST_MEASURED}"
        return Analysis(symmetry, verification, None, why)
    many = more_like(x, samples_for(model, x, weights), tokens=tokens, seed=seed)
    return Analysis(symmetry, verification, ps.explain(model, many, sym=symmetry, seed=seed), "")


def samples_for(model: nn.Module, x: Inputs, weights: int) -> int:
    """How many inputs give twice as many output values as there are weights."""
    with torch.no_grad():
        outputs = outputs_of(call(model, {}, x))
    batch = max(tensors_of(x)[0].shape[0], 1)
    per_sample = max(sum(output.numel() for output in outputs) / batch, 1.0)
    return max(batch, math.ceil(2 * weights / per_sample))


def more_like(x: Inputs, batch: int, *, tokens: int | None, seed: int) -> Inputs:
    """Inputs of the same kind, with `batch` entries along the first axis of every tensor."""
    generator = torch.Generator().manual_seed(seed)

    def draw(tensor: Tensor) -> Tensor:
        shape = (batch, *tensor.shape[1:])
        if tensor.is_floating_point():
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(tensor.dtype)
        high = int(tensor.max()) + 1 if tokens is None else tokens
        return torch.randint(high, shape, generator=generator).to(tensor.dtype)

    if isinstance(x, Tensor):
        return draw(x)
    if isinstance(x, dict):
        return {name: draw(tensor) for name, tensor in x.items()}
    return tuple(draw(tensor) for tensor in x)


def tensors_of(x: Inputs) -> list[Tensor]:
    """The tensors of an example input, in order."""
    if isinstance(x, Tensor):
        return [x]
    return list(x.values() if isinstance(x, dict) else x)
