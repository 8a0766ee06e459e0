"""What a law is, how a suite of them grows, and how one is run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from paramsym.errors import ParamsymError
from paramsym.numerics import VERIFY_TOLERANCE


class LawError(ParamsymError):
    """Something breaks a law that everything of its kind obeys."""


@dataclass(frozen=True)
class Law:
    """A statement and the measured deviation from it, 0 where it holds."""

    name: str
    statement: str
    error: Callable[..., float]


Suite = list[Law]


def law(suite: Suite, statement: str) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Add a function to a suite under its own name; it returns how far the statement is off."""

    def added(function: Callable[..., float]) -> Callable[..., float]:
        suite.append(Law(function.__name__.replace("_", " "), statement, function))
        return function

    return added


@dataclass(frozen=True)
class LawReport:
    """How far each law is off, for one subject."""

    subject: str
    errors: dict[str, float]
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether all laws hold."""
        return all(error <= self.tolerance for error in self.errors.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"subject": self.subject, "errors": self.errors, "tolerance": self.tolerance}

    def __str__(self) -> str:
        rows = [f"  {name:<24}{error:9.1e}" for name, error in self.errors.items()]
        return "\n".join([self.subject, *rows])


def check(
    suite: Sequence[Law], subject: str, *args: Any, tolerance: float = VERIFY_TOLERANCE
) -> LawReport:
    """Run every law of a suite on the arguments; raise a LawError naming the broken ones."""
    errors: dict[str, float] = {}
    said: list[str] = []
    for each in suite:
        try:
            errors[each.name] = each.error(*args)
            deviation = f"is off by {errors[each.name]:.1e}"
        except RuntimeError as error:  # torch refuses shapes that do not fit together
            errors[each.name] = math.inf
            deviation = f"cannot be evaluated: {error}"
        if not errors[each.name] <= tolerance:
            said.append(f"{each.name!r} ({each.statement}) {deviation}")
    if said:
        raise LawError(
            f"{subject} breaks " + "; ".join(said),
            remedy="the first law named is usually the cause of the rest",
        )
    return LawReport(subject, errors, tolerance)


def worst(subject: str, reports: Sequence[LawReport]) -> LawReport:
    """The largest deviation from each law over several reports."""
    errors: dict[str, float] = {}
    for report in reports:
        for name, error in report.errors.items():
            errors[name] = max(error, errors.get(name, 0.0))
    return LawReport(subject, errors, max(report.tolerance for report in reports))
