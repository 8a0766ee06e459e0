"""The nets that are timed: written here, so that a benchmark needs no model library."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch norm, and a skip that is projected where shapes change."""

    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inward, outward, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outward)
        self.conv2 = nn.Conv2d(outward, outward, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outward)
        self.skip = nn.Sequential()
        if stride != 1 or inward != outward:
            self.skip = nn.Sequential(
                nn.Conv2d(inward, outward, 1, stride, bias=False), nn.BatchNorm2d(outward)
            )

    def forward(self, x: Tensor) -> Tensor:
        """relu(F(x) + skip(x))."""
        hidden = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(hidden)) + self.skip(x))


def resnet18(width: int = 64, classes: int = 1000) -> nn.Sequential:
    """Eight basic blocks in four stages after a strided stem: 11.7 million weights at width 64."""
    stages = []
    inward = width
    for stage, stride in enumerate((1, 2, 2, 2)):
        outward = width * 2**stage
        stages += [BasicBlock(inward, outward, stride), BasicBlock(outward, outward, 1)]
        inward = outward
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(inward, classes),
    )


def mlp(width: int = 256, depth: int = 6) -> nn.Sequential:
    """A plain ReLU net: the least work a derivation can be."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))
