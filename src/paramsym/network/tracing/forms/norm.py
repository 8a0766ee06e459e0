"""Normalisations and softmax: what the kernels do, under the names users know."""

from __future__ import annotations

from paramsym.network.tracing.forms.registry import Event, Result, axis_of, form


@form("native_layer_norm.default")
def native_layer_norm(e: Event) -> Result:
    """(x, normalized shape, weight, bias, eps)."""
    return [e.emit("layer_norm.default", *e.args, True), *e.whole()[1:]]


@form("native_group_norm.default")
def native_group_norm(e: Event) -> Result:
    """(x, weight, bias, batch, channels, positions, groups, eps)."""
    x, weight, bias, _, _, _, groups, eps = e.args
    return [e.emit("group_norm.default", x, groups, weight, bias, eps, True), *e.whole()[1:]]


@form("native_batch_norm.default", "cudnn_batch_norm.default", "miopen_batch_norm.default")
def native_batch_norm(e: Event) -> Result:
    """(x, weight, bias, running mean, running variance, train, momentum, eps)."""
    return [e.emit("batch_norm.default", *e.args[:8], True), *e.whole()[1:]]


@form("instance_norm.default")
def instance_norm(e: Event) -> Result:
    """With running statistics an instance norm is a batch norm in eval mode."""
    if e.args[5]:
        return e.emit("instance_norm.default", *e.args)
    return e.emit("batch_norm.default", *e.args[:5], False, *e.args[6:])


@form("_weight_norm_interface.default")
def weight_norm(e: Event) -> Result:
    """`v (g / |v|)`, the norm over all axes but one."""
    v, g, axis = e.args
    others = [place for place in range(e.dims) if place != axis_of(axis, e.dims)]
    shape = [n if place not in others else 1 for place, n in enumerate(e.shape())]
    length = e.ref("linalg_vector_norm.default", v, 2, others, True, shape=shape)
    gain = e.ref("div.Tensor", g, length, shape=shape)
    return [e.emit("mul.Tensor", v, gain), length.index]


@form("softmax.int", "_softmax.default", "_safe_softmax.default")
def softmax(e: Event) -> Result:
    """`softmax(x, axis)`."""
    return e.emit("softmax.int", e.args[0], axis_of(e.args[1], e.dims), None)


@form("log_softmax.int", "_log_softmax.default")
def log_softmax(e: Event) -> Result:
    """`log_softmax(x, axis)`."""
    return e.emit("log_softmax.int", e.args[0], axis_of(e.args[1], e.dims), None)
