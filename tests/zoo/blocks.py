"""The pre-norm transformer block whose flat directions are counted by hand, in three writings."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HEADS, HIDDEN = 6, 2, 7


class WrittenRMSNorm(nn.Module):
    """x · rsqrt(mean(x²) + eps) · weight, as language models write it."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.eps))


class WrittenLayerNorm(nn.Module):
    """(x − mean) / sqrt(var + eps) · weight + bias, from its parts."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.pow(2).mean(-1, keepdim=True)
        return self.weight * (centred / torch.sqrt(variance + self.eps)) + self.bias


NORMS: dict[str, Callable[[int, float], nn.Module]] = {
    "rms": lambda width, eps: nn.RMSNorm(width, eps=eps),
    "layer": lambda width, eps: nn.LayerNorm(width, eps=eps),
    "rms written": WrittenRMSNorm,
    "layer written": WrittenLayerNorm,
}


class Attention(nn.Module):
    """Two heads of width three; ``form`` says how they are written."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        if form == "packed":
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        else:
            self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.o = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).chunk(3, -1) if self.form == "packed" else self._separate(x)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in parts)
        if self.form == "written":
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            mixed = scores.softmax(-1) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        y: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return y

    def _separate(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q(x), self.k(x), self.v(x)


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, norm: str, form: str, eps: float) -> None:
        super().__init__()
        self.n1, self.n2 = NORMS[norm](WIDTH, eps), NORMS[norm](WIDTH, eps)
        self.attention = Attention(form)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.n1(x))
        y: Tensor = x + self.down(F.gelu(self.up(self.n2(x))))
        return y


class Transformer(nn.Module):
    """Linear(8, 6), some layers, a last norm, Linear(6, 4)."""

    def __init__(
        self, norm: str = "rms", form: str = "fused", layers: int = 1, eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(8, WIDTH)
        self.layers = nn.ModuleList(Layer(norm, form, eps) for _ in range(layers))
        self.norm = NORMS[norm](WIDTH, eps)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        y: Tensor = self.head(self.norm(x))
        return y


def block(norm: str, form: str = "fused", layers: int = 1, eps: float = 1e-5) -> nn.Module:
    """A block in float64 with every parameter generic."""
    torch.manual_seed(0)
    net = Transformer(norm, form, layers, eps).double()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            gain = name.endswith("weight") and parameter.ndim == 1
            parameter.normal_(0.0, 0.4).add_(1.0 if gain else 0.0)
    return net
