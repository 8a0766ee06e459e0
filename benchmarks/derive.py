"""How long deriving a symmetry takes, against exporting the model and building a pruning graph.

python benchmarks/derive.py [--repeats 7] [--size 64]
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from clock import machine, median_cpu_seconds, write
from models import mlp, resnet18
from torch import Tensor, nn

import paramsym as ps


def export(model: nn.Module, x: Tensor) -> object:
    """The graph of torch.export, nothing more."""
    return torch.export.export(model, (x,), strict=False)


def pruning_graph(model: nn.Module, x: Tensor) -> object:
    """torch-pruning's graph of which layers must be pruned together."""
    import torch_pruning

    return torch_pruning.DependencyGraph().build_dependency(model, example_inputs=x)


def timings(model: nn.Module, x: Tensor, repeats: int) -> dict[str, Any]:
    """Median CPU seconds of each contestant, and ours as a multiple of theirs."""
    contestants: dict[str, Callable[[], object]] = {
        "paramsym": lambda: ps.symmetries(model, x),
        "torch.export": lambda: export(model, x),
    }
    if importlib.util.find_spec("torch_pruning") is not None:
        contestants["torch-pruning"] = lambda: pruning_graph(model, x)
    seconds = median_cpu_seconds(contestants, repeats)
    row: dict[str, Any] = {f"{name} (s)": f"{value:.3f}" for name, value in seconds.items()}
    for rival in list(contestants)[1:]:
        row[f"paramsym / {rival}"] = f"{seconds['paramsym'] / seconds[rival]:.2f}"
    return row


def main() -> None:
    """Time every net and write the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repeats", type=int, default=7)
    arguments.add_argument("--size", type=int, default=64, help="side of the ResNet's images")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    image = torch.randn(1, 3, options.size, options.size)
    nets = {
        "MLP 6 x 256": (mlp().eval(), torch.randn(1, 256)),
        "ResNet-18": (resnet18().eval(), image),
    }
    rows = [
        {"net": name, **timings(model, x, options.repeats)} for name, (model, x) in nets.items()
    ]
    print(write("derive", rows, machine()))


if __name__ == "__main__":
    main()
