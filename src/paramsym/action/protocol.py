"""What an action is: anything that moves parameter dicts by elements of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Action(Protocol):
    """A family of maps θ ↦ g·θ, whatever its origin.

    `generators` has one row d/dt exp(t·h)·θ per algebra basis element, over `named_parameters()`.
    Only actions that depend on data read `x`.
    """

    def act(self, g: Any, params: Mapping[str, Tensor], x: Any = None) -> dict[str, Tensor]: ...

    def generators(self, params: Mapping[str, Tensor] | None = None, x: Any = None) -> Tensor: ...

    def identity(self) -> Any: ...

    def sample(self, *, seed: int = 0, scale: float = 0.1) -> Any: ...

    def compose(self, g: Any, h: Any) -> Any: ...


@runtime_checkable
class Separable(Protocol):
    """An action whose elements split into independent factors, each with a label."""

    def parts(self, g: Any) -> Mapping[str, Any]: ...

    def only(self, g: Any, labels: Iterable[str]) -> Any: ...
