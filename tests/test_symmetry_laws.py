"""The shipped laws of symmetries hold for true rules, and each is broken by something."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import paramsym as ps
from paramsym.network import rules
from paramsym.network.rules.elementwise import pointwise
from paramsym.testing import SYMMETRY_LAWS, LawError, check_symmetry
from zoo.models import Pointwise

X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


def net(activation: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), activation, nn.Linear(5, 2))


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh(), nn.GELU(), nn.BatchNorm1d(5).eval()])
def test_true_rules_pass(activation: nn.Module) -> None:
    report = check_symmetry(net(activation), X)
    assert report.passed
    assert report.errors.keys() == {each.name for each in SYMMETRY_LAWS}


class Altered:
    """A symmetry of which one verb is replaced."""

    def __init__(self, sym: ps.Symmetry, **verbs: Any) -> None:
        self.sym, self.verbs = sym, verbs

    def __getattr__(self, name: str) -> Any:
        return self.verbs[name] if name in self.verbs else getattr(self.sym, name)


def test_a_wrong_rule_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    rules.find_rule("aten.gelu.default")
    odd = ps.activation_facts(torch.relu)
    monkeypatch.setitem(rules._RULES, "aten.gelu.default", lambda op: pointwise(op, op[0], odd))
    with pytest.raises(LawError, match="'function unchanged'"):
        check_symmetry(net(nn.GELU()), X)


def test_a_missing_rule_is_rejected() -> None:
    with pytest.raises(LawError, match="'known operations'"):
        check_symmetry(net(Pointwise(lambda z: torch.cumsum(z, 1))), X)


def relu() -> tuple[nn.Module, ps.Symmetry]:
    model = net(nn.ReLU())
    return model, ps.symmetries(model, X)


def test_what_composes_in_the_wrong_order_is_no_action() -> None:
    model, sym = relu()
    wrong = Altered(sym, compose=lambda g, h: sym.compose(h, g))
    with pytest.raises(LawError, match="'an action'"):
        check_symmetry(model, X, wrong)


def test_generators_that_are_not_flat_are_rejected() -> None:
    model, sym = relu()

    def random(state: dict[str, Tensor]) -> Tensor:
        return torch.randn_like(sym.generators(state))

    with pytest.raises(LawError, match="'flat generators'"):
        check_symmetry(model, X, Altered(sym, generators=random))


def test_what_is_saved_wrongly_is_rejected() -> None:
    model, sym = relu()
    other = ps.symmetries(net(nn.Sigmoid()), X)
    with pytest.raises(LawError, match="'saved'"):
        check_symmetry(model, X, Altered(sym, to_dict=other.to_dict))
