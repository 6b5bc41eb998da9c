"""How the cost grows: fitted exponents beside the expected ones."""

from typing import Any

from measure import cpu_time, exponent

import rareswitch as rs

BASE = {"states": 10, "actions": 100, "d": 16, "horizon": 6}


def episode_cost(episodes: int = 200, **sizes: int) -> float:
    """Return the CPU seconds of one episode of LSVI-UCB on a random linear MDP."""
    world = rs.instances.random_linear(seed=0, **BASE | sizes)
    play = lambda: rs.simulate(world, rs.EveryEpisode(), episodes=episodes)  # noqa: E731
    return cpu_time(play).least / episodes


def run() -> dict[str, Any]:
    rows = {}
    sweeps = {
        "d": ([16, 32, 64, 128], "1 to 2: O(N·d) for the rows, O(d²) for W"),
        "horizon": ([4, 8, 16, 32], "1"),
        "actions": ([200, 800, 3200], "1, below it while calls dominate"),
        "states": ([10, 40, 160], "1, below it while calls dominate"),
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
