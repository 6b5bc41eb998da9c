"""Choosing β on a simulator, and what a wrong choice costs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.experiments import stats
from rareswitch.planning.estimate import Estimate, estimate, mean_regret, optimistic, regrets
from rareswitch.planning.simulator import Outcome

BETA_EXPONENTS = range(-3, 3)


@dataclass(frozen=True, kw_only=True)
class BetaSweep:
    """Average regret and optimistic plans against β, and what a wrong β costs.

    `loss_low` and `loss_high` are the ratios of regret at a third and at three times the chosen β
    to the regret at it.
    """

    betas: tuple[float, ...]
    regret: tuple[Estimate, ...]
    optimistic: tuple[float | None, ...]
    chosen: float
    loss_low: float
    loss_high: float

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep as plain values; JSON has no infinity."""
        return vars(self) | {
            "regret": [vars(one) for one in self.regret],
            "loss_low": self.loss_low if np.isfinite(self.loss_low) else None,
            "loss_high": self.loss_high if np.isfinite(self.loss_high) else None,
        }


def sweep_beta(
    play: Callable[[float], Sequence[Outcome]], episodes: int, weights: Floats
) -> BetaSweep:
    """Try β = 3^e, choose one, and measure the loss when it is off by 3× either way.

    Of the values whose regret is not measurably above the least, the one with the most optimistic
    plans is chosen: optimism is what the guarantees rest on.
    """
    tried = {e: play(3.0**e) for e in BETA_EXPONENTS}
    least = min(tried, key=lambda e: mean_regret(tried[e]))

    def measurably_worse(e: int) -> bool:
        base = regrets(tried[least])
        return stats.difference_interval(regrets(tried[e]), base, weights)[1] > 0.0

    level = [e for e in tried if e == least or not measurably_worse(e)]
    chosen = max(level, key=lambda e: (optimistic(tried[e]) or 0.0, -mean_regret(tried[e])))
    for e in (chosen - 1, chosen + 1):
        if e not in tried:
            tried[e] = play(3.0**e)

    def loss(e: int) -> float:
        regret, least = mean_regret(tried[e]), mean_regret(tried[chosen])
        return regret / least if least else (1.0 if regret == 0.0 else np.inf)

    ordered = sorted(tried)
    return BetaSweep(
        betas=tuple(3.0**e for e in ordered),
        regret=tuple(estimate(regrets(tried[e]) / episodes, weights) for e in ordered),
        optimistic=tuple(optimistic(tried[e]) for e in ordered),
        chosen=3.0**chosen,
        loss_low=loss(chosen - 1),
        loss_high=loss(chosen + 1),
    )
