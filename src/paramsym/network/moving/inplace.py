"""Moving tensors where they are, with little memory beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from paramsym.errors import ParamsymError
from paramsym.network.axes import Frame, leaves
from paramsym.network.element import Element
from paramsym.network.motion import Motion
from paramsym.network.moving.act import Act
from paramsym.network.moving.fit import canonical_of
from paramsym.network.ties import named_state

if TYPE_CHECKING:
    from paramsym.network.symmetry import Symmetry


def move_in_place(sym: Symmetry, g: Element, params: Mapping[str, Tensor]) -> None:
    """Write every tensor's new values over its old ones, ties once.

    A tensor that others are moved by, or that is moved by others, is written after all have been
    read; every other one as soon as it is known, so that only one of them is held.
    """
    own = canonical_of(sym)
    given: dict[str, Tensor] = {}
    for name, tensor in params.items():
        given.setdefault(own.get(name, name), tensor)
    targets = {name: given[name] for name in sym.needed}
    act = Act(sym, g, given)
    last = {name for name in targets if name in involved(sym)}
    with torch.no_grad():
        held = {name: act.final(name).to(targets[name]) for name in targets if name in last}
        for name, tensor in targets.items():
            if name not in last:
                tensor.copy_(act.final(name))
        for name, moved in held.items():
            targets[name].copy_(moved)
        # Names of one tensor may have been given as several tensors.
        for name, tensor in params.items():
            first = targets.get(own.get(name, name))
            if first is not None and not tensor.is_set_to(first):
                tensor.copy_(first)


def tensors_of(target: nn.Module | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The state of a model, or the tensors themselves; what cannot be written to is refused."""
    params = dict(named_state(target)) if isinstance(target, nn.Module) else target
    for name, tensor in params.items():
        if tensor.is_meta:
            raise ParamsymError(
                "has no values to move: it lives on the meta device",
                where=name,
                remedy="load weights first, or move the file they are in: apply_safetensors",
            )
    return params


def involved(sym: Symmetry) -> frozenset[str]:
    """The tensors that others are moved by (gains, slopes), and those that flows shift."""
    program = sym.program
    shifted = {null.name for null in sym.nulls if null.key in program.sources}
    motions = [*sym.motions.values(), *sym.structure.shifts.values(), *sym.constants.values()]
    powers = [along.frame for null in sym.nulls for along in null.axes.values()]
    framed = {gain.name for frame in [*_frames(motions), *powers] for gain, _ in frame}
    return frozenset({*program.sources, *program.tracked, *sym.slopes, *shifted, *framed})


def _frames(motions: Iterable[Motion]) -> Iterator[Frame]:
    for motion in motions:
        for axis in motion.axes:
            yield from (leaf.frame for leaf in leaves(axis))
