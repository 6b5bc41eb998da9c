"""Simulate one run of a schedule, or of the uniformly random policy, on a known world."""

from collections.abc import Callable

import numpy as np

from rareswitch.core.clock import Schedule
from rareswitch.core.recipe import Recipe
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.run import Run, initial_states, noise_of
from rareswitch.sim.simulation import Simulation
from rareswitch.support.arguments import Floats, Ints, require_memory, whole
from rareswitch.support.streams import Seed, Stream, generator


def simulate(
    world: FiniteMDP,
    schedule: Schedule,
    recipe: Recipe | None = None,
    *,
    episodes: int,
    seed: Seed = 0,
    stages: str = "own",
    initial_state: int | str | Ints = 0,
    noise: Floats | None = None,
    progress: Callable[[int], object] = lambda played: None,
) -> Run:
    """Play one learner with that schedule for K episodes on a known world.

    `seed` decides the world's noise and replaces the recipe's seed. The number of the episode,
    counted from 1, draws the member of a mixture. `stages` is that of a `Task`. `initial_state` is
    one state, a state for each episode (K,), or "uniform". `noise` (K, H) are the uniforms that
    decide the next states, by default drawn from the seed. `progress` is called after each
    deployment with the number of episodes played.

    >>> from rareswitch import DeterminantGrowth, worlds
    >>> world = worlds.hard_to_learn(d=5, horizon=4)
    >>> simulate(world, DeterminantGrowth(eta=2.0), episodes=200)
    Run(200 episodes, regret 40.79, 23 deployments, 22 switches)
    """
    simulation = Simulation(
        [world],
        schedule,
        recipe,
        task=checked_world(world).task(episodes=episodes, stages=stages),
        seeds=[seed],
        initial_state=initial_state,
        noise=noise,
    )
    return simulation.run(progress).runs()[0]


def simulate_random(
    world: FiniteMDP,
    *,
    episodes: int,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play the uniformly random policy; `regret` is its expected regret from the initial state."""
    episodes = whole("episodes", episodes, least=1)
    checked_world(world)
    require_memory(64.0 * world.horizon * episodes, f"{episodes} episodes")
    initial = initial_states(initial_state, world.states, episodes, seed)
    gap = np.maximum(world.optimal_values()[0] - world.random_values()[0], 0.0)
    rng = generator(seed, Stream.TIES)
    noise = noise_of(None, episodes, world.horizon, seed)
    options = [np.flatnonzero(allowed) for allowed in world.feasible]
    counts = np.array([len(o) for o in options])
    padded = np.zeros(world.feasible.shape, np.int64)
    for state, option in enumerate(options):
        padded[state, : len(option)] = option
    states = np.empty((episodes, world.horizon + 1), np.int64)
    actions = np.empty((episodes, world.horizon), np.int64)
    states[:, 0] = initial
    for h in range(world.horizon):
        pick = (rng.random(episodes) * counts[states[:, h]]).astype(np.int64)
        actions[:, h] = padded[states[:, h], pick]
        passed = world.thresholds[h, states[:, h], actions[:, h]] <= noise[:, h, None]
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
