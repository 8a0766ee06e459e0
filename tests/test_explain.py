"""The ledger: every flat direction by space and kind, and where the unexplained ones lie."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import paramsym as ps
from zoo.architectures import FAMILIES
from zoo.blocks import block

BY_NAME = {family.name: family for family in FAMILIES}


def block_ledger(norm: str = "layer") -> ps.Explanation:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(200, 3, 8, dtype=torch.float64, generator=generator)
    return ps.explain(block(norm, "fused"), x)


def test_the_block_by_kind() -> None:
    """O(5); GL(3) for each head's qk and vo, and three gains; key bias; three shifts and the value
    bias; what weights read along 1/gain; what is written along 1."""
    ledger = block_ledger()
    counts = ledger.by_kind
    assert counts["rotation"] == 10
    assert counts["mixing"] + counts["scale"] == 18 + 18 + 18  # qk, vo, three gains
    assert (counts["free"], counts["shift"]) == (6, 18 + 6)
    assert (counts["unread"], counts["unseen"]) == (18 + 7 + 4, 9 + 7 + 8)
    assert sum(counts.values()) == ledger.explained == 147


def test_lines_add_up_to_both_totals() -> None:
    ledger = block_ledger("rms")
    totals = [sum(v.values()) for v in (ledger.by_space, ledger.by_kind)]
    assert totals == [ledger.explained, ledger.explained]
    assert sum(line.directions for line in ledger.lines) == ledger.explained


def test_discrete_motions_are_listed_with_no_direction() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    ledger = ps.explain(net, torch.randn(60, 3))
    assert ledger.by_kind == {"permutation": 0, "sign": 0}
    line = ledger.lines[0]
    assert (line.space, line.group, line.directions) == ("0", "{±1}⁴ ⋊ S₄", 0)
    assert "tanh" in line.reason


@pytest.mark.parametrize("name", ["bert", "llama", "lstm"])
def test_what_is_unexplained_is_located(name: str) -> None:
    """‖P restricted to a parameter‖² against the projector written out, the largest first."""
    family = BY_NAME[name]
    model = family.model()
    ledger = ps.explain(model, family.many(model)[0], outputs=family.positions(model))
    assert ledger.sound and ledger.explained <= ledger.nullity
    assert len(ledger.leftover) == ledger.nullity - ledger.explained
    shares = list(ledger.leftover_shares.values())
    assert shares == sorted(shares, reverse=True)
    projector, start = ledger.leftover.T @ ledger.leftover, 0
    for parameter, p in model.named_parameters():
        rows = projector[start : start + p.numel()]
        start += p.numel()
        if shares:
            share = float((rows**2).sum() / (projector**2).sum())
            assert ledger.leftover_shares[parameter] == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_the_ledger_fits_a_page(name: str) -> None:
    family = BY_NAME[name]
    model = family.model()
    ledger = ps.explain(model, family.many(model)[0], outputs=family.positions(model))
    text = str(ledger)
    assert max(map(len, text.splitlines())) <= 80
    whole = "".join(text.split())
    for line in ledger.lines:
        assert "".join(f"{line.kind}({line.directions})".split()) in whole
        assert "".join(line.space.split()) in whole and "".join(line.reason.split()) in whole


def test_the_ledger_is_plain_data() -> None:
    plain = json.loads(json.dumps(block_ledger("rms").to_dict(), allow_nan=False))
    assert {"space", "kind", "group", "directions", "reason"} == set(plain["lines"][0])
    assert sum(line["directions"] for line in plain["lines"]) == plain["explained"] == 81


def test_outputs_that_do_not_matter_are_not_measured() -> None:
    """A symmetry that preserves one output is measured on that output."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(5, 4), nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            hidden = self.a(x)
            return hidden, self.b(hidden)

    net, x = Two(), torch.randn(60, 5)
    assert ps.explain(net, x).nullity == 0
    chosen = ps.explain(net, x, outputs=[1])
    assert (chosen.nullity, chosen.explained) == (20, 20)  # the affine group of four units
    sym = ps.symmetries(net, x, outputs=[1])
    assert ps.explain(net, x, sym=sym).explained == 20
    assert not ps.explain(net, x, sym=sym, outputs=[0, 1]).sound
