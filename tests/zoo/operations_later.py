"""Entries of the table that later parts of the library claim: normalisation and attention."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.models import Pointwise, normal
from zoo.operations import N, Operation, chain, diagonal, generic, rotation, through


class Attention(nn.Module):
    """Self-attention with separate projections and all biases."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = (
            m(x).view(b, t, self.heads, -1).transpose(1, 2) for m in (self.q, self.k, self.v)
        )
        h = F.scaled_dot_product_attention(q, k, v)
        return self.o(h.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    """The worked count of math.md §1.3: embedding, pre-norm attention and MLP, norm, head."""

    def __init__(self, norm: type[nn.Module]) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(8, 6), nn.Linear(6, 4)
        self.norms = nn.ModuleList(norm(6, eps=1e-5) for _ in range(3))
        self.attention = Attention(6, 2)
        self.inner, self.outer = nn.Linear(6, 7), nn.Linear(7, 6)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        h = h + self.attention(self.norms[0](h))
        h = h + self.outer(F.gelu(self.inner(self.norms[1](h))))
        return self.head(self.norms[2](h))


ROTATION_OFF = {"scale": through(diagonal(1.7, 1.0, 1.0, 1.0)), "matrix": through(generic())}

OPERATIONS: tuple[Operation, ...] = (
    # O(3) fixing the ones vector: 3; gain: 4; shift: 4; the reader's component along 1/γ: 5 rows;
    # the mean of what is written: 5 + 1.
    Operation(
        "layer-norm",
        partial(chain, partial(nn.LayerNorm, N)),
        normal(5),
        dim=3 + 4 + 4 + 5 + 6,
        row="LayerNorm",
    ),
    Operation(
        "layer-norm-plain",
        partial(chain, partial(nn.LayerNorm, N, elementwise_affine=False)),
        normal(5),
        dim=3 + 5 + 6,
        row="LayerNorm",
    ),
    # O(4): 6, and the gain's diagonal.
    Operation(
        "rms-norm",
        partial(chain, partial(nn.RMSNorm, N, eps=1e-5)),
        normal(5),
        dim=6 + 4,
        row="RMSNorm",
    ),
    Operation(
        "rms-norm-plain",
        partial(chain, partial(nn.RMSNorm, N, eps=1e-5, elementwise_affine=False)),
        normal(5),
        dim=6,
        row="RMSNorm",
        allowed={"rotation": through(rotation())},
        forbidden=ROTATION_OFF,
    ),
    # A constant added to all logits (5 + 1), and one to each row of the reader (5).
    Operation(
        "softmax",
        partial(chain, partial(Pointwise, partial(torch.softmax, dim=-1))),
        normal(5),
        dim=6 + 5,
        order=math.factorial(N),
        row="softmax",
    ),
    # q against k and v against o: 4 · 9; the key bias 6, the value bias 6.
    Operation(
        "attention", partial(Attention, 6, 2), normal(4, 6), dim=36 + 12, row="attention, per head"
    ),
    Operation("block-rms-norm", partial(Block, nn.RMSNorm), normal(3, 8), dim=81, row="RMSNorm"),
    Operation(
        "block-layer-norm", partial(Block, nn.LayerNorm), normal(3, 8), dim=147, row="LayerNorm"
    ),
)
