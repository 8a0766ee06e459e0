"""The example input of a trace: its tensors, their names, and how to put them back in place."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from paramsym.network.call import arguments_of
from paramsym.network.ties import named_state

__all__ = ["Inputs"]


class Inputs:
    """The tensors of `x`, flattened; everything else in it is part of the function.

    >>> import torch
    >>> inputs = Inputs(nn.Identity(), {"ids": torch.zeros(2), "past": [torch.zeros(1), 3]})
    >>> inputs.names
    ['ids', 'past.0']
    """

    def __init__(self, model: nn.Module, x: Any) -> None:
        paths, self._spec = pytree.tree_flatten_with_path(arguments_of(x))
        self._leaves = [leaf for _, leaf in paths]
        self._places = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf, Tensor)]
        self.names = [_name(paths[place][0]) for place in self._places]
        on_meta = any(tensor.is_meta for _, tensor in named_state(model))
        tensors = [self._leaves[place].detach() for place in self._places]
        self.tensors = [tensor.to("meta") if on_meta else tensor.clone() for tensor in tensors]

    def fill(self, tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the call with `tensors` in place of the example's."""
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return args, kwargs

    def __str__(self) -> str:
        pairs = zip(self.names, self.tensors, strict=True)
        return ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in pairs) or "no tensor"


def _name(path: tuple[Any, ...]) -> str:
    """`x` for the only or first positional input, `x1` for the second, keywords as they are."""
    kind, first, *rest = [str(getattr(key, "key", getattr(key, "idx", key))) for key in path]
    head = first if kind == "1" else "x" if first == "0" else f"x{first}"
    return ".".join([head, *rest])
