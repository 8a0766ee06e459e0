"""What every derived symmetry must satisfy, written once and driven by the zoo and the rules."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor, nn

import paramsym as ps
from zoo import dense
from zoo.models import Case

EXACT = 1e-9  # relative error of the function in float64
CAUGHT = 1e-7  # the least change a forbidden element must make
SCALE = 0.2

_derived: dict[str, tuple[nn.Module, Any]] = {}


def derived(case: Case, kind: str = "model") -> tuple[nn.Module, Any]:
    """The model of a case and its symmetry, derived once a process."""
    key = f"{kind}/{case.name}"
    if key not in _derived:
        model = case.model()
        _derived[key] = model, ps.symmetries(model, case.x(3))
    return _derived[key]


def elements(sym: Any) -> list[Any]:
    """Continuous and discrete together, and each alone."""
    return [
        *(sym.sample(seed=seed, scale=SCALE, discrete=True) for seed in range(4)),
        sym.sample(seed=5, scale=0.0, discrete=True),
        sym.sample(seed=6, scale=SCALE, discrete=False),
    ]


def trivial(sym: Any) -> bool:
    """Whether nothing can move."""
    return sym.dim == 0 and sym.log10_order < 1e-6


def unchanged(case: Case, model: nn.Module, sym: Any) -> float:
    """Largest change of the eager module under sampled elements, on fresh inputs of other sizes."""
    state = dense.state_of(model)
    inputs = [case.x(3), case.x(5, seed=1), case.x(8, seed=2)]
    worst = 0.0
    for g in elements(sym):
        new = sym.act(g, state)
        assert new.keys() == state.keys(), "an action returns every key it was given"
        worst = max(worst, *(dense.change(model, x, new) for x in inputs))
    return worst


def moves(model: nn.Module, sym: Any) -> float:
    """The largest entry by which a sampled element moves a parameter."""
    state = dense.state_of(model)
    return max(dense.moved(state, sym.act(g, state)) for g in elements(sym))


def check_action_laws(model: nn.Module, sym: Any) -> None:
    """Composition, inverse and identity, on parameters."""
    state = dense.state_of(model)
    g, h, k = (sym.sample(seed=seed, scale=SCALE) for seed in (11, 12, 13))
    _same(sym.act(sym.identity(), state), state, "identity")
    _same(sym.act(sym.compose(g, h), state), sym.act(g, sym.act(h, state)), "composition")
    _same(sym.act(sym.inverse(g), sym.act(g, state)), state, "inverse")
    left = sym.act(sym.compose(sym.compose(g, h), k), state)
    right = sym.act(sym.compose(g, sym.compose(h, k)), state)
    _same(left, right, "associativity")


def _same(actual: dict[str, Tensor], expected: dict[str, Tensor], law: str) -> None:
    assert actual.keys() == expected.keys(), law
    for name, value in expected.items():
        scale = value.abs().max().clamp_min(1.0) if value.numel() else 1.0
        error = (actual[name] - value).abs().max() / scale if value.numel() else 0.0
        assert error < EXACT, f"{law} of the action fails on {name}: {float(error):.1e}"


def check_round_trip(model: nn.Module, sym: Any) -> None:
    """A symmetry saved as JSON and loaded acts as it did, bit for bit."""
    state = dense.state_of(model)
    loaded = ps.Symmetry.from_dict(json.loads(json.dumps(sym.to_dict())))
    assert (loaded.dim, loaded.labels) == (sym.dim, sym.labels)
    for seed in range(2):
        g, same = sym.sample(seed=seed, scale=SCALE), loaded.sample(seed=seed, scale=SCALE)
        moved, again, other = sym.act(g, state), loaded.act(g, state), loaded.act(same, state)
        for name, value in moved.items():
            assert torch.equal(again[name], value), f"{name} moves differently after loading"
            assert torch.equal(other[name], value), f"{name}: the loaded symmetry samples otherwise"


def check_generators(case: Case, model: nn.Module, sym: Any) -> None:
    """Generators are what small elements do, and the function does not feel them."""
    state = dense.state_of(model)
    rows = sym.generators(state)
    size = sum(p.numel() for p in model.parameters())
    assert rows.shape == (sym.dim, size)
    assert len(sym.labels) == sym.dim
    if sym.dim == 0:
        return
    jacobian = dense.jacobian(model, case.x(6, seed=3))
    push = (rows @ jacobian.T).norm(dim=1) / (rows.norm(dim=1).clamp_min(1e-12) * jacobian.norm())
    worst = int(push.argmax())
    assert push[worst] < 1e-9, f"{sym.labels[worst]} moves the function: {float(push[worst]):.1e}"
    velocities = torch.stack([_velocity(model, sym, state, seed) for seed in range(6)])
    outside = dense.orthogonal_rest(velocities, rows)
    assert outside < 1e-6, f"small elements leave the span of the generators by {outside:.1e}"
    if sym.dim <= 12:
        more = torch.stack([_velocity(model, sym, state, seed) for seed in range(sym.dim + 2)])
        inside = dense.orthogonal_rest(rows, more)
        assert inside < 1e-5, f"generators that no small element follows: {inside:.1e}"


def _velocity(model: nn.Module, sym: Any, state: dict[str, Tensor], seed: int) -> Tensor:
    """Central difference along one small element, in units of its size."""
    step = 1e-5
    g = sym.sample(seed=seed, scale=step, discrete=False)
    ahead = dense.flat_parameters(model, sym.act(g, state))
    behind = dense.flat_parameters(model, sym.act(sym.inverse(g), state))
    return (ahead - behind) / (2 * step)


def unexplained(case: Case, model: nn.Module, sym: Any) -> tuple[int, int, int]:
    """Kernel dimension of the dense Jacobian, rank of the generators, and what they leave."""
    inputs = case.many(model)
    kernel = dense.kernel(torch.cat([dense.jacobian(model, x) for x in inputs]))
    assert kernel.gap > 1e3, f"no clear rank: gap {kernel.gap:.1e}"
    rows = sym.generators(dense.state_of(model))
    norms = rows.norm(dim=1, keepdim=True).clamp_min(1e-30)
    rank = dense.kernel(rows / norms).rank if sym.dim else 0
    return kernel.nullity, rank, kernel.nullity - rank


def check_controls(sym: Any) -> None:
    """Every factor verifies, and its spoilt motion is caught."""
    verification = ps.verify(sym, trials=4)
    assert verification.passed, str(verification)
    # What is free altogether cannot be spoilt: every other value is right as well.
    spoilt = [label for label in verification.uncontrolled if not label.endswith(": free")]
    assert not spoilt, str(verification)
