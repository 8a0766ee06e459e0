"""The papers' theorems, examples and figures in; what a run of each shows, as a ledger, out.

One folder per paper, one file per group of claims. A claim uses public names only, so each is
also an example of the library at work.
"""

from __future__ import annotations

from paramsym.papers.claim import Claim, Outcome, Scale, Verdict, claim, judge
from paramsym.papers.ledger import Ledger, Record
from paramsym.papers.registry import all_claims, select
from paramsym.papers.runner import reproduce

__all__ = [
    "Claim",
    "Ledger",
    "Outcome",
    "Record",
    "Scale",
    "Verdict",
    "all_claims",
    "claim",
    "judge",
    "reproduce",
    "select",
]
