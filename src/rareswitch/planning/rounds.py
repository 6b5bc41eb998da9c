"""The rounds that all rules are played in, and means over them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rareswitch import samples
from rareswitch.core.arguments import Floats, whole
from rareswitch.core.exploration import Exploration
from rareswitch.core.schedule import Schedule
from rareswitch.core.streams import Stream, generator
from rareswitch.outcome import Outcome, Simulator


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over rounds with its 95% bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


class Rounds:
    """Rounds with the same seeds for every rule; `progress` is told of each simulation."""

    def __init__(
        self,
        simulator: Simulator,
        *,
        rounds: int,
        seed: int,
        simulations: int,
        progress: Callable[[int, int], None],
    ) -> None:
        rounds = whole("rounds", rounds, least=2, most=100_000)
        self._simulator, self._progress = simulator, progress
        self._seeds = [(seed, round_) for round_ in range(rounds)]
        self._weights = samples.resamples(rounds, generator(seed, Stream.BOOTSTRAP))
        self._done, self._simulations = 0, simulations
        self._measure: str | None = None
        progress(0, simulations)

    def play(self, schedule: Schedule, exploration: Exploration) -> tuple[Outcome, ...]:
        """Simulate every round once; the measure is the same in all of them."""
        outcomes = self._simulator(schedule, exploration, self._seeds)
        fit = isinstance(outcomes, Sequence) and all(isinstance(one, Outcome) for one in outcomes)
        if not fit or len(outcomes) != len(self._seeds):
            got = len(outcomes) if fit else repr(outcomes)[:80]
            raise ValueError(
                f"simulator must return one Outcome for each of {len(self._seeds)} seeds; got {got}"
            )
        self._measure = self._measure or outcomes[0].measure
        if others := [one.measure for one in outcomes if one.measure != self._measure]:
            raise ValueError(
                f"simulator must measure the same in every round; got {self._measure} and "
                f"{others[0]}, which cannot be compared"
            )
        self._done += 1
        self._progress(self._done, max(self._done, self._simulations))
        return tuple(outcomes)

    def estimate(self, values: Floats) -> Estimate:
        """Return the mean of one value for each round."""
        low, high = samples.mean_interval(values, self._weights)
        return Estimate(mean=float(values.mean()), low=float(low), high=float(high))

    def worse(self, outcomes: Sequence[Outcome], best: Sequence[Outcome]) -> bool:
        """Return whether regret, or shortfall, is measurably above another's, paired by rounds."""
        paired = regrets(outcomes), regrets(best)
        return samples.difference_interval(*paired, self._weights)[1] > 0.0


def regrets(outcomes: Sequence[Outcome]) -> Floats:
    return np.array([outcome.regret for outcome in outcomes])


def mean_regret(outcomes: Sequence[Outcome]) -> float:
    return float(regrets(outcomes).mean())


def optimistic(outcomes: Sequence[Outcome]) -> float | None:
    """Return the mean fraction of optimistic fits, where it is known."""
    known = [one.optimistic for one in outcomes if one.optimistic is not None]
    return float(np.mean(known)) if known else None
