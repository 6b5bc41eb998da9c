"""A rule with a way to explore, and what was simulated or replayed of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rareswitch.core.exploration import Exploration, is_plain
from rareswitch.core.theory import RegretBound
from rareswitch.outcome import Outcome
from rareswitch.planning.candidates import Candidate
from rareswitch.planning.rounds import Estimate, Rounds, optimistic, regrets


@dataclass(frozen=True, kw_only=True)
class Option:
    """A candidate with an exploration, and what was simulated or replayed of them.

    `regret` is the average an episode, or what the `measure` of the simulator puts in its place,
    and `mean_return` that of the returns, where they are known. `deployments` are those after the
    first and `switches` those of them that changed an action. `replayed` are the deployments after
    the first on a given log;
    `prices` the range of prices of a deployment, in units of reward, at which this is the cheapest
    option (None: never).
    """

    candidate: Candidate
    exploration: Exploration
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    regret: Estimate | None = None
    mean_return: Estimate | None = None
    deployments: Estimate | None = None
    switches: Estimate | None = None
    optimistic: float | None = None
    replayed: int | None = None
    prices: tuple[float, float] | None = None

    @property
    def measure(self) -> str:
        """What `regret` is: regret, or else the shortfall."""
        return self.outcomes[0].measure if self.outcomes else "regret"

    @property
    def mixture(self) -> bool:
        return self.exploration.members > 1

    @property
    def title(self) -> str:
        """The rule's name, and whether it deploys mixtures."""
        return f"{self.candidate.name}{' (mixture)' if self.mixture else ''}"

    @property
    def name(self) -> str:
        if not self.candidate.guaranteed:
            return f"{self.title}, not guaranteed"
        return f"{self.title}, at most {self.candidate.deployment_limit}"

    @property
    def bound(self) -> RegretBound | None:
        """What is proved of the regret: the paper's theorems are on its own bonus."""
        return self.candidate.bound if is_plain(self.exploration) else None

    def simulated(self, outcomes: tuple[Outcome, ...], rounds: Rounds, episodes: int) -> "Option":
        """Return the option with what its rounds came to."""
        earned = [one.mean_return for one in outcomes if one.mean_return is not None]
        counts = np.array([(one.deployments - 1, one.switches) for one in outcomes], float)
        return replace(
            self,
            outcomes=outcomes,
            regret=rounds.estimate(regrets(outcomes) / episodes),
            mean_return=(
                rounds.estimate(np.array(earned)) if len(earned) == len(outcomes) else None
            ),
            deployments=rounds.estimate(counts[:, 0]),
            switches=rounds.estimate(counts[:, 1]),
            optimistic=optimistic(outcomes),
        )

    def expected_deployments(self) -> float:
        """Return the deployments after the first: the mean simulated, or else the limit."""
        return self.deployments.mean if self.deployments else float(self.candidate.deployment_limit)

    def expected_regret(self, episodes: int) -> float:
        """Return the total regret: the mean simulated, or else the bound."""
        if self.regret is not None:
            return self.regret.mean * episodes
        return self.bound.total if self.bound else np.inf


def priced(options: Sequence[Option], episodes: int) -> list[Option]:
    """Fill in, for each option, the prices at which none other is cheaper."""
    points = [(o.expected_deployments(), o.expected_regret(episodes)) for o in options]
    filled = []
    for (n, regret), option in zip(points, options, strict=True):
        low, high = 0.0, np.inf
        for m, other in points:
            if m > n:
                low = max(low, (regret - other) / (m - n))
            elif m < n:
                high = min(high, (other - regret) / (n - m))
            elif other < regret:
                high = -1.0
        prices = (float(low), float(high)) if low <= high and np.isfinite(regret) else None
        filled.append(replace(option, prices=prices))
    return filled
