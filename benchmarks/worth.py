"""The savings of a rule that looks at candidates: `python benchmarks/worth.py`.

`SpreadBudget` deploys every candidate. `Worthwhile(SpreadBudget(…))` deploys only candidates with
enough change or gain, with the default minimum change of 3% and with 10%. All have the same budget,
worlds, noise and seeds, and the default mixture with stages chosen by the data. Regret is exact.
The ratio of average regrets has a 95% bootstrap interval over rounds. The default was chosen on the
first four worlds and the deep sea, with other seeds.
"""

import argparse
import os
from collections.abc import Iterator

import numpy as np
from study_worlds import STICKY, WORLDS, World

import rareswitch as rs
from rareswitch.compute.local import local_pool
from rareswitch.rules import Worthwhile
from rareswitch.support import bootstrap
from rareswitch.support.arguments import Floats

SEED = 417
CHOSEN = ("river", "chain", "lower-bound", "tabular")
JUDGED = ("lake", "hard-8", "random-linear", "deep sea", "six doors", "two prizes", "loop")
BUDGETS = (5, 10)
MORE = 0.1
EPISODES, ROUNDS = 1000, 10


def played(name: str, budget: int, seed: int) -> list[tuple[float, int]]:
    """Return average regret and deployments after the first for all three rules."""
    made: World = (WORLDS | STICKY)[name]
    world = made.build(seed=(SEED, seed))
    spread = rs.SpreadBudget(switches=budget)
    runs = [
        rs.simulate(
            world, rule, episodes=EPISODES, seed=(SEED, seed), initial_state=made.start,
            stages="auto",
        )
        for rule in (spread, Worthwhile(spread), Worthwhile(spread, change=MORE))
    ]  # fmt: skip
    return [(float(run.regret.mean()), run.deployments - 1) for run in runs]


def row(name: str, budget: int, found: Floats) -> str:
    """Return a row of the table, for (rounds, 3 rules, regret and deployments)."""
    weights = bootstrap.resamples(len(found), np.random.default_rng(SEED))
    regret, deployments = found[..., 0], found[..., 1].mean(axis=0)
    cells = [name, f"{budget}", f"{regret[:, 0].mean():.4g}", f"{deployments[0]:.1f}"]
    for rule in (1, 2):
        ratio, low, high = bootstrap.ratio_interval(regret[:, rule], regret[:, 0], weights)
        cells += [f"{ratio:.2f} [{low:.2f}, {high:.2f}]", f"**{deployments[rule]:.1f}**"]
    return f"| {' | '.join(cells)} |"


def table(rounds: int, workers: int | None) -> Iterator[str]:
    """Play, and write the table line by line."""
    yield (
        "| world | budget | regret | deployments | regret, 3% | deployments, 3% | regret, 10% "
        "| deployments, 10% |"
    )
    yield "|---|" + "---|" * 7
    with local_pool(workers) as pool:
        jobs = {
            (name, budget): [pool.submit(played, name, budget, seed) for seed in range(rounds)]
            for name in (*CHOSEN, *JUDGED)
            for budget in BUDGETS
        }
        for (name, budget), each in jobs.items():
            yield row(name, budget, np.array([job.result() for job in each]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    for line in table(arguments.rounds, arguments.workers):
        print(line, flush=True)


if __name__ == "__main__":
    main()
