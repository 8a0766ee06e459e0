"""A model as a function of its parameters: inputs and noise fixed, float64, on a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from paramsym.errors import ParamsymError, ShapeError, VerificationError
from paramsym.network.call import call, outputs_of, to_float64, unwrap
from paramsym.network.ties import canonical_names, named_state, ties


@dataclass(frozen=True, eq=False)
class ModelFunction:
    """θ ↦ F(θ)(x) for one x, in float64 on a copy of the model.

    `state` holds every parameter and buffer under every name, `selected` the positions of the
    outputs that matter (None: all of them).

    >>> f = ModelFunction.of(nn.Linear(2, 1), torch.ones(3, 2))
    >>> f.stacked(f.state).shape, f.names
    (torch.Size([3]), ('weight', 'bias'))
    """

    model: nn.Module
    x: Any
    state: dict[str, Tensor]
    names: tuple[str, ...]
    ties: dict[str, tuple[str, ...]]
    seed: int = 0
    selected: tuple[int, ...] | None = None

    @classmethod
    def of(
        cls,
        model: nn.Module,
        x: Any,
        params: Mapping[str, Tensor] | None = None,
        *,
        seed: int = 0,
        selected: Sequence[int] | None = None,
    ) -> ModelFunction:
        """The function of a model at its own state, with `params` in place of what they name."""
        model = unwrap(model)
        names = tuple(name for name, _ in model.named_parameters())
        if not names:
            raise ParamsymError(
                "the model has no parameters",
                where=type(model).__name__,
                remedy="give it one, or pass the model that holds them",
            )
        state = _state(model, params or {})
        for name, tensor in state.items():
            _refuse_unusable(name, tensor, finite=name in names)
        copy = to_float64(model)
        if any(tensor.is_meta for _, tensor in named_state(copy)):
            copy = copy.to_empty(device="cpu")
        _share(copy, state)
        chosen = None if selected is None else tuple(selected)
        return cls(copy, double(x), state, names, ties(model), seed, chosen)

    def at(self, x: Any) -> ModelFunction:
        """The same model at other inputs."""
        return replace(self, x=double(x))

    def outputs(self, state: Mapping[str, Tensor]) -> list[Tensor]:
        """The selected floating outputs, complex ones as pairs of reals."""
        results = outputs_of(call(self.model, state, self.x, seed=self.seed))
        chosen = results if self.selected is None else [results[i] for i in self.selected]
        return [torch.view_as_real(y) if y.is_complex() else y for y in chosen]

    def stacked(self, state: Mapping[str, Tensor]) -> Tensor:
        """All outputs as one vector, in order."""
        outputs = self.outputs(state)
        if not sum(y.numel() for y in outputs):
            raise VerificationError(
                "the model returns no floating numbers for this input",
                where=type(self.model).__name__,
                remedy="pass an input for which it does",
            )
        return torch.cat([y.reshape(-1) for y in outputs])

    def aliases(self, name: str) -> tuple[str, ...]:
        """Every name of the tensor that `name` names."""
        return self.ties.get(name, (name,))

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The state without buffers and second names, in `named_parameters()` order."""
        return {name: self.state[name] for name in self.names}


def double(x: Any) -> Any:
    """Every floating tensor of a nested input in float64."""
    if isinstance(x, Tensor):
        x = x.detach()
        return x.to(torch.float64) if x.is_floating_point() else x
    if isinstance(x, Mapping):
        return {key: double(value) for key, value in x.items()}
    if type(x) in (tuple, list):
        return type(x)(double(value) for value in x)
    return x


def _share(copy: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Let a copy of a model hold the tensors of a state, so that they are in memory once."""
    for name, tensor in named_state(copy):
        tensor.data = state[name]


def _state(model: nn.Module, params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The model's float64 state under every name, with `params` in place of what they name."""
    own = dict(named_state(model))
    canonical = canonical_names(model)
    given = {canonical.get(name, name): value for name, value in params.items()}
    given |= {name: value for name, value in params.items() if canonical.get(name) == name}
    unknown = sorted(set(given) - set(canonical))
    if unknown:
        raise ParamsymError(
            f"params name no parameter or buffer of the model: {', '.join(unknown[:5])}",
            where=type(model).__name__,
            remedy="use the keys of named_parameters() or state_dict()",
        )
    state = {name: given.get(canonical[name], own[name]) for name in own}
    for name, tensor in state.items():
        if tensor.shape != own[name].shape:
            raise ShapeError(
                f"has shape {tuple(tensor.shape)}, the model {tuple(own[name].shape)}",
                where=name,
                remedy="pass parameters of this model",
            )
    once = {n: double(t).clone() for n, t in state.items() if canonical[n] == n}
    return {name: once[canonical[name]] for name in state}


def _refuse_unusable(name: str, tensor: Tensor, *, finite: bool) -> None:
    if tensor.is_meta:
        raise ParamsymError(
            "has no values: it lives on the meta device",
            where=name,
            remedy="deriving needs no weights, but measuring does: pass params=",
        )
    if tensor.is_complex():
        raise ParamsymError(
            "is complex; float64 analyses work on real parameters",
            where=name,
            remedy="store it as torch.view_as_real(...)",
        )
    # A buffer may well hold infinities: attention masks do.
    if finite and not bool(torch.isfinite(tensor).all()):
        raise ParamsymError(
            "holds NaN or infinite values", where=name, remedy="load a finite checkpoint"
        )
