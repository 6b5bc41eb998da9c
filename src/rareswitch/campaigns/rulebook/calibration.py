"""The calibration of a superiority rule, read from the report of a simulation."""

import json
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from rareswitch.campaigns.rulebook.stopping import ControlSuperiority

FEW_CLAIMS = 5  # null rounds with a claim; fewer tell too little about the error


class Calibrated(NamedTuple):
    """The null rounds in which a calibrated rule claims, and their share's 95% interval."""

    claims: int
    rounds: int
    low: float
    high: float

    @property
    def words(self) -> str:
        return (
            f"{self.claims} of {self.rounds} rounds, 95% interval {self.low:.3g} to {self.high:.3g}"
        )


def calibrated_in(report: bytes, rule: ControlSuperiority) -> Calibrated | None:
    """Return the calibration of a rule in a report; None if the report has none."""
    try:
        for one in json.loads(report)["calibration"]:
            if (one["confidence"]["value"], one["asked"]) == (rule.confidence, rule.calibrated):
                error = one["error"]
                rounds, low, high = int(error["rounds"]), float(error["low"]), float(error["high"])
                return Calibrated(round(float(error["value"]) * rounds), rounds, low, high)
    except (ValueError, LookupError, TypeError, ArithmeticError):
        pass
    return None


def uncalibrated(rules: Iterable[Any], report: bytes | None) -> str | None:
    """Return why the report of a simulation does not calibrate the rules; None if it does."""
    for rule in rules:
        if not isinstance(rule, ControlSuperiority) or rule.calibrated is None:
            continue
        found = None if report is None else calibrated_in(report, rule)
        again = f"run `rareswitch plan --calibrate {rule.calibrated:g}`"
        if found is None:
            return (
                f"simulation must be the report that calibrated {rule.name} to confidence "
                f"{rule.confidence:g} with error {rule.calibrated:g}; got "
                f"{'no report' if report is None else 'another report'}: {again}"
            )
        if found.claims < FEW_CLAIMS:
            return (
                f"simulation must have at least {FEW_CLAIMS} null rounds with a claim; it has "
                f"{found.claims} of {found.rounds}: {again} with about "
                f"{rounds_needed(rule.calibrated)} --rounds"
            )
    return None


def rounds_needed(error: float) -> int:
    """Return about how many null rounds have enough claims at an error.

    >>> rounds_needed(0.025)
    200
    """
    return math.ceil(FEW_CLAIMS / error - 1e-9)
