"""What an epsilon breaks, and what only a loss ignores: asked for, set apart, labelled."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import paramsym as ps
from zoo.blocks import NORMS, block


def tokens() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, 3, 8, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("norm", NORMS)
def test_scale_of_the_stream_is_exact_without_epsilon(norm: str) -> None:
    dim = 82 if norm.startswith("rms") else 148
    sym = ps.symmetries(block(norm, eps=0.0), tokens())
    assert sym.dim == dim
    assert set(sym.exactness.values()) == {"exact"}
    assert ps.verify(sym, tokens()).max_error < 1e-9


@pytest.mark.parametrize("norm", NORMS)
def test_scale_of_the_stream_is_broken_by_epsilon(norm: str) -> None:
    """One direction more than the exact group has, in a space of its own, its size measured."""
    sym = ps.symmetries(block(norm), tokens(), include=("exact", "eps"))
    assert sym.dim == (82 if norm.startswith("rms") else 148)
    (space,) = (space for space in sym.spaces if space.exactness == "eps")
    assert (space.dim, str(space.group)) == (1, "R₊")
    proof = ps.verify(sym, tokens())
    (row,) = (row for row in proof.table if row.exactness == "eps")
    assert proof.passed
    assert proof.max_error < 1e-9 < row.error < 1e-3


@pytest.mark.parametrize("form", ["fused", "packed", "written"])
def test_common_shift_of_the_logits(form: str) -> None:
    """The head may move alike for all classes: 6 + 1 directions, one of which is exact anyway."""
    sym = ps.symmetries(block("layer", form), tokens(), include=("exact", "loss"))
    assert sym.dim == 147 + 6
    found = [space for space in sym.spaces if space.exactness == "loss"]
    assert [(s.parameters, s.dim) for s in found] == [(("head.weight",), 5), (("head.bias",), 1)]
    proof = ps.verify(sym, tokens())
    assert proof.passed
    assert sum(row.exactness == "loss" for row in proof.table) == 2


def test_a_loss_shift_is_seen_by_the_outputs() -> None:
    """The negative control: taken for exact, such a shift fails."""
    net = block("rms")
    sym = ps.symmetries(net, tokens(), include=("loss",))
    labels = [label for label, what in sym.exactness.items() if what == "loss"]
    moved = sym.act(sym.only(sym.sample(seed=1, scale=0.3), labels), dict(net.state_dict()))
    before = net(tokens())
    after = torch.func.functional_call(net, moved, (tokens(),))
    assert (after - before).abs().max() > 1e-3
    assert (after.log_softmax(-1) - before.log_softmax(-1)).abs().max() < 1e-12


def test_channels_in_front_of_a_batch_statistic() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3))
    net, x = net.double().train(), torch.randn(6, 3, 7, 7, dtype=torch.float64)
    exact, broken = (ps.symmetries(net, x, include=kinds) for kinds in (("exact",), ("eps",)))
    assert broken.dim == exact.dim + 4
    assert [s.size for s in broken.spaces if s.exactness == "eps"] == [4]


def test_one_batch() -> None:
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)).double()
    sym = ps.symmetries(net, torch.randn(8, 2).double(), on=torch.randn(8, 2).double())
    assert set(sym.exactness.values()) == {"batch"}


def test_other_kinds_are_refused() -> None:
    with pytest.raises(ps.ParamsymError, match="choose among"):
        ps.symmetries(nn.Linear(2, 2), torch.randn(1, 2), include=("exact", "nearly"))
