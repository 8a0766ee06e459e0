"""Rotary embeddings in every way that models write them: one group, and no more than that."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import paramsym as ps
from zoo import laws

TOKENS, WIDTH, HEADS, HEAD = 5, 7, 2, 4


def halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x.chunk(2, -1)
    cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
    return x * cos + torch.cat([-two, one], -1) * sin


def neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x[..., ::2], x[..., 1::2]
    turned = torch.stack([-two, one], -1).flatten(-2)
    return x * cos.repeat_interleave(2, -1) + turned * sin.repeat_interleave(2, -1)


def side_by_side(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x.chunk(2, -1)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)


def stacked(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x[..., ::2], x[..., 1::2]
    return torch.stack([one * cos - two * sin, two * cos + one * sin], -1).flatten(-2)


def as_complex(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


def partial(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The first half of each head turns, the rest does not."""
    return torch.cat([halves(x[..., :2], cos[..., :1], sin[..., :1]), x[..., 2:]], -1)


def lopsided(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """No rotation: the two entries of a pair get different angles."""
    one, two = x.chunk(2, -1)
    return x * torch.cat([cos, sin], -1) + torch.cat([-two, one], -1) * torch.cat([sin, cos], -1)


class Attention(nn.Module):
    def __init__(self, turn: object) -> None:
        super().__init__()
        self.turn = turn
        self.q, self.k, self.v = (nn.Linear(WIDTH, HEADS * HEAD, bias=False) for _ in range(3))
        self.o = nn.Linear(HEADS * HEAD, WIDTH + 2)
        angles = torch.outer(torch.arange(1.0, TOKENS + 1), torch.tensor([1.0, 0.3]))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            f(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        q, k = (self.turn(t, self.cos, self.sin) for t in (q, k))
        mixed = F.scaled_dot_product_attention(q, k, v)
        y: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return y


def attention(turn: object) -> Attention:
    torch.manual_seed(0)
    return Attention(turn).double()


def inputs(samples: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(samples, TOKENS, WIDTH, generator=generator, dtype=torch.float64)


# For each head: a rotation and a scale of each pair on q and k (or GL(2) of what does not turn),
# and GL(4) on v and o.
WAYS = [halves, neighbours, side_by_side, stacked, as_complex]
COUNTS = [(way, HEADS * (2 * 2 + 16)) for way in WAYS] + [(partial, HEADS * (2 + 4 + 16))]


@pytest.mark.parametrize(("turn", "dim"), COUNTS, ids=lambda item: getattr(item, "__name__", ""))
def test_pairs_turn_and_grow(turn: object, dim: int) -> None:
    net = attention(turn)
    sym = ps.symmetries(net, inputs())
    assert (sym.dim, sym.pinned) == (dim, ())
    assert ps.verify(sym, inputs()).passed
    assert ps.explain(net, inputs(30)).completeness == 1.0
    laws.check_action_laws(net, sym)


def test_different_angles_are_no_rotation() -> None:
    """The negative control: only scales common to a pair are left, and they are exact."""
    net = attention(lopsided)
    sym = ps.symmetries(net, inputs())
    assert not any("rotation" in label for label in sym.labels)
    assert ps.verify(sym, inputs()).passed


def test_a_turn_of_one_side_alone_is_seen() -> None:
    net = attention(halves)
    sym = ps.symmetries(net, inputs())
    labels = [part.label for part in sym.factors if part.kind == "rotation"]
    moved = sym.act(sym.only(sym.sample(seed=1, scale=0.3), labels), dict(net.state_dict()))
    moved["k.weight"] = net.k.weight.detach()
    after = torch.func.functional_call(net, moved, (inputs(),))
    assert (after - net(inputs())).abs().max() > 1e-3
