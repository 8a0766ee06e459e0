"""A model and an example input become a graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from paramsym.errors import TraceError
from paramsym.network.graph import Graph
from paramsym.network.substitutes import Substitutes
from paramsym.network.ties import ties
from paramsym.network.tracing.exported import from_export
from paramsym.network.tracing.inputs import Inputs
from paramsym.network.tracing.model import checked
from paramsym.network.tracing.recorded import from_recording

__all__ = ["trace"]


def trace(model: nn.Module, x: Any, *, seed: int = 0) -> Graph:
    """The graph of `model` at the example input `x` (a tensor, a tuple or a dict of inputs).

    The model is traced in the mode it is in (train or eval) and is left untouched. Where python
    code branches on values, the branch that `x` takes is recorded and the graph says so.

    >>> trace(nn.Linear(2, 3), torch.zeros(1, 2)).nodes[-1].op
    'aten.linear.default'
    """
    model = checked(model)
    ties(model)  # refuses partly shared memory before anything runs
    inputs = Inputs(model, x)
    with _untouched(model), _random_state(seed), torch.no_grad(), Substitutes():
        try:
            return from_export(model, inputs)
        except TraceError:
            raise
        except Exception:  # torch.export fails in many ways, all of them mean: watch it run
            return from_recording(model, inputs)


@contextmanager
def _random_state(seed: int) -> Iterator[None]:
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)


@contextmanager
def _untouched(model: nn.Module) -> Iterator[None]:
    """Whatever forward assigns to modules (attributes, buffers, flags, hooks) is undone."""
    before = []
    for module in model.modules():
        attributes = dict(vars(module))
        tables = [(t, dict(t)) for t in attributes.values() if isinstance(t, dict)]
        before.append((module, attributes, tables))
    try:
        yield
    finally:
        for module, attributes, tables in before:
            vars(module).clear()
            vars(module).update(attributes)
            for table, content in tables:
                table.clear()
                table.update(content)
