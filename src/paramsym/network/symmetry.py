"""The symmetry group of a model, as data: it acts on parameter dicts, samples, saves and loads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from paramsym.errors import ParamsymError, ShapeError
from paramsym.network.audit import Audit, audit
from paramsym.network.axes import Gain, Kind, leaves
from paramsym.network.element import Element, Structure, Variable
from paramsym.network.flow import Program, Run, Step, compacted
from paramsym.network.function import double
from paramsym.network.motion import (
    Block,
    IndexClass,
    Motion,
    along,
    gain_values,
    in_frame,
    motion_from_dict,
    motion_to_dict,
    narrowed,
    over_cells,
)
from paramsym.network.nulls import Null
from paramsym.network.spaces import Part, Space, unit_labels
from paramsym.network.ties import canonical_names, named_state

# Rows of generators differentiated at once.
CHUNK = 128


@dataclass(frozen=True, eq=False)
class Symmetry:
    """All changes of a model's weights, of the kinds we know, that leave its function alone.

    `spaces` says what acts where and why it is no more; `pinned` which operations were unknown.
    Made by `ps.symmetries`; elements come from `sample` and move parameters by `act`.

    >>> import paramsym as ps
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> sym = ps.symmetries(net, torch.ones(1, 2))
    >>> print(*sym.spaces)
    0: R₊³ ⋊ S₃ on 3, since relu (1) works entry by entry
    """

    structure: Structure
    motions: Mapping[str, Motion]
    program: Program
    constants: Mapping[str, Motion]
    spaces: tuple[Space, ...]
    factors: tuple[Part, ...]
    pinned: tuple[tuple[str, str], ...]
    shapes: Mapping[str, tuple[int, ...]]
    parameters: tuple[str, ...]
    aliases: Mapping[str, tuple[str, ...]]
    slopes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    dead: Mapping[str, Tensor] = field(default_factory=dict)
    nulls: tuple[Null, ...] = ()
    outputs: tuple[int, ...] | None = None
    branch_only: bool = False
    local: bool = False
    model: nn.Module | None = field(default=None, repr=False)
    x: Any = field(default=None, repr=False)

    # facts --------------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Dimension of the continuous part."""
        return self.structure.dim

    @property
    def log10_order(self) -> float:
        """log₁₀ of the number of connected components."""
        return self.structure.log10_order

    @cached_property
    def labels(self) -> list[str]:
        """One label per row of `generators`."""
        return unit_labels(self.structure, self.factors)

    def audit(self) -> Audit:
        """Every axis of every parameter: acted on, free, or pinned for a reason."""
        return audit(self)

    # elements -----------------------------------------------------------------------------------

    def identity(self) -> Element:
        """The element that moves nothing."""
        return self.structure.identity()

    def sample(
        self,
        seed: int = 0,
        scale: float = 0.1,
        discrete: bool = True,
        *,
        generator: torch.Generator | None = None,
    ) -> Element:
        """exp of Gaussian coefficients of deviation `scale`, times a uniform discrete part."""
        generator = generator or torch.Generator().manual_seed(seed)
        return self.structure.sample(generator, scale, discrete)

    def exp(self, coefficients: Tensor) -> Element:
        """exp of Σ cᵢ hᵢ, the hᵢ in the order of `labels`."""
        if coefficients.shape != (self.dim,):
            raise ShapeError(
                f"coefficients of shape {tuple(coefficients.shape)}",
                where="exp",
                remedy=f"give {self.dim}, one per label",
            )
        return self.structure.exp(coefficients.to(torch.float64))

    def compose(self, g: Element, h: Element) -> Element:
        """g after h: act(compose(g, h), θ) = act(g, act(h, θ))."""
        self.structure.check(g)
        self.structure.check(h)
        return self.structure.compose(g, h)

    def inverse(self, g: Element) -> Element:
        """The element that undoes g."""
        self.structure.check(g)
        return self.structure.inverse(g)

    def parts(self, g: Element) -> dict[str, Element]:
        """The element's independent factors, each alone, by label."""
        return {label: self.only(g, [label]) for label in self._labelled}

    def only(self, g: Element, labels: Iterable[str]) -> Element:
        """The element with every factor but the named ones replaced by the identity."""
        neutral = self.identity()
        kept = {where: dict(getattr(neutral, where)) for where in _PLACES.values()}
        for label in labels:
            for part in self._labelled[label]:
                kept[_PLACES[part.where]][part.key] = getattr(g, _PLACES[part.where])[part.key]
        return Element(**kept)

    @cached_property
    def _labelled(self) -> dict[str, list[Part]]:
        found: dict[str, list[Part]] = {}
        for part in self.factors:
            found.setdefault(part.label, []).append(part)
        return found

    # action -------------------------------------------------------------------------------------

    def act(self, g: Element, params: Mapping[str, Tensor], x: Any = None) -> dict[str, Tensor]:
        """The parameters (and buffers) moved by g; every key given comes back.

        Computed in float64, returned in the dtype and on the device of what was given.
        """
        self.structure.check(g)
        return _Act(self, g, self._checked(params)).run(params)

    def generators(self, params: Mapping[str, Tensor] | None = None, x: Any = None) -> Tensor:
        """One tangent vector d/dt exp(t·hᵢ)·θ per row, columns over `named_parameters()`."""
        state = {name: double(value) for name, value in self._state(params).items()}
        known = self._checked(state)

        def moved(coefficients: Tensor) -> Tensor:
            result = _Act(self, self.structure.tangent(coefficients), known).run(state)
            return torch.cat([result[name].reshape(-1) for name in self.parameters])

        size = sum(math.prod(self.shapes[name]) for name in self.parameters)
        start = torch.zeros(self.dim, dtype=torch.float64)
        if not self.dim:
            return start.new_zeros(0, size)

        def row(direction: Tensor) -> Tensor:
            tangent: Tensor = torch.func.jvp(moved, (start,), (direction,))[1]
            return tangent

        rows: Tensor = torch.func.vmap(row, chunk_size=CHUNK)(
            torch.eye(self.dim, dtype=start.dtype)
        )
        return rows

    def _state(self, params: Mapping[str, Tensor] | None) -> Mapping[str, Tensor]:
        if params is not None:
            own = {} if self.model is None else dict(named_state(self.model))
            return {**own, **params}
        if self.model is None:
            raise ParamsymError(
                "this symmetry knows no model",
                where="generators",
                remedy="pass params=, or bind it first: sym.bind(model)",
            )
        return dict(named_state(self.model))

    def _checked(self, params: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors by canonical name; refuses what is missing or of another shape."""
        canonical = {alias: name for name, names in self.aliases.items() for alias in names}
        known: dict[str, Tensor] = {}
        for name, tensor in params.items():
            own = canonical.get(name, name)
            shape = self.shapes.get(own)
            if shape is not None and tuple(tensor.shape) != shape:
                raise ShapeError(
                    f"has shape {tuple(tensor.shape)}, this symmetry acts on {shape}",
                    where=name,
                    remedy="pass parameters of the model it was derived from",
                )
            known.setdefault(own, tensor)
        missing = [name for name in self._needed if name not in known]
        if missing:
            buffers = any(name not in self.parameters for name in missing)
            remedy = "pass the model's state_dict()" if buffers else "pass all parameters"
            raise ParamsymError(
                f"the action moves {', '.join(missing[:4])}, which params lack",
                where=missing[0],
                remedy=remedy,
            )
        return known

    @cached_property
    def _needed(self) -> tuple[str, ...]:
        """Every tensor that some element moves."""
        moved = [n for n, m in self.motions.items() if not m.is_still(self.structure.classes)]
        shifted = [*self.structure.shifts, *self.program.sources, *self.program.tracked]
        own = {null.key: null.name for null in self.nulls}
        return tuple(dict.fromkeys(own.get(name, name) for name in [*moved, *shifted]))

    # data ---------------------------------------------------------------------------------------

    def bind(self, model: nn.Module, x: Any = None) -> Symmetry:
        """The same symmetry, knowing its model (and an example input)."""
        names = canonical_names(model)
        own = {n: tuple(t.shape) for n, t in named_state(model) if names[n] == n}
        for name, shape in self.shapes.items():
            if own.get(name) != shape:
                raise ParamsymError(
                    f"the model has {own.get(name, 'no such tensor')}, the symmetry {shape}",
                    where=name,
                    remedy="bind the model that the symmetry was derived from",
                )
        return replace(self, model=model, x=self.x if x is None else x)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, from which `from_dict` makes the symmetry again, without its model."""
        structure = self.structure
        return {
            "format": 1,
            "classes": {str(c): _class_to_dict(r) for c, r in structure.classes.items()},
            "scales": {str(v): r.to_dict() for v, r in structure.scales.items()},
            "signs": {str(v): r.to_dict() for v, r in structure.signs.items()},
            "shifts": {n: motion_to_dict(m) for n, m in structure.shifts.items()},
            "shift_shapes": {n: list(shape) for n, shape in structure.shapes.items()},
            "masks": {n: m.tolist() for n, m in structure.masks.items()},
            "motions": {n: motion_to_dict(m) for n, m in self.motions.items()},
            "program": self.program.to_dict(),
            "constants": {k: motion_to_dict(m) for k, m in self.constants.items()},
            "spaces": [space.to_dict() for space in self.spaces],
            "factors": [[p.space, p.kind, p.where, p.key] for p in self.factors],
            "pinned": [list(pair) for pair in self.pinned],
            "shapes": {n: list(shape) for n, shape in self.shapes.items()},
            "parameters": list(self.parameters),
            "aliases": {n: list(names) for n, names in self.aliases.items()},
            "slopes": {n: list(pair) for n, pair in self.slopes.items()},
            "balanced": dict(structure.balanced),
            "nulls": [null.to_dict() for null in self.nulls],
            "dead": {n: m.tolist() for n, m in self.dead.items()},
            "outputs": None if self.outputs is None else list(self.outputs),
            "branch_only": self.branch_only,
            "local": self.local,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Symmetry:
        """The symmetry that `to_dict` wrote; `bind` gives it a model."""
        try:
            return cls._from_dict(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ParamsymError(
                f"this is not a saved symmetry: {type(error).__name__} {error}",
                where="from_dict",
                remedy="pass what to_dict() returned",
            ) from error

    @classmethod
    def _from_dict(cls, data: Mapping[str, Any]) -> Symmetry:
        shapes = {n: tuple(shape) for n, shape in data["shapes"].items()}
        structure = Structure(
            {int(c): _class_from_dict(r) for c, r in data["classes"].items()},
            {int(v): Variable.from_dict(r) for v, r in data["scales"].items()},
            {int(v): Variable.from_dict(r) for v, r in data["signs"].items()},
            {n: motion_from_dict(m) for n, m in data["shifts"].items()},
            {n: tuple(shape) for n, shape in data["shift_shapes"].items()},
            {n: torch.tensor(m, dtype=torch.bool) for n, m in data["masks"].items()},
            data["balanced"],
        )
        return cls(
            structure,
            {n: motion_from_dict(m) for n, m in data["motions"].items()},
            Program.from_dict(data["program"]),
            {k: motion_from_dict(m) for k, m in data["constants"].items()},
            tuple(Space.from_dict(space) for space in data["spaces"]),
            tuple(Part(*part) for part in data["factors"]),
            tuple((where, reason) for where, reason in data["pinned"]),
            shapes,
            tuple(data["parameters"]),
            {n: tuple(names) for n, names in data["aliases"].items()},
            {n: tuple(pair) for n, pair in data["slopes"].items()},
            {n: torch.tensor(m, dtype=torch.bool) for n, m in data["dead"].items()},
            tuple(Null.from_dict(null) for null in data["nulls"]),
            None if data["outputs"] is None else tuple(data["outputs"]),
            data["branch_only"],
            data["local"],
        )

    def __str__(self) -> str:
        title = f"dimension {self.dim}, discrete order 10^{self.log10_order:.1f}"
        width = max((len(space.name) for space in self.spaces), default=0)
        lines = [f"  {s.name:<{width}}  {s.group}  ({s.reason})" for s in self.spaces]
        lines += [f"  unknown at {where}: {reason}" for where, reason in self.pinned]
        if self.branch_only:
            lines.append("  valid for the branch that the example input takes")
        if self.local:
            lines.append("  valid on the given batch, near these weights")
        return "\n".join([title, *lines])


_PLACES = {"class": "classes", "scale": "scales", "sign": "signs", "shift": "shifts"}


@dataclass
class _Act:
    """One element acting on one set of parameters, each tensor moved once and when asked for."""

    sym: Symmetry
    g: Element
    params: Mapping[str, Tensor]
    _moved: dict[str, Tensor] = field(default_factory=dict)

    def run(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Every tensor that was given, where it has moved to."""
        self._follow_slopes()
        canonical = {a: n for n, names in self.sym.aliases.items() for a in names}
        result: dict[str, Tensor] = {}
        for name, tensor in given.items():
            own = canonical.get(name, name)
            if own not in self.sym.shapes or not tensor.is_floating_point():
                result[name] = tensor
                continue
            result[name] = self._final(own).to(tensor)
        return result

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

    def _final(self, name: str) -> Tensor:
        program, moved = self.sym.program, self._linear(name)
        moved = self._with_nulls(name, moved, read=True)
        if name in program.tracked:
            shift = self._run.tracked(name)
        elif name in program.sources:
            shift = self._run.bias(name)
        else:
            shift = self.g.shifts.get(name)
        if name in self.sym.dead:
            other = torch.zeros_like(moved) if shift is None else shift.expand(moved.shape)
            shift = torch.where(self.sym.dead[name], self.g.shifts[name], other)
        moved = self._with_nulls(name, moved, read=False)
        if shift is None:
            return moved
        return moved + (shift if shift.ndim == moved.ndim else shift.flatten())

    @cached_property
    def _run(self) -> Run:
        moves = (self._read, self._shift, self._constant, self._gain, self._seen)
        return Run(self.sym.program, *moves)

    def _read(self, name: str) -> Tensor:
        """The tensor that shifts meet: moved, and moved along what its readers make nothing of."""
        return self._with_nulls(name, self._linear(name), read=True)

    def _with_nulls(self, name: str, moved: Tensor, *, read: bool) -> Tensor:
        for null in self.sym.nulls:
            if null.name == name and null.read == read:
                moved = moved + self._null(null)
        return moved

    def _seen(self, name: str, shift: Tensor) -> Tensor:
        for null in self.sym.nulls:
            if null.name == name and not null.read:
                shift = null.removed(shift, self._linear)
        return shift

    def _null(self, null: Null) -> Tensor:
        motion = self.sym.motions[null.name]
        return null.spread(self.g.shifts[null.key], motion, self._linear)

    def _linear(self, name: str) -> Tensor:
        """The tensor moved by everything but translations."""
        if name not in self._moved:
            self._moved[name] = self._apply(self.sym.motions.get(name), self._original(name))
        return self._moved[name]

    def _apply(self, motion: Motion | None, tensor: Tensor) -> Tensor:
        if motion is None:
            return tensor
        return motion.apply(tensor, self.g, self.sym.structure.classes, self._original)

    def _original(self, name: str) -> Tensor:
        tensor = self.params[name]
        return tensor.detach().to(torch.float64)

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

    def _constant(self, step: Step) -> Tensor:
        """The shift c − T c that a fixed vector c causes, or the logarithm of a scale."""
        motion, mode, value = (
            self.sym.constants[step.attrs["key"]],
            step.attrs["mode"],
            step.attrs["value"],
        )
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


def _class_to_dict(record: IndexClass) -> dict[str, Any]:
    return {**vars(record), "kind": record.kind.name.lower(), "base": list(record.base)}


def _class_from_dict(data: Mapping[str, Any]) -> IndexClass:
    kind, base = Kind[data["kind"].upper()], tuple(data["base"])
    return IndexClass(**{**data, "kind": kind, "base": base})
