"""Claims for the tests of the runner: slow ones that log each start, a failing and a dying one.

As a program, `python slow_claims.py OUT LOG JOBS` reproduces the slow ones, to be killed midway.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch

from paramsym.papers import Claim, Outcome, reproduce
from paramsym.papers.claim import Scale

COUNT = 12
SECONDS = 0.4


class Slow:
    """A measurement that writes its name to the log when it starts."""

    def __init__(self, name: str, log: Path, seconds: float = SECONDS) -> None:
        self.name, self.log, self.seconds = name, log, seconds

    def __call__(self, scale: Scale, seed: int) -> Outcome:
        with self.log.open("a") as log:
            log.write(f"{self.name}\n")
        time.sleep(self.seconds)
        return Outcome({"noise": torch.rand((), dtype=torch.float64).item()}, "holds")


def slow_claims(log: Path, seconds: float = SECONDS) -> list[Claim]:
    return [make(f"slow/{i:02d}", Slow(f"slow/{i:02d}", log, seconds)) for i in range(COUNT)]


def make(id: str, measure, expected_verdict="holds", expected=None) -> Claim:
    return Claim(id, "nowhere", "a statement", expected or {}, expected_verdict, measure)


def fails(scale: Scale, seed: int) -> Outcome:
    raise RuntimeError("this measurement went wrong")


def dies(scale: Scale, seed: int) -> Outcome:
    os._exit(3)


if __name__ == "__main__":
    out, log, jobs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    reproduce(claims=slow_claims(log), out=out, jobs=jobs)
