"""The worked count: every flat direction of a pre-norm transformer block has a name."""

from __future__ import annotations

import pytest
import torch

import paramsym as ps
from zoo import laws
from zoo.blocks import NORMS, block

FORMS = ("fused", "packed", "written")
# norm, layers, dimension of the kernel
COUNTS = [("rms", 1, 81), ("rms", 2, 141), ("rms", 3, 201)]
COUNTS += [("layer", 1, 147), ("layer", 2, 259), ("layer", 3, 371)]


def tokens(samples: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(samples, 3, 8, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("norm", "layers", "dim"), COUNTS)
def test_dimension_of_the_block(norm: str, layers: int, dim: int, form: str) -> None:
    net = block(norm, form, layers)
    sym = ps.symmetries(net, tokens())
    assert (sym.dim, sym.pinned) == (dim, ())
    assert int(ps.orbit_dimension(sym)) == dim
    proof = ps.verify(sym, tokens())
    assert proof.passed, proof
    assert proof.max_error < 1e-9


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("form", FORMS)
def test_every_flat_direction_is_explained(norm: str, form: str) -> None:
    found = ps.explain(block(norm, form), tokens(200))
    dim = 81 if norm.startswith("rms") else 147
    assert (found.nullity, found.explained, found.completeness) == (dim, dim, 1.0)


@pytest.mark.parametrize("norm", NORMS)
def test_action_of_the_block(norm: str) -> None:
    net = block(norm, "packed")
    sym = ps.symmetries(net, tokens())
    laws.check_action_laws(net, sym)
    laws.check_round_trip(net, sym)
