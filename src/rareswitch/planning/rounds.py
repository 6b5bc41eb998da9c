"""Simulated rounds common to all rules, means over rounds, and the choice of β."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rareswitch.core.clock import Schedule
from rareswitch.core.exploration import Bonus
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.sim.outcome import Outcome, Simulator
from rareswitch.support import bootstrap
from rareswitch.support.arguments import Floats, whole
from rareswitch.support.streams import Stream, generator

BETA_EXPONENTS = range(-3, 3)
MOST_EXPONENT = 6  # the sweep goes on to 3^±6 while the least regret is at its end
# A smaller relative difference of regret counts as equal.
SIMILAR = 0.1


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over rounds with its 95% bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


class Rounds:
    """Rounds with the same seeds for every rule; `progress` is called after each simulation."""

    def __init__(
        self,
        simulator: Simulator,
        task: Task,
        *,
        rounds: int,
        seed: int,
        simulations: int,
        progress: Callable[[int, int], None],
    ) -> None:
        rounds = whole("rounds", rounds, least=2, most=100_000)
        self._simulator, self._task, self._progress = simulator, task, progress
        self._seeds = [(seed, round_) for round_ in range(rounds)]
        self._weights = bootstrap.resamples(rounds, generator(seed, Stream.BOOTSTRAP))
        self._done, self._simulations = 0, simulations
        self._measure: str | None = None
        progress(0, simulations)

    def play(self, schedule: Schedule, recipe: Recipe) -> tuple[Outcome, ...]:
        """Simulate every round once; the measure is the same in all of them."""
        outcomes = self._simulator(self._task, schedule, recipe, self._seeds)
        fit = isinstance(outcomes, Sequence) and all(isinstance(one, Outcome) for one in outcomes)
        if not fit or len(outcomes) != len(self._seeds):
            got = len(outcomes) if fit else repr(outcomes)[:80]
            raise ValueError(
                f"simulator must return one Outcome for each of {len(self._seeds)} seeds; got {got}"
            )
        self._measure = self._measure or outcomes[0].measure
        if others := [one.measure for one in outcomes if one.measure != self._measure]:
            raise ValueError(
                f"simulator must have the same measure in every round; got {self._measure} and "
                f"{others[0]}"
            )
        self._done += 1
        self._progress(self._done, max(self._done, self._simulations))
        return tuple(outcomes)

    def estimate(self, values: Floats) -> Estimate:
        """Return the mean of values, one for each round."""
        low, high = bootstrap.mean_interval(values, self._weights)
        return Estimate(mean=float(values.mean()), low=float(low), high=float(high))

    def worse(self, outcomes: Sequence[Outcome], best: Sequence[Outcome]) -> bool:
        """Return whether regret or shortfall is measurably above `best`'s, paired by rounds."""
        paired = regrets(outcomes), regrets(best)
        return bootstrap.difference_interval(*paired, self._weights)[1] > 0.0

    def saves(self, outcomes: Sequence[Outcome], base: Sequence[Outcome]) -> bool:
        """Return whether there are measurably fewer deployments than in `base` at equal regret."""
        ours, theirs = (np.array([float(one.deployments) for one in e]) for e in (outcomes, base))
        fewer = bootstrap.difference_interval(ours, theirs, self._weights)[2] < 0.0
        lost = bootstrap.difference_interval(regrets(outcomes), regrets(base), self._weights)[2]
        return bool(fewer and lost <= SIMILAR * mean_regret(base))


def regrets(outcomes: Sequence[Outcome]) -> Floats:
    return np.array([outcome.regret for outcome in outcomes])


def mean_regret(outcomes: Sequence[Outcome]) -> float:
    return float(regrets(outcomes).mean())


def optimistic(outcomes: Sequence[Outcome]) -> float | None:
    """Return the mean fraction of optimistic fits, or None if unknown."""
    known = [one.optimistic for one in outcomes if one.optimistic is not None]
    return float(np.mean(known)) if known else None


@dataclass(frozen=True, kw_only=True)
class BetaSweep:
    """Average regret (or shortfall) and optimistic fits against β, and the loss of a wrong β.

    `loss_low` and `loss_high` are the ratios of the regret at a third and at three times the chosen
    β to the regret at the chosen β.
    """

    betas: tuple[float, ...]
    regret: tuple[Estimate, ...]
    optimistic: tuple[float | None, ...]
    chosen: float
    loss_low: float
    loss_high: float


def sweep_beta(schedule: Schedule, recipe: Recipe, rounds: Rounds, episodes: int) -> BetaSweep:
    """Try β = 3^e, choose a value, and measure the loss of a third and three times this value.

    While the least regret is at an end of the values tried, the next value is tried, up to 3^±6.
    Among the values whose regret is not measurably above the least, the value with the most
    optimistic fits is chosen, because the guarantees rest on optimism. The recipe keeps its other
    settings.
    """

    def play(e: int) -> tuple[Outcome, ...]:
        return rounds.play(schedule, replace(recipe, exploration=Bonus(3.0**e)))

    tried = {e: play(e) for e in BETA_EXPONENTS}
    for step, e in (-1, min(tried)), (1, max(tried)):
        others = [mean_regret(tried[other]) for other in tried if other != e]
        while abs(e) < MOST_EXPONENT and mean_regret(tried[e]) < min(others):
            others.append(mean_regret(tried[e]))
            e += step
            tried[e] = play(e)
    least = min(tried, key=lambda e: mean_regret(tried[e]))
    level = [e for e in tried if e == least or not rounds.worse(tried[e], tried[least])]
    chosen = max(level, key=lambda e: (optimistic(tried[e]) or 0.0, -mean_regret(tried[e])))
    for e in (chosen - 1, chosen + 1):
        if e not in tried:
            tried[e] = play(e)

    def loss(e: int) -> float:
        regret, least = mean_regret(tried[e]), mean_regret(tried[chosen])
        return regret / least if least else (1.0 if regret == 0.0 else np.inf)

    ordered = sorted(tried)
    return BetaSweep(
        betas=tuple(3.0**e for e in ordered),
        regret=tuple(rounds.estimate(regrets(tried[e]) / episodes) for e in ordered),
        optimistic=tuple(optimistic(tried[e]) for e in ordered),
        chosen=3.0**chosen,
        loss_low=loss(chosen - 1),
        loss_high=loss(chosen + 1),
    )
