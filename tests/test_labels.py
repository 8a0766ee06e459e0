"""Labels: one for every row of the generators, each another one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import paramsym as ps
from zoo import laws
from zoo.architectures import FAMILIES, Family
from zoo.models import CASES, Case

BALANCED = [f for f in FAMILIES if f.name in ("roberta", "distilbert", "clip")]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_one_label_a_generator(case: Case) -> None:
    _, sym = laws.derived(case)
    assert len(sym.labels) == len(set(sym.labels)) == sym.dim


@pytest.mark.parametrize("family", BALANCED, ids=[f.name for f in BALANCED])
def test_labels_of_entries_that_add_up_to_zero(family: Family) -> None:
    """The last entry along a balanced axis follows the others: it has no label."""
    model = family.model()
    sym = ps.symmetries(model, family.x(2), outputs=family.positions(model))
    ((key, axis),) = sym.structure.balanced.items()
    assert len(sym.labels) == len(set(sym.labels)) == sym.dim == len(sym.generators())
    entries = torch.Size(sym.structure.shapes[key]).numel()
    assert sym.structure.shift_dim(key) == entries - entries // sym.structure.shapes[key][axis]


def test_what_nothing_reads_is_named_after_its_parameter() -> None:
    """What a LayerNorm does not see of its writer, and what its own mean leaves of its reader."""
    net = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 6))
    sym = ps.symmetries(net, torch.randn(3, 5))
    found = {(p.space, p.kind) for p in sym.factors if p.kind in ("unseen", "unread")}
    assert found == {("0.weight", "unseen"), ("0.bias", "unseen"), ("2.weight", "unread")}
    reasons = {space.name: space.reason for space in sym.spaces}
    assert reasons["0.weight"] == "no output sees it along axis 0"
    assert reasons["2.weight"] == "it is read against what adds up to zero, divided by 1.weight"
    assert [label for label in sym.labels if "0.weight" in label] == [
        f"0.weight: unseen of unit {i}" for i in range(5)
    ]
    assert {space.parameters for space in sym.spaces if space.name == "2.weight"} == {("2.weight",)}
