"""Records as tables for a terminal: wide, narrow or piped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from paramsym import Explanation, Symmetry
    from paramsym.report.analysis import Analysis

# Below this width a table's cells break into unreadable slivers: rows become stanzas instead.
NARROW = 80
# What a pipe gets, unless COLUMNS says otherwise.
PIPED = 100


def console(*, stderr: bool = False) -> Console:
    """Where a command prints; a pipe has no width of its own, so it gets a fixed one."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPED
    return Console(stderr=stderr, width=width, highlight=False)


def show_analysis(out: Console, analysis: Analysis) -> None:
    """The spaces, what pinned something, and the sums and checks over all of them."""
    symmetry = analysis.symmetry
    show_rows(
        out,
        ("space", "size", "group", "dim", "why"),
        [
            (space.name, str(space.size), str(space.group), str(space.dim), space.reason)
            for space in symmetry.spaces
        ],
        right=("size", "dim"),
    )
    if symmetry.pinned:
        out.print()
        out.print("unknown operations, which pinned what they touch:")
        for where, reason in symmetry.pinned:
            out.print(Text(f"  {where}: {reason}"))
    for culprit in analysis.verification.culprits:
        out.print(Text(f"not a symmetry: {culprit}"))
    out.print()
    show_facts(out, facts(analysis))


def facts(analysis: Analysis) -> list[tuple[str, str]]:
    """The lines under the table of spaces, as pairs of a name and a value."""
    symmetry, proof, measured = analysis.symmetry, analysis.verification, analysis.explanation
    verdict = "passed" if proof.passed else f"FAILED at {proof.worst_space}"
    lines = [
        ("dimension", str(symmetry.dim)),
        ("discrete order", discrete_order(symmetry)),
        ("verification", f"{verdict}, largest error {proof.max_error:.1e} in float64"),
    ]
    if measured is None:
        return [*lines, ("completeness", f"not measured, {analysis.unmeasured}")]
    return [*lines, ("completeness", share(measured))]


def share(measured: Explanation) -> str:
    """How much of what is flat is explained, as a number and in counts."""
    counts = f"{measured.explained} of {measured.nullity} flat directions explained"
    return f"{measured.completeness:.3f} ({counts})"


def discrete_order(symmetry: Symmetry) -> str:
    """The number of discrete elements, exact while it is short.

    >>> from types import SimpleNamespace
    >>> (
    ...     discrete_order(SimpleNamespace(log10_order=0.0)),
    ...     discrete_order(SimpleNamespace(log10_order=158.2)),
    ... )
    ('1', '10^158.2')
    """
    exponent = symmetry.log10_order
    return str(round(10**exponent)) if exponent < 9 else f"10^{exponent:.1f}"


def show_rows(
    out: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
) -> None:
    """A table, or one stanza a row where the terminal is too narrow for columns."""
    if out.width < NARROW:
        for row in rows:
            out.print(Text(row[0], style="bold"))
            show_facts(out, zip(columns[1:], row[1:], strict=True), indent=2)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)


def show_facts(out: Console, lines: Iterable[tuple[str, str]], *, indent: int = 0) -> None:
    """Names and values in two columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in lines:
        table.add_row(Text(" " * indent + name), Text(value))
    out.print(table)
