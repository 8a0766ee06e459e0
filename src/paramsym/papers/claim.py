"""A claim of a paper: what it says, where, what we expect to see, and the run that decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from paramsym.errors import ClaimError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scale = Literal["quick", "full"]
Verdict = Literal["holds", "holds with correction", "refuted", "qualitative"]

SCALES: tuple[str, ...] = get_args(Scale)
VERDICTS: tuple[str, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Outcome:
    """What one run of a claim measured, and the verdict that follows from it.

    `measured` holds plain JSON types; `figure` draws on an empty matplotlib figure, which the
    runner makes and saves.

    >>> Outcome({"rank": 2}, "refuted", "the formula gives 1 at (m, h, n) = (1, 2, 1)").verdict
    'refuted'
    """

    measured: Mapping[str, Any]
    verdict: Verdict
    note: str = ""
    figure: Callable[[Figure], None] | None = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ClaimError(
                f"unknown verdict {self.verdict!r}", remedy=f"use one of {', '.join(VERDICTS)}"
            )


Measure = Callable[[Scale, int], Outcome]


@dataclass(frozen=True)
class Claim:
    """One theorem, example or figure of a paper, with the run that tests it.

    `expected` is what the paper says, under the names that the run's `measured` uses;
    `expected_verdict` is what this library has found so far: a run that finds otherwise fails.

    >>> all_the_same = Claim(
    ...     id="arithmetic/commutes",
    ...     source="§1",
    ...     statement="a + b = b + a",
    ...     expected={"difference": 0},
    ...     expected_verdict="holds",
    ...     measure=lambda scale, seed: Outcome({"difference": 0}, judge(True, control=True)),
    ... )
    >>> all_the_same.run().verdict, all_the_same.paper
    ('holds', 'arithmetic')
    """

    id: str
    source: str
    statement: str
    expected: Mapping[str, Any]
    expected_verdict: Verdict
    measure: Measure = field(repr=False)

    def __post_init__(self) -> None:
        if self.id.count("/") != 1 or not all(self.id.split("/")):
            raise ClaimError(f"claim id {self.id!r} is not of the form paper/name")
        if self.expected_verdict not in VERDICTS:
            raise ClaimError(
                f"unknown verdict {self.expected_verdict!r}",
                where=self.id,
                remedy=f"use one of {', '.join(VERDICTS)}",
            )

    @property
    def paper(self) -> str:
        """The folder of the paper: what stands before the slash."""
        return self.id.split("/")[0]

    def run(self, scale: Scale = "quick", seed: int = 0) -> Outcome:
        """Measure, in this process; nothing is cached or written."""
        check_scale(scale)
        outcome = self.measure(scale, seed)
        if not isinstance(outcome, Outcome):
            raise ClaimError(
                f"the run returned {type(outcome).__name__}", where=self.id, remedy="return Outcome"
            )
        return outcome


def check_scale(scale: str) -> None:
    """Refuse a scale that no claim knows."""
    if scale not in SCALES:
        raise ClaimError(f"unknown scale {scale!r}", remedy=f"use one of {', '.join(SCALES)}")


def judge(printed: bool, *, control: bool, amended: bool = False) -> Verdict:
    """The verdict of three measured facts.

    `printed`: the statement holds as printed. `amended`: its conclusion stands once a hypothesis
    or a misprint is put right. `control`: something that has to break the statement did break it;
    without that the measurement could not have told, and there is no verdict.

    >>> judge(True, control=True), judge(False, control=True, amended=True)
    ('holds', 'holds with correction')
    >>> judge(False, control=True)
    'refuted'
    """
    if not control:
        raise ClaimError(
            "the negative control did not break the statement, so the measurement shows nothing",
            remedy="make the control larger or the measurement sharper",
        )
    if printed:
        return "holds"
    return "holds with correction" if amended else "refuted"


def claim(
    id: str,
    *,
    source: str,
    statement: str,
    expected: Mapping[str, Any],
    expected_verdict: Verdict,
) -> Callable[[Measure], Measure]:
    """Register the decorated `measure(scale, seed) -> Outcome` as a claim.

    The function itself is returned unchanged, so that worker processes find it by name.
    """
    from paramsym.papers.registry import register

    def decorate(measure: Measure) -> Measure:
        register(Claim(id, source, statement, dict(expected), expected_verdict, measure))
        return measure

    return decorate
