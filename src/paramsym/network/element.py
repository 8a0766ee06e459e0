"""The group of a whole model: its elements, and how they multiply.

An element holds, for every index class, a permutation or a matrix (one for each value of the index
classes it is fibred over), a logarithm for every free scale, a sign for every free sign, and a
translation for every free bias. Classes act first, scales and signs after them, translations last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from paramsym import groups
from paramsym.errors import GroupError
from paramsym.groups import Group
from paramsym.network.axes import Kind, Leaf
from paramsym.network.motion import IndexClass, Motion, act_on

# A continuous factor of a group: "class", "scale" or "shift", and which.
Factor = tuple[str, int | str]


@dataclass(frozen=True, eq=False)
class Element:
    """One element: tensors by class, by scale, by sign, and by the name of a translated tensor.

    What is left out is neutral, and costs nothing when the element acts.
    """

    classes: Mapping[int, Tensor] = field(default_factory=dict)
    scales: Mapping[int, Tensor] = field(default_factory=dict)
    signs: Mapping[int, Tensor] = field(default_factory=dict)
    shifts: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Variable:
    """A free scale or sign: the classes that index it, and the parameter it was found at."""

    dims: tuple[int, ...]
    origin: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"dims": list(self.dims), "origin": self.origin}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Variable:
        """The variable that `to_dict` wrote."""
        return cls(tuple(data["dims"]), data["origin"])


@dataclass(frozen=True, eq=False)
class Structure:
    """Everything that says what an element consists of.

    `shifts` holds for every tensor that is translated freely how a translation of it is moved by
    the rest of an element, `shapes` the shape of that translation, `masks` which of its entries
    are free (all, where it has none), and `balanced` an axis along which they add up to zero.
    """

    classes: Mapping[int, IndexClass]
    scales: Mapping[int, Variable]
    signs: Mapping[int, Variable]
    shifts: Mapping[str, Motion]
    shapes: Mapping[str, tuple[int, ...]]
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    balanced: Mapping[str, int] = field(default_factory=dict)

    # sizes --------------------------------------------------------------------------------------

    def extent(self, dims: Sequence[int]) -> tuple[int, ...]:
        """The sizes of some classes."""
        return tuple(self.classes[c].size for c in dims)

    def moving(self) -> list[int]:
        """The classes on which something acts."""
        return [c for c, record in self.classes.items() if record.kind > Kind.FIXED]

    def class_dim(self, c: int) -> int:
        """Dimension of what acts on one class."""
        record = self.classes[c]
        n, copies = record.size, math.prod(self.extent(record.base))
        return _FAMILIES[record.kind](n).dim * copies if record.kind in _FAMILIES else 0

    def shift_dim(self, name: str) -> int:
        """How many entries of a tensor are translated freely."""
        mask = self.masks.get(name)
        return math.prod(self.free_shape(name)) if mask is None else int(mask.sum())

    def free_shape(self, name: str) -> tuple[int, ...]:
        """The shape of the coefficients: one fewer along an axis that adds up to zero."""
        lost = self.balanced.get(name)
        return tuple(n - (k == lost) for k, n in enumerate(self.shapes[name]))

    @property
    def dim(self) -> int:
        """Dimension of the continuous part."""
        scales = sum(math.prod(self.extent(v.dims)) for v in self.scales.values())
        return (
            sum(map(self.class_dim, self.classes)) + scales + sum(map(self.shift_dim, self.shifts))
        )

    @property
    def log10_order(self) -> float:
        """log₁₀ of the number of connected components."""
        total = math.log10(2) * sum(math.prod(self.extent(v.dims)) for v in self.signs.values())
        for c in self.moving():
            record = self.classes[c]
            total += self._log10_components(record) * math.prod(self.extent(record.base))
        return total

    def _log10_components(self, record: IndexClass) -> float:
        if record.kind == Kind.PERMUTATION:
            return math.lgamma(record.size + 1) / math.log(10)
        return math.log10(2) if _flips(record) else 0.0

    # elements -----------------------------------------------------------------------------------

    def identity(self) -> Element:
        """The neutral element."""
        return Element(
            {c: self._neutral(self.classes[c]) for c in self.moving()},
            {
                v: torch.zeros(self.extent(r.dims), dtype=torch.float64)
                for v, r in self.scales.items()
            },
            {
                v: torch.ones(self.extent(r.dims), dtype=torch.float64)
                for v, r in self.signs.items()
            },
            {n: torch.zeros(self.shapes[n], dtype=torch.float64) for n in self.shifts},
        )

    def _neutral(self, record: IndexClass) -> Tensor:
        base = self.extent(record.base)
        if record.kind == Kind.PERMUTATION:
            return torch.arange(record.size).expand(*base, -1)
        eye = torch.eye(record.size, dtype=torch.float64)
        return eye.expand(*base, -1, -1)

    def check(self, g: Element) -> None:
        """Refuse what is not an element of this group."""
        own = self.identity() if isinstance(g, Element) else None
        parts = ("classes", "scales", "signs", "shifts")
        if own is None or any(
            not _shapes(getattr(g, p)).items() <= _shapes(getattr(own, p)).items() for p in parts
        ):
            raise GroupError(
                "this is not an element of this symmetry",
                where=type(g).__name__,
                remedy="take elements from its own identity() or sample()",
            )

    def compose(self, g: Element, h: Element) -> Element:
        """g after h."""
        g, h = self._whole(g), self._whole(h)
        rest = Element(
            {c: self._product(c, g, h) for c in g.classes},
            {
                v: s + self._carried(h.scales[v], self.scales[v].dims, g)
                for v, s in g.scales.items()
            },
            {v: s * self._carried(h.signs[v], self.signs[v].dims, g) for v, s in g.signs.items()},
        )
        shifts = {n: t + self._shifted(n, g, h.shifts[n]) for n, t in g.shifts.items()}
        return replace(rest, shifts=shifts)

    def inverse(self, g: Element) -> Element:
        """The element that undoes g."""
        g, back = self._whole(g), Element()
        for c in sorted(g.classes, key=lambda c: len(self.classes[c].base)):
            element = g.classes[c]
            permuted = self.classes[c].kind == Kind.PERMUTATION
            undone = element.argsort(-1) if permuted else torch.linalg.inv(element)
            base = self.classes[c].base
            carried = self._carried(undone, base, back)
            back = replace(back, classes={**back.classes, c: carried})
        back = replace(
            back,
            scales={v: -self._carried(s, self.scales[v].dims, back) for v, s in g.scales.items()},
            signs={v: self._carried(s, self.signs[v].dims, back) for v, s in g.signs.items()},
        )
        shifts = {n: -self._shifted(n, back, t) for n, t in g.shifts.items()}
        return replace(back, shifts=shifts)

    def _whole(self, g: Element) -> Element:
        """The element with everything that it leaves out."""
        own = self.identity()
        return Element(
            {**own.classes, **g.classes},
            {**own.scales, **g.scales},
            {**own.signs, **g.signs},
            {**own.shifts, **g.shifts},
        )

    def _product(self, c: int, g: Element, h: Element) -> Tensor:
        base = self.classes[c].base
        before = self._carried(h.classes[c], base, g)
        if self.classes[c].kind == Kind.PERMUTATION:
            return before.gather(-1, g.classes[c])
        return g.classes[c] @ before

    def _carried(self, tensor: Tensor, dims: Sequence[int], g: Element) -> Tensor:
        """A tensor whose leading dimensions are indexed by classes, permuted as `g` permutes them.

        Along an index that is rotated nothing changes: such a tensor scales a gain, in whose frame
        the rotation is taken.
        """
        chosen = [Leaf(self.classes[c].size, k, c) for k, c in enumerate(dims)]
        rest = [Leaf(n, -1) for n in tensor.shape[len(dims) :]]
        order = sorted(range(len(dims)), key=lambda k: len(self.classes[dims[k]].base))
        for k in order:
            if self.classes[dims[k]].kind == Kind.PERMUTATION:
                tensor = act_on(tensor, k, [*chosen, *rest], g.classes, self.classes)
        return tensor

    def _shifted(self, name: str, g: Element, shift: Tensor) -> Tensor:
        return self.shifts[name].apply(shift, g, self.classes, _no_gains)

    def sample(self, generator: torch.Generator, scale: float, discrete: bool) -> Element:
        """exp of a Gaussian algebra element, times a uniformly drawn component.

        The discrete part is drawn whether asked for or not, so that it does not change the rest.
        """
        smooth = self.exp(scale * torch.randn(self.dim, generator=generator, dtype=torch.float64))
        component = self._component(generator)
        return self.compose(smooth, component) if discrete else smooth

    def _component(self, generator: torch.Generator) -> Element:
        neutral = self.identity()
        signs = {v: _random_signs(s.shape, generator) for v, s in neutral.signs.items()}
        classes = {c: self._random(c, generator) for c in neutral.classes}
        return replace(neutral, classes=classes, signs=signs)

    def _random(self, c: int, generator: torch.Generator) -> Tensor:
        record = self.classes[c]
        base = self.extent(record.base)
        if record.kind == Kind.PERMUTATION:
            return torch.rand(*base, record.size, generator=generator).argsort(-1)
        family = groups.Centred if record.kind == Kind.CENTRED else groups.Orthogonal
        flipped = _random_signs(base, generator) < 0
        element: Tensor = family(record.size).flip(flipped & _flips(record))
        return element

    # algebra ------------------------------------------------------------------------------------

    def exp(self, coefficients: Tensor) -> Element:
        """exp of a Lie algebra element, given in the basis that `labels` describe."""
        parts = coefficients.split(list(self.sizes().values()))
        taken = iter(parts)
        neutral = self.identity()
        classes = dict(neutral.classes)
        for c in self.rotated():
            classes[c] = torch.linalg.matrix_exp(self._algebra(c, next(taken)))
        scales = {v: next(taken).reshape(s.shape) for v, s in neutral.scales.items()}
        shifts = {n: self._spread(n, next(taken)) for n in neutral.shifts}
        return Element(classes, scales, neutral.signs, shifts)

    def nearby(self, coefficients: Mapping[Factor, Tensor]) -> Element:
        """1 + h in place of exp(h), the same to first order, for h with parts in some factors.

        All other factors are left out.
        """
        classes, scales, shifts = {}, {}, {}
        for (where, key), own in coefficients.items():
            if where == "class":
                h = self._algebra(int(key), own)
                classes[int(key)] = h + torch.eye(h.shape[-1], dtype=h.dtype)
            elif where == "scale":
                scales[int(key)] = own.reshape(self.extent(self.scales[int(key)].dims))
            else:
                shifts[str(key)] = self._spread(str(key), own)
        return Element(classes, scales, {}, shifts)

    def rotated(self) -> list[int]:
        """The classes with a continuous part, in the order of the coefficients."""
        return [c for c in self.classes if self.class_dim(c)]

    def sizes(self) -> dict[Factor, int]:
        """How many coefficients each class, scale and shift takes, in order."""
        return {
            **{("class", c): self.class_dim(c) for c in self.rotated()},
            **{("scale", v): math.prod(self.extent(r.dims)) for v, r in self.scales.items()},
            **{("shift", n): self.shift_dim(n) for n in self.shifts},
        }

    def _algebra(self, c: int, coefficients: Tensor) -> Tensor:
        record = self.classes[c]
        rows = coefficients.reshape(*self.extent(record.base), -1)
        if record.kind == Kind.LINEAR:
            return traceless(rows, record.size)
        return _FAMILIES[record.kind](record.size).hat(rows)

    def _spread(self, name: str, coefficients: Tensor) -> Tensor:
        shape, mask = self.shapes[name], self.masks.get(name)
        if mask is None:
            free = coefficients.reshape(self.free_shape(name))
            lost = self.balanced.get(name)
            return free if lost is None else torch.cat([free, -free.sum(lost, True)], lost)
        padded = torch.cat([coefficients, coefficients.new_zeros(1)])
        place = torch.where(mask.flatten(), mask.flatten().cumsum(0) - 1, len(coefficients))
        return padded[place].reshape(shape)


def traceless(coefficients: Tensor, n: int) -> Tensor:
    """Σ c_ij E_ij over i ≠ j in row-major order, plus Σ c_i (E_ii − E_i+1,i+1).

    >>> traceless(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([[ 3.,  1.],
            [ 2., -3.]])
    """
    away, trades = coefficients.split([n * n - n, n - 1], -1)
    zero = torch.zeros_like(coefficients[..., :1])
    diagonal = torch.cat([trades, zero], -1) - torch.cat([zero, trades], -1)
    place = torch.empty(n, n, dtype=torch.int64)
    place[~torch.eye(n, dtype=torch.bool)] = torch.arange(n * n - n)
    place.fill_diagonal_(0).diagonal().copy_(torch.arange(n * n - n, n * n))
    return torch.cat([away, diagonal], -1)[..., place]


# What acts on a class with a continuous part; scalars are apart, so LINEAR is SL±(n).
_FAMILIES: Mapping[Kind, Callable[[int], Group]] = {
    Kind.LINEAR: groups.SpecialLinear,
    Kind.ORTHOGONAL: groups.Orthogonal,
    Kind.CENTRED: groups.Centred,
    Kind.PLANE: groups.SpecialOrthogonal,
}


def _flips(record: IndexClass) -> bool:
    """Whether a class of matrices has a second component."""
    return record.kind in (Kind.LINEAR, Kind.ORTHOGONAL) or (
        record.kind == Kind.CENTRED and record.size > 1
    )


def _shapes(parts: Mapping[Any, Tensor]) -> dict[Any, torch.Size]:
    return {key: value.shape for key, value in parts.items()}


def _random_signs(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    return torch.randint(0, 2, tuple(shape), generator=generator).to(torch.float64) * 2 - 1


def _no_gains(name: str) -> Tensor:
    raise AssertionError(f"a translation was moved in the frame of {name}")
