"""One element and tensors in, each tensor where the element moves it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from paramsym.errors import ParamsymError
from paramsym.network.axes import Gain, leaves
from paramsym.network.element import Element
from paramsym.network.flow import Run, Step, compacted
from paramsym.network.motion import (
    Block,
    Motion,
    along,
    gain_values,
    in_frame,
    narrowed,
    over_cells,
)
from paramsym.network.moving.fit import canonical_of
from paramsym.network.moving.recent import Recent
from paramsym.network.nulls import Null

if TYPE_CHECKING:
    from paramsym.network.symmetry import Symmetry


@dataclass
class Act:
    """One element acting on tensors by canonical name, each moved when asked for.

    Nothing large is kept: `params` may read a file, and what flows meet again is moved again
    where `Recent` has forgotten it.
    """

    sym: Symmetry
    g: Element
    params: Mapping[str, Tensor]
    _moved: Recent = field(default_factory=Recent)

    def __post_init__(self) -> None:
        self._follow_slopes()

    def each(self, given: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Every name that was given with its tensor moved, in its own dtype; ties moved once."""
        canonical = canonical_of(self.sym)
        shared: dict[str, Tensor] = {}
        for name, tensor in given.items():
            own = canonical.get(name, name)
            if own not in self.sym.shapes or not tensor.is_floating_point():
                yield name, tensor
                continue
            moved = shared[own] if own in shared else self.final(own)
            if own in self.sym.aliases:
                shared[own] = moved
            yield name, moved.to(tensor)

    def _follow_slopes(self) -> None:
        """Where a learned slope is inverted, what reads the unit is multiplied by minus the old."""
        scales, signs = dict(self.g.scales), dict(self.g.signs)
        for name, (log, negative) in self.sym.slopes.items():
            before, after = self._original(name).flatten(), self._linear(name).flatten()
            inverted = self._inverted(name).flatten()
            if bool((inverted & ~after.isfinite()).any()):
                raise ParamsymError(
                    "a unit with slope 0 cannot be flipped",
                    where=name,
                    remedy="sample with discrete=False, or move the slope away from 0",
                )
            size = after.abs().log()
            shape = before.shape if before.numel() > 1 else ()
            scales[log] = torch.where(inverted, size, 0.0).reshape(shape)
            signs[negative] = torch.where(inverted & (after < 0), -1.0, 1.0).reshape(shape)
        self.g = replace(self.g, scales=scales, signs=signs)

    def _inverted(self, name: str) -> Tensor:
        """Which slopes are inverted."""
        motion, like = self.sym.motions[name], torch.ones_like(self._original(name))
        if motion.inverted is None:
            return like < 0
        signed = Motion(motion.axes, {_cell(motion): Block(sign=motion.inverted)})
        still = replace(self.g, classes={})
        return signed.apply(like, still, self.sym.structure.classes, self._original) < 0

    def final(self, name: str) -> Tensor:
        """Where a tensor goes, in float64."""
        program, moved = self.sym.program, self._linear(name)
        if name in program.tracked:
            shift = self._run.tracked(name)
        elif name in program.sources:
            shift = self._run.bias(name)
        else:
            shift = self.g.shifts.get(name)
        if name in self.sym.dead:
            other = torch.zeros_like(moved) if shift is None else shift.expand(moved.shape)
            own = self.g.shifts.get(name, torch.zeros_like(moved))
            shift = torch.where(self.sym.dead[name], own, other)
        for null in self.sym.nulls:
            added = self._null(null) if null.name == name else None
            moved = moved if added is None else moved + added
        if shift is None:
            return moved
        return moved + (shift if shift.ndim == moved.ndim else shift.flatten())

    @cached_property
    def _run(self) -> Run:
        moves = (
            self._linear,
            self._shift,
            self._constant,
            self._gain,
            self._number,
            self._seen,
        )
        return Run(self.sym.program, *moves)

    def _seen(self, name: str, shift: Tensor) -> Tensor:
        for null in self.sym.nulls:
            if null.name == name and null.axes and not null.read and null.exact:
                shift = null.removed(shift, self._linear)
        return shift

    def _null(self, null: Null) -> Tensor | None:
        if null.key in self.sym.program.sources:
            u = self._run.bias(null.key)
        else:
            u = self._shift(null.key)
        return None if u is None else null.spread(u, self._linear)

    def _number(self, step: Step) -> Tensor:
        """What some vectors, shifted, add up to once gains are divided out."""
        total = torch.zeros((), dtype=torch.float64)
        for name in step.attrs["offsets"]:
            values, shift = self._linear(name), self._run.bias(name)
            values = values if shift is None else values + shift.reshape(values.shape)
            for gain, eps, power in step.attrs["frame"]:
                values = values / gain_values(Gain(gain, eps), self._linear) ** power
            total = total + values.sum()
        return total

    def _linear(self, name: str) -> Tensor:
        """The tensor moved by everything but translations."""
        motion = self.sym.motions.get(name)
        return self._moved.get(name, lambda: self._apply(motion, self._original(name)))

    def _apply(self, motion: Motion | None, tensor: Tensor) -> Tensor:
        if motion is None or not motion.is_moved_by(self.g):
            return tensor
        return motion.apply(tensor, self.g, self.sym.structure.classes, self._original)

    def _original(self, name: str) -> Tensor:
        if name not in self.params:
            raise ParamsymError(
                "is missing, and others move with it",
                where=name,
                remedy="pass the model's state_dict()",
            )
        return self.params[name].detach().to("cpu", torch.float64)

    def _shift(self, name: str) -> Tensor | None:
        """The free translation of a bias, in the frame in which its axis is rotated."""
        shift = self.g.shifts.get(name)
        for null in self.sym.nulls:
            if null.key == name and shift is not None:
                return null.lifted(shift, self.sym.motions[null.name], self._linear)
        motion = self.sym.motions.get(name)
        if shift is None or motion is None:
            return shift
        axes = narrowed(motion, tuple(shift.shape)).axes
        return over_cells(shift, axes, lambda cell, at: in_frame(cell, at, self._linear))

    def _gain(self, step: Step) -> Tensor:
        values = gain_values(Gain(step.attrs["name"], step.attrs["eps"]), self._linear)
        return along(values, step.attrs["axis"], len(step.shape)) ** int(step.attrs["power"])

    def _constant(self, step: Step) -> Tensor | None:
        """The shift c − T c that a fixed vector c causes, or the logarithm of a scale."""
        motion, mode, value = (
            self.sym.constants[step.attrs["key"]],
            step.attrs["mode"],
            step.attrs["value"],
        )
        buffer = self.sym.motions.get(value["name"]) if mode == "buffer" else None
        if not any(m.is_moved_by(self.g) for m in (motion, buffer) if m is not None):
            return None
        like = torch.zeros((), dtype=torch.float64)
        if mode == "log":
            log = motion.log_scale(step.shape, self.g, like) * value
            return compacted(log, step)
        if mode == "buffer":
            rank, axis = len(step.shape), value["axis"]
            before = along(value["sign"] * self._original(value["name"]).flatten(), axis, rank)
            after = along(value["sign"] * self._linear(value["name"]).flatten(), axis, rank)
        else:
            constant = value / 2 if mode == "reflect" else value
            before = after = like + constant
        moved = self._apply(motion, before.expand(step.shape))
        return compacted(after - moved, step)


def _cell(motion: Motion) -> frozenset[int]:
    """The one block of a tensor whose axes are not split."""
    return frozenset(leaf.slot for axis in motion.axes for leaf in leaves(axis))
