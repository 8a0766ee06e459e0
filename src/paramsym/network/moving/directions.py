"""The generators of a symmetry as an operator, of which nothing dense is ever built unasked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from paramsym.errors import ShapeError
from paramsym.network.axes import leaves
from paramsym.network.element import Factor
from paramsym.network.flow import Program
from paramsym.network.motion import Motion
from paramsym.network.moving.act import Act

if TYPE_CHECKING:
    from paramsym.network.symmetry import Symmetry

# Rows differentiated at once.
CHUNK = 128
Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Directions:
    """The matrix G whose row k is ξ_k(θ) = d/dt exp(t·h_k)·θ, never written down.

    Every product is a derivative of the action, taken tensor by tensor and only in the factors that
    move that tensor. Rows and columns are those of `Symmetry.generators`; all is float64.

    >>> import paramsym as ps
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> directions = ps.symmetries(net, torch.ones(1, 2)).directions()
    >>> directions.shape
    (3, 13)
    >>> sorted(directions.row(0))
    ['0.bias', '0.weight', '2.weight']
    """

    sym: Symmetry
    params: Mapping[str, Tensor]

    @property
    def shape(self) -> tuple[int, int]:
        """(dimension of the group, number of parameters)."""
        return self.sym.dim, sum(self._numel(name) for name in self.sym.parameters)

    @property
    def labels(self) -> list[str]:
        """One label per row."""
        return self.sym.labels

    def combination(self, coefficients: Tensor) -> dict[str, Tensor]:
        """Gᵀc = Σ c_k ξ_k(θ), by parameter: where θ is heading along the algebra element c."""
        self._expect(coefficients, self.shape[0], "one coefficient per row")
        parts = dict(zip(self._sizes, coefficients.double().split(self._lengths), strict=True))
        found: dict[str, Tensor] = {}
        for names, factors in self._groups():
            moved = self._moving(names, factors)
            at = tuple(torch.zeros_like(parts[f]) for f in factors)
            found |= zip(names, _jvp(moved, at, tuple(parts[f] for f in factors)), strict=True)
        return {name: found.get(name, self._zero(name)) for name in self.sym.parameters}

    def pairing(self, tangent: Mapping[str, Tensor] | Tensor) -> Tensor:
        """Gv = (⟨ξ_k(θ), v⟩)_k for a tangent vector v, as a dict or flat; what it lacks is zero."""
        given = self._by_name(tangent) if isinstance(tangent, Tensor) else tangent
        sums = {f: torch.zeros(n, dtype=torch.float64) for f, n in self._sizes.items()}
        for names, factors in self._groups():
            if given.keys().isdisjoint(names):
                continue
            at = tuple(torch.zeros_like(sums[f]) for f in factors)
            back = torch.func.vjp(self._moving(names, factors), *at)[1]
            v = tuple(given[n].double() if n in given else self._zero(n) for n in names)
            for factor, part in zip(factors, back(v), strict=True):
                sums[factor] += part
        return torch.cat([*sums.values(), torch.zeros(0, dtype=torch.float64)])

    def row(self, k: int) -> dict[str, Tensor]:
        """ξ_k(θ) by parameter; the parameters that it leaves alone are left out."""
        return {name: rows[0] for name, rows in self._block(k, k + 1)}

    def rows(self, start: int, stop: int) -> Tensor:
        """Rows start … stop − 1 of G, dense."""
        if not 0 <= start <= stop <= self.shape[0]:
            raise IndexError(f"rows {start} to {stop} of {self.shape[0]}")
        result = torch.zeros(stop - start, self.shape[1], dtype=torch.float64)
        for first, last in self._within_factors(start, stop):
            for name, rows in self._block(first, last):
                place = self._columns[name]
                result[first - start : last - start, place : place + self._numel(name)] = (
                    rows.flatten(1)
                )
        return result

    def dense(self) -> Tensor:
        """G itself."""
        return self.rows(0, self.shape[0])

    # derivatives --------------------------------------------------------------------------------

    def _block(self, start: int, stop: int) -> Iterator[tuple[str, Tensor]]:
        """What some rows of one factor make of every parameter that the factor moves."""
        factor, first = self._owner(start)
        names = tuple(n for n in self.sym.parameters if factor in self._factors[n])
        some = torch.arange(start - first, stop - first)
        basis = torch.zeros(len(some), self._sizes[factor], dtype=torch.float64)
        basis[torch.arange(len(some)), some] = 1.0
        at = torch.zeros(self._sizes[factor], dtype=torch.float64)
        for together in [names] if factor in self._fed else [(name,) for name in names]:
            moved = self._moving(together, (factor,))

            def row(direction: Tensor, moved: Callable[..., Tensors] = moved) -> Tensors:
                return _jvp(moved, (at,), (direction,))

            yield from zip(together, torch.func.vmap(row, chunk_size=CHUNK)(basis), strict=True)

    def _moving(self, names: Sequence[str], factors: Sequence[Factor]) -> Callable[..., Tensors]:
        """The named tensors as a function of the coefficients of some factors, near zero."""
        sym = self._shiftless if self._fed.keys().isdisjoint(factors) else self.sym

        def moved(*coefficients: Tensor) -> Tensors:
            g = sym.structure.nearby(dict(zip(factors, coefficients, strict=True)))
            act = Act(sym, g, self.params)
            return tuple(act.final(name) for name in names)

        return moved

    @cached_property
    def _shiftless(self) -> Symmetry:
        """The symmetry for factors that cause no flow: to first order none then matters."""
        own = self.sym.structure.shifts
        nulls = tuple(null for null in self.sym.nulls if null.key in own)
        return replace(self.sym, program=Program(), nulls=nulls, slopes={})

    def _groups(self) -> Iterator[tuple[Sequence[str], Sequence[Factor]]]:
        """Parameters with the factors that move them: alone, but together what flows connect."""
        connected = [
            n for n in self.sym.parameters if not self._fed.keys().isdisjoint(self._factors[n])
        ]
        if connected:
            yield (
                connected,
                [f for f in self._sizes if any(f in self._factors[n] for n in connected)],
            )
        for name in self.sym.parameters:
            if name not in connected and self._factors[name]:
                yield (name,), [f for f in self._sizes if f in self._factors[name]]

    # who moves what -----------------------------------------------------------------------------

    @cached_property
    def _factors(self) -> dict[str, set[Factor]]:
        """The factors that move each parameter."""
        found: dict[str, set[Factor]] = {name: set() for name in self.sym.parameters}
        named = {null.key: null.name for null in self.sym.nulls}
        for name, motion in self.sym.motions.items():
            if name in found:
                found[name] |= self._of_motion(motion)
        for key in self.sym.structure.shifts:
            found[named.get(key, key)].add(("shift", key))
        sources = {
            step.attrs["key"]: step.attrs["name"]
            for step in self.sym.program.steps
            if step.kind == "source"
        }
        for factor, keys in self._fed.items():
            for key in self._absorbing(keys) & sources.keys():
                name = sources[key]
                found[named.get(name, name)].add(factor)
        return found

    def _of_motion(self, motion: Motion | None) -> set[Factor]:
        if motion is None:
            return set()
        classes = {
            ("class", leaf.factor)
            for axis in motion.axes
            for leaf in leaves(axis)
            if leaf.factor is not None
        }
        scales = {
            ("scale", var) for block in motion.blocks.values() for var, _ in block.scale.terms
        }
        return {f for f in [*classes, *scales] if f in self._sizes}

    @cached_property
    def _fed(self) -> dict[Factor, set[str]]:
        """The factors that cause flows, and the sources and constants where these begin."""
        found: dict[Factor, set[str]] = {}
        for step in self.sym.program.steps:
            if step.kind not in ("source", "constant"):
                continue
            for factor in self._feeding(step.kind, step.attrs):
                if factor in self._sizes:
                    found.setdefault(factor, set()).add(step.attrs["key"])
        return found

    def _feeding(self, kind: str, attrs: Mapping[str, object]) -> Iterable[Factor]:
        if kind == "source":
            return [("shift", str(attrs["name"]))]
        own = self._of_motion(self.sym.constants[str(attrs["key"])])
        value = attrs["value"]
        if isinstance(value, Mapping):
            own |= self._of_motion(self.sym.motions.get(str(value["name"])))
        return own

    def _absorbing(self, keys: set[str]) -> set[str]:
        """The sources that some flows start from, and those that take them back, at any remove."""
        reached, before = set(keys), 0
        while len(reached) > before:
            before = len(reached)
            needs = self.sym.program.needs.items()
            reached |= {pivot for pivot, needed in needs if not reached.isdisjoint(needed)}
        return reached

    # places -------------------------------------------------------------------------------------

    @cached_property
    def _sizes(self) -> dict[Factor, int]:
        return self.sym.structure.sizes()

    @cached_property
    def _lengths(self) -> list[int]:
        return list(self._sizes.values())

    @cached_property
    def _columns(self) -> dict[str, int]:
        """The first column of each parameter."""
        sizes = map(self._numel, self.sym.parameters)
        return dict(zip(self.sym.parameters, accumulate(sizes, initial=0), strict=False))

    def _within_factors(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The stretch of rows cut where one factor ends and the next one starts."""
        for first, last in pairwise(accumulate(self._lengths, initial=0)):
            if max(first, start) < min(last, stop):
                yield max(first, start), min(last, stop)

    def _owner(self, k: int) -> tuple[Factor, int]:
        """The factor that row k belongs to, and its first row."""
        if not 0 <= k < self.shape[0]:
            raise IndexError(f"row {k} of {self.shape[0]}")
        for factor, (first, last) in zip(
            self._sizes, pairwise(accumulate(self._lengths, initial=0)), strict=True
        ):
            if k < last:
                return factor, first
        raise AssertionError("the factors have fewer rows than the group")

    def _numel(self, name: str) -> int:
        return prod(self.sym.shapes[name])

    def _zero(self, name: str) -> Tensor:
        return torch.zeros(self.sym.shapes[name], dtype=torch.float64)

    def _by_name(self, vector: Tensor) -> dict[str, Tensor]:
        """A flat vector over `named_parameters()` cut into tensors."""
        self._expect(vector, self.shape[1], "one entry per parameter")
        parts = vector.split([self._numel(name) for name in self.sym.parameters])
        return {
            name: part.reshape(self.sym.shapes[name])
            for name, part in zip(self.sym.parameters, parts, strict=True)
        }

    def _expect(self, vector: Tensor, length: int, what: str) -> None:
        if vector.shape != (length,):
            raise ShapeError(
                f"has shape {tuple(vector.shape)}",
                where="directions",
                remedy=f"give {length}: {what}",
            )


def _jvp(function: Callable[..., Tensors], at: Tensors, direction: Tensors) -> Tensors:
    tangent: Tensors = torch.func.jvp(function, at, direction)[1]
    return tangent
