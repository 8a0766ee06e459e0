"""Which translations are free, and which bias absorbs what of them.

Every wall is one equation: what arrives there adds up to zero. Each is solved for a source that
arrives undistorted, the *pivot*; sources that nothing can absorb are narrowed to what can be, or
pinned. Sources that are neither pivots nor pinned are the translations of the symmetry.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from paramsym.network.axes import Mismatch, inner_cuts
from paramsym.network.flow import Flows, Step, cat_place

# A stretch of an axis, and the axes of the source that make a shift vary there (none: constant).
Atom = tuple[int, frozenset[int]]
# Where no axis of the source does: it reaches some places only, alike at each of them, ...
PLACED = -1
# ... or it differs from place to place, as when a fixed factor spreads it.
SPREAD = -2
# For each axis along which a shift varies, the row-major stretches that it consists of.
Support = dict[int, tuple[Atom, ...]]

_CLEAN = ("sum", "gain", "times", "view", "permute", "broadcast", "narrow", "mask", "cat")


class Places(NamedTuple):
    """The positions along one axis at which a shift is not zero."""

    axis: int
    positions: tuple[int, ...]


@dataclass(frozen=True)
class Arrival:
    """How a source arrives at a step: undistorted along one path (``clean``) or not.

    ``shape`` is that of the step.
    """

    clean: bool
    support: Support
    shape: tuple[int, ...]
    places: Places | None = None


Arrivals = dict[str, Arrival]


@dataclass(frozen=True)
class Settlement:
    """The steps with narrowed sources, who absorbs what, and who is pinned.

    ``idle`` are the free sources that die by themselves: nothing has to take them back.
    """

    steps: tuple[Step, ...]
    pivots: dict[str, tuple[int, ...]]
    needs: dict[str, frozenset[str]]
    pinned: frozenset[str]
    free: tuple[str, ...]
    idle: frozenset[str]


def settle(flows: Flows) -> Settlement:
    """Choose a pivot for every wall; narrow or pin what no pivot can absorb."""
    walls = _upstream(flows.steps, flows.walls)
    state = _Settling(list(flows.steps), walls, _offsets(flows.steps))
    while not state.passed():
        pass
    return state.result()


def _upstream(steps: list[Step], walls: Iterable[int]) -> frozenset[int]:
    """The walls moved in front of everything that loses nothing."""
    found: set[int] = set()
    todo = list(walls)
    while todo:
        index = todo.pop()
        step = steps[index]
        alone = step.kind == "sum" and len(step.inputs) == 1
        if alone or step.kind in ("view", "permute", "broadcast", "gain", "cat"):
            todo.extend(step.inputs)
        else:
            found.add(index)
    return frozenset(found)


def _offsets(steps: list[Step]) -> dict[str, frozenset[str]]:
    """The shifts on which what a source brings depends, besides itself: factors on its way."""
    found: dict[str, frozenset[str]] = {}
    for step in steps:
        if step.kind == "times":
            start = step
            while start.inputs:
                start = steps[start.inputs[0]]
            known = found.get(start.attrs["key"], frozenset())
            found[start.attrs["key"]] = known | frozenset(step.attrs["offsets"])
    return found


@dataclass
class _Settling:
    """Gaussian elimination on arrivals, again from the start whenever a source loses something."""

    steps: list[Step]
    walls: frozenset[int]
    offsets: dict[str, frozenset[str]]
    pinned: set[str] = field(default_factory=set)
    pivots: dict[str, tuple[int, ...]] = field(default_factory=dict)
    needs: dict[str, frozenset[str]] = field(default_factory=dict)
    still: set[str] = field(default_factory=set)
    arrivals: list[Arrivals] = field(default_factory=list)
    reach: list[frozenset[int]] = field(default_factory=list)

    def passed(self) -> bool:
        """One pass over the program; False if a source was narrowed or pinned."""
        self.pivots, self.still, self.arrivals, self.reach = {}, set(), [], []
        self.needs = dict(self.offsets)
        for index in range(len(self.steps)):
            arriving = self._arriving(index)
            self.arrivals.append(arriving)
            self.reach.append(frozenset().union(*(a.support for a in arriving.values())))
            if arriving and index in self.walls:
                if not self._solve(index, arriving):
                    return False
                self.arrivals[index] = {}
        return True

    def result(self) -> Settlement:
        """What the last pass chose."""
        keys = [s.attrs["key"] for s in self.steps if s.kind == "source"]
        free = tuple(k for k in keys if k not in self.pinned and k not in self.pivots)
        needed = self._closure(frozenset().union(*self.needs.values())) if self.needs else set()
        idle = frozenset(free) - needed
        pinned = frozenset(self.pinned)
        steps = tuple(map(_narrowed, self.steps, self.reach))
        return Settlement(steps, self.pivots, self.needs, pinned, free, idle)

    # arrivals -----------------------------------------------------------------------------------

    def _arriving(self, index: int) -> Arrivals:
        step = self.steps[index]
        if step.kind in ("source", "constant"):
            key = step.attrs["key"]
            return {} if key in self.pinned else {key: self._start(step)}
        result: Arrivals = {}
        for which, position in enumerate(step.inputs):
            for key, arrival in self.arrivals[position].items():
                if key in self.still:
                    continue
                after = _after(self.steps[position], step, which, arrival)
                if after is None:
                    continue
                before = result.get(key)
                if before is not None:
                    joint = _spread(_joint(before.support, after.support))
                    after = Arrival(False, joint, step.shape)
                result[key] = after
        return result

    def _start(self, step: Step) -> Arrival:
        cut = step.attrs.get("atoms", {})
        support: Support = {}
        for axis in step.support:
            own = frozenset({axis})
            pieces = cut.get(str(axis), [[step.shape[axis], True]])
            support[axis] = tuple((n, own if varies else frozenset()) for n, varies in pieces)
        places = step.attrs.get("places")
        if places is None:
            return Arrival(True, support, step.shape)
        (axis,) = step.support
        return Arrival(True, support, step.shape, Places(axis, tuple(places)))

    # solving ------------------------------------------------------------------------------------

    def _solve(self, wall: int, arriving: Arrivals) -> bool:
        """Find pivots, or take something away from a source and give up this pass."""
        chosen: dict[str, frozenset[str]] = {}
        rest = dict(arriving)
        late = sorted(self._entering.keys() & arriving.keys(), key=self._entering.__getitem__)
        candidates = [k for k in late if self._may_absorb(k, arriving)]
        for key in candidates:
            if key in rest and all(_covers(arriving[key], other) for other in rest.values()):
                chosen[key] = frozenset(rest) - {key}
                rest = _beyond(rest, rest.pop(key))
        if not rest:
            for key, others in chosen.items():
                self.pivots[key] = self._path(key, wall)
                self.needs[key] = frozenset(others - chosen.keys()) | self.offsets.get(
                    key, frozenset()
                )
            # with nothing to absorb they do not move, here or on any other path
            self.still |= {key for key in chosen if self.needs[key] <= self.still}
            return True
        if not any(self._narrow(key, rest) for key in candidates if key in rest):
            self._pin(rest)
        return False

    @cached_property
    def _entering(self) -> dict[str, int]:
        """The place of every source in their order, the one that enters last first."""
        enters: dict[str, int] = {}
        for index, step in enumerate(self.steps):
            for before in (self.steps[i] for i in step.inputs):
                if before.kind == "source":
                    enters.setdefault(before.attrs["key"], index)
        ordered = sorted(enters, key=lambda key: -enters[key])
        return {key: rank for rank, key in enumerate(ordered)}

    def _may_absorb(self, key: str, arriving: Arrivals) -> bool:
        arrival = arriving.get(key)
        if arrival is None or not arrival.clean or key in self.pivots:
            return False
        return key not in self._closure(frozenset(arriving) - {key})

    def _closure(self, keys: frozenset[str]) -> set[str]:
        """The keys and everything that the pivots among them depend on."""
        found: set[str] = set()
        todo = list(keys)
        while todo:
            key = todo.pop()
            if key not in found:
                found.add(key)
                todo.extend(self.needs.get(key, ()))
        return found

    def _narrow(self, pivot: str, arriving: Arrivals) -> bool:
        """Let the others vary only along the axes that a pivot can follow, where that is enough."""
        support = arriving[pivot].support
        wide = {k: a for k, a in arriving.items() if not a.support.keys() <= support.keys()}
        sources = {s.attrs["key"]: i for i, s in enumerate(self.steps) if s.kind == "source"}
        gone: dict[str, frozenset[int]] = {}
        for key, arrival in wide.items():
            outside = [
                _by_source(_owners(own))
                for axis, own in arrival.support.items()
                if axis not in support
            ]
            gone[key] = frozenset().union(*outside)
            if key not in sources or not all(outside) or gone[key] >= self._own_axes(sources[key]):
                return False
        for key, axes in gone.items():
            self._drop_axes(sources[key], axes)
        return bool(wide)

    def _own_axes(self, index: int) -> frozenset[int]:
        return frozenset(self.steps[index].support)

    def _drop_axes(self, index: int, axes: frozenset[int]) -> None:
        """Make a source constant along some axes of the tensor that it enters."""
        step = self.steps[index]
        own = list(step.attrs["own"])
        varying = [k for k, n in enumerate(own) if n > 1]
        for k, axis in zip(varying, sorted(step.support), strict=True):
            if axis in axes:
                own[k] = 1
        attrs = {**step.attrs, "own": own}
        self.steps[index] = replace(step, support=step.support - axes, attrs=attrs)

    def _pin(self, arriving: Arrivals) -> None:
        """Nothing absorbs this: every source that has a part in it stays."""
        self.pinned |= {k for k in self._closure(frozenset(arriving)) if k not in self.pivots}

    def _path(self, key: str, end: int) -> tuple[int, ...]:
        """The single path of steps from a source to a wall."""
        path = [end]
        while self.steps[path[-1]].attrs.get("key") != key:
            inputs = self.steps[path[-1]].inputs
            path.append(next(i for i in inputs if key in self.arrivals[i]))
        return tuple(reversed(path))


def _narrowed(step: Step, reach: frozenset[int]) -> Step:
    """A step behind sources that were narrowed varies along fewer axes than it did."""
    moved = bool(reach) and step.kind not in ("source", "constant", "tensor")
    return replace(step, support=step.support & reach) if moved else step


def _covers(pivot: Arrival, other: Arrival) -> bool:
    """Whether a pivot can take back what another source brings to where the pivot arrives."""
    if pivot.places is None:
        return _within(other.support, pivot.support)
    if other.places is not None and other.places.axis != pivot.places.axis:
        return False
    return _apart(pivot, other) or _within(other.support, pivot.support)


def _within(inner: Support, outer: Support) -> bool:
    """Whether a shift varies only where another one does."""
    if not inner.keys() <= outer.keys():
        return False
    for axis, atoms in inner.items():
        paired = _refined(atoms, outer[axis])
        if paired is None:
            return all(_by_source(own) for _, own in outer[axis])
        if any(not _by_source(its) and mine - its for _, mine, its in paired):
            return False
    return True


def _refined(
    a: tuple[Atom, ...], b: tuple[Atom, ...]
) -> list[tuple[int, frozenset[int], frozenset[int]]] | None:
    """Two ways to cut one axis brought to a common one, if there is any."""
    try:
        cut_a, cut_b = (
            _split(one, inner_cuts([n for n, _ in one], [n for n, _ in other]))
            for one, other in ((a, b), (b, a))
        )
    except Mismatch:
        return None
    return [(n, x, y) for (n, x), (_, y) in zip(cut_a, cut_b, strict=True)]


def _split(atoms: tuple[Atom, ...], cuts: list[tuple[int, ...]]) -> list[Atom]:
    return [(n, own) for (_, own), sizes in zip(atoms, cuts, strict=True) for n in sizes]


def _owners(atoms: tuple[Atom, ...]) -> frozenset[int]:
    """What makes a shift vary somewhere on an axis."""
    return frozenset().union(*(own for _, own in atoms))


def _by_source(owners: frozenset[int]) -> frozenset[int]:
    """The axes of the source among what makes a shift vary."""
    return owners - {PLACED, SPREAD}


def _spread(support: Support) -> Support:
    """The same where it is no longer known which places a shift reaches."""

    def renamed(owners: frozenset[int]) -> frozenset[int]:
        return frozenset(SPREAD if own == PLACED else own for own in owners)

    return {axis: tuple((n, renamed(own)) for n, own in atoms) for axis, atoms in support.items()}


def _is_partial(support: Support, axis: int) -> bool:
    """Whether a shift does not vary with its source along some stretch of an axis."""
    return any(not _by_source(own) for _, own in support.get(axis, ()))


def _apart(pivot: Arrival, other: Arrival) -> bool:
    """Whether another source brings nothing to where a pivot arrives."""
    if pivot.places is None or other.places is None:
        return False
    return not set(other.places.positions) & set(pivot.places.positions)


def _beyond(arrivals: Arrivals, pivot: Arrival) -> Arrivals:
    """What arrives where a pivot does not."""
    if pivot.places is None:
        return {}
    axis, taken = pivot.places.axis, set(pivot.places.positions)
    left: Arrivals = {}
    for key, arrival in arrivals.items():
        positions = arrival.places.positions if arrival.places else range(arrival.shape[axis])
        kept = tuple(p for p in positions if p not in taken)
        if kept:
            left[key] = replace(arrival, places=Places(axis, kept))
    return left


def _after(before: Step, step: Step, which: int, arrival: Arrival) -> Arrival | None:
    """What is left of an arrival after a step: None where the step drops all of it."""
    support = _support_after(before, step, arrival.support)
    along = step.kind in ("narrow", "mask", "cat")
    broken = along and _is_partial(arrival.support, step.attrs["axis"])
    broken |= step.kind == "gain" and step.attrs["axis"] not in arrival.support
    clean = arrival.clean and step.kind in _CLEAN and not broken
    if along and step.attrs["axis"] in support:
        return _along_axis(before, step, which, arrival, support, clean)
    if arrival.places is None:
        return Arrival(clean, support, step.shape)
    places = _places_after(before, step, arrival.places)
    if places is None:
        return Arrival(False, _spread(support), step.shape)
    return Arrival(clean, support, step.shape, places)


def _along_axis(
    before: Step, step: Step, which: int, arrival: Arrival, support: Support, clean: bool
) -> Arrival | None:
    """The positions of a shift through a slice or a concatenation along its axis."""
    axis = step.attrs["axis"]
    positions = tuple(range(before.shape[axis]))
    if arrival.places is not None:
        if arrival.places.axis != axis:
            return Arrival(False, _spread(support), step.shape)
        positions = arrival.places.positions
    if step.kind == "cat":
        start, size = cat_place(step, which)
        if before.shape[axis] != size or axis not in arrival.support:
            positions = tuple(range(size))
        return Arrival(
            clean, support, step.shape, Places(axis, tuple(start + p for p in positions))
        )
    masked = step.kind == "mask"
    index = {place: place if masked else k for k, place in enumerate(step.attrs["places"])}
    inside = [index[p] for p in positions if p in index]
    if not inside:
        return None
    whole = len(inside) == len(positions) and axis in arrival.support
    return Arrival(clean and whole, support, step.shape, Places(axis, tuple(sorted(inside))))


def _places_after(before: Step, step: Step, places: Places) -> Places | None:
    """Where the positions of a shift are after a step that moves entries, if on one axis still."""
    axis = places.axis
    if step.kind == "permute":
        return places._replace(axis=int(step.attrs["dims"].index(axis)))
    if step.kind == "view":
        for ins, outs in step.attrs["groups"]:
            if axis in ins:
                return _regrouped(places, before.shape, tuple(ins), step.shape, tuple(outs))
    if step.kind == "sum":
        return places._replace(axis=axis + len(step.shape) - len(before.shape))
    return places if step.kind in ("gain", "times", "broadcast", "narrow", "mask", "cat") else None


# Layers that are alike ask the same again and again.
@lru_cache(maxsize=256)
def _regrouped(
    places: Places,
    before: tuple[int, ...],
    ins: tuple[int, ...],
    after: tuple[int, ...],
    outs: tuple[int, ...],
) -> Places | None:
    """Positions along one of some neighbouring axes, after these have been cut otherwise."""
    return _on_one_axis(_flattened(places.positions, before, ins, places.axis), after, outs)


def _flattened(
    positions: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...], axis: int
) -> set[int]:
    """Positions along one of some neighbouring axes, as positions along all of them."""
    stride = math.prod(shape[k] for k in axes if k > axis)
    whole, inside = math.prod(shape[k] for k in axes), set(positions)
    return {q for q in range(whole) if (q // stride) % shape[axis] in inside}


def _on_one_axis(
    positions: set[int], shape: tuple[int, ...], axes: tuple[int, ...]
) -> Places | None:
    """Positions along several neighbouring axes that one of them decides."""
    for axis in axes:
        stride = math.prod(shape[k] for k in axes if k > axis)
        inside = {(q // stride) % shape[axis] for q in positions}
        rest = math.prod(shape[k] for k in axes if k != axis)
        if len(positions) == len(inside) * rest and shape[axis] > 1:
            return Places(axis, tuple(sorted(inside)))
    return None


def _support_after(before: Step, step: Step, support: Support) -> Support:
    """The axes along which a shift varies after a step, and why."""
    if step.kind == "permute":
        dims = step.attrs["dims"]
        return {k: support[d] for k, d in enumerate(dims) if d in support}
    if step.kind == "view":
        return _support_of_view(before, step, support)
    if step.kind == "sum":
        offset = len(step.shape) - len(before.shape)
        return {axis + offset: own for axis, own in support.items()}
    if step.kind == "einsum":
        return _support_of_product(step, support)
    if step.kind == "reduce":
        rest = [k for k in range(len(before.shape)) if k not in step.attrs["axes"]]
        return {k: support[axis] for k, axis in enumerate(rest) if axis in support}
    if step.kind == "gain" and step.attrs["axis"] not in support:
        axis = step.attrs["axis"]
        return {**support, axis: ((step.shape[axis], frozenset({SPREAD})),)}
    if step.kind in ("cat", "mask", "narrow"):
        axis = step.attrs["axis"]
        if axis in support or step.kind != "narrow":
            own = _owners(support.get(axis, ())) or frozenset({PLACED})
            return {**support, axis: ((step.shape[axis], own),)}
    return support


def _support_of_view(before: Step, step: Step, support: Support) -> Support:
    """The stretches of the axes before, dealt out to the axes after."""
    found: Support = {}
    for ins, outs in step.attrs["groups"]:
        atoms: list[Atom] = []
        for axis in ins:
            atoms.extend(support.get(axis, ((before.shape[axis], frozenset()),)))
        after = [step.shape[axis] for axis in outs]
        for axis, own in zip(outs, _dealt(tuple(atoms), after), strict=True):
            if _owners(own):
                found[axis] = own
    return found


def _dealt(atoms: tuple[Atom, ...], sizes: list[int]) -> list[tuple[Atom, ...]]:
    """Row-major stretches cut into axes of the given sizes."""
    try:
        cut = _split(atoms, inner_cuts([n for n, _ in atoms], sizes))
    except Mismatch:
        return [((n, _owners(atoms)),) for n in sizes]
    rest = iter([atom for atom in cut if atom[0] > 1])
    dealt: list[tuple[Atom, ...]] = []
    for size in sizes:
        taken: list[Atom] = []
        while size > 1:
            taken.append(next(rest))
            size //= taken[-1][0]
        dealt.append(tuple(taken))
    return dealt


def _support_of_product(step: Step, support: Support) -> Support:
    """An axis of the fixed factor varies with whatever is summed over."""
    inputs, output = step.attrs["equation"].split("->")
    letters = inputs.split(",")[0]
    of_letter = {letters[axis]: own for axis, own in support.items()}
    gone = [_owners(own) for letter, own in of_letter.items() if letter not in output]
    summed = frozenset().union(*gone) or frozenset({SPREAD})
    found: Support = {}
    for axis, letter in enumerate(output):
        if letter in of_letter:
            found[axis] = of_letter[letter]
        elif letter not in letters and step.shape[axis] > 1:
            found[axis] = ((step.shape[axis], summed),)
    return found


def _joint(a: Support, b: Support) -> Support:
    """Where one of two shifts varies."""
    found = {**a, **b}
    for axis in a.keys() & b.keys():
        paired = _refined(a[axis], b[axis])
        size = math.prod(n for n, _ in a[axis])
        whole = ((size, _owners(a[axis]) | _owners(b[axis])),)
        found[axis] = whole if paired is None else tuple((n, x | y) for n, x, y in paired)
    return found
