"""What a simulated run came to, and what a simulator is.

Known worlds, environments and a user's own code may all stand behind a simulator: planning asks it
for totals, and experiments for every episode.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from rareswitch.core.arguments import (
    Floats,
    floats,
    one_of,
    real,
    same_fields,
    settle,
    shown,
    whole,
)
from rareswitch.core.exploration import Exploration
from rareswitch.core.schedule import Schedule
from rareswitch.core.streams import Seed

# What may be measured, and what it means.
MEASURES = {
    "regret": "what the best policy would have earned more",
    "shortfall": "what is missing to the largest return possible, as regret is not known here; "
    "it differs from regret by the same amount for every rule, on average",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """One simulated run: total regret, deployments, switches and the fraction of optimistic fits.

    `deployments` counts all, the first included; `switches` those after it that changed an action,
    or all after it where that cannot be decided. A simulator that cannot know regret gives what is
    missing to the largest return possible, and says so: its `measure` is "shortfall". Neither may
    be negative.

    What is known of single episodes may be told too: the `returns` (K,) as the world counts them,
    and the episodes, counted from 1, before which a policy was deployed and before which it was a
    switch. Experiments need all three.

    >>> outcome = Outcome(
    ...     regret=3.0, measure="shortfall", deployments=2, switches=1, returns=[0.0, 0.0, 1.0],
    ...     deployment_episodes=[1, 3], switch_episodes=[3],
    ... )
    >>> round(outcome.mean_return, 3)
    0.333
    """

    regret: float
    deployments: int
    switches: int
    optimistic: float | None = None
    measure: str = "regret"
    returns: Floats | None = None
    deployment_episodes: Sequence[int] | None = None
    switch_episodes: Sequence[int] | None = None

    def __post_init__(self) -> None:
        deployments = whole("deployments", self.deployments, least=1)
        switches = whole("switches", self.switches, least=0, most=deployments - 1)
        share = self.optimistic
        settle(
            self,
            regret=real("regret", self.regret, least=0.0),
            deployments=deployments,
            switches=switches,
            optimistic=None if share is None else real("optimistic", share, least=0.0, most=1.0),
            measure=one_of("measure", self.measure, tuple(MEASURES)),
        )
        if self.returns is not None:
            settle(self, returns=floats("returns", self.returns, ("K",)))
            if not self.returns.size:
                raise ValueError("returns must be those of at least one episode; got none")
        self._settle_dates("deployment_episodes", deployments)
        self._settle_dates("switch_episodes", switches)

    def _settle_dates(self, name: str, count: int) -> None:
        """Check the episodes of deployments or switches, where they are told."""
        if (given := getattr(self, name)) is None:
            return
        if self.returns is None:
            raise ValueError(f"{name} must come with the returns of all episodes; got none")
        dates = tuple(whole(name, date, least=1, most=len(self.returns)) for date in given)
        if len(dates) != count or any(later <= one for one, later in pairwise(dates)):
            raise ValueError(f"{name} must be {count} different ones, in order; got {shown(dates)}")
        settle(self, **{name: dates})

    @property
    def mean_return(self) -> float | None:
        """The average return of an episode, where it is known."""
        return None if self.returns is None else float(self.returns.mean())

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.regret, self.deployments, self.switches, self.measure))


class Simulator(Protocol):
    """Plays a schedule once for each seed. The same seed should mean the same world and noise."""

    def __call__(
        self, schedule: Schedule, exploration: Exploration, seeds: Sequence[Seed], /
    ) -> Sequence[Outcome]: ...
