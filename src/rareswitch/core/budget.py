"""Rules that spend a budget of B switches and never exceed it.

The switching lemma multiplies determinants over stages, so it proves more than it says: if every
switch needs Σ_h Δlogdet_h > log η, then N switches need more than N·log η of a total growth of at
most dH·log(1 + K·L²/(λd)). The proofs are in docs/theory.md.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rareswitch.core import theory
from rareswitch.core.arguments import Floats, real, whole
from rareswitch.core.schedule import GROWTH_TOLERANCE, Clock, Schedule


@dataclass(frozen=True, init=False)
class TotalGrowth:
    """Switch when the determinants of all stages together grew by a factor above η.

    Kept as `log_eta`, because η for a small budget may exceed every float.

    >>> clock = Clock(episode=9, logdet=np.array([0.5, 0.5]), logdet_deployed=np.zeros(2))
    >>> TotalGrowth(eta=2.0).due(clock), TotalGrowth(eta=4.0).due(clock)
    (True, False)
    """

    persistent: ClassVar[bool] = True

    log_eta: float

    def __init__(self, eta: float | None = None, *, log_eta: float | None = None) -> None:
        if (eta is None) == (log_eta is None):
            raise TypeError("either eta or log_eta must be given")
        if eta is not None:
            log_eta = math.log(real("eta", eta, above=1.0))
        object.__setattr__(self, "log_eta", real("log_eta", log_eta, above=0.0))

    @classmethod
    def for_budget(
        cls,
        *,
        switches: int,
        dim: int,
        horizon: int,
        episodes: int,
        feature_norm: float = 1.0,
        ridge: float = 1.0,
    ) -> "TotalGrowth":
        """Return the rule that makes at most `switches` switches in K episodes, on every path."""
        budget = whole("switches", switches, least=0)
        horizon = whole("horizon", horizon, least=1)
        gain = theory.information_gain(
            dim=dim, episodes=episodes, feature_norm=feature_norm, ridge=ridge
        )
        return cls(log_eta=horizon * gain / (budget + 1))

    def due(self, clock: Clock) -> bool:
        growth = float((clock.logdet - clock.logdet_deployed).sum())
        return growth > self.log_eta + GROWTH_TOLERANCE


@dataclass(frozen=True, kw_only=True)
class AdaptiveBudget:
    """Switch when the growth since the last fit exceeds its share of all growth still possible.

    With b switches left the share is 1/(b+1) of Σ_h [d·log((tr Λ_h + n·L²)/d) − log det Λ_h], taken
    at the last fit, with n the episodes left then. Makes at most `switches` switches in `episodes`
    episodes on every path with ‖φ‖ ≤ `feature_norm`; the threshold never increases.

    >>> rule = AdaptiveBudget(switches=5, episodes=100, dim=2)
    >>> start = Clock(episode=1, logdet=np.zeros(3), logdet_deployed=np.zeros(3))
    >>> round(rule.threshold(start), 3), round(3 * 2 * math.log(1 + 100 / 2) / 6, 3)
    (3.932, 3.932)
    """

    persistent: ClassVar[bool] = True

    switches: int
    episodes: int
    dim: int
    feature_norm: float = 1.0
    ridge: float = 1.0

    def __post_init__(self) -> None:
        whole("switches", self.switches, least=0)
        whole("episodes", self.episodes, least=1)
        whole("dim", self.dim, least=1)
        real("feature_norm", self.feature_norm, above=0.0)
        real("ridge", self.ridge, above=0.0)

    def due(self, clock: Clock) -> bool:
        if clock.updates > self.switches:  # the budget is spent: a guard, should L be exceeded
            return False
        growth = float((clock.logdet - clock.logdet_deployed).sum())
        return growth > self.threshold(clock) + GROWTH_TOLERANCE

    def threshold(self, clock: Clock) -> float:
        """Return the growth that the policy in force must exceed to be replaced."""
        left = max(0, self.switches - (clock.updates - 1))
        return float(self._possible_growth(clock).sum()) / (left + 1)

    def _possible_growth(self, clock: Clock) -> Floats:
        squared = self.feature_norm**2
        trace = clock.trace_deployed
        if trace is None:
            trace = np.full_like(
                clock.logdet_deployed, self.dim * self.ridge + (clock.deployed - 1) * squared
            )
        episodes_left = max(0, self.episodes + 1 - clock.deployed)
        largest = self.dim * np.log((trace + episodes_left * squared) / self.dim)
        return np.maximum(largest - clock.logdet_deployed, 0.0)


@dataclass(frozen=True)
class Capped:
    """Another rule, until it has switched so many times: a hard ledger.

    >>> from rareswitch.core.schedule import EveryEpisode
    >>> rule = Capped(EveryEpisode(), switches=3)
    >>> zero = np.zeros(1)
    >>> [rule.due(Clock(episode=9, logdet=zero, logdet_deployed=zero, updates=n)) for n in (3, 4)]
    [True, False]
    """

    schedule: Schedule
    switches: int

    def __post_init__(self) -> None:
        whole("switches", self.switches, least=0)
        if not callable(getattr(self.schedule, "due", None)):
            raise TypeError(f"schedule must have a method due(clock); got {self.schedule!r}")

    @property
    def persistent(self) -> bool:
        return bool(getattr(self.schedule, "persistent", False))

    def due(self, clock: Clock) -> bool:
        return clock.updates <= self.switches and bool(self.schedule.due(clock))
