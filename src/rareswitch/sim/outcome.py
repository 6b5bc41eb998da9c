"""The outcome of a simulated run, and the protocol of simulators.

Planning uses the totals of an outcome, and experiments use every episode.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from rareswitch.core.clock import Schedule
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.sim.simulation import Simulation, companions
from rareswitch.support.arguments import (
    Floats,
    Ints,
    floats,
    one_of,
    real,
    same_fields,
    set_fields,
    short_repr,
    whole,
)
from rareswitch.support.streams import Seed

MEASURES = {
    "regret": "how much more the best policy would have earned",
    "shortfall": "the largest possible return minus the return, as regret is not known here; "
    "it differs from regret by the same amount for every rule, on average",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """One simulated run: total regret, deployments, switches and the fraction of optimistic fits.

    `deployments` counts the first deployment too. `switches` counts later deployments that changed
    an action, or all later deployments if changes are unknown. A simulator without regret gives the
    shortfall, the largest possible return minus the return, with `measure="shortfall"`. Neither may
    be negative.

    An outcome may also hold the `returns` (K,) of all episodes, on the world's scale, and the
    episodes, counted from 1, before which a deployment and a switch happened. Experiments need all
    three. With a control or a floor, `by_role` holds the episodes and the regret of each role.

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
    by_role: Mapping[str, tuple[int, float]] | None = None

    def __post_init__(self) -> None:
        deployments = whole("deployments", self.deployments, least=1)
        switches = whole("switches", self.switches, least=0, most=deployments - 1)
        share = self.optimistic
        set_fields(
            self,
            regret=real("regret", self.regret, least=0.0),
            deployments=deployments,
            switches=switches,
            optimistic=None if share is None else real("optimistic", share, least=0.0, most=1.0),
            measure=one_of("measure", self.measure, tuple(MEASURES)),
        )
        if self.returns is not None:
            set_fields(self, returns=floats("returns", self.returns, ("K",)))
            if not self.returns.size:
                raise ValueError("returns must not be empty")
        self._set_dates("deployment_episodes", deployments)
        self._set_dates("switch_episodes", switches)

    def _set_dates(self, name: str, count: int) -> None:
        """Check and set the episodes of deployments or switches, if given."""
        if (given := getattr(self, name)) is None:
            return
        if self.returns is None:
            raise ValueError(f"{name} must come with returns; got no returns")
        dates = tuple(whole(name, date, least=1, most=len(self.returns)) for date in given)
        if len(dates) != count or any(later <= one for one, later in pairwise(dates)):
            raise ValueError(
                f"{name} must be {count} different episodes in order; got {short_repr(dates)}"
            )
        set_fields(self, **{name: dates})

    @property
    def mean_return(self) -> float | None:
        """The average return of an episode, if known."""
        return None if self.returns is None else float(self.returns.mean())

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.regret, self.deployments, self.switches, self.measure))


class Simulator(Protocol):
    """Plays a schedule once for each seed, as `Learner(task, schedule, recipe)` would.

    The seed replaces the recipe's seed. The same seed should give the same world and noise.
    """

    def __call__(
        self, task: Task, schedule: Schedule, recipe: Recipe, seeds: Sequence[Seed], /
    ) -> Sequence[Outcome]: ...


def world_simulator(
    make_world: Callable[[Seed], FiniteMDP], *, initial_state: int | str | Ints = 0
) -> Simulator:
    """Return a simulator that plays on `make_world(seed)`.

    >>> from rareswitch import UniformGrid, worlds
    >>> play = world_simulator(lambda seed: worlds.hard_to_learn(d=5, seed=seed))
    >>> task = worlds.hard_to_learn(d=5).task(episodes=50)
    >>> outcomes = play(task, UniformGrid(batches=4), Recipe.paper(beta=1.0), [0, 1])
    >>> [outcome.deployments for outcome in outcomes]
    [4, 4]
    """

    def play(
        task: Task, schedule: Schedule, recipe: Recipe, seeds: Sequence[Seed]
    ) -> Sequence[Outcome]:
        worlds = [make_world(seed) for seed in seeds]
        outcomes = []
        for group in companions(worlds):
            simulation = Simulation(
                [worlds[r] for r in group],
                schedule,
                recipe,
                task=task,
                seeds=[seeds[r] for r in group],
                initial_state=initial_state,
            )
            for r, run in zip(group, simulation.run().runs(), strict=True):
                outcomes.append(
                    Outcome(
                        regret=float(run.regret.sum()),
                        deployments=run.deployments,
                        switches=run.switches,
                        optimistic=run.optimistic_share(worlds[r].optimal_values()[0]),
                        by_role=None if recipe.learned_only else run.by_role,
                    )
                )
        return outcomes

    return play
