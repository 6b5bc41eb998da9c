"""When a new policy is worth deploying: the switching rules of the paper.

Before each episode k the learner shows its schedule a `Clock` and asks whether a switch is due.
A schedule is anything with `due(clock) -> bool`; it must be a pure function of the clock. Two
optional attributes let a simulation jump ahead instead of asking before every episode:

- `upcoming(episode)`: the rule's dates are fixed in advance, and this is the next one after that
  episode (None: no more);
- `persistent = True`: once due, the rule stays due until the policy is switched.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from rareswitch.core import theory
from rareswitch.core.arguments import Floats, one_of, real, whole

# A growth of exactly η is not a growth above η (unit features with λ=1 reach ratio 2 exactly).
GROWTH_TOLERANCE = 1e-10


@dataclass(frozen=True, kw_only=True)
class Clock:
    """All that a schedule may see before an episode.

    `episode` is the paper's k, counted from 1; `logdet` is log det Λ_h^k and `logdet_deployed`
    is log det Λ_h at the last fit, both (H,). `deployed` is b_k, the episode before which the last
    fit was made, `updates` the number of fits so far (the first, on no data, included) and
    `trace_deployed` tr Λ_h at the last fit (None: not known).
    """

    episode: int
    logdet: Floats
    logdet_deployed: Floats
    deployed: int = 1
    updates: int = 1
    trace_deployed: Floats | None = None


class Schedule(Protocol):
    """A switching rule."""

    def due(self, clock: Clock) -> bool:
        """Return whether a new policy must be fitted before the episode."""
        ...


@dataclass(frozen=True)
class EveryEpisode:
    """Switch before every episode: LSVI-UCB (Jin et al. 2020).

    >>> EveryEpisode().upcoming(7)
    8
    """

    def due(self, clock: Clock) -> bool:
        return True

    def upcoming(self, episode: int) -> int | None:
        return episode + 1


class Dated:
    """A rule whose dates are fixed in advance: switch before each of the episodes `starts`."""

    starts: tuple[int, ...]

    def due(self, clock: Clock) -> bool:
        return self.upcoming(clock.episode - 1) == clock.episode  # Alg. 1, line 4

    def upcoming(self, episode: int) -> int | None:
        position = bisect_right(self.starts, episode)
        return self.starts[position] if position < len(self.starts) else None


@dataclass(frozen=True, kw_only=True)
class UniformGrid(Dated):
    """Switch at the start of each of B equal batches of K episodes: LSVI-UCB-Batch (Alg. 1).

    Where B does not divide K, `spread="last"` is the grid as printed, t_i = (i−1)⌊K/B⌋ + 1, whose
    last batch takes the rest; `spread="balanced"` keeps batch lengths within one of each other.

    >>> UniformGrid(episodes=10, batches=4).starts
    (1, 3, 5, 7)
    >>> UniformGrid(episodes=10, batches=4, spread="balanced").starts
    (1, 3, 6, 8)
    """

    episodes: int
    batches: int
    spread: str = "last"

    def __post_init__(self) -> None:
        episodes = whole("episodes", self.episodes, least=1)
        whole("batches", self.batches, least=1, most=episodes)
        one_of("spread", self.spread, ("last", "balanced"))

    @cached_property
    def starts(self) -> tuple[int, ...]:  # type: ignore[override]
        """The first episode t_i of each batch."""
        if self.spread == "last":
            length = self.episodes // self.batches
            return tuple(i * length + 1 for i in range(self.batches))
        return tuple(i * self.episodes // self.batches + 1 for i in range(self.batches))


@dataclass(frozen=True, kw_only=True)
class DeterminantGrowth:
    """Switch when some det Λ_h grew by a factor above η: LSVI-UCB-RareSwitch (Alg. 2).

    >>> clock = Clock(episode=9, logdet=np.array([0.1, 0.7]), logdet_deployed=np.zeros(2))
    >>> DeterminantGrowth(eta=2.0).due(clock), DeterminantGrowth(eta=4.0).due(clock)
    (True, False)
    """

    persistent: ClassVar[bool] = True

    eta: float

    def __post_init__(self) -> None:
        real("eta", self.eta, above=1.0)

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
    ) -> "DeterminantGrowth":
        """Return the rule that makes at most `switches` switches on every path (Theorem 2)."""
        return cls(
            eta=theory.eta_for_budget(
                switches=switches,
                dim=dim,
                horizon=horizon,
                episodes=episodes,
                feature_norm=feature_norm,
                ridge=ridge,
            )
        )

    def due(self, clock: Clock) -> bool:
        growth = clock.logdet - clock.logdet_deployed
        return bool((growth > np.log(self.eta) + GROWTH_TOLERANCE).any())  # Alg. 2, line 7
