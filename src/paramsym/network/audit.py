"""Every axis of every parameter: acted on, free to be translated, or pinned for a reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from paramsym.network.axes import Kind, Leaf, leaves
from paramsym.network.motion import Motion
from paramsym.network.table import table

if TYPE_CHECKING:
    from paramsym.network.symmetry import Symmetry

STATES = ("acted", "free", "pinned", "unaccounted")
TRANSLATIONS = frozenset({"shift", "free", "unseen", "unread"})
SINGLE = "no scale and no translation of the model moves it"
UNTAKEN = "the branch that the example input takes does not read it"


@dataclass(frozen=True)
class Axis:
    """What happens along one axis of a parameter; a number by itself has one of size 1.

    `by` are the factors that move its entries, each as "space: kind", and `reason` says why those
    that stay do so. An axis with neither is unaccounted for, and so is one with a loose end: a
    factor that no space lists, an index set that nothing is known of.
    """

    parameter: str
    axis: int
    size: int
    by: tuple[str, ...]
    reason: str
    loose: bool = False

    @property
    def state(self) -> str:
        """ "acted", "free" (translations alone move it), "pinned" or "unaccounted"."""
        if self.loose or not (self.by or self.reason):
            return "unaccounted"
        if not self.by:
            return "pinned"
        kinds = {label.rpartition(": ")[2] for label in self.by}
        return "free" if kinds <= TRANSLATIONS else "acted"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "parameter": self.parameter,
            "axis": self.axis,
            "size": self.size,
            "state": self.state,
            "by": list(self.by),
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Audit:
    """The account of all axes of all parameters, in the order of the model.

    >>> import torch
    >>> import paramsym as ps
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> print(ps.symmetries(net, torch.ones(1, 2)).audit())
    6 axes: 3 acted on, 0 free, 3 pinned, 0 unaccounted for
    <BLANKLINE>
    parameter  axis  size  state   why
    0.weight      0     3  acted   0 (permutation, scale)
    0.weight      1     2  pinned  linear (0) reads it against values that stay
    0.bias        0     3  acted   0 (permutation, scale)
    2.weight      0     1  pinned  no scale and no translation of the model moves it
    2.weight      1     3  acted   0 (permutation, scale)
    2.bias        0     1  pinned  no scale and no translation of the model moves it
    """

    axes: tuple[Axis, ...]

    @property
    def unaccounted(self) -> tuple[Axis, ...]:
        """The axes of which nothing is known: none, unless a symmetry was edited by hand."""
        return tuple(axis for axis in self.axes if axis.state == "unaccounted")

    @property
    def counts(self) -> dict[str, int]:
        """How many axes there are of each state."""
        found = [axis.state for axis in self.axes]
        return {state: found.count(state) for state in STATES}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"counts": self.counts, "axes": [axis.to_dict() for axis in self.axes]}

    def __str__(self) -> str:
        acted, free, pinned, unaccounted = self.counts.values()
        title = f"{len(self.axes)} axes: {acted} acted on, {free} free, {pinned} pinned, "
        header = ("parameter", "axis", "size", "state", "why")
        rows = [
            (a.parameter, str(a.axis), str(a.size), a.state, _grouped(a.by) or a.reason)
            for a in self.axes
        ]
        lines = table(header, rows, right={"axis", "size"})
        return "\n".join([f"{title}{unaccounted} unaccounted for", "", *lines])


def audit(sym: Symmetry) -> Audit:
    """The account of a symmetry, from its data alone: it needs no model."""
    return Audit(tuple(_Auditor(sym).run()))


class _Auditor:
    def __init__(self, sym: Symmetry) -> None:
        self.sym, self.structure = sym, sym.structure
        listed = {space.name for space in sym.spaces}
        self.labels = {(p.where, p.key): p.label for p in sym.factors if p.space in listed}
        # What follows from a learned slope: part of no space.
        pairs = sym.slopes.values()
        self.own = {("scale", log) for log, _ in pairs} | {("sign", sign) for _, sign in pairs}
        self.shifts: dict[str, list[str]] = {}
        nulls = {null.key: null.name for null in sym.nulls}
        for key in self.structure.shifts:
            self.shifts.setdefault(nulls.get(key, key), []).append(key)

    def run(self) -> Iterator[Axis]:
        for name in self.sym.parameters:
            sizes = enumerate(self.sym.shapes[name] or (1,))
            axes = [self._axis(name, axis, size) for axis, size in sizes]
            whole = () if any(axis.by for axis in axes) else tuple(self._whole(name))
            yield from (replace(axis, by=whole) for axis in axes) if whole else axes

    def _axis(self, name: str, axis: int, size: int) -> Axis:
        motion = self.sym.motions.get(name)
        acting = list(self._translations(name, axis))
        if motion is None:
            return Axis(name, axis, size, (), self._stays(name, size))
        if not motion.axes:
            acting += self._terms(motion, None)
            return self._account(name, axis, size, acting, [SINGLE])
        reasons: list[str | None] = []
        for leaf in leaves(motion.axes[axis]):
            here = [*self._acts(leaf), *self._terms(motion, leaf)]
            if not here and not acting:
                reasons.append(self._reason(leaf))
            acting += here
        return self._account(name, axis, size, acting, reasons)

    def _account(
        self,
        name: str,
        axis: int,
        size: int,
        acting: list[str | None],
        reasons: list[str | None],
    ) -> Axis:
        by = tuple(dict.fromkeys(label for label in acting if label is not None))
        reason = "; ".join(dict.fromkeys(text for text in reasons if text is not None))
        return Axis(name, axis, size, by, reason, None in acting or None in reasons)

    # what moves ---------------------------------------------------------------------------------

    def _acts(self, leaf: Leaf) -> Iterator[str | None]:
        """What acts on an index set; None for a set or an action that is not listed."""
        if leaf.factor is None:
            return
        record = self.structure.classes.get(leaf.factor)
        if record is None or record.kind > Kind.FIXED:
            yield None if record is None else self.labels.get(("class", leaf.factor))

    def _terms(self, motion: Motion, leaf: Leaf | None) -> Iterator[str | None]:
        """The scales and signs that multiply along an index, or a single entry as a whole."""
        single = leaf is None or leaf.size == 1  # a factor of the whole tensor is of no axis else
        cells = [cell for cell in motion.blocks if leaf is None or leaf.slot in cell]
        forms = [("scale", motion.blocks[cell].scale) for cell in cells]
        forms += [("sign", motion.blocks[cell].sign) for cell in cells]
        forms += [("sign", motion.inverted)] if motion.inverted else []
        for where, form in forms:
            for var, binding in form.terms:
                along = single if binding == () else leaf is not None and leaf.slot in binding
                label = self.labels.get((where, var))
                if (where, var) not in self.own and (along or label is None):
                    yield label

    def _whole(self, name: str) -> Iterator[str]:
        """The scales and signs of a tensor as a whole, which are along none of its axes."""
        motion = self.sym.motions.get(name)
        for block in () if motion is None else motion.blocks.values():
            for where, form in (("scale", block.scale), ("sign", block.sign)):
                for var, binding in form.terms:
                    label = self.labels.get((where, var))
                    if binding == () and label is not None:
                        yield label

    def _translations(self, name: str, axis: int) -> Iterator[str | None]:
        """The free translations of a parameter along an axis, or of all its entries alike."""
        rank = len(self.sym.shapes[name])
        for key in self.shifts.get(name, ()):
            shape = self.structure.shapes[key]
            if len(shape) != rank or max((*shape, 1)) == 1 or shape[axis] > 1:
                yield self.labels.get(("shift", key))

    # what stays ---------------------------------------------------------------------------------

    def _reason(self, leaf: Leaf) -> str | None:
        """Why nothing acts on an index set; None where nothing is known of it."""
        if leaf.factor is None:
            return SINGLE if leaf.size == 1 else None
        record = self.structure.classes.get(leaf.factor)
        return None if record is None else record.reason

    def _stays(self, name: str, size: int) -> str:
        """Why a parameter that has no motion stays: what pinned the index sets found at it."""
        if size == 1:
            return SINGLE
        spaces = [s.reason for s in self.sym.spaces if name in s.parameters and not size % s.size]
        reasons = spaces or self._found_at(name, size)
        if not reasons and self.sym.branch_only:
            reasons = [UNTAKEN]
        return "; ".join(dict.fromkeys(reasons))

    def _found_at(self, name: str, size: int) -> list[str]:
        """The reasons of the index sets found at a parameter, or else at others of its module."""
        fixed = {c: r for c, r in self.structure.classes.items() if r.kind == Kind.FIXED}
        fitting = {c: r for c, r in fixed.items() if not size % r.size}
        own = [r.reason for r in fitting.values() if r.origin == name]
        module = _module(name)
        beside = {
            leaf.factor
            for other, motion in self.sym.motions.items()
            if _module(other) == module
            for axis in motion.axes
            for leaf in leaves(axis)
        }
        near = (r.reason for c, r in fitting.items() if c in beside or _module(r.origin) == module)
        return own or list(near)


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _grouped(labels: Iterable[str]) -> str:
    """Every space once, with the kinds of what it does.

    >>> _grouped(["0: permutation", "0: scale", "1: shift"])
    '0 (permutation, scale), 1 (shift)'
    """
    kinds: dict[str, list[str]] = {}
    for label in labels:
        space, _, kind = label.rpartition(": ")
        kinds.setdefault(space, []).append(kind)
    return ", ".join(f"{space} ({', '.join(own)})" for space, own in kinds.items())
