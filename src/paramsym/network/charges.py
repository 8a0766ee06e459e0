"""Linear systems for what commutes with everything: scales over Q, signs over two elements.

A tensor of the graph moves by ``exp(scale) * sign`` entry by entry, on top of what acts on its
axes. Both are *forms*: linear combinations of variables, each variable indexed by some of the
tensor's axes. Every operation turns into equations between forms; a ``System`` solves them once and
for all, for whole index sets at a time, so that its cost does not depend on the width of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

Slot = int
Binding = tuple[Slot, ...]


@dataclass(frozen=True)
class Form:
    """A linear combination of variables, each read at some slots: ``sum_k c_k v_k[slots_k]``."""

    terms: Mapping[tuple[int, Binding], Fraction] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def slots(self) -> frozenset[Slot]:
        """Every slot that some term depends on."""
        return frozenset(s for _, binding in self.terms for s in binding)

    def times(self, factor: Fraction | int) -> Form:
        """The form multiplied by a number."""
        return Form({k: c * factor for k, c in self.terms.items()}) if factor else ZERO

    def plus(self, other: Form, factor: Fraction | int = 1) -> Form:
        """``self + factor * other``."""
        if not other or not factor:
            return self
        terms = dict(self.terms)
        for key, coefficient in other.terms.items():
            terms[key] = terms.get(key, Fraction(0)) + factor * coefficient
        return Form({k: c for k, c in terms.items() if c})

    def rename(self, names: Mapping[Slot, Slot]) -> Form:
        """The same form with its slots called by other names, all at once."""
        terms: dict[tuple[int, Binding], Fraction] = {}
        for (var, binding), coefficient in self.terms.items():
            key = (var, tuple(names.get(s, s) for s in binding))
            terms[key] = terms.get(key, Fraction(0)) + coefficient
        return Form({k: c for k, c in terms.items() if c})

    def part(self, keep: Callable[[Binding], bool]) -> Form:
        """The terms whose slots satisfy ``keep``."""
        return Form({k: c for k, c in self.terms.items() if keep(k[1])})


ZERO = Form()


class System:
    """Equations ``form = 0`` that hold for every value of the slots, solved as they come.

    ``characteristic`` is 0 for scales (rational coefficients) and 2 for signs. ``closed`` tells
    which slots may index a variable together: an index that is fibred over another needs that one.
    A *bound* variable is no unknown: its value follows from others, and no equation may fix it,
    except at zero, which its ``release`` then makes true.
    """

    def __init__(self, characteristic: int, closed: Callable[[Iterable[Slot]], Binding]) -> None:
        self.characteristic = characteristic
        self.closed = closed
        self.dims: list[Binding] = []
        self.origin: list[str] = []
        self.bound: dict[int, Callable[[], None]] = {}
        self._solved: dict[int, Form] = {}

    def variable(self, slots: Iterable[Slot], origin: str) -> Form:
        """A new unknown indexed by ``slots`` (what is not closed is dropped), as a form."""
        dims = self.closed(slots)
        self.dims.append(dims)
        self.origin.append(origin)
        return Form({(len(self.dims) - 1, dims): Fraction(1)})

    def bind(self, slots: Iterable[Slot], origin: str, release: Callable[[], None]) -> Form:
        """A variable whose value is given, as a form; ``release`` is called where it must be 0."""
        form = self.variable(slots, origin)
        self.bound[len(self.dims) - 1] = release
        return form

    def reduce(self, form: Form) -> Form:
        """The form in terms of unknowns that are still free."""
        while any(var in self._solved for var, _ in form.terms):
            result = ZERO
            for (var, binding), coefficient in form.terms.items():
                known = self._solved.get(var)
                if known is None:
                    result = result.plus(Form({(var, binding): coefficient}))
                else:
                    names = dict(zip(self.dims[var], binding, strict=True))
                    result = result.plus(known.rename(names), coefficient)
            form = result
        return self._normal(form)

    def require_zero(self, form: Form) -> None:
        """Impose ``form = 0`` for all values of its slots.

        Solved exactly where one unknown carries every slot of the equation. Where none does, a sum
        of unknowns that depend on different slots can only be constant along what they do not
        share.
        """
        form = self.reduce(form)
        while form:
            repeated = self._repeated(form)
            stuck = self._stuck(form)
            if stuck is not None:
                self._release(stuck)
            elif repeated is not None:
                self._coarsen(*repeated)
            else:
                form = self._eliminate(form)
            form = self.reduce(form)

    def constant_along(self, form: Form, slots: frozenset[Slot], origin: str) -> Form:
        """Impose that ``form`` does not vary along ``slots``; return it without them."""
        form = self.reduce(form)
        moving = form.part(lambda binding: not slots.isdisjoint(binding))
        if not moving:
            return form
        level = self.variable(moving.slots() - slots, origin)
        self.require_zero(moving.plus(level, -1))
        rest = form.part(lambda binding: slots.isdisjoint(binding))
        return self.reduce(rest.plus(level))

    def absorb(self, form: Form, into: Form) -> None:
        """Let an unknown of ``into`` take up the bound variables of ``form``, here and now.

        Otherwise they would be undone somewhere behind, in any tensor that the equations reach.
        """
        form, into = self.reduce(form), self.reduce(into)
        for (var, binding), coefficient in form.terms.items():
            if var in self.bound:
                self._take(Form({(var, binding): coefficient}), into)

    def _take(self, bound: Form, into: Form) -> None:
        for (var, binding), coefficient in into.terms.items():
            known = var in self.bound or var in self._solved
            if not known and bound.slots() <= set(binding) and self._once(into, var):
                names = dict(zip(binding, self.dims[var], strict=True))
                rest = self.variable(self.dims[var], self.origin[var])
                self._solved[var] = rest.plus(bound.rename(names), -1 / coefficient)
                return

    def free(self, forms: Iterable[Form]) -> list[int]:
        """The unknowns left free that ``forms`` really contain, in order of creation."""
        found = {var for form in forms for var, _ in self.reduce(form).terms}
        return sorted(found - self.bound.keys())

    def _normal(self, form: Form) -> Form:
        if not self.characteristic:
            return form
        return Form({k: Fraction(1) for k, c in form.terms.items() if c % self.characteristic})

    def _stuck(self, form: Form) -> int | None:
        """A bound variable of an equation that no unknown can be solved for exactly."""
        bound = [var for var, _ in form.terms if var in self.bound]
        slots = form.slots()
        solvable = any(
            slots <= set(binding) and self._once(form, var)
            for var, binding in form.terms
            if var not in self.bound
        )
        return None if solvable or not bound else bound[0]

    def _once(self, form: Form, var: int) -> bool:
        bindings = [binding for other, binding in form.terms if other == var]
        return len(bindings) == 1 and len(set(bindings[0])) == len(bindings[0])

    def _release(self, var: int) -> None:
        self._solved[var] = ZERO
        self.bound.pop(var)()

    def _repeated(self, form: Form) -> tuple[int, Binding] | None:
        """An unknown read at several bindings, and its dims on which they all agree."""
        seen: dict[int, list[Binding]] = {}
        for var, binding in form.terms:
            if var not in self.bound:
                seen.setdefault(var, []).append(binding)
        for var, bindings in seen.items():
            repeated = len(bindings) > 1 or len(set(bindings[0])) < len(bindings[0])
            if repeated:
                agree = [
                    d
                    for k, d in enumerate(self.dims[var])
                    if len({b[k] for b in bindings}) == 1 and bindings[0].count(bindings[0][k]) == 1
                ]
                return var, tuple(agree)
        return None

    def _coarsen(self, var: int, keep: Iterable[Slot]) -> None:
        self._solved[var] = self.variable(keep, self.origin[var])

    def _eliminate(self, form: Form) -> Form:
        """Solve for an unknown with the most slots; return what is left to impose.

        Where others have slots that it lacks, it is a sum of functions, one of the slots that it
        shares with each of them.
        """
        unknown = [item for item in form.terms.items() if item[0][0] not in self.bound]
        (var, binding), coefficient = max(unknown, key=lambda item: (len(item[0][1]), -item[0][0]))
        own = frozenset(binding)
        names = dict(zip(binding, self.dims[var], strict=True))
        outside = form.part(lambda other: not own.issuperset(other))
        solved = form.plus(outside, -1).plus(Form({(var, binding): coefficient}), -1)
        for shared in _largest(own.intersection(other) for _, other in outside.terms):
            level = self.variable(shared, self.origin[var])
            solved, outside = solved.plus(level, -1), outside.plus(level)
        self._solved[var] = solved.times(-1 / coefficient).rename(names)
        return outside


def _largest(sets: Iterable[frozenset[Slot]]) -> list[frozenset[Slot]]:
    """The sets that lie in no other one."""
    found = list(dict.fromkeys(sets))
    return [a for a in found if not any(a < b for b in found)]
