"""The dense Jacobian is the derivative, its kernel is flat, and generators explain it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paramsym.errors import ParamsymError, ShapeError
from paramsym.function_space.explain import explain
from paramsym.function_space.flat import flat_directions
from paramsym.function_space.jacobian import (
    _blocks,
    _part_by_part,
    _parts,
    jacobian,
    jacobian_of,
)
from paramsym.network.call import outputs_of
from paramsym.network.function import ModelFunction
from zoo.scalings import HandScaling, relu_net


def inputs(batch: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(batch, width, generator=torch.Generator().manual_seed(seed))


def finite_differences(model: nn.Module, x: Any, step: float = 1e-6) -> Tensor:
    """Central differences of the eager module, one parameter entry at a time."""

    def outputs() -> Tensor:
        torch.manual_seed(0)
        result = (
            model(**x) if isinstance(x, dict) else model(*x) if isinstance(x, tuple) else model(x)
        )
        parts = [torch.view_as_real(y) if y.is_complex() else y for y in outputs_of(result)]
        return torch.cat([y.detach().reshape(-1) for y in parts]).clone()

    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    columns = []
    for parameter in model.parameters():
        flat = parameter.data.view(-1)
        for i in range(flat.numel()):
            ends = []
            for side in (step, -step):
                flat[i] += side
                ends.append(outputs())
                flat[i] -= side
                for name, buffer in model.named_buffers():
                    buffer.copy_(buffers[name])
            columns.append((ends[0] - ends[1]) / (2 * step))
    return torch.stack(columns, dim=1)


class Tied(nn.Module):
    """Encoder and decoder share a weight; one parameter is bare, one unused, one frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(3, 3, bias=False), nn.Linear(3, 3)
        self.decoder.weight = self.encoder.weight
        self.scale = nn.Parameter(torch.tensor([2.0]), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.decoder(torch.tanh(self.encoder(x)))


class Several(nn.Module):
    """Returns a dict with a nested tuple, an integer, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(3, 1)

    def forward(self, a: Tensor, b: Tensor) -> dict[str, Any]:
        hidden = self.first(a).relu_()
        return {"rest": (self.second(b), a.argmax()), "hidden": hidden, "input": a}


class NoBatching(torch.autograd.Function):
    """A derivative that vmap refuses."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        if bool(torch.isnan(gradient).any()):  # data-dependent control flow
            return gradient
        return 3 * x**2 * gradient


class Custom(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return NoBatching.apply(super().forward(x))


class Spectrum(nn.Linear):
    """Complex outputs."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(super().forward(x))


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "relu": (lambda: relu_net(3, 4, 2), lambda: inputs(5, 3)),
    "tied": (Tied, lambda: inputs(4, 3)),
    "tuple": (Several, lambda: (inputs(3, 2), inputs(2, 3))),
    "dict": (Several, lambda: {"b": inputs(2, 3), "a": inputs(3, 2)}),
    "no-batching": (lambda: Custom(nn.Linear(2, 3)), lambda: inputs(3, 2)),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1)),
        lambda: inputs(3, 3),
    ),
    "batch-norm": (
        lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1)),
        lambda: inputs(5, 3),
    ),
    "convolution": (
        lambda: nn.Sequential(nn.Conv1d(1, 2, 3, padding=1), nn.GELU(), nn.Flatten()),
        lambda: inputs(2, 5)[:, None],
    ),
    "complex": (lambda: Spectrum(2, 3), lambda: inputs(2, 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_jacobian_is_the_derivative(case: str) -> None:
    make_model, make_input = CASES[case]
    torch.manual_seed(0)
    model, x = make_model(), make_input()
    fast = jacobian(model, x)
    assert fast.dtype == torch.float64
    double = model.double()
    doubled = (
        {k: v.double() for k, v in x.items()}
        if isinstance(x, dict)
        else tuple(v.double() for v in x)
        if isinstance(x, tuple)
        else x.double()
    )
    slow = finite_differences(double, doubled)
    assert fast.shape == slow.shape
    assert float((fast - slow).abs().max()) < 1e-7 * max(1.0, float(slow.abs().max()))


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = relu_net(3, 4, 2), inputs(5, 3)
    whole = jacobian(model, x)
    monkeypatch.setattr("paramsym.function_space.jacobian.CHUNK", 3)
    assert torch.equal(jacobian(model, x), whole)


class Mixes(nn.Sequential):
    """Adds a share of the batch's mean. A share of zero leaves every value to its own sample, yet
    the derivative by the share still sees the whole batch."""

    def __init__(self, share: float) -> None:
        super().__init__(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.share = nn.Parameter(torch.tensor(share))

    def forward(self, x: Tensor) -> Tensor:
        hidden = super().forward(x)
        return hidden + self.share * hidden.mean(0)


class Total(nn.Linear):
    """One number for the whole batch."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(super().forward(x)).sum()


def whole_batch_at_once(model: nn.Module, x: Tensor) -> Tensor:
    """The dense reference: torch's own Jacobian of the batch."""
    double = copy.deepcopy(model).double()
    parameters = {name: p.detach() for name, p in double.named_parameters()}
    buffers = {name: buffer.clone() for name, buffer in double.named_buffers()}

    def outputs(*values: Tensor) -> Tensor:
        state = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(double, {**buffers, **state}, x.double()).reshape(-1)

    blocks = torch.autograd.functional.jacobian(outputs, tuple(parameters.values()))
    return torch.cat([block.reshape(len(block), -1) for block in blocks], dim=1)


MIXING: dict[str, Callable[[], nn.Module]] = {
    "mean": lambda: Mixes(0.3),
    "mean-in-the-derivative-only": lambda: Mixes(0.0),
    "batch-norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)),
    "total": lambda: Total(3, 2),
    "fixed-batch": lambda: nn.Sequential(nn.Linear(3, 2), nn.Unflatten(0, (4, 35)), nn.Flatten()),
}


@pytest.mark.parametrize("case", ["apart", *MIXING])
def test_samples_count_as_apart_only_where_they_are(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paramsym.function_space.jacobian.SMALL", 0)
    torch.manual_seed(0)
    model, x = MIXING.get(case, lambda: relu_net(3, 4, 2))(), inputs(140, 3)
    function, expected = ModelFunction.of(model, x), whole_batch_at_once(model, x)
    assert torch.allclose(jacobian_of(function), expected, rtol=0, atol=1e-12)
    by_part = _part_by_part(function, _parts(function.x, 280))
    right = by_part is not None and by_part.shape == expected.shape
    right = right and torch.allclose(by_part, expected, rtol=0, atol=1e-3)
    assert right == (case == "apart"), "the case does not test what it says"


def test_samples_apart_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors that share their first axis are cut together, and every output is put together."""
    model, x = Several(), (inputs(140, 2), inputs(140, 3))
    whole = jacobian(model, x)
    monkeypatch.setattr("paramsym.function_space.jacobian.SMALL", 0)
    calls: list[int] = []
    monkeypatch.setattr(
        "paramsym.function_space.jacobian._blocks",
        lambda function: calls.append(len(function.x[0])) or _blocks(function),
    )
    assert torch.allclose(jacobian(model, x), whole, rtol=0, atol=1e-14)
    assert sum(calls) == 140 and len(calls) > 30
    calls.clear()
    jacobian(model, (inputs(140, 2), inputs(139, 3)))
    jacobian(nn.Linear(3, 1), inputs(3, 3)[0])
    assert not calls, "nothing to cut"


def test_outputs_without_gradients_give_zero_rows() -> None:
    class Detached(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).detach()

    assert torch.equal(jacobian(Detached(2, 1), inputs(3, 2)), torch.zeros(3, 3).double())


def test_params_replace_the_model_s_own() -> None:
    model, other, x = relu_net(3, 4, 2), relu_net(3, 4, 2, seed=1), inputs(5, 3)
    assert torch.equal(jacobian(model, x, dict(other.named_parameters())), jacobian(other, x))
    assert torch.equal(jacobian(model, x, other.state_dict()), jacobian(other, x))


def test_the_model_is_left_alone() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    jacobian(model, inputs(5, 3))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


def test_a_matrix_too_large_is_refused() -> None:
    with pytest.raises(ParamsymError, match="too large"):
        jacobian(nn.Linear(2000, 2000), inputs(100, 2000))


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ParamsymError, match="NaN or infinite"):
        jacobian(nn.Linear(2, 1), torch.tensor([[float("nan"), 1.0]]))


def test_flat_directions_are_flat_and_count_what_is_missing() -> None:
    model, x = relu_net(3, 5, 2), inputs(60, 3)
    found = flat_directions(model, x)
    assert found.nullity == 5 and found.rank + found.nullity == 32
    assert found.gap > 1e5 and len(found.spectrum) == 32
    assert torch.allclose(found.basis @ found.basis.T, torch.eye(5, dtype=torch.float64))
    assert float((jacobian(model, x) @ found.basis.T).abs().max()) < 1e-12
    names = [name for name, _ in model.named_parameters()]
    start = {n: p.detach().double() for n, p in model.named_parameters()}
    step = torch.split(1e-5 * found.basis[0], [p.numel() for p in start.values()])
    there = {n: start[n] + s.reshape(start[n].shape) for n, s in zip(names, step, strict=True)}
    here = torch.func.functional_call(model.double(), start, x.double())
    moved = torch.func.functional_call(model, there, x.double())
    assert float((moved - here).abs().max()) < 1e-9  # second order in the step


def test_a_generic_tanh_net_has_none() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    found = flat_directions(net, inputs(60, 3))
    assert found.nullity == 0 and found.basis.shape == (0, 26) and found.shares == {}


def test_few_inputs_leave_more_flat() -> None:
    model = relu_net(3, 5, 2)
    assert flat_directions(model, inputs(2, 3)).nullity == 32 - 4


def test_flat_directions_are_data() -> None:
    found = flat_directions(relu_net(3, 5, 2), inputs(60, 3))
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["nullity"] == 5 and plain["rank"]["value"] == 27
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert str(found).startswith("5 flat directions of 32 (rank 27, gap")


def test_scalings_explain_a_relu_net() -> None:
    model, x = relu_net(3, 5, 4, 2, seed=6), inputs(200, 3)  # every unit switches often
    ledger = explain(model, x, sym=HandScaling(model))
    assert (ledger.nullity, ledger.explained, ledger.completeness) == (9, 9, 1.0)
    assert ledger.by_space == {"0": 5, "2": 4} and ledger.by_kind == {"scale": 9}
    assert ledger.leftover.shape == (0, 54) and ledger.sound and ledger.leftover_shares == {}
    assert str(ledger).startswith("9 of 9 flat directions explained, completeness 1.000")


class OnlyLast(HandScaling):
    """Forgets the first hidden layer."""

    @property
    def labels(self) -> list[str]:
        return [label for label in super().labels if label.startswith("2")]

    def generators(self, params: Any, x: Any = None) -> Tensor:
        return super().generators(params)[-len(self.labels) :]


def test_what_no_generator_explains_is_left_over_and_located() -> None:
    model, x = relu_net(3, 5, 4, 2, seed=6), inputs(200, 3)  # every unit switches often
    action = OnlyLast(model)
    ledger = explain(model, x, sym=action)
    assert (ledger.nullity, ledger.explained) == (9, 4)
    assert ledger.completeness == pytest.approx(4 / 9)
    assert ledger.leftover.shape == (5, 54)
    assert torch.allclose(ledger.leftover @ ledger.leftover.T, torch.eye(5, dtype=torch.float64))
    params = {name: p.detach().double() for name, p in model.named_parameters()}
    generators = action.generators(params)
    assert float((ledger.leftover @ generators.T).abs().max()) < 1e-9
    assert float((jacobian(model, x) @ ledger.leftover.T).abs().max()) < 1e-9
    shares = ledger.leftover_shares
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["4.bias"] < 1e-12 and shares["4.weight"] < 0.05 < shares["0.weight"]
    assert "unexplained: 5" in str(ledger)


def test_a_false_symmetry_is_named_and_explains_nothing() -> None:
    model, x = relu_net(3, 5, 4, 2, seed=6), inputs(200, 3)  # every unit switches often
    ledger = explain(model, x, sym=HandScaling(model, exponents={"2": 0.999}))
    assert ledger.unsound == tuple(f"2: scale of unit {i}" for i in range(4))
    assert not ledger.sound and ledger.explained == 5 and ledger.by_space == {"0": 5}
    assert "NOT a symmetry" in str(ledger)


class Doubled(HandScaling):
    """Lists every generator twice, under two names."""

    @property
    def labels(self) -> list[str]:
        return [*super().labels, *(f"again: copy of unit {i}" for i in range(5))]

    def generators(self, params: Any, x: Any = None) -> Tensor:
        return super().generators(params).repeat(2, 1)


def test_a_direction_is_explained_once() -> None:
    model, x = relu_net(3, 5, 2), inputs(60, 3)
    ledger = explain(model, x, sym=Doubled(model))
    assert ledger.explained == 5 and sum(ledger.by_space.values()) == 5
    assert ledger.by_kind["copy"] == 0


def test_a_ledger_is_data() -> None:
    model, x = relu_net(3, 5, 2), inputs(60, 3)
    plain = json.loads(json.dumps(explain(model, x, sym=HandScaling(model)).to_dict()))
    assert plain["completeness"] == 1.0 and plain["rank"]["value"] == 27


def test_a_symmetry_of_another_model_is_refused() -> None:
    class Short(HandScaling):
        def generators(self, params: Any, x: Any = None) -> Tensor:
            return super().generators(params)[:, 1:]

    model = relu_net(3, 5, 2)
    with pytest.raises(ShapeError, match="do not run over"):
        explain(model, inputs(9, 3), sym=Short(model))
