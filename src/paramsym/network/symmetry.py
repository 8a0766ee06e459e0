"""The symmetry group of a model, as data: it acts on parameter dicts, samples, saves and loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from paramsym.errors import ParamsymError, ShapeError
from paramsym.network.audit import Audit, audit
from paramsym.network.axes import Kind
from paramsym.network.element import Element, Structure, Variable
from paramsym.network.flow import Program
from paramsym.network.motion import (
    IndexClass,
    Motion,
    motion_from_dict,
    motion_to_dict,
)
from paramsym.network.moving.act import Act
from paramsym.network.moving.directions import Directions
from paramsym.network.moving.files import move_files
from paramsym.network.moving.fit import canonical_of, refuse_misfit
from paramsym.network.moving.inplace import move_in_place, tensors_of
from paramsym.network.nulls import Null
from paramsym.network.spaces import Part, Space, unit_labels
from paramsym.network.ties import canonical_names, named_state


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

    @cached_property
    def exactness(self) -> dict[str, str]:
        """For each factor what it leaves alone: see `Space.exactness`."""
        of_space = {space.name: space.exactness for space in self.spaces}
        return {part.label: of_space.get(part.space, "exact") for part in self.factors}

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
        """The element with every factor but the named ones left out."""
        kept: dict[str, dict[Any, Tensor]] = {where: {} for where in _PLACES.values()}
        for label in labels:
            for part in self._labelled[label]:
                own = getattr(g, _PLACES[part.where])
                if part.key in own:
                    kept[_PLACES[part.where]][part.key] = own[part.key]
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
        return dict(Act(self, g, self._checked(params)).each(params))

    def apply_(self, g: Element, target: nn.Module | Mapping[str, Tensor]) -> None:
        """Move the weights of a model, or of a dict, where they are.

        Dtype and device stay; tied tensors are written once. Nothing is written when something is
        missing or has another shape.

        >>> import paramsym as ps
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
        >>> x = torch.ones(1, 2)
        >>> sym, before = ps.symmetries(net, x), net(x)
        >>> sym.apply_(sym.sample(seed=0), net)
        >>> torch.allclose(before, net(x))
        True
        """
        self.structure.check(g)
        tensors = tensors_of(target)
        self._checked(tensors, "apply_")
        move_in_place(self, g, tensors)

    def apply_safetensors(self, g: Element, source: str | Path, target: str | Path) -> None:
        """Write a safetensors file whose weights are those of `source`, moved, without the model.

        `source` is a file, or a folder as Hugging Face writes it (one file, or shards with an
        index); a folder is copied with its configuration. One tensor is in memory at a time. A
        source that does not match is refused with a list of what is missing or misshaped, and
        nothing is written.
        """
        self.structure.check(g)
        move_files(self, g, Path(source), Path(target))

    def generators(self, params: Mapping[str, Tensor] | None = None, x: Any = None) -> Tensor:
        """One tangent vector d/dt exp(t·hᵢ)·θ per row, columns over `named_parameters()`."""
        return self.directions(params).dense()

    def directions(self, params: Mapping[str, Tensor] | None = None) -> Directions:
        """The generators as an operator: rows and products when asked for, no matrix."""
        return Directions(self, self._checked(tensors_of(self._state(params)), "directions"))

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

    def _checked(self, params: Mapping[str, Tensor], where: str = "params") -> dict[str, Tensor]:
        """The tensors by canonical name; refuses what is missing or of another shape."""
        shapes = {name: tensor.shape for name, tensor in params.items()}
        refuse_misfit(self, shapes, self.needed, where)
        canonical, known = canonical_of(self), dict[str, Tensor]()
        for name, tensor in params.items():
            known.setdefault(canonical.get(name, name), tensor)
        return known

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """Every tensor that some element moves, and the gains in whose frame it moves others."""
        moved = [n for n, m in self.motions.items() if not m.is_still(self.structure.classes)]
        shifted = [*self.structure.shifts, *self.program.sources, *self.program.tracked]
        own = {null.key: null.name for null in self.nulls}
        rotated = (m.gains(self.structure.classes) for m in self.motions.values())
        gains = sorted(set().union(*rotated))
        return tuple(dict.fromkeys(own.get(name, name) for name in [*moved, *shifted, *gains]))

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


def _class_to_dict(record: IndexClass) -> dict[str, Any]:
    return {**vars(record), "kind": record.kind.name.lower(), "base": list(record.base)}


def _class_from_dict(data: Mapping[str, Any]) -> IndexClass:
    kind, base = Kind[data["kind"].upper()], tuple(data["base"])
    return IndexClass(**{**data, "kind": kind, "base": base})
