"""Pooling, padding and interpolation."""

from __future__ import annotations

import torch

from paramsym.network.tracing.forms.registry import FORMS, Event, Form, Result, form


def _max_pool(name: str) -> Form:
    def max_pool(e: Event) -> Result:
        """The places of the maxima are a second output, rarely read."""
        return [e.emit(name, *e.args), e.whole()[1]]

    return max_pool


def _renamed(name: str) -> Form:
    return lambda e: e.emit(name, *e.args)


def _padding(mode: str) -> Form:
    return lambda e: e.emit("pad.default", e.args[0], e.args[1], mode, None)


for _n in (1, 2, 3):
    FORMS[f"aten.max_pool{_n}d_with_indices.default"] = _max_pool(f"max_pool{_n}d.default")
    FORMS[f"aten.adaptive_max_pool{_n}d.default"] = _max_pool(f"adaptive_max_pool{_n}d.values")
    FORMS[f"aten._adaptive_avg_pool{_n}d.default"] = _renamed(f"adaptive_avg_pool{_n}d.default")
    FORMS[f"aten.reflection_pad{_n}d.default"] = _padding("reflect")
    FORMS[f"aten.replication_pad{_n}d.default"] = _padding("replicate")


@form("constant_pad_nd.default")
def constant_pad(e: Event) -> Result:
    """`pad(x, sides, "constant", value)`."""
    return e.emit("pad.default", e.args[0], e.args[1], "constant", e.args[2])


def _interpolation(packet: str, vector: bool) -> Form:
    """(x, output size, [align corners,] scale factors): a size or scales, not both."""

    def interpolation(e: Event) -> Result:
        if vector:
            return e.emit(f"{packet}.vec", *e.args)
        x, size, *rest = e.args
        flags = [argument for argument in rest if isinstance(argument, bool)]
        scales = [argument for argument in rest if isinstance(argument, float)]
        return e.emit(f"{packet}.vec", x, None if scales else size, *flags, scales or None)

    return interpolation


for _packet in (
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
):
    if hasattr(torch.ops.aten, _packet):
        FORMS[f"aten.{_packet}.vec"] = _interpolation(_packet, vector=True)
        FORMS[f"aten.{_packet}.default"] = _interpolation(_packet, vector=False)
