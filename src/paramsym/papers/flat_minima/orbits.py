"""Theorem 3.3, Corollary C.4 and Proposition C.3: how large the orbits of two-layer nets are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import comb, isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import paramsym as ps
from paramsym.numerics import Rank, matrix_rank
from paramsym.papers import Outcome, Scale, claim, judge
from paramsym.papers.flat_minima.nets import (
    LINEAR,
    RADIAL,
    RELU,
    Equivariant,
    act,
    broken,
    change,
    holds,
    member,
    normal,
    perceptron,
    weights,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = tuple[int, int, int]
Formula = Callable[[int, int, int], int]
Point = Callable[[int, int, int, int], tuple[Tensor, Tensor]]

GRID = [(m, h, n) for h in range(1, 13) for m in range(1, 6) for n in range(1, 6)]
# Widths of nets one meets, (outputs, hidden, inputs).
WIDE = [(10, 24, 64), (10, 40, 16), (4, 32, 8)]
SMALL = [(1, 2, 1), (1, 3, 1), (2, 6, 3), (3, 4, 5), (10, 16, 8)]


def linear(m: int, h: int, n: int) -> int:
    """h² − (h−n)₊(h−m)₊."""
    return h * h - max(0, h - n) * max(0, h - m)


def linear_cases(m: int, h: int, n: int) -> int:
    """The two columns of the paper's table."""
    return h * h if h <= max(n, m) else h * (n + m) - n * m


def homogeneous_printed(m: int, h: int, n: int) -> int:
    """min(h, max(n, m))."""
    return min(h, max(n, m))


def homogeneous_right(m: int, h: int, n: int) -> int:
    """Every unit has its own scale."""
    return h


def radial_printed(m: int, h: int, n: int) -> int:
    """C(h, 2) − C(h − max(m, n), 2)."""
    return comb(h, 2) - comb(max(0, h - max(m, n)), 2)


def radial_right(m: int, h: int, n: int) -> int:
    """C(h, 2) − C((h − n − m)₊, 2): rotations of what neither layer sees."""
    return comb(h, 2) - comb(max(0, h - n - m), 2)


@dataclass(frozen=True)
class Row:
    """One row of the paper's table: a net, its group, and two formulas for the orbit."""

    case: Equivariant
    printed: Formula
    right: Formula
    right_text: str


ROWS = {
    "linear": Row(LINEAR, linear_cases, linear, "h² − (h−n)₊(h−m)₊"),
    "homogeneous": Row(RELU, homogeneous_printed, homogeneous_right, "h"),
    "radial": Row(RADIAL, radial_printed, radial_right, "C(h,2) − C((h−n−m)₊,2)"),
}


def generic(m: int, h: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Normal U (m×h) and V (h×n)."""
    return normal(m, h, seed=2 * seed), normal(h, n, seed=2 * seed + 1)


def normal_form(m: int, h: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """U₀ = [1 0] and V₀ = [1 0]ᵀ, the point that the paper's proof computes at."""
    return torch.eye(m, h, dtype=torch.float64), torch.eye(h, n, dtype=torch.float64)


def apart(m: int, h: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """U reads the first coordinates and V writes the last ones: UV = 0 where there is room."""
    return torch.eye(m, h, dtype=torch.float64), torch.eye(h, n, dtype=torch.float64).flip(0)


def origin(m: int, h: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """The one point whose orbit is itself."""
    return torch.zeros(m, h, dtype=torch.float64), torch.zeros(h, n, dtype=torch.float64)


def half_rank(m: int, h: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """A point outside Param°: U and V have rank one."""
    u, v = generic(m, h, n, seed)
    return u[:, :1] * u[:1], v[:, :1] * v[:1]


def orbit(row: Row, u: Tensor, v: Tensor) -> Rank:
    """Rank of M ↦ (−U dπ(M), MV) over a basis of the Lie algebra, eq. (5)."""
    algebra = row.case.group(len(v)).algebra()
    image = torch.stack([row.case.dpi(m) for m in algebra]) if len(algebra) else algebra
    return matrix_rank(torch.cat([(-u @ image).flatten(1), (algebra @ v).flatten(1)], dim=1))


@dataclass(frozen=True)
class Table:
    """Measured orbit dimensions, by cell, and the smallest gap of their spectra."""

    dimensions: dict[Cell, int]
    gap: float | None

    def wrong(self, formula: Formula) -> list[Cell]:
        """Cells where the formula says otherwise, the smallest nets first."""
        cells = (cell for cell, found in self.dimensions.items() if formula(*cell) != found)
        return sorted(cells, key=lambda cell: (sum(cell), cell))


def measure(row: Row, cells: Iterable[Cell], point: Point, seeds: Iterable[int]) -> Table:
    """The largest dimension over the seeds: generic points have the largest orbits."""
    dimensions: dict[Cell, int] = {}
    gaps = []
    for cell in cells:
        ranks = [orbit(row, *point(*cell, seed)) for seed in seeds]
        dimensions[cell] = max(int(rank) for rank in ranks)
        gaps += [rank.gap for rank in ranks if isfinite(rank.gap)]
    return Table(dimensions, min(gaps, default=None))


def counterexample(wrong: list[Cell], formula: Formula, table: Table) -> dict[str, int] | None:
    """The smallest net for which a formula is wrong."""
    if not wrong:
        return None
    cell = wrong[0]
    m, h, n = cell
    return {"m": m, "h": h, "n": n, "printed": formula(*cell), "measured": table.dimensions[cell]}


def invariance(row: Row, seed: int) -> tuple[float, float]:
    """Change of F by elements of the group (largest), and by ones outside of it (smallest)."""
    inside, outside = [], []
    for m, h, n in SMALL:
        net = perceptron((n, h, m), row.case.activation, bias=False, seed=seed)
        params, x, g = weights(net), normal(64, n, seed=seed), member(row.case.group(h), seed)
        inside.append(change(net, params, act(params, [g], [row.case.pi(g)]), x))
        wrong_g, wrong_pi = row.case.outside(g)
        outside.append(change(net, params, act(params, [wrong_g], [wrong_pi]), x))
    return max(inside), min(outside)


def theorem(kind: str, scale: Scale, seed: int) -> Outcome:
    """Compare one row of the table with measured ranks on a grid of widths."""
    row = ROWS[kind]
    points = 1 if scale == "quick" else 5
    table = measure(row, GRID, generic, range(seed, seed + points))
    at_normal_form = measure(row, GRID, normal_form, [seed])
    at_origin = measure(row, GRID, origin, [seed])
    wide = measure(row, WIDE if scale == "full" else [], generic, [seed])
    wrong = table.wrong(row.printed)
    amended = table.wrong(row.right) + wide.wrong(row.right)
    inside, outside = invariance(row, seed)
    worst = counterexample(wrong, row.printed, table)
    measured = {
        "cells": len(GRID),
        "points per cell": points,
        "cells where the printed formula is wrong": len(wrong),
        "cells where the corrected formula is wrong": len(table.wrong(row.right)),
        "corrected formula": row.right_text,
        "smallest counterexample": worst,
        "cells where the printed formula is wrong at (U0, V0)": len(
            at_normal_form.wrong(row.printed)
        ),
        "wide nets": len(wide.dimensions),
        "wide nets where the printed formula is wrong": len(wide.wrong(row.printed)),
        "wide nets where the corrected formula is wrong": len(wide.wrong(row.right)),
        "change of F by the group": inside,
        "change of F outside of the group": outside,
        "smallest spectral gap": table.gap,
    }
    return Outcome(
        measured,
        judge(
            not wrong and not wide.wrong(row.printed) and holds(inside),
            control=broken(outside) and not any(at_origin.dimensions.values()),
        ),
        _explain(
            worst,
            row,
            len(wrong),
            len(GRID),
            right_everywhere=not amended,
            right_at_normal_form=not at_normal_form.wrong(row.printed),
        ),
        figure=partial(draw, row, table) if wrong else None,
    )


def _explain(
    worst: dict[str, int] | None,
    row: Row,
    wrong: int,
    cells: int,
    *,
    right_everywhere: bool,
    right_at_normal_form: bool,
) -> str:
    if worst is None:
        return ""
    where = f"(m, h, n) = ({worst['m']}, {worst['h']}, {worst['n']})"
    text = (
        f"wrong for {wrong} of {cells} widths; smallest counterexample {where}: "
        f"printed {worst['printed']}, measured {worst['measured']}"
    )
    if right_everywhere:
        text += f"; right everywhere: {row.right_text}"
    if right_at_normal_form:
        text += (
            ". The printed value is that of the special point (U0, V0): the proof moves there by "
            "two different conjugations, which do not keep this group in place"
        )
    return text


def draw(row: Row, table: Table, figure: Figure) -> None:
    """Printed minus measured dimension over h and n, one panel for each m."""
    figure.set_size_inches(11, 4)
    panels = figure.subplots(1, 5, sharey=True)
    errors = {cell: row.printed(*cell) - table.dimensions[cell] for cell in GRID}
    low = min(errors.values())
    for m, panel in zip(range(1, 6), panels, strict=True):
        image = [[errors[m, h, n] for n in range(1, 6)] for h in range(1, 13)]
        extent = (0.5, 5.5, 0.5, 12.5)
        shown = panel.imshow(
            image, origin="lower", extent=extent, vmin=low, vmax=0, cmap="magma", aspect="auto"
        )
        panel.set(title=f"m = {m}", xlabel="n")
    panels[0].set_ylabel("h")
    figure.colorbar(shown, ax=panels, label="printed − measured")
    figure.suptitle("Where the printed orbit dimension fails")


def corollary(kind: str, scale: Scale, seed: int) -> Outcome:
    """The same formulas on real nets, with the group that the graph of the net gives."""
    row = ROWS[kind]
    cells = SMALL if scale == "quick" else SMALL + WIDE
    dimensions: dict[Cell, int] = {}
    group_right, unplugged = [], []
    for m, h, n in cells:
        net = perceptron((n, h, m), row.case.activation, bias=False, seed=seed)
        sym = ps.symmetries(net, normal(4, n, seed=seed))
        dimensions[m, h, n] = int(ps.orbit_dimension(sym))
        group_right.append(sym.dim == row.case.group(h).dim)
        nothing = {name: torch.zeros_like(value) for name, value in weights(net).items()}
        unplugged.append(int(ps.orbit_dimension(sym, nothing)))
    table = Table(dimensions, None)
    wrong, amended = table.wrong(row.printed), table.wrong(row.right)
    worst = counterexample(wrong, row.printed, table)
    special = measure(row, cells, normal_form, [seed])
    measured = {
        "nets (m, h, n)": [list(cell) for cell in cells],
        "nets where the printed formula is wrong": len(wrong),
        "nets where the corrected formula is wrong": len(amended),
        "orbit dimensions": list(dimensions.values()),
        "printed": [row.printed(*cell) for cell in cells],
        "orbit dimensions at (U0, V0), also of full rank": list(special.dimensions.values()),
        "derived groups of the expected dimension": sum(group_right),
        "smallest counterexample": worst,
    }
    return Outcome(
        measured,
        judge(not wrong and all(group_right), control=not any(unplugged)),
        _explain(
            worst,
            row,
            len(wrong),
            len(cells),
            right_everywhere=not amended,
            right_at_normal_form=not special.wrong(row.printed),
        ),
    )


_EXPECTED: dict[str, Any] = {
    "cells where the printed formula is wrong": 0,
    "cells where the printed formula is wrong at (U0, V0)": 0,
}
_EXPECTED_NETS: dict[str, Any] = {"nets where the printed formula is wrong": 0}


@claim(
    "flat_minima/theorem-3-3-linear",
    source="Theorem 3.3, identity row; eqs. (3), (5)",
    statement="For F(x) = UVx with U m×h and V h×n, a generic orbit of GL(h) has dimension h² if "
    "h ≤ max(n, m) and h(n+m) − nm otherwise.",
    expected=_EXPECTED,
    expected_verdict="holds",
)
def theorem_linear(scale: Scale, seed: int) -> Outcome:
    """Rank of the infinitesimal action of GL(h)."""
    return theorem("linear", scale, seed)


@claim(
    "flat_minima/theorem-3-3-homogeneous",
    source="Theorem 3.3, homogeneous row; eqs. (3), (5)",
    statement="For F(x) = Uσ(Vx) with σ homogeneous, a generic orbit of the positive diagonal "
    "matrices has dimension h if h ≤ max(n, m) and max(n, m) otherwise.",
    expected=_EXPECTED,
    expected_verdict="refuted",
)
def theorem_homogeneous(scale: Scale, seed: int) -> Outcome:
    """Rank of the infinitesimal action of the positive diagonal group."""
    return theorem("homogeneous", scale, seed)


@claim(
    "flat_minima/theorem-3-3-radial",
    source="Theorem 3.3, radial row; eqs. (3), (5)",
    statement="For F(x) = Uσ(Vx) with σ a radial rescaling, a generic orbit of O(h) has dimension "
    "C(h,2) if h ≤ max(n, m) and C(h,2) − C(h − max(m,n), 2) otherwise.",
    expected=_EXPECTED,
    expected_verdict="refuted",
)
def theorem_radial(scale: Scale, seed: int) -> Outcome:
    """Rank of the infinitesimal action of O(h)."""
    return theorem("radial", scale, seed)


@claim(
    "flat_minima/corollary-c-4-linear",
    source="Corollary C.4, linear row",
    statement="Two-layer linear nets: the orbit under GL(h) has dimension "
    "h² − max(0, h−n) max(0, h−m).",
    expected=_EXPECTED_NETS,
    expected_verdict="holds",
)
def corollary_linear(scale: Scale, seed: int) -> Outcome:
    """Orbit dimension of traced linear nets."""
    return corollary("linear", scale, seed)


@claim(
    "flat_minima/corollary-c-4-homogeneous",
    source="Corollary C.4, homogeneous row",
    statement="Two-layer nets with a homogeneous activation: the orbit under the positive "
    "diagonal group has dimension min(h, max(n, m)).",
    expected=_EXPECTED_NETS,
    expected_verdict="refuted",
)
def corollary_homogeneous(scale: Scale, seed: int) -> Outcome:
    """Orbit dimension of traced ReLU nets."""
    return corollary("homogeneous", scale, seed)


@claim(
    "flat_minima/corollary-c-4-radial",
    source="Corollary C.4, radial row",
    statement="Two-layer nets with a radial rescaling activation: the orbit under O(h) has "
    "dimension C(h,2) if h ≤ max(n, m) and C(h,2) − C(h − max(m,n), 2) otherwise.",
    expected=_EXPECTED_NETS,
    expected_verdict="refuted",
)
def corollary_radial(scale: Scale, seed: int) -> Outcome:
    """Orbit dimension of traced radial nets."""
    return corollary("radial", scale, seed)


@claim(
    "flat_minima/proposition-c-3",
    source="Proposition C.3",
    statement="Wherever U (m×h) and V (h×n) both have full rank, generic or not, the GL(h) orbit "
    "of (U, V) has dimension h² − max(0, h−n) max(0, h−m).",
    expected={"points of full rank where the formula is wrong": 0},
    expected_verdict="holds",
)
def proposition_c_3(scale: Scale, seed: int) -> Outcome:
    """Generic points, and the special ones where the other two rows of the table go wrong."""
    row = ROWS["linear"]
    points = 1 if scale == "quick" else 5
    seeds = range(seed, seed + points)
    tables = [measure(row, GRID, point, seeds) for point in (generic, normal_form, apart)]
    low = measure(row, GRID, half_rank, seeds)
    # With ranks (s, r) in place of (m, n) the same count holds, so it must differ where it can.
    seen = low.wrong(linear)
    due = [cell for cell in GRID if linear(1, cell[1], 1) != linear(*cell)]
    wrong = sum(len(table.wrong(linear)) for table in tables)
    measured = {
        "cells": len(GRID),
        "points of full rank": len(GRID) * (2 + points),
        "points of full rank where the formula is wrong": wrong,
        "cells where it is wrong at rank one": len(seen),
        "cells where it has to be wrong at rank one": len(due),
        "smallest spectral gap": min(t.gap for t in tables if t.gap is not None),
    }
    control = bool(due) and set(seen) == set(due)
    return Outcome(measured, judge(not wrong, control=control))
