"""Choosing β on a simulator, and what a wrong choice costs."""

from dataclasses import dataclass

import numpy as np

from rareswitch.core.exploration import Bonus
from rareswitch.core.schedule import Schedule
from rareswitch.planning.rounds import Estimate, Rounds, mean_regret, optimistic, regrets

BETA_EXPONENTS = range(-3, 3)


@dataclass(frozen=True, kw_only=True)
class BetaSweep:
    """Average regret (or shortfall) and optimistic fits against β, and what a wrong β costs.

    `loss_low` and `loss_high` are the ratios of regret at a third and at three times the chosen β
    to the regret at it.
    """

    betas: tuple[float, ...]
    regret: tuple[Estimate, ...]
    optimistic: tuple[float | None, ...]
    chosen: float
    loss_low: float
    loss_high: float


def sweep_beta(schedule: Schedule, rounds: Rounds, episodes: int) -> BetaSweep:
    """Try β = 3^e, choose one, and measure the loss when it is off by 3× either way.

    Of the values whose regret is not measurably above the least, the one with the most optimistic
    fits is chosen: optimism is what the guarantees rest on.
    """
    tried = {e: rounds.play(schedule, Bonus(3.0**e)) for e in BETA_EXPONENTS}
    least = min(tried, key=lambda e: mean_regret(tried[e]))
    level = [e for e in tried if e == least or not rounds.worse(tried[e], tried[least])]
    chosen = max(level, key=lambda e: (optimistic(tried[e]) or 0.0, -mean_regret(tried[e])))
    for e in (chosen - 1, chosen + 1):
        if e not in tried:
            tried[e] = rounds.play(schedule, Bonus(3.0**e))

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
