"""Real architectures: every symmetry exact, spoilt motions caught, what is unexplained declared."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import paramsym as ps
from paramsym.function_space.jacobian import jacobian_of
from paramsym.network.ties import ties
from paramsym.numerics import GENERATOR_TOLERANCE, null_space, relative_error
from zoo import dense, laws
from zoo.architectures import FAMILIES, LEFTOVER, Family

BY_NAME = {family.name: family for family in FAMILIES}
# Operations that the derivation does not know, and pins, in eval mode.
UNKNOWN = {"mixtral": {"topk"}}

each = pytest.mark.parametrize("name", list(BY_NAME))
# Kinks that no input crosses are flat without being symmetries: ReLU6 is checked, not counted.
each_smooth = pytest.mark.parametrize("name", list(LEFTOVER))


@cache
def derived(name: str, train: bool = False) -> tuple[Family, nn.Module, Any]:
    """A family, its model, and the symmetry derived at a few samples."""
    family = BY_NAME[name]
    model = family.model(train=train)
    kinds = ("exact", "shape")
    sym = ps.symmetries(model, family.x(3), outputs=family.positions(model), include=kinds)
    return family, model, sym


def change(family: Family, model: nn.Module, x: Any, *states: dict[str, Tensor]) -> list[float]:
    """The largest change of the outputs that matter in each state, relative to their size."""
    before = family.loaded(model, x, dense.state_of(model))
    results = [family.loaded(model, x, state) for state in states]
    return [max(map(relative_error, after, before)) for after in results]


def check_exact(name: str, train: bool) -> None:
    """Sampled elements move the weights and nothing else, on other inputs than those traced."""
    family, model, sym = derived(name, train)
    start = dense.state_of(model)
    inputs = [family.x(3)] if train else [family.x(3), family.x(5, seed=1)]
    moved = [sym.act(g, start) for g in laws.elements(sym)[-3:]]
    assert all(state.keys() == start.keys() for state in moved)
    assert max(dense.moved(start, state) for state in moved) > 1e-3, "the check is vacuous"
    for x in inputs:
        assert max(change(family, model, x, *moved)) < laws.EXACT


@each
def test_function_unchanged(name: str) -> None:
    check_exact(name, train=False)


@each
def test_function_unchanged_in_train_mode(name: str) -> None:
    check_exact(name, train=True)


@each_smooth
def test_spoilt_motions_are_caught(name: str) -> None:
    """Every matrix that moves must go all the way: a hundredth left undone changes the function."""
    family, model, sym = derived(name)
    start = dense.state_of(model)
    moved = sym.act(sym.sample(seed=0, scale=laws.SCALE), start)
    same = {canonical: (canonical,) for canonical, _ in model.named_parameters()} | ties(model)
    matrices = [n for n, p in model.named_parameters() if p.dim() > 1]
    matrices = [n for n in matrices if float((moved[n] - start[n]).abs().max()) > 1e-4]
    some = matrices[:: -(-len(matrices) // 12)]
    spoilt = [
        moved | {alias: moved[alias].lerp(start[alias], 0.01) for alias in same[matrix]}
        for matrix in some
    ]
    changes = change(family, model, family.x(3), *spoilt)
    missed = [n for n, changed in zip(some, changes, strict=True) if changed < laws.CAUGHT]
    assert some and not missed, f"spoilt, and nobody noticed: {missed}"


@each_smooth
def test_every_factor_verifies(name: str) -> None:
    family, _, sym = derived(name)
    verification = ps.verify(sym, family.x(3), trials=2)
    assert verification.passed, str(verification)
    assert verification.max_error < 1e-8


@each_smooth
def test_flat_directions_are_accounted_for(name: str) -> None:
    """What no generator explains is what the registry declares, no more and no less."""
    family, model, sym = derived(name)
    matrix = torch.cat([jacobian_of(family.function(model, x)) for x in family.many(model)])
    kernel, rank = null_space(matrix)
    assert rank.gap > 1e3, f"no clear rank: {rank}"
    rows = sym.generators(dense.state_of(model))
    rows = rows / rows.norm(dim=1, keepdim=True)
    pushed = (rows @ matrix.T).norm(dim=1) / float(rank.spectrum[0])
    assert float(pushed.max()) < laws.EXACT, "a generator moves the function"
    missing, _ = null_space(rows @ kernel.T, GENERATOR_TOLERANCE)
    declared = LEFTOVER[name]
    assert len(kernel) == declared.nullity
    assert len(missing) == declared.unexplained, f"declared: {declared.words}"


@each
def test_unknown_operations_are_those_declared(name: str) -> None:
    _, _, sym = derived(name)
    assert {reason.split()[0] for _, reason in sym.pinned} == UNKNOWN.get(name, set())


def test_a_rotation_of_one_head_alone_is_no_symmetry() -> None:
    """Negative control: what one side of a pair does, the other has to undo."""
    family, model, _ = derived("bert")
    start = dense.state_of(model)
    query = "bert.encoder.layer.0.attention.self.query.weight"
    turned = start | {query: start[query].roll(1, 0)}
    (changed,) = change(family, model, family.x(3), turned)
    assert changed > laws.CAUGHT


def test_every_declared_leftover_belongs_to_a_family() -> None:
    assert LEFTOVER.keys() <= BY_NAME.keys()
    assert all(0 <= entry.unexplained <= entry.nullity for entry in LEFTOVER.values())
