"""Which names of a model are one and the same tensor."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from paramsym.errors import TraceError

__all__ = ["canonical_names", "named_state", "ties"]


def named_state(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter, then every buffer, under every name it has.

    >>> [name for name, _ in named_state(nn.BatchNorm1d(1))][:3]
    ['weight', 'bias', 'running_mean']
    """
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def canonical_names(model: nn.Module) -> dict[str, str]:
    """Each name of the state mapped to the first name of the same memory.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> model[1].weight = model[0].weight
    >>> canonical_names(model)["1.weight"]
    '0.weight'
    """
    first: dict[tuple[object, ...], str] = {}
    return {
        name: first.setdefault(_memory(tensor, name), name) for name, tensor in named_state(model)
    }


def ties(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Every name of each tensor that has several, by its canonical name; refuses partial overlap.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> model[1].weight = model[0].weight
    >>> ties(model)
    {'0.weight': ('0.weight', '1.weight')}
    """
    names = canonical_names(model)
    _refuse_overlap({name: tensor for name, tensor in named_state(model) if names[name] == name})
    groups: dict[str, list[str]] = {}
    for name, canonical in names.items():
        groups.setdefault(canonical, []).append(name)
    return {canonical: tuple(group) for canonical, group in groups.items() if len(group) > 1}


def _memory(tensor: Tensor, name: str) -> tuple[object, ...]:
    """A key that two tensors share exactly when they are the same elements in the same order."""
    if not tensor.numel() or tensor.layout is not torch.strided:
        return (id(tensor),)
    place = tensor.untyped_storage()._cdata if tensor.is_meta else tensor.data_ptr()
    offset = tensor.storage_offset() if tensor.is_meta else 0
    return (tensor.device, place, offset, tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _refuse_overlap(state: dict[str, Tensor]) -> None:
    spans: dict[object, list[tuple[int, int, str]]] = {}
    for name, tensor in state.items():
        if not tensor.numel() or tensor.layout is not torch.strided:
            continue
        size = tensor.element_size()
        start = int(tensor.storage_offset() * size if tensor.is_meta else tensor.data_ptr())
        space = tensor.untyped_storage()._cdata if tensor.is_meta else tensor.device
        spans.setdefault(space, []).append((start, start + _extent(tensor) * size, name))
    for intervals in spans.values():
        intervals.sort()
        for place, (_, end, name) in enumerate(intervals):
            for start, _, other in intervals[place + 1 :]:
                if start >= end:
                    break
                if _share_elements(state[name], state[other]):
                    raise TraceError(
                        "two tensors share part of their memory",
                        where=f"{name} {tuple(state[name].shape)} and "
                        f"{other} {tuple(state[other].shape)}",
                        remedy="register one of them and compute the other from it in forward",
                    )


def _extent(tensor: Tensor) -> int:
    """Number of elements of memory from the first to the last one the tensor touches."""
    return 1 + sum(
        (n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def _share_elements(left: Tensor, right: Tensor) -> bool:
    """Interleaved tensors (two column blocks of one matrix) overlap as ranges, not as elements."""
    if left.dtype != right.dtype:
        return True
    size = left.element_size()
    if left.is_meta:
        starts = [left.storage_offset(), right.storage_offset()]
    elif (left.data_ptr() - right.data_ptr()) % size:
        return True
    else:
        starts = [left.data_ptr() // size, right.data_ptr() // size]
    origin = min(starts)
    length = max(s - origin + _extent(t) for s, t in zip(starts, (left, right), strict=True))
    touched = torch.zeros(length, dtype=torch.int8)
    touched.as_strided(left.shape, left.stride(), starts[0] - origin).fill_(1)
    return bool(touched.as_strided(right.shape, right.stride(), starts[1] - origin).any())
