"""A true action passes, a slightly wrong one fails and is named, and empty checks are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paramsym.action.orbit import orbit_dimension, stabilizer_dimension
from paramsym.action.protocol import Action, Separable
from paramsym.action.verify import WHOLE, verify
from paramsym.errors import ParamsymError, VerificationError
from paramsym.numerics import VERIFY_TOLERANCE
from zoo.scalings import Element, HandScaling, relu_net

X = torch.randn(7, 3, generator=torch.Generator().manual_seed(1))


def deep() -> nn.Sequential:
    return relu_net(3, 5, 4, 2)


def test_the_hand_written_action_is_an_action() -> None:
    action = HandScaling(deep(), X)
    assert isinstance(action, Action) and isinstance(action, Separable)


def test_a_true_action_passes_with_every_control() -> None:
    action = HandScaling(deep(), X)
    proof = verify(action)
    assert proof.passed and proof
    assert proof.max_error < 1e-13
    assert {row.label for row in proof.table} == {WHOLE, "0: scale", "2: scale"}
    assert all(row.moved > 1e-3 for row in proof.table)
    assert all(change > 1e-3 for change in proof.controls.values())
    assert proof.uncontrolled == () and proof.culprits == () and proof.remainder is None
    assert proof.worst_space in {"0: scale", "2: scale"}


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0 - 1e-6, 1.0 + 1e-7, -1.0])
def test_a_wrong_exponent_fails_and_is_named(exponent: float) -> None:
    operations = {"2": ("aten.relu.default at 3",)}
    action = HandScaling(deep(), X, exponents={"2": exponent}, operations=operations)
    proof = verify(action)
    assert not proof.passed and not proof
    assert [culprit.labels for culprit in proof.culprits] == [("2: scale",)]
    culprit = proof.culprits[0]
    assert culprit.reason == "2 is homogeneous"
    assert culprit.operations == ("aten.relu.default at 3",)
    assert culprit.error == proof.max_error or culprit.error > VERIFY_TOLERANCE
    assert proof.remainder is not None and proof.remainder < 1e-13
    assert proof.worst_space == "2: scale"
    assert "aten.relu.default at 3" in str(proof) and "FAILED" in str(proof)


def test_an_error_below_the_tolerance_passes() -> None:
    assert verify(HandScaling(deep(), X, exponents={"0": 1.0 + 1e-12})).passed


def test_a_wrong_activation_fails_everywhere() -> None:
    net = deep()
    net[1], net[3] = nn.Tanh(), nn.GELU()
    proof = verify(HandScaling(net, X))
    assert [culprit.labels for culprit in proof.culprits] == [("0: scale",), ("2: scale",)]
    assert proof.remainder == 0.0


class Entangled(HandScaling):
    """Both layers' scales are right alone; where both move, the first is off by their product."""

    def act(self, g: Element, params: Mapping[str, Tensor], x: Any = None) -> dict[str, Tensor]:
        result = super().act(g, params)
        twist = g["0: scale"].mean() * g["2: scale"].mean()
        return result | {"4.weight": result["4.weight"] * (1 + twist)}


def test_factors_that_fail_only_together_are_named_together() -> None:
    proof = verify(Entangled(relu_net(3, 5, 4, 4, 2), X))
    assert not proof.passed
    assert [set(culprit.labels) for culprit in proof.culprits] == [{"0: scale", "2: scale"}]
    assert proof.remainder is not None and proof.remainder < 1e-13


class Opaque:
    """The same action without factors."""

    def __init__(self, inner: HandScaling) -> None:
        self.inner, self.model, self.x = inner, inner.model, inner.x

    def act(self, g: Element, params: Mapping[str, Tensor], x: Any = None) -> dict[str, Tensor]:
        return self.inner.act(g, params, x)

    def sample(self, *, seed: int = 0, scale: float = 0.1) -> Element:
        return self.inner.sample(seed=seed, scale=scale)


def test_an_action_without_factors_is_checked_as_a_whole() -> None:
    proof = verify(Opaque(HandScaling(deep(), X)))
    assert proof.passed and proof.worst_space == WHOLE and proof.controls[WHOLE] > 1e-3
    wrong = verify(Opaque(HandScaling(deep(), X, exponents={"0": 0.9})))
    assert not wrong.passed and wrong.culprits[0].labels == (WHOLE,)


class Shift:
    """Moves one parameter along one direction."""

    def __init__(self, model: nn.Module, x: Tensor, name: str, direction: Tensor) -> None:
        self.model, self.x, self.name, self.direction = model, x, name, direction

    def act(self, g: float, params: Mapping[str, Tensor], x: Any = None) -> dict[str, Tensor]:
        return {**params, self.name: params[self.name] + g * self.direction.to(params[self.name])}

    def sample(self, *, seed: int = 0, scale: float = 0.1) -> float:
        return scale * (seed + 1)


class Centred(nn.Module):
    """Subtracts the mean of its outputs: a common shift of the biases changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return y - y.mean(-1, keepdim=True)


def test_a_motion_of_one_parameter_is_controlled_by_a_random_direction() -> None:
    proof = verify(Shift(Centred(), X, "linear.bias", torch.ones(4)))
    assert proof.passed and proof.controls[WHOLE] > 1e-3
    assert not verify(Shift(Centred(), X, "linear.bias", torch.arange(4.0))).passed


def test_a_motion_that_cannot_be_spoilt_is_reported() -> None:
    proof = verify(Shift(Centred(), X, "unused", torch.ones(2)))
    assert proof.passed and proof.uncontrolled == (WHOLE,)


def test_single_and_half_precision_models_are_checked_in_double() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        net = deep().to(dtype)
        assert verify(HandScaling(net, X.to(dtype))).max_error < 1e-13
        assert net[0].weight.dtype == dtype


def test_errors_are_relative_to_the_outputs() -> None:
    net = deep()
    net[4].weight.data *= 1e-12
    net[4].bias.data *= 1e-12
    assert verify(HandScaling(net, X)).passed
    assert not verify(HandScaling(net, X, exponents={"2": 1.001})).passed


def test_the_model_is_left_alone() -> None:
    net = deep()
    before = {name: p.clone() for name, p in net.state_dict().items()}
    verify(HandScaling(net, X))
    assert all(torch.equal(before[name], p) for name, p in net.state_dict().items())


def test_a_proof_is_reproducible_data() -> None:
    first, second = (verify(HandScaling(deep(), X), seed=3) for _ in range(2))
    assert first == second != verify(HandScaling(deep(), X), seed=4)
    plain = json.loads(json.dumps(first.to_dict(), allow_nan=False))
    assert plain["passed"] is True and plain["table"][0]["label"] == WHOLE


def test_params_and_inputs_may_be_given() -> None:
    net, other = deep(), relu_net(3, 5, 4, 2, seed=5)
    params = dict(other.named_parameters())
    assert verify(HandScaling(net), torch.randn(2, 3), params=params).passed
    with pytest.raises(ParamsymError, match="nonsense"):
        verify(HandScaling(net), X, params={"nonsense": torch.zeros(1)})
    with pytest.raises(ParamsymError, match="shape"):
        verify(HandScaling(net), X, params={"0.bias": torch.zeros(1)})


class Constant(nn.Sequential):
    """Multiplies its outputs by zero."""

    def forward(self, x: Tensor) -> Tensor:
        return 0 * super().forward(x) + x.sum()


class Silent(nn.Sequential):
    """Returns nothing to compare."""

    def forward(self, x: Tensor) -> Any:
        return {"count": 3, "rows": super().forward(x)[:0]}


@pytest.mark.parametrize(
    ("model", "complaint"),
    [(Constant, "do not depend on the parameters"), (Silent, "no floating outputs")],
)
def test_vacuous_checks_are_refused(model: type[nn.Sequential], complaint: str) -> None:
    with pytest.raises(VerificationError, match=complaint):
        verify(HandScaling(model(*deep()), X))


def test_elements_that_move_nothing_are_refused() -> None:
    with pytest.raises(VerificationError, match="moved a parameter"):
        verify(HandScaling(deep(), X), scale=0.0)
    with pytest.raises(VerificationError, match="trials"):
        verify(HandScaling(deep(), X), trials=0)


class Nothing(HandScaling):
    """An action of the trivial group, which says so."""

    dim, log10_order = 0, 0.0


def test_a_trivial_group_passes_with_a_note() -> None:
    proof = verify(Nothing(deep(), X))
    assert proof.passed and proof.max_error == 0.0 and "trivial" in str(proof)


def test_bad_values_are_refused() -> None:
    net = deep()
    net[0].weight.data[0, 0] = math.nan
    with pytest.raises(ParamsymError, match=r"0\.weight"):
        verify(HandScaling(net, X))
    with pytest.raises(VerificationError, match="output 0"):
        verify(HandScaling(deep(), X * math.inf))
    with pytest.raises(ParamsymError, match="meta"):
        verify(HandScaling(deep().to("meta"), X))
    with pytest.raises(VerificationError, match="does not know its x"):
        verify(HandScaling(deep()))
    with pytest.raises(ParamsymError, match="no parameters"):
        verify(HandScaling(nn.Sequential(nn.ReLU()), X))


def test_weights_on_the_meta_device_may_come_from_params() -> None:
    params = deep().state_dict()
    assert verify(HandScaling(deep().to("meta"), X), params=params).passed


class Crossing(HandScaling):
    """A group that holds only near the identity: the function is preserved for small scales."""

    local = True

    def act(self, g: Element, params: Mapping[str, Tensor], x: Any = None) -> dict[str, Tensor]:
        far = max(float(log.abs().max()) for log in g.values()) > 0.05
        return HandScaling(self.model, exponents={"0": 0.5} if far else {}).act(g, params)


class NotSaying(Crossing):
    """The same, claiming to hold everywhere."""

    local = False


def test_a_local_group_is_sampled_close_enough() -> None:
    proof = verify(Crossing(deep(), X), scale=0.4)
    assert proof.passed and proof.scale < 0.4
    assert not verify(NotSaying(deep(), X), scale=0.4).passed


def test_orbit_dimension_counts_independent_generators() -> None:
    net = deep()
    action = HandScaling(net, X)
    assert orbit_dimension(action) == 9
    assert stabilizer_dimension(action) == 0
    with torch.no_grad():  # a unit that is zero on both sides stays where it is
        net[0].weight[0] = 0
        net[0].bias[0] = 0
        net[2].weight[:, 0] = 0
    assert orbit_dimension(action) == 8
    assert stabilizer_dimension(action) == 1


def test_orbit_dimension_ignores_the_scale_of_the_weights() -> None:
    net = deep()
    params = {
        n: p.detach() * (1e-6 if n.startswith("0") else 1e4) for n, p in net.named_parameters()
    }
    assert orbit_dimension(HandScaling(net), params) == 9


def test_orbit_dimension_needs_parameters() -> None:
    with pytest.raises(ParamsymError, match="pass params="):
        orbit_dimension(HandScaling(None))
