"""The audit: every axis of every parameter is acted on, free, or pinned for a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

import paramsym as ps
from zoo import dense, laws
from zoo.architectures import FAMILIES, Family
from zoo.models import CASES, Case

HANDFUL = ("gpt2", "llama", "mixtral", "bert", "t5", "vit", "convnext", "lstm", "unet")
SOME = [family for family in FAMILIES if family.name in HANDFUL]


def check(model: nn.Module, sym: Any) -> None:
    """Nothing unaccounted for, each axis once, and what moves is not said to be pinned."""
    audit = sym.audit()
    assert audit.unaccounted == ()
    shapes = {name: p.shape or (1,) for name, p in model.named_parameters()}
    places = [(a.parameter, a.axis, a.size) for a in audit.axes]
    assert places == [(name, k, n) for name, shape in shapes.items() for k, n in enumerate(shape)]
    assert all(a.reason for a in audit.axes if a.state == "pinned")
    state = dense.state_of(model)
    after = sym.act(sym.sample(seed=1, scale=0.2), state)
    moving = {a.parameter for a in audit.axes if a.state in ("acted", "free")}
    # biases, and matrices along what they read, that take back what others are translated by
    takers = {*sym.program.sources, *(null.name for null in sym.nulls)}
    for name in shapes:
        if name not in moving | takers:
            assert torch.equal(after[name], state[name]), f"{name} moves, and nothing says so"


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_axis_of_the_zoo(case: Case) -> None:
    check(*laws.derived(case))


@pytest.mark.parametrize("family", SOME, ids=[family.name for family in SOME])
def test_every_axis_of_real_models(family: Family) -> None:
    model = family.model()
    sym = ps.symmetries(model, family.x(2), outputs=family.positions(model))
    check(model, sym)
    assert len(str(sym.audit()).splitlines()) > len(sym.parameters)
    assert max(map(len, str(sym.audit()).splitlines())) <= 80


def gated() -> tuple[nn.Module, Any]:
    net = nn.Sequential(
        nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)
    )
    return net, ps.symmetries(net, torch.randn(2, 3))


def test_what_acts_is_named() -> None:
    _, sym = gated()
    found = {(a.parameter, a.axis): a for a in sym.audit().axes}
    assert (found["4.weight", 0].state, found["0.weight", 1].state) == ("pinned", "free")
    assert found["4.weight", 0].reason == "the model returns it"
    assert found["0.weight", 1].by == ("0.weight: unseen",)
    assert found["2.weight", 0].by == ("2.weight: unread", "2: permutation", "2: scale")


def test_an_unused_layer_is_free() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.never = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    audit = ps.symmetries(Unused(), torch.randn(2, 3)).audit()
    assert [a.state for a in audit.axes] == ["pinned"] * 3 + ["free"] * 3


def test_an_audit_is_plain_data() -> None:
    _, sym = gated()
    plain = json.loads(json.dumps(sym.audit().to_dict(), allow_nan=False))
    assert sum(plain["counts"].values()) == len(plain["axes"])
    assert plain["counts"]["unaccounted"] == 0
    loaded = ps.Symmetry.from_dict(json.loads(json.dumps(sym.to_dict())))
    assert loaded.audit() == sym.audit()


def test_a_class_that_is_missing_shows() -> None:
    """The control: without any one of its index sets a symmetry is not accounted for."""
    _, sym = gated()
    for c in sym.to_dict()["classes"]:
        data = sym.to_dict()
        del data["classes"][c]
        assert ps.Symmetry.from_dict(data).audit().unaccounted, f"class {c} is not missed"


def test_a_space_that_is_missing_shows() -> None:
    _, sym = gated()
    for k, space in enumerate(sym.spaces):
        data = sym.to_dict()
        del data["spaces"][k]
        assert ps.Symmetry.from_dict(data).audit().unaccounted, f"{space.name} is not missed"
