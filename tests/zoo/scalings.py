"""A hand-written action to test what takes any action: positive scalings of ReLU units.

Written without the engine, so that neither can hide a mistake of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

Element = dict[str, Tensor]  # per hidden layer, the logarithm of each unit's scale


@dataclass(frozen=True)
class HandSpace:
    name: str
    size: int
    reason: str
    operations: tuple[str, ...]


@dataclass
class HandScaling:
    """(W_i, b_i) ↦ (c W_i, c b_i), W_{i+1} ↦ W_{i+1} c^(-exponent) on a `Sequential` of layers.

    Exact for ReLU with exponent 1; any other value of `exponents[name]` is wrong on purpose.
    """

    model: nn.Sequential
    x: Any = None
    exponents: Mapping[str, float] = field(default_factory=dict)
    operations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def spaces(self) -> tuple[HandSpace, ...]:
        return tuple(
            HandSpace(name, width, f"{name} is homogeneous", self.operations.get(name, ()))
            for name, (width, _) in self._layers().items()
        )

    def _layers(self) -> dict[str, tuple[int, str]]:
        linear = [n for n, m in self.model.named_children() if isinstance(m, nn.Linear)]
        return {
            name: (self.model.get_submodule(name).out_features, reader)
            for name, reader in pairwise(linear)
        }

    def identity(self) -> Element:
        zeros = {n: torch.zeros(w, dtype=torch.float64) for n, (w, _) in self._layers().items()}
        return {f"{name}: scale": value for name, value in zeros.items()}

    def sample(self, *, seed: int = 0, scale: float = 0.1) -> Element:
        generator = torch.Generator().manual_seed(seed)
        return {
            label: scale * torch.randn(zero.shape, generator=generator, dtype=torch.float64)
            for label, zero in self.identity().items()
        }

    def compose(self, g: Element, h: Element) -> Element:
        return {label: g[label] + h[label] for label in g}

    def parts(self, g: Element) -> Element:
        return dict(g)

    def only(self, g: Element, labels: Iterable[str]) -> Element:
        kept = set(labels)
        return {k: v if k in kept else torch.zeros_like(v) for k, v in g.items()}

    def act(self, g: Element, params: Mapping[str, Tensor], x: Any = None) -> dict[str, Tensor]:
        result = dict(params)
        for name, (_, reader) in self._layers().items():
            log = g[f"{name}: scale"].to(result[f"{name}.weight"])
            result[f"{name}.weight"] = result[f"{name}.weight"] * log.exp()[:, None]
            result[f"{name}.bias"] = result[f"{name}.bias"] * log.exp()
            exponent = self.exponents.get(name, 1.0)
            result[f"{reader}.weight"] = result[f"{reader}.weight"] * (-exponent * log).exp()
        return result

    @property
    def labels(self) -> list[str]:
        layers = self._layers().items()
        return [f"{n}: scale of unit {i}" for n, (width, _) in layers for i in range(width)]

    def generators(self, params: Mapping[str, Tensor], x: Any = None) -> Tensor:
        names = [name for name, _ in self.model.named_parameters()]
        point = {name: params[name].detach().double() for name in names}
        rows = []
        for label, zero in self.identity().items():
            for unit in range(len(zero)):
                pick = torch.zeros_like(zero)
                pick[unit] = 1.0

                def moved(t: Tensor, label: str = label, pick: Tensor = pick) -> Tensor:
                    g = self.identity() | {label: t * pick}
                    return torch.cat([self.act(g, point)[name].reshape(-1) for name in names])

                start = torch.zeros((), dtype=torch.float64)
                rows.append(torch.func.jvp(moved, (start,), (torch.ones_like(start),))[1])
        return torch.stack(rows)


def relu_net(*widths: int, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
