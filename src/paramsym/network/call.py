"""Calling a model as a pure function of its state, and reading what it returns."""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from paramsym.errors import ParamsymError
from paramsym.network.substitutes import Substitutes
from paramsym.network.ties import canonical_names, named_state, ties

__all__ = ["arguments_of", "call", "outputs_of", "to_float64", "unwrap"]


def arguments_of(x: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of a call: x is a tensor, a tuple or a dict.

    >>> arguments_of((1, 2)), arguments_of({"mask": 1})
    (((1, 2), {}), ((), {'mask': 1}))
    """
    if isinstance(x, Mapping):
        return (), dict(x)
    return (tuple(x), {}) if isinstance(x, (tuple, list)) else ((x,), {})


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside `torch.compile` and `DataParallel` wrappers.

    >>> unwrap(nn.DataParallel(nn.Linear(1, 1)))
    Linear(in_features=1, out_features=1, bias=True)
    """
    while True:
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), nn.Module):
            model = model._orig_mod  # type: ignore[assignment]
        else:
            return model


def call(model: nn.Module, state: Mapping[str, Tensor], x: Any, *, seed: int | None = None) -> Any:
    """`model(x)` with `state` in place of its parameters and buffers; nothing is modified.

    Names missing from `state` keep the model's own value. A tied tensor is set under all its names
    by its canonical (first) one. `seed` fixes the noise of dropout.

    >>> model = nn.Linear(1, 1)
    >>> call(model, {"weight": torch.ones(1, 1), "bias": torch.ones(1)}, torch.ones(1, 1)).item()
    2.0
    """
    model = unwrap(model)
    full = _whole_state(model, state)
    # A model may write to its input in place: it gets a copy.
    args, kwargs = arguments_of(pytree.tree_map_only(Tensor, Tensor.clone, x))
    if seed is None:
        return torch.func.functional_call(model, full, args, kwargs, tie_weights=False)
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        return torch.func.functional_call(model, full, args, kwargs, tie_weights=False)


def outputs_of(result: Any) -> list[Tensor]:
    """Every floating or complex tensor of a nested result, in a fixed order.

    >>> len(
    ...     outputs_of(
    ...         {"logits": torch.zeros(2), "hidden": (torch.zeros(1), [torch.zeros(3)]), "n": 3}
    ...     )
    ... )
    3
    """
    return list(_floating(result, set()))


def to_float64(model: nn.Module) -> nn.Module:
    """A copy in float64 that stays there: casts to lower precision inside `forward` are lifted.

    >>> to_float64(nn.Linear(1, 1))(torch.ones(1, 1, dtype=torch.float64)).dtype
    torch.float64
    """
    model = unwrap(model)
    attributes = [value for module in model.modules() for value in vars(module).values()]
    computed = [t for t in attributes if isinstance(t, Tensor) and not t.is_leaf]
    # Tensors that a hook computed from parameters cannot be copied; they are computed again.
    double = copy.deepcopy(model, {id(tensor): tensor.detach().clone() for tensor in computed})
    double.double()
    for module in double.modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor) and value.is_floating_point():
                vars(module)[name] = value.double()
    _tie_again(double, ties(model))
    if "forward" not in vars(double):
        double.forward = types.MethodType(_forward_in_float64, double)
    return double


def _tie_again(model: nn.Module, groups: Mapping[str, tuple[str, ...]]) -> None:
    """Conversion parts parameters that were two objects with one memory."""
    state = dict(named_state(model))
    for canonical, names in groups.items():
        for name in names:
            path, _, leaf = name.rpartition(".")
            module = model.get_submodule(path)
            table = module._parameters if leaf in module._parameters else module._buffers
            table[leaf] = state[canonical]  # type: ignore[assignment]


def _forward_in_float64(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Substitutes(), _StayInFloat64():  # type: ignore[no-untyped-call]
            return type(self).forward(self, *args, **kwargs)
    finally:
        torch.set_default_dtype(before)


class _StayInFloat64(TorchDispatchMode):
    """Reads every request for a lower floating precision as one for float64."""

    LIFTED: ClassVar[dict[object, torch.dtype]] = {
        torch.float32: torch.float64,
        torch.float16: torch.float64,
        torch.bfloat16: torch.float64,
        torch.complex64: torch.complex128,
        torch.complex32: torch.complex128,
    }

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        asked = dict(kwargs or {})
        if asked.get("dtype") in self.LIFTED:
            asked["dtype"] = self.LIFTED[asked["dtype"]]
        return func(*args, **asked)


def _whole_state(model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every name that changes, ties expanded; buffers as copies, since train mode writes them."""
    names = canonical_names(model)
    unknown = [name for name in state if name not in names]
    if unknown:
        raise ParamsymError(
            f"the model has no parameter or buffer named {', '.join(unknown[:5])}",
            where=type(model).__name__,
            remedy="use the names of model.named_parameters() or model.state_dict()",
        )
    buffers = dict(model.named_buffers(remove_duplicate=False))
    chosen = {names[name]: buffer for name, buffer in buffers.items()}
    chosen |= {names[name]: tensor for name, tensor in state.items()}
    # The canonical name has the last word over other names of the same tensor.
    chosen |= {name: tensor for name, tensor in state.items() if names[name] == name}
    copied = {names[name] for name in buffers}
    fresh = {name: t.clone() if name in copied else t for name, t in chosen.items()}
    return {name: fresh[canonical] for name, canonical in names.items() if canonical in fresh}


def _floating(value: Any, seen: set[int]) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.is_floating_point() or value.is_complex():
            yield value
        return
    opaque = (str, bytes, int, float, complex, type, types.FunctionType, nn.Module, torch.dtype)
    if value is None or isinstance(value, opaque) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        parts: list[Any] = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    elif is_dataclass(value):
        parts = [getattr(value, f.name) for f in fields(value)]
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        yield from _floating(part, seen)
