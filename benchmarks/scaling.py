"""How the cost grows: fitted exponents beside the expected ones."""

from typing import Any

from measure import cpu_time, exponent

import rareswitch as rs

BASE = {"states": 20, "actions": 200, "d": 16, "horizon": 6}


def episode_cost(episodes: int = 200, **sizes: int) -> float:
    """Return the CPU seconds of one episode of LSVI-UCB on a random linear MDP."""
    world = rs.worlds.random_linear(seed=0, **BASE | sizes)
    every, recipe = rs.EveryEpisode(), rs.Recipe.paper(beta=1.0)
    play = lambda: rs.simulate(world, every, recipe, episodes=episodes)  # noqa: E731
    return cpu_time(play).least / episodes


def run() -> dict[str, Any]:
    rows = {}
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
