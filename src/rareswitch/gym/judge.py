"""Compute the results of a training: the return of each version, the best version, and notes."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rareswitch.agent import Agent
from rareswitch.core.sharing import Sharing
from rareswitch.gym.evaluate import Returns, mean_interval
from rareswitch.gym.exact import Known
from rareswitch.support.arguments import Floats, Ints

# A note warns if exact and fresh returns differ by more standard errors than this.
MOST_ERRORS = 4.0


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """The episodes that one version played, with the mean return and its 95% interval.

    Fewer than 20 episodes have no interval: `low` and `high` are None.
    """

    version: int
    first: int
    episodes: int
    mean: float
    low: float | None
    high: float | None


def cohort_of(version: int, totals: Floats, versions: Ints) -> Cohort:
    """Return the episodes of one version."""
    own = totals[versions == version]
    mean, low, high = mean_interval(own, version)
    first = int(np.argmax(versions == version)) + 1
    return Cohort(version=version, first=first, episodes=len(own), mean=mean, low=low, high=high)


def best_cohort(cohorts: Iterable[Cohort]) -> Cohort | None:
    """Return the cohort with the largest lower bound `low`, or None without intervals."""
    sure = [one for one in cohorts if one.low is not None]
    return max(sure, key=lambda one: (one.low, -one.version), default=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """A policy with its exact and its fresh returns, if known."""

    agent: Agent
    version: int | None = None  # None: recommended
    known: Known | None = None
    fresh: Returns | None = None

    def plain(self) -> dict[str, Any]:
        """Return the results as plain values."""
        return {
            "digest": self.agent.policy.digest,
            "exact": self.known and self.known.policy,
            "fresh": self.fresh and plain_returns(self.fresh),
        }


def plain_returns(returns: Returns) -> dict[str, Any]:
    """Return the mean of fresh episodes and its interval as plain values."""
    return {"episodes": len(returns.totals)} | {
        name: getattr(returns, name) for name in ("mean", "low", "high")
    }


def gain_of(best: Returns | None, recommended: Returns | None) -> dict[str, Any] | None:
    """Return the mean gain of one policy over another on the same fresh episodes."""
    if best is None or recommended is None or len(best.totals) != len(recommended.totals):
        return None
    mean, low, high = mean_interval(best.totals - recommended.totals, 0)
    return {"mean": mean, "low": low, "high": high}


def contradiction(judged: Judged) -> str | None:
    """Return a note if exact and fresh returns differ by more than chance."""
    known, fresh = judged.known, judged.fresh
    if known is None or fresh is None or len(fresh.totals) < 2:
        return None
    error = float(fresh.totals.std(ddof=1)) / math.sqrt(len(fresh.totals))
    if abs(fresh.mean - known.policy) <= MOST_ERRORS * error + 1e-9 * (1.0 + abs(known.policy)):
        return None
    return (
        f"the environment's model says {known.policy:.4g} and fresh episodes earn {fresh.mean:.4g}:"
        " the environment does not do what its model P says, so exact numbers are not to be trusted"
    )


def plain_sharing(sharing: Sharing | None) -> dict[str, Any] | None:
    """Return the comparison of own and shared stages as plain values."""
    return None if sharing is None else {**asdict(sharing), "says": str(sharing)}
