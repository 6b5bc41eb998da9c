"""Means over rounds, with their intervals, of what a simulator returned."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.experiments import stats
from rareswitch.planning.simulator import Outcome


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over rounds with its 95% bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


def regrets(outcomes: Sequence[Outcome]) -> Floats:
    return np.array([outcome.regret for outcome in outcomes])


def mean_regret(outcomes: Sequence[Outcome]) -> float:
    return float(regrets(outcomes).mean())


def optimistic(outcomes: Sequence[Outcome]) -> float | None:
    known = [o.optimistic for o in outcomes if o.optimistic is not None]
    return float(np.mean(known)) if known else None


def estimate(values: Floats, weights: Floats) -> Estimate:
    low, high = stats.mean_interval(values, weights)
    return Estimate(mean=float(values.mean()), low=float(low), high=float(high))
