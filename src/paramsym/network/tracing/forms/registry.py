"""The table of canonical forms, and what a form is given to work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from paramsym.network.graph import Ref
from paramsym.network.tracing.tape import Tape

__all__ = ["COMPOSITES", "FORMS", "Event", "Form", "Result", "axis_of", "form"]

# The node(s) that hold the result(s); -1 where an operation returns no tensor.
Result = int | list[int]

# Operations torch would take apart, kept whole because a rule on the whole is simpler.
COMPOSITES = frozenset(
    f"aten.{name}"
    for name in [
        "linear.default",
        "einsum.default",
        "layer_norm.default",
        "batch_norm.default",
        "group_norm.default",
        "rms_norm.default",
        "scaled_dot_product_attention.default",
        "embedding.default",
        "selu.default",
        "hardtanh.default",
        "celu.default",
        "log_sigmoid.default",
        "pad.default",
        "max_pool1d.default",
        "max_pool2d.default",
        "max_pool3d.default",
        "avg_pool1d.default",
        "adaptive_avg_pool1d.default",
        "adaptive_avg_pool2d.default",
        "adaptive_avg_pool3d.default",
        "floor_divide.default",
    ]
)

# Arguments that say where a tensor lives, not what it is.
PLACEMENT = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking", "copy"})


@dataclass(frozen=True, slots=True)
class Event:
    """One operation that happened: complete positional arguments, keyword-only ones, and results.

    Tensors among the arguments are `Ref`s; `out` is the tensor (or tensors) torch returned, of
    which only shape and dtype are looked at.
    """

    tape: Tape
    name: str
    args: list[Any]
    keywords: dict[str, Any]
    out: Any

    def emit(self, op: str, *args: Any, shape: Sequence[int] | None = None, part: int = 0) -> int:
        """Append `aten.<op>`, shaped like the result unless `shape` is given."""
        out: Tensor = self.out if isinstance(self.out, Tensor) else self.out[part]
        return self.tape.emit(f"aten.{op}", args, out.shape if shape is None else shape, out.dtype)

    def ref(self, op: str, *args: Any, shape: Sequence[int] | None = None) -> Ref:
        """Like `emit`, as an argument for another operation."""
        return Ref(self.emit(op, *args, shape=shape))

    def whole(self, op: str | None = None) -> list[int]:
        """The operation with all its outputs, one `getitem` each."""
        node = self.tape.emit(op or self.name, tuple(self.args), None, None, self.kept)
        return [
            self.tape.emit("getitem", (Ref(node), place), part.shape, part.dtype)
            if isinstance(part, Tensor)
            else -1
            for place, part in enumerate(self.out)
        ]

    def plain(self) -> Result:
        """The operation under its own name."""
        if not isinstance(self.out, Tensor):
            return self.whole()
        shape, dtype = self.out.shape, self.out.dtype
        return self.tape.emit(self.name, tuple(self.args), shape, dtype, self.kept)

    def same(self) -> int:
        """The first argument, unchanged."""
        return int(self.args[0].index)

    def shape(self, place: int = 0) -> tuple[int, ...]:
        """The shape of an argument."""
        return self.tape.shape(self.args[place])

    @property
    def dims(self) -> int:
        """The number of axes of the first argument."""
        return len(self.shape())

    @property
    def kept(self) -> dict[str, Any]:
        """The keyword-only arguments that matter."""
        return {key: value for key, value in self.keywords.items() if key not in PLACEMENT}


Form = Callable[[Event], Result]

FORMS: dict[str, Form] = {}


def form(*names: str) -> Callable[[Form], Form]:
    """Register the canonical form of the named operations, given without `aten.`."""

    def register(function: Form) -> Form:
        FORMS.update({f"aten.{name}": function for name in names})
        return function

    return register


def axis_of(axis: int, dims: int) -> int:
    """The non-negative name of an axis.

    >>> axis_of(-1, 3)
    2
    """
    return axis % max(dims, 1)
