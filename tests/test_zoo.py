"""The zoo of models: every symmetry exact, every forbidden element caught, nothing unexplained."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import paramsym as ps
from paramsym import groups
from zoo import dense, laws
from zoo.models import CASES, Case, resnet18_like
from zoo.operations import FLIP, ONE_SCALE, generic, through


def each(cases: list[Case] | tuple[Case, ...]) -> pytest.MarkDecorator:
    """One test a case, under its name."""
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


every = each(CASES)


@every
def test_function_unchanged(case: Case) -> None:
    model, sym = laws.derived(case)
    assert laws.unchanged(case, model, sym) < laws.EXACT
    if not laws.trivial(sym):
        assert laws.moves(model, sym) > 1e-3, "the samples move nothing: the check is vacuous"


@every
def test_spoilt_motions_are_caught(case: Case) -> None:
    _, sym = laws.derived(case)
    laws.check_controls(sym)


@every
def test_action_laws(case: Case) -> None:
    laws.check_action_laws(*laws.derived(case))


@every
def test_saved_and_loaded(case: Case) -> None:
    laws.check_round_trip(*laws.derived(case))


@every
def test_generators_are_velocities(case: Case) -> None:
    laws.check_generators(case, *laws.derived(case))


@each([case for case in CASES if case.dim is not None])
def test_dimension_counted_by_hand(case: Case) -> None:
    _, sym = laws.derived(case)
    assert sym.dim == case.dim, f"{case.name}: derived {sym.dim}, counted {case.dim}\n{sym}"


@each([case for case in CASES if case.order is not None])
def test_order_counted_by_hand(case: Case) -> None:
    _, sym = laws.derived(case)
    assert sym.log10_order == pytest.approx(math.log10(case.order or 1), abs=1e-6), str(sym)


@each([case for case in CASES if case.leftover is not None and case.name != "mlp-relu-partly-on"])
def test_flat_directions_are_explained(case: Case) -> None:
    """Completeness 1, or no more left over than the note of the case accounts for."""
    model, sym = laws.derived(case)
    nullity, rank, rest = laws.unexplained(case, model, sym)
    assert nullity == case.flat, f"measured {nullity} flat directions, counted {case.flat}"
    assert 0 <= rest <= (case.leftover or 0), f"{rank} of {nullity} explained. {case.note}\n{sym}"
    assert ps.orbit_dimension(sym) == rank


@each([case for case in CASES if case.on_batch and not case.train])
def test_complete_on_a_batch(case: Case) -> None:
    """With the activation patterns of the batch fixed, nothing is left over."""
    model = case.model()
    (x,) = case.many(model)
    sym = ps.symmetries(model, x, on=x)
    nullity, rank, rest = laws.unexplained(case, model, sym)
    explained = f"{rank} of {nullity} flat directions explained on the batch. {case.note}\n{sym}"
    assert rest <= (case.leftover or 0), explained
    if sym.dim == 0:
        return
    jacobian = dense.jacobian(model, x)
    rows = sym.generators(dense.state_of(model))
    push = (rows @ jacobian.T).norm() / (rows.norm() * jacobian.norm())
    assert push < 1e-9, "a generator moves the function on the batch"


@each([case for case in CASES if case.name == "mlp-relu-partly-on"])
def test_fixed_patterns_enlarge_the_group(case: Case) -> None:
    """17 directions on the batch, 6 everywhere; small elements are exact on the batch only."""
    model = case.model()
    (x,) = case.many(model)
    everywhere, here = ps.symmetries(model, x), ps.symmetries(model, x, on=x)
    assert (everywhere.dim, here.dim) == (6, 17)
    state = dense.state_of(model)
    moved = here.act(here.sample(seed=0, scale=0.005, discrete=False), state)
    assert dense.change(model, x, moved) < laws.EXACT
    assert dense.change(model, 40.0 * case.x(50, seed=9), moved) > laws.CAUGHT


@each([case for case in CASES if case.leftover == 0 and not case.on_batch and not case.train])
def test_explain_agrees(case: Case) -> None:
    """The library's own ledger measures what the dense reference measures."""
    model, _ = laws.derived(case)
    (x,) = case.many(model)
    explanation = ps.explain(model, x)
    assert explanation.completeness == 1, str(explanation)
    assert explanation.nullity == case.flat
    assert explanation.sound, str(explanation)


@each([case for case in CASES if case.pinned])
def test_unknown_operations_are_named(case: Case) -> None:
    _, sym = laws.derived(case)
    named = " ".join(f"{where} {reason}" for where, reason in sym.pinned)
    for operation in case.pinned:
        assert operation in named, f"{operation} is not among {sym.pinned}"


@each([case for case in CASES if not case.pinned])
def test_known_operations_pin_nothing(case: Case) -> None:
    _, sym = laws.derived(case)
    assert not sym.pinned, f"pinned: {sym.pinned}"


# ---------------------------------------------------------------- groups that would be too big

MLP = {case.name: case for case in CASES if case.name.startswith("mlp-")}


def _in_mlp(motion: Callable[[dict[str, Tensor]], dict[str, Tensor]], case: Case) -> float:
    model = case.model()
    state = dense.state_of(model)
    return dense.change(model, case.x(16), motion(state))


def _first_space(matrix: Tensor) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    size = torch.eye(5, dtype=torch.float64)
    size[: len(matrix), : len(matrix)] = matrix
    return through(size, first="0", last="2")


@pytest.mark.parametrize(
    "name", ["relu", "leaky-relu", "relu-squared", "gelu", "silu", "softplus", "exp"]
)
def test_sign_flip_is_no_symmetry_of(name: str) -> None:
    case = MLP[f"mlp-{name}"]
    assert _in_mlp(_first_space(FLIP), case) > laws.CAUGHT
    _, sym = laws.derived(case)
    assert not any(space.group.contains(groups.Signs(space.size)) for space in sym.spaces)


@pytest.mark.parametrize("name", ["tanh", "gelu", "sigmoid", "cos", "softplus", "elu", "exp"])
def test_rescaling_is_no_symmetry_of(name: str) -> None:
    case = MLP[f"mlp-{name}"]
    assert _in_mlp(_first_space(ONE_SCALE), case) > laws.CAUGHT
    _, sym = laws.derived(case)
    assert not any(space.group.contains(groups.PositiveScaling(space.size)) for space in sym.spaces)


@pytest.mark.parametrize("name", ["tanh", "relu", "gelu", "sigmoid", "abs", "cube"])
def test_generic_matrix_is_no_symmetry_of(name: str) -> None:
    case = MLP[f"mlp-{name}"]
    assert _in_mlp(_first_space(generic()), case) > laws.CAUGHT
    _, sym = laws.derived(case)
    for space in sym.spaces:
        assert not space.group.contains(groups.GeneralLinear(space.size))


@pytest.mark.parametrize("name", ["tanh", "relu", "gelu"])
def test_input_and_output_axes_do_not_move(name: str) -> None:
    case = MLP[f"mlp-{name}"]
    inputs = {"0.weight": lambda w: w.roll(1, 1)}
    outputs = {"4.weight": lambda w: w.roll(1, 0), "4.bias": lambda b: b.roll(1, 0)}
    for motion in (inputs, outputs):
        changed = _in_mlp(lambda s, m=motion: s | {k: f(s[k]) for k, f in m.items()}, case)
        assert changed > laws.CAUGHT
    model, sym = laws.derived(case)
    state = dense.state_of(model)
    moved = sym.act(sym.sample(seed=1, scale=0.0), state)
    assert torch.equal(moved["4.bias"], state["4.bias"])
    rows = {tuple(row.abs().sort().values.tolist()) for row in state["0.weight"]}
    assert sym.dim or rows == {tuple(row.abs().sort().values.tolist()) for row in moved["0.weight"]}


# --------------------------------------------------------------------------- meanings of options


def test_frozen_parameters_move_unless_told_otherwise() -> None:
    case = next(case for case in CASES if case.name == "frozen-layer")
    model, sym = laws.derived(case)
    state = dense.state_of(model)
    g = sym.sample(seed=0, scale=0.0)
    assert not torch.equal(sym.act(g, state)["0.weight"], state["0.weight"])
    pinned = ps.symmetries(model, case.x(3), trainable_only=True)
    moved = pinned.act(pinned.sample(seed=0, scale=0.1), state)
    assert torch.equal(moved["0.weight"], state["0.weight"])


def test_unused_parameters_translate_freely() -> None:
    case = next(case for case in CASES if case.name == "unused-layer")
    model, sym = laws.derived(case)
    state = dense.state_of(model)
    moved = sym.act(sym.sample(seed=0, scale=0.5), state)
    assert not torch.equal(moved["never.weight"], state["never.weight"])
    assert dense.change(model, case.x(4), moved) < laws.EXACT


def test_unselected_outputs_need_not_be_preserved() -> None:
    """Selecting the first output frees the hidden space that returning it had pinned."""
    case = next(case for case in CASES if case.name == "tuple-output")
    model, everything = laws.derived(case)
    first = ps.symmetries(model, case.x(3), outputs=[0])
    gained = first.log10_order - everything.log10_order
    assert gained == pytest.approx(math.log10(2**5 * math.factorial(5)), abs=1e-6)
    state = dense.state_of(model)
    moved = first.act(first.sample(seed=3, scale=0.0), state)
    before, after = dense.outputs(model, case.x(4)), dense.outputs(model, case.x(4), moved)
    assert torch.allclose(before[0], after[0], rtol=0, atol=1e-12)
    assert not torch.allclose(before[1], after[1], rtol=0, atol=1e-3)


def test_buffers_must_be_there_to_move() -> None:
    """Running means follow a permutation: without them the action is refused, not wrong."""
    case = next(case for case in CASES if case.name == "vgg-silu")
    model, sym = laws.derived(case)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    with pytest.raises(ps.ParamsymError, match="running_"):
        sym.act(sym.sample(seed=0, scale=0.1), parameters)


def test_models_are_not_modified() -> None:
    case = next(case for case in CASES if case.name == "vgg-relu-train")
    model = case.model()
    before = dense.state_of(model)
    sym = ps.symmetries(model, case.x(4))
    sym.act(sym.sample(seed=0), before)
    ps.verify(sym, trials=2)
    after = dense.state_of(model)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert model.training


def test_meta_device_needs_no_weights() -> None:
    with torch.device("meta"):
        model = resnet18_like(width=8, classes=10)
    sym = ps.symmetries(model.eval(), torch.randn(1, 3, 32, 32))
    assert sym.dim > 0


def test_samples_are_reproducible() -> None:
    case = MLP["mlp-relu"]
    model, sym = laws.derived(case)
    state = dense.state_of(model)
    twice = [sym.act(sym.sample(seed=4, scale=0.3), state) for _ in range(2)]
    other = sym.act(sym.sample(seed=5, scale=0.3), state)
    assert all(torch.equal(twice[0][name], twice[1][name]) for name in state)
    assert any(not torch.equal(twice[0][name], other[name]) for name in state)


def test_act_keeps_the_precision_it_is_given() -> None:
    case = MLP["mlp-relu"]
    model, sym = laws.derived(case)
    single = {name: value.float() for name, value in dense.state_of(model).items()}
    moved = sym.act(sym.sample(seed=0, scale=0.1), single)
    assert {value.dtype for value in moved.values()} == {torch.float32}


def test_the_counts_know_their_kernel() -> None:
    """The hand counts are honest: an engine-free measurement agrees with every one of them."""
    wrong = {}
    for case in CASES:
        if case.leftover is None or case.flat is None:
            continue
        model = case.model()
        if sum(p.numel() for p in model.parameters()) > 120:
            continue  # the others are measured with their generators above
        kernel = dense.kernel(torch.cat([dense.jacobian(model, x) for x in case.many(model)]))
        if kernel.nullity != case.flat:
            wrong[case.name] = (kernel.nullity, case.flat)
    assert not wrong, f"measured and counted: {wrong}"
