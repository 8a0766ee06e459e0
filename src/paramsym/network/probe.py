"""Which laws a pointwise function obeys, decided from its values on fixed points in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from paramsym.errors import ParamsymError
from paramsym.numerics import (
    LARGEST_DENOMINATOR,
    PROBE_FLOOR,
    PROBE_TOLERANCE,
    SLOPE_TOLERANCE,
    SMOOTH_TOLERANCE,
    SWITCH_TOLERANCE,
)

Pointwise = Callable[[Tensor], Tensor]
Monotone = Literal["increasing", "decreasing", "none"]

# Decades on either side of 1 that the points cover.
DECADES = 12
# Where the activations in use have their kinks, and numbers nearby.
KINKS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 20.0)
# The window that is searched for kinks, and the number of points that fill it irregularly. Halving
# it again and again must not hit a round number, where a kink would hide between two cells.
WINDOW = (-12.1234567, 12.2718282)
FILL = 512
# Factors c of the homogeneity test σ(cz) = c^α σ(z).
FACTORS = (1e-6, 1e-3, 0.1, 0.37, 0.5, 2.0, 3.0, 7.3, 1e3, 1e6)
# Beyond this a value has left the range where float64 arithmetic says anything.
OVERFLOW = 1e100
# A kink out here (a clamp at the largest float32, say) is out of reach of any computation.
OUT_OF_REACH = 1e30
# Exponentials are compared up to this exponent.
EXPONENT = 600.0
# Polynomials are recognised up to this degree.
LARGEST_DEGREE = 8
# Interpolation nodes in a cell; a kink is what survives until cells are narrower than this.
NODES = 24
NARROWEST = 0.005
# A curve between two straight pieces shows once cells are this narrow.
CURVED = NARROWEST / 16
# Cells in flight beyond which a function is irregular everywhere.
MOST_CELLS = 4096


class Probe:
    """A function known to be pointwise and deterministic, with its values on the probe's points."""

    def __init__(self, name: str, function: Pointwise, hints: Iterable[float] = ()) -> None:
        self.name, self.function = name, function
        self.hints = tuple(sorted({abs(h) for h in hints if 0 < abs(h) < OUT_OF_REACH}))
        self.z = points(self.hints)
        self.plus, self.minus = self(self.z), self(-self.z)
        around_one = self.plus[(self.z.abs() >= 0.5) & (self.z.abs() <= 2.0)]
        around_one = around_one[around_one.isfinite()].abs()
        self.size = float(around_one.max()) if around_one.numel() else 0.0
        self._refuse_what_is_not_pointwise()

    def __call__(self, z: Tensor) -> Tensor:
        """The function on a copy of z, checked to return as many float64 numbers."""
        try:
            with torch.no_grad():
                value = self.function(z.clone())
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise self._refusal(f"fails on a float64 tensor of shape {tuple(z.shape)}") from error
        if not isinstance(value, Tensor) or value.shape != z.shape:
            raise self._refusal("does not return one number for each number it is given")
        if value.dtype != torch.float64:
            raise self._refusal(f"returns {value.dtype} for float64")
        return value

    def at(self, z: float) -> float:
        """The value at one number."""
        return float(self(torch.tensor([z], dtype=torch.float64)))

    def agree(
        self,
        left: Tensor,
        right: Tensor,
        near: Tensor | float = 0.0,
        tolerance: float = PROBE_TOLERANCE,
    ) -> bool:
        """Equal everywhere up to rounding: of both sides, of `near`, of the size around one."""
        scale = torch.maximum(left.abs(), right.abs()).clamp_min(torch.as_tensor(near))
        close = (left - right).abs() <= tolerance * scale + PROBE_FLOOR * self.size
        finite = left.isfinite() & right.isfinite()
        same = (left == right) | (left.isnan() & right.isnan())
        return bool((torch.where(finite, close, same) | _overflow(left, right)).all())

    def odd(self) -> bool:
        """σ(−z) = −σ(z)."""
        return self.agree(self.minus, -self.plus)

    def even(self) -> bool:
        """σ(−z) = σ(z)."""
        return self.agree(self.minus, self.plus)

    def affine_reflection(self) -> float | None:
        """c of σ(−z) = c − σ(z)."""
        c = self.at(1.0) + self.at(-1.0)
        near = torch.maximum(self.plus.abs(), self.minus.abs())
        total = torch.full_like(self.z, c)
        return c if math.isfinite(c) and self.agree(self.plus + self.minus, total, near) else None

    def linear_reflection(self) -> float | None:
        """c of σ(z) − σ(−z) = c·z, overlooking switches such as softplus's threshold."""
        c = self.at(1.0) - self.at(-1.0)
        near = torch.maximum(self.plus.abs(), self.minus.abs())
        holds = self.agree(self.plus - self.minus, c * self.z, near, SWITCH_TOLERANCE)
        return c if math.isfinite(c) and holds else None

    def degree(self) -> Fraction | None:
        """α of σ(cz) = c^α σ(z) for all c > 0."""
        alpha = self._degree_at_one()
        if alpha is None:
            return None
        for c in FACTORS:
            if not self.agree(self(c * self.z), c ** float(alpha) * self.plus):
                return None
        return alpha

    def _degree_at_one(self) -> Fraction | None:
        for side in (1.0, -1.0):
            one, two = abs(self.at(side)), abs(self.at(2 * side))
            if one and two and math.isfinite(one) and math.isfinite(two):
                return Fraction(math.log2(two / one)).limit_denominator(LARGEST_DENOMINATOR)
        return Fraction(0) if self.constant() else None

    def constant(self) -> bool:
        """σ(z) = σ(0)."""
        return self.agree(self.plus, torch.full_like(self.plus, self.at(0.0)))

    def rate(self) -> float | None:
        """k ≠ 0 of σ(z + t) = e^{kt} σ(z)."""
        zero, one = self.at(0.0), self.at(1.0)
        if not (zero and math.isfinite(zero) and math.isfinite(one) and one / zero > 0):
            return None
        k = math.log(one / zero)
        mild = (k * self.z).abs() <= EXPONENT
        expected = zero * (k * self.z[mild]).exp()
        close = (self.plus[mild] - expected).abs() <= PROBE_TOLERANCE * expected.abs()
        return k if abs(k) > PROBE_TOLERANCE and bool(close.all()) else None

    def polynomial(self) -> Tensor | None:
        """Coefficients, lowest first and the last one not zero, of the polynomial it equals."""
        nodes, fit = _polynomial_fit()
        values = self(nodes)
        if not bool(values.isfinite().all()):
            return None
        coefficients = fit @ values
        largest = coefficients.abs().max()
        kept = (coefficients.abs() > PROBE_TOLERANCE * largest).nonzero()
        coefficients = coefficients[: int(kept.max()) + 1] if kept.numel() else coefficients[:1]
        powers = self.z[:, None] ** torch.arange(len(coefficients))
        expected, size = powers @ coefficients, powers.abs() @ coefficients.abs()
        holds = self.agree(self.plus, expected, size, SWITCH_TOLERANCE)
        return coefficients if holds else None

    def zero_value(self) -> bool:
        """σ(0) = 0."""
        return abs(self.at(0.0)) <= PROBE_FLOOR * self.size

    def zero_slope(self) -> bool:
        """Is the derivative at zero, from both sides, zero?"""
        slopes = [self._slope_at_zero(side) for side in (1.0, -1.0)]
        return all(abs(slope) <= SLOPE_TOLERANCE * self.size for slope in slopes)

    def _slope_at_zero(self, side: float) -> float:
        """One-sided derivative, from three steps that a power law extrapolates (Aitken)."""
        zero = self.at(0.0)
        coarse, middle, fine = ((self.at(side * h) - zero) / h for h in (1e-2, 1e-4, 1e-6))
        if abs(fine) > abs(coarse):
            return fine
        before, after = middle - coarse, fine - middle
        bend = after - before
        return fine - after**2 / bend if abs(bend) > PROBE_FLOOR * self.size else fine

    def monotone(self) -> Monotone:
        """The direction of a function that never turns, flat stretches allowed."""
        order = self.z.argsort()
        values = self.plus[order]
        values = values[values.isfinite()]
        step = values.diff()
        scale = torch.maximum(values[1:].abs(), values[:-1].abs())
        noise = PROBE_TOLERANCE * scale + PROBE_FLOOR * self.size
        if bool((step >= -noise).all()):
            return "increasing"
        return "decreasing" if bool((step <= noise).all()) else "none"

    def defined(self) -> bool:
        """Is every value a number, overflow far out excepted?"""
        far = self.z.abs() > WINDOW[1]
        return not bool((self.plus.isnan() | (self.plus.isinf() & ~far)).any())

    def smooth(self) -> bool:
        """Do interpolations converge around every point, as they do for an analytic function?

        Kinks up to the third derivative are found; jumps below SWITCH_TOLERANCE are overlooked.
        """
        centre, half = self._cells()
        worst = torch.zeros_like(centre)
        basis, between = _interpolation()
        while len(centre):
            if len(centre) > MOST_CELLS:
                return False
            values = self(centre[:, None] + half[:, None] * basis)
            checks = self(centre[:, None] + half[:, None] * between.nodes)
            size, spread = values.abs().amax(1), values.amax(1) - values.amin(1)
            error = (values @ between.matrix.T - checks).abs().amax(1)
            noise = SMOOTH_TOLERANCE * spread + PROBE_FLOOR * (size + self.size * centre.abs())
            rough = (error > noise) & (size < OVERFLOW) & (size > 1 / OVERFLOW)
            worst = torch.maximum(worst, error / size)
            if bool((rough & (half < NARROWEST) & (worst > SWITCH_TOLERANCE)).any()):
                return False
            centre, half, worst = _halves(rough & (half >= NARROWEST), centre, half, worst)
        return True

    def piecewise_linear(self) -> bool:
        """Straight but for finitely many kinks: halving cells does not multiply the bent ones."""
        centre, half = self._cells()
        ends, inside = self.z.new_tensor([-1.0, 1.0]), torch.linspace(-0.9, 0.9, 7).to(self.z)
        limit = None
        while len(centre):
            left, right = self(centre[:, None] + half[:, None] * ends).unbind(1)
            values = self(centre[:, None] + half[:, None] * inside)
            line = (left + right)[:, None] / 2 + (right - left)[:, None] / 2 * inside
            noise = PROBE_TOLERANCE * values.abs().amax(1) + PROBE_FLOOR * self.size
            bent = ~((values - line).abs().amax(1) <= noise)
            limit = 2 * int(bent.sum()) + 2 if limit is None else limit
            if int(bent.sum()) > min(limit, len(self._cells()[0]) // 2):
                return False
            centre, half, _ = _halves(bent & (half >= CURVED), centre, half, half)
        return True

    def _cells(self) -> tuple[Tensor, Tensor]:
        """Centres and half widths of intervals that cover the window, its tails, and the hints.

        Their ends are irregular, so that no kink hides between two of them.
        """
        ends = torch.linspace(*WINDOW, 98, dtype=torch.float64)
        ends = torch.cat([4 * ends[:1], 2 * ends[:1], ends, 2 * ends[-1:], 4 * ends[-1:]])
        hints = ends.new_tensor([side * h for h in self.hints for side in (1.0, -1.0)])
        centre = torch.cat([(ends[1:] + ends[:-1]) / 2, hints * 1.0123])
        return centre, torch.cat([ends.diff() / 2, hints.abs() / 10])

    def _refuse_what_is_not_pointwise(self) -> None:
        if not self._same(self(self.z), self.plus):
            raise self._refusal(
                "returns different values for the same input", "call .eval() on it, or fix its seed"
            )
        small = self.z.abs() <= 3.0
        shuffle = torch.randperm(len(self.z), generator=torch.Generator().manual_seed(0))
        even = self.z[: len(self.z) // 2 * 2]
        pointwise = (
            self._same(self(self.z[shuffle]), self.plus[shuffle])
            and self._same(self(self.z[small]), self.plus[small])
            and self._same(self(even.reshape(2, -1)).reshape(-1), self.plus[: len(even)])
        )
        if not pointwise:
            raise self._refusal("mixes the entries of its input")
        if bool(self.plus.isnan().all()):
            raise self._refusal("returns NaN wherever it is probed")

    def _same(self, left: Tensor, right: Tensor) -> bool:
        return self.agree(left, right)

    def _refusal(self, why: str, remedy: str = "") -> ParamsymError:
        return ParamsymError(
            f"{self.name} {why}, so it is not one function of one number",
            where="activation_facts",
            remedy=remedy or "pass a deterministic pointwise function of a float64 tensor",
        )


class Between:
    """Points between interpolation nodes on [−1, 1] and the matrix that interpolates there."""

    def __init__(self, nodes: Tensor, matrix: Tensor) -> None:
        self.nodes, self.matrix = nodes, matrix


def points(hints: Iterable[float]) -> Tensor:
    """Numbers of every size on both sides of zero, the usual kinks, and around the hints."""
    scales = [m * 10.0**e for e in range(-DECADES, DECADES) for m in (1.0, 1.7, 2.9, 4.3, 6.1, 8.3)]
    around = [h * f for h in hints for f in (0.37, 0.9, 0.999, 1.0, 1.001, 1.1, 1.9, 7.0)]
    # The golden section fills an interval evenly and hits no simple fraction of it.
    golden = (math.sqrt(5) - 1) / 2
    fill = [WINDOW[1] * ((i * golden) % 1.0) for i in range(1, FILL + 1)]
    positive = torch.tensor(sorted({*scales, *around, *KINKS, *fill}), dtype=torch.float64)
    return torch.cat([-positive.flip(0), positive])


def _overflow(left: Tensor, right: Tensor) -> Tensor:
    """Both sides are beyond the range that is compared, on the same side of zero."""
    huge = (left.abs() > OVERFLOW) & (right.abs() > OVERFLOW)
    return huge & (left.sign() == right.sign()) & (left.isinf() | right.isinf())


def _halves(split: Tensor, centre: Tensor, half: Tensor, carried: Tensor) -> tuple[Tensor, ...]:
    """Both halves of the cells to split, with what they carry."""
    centre, half, carried = centre[split], half[split] / 2, carried[split]
    return torch.cat([centre - half, centre + half]), half.repeat(2), carried.repeat(2)


@lru_cache(maxsize=1)
def _interpolation() -> tuple[Tensor, Between]:
    """Chebyshev nodes, and the barycentric formula at points between them."""
    angle = (torch.arange(NODES, dtype=torch.float64) + 0.5) * math.pi / NODES
    nodes = angle.cos()
    weights = angle.sin() * (-1.0) ** torch.arange(NODES, dtype=torch.float64)
    places = torch.linspace(-0.99, 0.98, NODES + 1, dtype=torch.float64)
    terms = weights / (places[:, None] - nodes)
    return nodes, Between(places, terms / terms.sum(1, keepdim=True))


@lru_cache(maxsize=1)
def _polynomial_fit() -> tuple[Tensor, Tensor]:
    """Chebyshev nodes on [−2, 2], and the least-squares map from values to coefficients."""
    angle = (torch.arange(NODES, dtype=torch.float64) + 0.5) * math.pi / NODES
    nodes = 2 * angle.cos()
    return nodes, torch.linalg.pinv(nodes[:, None] ** torch.arange(LARGEST_DEGREE + 1))
