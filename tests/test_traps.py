"""Small nets on which a derivation that reads a graph too quickly claims too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import paramsym as ps
from zoo import laws


class Net(nn.Module):
    """A forward function and the modules and parameters that it uses."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


def vector(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape))


def sample(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def attend(s: Any, x: Tensor, turn: Any = None, mask: Tensor | None = None) -> Tensor:
    q, k, v = (f(x).unflatten(-1, (2, 4)).transpose(1, 2) for f in (s.q, s.k, s.v))
    q, k = (q, k) if turn is None else (turn(q), turn(k))
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    y: Tensor = s.o(mixed.transpose(1, 2).flatten(2))
    return y


def attention(**options: Any) -> Net:
    parts = {name: nn.Linear(6, 8) for name in "qkv"}
    return Net(lambda s, x: attend(s, x, **options), **parts, o=nn.Linear(8, 7))


def turned_by_head(x: Tensor) -> Tensor:
    """Cosines for all heads, sines for each."""
    angles = torch.outer(torch.arange(1.0, 6.0), torch.tensor([1.0, 0.3])).double()
    angles = torch.cat([angles, angles], -1)
    sines = angles.sin() * torch.tensor([0.5, 1.7]).view(2, 1, 1)
    return x * angles.cos() + torch.cat((-x[..., 2:], x[..., :2]), -1) * sines


def scores(s: Any, x: Tensor) -> Tensor:
    k = s.k(x)
    return torch.einsum("bid,bjd->bij", k, k).softmax(1)


def halves(s: Any, x: Tensor) -> Tensor:
    h = s.l(x)
    one, two = F.layer_norm(h[..., :4], (4,)), F.layer_norm(h[..., 4:], (4,))
    return torch.cat([s.o(one), s.p(two)], -1)


def per_head(s: Any, x: Tensor) -> Tensor:
    y: Tensor = s.o(torch.tanh(s.h(s.q(x).unflatten(-1, (2, 4)))).flatten(-2))
    return y


L, N, E, C = nn.Linear, nn.LayerNorm, nn.Embedding, nn.Conv1d
TOKENS = torch.arange(20).reshape(4, 5) % 9
PLACES = torch.arange(5)

TRAPS: dict[str, tuple[Net, Tensor]] = {
    "gain of tokens as wide as the units": (
        Net(lambda s, x: s.o(s.l(x) * s.g), l=L(6, 4), o=L(4, 2), g=vector(4, 1)),
        sample(3, 4, 6),
    ),
    "gain of pixels as many as the channels": (
        Net(lambda s, x: s.o(s.l(x) * s.g), l=C(3, 4, 1), o=C(4, 2, 1), g=vector(4)),
        sample(2, 3, 4),
    ),
    "gain of heads": (
        Net(
            lambda s, x: s.o((s.l(x).view(4, 5, 2, 3) * s.g).flatten(2)),
            l=L(6, 6),
            o=L(6, 2),
            g=vector(2, 1),
        ),
        sample(4, 5, 6),
    ),
    "gain spreads a shift": (
        Net(lambda s, x: F.layer_norm(s.c(x) * s.g, (5,)), c=C(3, 4, 1), g=vector(5)),
        sample(2, 3, 5),
    ),
    "gain of tokens behind a norm": (
        Net(lambda s, x: s.o(s.n(x) * s.t), n=N(6), o=L(6, 2), t=vector(5, 1)),
        sample(4, 5, 6),
    ),
    "positions take back": (
        Net(lambda s, x: s.l(x) + s.p(PLACES), l=L(6, 4), p=E(7, 4)),
        sample(4, 5, 6),
    ),
    "positions in front of a norm": (
        Net(
            lambda s, x: s.o(F.layer_norm(s.l(x) + s.p(PLACES), (4,))),
            l=L(6, 4),
            p=E(8, 4),
            o=L(4, 2),
        ),
        sample(4, 5, 6),
    ),
    "three tables": (
        Net(
            lambda s, i: s.e(i) + s.p(PLACES) + s.t(torch.zeros_like(i)),
            e=E(9, 3),
            p=E(5, 3),
            t=E(2, 3),
        ),
        TOKENS,
    ),
    "a weight that is returned": (
        Net(lambda s, x: (F.linear(s.n(x), s.w), s.w), n=N(6, bias=False), w=vector(3, 6)),
        sample(4, 6),
    ),
    "a row of a weight that is returned": (
        Net(
            lambda s, x: (F.linear(s.n(x), s.w, s.b), s.w[0:1]),
            n=N(6),
            w=vector(3, 6),
            b=vector(3),
        ),
        sample(4, 6),
    ),
    "scores of a tensor with itself": (Net(scores, k=L(6, 4)), sample(4, 5, 6)),
    "a trace in an einsum": (
        Net(
            lambda s, x: torch.einsum("ii,bj->bij", s.a, s.l(x)).softmax(1),
            a=vector(4, 4),
            l=L(6, 3),
        ),
        sample(7, 6),
    ),
    "sines of heads": (attention(turn=turned_by_head), sample(3, 5, 6)),
    "a query that sees no key": (
        attention(mask=torch.ones(5, 5).tril(-1).bool()),
        sample(3, 5, 6),
    ),
    "zeros between pixels": (
        Net(
            lambda s, x: s.c(s.b(s.a(x))),
            a=C(3, 4, 1),
            b=nn.ConvTranspose1d(4, 5, 1, stride=2),
            c=C(5, 2, 1),
        ),
        sample(2, 3, 6),
    ),
    "an average that is none": (
        Net(
            lambda s, x: s.b(F.avg_pool2d(s.a(x), 2, divisor_override=3)),
            a=nn.Conv2d(3, 4, 1),
            b=nn.Conv2d(4, 2, 1),
        ),
        sample(2, 3, 6, 6),
    ),
    "halves of a stream": (Net(halves, l=L(6, 8), o=L(4, 4), p=L(4, 4)), sample(4, 6)),
    "a norm for each head": (
        Net(per_head, q=L(6, 8), h=nn.RMSNorm(4, eps=1e-5), o=L(8, 9)),
        sample(5, 6),
    ),
    "every third row": (
        Net(
            lambda s, x: torch.cat([F.linear(s.n(x), s.w[0::3]), F.linear(s.m(x), s.w[2::3])], -1),
            n=N(6, bias=False),
            m=N(6, bias=False),
            w=vector(6, 6),
        ),
        sample(4, 6),
    ),
}


@pytest.mark.parametrize("name", list(TRAPS))
def test_nothing_false_is_claimed(name: str) -> None:
    net, x = TRAPS[name]
    net = net.double()
    generator = torch.Generator().manual_seed(2)
    for parameter in net.parameters():
        nn.init.normal_(parameter, 0.3, 0.6, generator=generator)
    sym = ps.symmetries(net, x)
    if not laws.trivial(sym):
        assert ps.verify(sym, x, trials=3).passed
        laws.check_action_laws(net, sym)
    assert ps.explain(net, x).unsound == ()
