"""What makes a derived symmetry one: the function stands still, and the motions are an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

import paramsym as ps
from paramsym.numerics import relative_error
from paramsym.testing.law import LawReport, Suite, check, law

SYMMETRY_LAWS: Suite = []
SCALE = 0.2  # of sampled elements


@dataclass(frozen=True)
class Subject:
    """A model in float64, its symmetry, and where its weights stand."""

    model: nn.Module
    x: Any
    sym: ps.Symmetry
    state: dict[str, Tensor]
    seed: int
    trials: int

    def element(self, which: int) -> Any:
        """The same random element for the same number."""
        return self.sym.sample(seed=self.seed + which, scale=SCALE)


def check_symmetry(
    model: nn.Module, x: Any, sym: ps.Symmetry | None = None, *, seed: int = 0, trials: int = 4
) -> LawReport:
    """Test the symmetry of a model: run it on a small net around each new rule.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    >>> check_symmetry(net, torch.randn(5, 3)).passed
    True
    """
    sym = ps.symmetries(model, x) if sym is None else sym
    state = {
        name: value.detach().double() if value.is_floating_point() else value
        for name, value in model.state_dict().items()
    }
    subject = Subject(model, x, sym, state, seed, trials)
    return check(SYMMETRY_LAWS, type(model).__name__, subject)


@law(SYMMETRY_LAWS, "every operation has a rule")
def known_operations(subject: Subject) -> float:
    return float(len(subject.sym.pinned))


@law(SYMMETRY_LAWS, "F(gθ, x) = F(θ, x), and not if the motion is spoilt")
def function_unchanged(subject: Subject) -> float:
    proof = ps.verify(subject.sym, subject.x, subject.trials, subject.seed, model=subject.model)
    # What is free altogether cannot be spoilt: every other value is right as well.
    blunt = any(not label.endswith(": free") for label in proof.uncontrolled)
    return max(proof.max_error, float(blunt))


@law(SYMMETRY_LAWS, "(gh)θ = g(hθ), 1θ = θ, and g⁻¹(gθ) = θ")
def an_action(subject: Subject) -> float:
    sym, state = subject.sym, subject.state
    g, h = subject.element(1), subject.element(2)
    moved = sym.act(g, state)
    return max(
        _distance(sym.act(sym.compose(g, h), state), sym.act(g, sym.act(h, state))),
        _distance(sym.act(sym.identity(), state), state),
        _distance(sym.act(sym.inverse(g), moved), state),
    )


@law(SYMMETRY_LAWS, "generators do not move the function: J·Xθ = 0")
def flat_generators(subject: Subject) -> float:
    if not subject.sym.dim:
        return 0.0
    rows = subject.sym.generators(subject.state)
    jacobian = ps.jacobian(subject.model, subject.x)
    return float((rows @ jacobian.mT).norm() / (rows.norm() * jacobian.norm()))


@law(SYMMETRY_LAWS, "from_dict(to_dict()) moves the weights in the same way")
def saved(subject: Subject) -> float:
    again = ps.Symmetry.from_dict(subject.sym.to_dict())
    moved = again.act(again.sample(seed=subject.seed, scale=SCALE), subject.state)
    return _distance(moved, subject.sym.act(subject.element(0), subject.state))


def _distance(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    floating = [name for name, value in b.items() if value.is_floating_point() and value.numel()]
    return max((relative_error(a[name], b[name]) for name in floating), default=0.0)


__all__ = ["SYMMETRY_LAWS", "check_symmetry"]
