"""One run on a known world: of a schedule, or of the uniformly random policy."""

from collections.abc import Callable

import numpy as np

from rareswitch.core.arguments import Floats, Ints, whole
from rareswitch.core.exploration import Exploration
from rareswitch.core.schedule import Schedule
from rareswitch.core.streams import Seed, Stream, generator
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.memory import require_memory
from rareswitch.sim.run import Run, initial_states, noise_of
from rareswitch.sim.simulation import Simulation


def simulate(
    mdp: FiniteMDP,
    schedule: Schedule,
    *,
    episodes: int,
    exploration: Exploration | None = None,
    beta: float | None = None,
    ridge: float = 1.0,
    ties: str = "direction",
    clip: bool = True,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
    noise: Floats | None = None,
    stages: str = "own",
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Play one learner with that schedule for K episodes on a known world.

    `exploration`, `beta`, `ridge`, `ties`, `clip`, `seed` and `stages` are those of a `Learner`.
    The member of a mixture that plays an episode is drawn by the episode's number, counted from 1.
    `initial_state` is a state, one for each episode (K,), or "uniform". `noise` (K, H) are the
    uniforms that decide the next states, by default drawn from the seed. `progress` is called
    with the number of episodes played after each deployment.

    >>> from rareswitch import DeterminantGrowth, instances
    >>> world = instances.hard_to_learn(d=5, horizon=4)
    >>> simulate(world, DeterminantGrowth(eta=2.0), episodes=200)
    Run(200 episodes, regret 40.79, 23 deployments, 22 switches)
    """
    simulation = Simulation(
        [mdp],
        schedule,
        episodes=episodes,
        seeds=[seed],
        exploration=exploration,
        beta=beta,
        ridge=ridge,
        ties=ties,
        clip=clip,
        initial_state=initial_state,
        noise=noise,
        stages=stages,
    )
    while not simulation.done:
        simulation.step()
        if progress is not None:
            progress(int(simulation.episode[0]) - 1)
    return simulation.runs()[0]


def simulate_random(
    mdp: FiniteMDP,
    *,
    episodes: int,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play the uniformly random policy: its regret is the same in every episode from one state."""
    episodes = whole("episodes", episodes, least=1)
    mdp = checked_world(mdp)
    require_memory(64.0 * mdp.horizon * episodes, f"{episodes} episodes")
    initial = initial_states(initial_state, mdp.states, episodes, seed)
    gap = np.maximum(mdp.optimal_values()[0] - mdp.random_values()[0], 0.0)
    rng = generator(seed, Stream.TIES)
    noise = noise_of(None, episodes, mdp.horizon, seed)
    options = [np.flatnonzero(allowed) for allowed in mdp.feasible]
    counts = np.array([len(o) for o in options])
    padded = np.zeros(mdp.feasible.shape, np.int64)
    for state, option in enumerate(options):
        padded[state, : len(option)] = option
    states = np.empty((episodes, mdp.horizon + 1), np.int64)
    actions = np.empty((episodes, mdp.horizon), np.int64)
    states[:, 0] = initial
    for h in range(mdp.horizon):
        pick = (rng.random(episodes) * counts[states[:, h]]).astype(np.int64)
        actions[:, h] = padded[states[:, h], pick]
        passed = mdp.thresholds[h, states[:, h], actions[:, h]] <= noise[:, h, None]
        states[:, h + 1] = passed.sum(axis=-1)
    return Run(
        regret=gap[initial],
        states=states,
        actions=actions,
        members=np.zeros(episodes, np.int64),
        deployment_episodes=np.zeros(0, np.int64),
        switch_episodes=np.zeros(0, np.int64),
        fitted_values=np.zeros(0),
        local_switches=0,
        policy=None,
    )
