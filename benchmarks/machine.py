"""The used share of the machine's speed: flops of the algorithm divided by the speed of dgemm."""

from typing import Any

import numpy as np
from measure import cpu_time, dgemm_speed

import rareswitch as rs
from rareswitch.core.policy import fit
from rareswitch.sim import Simulation
from rareswitch.statistics.partitions import LocalPartitions, LogPartition, LogStatistics, StageLog

K, H, N, D = 2500, 10, 1025, 13


def inner_loop_flops() -> float:
    """Flops of one round of LSVI-UCB: Φw and Φu (2Nd each), squares, roots, sums; W (6d²)."""
    return K * H * (4.0 * N * D + 8.0 * N + 10.0 * D**2)


def ragged_log(steps: int, actions: int, dim: int, horizon: int) -> LogPartition:
    """Return a log of random features with this total number of steps."""
    rng = np.random.default_rng(0)
    count = steps // horizon
    stages = []
    for h in range(horizon):
        rows = count * actions if h + 1 < horizon else 0
        stages.append(
            StageLog(
                features=rng.standard_normal((count, dim)) / np.sqrt(dim),
                rewards=rng.random(count),
                lengths=np.full(count, actions if rows else 0),
                next_features=rng.standard_normal((rows, dim)) / np.sqrt(dim),
            )
        )
    return LogPartition(tuple(stages), np.full(count, horizon))


def run() -> dict[str, Any]:
    speed = dgemm_speed()
    seeds = [(0, r) for r in range(25)]
    worlds = [rs.worlds.hard_to_learn(seed=seed) for seed in seeds]
    task, recipe = worlds[0].task(episodes=K), rs.Recipe.paper(beta=1.0)

    def rounds() -> None:
        Simulation(worlds, rs.EveryEpisode(), recipe, task=task, seeds=seeds).run()

    per_round = cpu_time(rounds, repeats=1).median / len(seeds)
    steps, actions, dim, horizon = 100_000, 20, 50, 10
    log = LocalPartitions([ragged_log(steps, actions, dim, horizon)])
    fitting = cpu_time(lambda: fit(LogStatistics(log), recipe, version=1))
    rows = steps * (horizon - 1) / horizon * actions
    flops = rows * (2.0 * dim**2 + 4.0 * dim) + steps * 2.0 * dim**2
    workers, log_steps = 100, 10**9
    seconds = fitting.median / steps * log_steps / workers
    numbers = horizon * dim**2 + (horizon - 1) * (dim**2 + 2 * dim)  # Σφφᵀ back; W, w out, Σφv back
    return {
        "dgemm, one core": f"{speed / 1e9:.1f} Gflop/s",
        "LSVI-UCB inner loop": f"{inner_loop_flops() / per_round / 1e9:.1f} Gflop/s",
        "LSVI-UCB inner loop, share of dgemm": f"{inner_loop_flops() / per_round / speed:.0%}",
        f"general fit, {steps:,} steps × {actions} actions, d={dim}": f"{fitting}",
        "general fit, share of dgemm": f"{flops / fitting.median / speed:.0%}",
        f"projected: {log_steps:.0e} steps on {workers} cores, one fit": f"{seconds:.0f} s",
        "projected: traffic of one fit": f"{8e-6 * numbers * workers:.0f} MB",
    }
