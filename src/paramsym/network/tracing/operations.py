"""Facts about torch's operations that their schemas tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload

__all__ = ["complete", "is_composite", "not_default", "overload_of", "packet_of", "without_writing"]

# In-place operations that change the shape or the memory of a tensor, not only its numbers.
RESHAPING = frozenset(
    [
        "set_",
        "resize_",
        "resize_as_",
        "as_strided_",
        "squeeze_",
        "unsqueeze_",
        "transpose_",
        "t_",
        "swapaxes_",
        "swapdims_",
    ]
)


def packet_of(op: OpOverload) -> str:
    """The name without namespace and overload.

    >>> packet_of(torch.ops.aten.add.Tensor)
    'add'
    """
    return str(op._schema.name).partition("::")[2]


def overload_of(name: str) -> OpOverload | None:
    """The operation that a canonical name stands for, if torch has it.

    >>> overload_of("aten.relu.default")
    <OpOverload(op='aten.relu', overload='default')>
    """
    space, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    if space != "aten" or not hasattr(torch.ops.aten, packet):
        return None
    found = getattr(getattr(torch.ops.aten, packet), overload, None)
    return found if isinstance(found, OpOverload) else None


def is_composite(op: OpOverload) -> bool:
    """Whether the operation is defined by other operations, which torch takes it apart into."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key))


def complete(
    op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """All positional arguments in the order of the schema, and the keyword-only ones.

    >>> complete(torch.ops.aten.sum.dim_IntList, ["x"], {"dim": [0]})
    (['x', [0], False], {'dtype': None})
    """
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for place, argument in enumerate(op._schema.arguments):
        if place < len(args):
            value = args[place]
        else:
            value = kwargs.get(argument.name, argument.default_value)
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            positional.append(value)
    return positional, keywords


def not_default(op: OpOverload, keywords: dict[str, Any]) -> dict[str, Any]:
    """The keyword-only arguments that say something."""
    defaults = {argument.name: argument.default_value for argument in op._schema.arguments}
    return {key: value for key, value in keywords.items() if value is not defaults[key]}


def written_arguments(
    op: OpOverload, positional: list[Any], keywords: dict[str, Any]
) -> dict[str, Any]:
    """The arguments an operation writes to, by name."""
    if not op._schema.is_mutable:
        return {}
    written: dict[str, Any] = {}
    values = iter(positional)
    for argument in op._schema.arguments:
        value = keywords[argument.name] if argument.kwarg_only else next(values)
        if argument.alias_info is not None and argument.alias_info.is_write:
            written[argument.name] = value
    return written


def without_writing(op: OpOverload, written: Sequence[str]) -> str | None:
    """The name of the operation that returns what `op` would write, if there is one.

    >>> without_writing(torch.ops.aten.add_.Tensor, ["self"])
    'aten.add.Tensor'
    >>> without_writing(torch.ops.aten.div.out, ["out"])
    'aten.div.Tensor'
    """
    space, packet, overload = str(op).split(".")
    if list(written) == ["self"] and packet.endswith("_") and packet not in RESHAPING:
        return f"{space}.{packet[:-1]}.{overload}"
    if list(written) != ["out"]:
        return None
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments if a.name != "out"]
    overloads = getattr(getattr(torch.ops, space), packet)
    for name in overloads.overloads():
        arguments = getattr(overloads, name)._schema.arguments
        if [(a.name, str(a.type)) for a in arguments] == wanted:
            return f"{space}.{packet}.{name}"
    return None
