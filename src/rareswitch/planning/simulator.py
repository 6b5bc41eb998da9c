"""The simulator of known worlds: regret, deployments and switches of a rule, by round."""

from collections.abc import Callable, Sequence

from rareswitch.core.arguments import Ints
from rareswitch.core.exploration import Exploration
from rareswitch.core.schedule import Schedule
from rareswitch.core.streams import Seed
from rareswitch.outcome import Outcome, Simulator
from rareswitch.sim.companions import companions
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.sim.simulation import Simulation


def world_simulator(
    make_world: Callable[[Seed], FiniteMDP],
    *,
    episodes: int,
    ridge: float = 1.0,
    initial_state: int | str | Ints = 0,
    stages: str = "own",
) -> Simulator:
    """Return the simulator of known worlds, one for each seed; `stages` are those of the task.

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
                stages=stages,
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
