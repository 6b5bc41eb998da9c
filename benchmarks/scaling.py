"""The growth of the cost: fitted and expected exponents, and costs with and without blocks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from measure import cpu_time, exponent

import rareswitch as rs

BASE = {"states": 20, "actions": 200, "d": 16, "horizon": 6}


def episode_cost(episodes: int = 200, **sizes: int) -> float:
    """Return the CPU seconds of one episode of LSVI-UCB on a random linear MDP."""
    world = rs.worlds.random_linear(seed=0, **BASE | sizes)
    every, recipe = rs.EveryEpisode(), rs.Recipe.paper(beta=1.0)
    play = lambda: rs.simulate(world, every, recipe, episodes=episodes)  # noqa: E731
    return cpu_time(play).least / episodes


def block_episodes(*, dim: int, actions: int, horizon: int) -> Iterator[rs.Episode]:
    """Yield episodes with rows like those of `ActionBlocks`, in states that never repeat."""
    rng, size = np.random.default_rng(0), dim // actions
    while True:
        numbers = rng.standard_normal((horizon, size)) / 2 / np.sqrt(size)
        rows = np.stack([np.kron(np.eye(actions), x) for x in numbers.clip(-1, 1)])
        chosen = rows[np.arange(horizon), rng.integers(actions, size=horizon)]
        yield rs.Episode(features=chosen, rewards=rng.random(horizon), next_features=list(rows[1:]))


def block_costs(*, dim: int, actions: int, horizon: int, blocks: int) -> dict[str, str]:
    """Return the cost of a learner with this number of blocks, after ten episodes."""
    task = rs.Task(dim=dim, horizon=horizon, stages="shared", feature_norm=2.0, blocks=blocks)
    learner = rs.Learner(task, rs.rules.EpisodeGrid(dates=(1, 10**6)))
    episodes = block_episodes(dim=dim, actions=actions, horizon=horizon)
    some = [next(episodes) for _ in range(9)]
    learner.absorb(next(episodes))  # warm-up: first use of memory
    observe = cpu_time(lambda: learner.absorb(*some), repeats=1).least / len(some)
    fit = cpu_time(learner.fit, repeats=1).least
    state = len(learner.snapshot()) - len(learner.policy.to_bytes())
    about = (
        f"d = {dim} of {actions} actions, H = {horizon}, {'in blocks' if blocks > 1 else 'full'}"
    )
    return {
        f"{about}: one episode": f"{1e3 * observe:.3g} ms",
        f"{about}: one fit": f"{fit:.3g} s",
        f"{about}: state without the policy": f"{state / 1e6:.3g} MB",
    }


def run() -> dict[str, Any]:
    rows = {}
    for dim in (400, 2000):
        for blocks in (1, 10):
            rows |= block_costs(dim=dim, actions=10, horizon=50, blocks=blocks)
    sweeps = {
        "d": ([16, 32, 64], "at most 1: N·d beside N"),
        "horizon": ([4, 16, 64], "1"),
        "actions": ([200, 800, 3200], "1"),
        "states": ([20, 80, 320], "1"),
    }
    for name, (sizes, expected) in sweeps.items():
        costs = [episode_cost(**{name: size}) for size in sizes]
        rows[f"exponent of an episode in {name}"] = (
            f"{exponent(sizes, costs):.2f} (expected {expected})"
        )
    counts = [250, 1000, 4000]
    costs = [episode_cost(episodes=count) for count in counts]
    rows["exponent of an episode in K"] = f"{exponent(counts, costs):.2f} (expected 0)"
    return rows
