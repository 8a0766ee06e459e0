"""Reductions over an explicit list of axes: (x, axes, keepdim)."""

from __future__ import annotations

from typing import Any

from paramsym.network.tracing.forms.registry import FORMS, Event, Form, Result, axis_of


def _reduction(name: str) -> Form:
    def reduction(e: Event) -> Result:
        axes = _axes(e.args[1] if len(e.args) > 1 else None, e.dims)
        return e.emit(name, e.args[0], axes, e.args[2] if len(e.args) > 2 else False)

    return reduction


def _extreme(name: str) -> Form:
    def extreme(e: Event) -> Result:
        """The values alone are a reduction; the places are a second output, rarely read."""
        axes = _axes(e.args[1], e.dims)
        return [e.emit(f"a{name}.default", e.args[0], axes, e.args[2]), e.whole()[1]]

    return extreme


def _axes(asked: Any, dims: int) -> list[int]:
    """No axis named means all of them."""
    asked = [asked] if isinstance(asked, int) else asked
    return sorted(axis_of(axis, dims) for axis in asked) if asked else list(range(dims))


for _name, _of in {
    "sum.default": "sum.dim_IntList",
    "sum.dim_IntList": "sum.dim_IntList",
    "mean.default": "mean.dim",
    "mean.dim": "mean.dim",
    "amax.default": "amax.default",
    "max.default": "amax.default",
    "amin.default": "amin.default",
    "min.default": "amin.default",
}.items():
    FORMS[f"aten.{_name}"] = _reduction(_of)
FORMS["aten.max.dim"] = _extreme("max")
FORMS["aten.min.dim"] = _extreme("min")
