"""Labels: one for every row of the generators, each another one."""

from __future__ import annotations

import pytest
import torch

import paramsym as ps
from zoo import laws
from zoo.architectures import FAMILIES, Family
from zoo.models import CASES, Case

BALANCED = [f for f in FAMILIES if f.name in ("bert", "roberta", "distilbert", "clip")]


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
