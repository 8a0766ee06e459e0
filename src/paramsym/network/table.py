"""Rows of text in columns that fit a page, every word whole."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence

PAGE = 80
GAP = "  "
# A cell may be broken after a space, a dot or an underscore.
PIECE = re.compile(r"[^\s._]*[\s._]+|[^\s._]+")


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    width: int = PAGE,
) -> Iterator[str]:
    r"""The lines of a table; the widest columns are wrapped until it fits.

    Cells break after spaces, dots and underscores, never inside a word, which may need more room.

    >>> lines = table(("space", "dim"), [("layers.0", "3"), ("head", "12")], right=["dim"])
    >>> print(*lines, sep="\n")
    space     dim
    layers.0    3
    head       12
    """
    columns = list(zip(header, *rows, strict=True))
    sizes = _fitted(columns, width - len(GAP) * (len(header) - 1))
    for row in (header, *rows):
        cells = [wrapped(cell, size) for cell, size in zip(row, sizes, strict=True)]
        for line in itertools.zip_longest(*cells, fillvalue=""):
            placed = (
                text.rjust(size) if name in right else text.ljust(size)
                for name, text, size in zip(header, line, sizes, strict=True)
            )
            yield GAP.join(placed).rstrip()


def _fitted(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """The sizes of the columns: the widest one that can shrinks, until all fit."""
    sizes = [max(map(len, column)) for column in columns]
    least = [max(map(_longest_piece, column)) for column in columns]
    while sum(sizes) > room:
        slack = [(size, k) for k, size in enumerate(sizes) if size > least[k]]
        if not slack:
            break
        sizes[max(slack)[1]] -= 1
    return sizes


def _longest_piece(cell: str) -> int:
    return max((len(piece.rstrip()) for piece in PIECE.findall(cell)), default=0)


def wrapped(cell: str, width: int) -> list[str]:
    """A text in lines no longer than a width, where its words allow.

    >>> wrapped("encoder.layer.0.attention", 16)
    ['encoder.layer.0.', 'attention']
    """
    lines = [""]
    for piece in PIECE.findall(cell):
        if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
