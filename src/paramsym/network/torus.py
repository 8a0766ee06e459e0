"""A readable basis of the free scales and signs of a model.

Solving the equations leaves some unknowns free, whichever the elimination happened to leave. Here
the ones that move nothing are dropped, and where the scalars of a rotated class are among their
combinations, the basis is changed so that one of them is exactly that: GL(n) is then SL(n) and a
scale, and a sign that is already in the class is not counted again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from paramsym.network.axes import Kind, Leaf
from paramsym.network.charges import ZERO, Form
from paramsym.network.element import Variable
from paramsym.network.motion import IndexClass, base_dims

Vector = dict[Hashable, Fraction]
# one block of one parameter: its leaves, and its form
Entry = tuple[Hashable, tuple[Leaf, ...], Form]


@dataclass
class Echelon:
    """Vectors added one by one, reduced against each other, with how each is combined."""

    modulus: int
    _pivots: dict[Hashable, tuple[Vector, Vector]] = field(default_factory=dict)

    def add(self, vector: Vector, name: Hashable) -> bool:
        """Whether the vector is independent of those before it."""
        rest, combination = self.reduce(vector)
        if not rest:
            return False
        pivot = next(iter(rest))
        combination = _sum({name: Fraction(1)}, combination, -1, self.modulus)
        factor = 1 / rest[pivot]
        self._pivots[pivot] = (
            {k: v * factor for k, v in rest.items()},
            {k: v * factor for k, v in combination.items()},
        )
        return True

    def reduce(self, vector: Vector) -> tuple[Vector, Vector]:
        """What is left of a vector, and the combination of the added ones that was taken away."""
        rest, combination = dict(vector), Vector()
        for row in list(rest):
            self._clear(row, rest, combination)
        return rest, combination

    def _clear(self, row: Hashable, rest: Vector, combination: Vector) -> None:
        """Remove every row that a pivot owns, those that removing brings in included."""
        todo = [row]
        while todo:
            row = todo.pop()
            if row not in rest or row not in self._pivots:
                continue
            factor = rest[row]
            vector, own = self._pivots[row]
            todo.extend(k for k in vector if k not in rest)
            _add(rest, vector, -factor, self.modulus)
            _add(combination, own, factor, self.modulus)


def _add(target: Vector, vector: Vector, factor: Fraction, modulus: int) -> None:
    for key, value in vector.items():
        total = target.get(key, Fraction(0)) + factor * value
        total = total % modulus if modulus else total
        if total:
            target[key] = total
        else:
            target.pop(key, None)


def _sum(a: Vector, b: Vector, factor: int, modulus: int) -> Vector:
    result = dict(a)
    _add(result, b, Fraction(factor), modulus)
    return result


@dataclass(frozen=True)
class Torus:
    """The variables of the new basis, which of them are a class's scalars, and how to get there."""

    variables: dict[int, Variable]
    scalars: dict[int, int]
    substitution: dict[int, Form]

    def form(self, form: Form) -> Form:
        """A form in the old variables, in the new ones."""
        result = ZERO
        for (old, binding), coefficient in form.terms.items():
            result = result.plus(self._bound(old, binding), coefficient)
        return result

    def _bound(self, old: int, binding: tuple[int, ...]) -> Form:
        if old not in self.substitution:  # its value follows from others
            return Form({(old, binding): Fraction(1)})
        return self.substitution[old].rename(dict(enumerate(binding)))


def torus(
    entries: Sequence[Entry],
    dims: Mapping[int, tuple[int, ...]],
    origins: Mapping[int, str],
    classes: Mapping[int, IndexClass],
    modulus: int,
    unused: int,
) -> Torus:
    """Choose the basis. ``dims`` gives the classes that index each free variable.

    Names from ``unused`` on are free for new variables.
    With modulus 2 the scalars of a class are dropped: -1 is already among its matrices.
    """
    return _Choice(entries, dims, origins, classes, modulus, unused).run()


class _Choice:
    def __init__(
        self,
        entries: Sequence[Entry],
        dims: Mapping[int, tuple[int, ...]],
        origins: Mapping[int, str],
        classes: Mapping[int, IndexClass],
        modulus: int,
        unused: int,
    ) -> None:
        self.entries, self.dims, self.origins = entries, dims, origins
        self.classes, self.modulus = classes, modulus
        self.variables: dict[int, Variable] = {}
        self.scalars: dict[int, int] = {}
        self.substitution: dict[int, Form] = {}
        self.next = unused

    def run(self) -> Torus:
        """One group of variables after another: a substitution never mixes different indices."""
        groups: dict[frozenset[int], list[int]] = {}
        for var, dims in self.dims.items():
            groups.setdefault(frozenset(dims), []).append(var)
        vectors = self._vectors()
        for key in sorted(groups, key=lambda k: (len(k), sorted(k))):
            self._choose(key, groups[key], vectors)
        return Torus(self.variables, self.scalars, self.substitution)

    def _vectors(self) -> dict[int, Vector]:
        vectors: dict[int, Vector] = {var: {} for var in self.dims}
        for name, _, form in self.entries:
            for (var, binding), coefficient in form.terms.items():
                if var in vectors:
                    vectors[var][(name, frozenset(binding))] = coefficient
        return vectors

    def _scalar_vectors(self, key: frozenset[int]) -> dict[int, Vector]:
        """What multiplying a class by a number does to every block, for the classes fibred so."""
        whole = (Kind.LINEAR, Kind.ORTHOGONAL, Kind.PLANE) if self.modulus else (Kind.LINEAR,)
        found: dict[int, Vector] = {}
        for name, chosen, _ in self.entries:
            for k, leaf in enumerate(chosen):
                c = leaf.factor
                record = None if c is None else self.classes[c]
                if c is None or record is None or record.kind not in whole:
                    continue
                if frozenset(record.base) != key:
                    continue
                slots = frozenset(chosen[d].slot for d in base_dims(k, chosen, self.classes))
                turn: Vector = {(name, slots): Fraction(leaf.turn)}
                found[c] = _sum(found.get(c, {}), turn, 1, self.modulus)
        return found

    def _choose(self, key: frozenset[int], group: list[int], vectors: Mapping[int, Vector]) -> None:
        plain = [var for var in group if len(self.dims[var]) == len(key)]
        effective = Echelon(self.modulus)
        kept = [var for var in plain if effective.add(vectors[var], var)]
        basis = Echelon(self.modulus)
        scalars: dict[int, Vector] = {}
        for c, vector in self._scalar_vectors(key).items():
            rest, combination = effective.reduce(vector)
            if vector and not rest and basis.add(combination, c):
                scalars[c] = combination
        completing = [var for var in kept if basis.add({var: Fraction(1)}, ("own", var))]
        for var in group:
            own = var in completing or var not in plain
            self.substitution[var] = self._identity(var) if own else ZERO
        if not self.modulus:
            for c, combination in scalars.items():
                self._introduce(c, combination)

    def _identity(self, var: int) -> Form:
        dims = self.dims[var]
        self.variables[var] = Variable(dims, self.origins[var])
        return Form({(var, tuple(range(len(dims)))): Fraction(1)})

    def _introduce(self, c: int, combination: Vector) -> None:
        """The scalars of a class as a new variable, added to those they are a combination of."""
        new, self.next = self.next, self.next + 1
        base = self.classes[c].base
        self.variables[new] = Variable(base, self.classes[c].origin)
        self.scalars[c] = new
        for var, coefficient in combination.items():
            assert isinstance(var, int)
            binding = tuple(self.dims[var].index(b) for b in base)
            term = Form({(new, binding): coefficient})
            self.substitution[var] = self.substitution[var].plus(term)
