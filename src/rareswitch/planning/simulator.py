"""What a plan needs to know of a world: regret, deployments and switches of a rule, by round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rareswitch.core.arguments import Ints, real, settle, whole
from rareswitch.core.exploration import Exploration
from rareswitch.core.schedule import Schedule
from rareswitch.core.streams import Seed
from rareswitch.sim.companions import companions
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.sim.simulation import Simulation


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One simulated run: total regret, deployments, switches and the fraction of optimistic fits.

    `deployments` counts all, the first included; `switches` those after it that changed an action.
    A simulator of your own that cannot know regret may give what is missing to the largest reward
    possible; it must not be negative.
    """

    regret: float
    deployments: int
    switches: int
    optimistic: float | None = None

    def __post_init__(self) -> None:
        deployments = whole("deployments", self.deployments, least=1)
        share = self.optimistic
        settle(
            self,
            regret=real("regret", self.regret, least=0.0),
            deployments=deployments,
            switches=whole("switches", self.switches, least=0, most=deployments - 1),
            optimistic=None if share is None else real("optimistic", share, least=0.0, most=1.0),
        )


class Simulator(Protocol):
    """Plays a schedule once for each seed. The same seed should mean the same world and noise."""

    def __call__(
        self, schedule: Schedule, exploration: Exploration, seeds: Sequence[Seed], /
    ) -> Sequence[Outcome]: ...


def world_simulator(
    make_world: Callable[[Seed], FiniteMDP],
    *,
    episodes: int,
    ridge: float = 1.0,
    initial_state: int | str | Ints = 0,
) -> Simulator:
    """Return the simulator of known worlds, one for each seed.

    >>> from rareswitch import Bonus, UniformGrid, instances
    >>> play = world_simulator(lambda seed: instances.hard_to_learn(d=5, seed=seed), episodes=50)
    >>> [one.deployments for one in play(UniformGrid(episodes=50, batches=4), Bonus(1.0), [0, 1])]
    [4, 4]
    """

    def play(
        schedule: Schedule, exploration: Exploration, seeds: Sequence[Seed]
    ) -> Sequence[Outcome]:
        worlds = [make_world(seed) for seed in seeds]
        outcomes = []
        for group in companions(worlds):
            simulation = Simulation(
                [worlds[r] for r in group],
                schedule,
                episodes=episodes,
                seeds=[seeds[r] for r in group],
                ridge=ridge,
                exploration=exploration,
                initial_state=initial_state,
            )
            while not simulation.done:
                simulation.step()
            for r, run in zip(group, simulation.runs(), strict=True):
                outcomes.append(
                    Outcome(
                        regret=float(run.regret.sum()),
                        deployments=run.deployments,
                        switches=run.switches,
                        optimistic=run.optimistic_share(worlds[r].optimal_values()[0]),
                    )
                )
        return outcomes

    return play
