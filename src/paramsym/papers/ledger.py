"""The ledger: one record per claim that ran, as a table, as JSON and as an exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from paramsym.papers.claim import VERDICTS

ERROR = "error"

_KEYS = (
    "id",
    "paper",
    "source",
    "statement",
    "verdict",
    "expected",
    "measured",
    "note",
    "seconds",
    "figure",
)
_STYLES = {
    "holds": "green",
    "holds with correction": "yellow",
    "refuted": "magenta",
    "qualitative": "cyan",
    ERROR: "bold red",
}


@dataclass(frozen=True)
class Record:
    """One line of the ledger; `figure` is a path relative to the ledger, or None."""

    id: str
    paper: str
    source: str
    statement: str
    verdict: str
    expected: Mapping[str, Any]
    measured: Mapping[str, Any]
    note: str
    seconds: float
    figure: str | None
    expected_verdict: str

    @property
    def surprising(self) -> bool:
        """The run failed, or came to another verdict than the claim's author recorded."""
        return self.verdict != self.expected_verdict

    @property
    def remark(self) -> str:
        """The note in short: the last line of a traceback, and whether the verdict changed."""
        if self.verdict == ERROR:
            return self.note.strip().splitlines()[-1]
        changed = f"[verdict changed: {self.expected_verdict} expected]" if self.surprising else ""
        return f"{self.note} {changed}".strip()

    def to_dict(self) -> dict[str, Any]:
        """The entry of ledger.json; a changed verdict says so in the note."""
        entry = {key: value for key, value in asdict(self).items() if key in _KEYS}
        return entry | {"note": self.note if self.verdict == ERROR else self.remark}


@dataclass(frozen=True)
class Ledger:
    """All records of a run, in the order of the claims.

    >>> Ledger(()).exit_status, Ledger(()).to_dict()
    (0, {'claims': [], 'summary': {}})
    """

    records: tuple[Record, ...]

    @property
    def summary(self) -> dict[str, int]:
        """How many claims came to each verdict."""
        count = Counter(record.verdict for record in self.records)
        return {verdict: count[verdict] for verdict in (*VERDICTS, ERROR) if count[verdict]}

    @property
    def surprises(self) -> tuple[Record, ...]:
        """The claims that failed to run, or whose verdict is not the one on record."""
        return tuple(record for record in self.records if record.surprising)

    @property
    def exit_status(self) -> int:
        """0 if every claim ran and came to the verdict on record, 1 otherwise."""
        return 1 if self.surprises else 0

    def to_dict(self) -> dict[str, Any]:
        """What ledger.json holds."""
        return {"claims": [record.to_dict() for record in self.records], "summary": self.summary}

    def __rich__(self) -> Group:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        # An id is what one types to run a claim again: it may be folded, never cut short.
        table.add_column("claim", overflow="fold")
        table.add_column("verdict", overflow="fold")
        table.add_column("seconds", justify="right")
        for record in self.records:
            verdict = record.verdict + (" (!)" if record.surprising else "")
            table.add_row(
                record.id,
                Text(verdict, style=_STYLES[record.verdict]),
                f"{record.seconds:.1f}",
            )
        notes = [
            Text(f"{record.id} ({record.source}): {record.remark}", style=_STYLES[record.verdict])
            for record in self.records
            if record.verdict != "holds" or record.surprising
        ]
        total = ", ".join(f"{count} {verdict}" for verdict, count in self.summary.items())
        return Group(table, *notes, Text(total or "no claims"))

    def __str__(self) -> str:
        text = StringIO()
        Console(file=text, width=100, color_system=None).print(self)
        return text.getvalue().rstrip()
