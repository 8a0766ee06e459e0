"""The same operations in one and three dimensions and under their other names."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.models import normal
from zoo.operations import (
    SIGNED,
    Between,
    N,
    Operation,
    TwoWriters,
    diagonal,
    generic,
    only_writer,
    through,
)

Body = Callable[[Tensor], Tensor]
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
CHANNELS = 3
SHUFFLES = math.factorial(CHANNELS)


class Grid(nn.Module):
    """Convolutions in one, two or three dimensions write and read what an operation moves."""

    def __init__(self, dimension: int, body: Body, kernel: int) -> None:
        super().__init__()
        convolution = CONVOLUTIONS[dimension]
        self.first, self.last = convolution(4, CHANNELS, 1), convolution(CHANNELS, 4, kernel)
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(self.first(x)))


def linear(name: str, dimension: int, body: Body) -> Operation:
    """What averages: GL(3) ⋉ R³."""
    return Operation(
        name,
        partial(Grid, dimension, body, 2),
        normal(4, *[4] * dimension),
        dim=12,
        row="average-pool",
        allowed={"matrix": through(generic(CHANNELS))},
        forbidden={"writer alone": only_writer},
    )


def monotone(name: str, dimension: int, body: Body) -> Operation:
    """What compares: a positive scale and a translation of each channel."""
    scales = diagonal(1.7, 0.4, 2.0)
    return Operation(
        name,
        partial(Grid, dimension, body, 1),
        normal(4, *[4] * dimension),
        dim=2 * CHANNELS,
        order=SHUFFLES,
        on_batch=True,
        row="max-pool",
        allowed={"scales": through(scales)},
        forbidden={"flip": through(diagonal(-1.0, 1.0, 1.0))},
    )


def _grids() -> list[Operation]:
    averages: dict[str, tuple[int, Body]] = {
        "avg-pool-1d": (1, partial(F.avg_pool1d, kernel_size=2)),
        "avg-pool-3d": (3, partial(F.avg_pool3d, kernel_size=2)),
        "adaptive-avg-pool-1d": (1, partial(F.adaptive_avg_pool1d, output_size=3)),
        "adaptive-avg-pool-3d": (3, partial(F.adaptive_avg_pool3d, output_size=2)),
        "nearest-1d": (1, partial(F.interpolate, scale_factor=2)),
        "nearest-3d": (3, partial(F.interpolate, size=3)),
        "nearest-exact-1d": (1, partial(F.interpolate, size=6, mode="nearest-exact")),
        "nearest-exact-2d": (2, partial(F.interpolate, size=6, mode="nearest-exact")),
        "nearest-exact-3d": (3, partial(F.interpolate, size=3, mode="nearest-exact")),
        "linear-1d": (1, partial(F.interpolate, scale_factor=2, mode="linear")),
        "trilinear-3d": (3, partial(F.interpolate, size=3, mode="trilinear")),
        "bicubic-2d": (2, partial(F.interpolate, scale_factor=2, mode="bicubic")),
        "bilinear-antialias": (2, partial(F.interpolate, size=3, mode="bilinear", antialias=True)),
        "bicubic-antialias": (2, partial(F.interpolate, size=3, mode="bicubic", antialias=True)),
    }
    extremes: dict[str, tuple[int, Body]] = {
        "max-pool-1d": (1, partial(F.max_pool1d, kernel_size=2)),
        "max-pool-3d": (3, partial(F.max_pool3d, kernel_size=2)),
        "adaptive-max-pool-1d": (1, partial(F.adaptive_max_pool1d, output_size=2)),
        "adaptive-max-pool-3d": (3, partial(F.adaptive_max_pool3d, output_size=2)),
        "amin": (2, lambda z: z.amin((2, 3), keepdim=True)),
        "max-over-pixels": (1, lambda z: z.max(2, keepdim=True).values),
    }
    return [
        *(linear(name, *how) for name, how in averages.items()),
        *(monotone(name, *how) for name, how in extremes.items()),
    ]


def _pairs() -> list[Operation]:
    """Both writers share one scale a unit, and the biases trade a translation."""
    meets: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "fmax": torch.fmax,
        "fmin": torch.fmin,
    }
    return [
        Operation(
            name,
            partial(TwoWriters, meet),
            normal(5),
            dim=N,
            kernel=2 * N,
            leftover=N,
            order=math.factorial(N),
            on_batch=True,
            row="max-pool",
            allowed={"scales": _both(diagonal(1.7, 0.4, 2.0, 0.9))},
            forbidden={"one writer alone": only_writer},
            note="a translation common to both writers passes a comparison and is not claimed",
        )
        for name, meet in meets.items()
    ]


def _both(matrix: Tensor) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    def move(state: dict[str, Tensor]) -> dict[str, Tensor]:
        one = through(matrix)(state)
        return one | {
            "second.weight": matrix @ state["second.weight"],
            "second.bias": matrix @ state["second.bias"],
        }

    return move


def _shapes() -> list[Operation]:
    twice = "the reader sees every unit twice and only the sum of its two columns counts"
    return [
        Operation(
            "repeat-interleave",
            lambda: Between(lambda z: torch.tanh(z).repeat_interleave(2, 1), wide=2 * N),
            normal(5),
            dim=0,
            order=SIGNED * 2**N,
            kernel=5 * N,
            leftover=5 * N,
            row="layout",
            note=twice,
        ),
        # z tanh(z), written with indices, is even.
        Operation(
            "einsum",
            lambda: Between(lambda z: torch.einsum("bi,bi->bi", z, torch.tanh(z))),
            normal(5),
            dim=0,
            order=SIGNED,
            row="even",
        ),
    ]


VARIANTS: tuple[Operation, ...] = (*_grids(), *_pairs(), *_shapes())
