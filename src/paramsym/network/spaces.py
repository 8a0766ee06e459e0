"""What a person reads of a symmetry: one line per hidden space, one label per direction."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paramsym import groups
from paramsym.groups import Group
from paramsym.network.axes import Kind, leaves
from paramsym.network.element import Structure, Variable
from paramsym.network.motion import IndexClass, Motion

RETURNED = "the model returns it"
LOSS = "a loss that starts with a softmax does not see it"
UNUSED = "the outputs do not depend on it"
UNREAD = "it is read against what adds up to zero"


@dataclass(frozen=True)
class Space:
    """One hidden space: what acts on it, on which parameters, and what kept it from being more.

    ``exactness`` is "exact", "eps" (broken by the epsilon of a normalisation), "loss" (seen by the
    outputs, not by a softmax loss), "shape" (valid for inputs of the shape at hand) or "batch"
    (valid on the batch at hand).
    ``group`` is all that acts on the space; where spaces share a permutation (the heads of one
    attention layer) it stands in each of them. ``dim`` counts no direction twice.
    """

    name: str
    size: int
    group: Group
    dim: int
    parameters: tuple[str, ...]
    reason: str
    operations: tuple[str, ...] = ()
    exactness: str = "exact"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "name": self.name,
            "size": self.size,
            "group": self.group.to_dict(),
            "dim": self.dim,
            "parameters": list(self.parameters),
            "reason": self.reason,
            "operations": list(self.operations),
            "exactness": self.exactness,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        """The space that ``to_dict`` wrote."""
        lists = {key: tuple(data[key]) for key in ("parameters", "operations")}
        return cls(**{**data, **lists, "group": Group.from_dict(data["group"])})

    def __str__(self) -> str:
        return f"{self.name}: {self.group} on {self.size}, since {self.reason}"


@dataclass(frozen=True)
class Part:
    """An independent factor of the group: the space it is listed under, its kind, and its place.

    ``where`` is "class", "scale", "sign" or "shift", and ``key`` the class, variable or tensor.
    """

    space: str
    kind: str
    where: str
    key: int | str

    @property
    def label(self) -> str:
        """How proofs name it."""
        return f"{self.space}: {self.kind}"


@dataclass(frozen=True)
class Listing:
    """The spaces of a symmetry, and its factors."""

    spaces: tuple[Space, ...]
    parts: tuple[Part, ...]


def listing(
    structure: Structure,
    motions: Mapping[str, Motion],
    scalars: Mapping[int, int],
    touched: Mapping[int, tuple[str, ...]],
    unused: Iterable[str],
    order: Iterable[str],
    idle: frozenset[str],
    logs: frozenset[int],
    inexact: Mapping[tuple[str, int | str], str],
    exactness: str,
) -> Listing:
    """Name every space after the module that writes it, and every factor after its space.

    ``idle`` are parameters that nothing has to take translations of back, ``logs`` the scales that
    are translations in front of an exponential. ``inexact`` are scales and translations that are
    no symmetries of the function, and what they are; all others are of the given ``exactness``.
    """
    lister = _Lister(structure, motions, scalars, touched, unused, order, idle, logs)
    lister.inexact, lister.exactness = inexact, exactness
    return lister.run()


class _Lister:
    def __init__(
        self,
        structure: Structure,
        motions: Mapping[str, Motion],
        scalars: Mapping[int, int],
        touched: Mapping[int, tuple[str, ...]],
        unused: Iterable[str],
        order: Iterable[str],
        idle: frozenset[str],
        logs: frozenset[int],
    ) -> None:
        self.structure, self.motions = structure, motions
        self.idle, self.logs = idle, logs
        self.scalars, self.touched, self.unused = scalars, touched, tuple(unused)
        self.order = [name for name in order if name in motions]
        self.members = self._members()
        self.readers = self._readers()
        self.names: set[str] = set()
        self.spaces: list[Space] = []
        self.parts: list[Part] = []
        self.taken: dict[str, set[int | str]] = {"scale": set(), "sign": set(), "shift": set()}
        self.inexact: Mapping[tuple[str, int | str], str] = {}
        self.exactness = "exact"

    def run(self) -> Listing:
        """Classes first, each with its scales and signs; what is left over by itself."""
        taken = set(self.scalars.values())
        self.taken["scale"] |= taken
        based = {b for c in self._listed() for b in self.structure.classes[c].base}
        for c in self._listed():
            if c not in based:
                self._class(c)
        for key in self.structure.shifts:
            if key not in self.motions:
                self._null(key)
            elif key not in self.taken["shift"] and key not in self.unused:
                self._translation(key)
        self._leftover_variables()
        for name in self.unused:
            self._translation(name)
        return Listing(tuple(self.spaces), tuple(self.parts))

    # gathering ----------------------------------------------------------------------------------

    def _members(self) -> dict[int, list[str]]:
        """The parameters in which every class occurs, in the order of the model."""
        members: dict[int, list[str]] = {}
        for name in self.order:
            for axis in self.motions[name].axes:
                for leaf in leaves(axis):
                    if leaf.factor is not None and name not in members.setdefault(leaf.factor, []):
                        members[leaf.factor].append(name)
        return members

    def _readers(self) -> dict[str, dict[int, list[str]]]:
        """The parameters that every scale and sign multiplies."""
        found: dict[str, dict[int, list[str]]] = {"scale": {}, "sign": {}}
        for name in self.order:
            for block in self.motions[name].blocks.values():
                for kind, form in (("scale", block.scale), ("sign", block.sign)):
                    for var, _ in form.terms:
                        names = found[kind].setdefault(var, [])
                        if name not in names:
                            names.append(name)
        return found

    def _listed(self) -> list[int]:
        """Classes that something acts on or is known to pin, hidden ones only."""
        position = {name: k for k, name in enumerate(self.order)}
        shown = [c for c in self.structure.classes if self._shown(c)]
        return sorted(shown, key=lambda c: (position[self.members[c][0]], c))

    def _shown(self, c: int) -> bool:
        record = self.structure.classes[c]
        if c not in self.members:
            return False
        if record.kind > Kind.FIXED or self._bound("scale", c) or self._bound("sign", c):
            return True
        return len(self.members[c]) > 1 and record.reason != RETURNED

    def _bound(self, kind: str, c: int) -> list[int]:
        """The variables indexed by a class and what it is fibred over."""
        wanted = sorted((c, *self.structure.classes[c].base))
        variables = self._variables(kind)
        return [v for v, record in variables.items() if sorted(record.dims) == wanted]

    def _variables(self, kind: str) -> Mapping[int, Variable]:
        return self.structure.scales if kind == "scale" else self.structure.signs

    # listing ------------------------------------------------------------------------------------

    def _class(self, c: int) -> None:
        structure, record = self.structure, self.structure.classes[c]
        name = self._name(self.members[c][0])
        rotated = record.kind > Kind.PERMUTATION
        scale = self.scalars.get(c) if rotated else self._first("scale", c)
        sign = None if rotated else self._first("sign", c)
        shift = self._shift_of(c)
        if record.kind > Kind.FIXED:
            self._part(name, _KINDS[record.kind], "class", c)
        for kind, key in (("scale", scale), ("sign", sign)):
            if key is not None:
                self._part(name, "shift" if key in self.logs else kind, kind, key)
                self.taken[kind].add(key)
        for b in record.base:
            owned = {part.key for part in self.parts if part.where == "class"}
            if structure.classes[b].kind > Kind.FIXED and b not in owned:
                self._part(name, "order of blocks", "class", b)
        if shift is not None:
            self._part(name, "free" if shift in self.idle else "shift", "shift", shift)
            self.taken["shift"].add(shift)
        exponent = scale in self.logs
        group = _group(record, scale is not None and not exponent, sign is not None)
        for b in record.base:
            outer = structure.classes[b]
            copies = outer.size
            wreath = outer.kind == Kind.PERMUTATION
            group = groups.Wreath(group, copies) if wreath else groups.Product((group,) * copies)
        if shift is not None or exponent:
            group = groups.Affine(group.n, group)
        dim = structure.class_dim(c) + (0 if shift is None else structure.shift_dim(shift))
        if scale is not None:
            dim += math.prod(structure.extent(structure.scales[scale].dims))
        operations = self.touched.get(c, ())
        members = tuple(self.members[c])
        self._space(name, group, dim, members, record.reason, operations)

    def _first(self, kind: str, c: int) -> int | None:
        free = (v for v in self._bound(kind, c) if v not in self.taken[kind])
        return next((v for v in free if (kind, v) not in self.inexact), None)

    def _shift_of(self, c: int) -> str | None:
        """A free bias along exactly this class."""
        if self.structure.classes[c].base:
            return None
        exact = (n for n in self.structure.shifts if ("shift", n) not in self.inexact)
        for name in (n for n in exact if n in self.motions):
            present = [leaf for axis in self.motions[name].axes for leaf in leaves(axis)]
            along = [leaf for leaf in present if leaf.size > 1]
            if [leaf.factor for leaf in along] == [c] and name not in self.structure.masks:
                return None if name in self.taken["shift"] else name
        return None

    def _translation(self, key: str) -> None:
        name = self._name(key, own=True)
        dim = self.structure.shift_dim(key)
        free = key in self.unused or key in self.idle
        reason = UNUSED if free else "another bias takes its translation back"
        self._part(name, "free" if free else "shift", "shift", key)
        exactness = self.inexact.get(("shift", key))
        self._space(name, groups.Translation(dim), dim, (key,), reason, (), exactness)

    def _null(self, key: str) -> None:
        """A translation along what nothing reads: its key is the parameter, then along what."""
        parameter, _, where = key.partition(" ")
        name, dim = self._name(parameter, own=True), self.structure.shift_dim(key)
        kind, reason = _null_reason(where)
        self._part(name, kind, "shift", key)
        exactness = self.inexact.get(("shift", key))
        reason = LOSS if exactness == "loss" else reason
        self._space(name, groups.Translation(dim), dim, (parameter,), reason, (), exactness)

    def _leftover_variables(self) -> None:
        """Scales and signs that belong to no class: of a gain, or of several spaces together."""
        signs = [v for v in self.structure.signs if v not in self.taken["sign"]]
        for v in self.structure.scales:
            if v in self.taken["scale"]:
                continue
            same = (s for s in signs if self._same(v, s))
            sign = None if ("scale", v) in self.inexact else next(same, None)
            if sign is not None:
                signs.remove(sign)
            self._variable(v, sign)
        for sign in signs:
            self._variable(None, sign)

    def _same(self, scale: int, sign: int) -> bool:
        one, other = self.structure.scales[scale], self.structure.signs[sign]
        alike = self.readers["scale"].get(scale) == self.readers["sign"].get(sign)
        return one.dims == other.dims and alike

    def _variable(self, scale: int | None, sign: int | None) -> None:
        kind = "scale" if scale is not None else "sign"
        key = scale if scale is not None else sign
        assert key is not None
        record = self._variables(kind)[key]
        members = self.readers[kind].get(key) or [record.origin]
        name = self._name(members[0], own=True)
        size = math.prod(self.structure.extent(record.dims))
        for what, var in (("scale", scale), ("sign", sign)):
            if var is not None:
                self._part(name, what, what, var)
        family = _DIAGONAL[scale is not None, sign is not None]
        dim = 0 if scale is None else size
        exactness = None if scale is None else self.inexact.get(("scale", scale))
        reason = "its readers undo it entry by entry"
        reason = "only the epsilon of a normalisation sees it" if exactness == "eps" else reason
        operations = tuple(itertools.chain(*(self.touched.get(c, ()) for c in record.dims)))
        self._space(name, family(size), dim, tuple(members), reason, operations, exactness)

    def _space(
        self,
        name: str,
        group: Group,
        dim: int,
        members: tuple[str, ...],
        reason: str,
        operations: tuple[str, ...],
        exactness: str | None = None,
    ) -> None:
        kept = exactness or self.exactness
        self.spaces.append(Space(name, group.n, group, dim, members, reason, operations, kept))

    def _part(self, space: str, kind: str, where: str, key: int | str) -> None:
        self.parts.append(Part(space, kind, where, key))

    def _name(self, parameter: str, own: bool = False) -> str:
        """A name nobody has: the module's, then the parameter's, then numbered ones."""
        module, _, leaf = parameter.rpartition(".")
        first = parameter if own or not module else module
        numbered = (f"{first} ({k})" for k in itertools.count(2))
        for name in itertools.chain([first], numbered):
            if name not in self.names:
                self.names.add(name)
                return name
        raise AssertionError(leaf)


def _null_reason(where: str) -> tuple[str, str]:
    """The kind and the reason of a translation along what nothing reads.

    >>> _null_reason("unseen along axis 0")
    ('unseen', 'no output sees it along axis 0')
    >>> _null_reason("along 1/norm.weight")
    ('unread', 'it is read against what adds up to zero, divided by norm.weight')
    """
    first, _, rest = where.partition(" ")
    if where == "unread rows":
        return "free", "no lookup reads these rows, for inputs of this shape"
    if first == "unseen":
        return "unseen", f"no output sees it {rest}".rstrip()
    _, _, gains = rest.partition("/")
    return "unread", f"{UNREAD}, divided by {gains}" if gains else UNREAD


_KINDS = {
    Kind.PERMUTATION: "permutation",
    Kind.PLANE: "rotation",
    Kind.CENTRED: "rotation",
    Kind.ORTHOGONAL: "rotation",
    Kind.LINEAR: "mixing",
}
_ROTATIONS: Mapping[Kind, Callable[[int], Group]] = {
    Kind.PLANE: groups.SpecialOrthogonal,
    Kind.CENTRED: groups.Centred,
    Kind.ORTHOGONAL: groups.Orthogonal,
}
Families = Mapping[tuple[bool, bool], Callable[[int], Group]]
_DIAGONAL: Families = {
    (False, False): groups.Trivial,
    (True, False): groups.PositiveScaling,
    (False, True): groups.Signs,
    (True, True): groups.Diagonal,
}
_MONOMIAL: Families = {
    (False, False): groups.Permutation,
    (True, False): groups.PositiveMonomial,
    (False, True): groups.SignedPermutation,
    (True, True): groups.Monomial,
}


def _group(record: IndexClass, scale: bool, sign: bool) -> Group:
    """What acts on one copy of a class."""
    if record.kind == Kind.LINEAR:
        whole = groups.GeneralLinear(record.size)
        return whole if scale else groups.Special(whole, up_to_sign=True)
    if record.kind in _ROTATIONS:
        return _ROTATIONS[record.kind](record.size)
    families = _MONOMIAL if record.kind == Kind.PERMUTATION else _DIAGONAL
    return families[scale, sign](record.size)


def unit_labels(structure: Structure, parts: Iterable[Part]) -> list[str]:
    """One label per coefficient of the algebra, in their order."""
    label = {(part.where, part.key): part.label for part in parts}
    rows: list[str] = []
    for c in structure.rotated():
        rows += [f"{label['class', c]} of {unit}" for unit in _class_units(structure, c)]
    for v, record in structure.scales.items():
        units = _units(structure.extent(record.dims))
        rows += [f"{label['scale', v]} of {unit}" for unit in units]
    for name in structure.shifts:
        rows += [f"{label['shift', name]} of {unit}" for unit in _shift_units(structure, name)]
    return rows


def _shift_units(structure: Structure, name: str) -> Iterator[str]:
    """The entries of a translation that are free: along a balanced axis the last follows."""
    shape, lost = structure.shapes[name], structure.balanced.get(name)
    free = torch.ones(shape, dtype=torch.bool) if lost is None else _all_but_last(shape, lost)
    kept = structure.masks.get(name, free)
    return itertools.compress(_units(shape), kept.flatten().tolist())


def _all_but_last(shape: tuple[int, ...], axis: int) -> Tensor:
    kept = torch.ones(shape, dtype=torch.bool)
    kept.select(axis, -1).fill_(False)
    return kept


def _units(shape: tuple[int, ...]) -> Iterator[str]:
    """The entries of a tensor by their index, axes of size one left out."""
    if math.prod(shape) == 1:
        yield "all units"
        return
    for index in itertools.product(*map(range, shape)):
        yield "unit " + ".".join(str(i) for i, n in zip(index, shape, strict=True) if n > 1)


def _class_units(structure: Structure, c: int) -> Iterator[str]:
    record = structure.classes[c]
    n = record.size
    if record.kind == Kind.LINEAR:
        texts = [f"units {i}, {j}" for i, j in itertools.permutations(range(n), 2)]
        texts += [f"scales {i}, {i + 1}" for i in range(n - 1)]
    elif record.kind == Kind.CENTRED:
        texts = [f"contrasts {i}, {j}" for i, j in itertools.combinations(range(n - 1), 2)]
    else:
        texts = [f"units {i}, {j}" for i, j in itertools.combinations(range(n), 2)]
    for block in itertools.product(*map(range, structure.extent(record.base))):
        place = ".".join(map(str, block))
        yield from (f"{text} in block {place}" if place else text for text in texts)
