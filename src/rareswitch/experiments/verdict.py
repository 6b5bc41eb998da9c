"""What is said of a claim, and how an interval decides it.

A verdict rests on a 95% bootstrap interval over rounds: it "holds" if the whole interval is on the
right side of the stated threshold, "does not hold" if it is wholly on the wrong side, and is
"undecided" otherwise. Words like "similar" have no number in the paper; the threshold that we put
in their place is part of the statement.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "does not hold", "undecided"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim, where the paper makes it, and what the runs say."""

    name: str
    statement: str
    source: str
    verdict: Verdict
    evidence: str


def below(high_end: float, low_end: float, threshold: float) -> Verdict:
    """Judge "the quantity is at most threshold" from its interval."""
    if high_end <= threshold:
        return "holds"
    return "does not hold" if low_end > threshold else "undecided"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """A claim about several arms holds if all do, and fails if one does."""
    found = set(verdicts)
    for verdict in ("does not hold", "undecided"):
        if verdict in found:
            return verdict
    return "holds"


def stated(value: float, low: float, high: float) -> str:
    """Return a number with its interval."""
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"
