"""Each row of the table of groups on one operation: positive, negative, complete."""

from __future__ import annotations

import math

import pytest
import torch

import paramsym as ps
from paramsym.network import rules
from paramsym.network.rules.elementwise import pointwise
from zoo import dense, laws
from zoo.operations import OPERATIONS, ROWS, Operation
from zoo.variants import VARIANTS

TABLE = {
    "nothing",
    "homogeneous",
    "odd",
    "even",
    "exp",
    "PReLU slope",
    "homogeneous and odd or even",
    "sigmoid flip",
    "softplus, SiLU, GELU",
    "any other",
    "radial",
    "BatchNorm",
    "GLU",
    "residual add",
    "concat",
    "flatten",
    "max-pool",
    "average-pool",
    "tied weights",
    "unknown",
}


def each(operations: list[Operation] | tuple[Operation, ...]) -> pytest.MarkDecorator:
    """One test an operation, under its name."""
    return pytest.mark.parametrize("case", operations, ids=[case.name for case in operations])


ALL = (*OPERATIONS, *VARIANTS)
every = each(ALL)


def test_every_row_has_an_entry() -> None:
    assert TABLE <= ROWS, f"rows without an operation: {TABLE - ROWS}"


@pytest.mark.parametrize("row", sorted(TABLE - {"unknown"}))
def test_every_row_has_motions_and_a_kernel(row: str) -> None:
    """A positive element, a negative control and a completeness test in each row."""
    entries = [case for case in OPERATIONS if case.row == row]
    assert any(case.leftover is not None and case.flat is not None for case in entries)
    if row not in {"concat", "flatten"}:  # driven by derived elements only
        assert any(case.allowed for case in entries)
        assert any(case.forbidden for case in entries)


@each([case for case in ALL if case.allowed])
def test_allowed_by_hand(case: Operation) -> None:
    """The table is right: the motion it allows keeps the function. No engine involved."""
    model = case.model()
    state = dense.state_of(model)
    for name, motion in case.allowed.items():
        moved = {**state, **motion(state)}
        assert dense.moved(state, moved) > 1e-3
        assert dense.change(model, case.x(24), moved) < laws.EXACT, name


@each([case for case in ALL if case.forbidden])
def test_forbidden_by_hand(case: Operation) -> None:
    """The table is sharp: a motion a little outside of it changes the function."""
    model = case.model()
    state = dense.state_of(model)
    for name, motion in case.forbidden.items():
        changed = dense.change(model, case.x(24), {**state, **motion(state)})
        assert changed > laws.CAUGHT, name


@every
def test_function_unchanged(case: Operation) -> None:
    model, sym = laws.derived(case, "rule")
    assert laws.unchanged(case, model, sym) < laws.EXACT, str(sym)
    if not laws.trivial(sym):
        assert laws.moves(model, sym) > 1e-3, "the samples move nothing: the check is vacuous"


@every
def test_spoilt_motions_are_caught(case: Operation) -> None:
    _, sym = laws.derived(case, "rule")
    laws.check_controls(sym)


@each([case for case in ALL if case.dim is not None])
def test_dimension(case: Operation) -> None:
    _, sym = laws.derived(case, "rule")
    assert sym.dim == case.dim, f"derived {sym.dim}, counted {case.dim}\n{sym}"


@each([case for case in ALL if case.order is not None])
def test_order(case: Operation) -> None:
    _, sym = laws.derived(case, "rule")
    assert sym.log10_order == pytest.approx(math.log10(case.order or 1), abs=1e-6), str(sym)


@each([case for case in ALL if case.leftover is not None])
def test_complete(case: Operation) -> None:
    """The generators span the kernel of the dense Jacobian, or the note says what is left."""
    model, sym = laws.derived(case, "rule")
    nullity, rank, rest = laws.unexplained(case, model, sym)
    assert nullity == case.flat, f"measured {nullity} flat directions, counted {case.flat}"
    assert 0 <= rest <= (case.leftover or 0), f"{rank} of {nullity} explained. {case.note}\n{sym}"


@every
def test_action_laws(case: Operation) -> None:
    laws.check_action_laws(*laws.derived(case, "rule"))


@every
def test_generators_are_velocities(case: Operation) -> None:
    laws.check_generators(case, *laws.derived(case, "rule"))


@every
def test_pinned_only_where_unknown(case: Operation) -> None:
    _, sym = laws.derived(case, "rule")
    named = " ".join(f"{where} {reason}" for where, reason in sym.pinned)
    assert bool(sym.pinned) == bool(case.pinned), f"pinned: {sym.pinned}"
    assert all(operation in named for operation in case.pinned), f"pinned: {sym.pinned}"


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """GELU declared homogeneous: verify fails, bisects to the scales and names the operation."""
    rules.find_rule("aten.gelu.default")
    homogeneous = ps.activation_facts(torch.relu)
    monkeypatch.setitem(
        rules._RULES, "aten.gelu.default", lambda op: pointwise(op, op[0], homogeneous)
    )
    case = next(case for case in OPERATIONS if case.name == "gelu")
    verification = ps.verify(ps.symmetries(case.model(), case.x(8)), trials=4)
    assert not verification.passed
    assert "gelu" in str(verification.culprits), str(verification)
    assert verification.remainder is not None
    assert verification.remainder < laws.EXACT
