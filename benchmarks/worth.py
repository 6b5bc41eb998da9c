"""What a rule saves that looks at the candidate: `python benchmarks/worth.py`.

`SpreadBudget` deploys on its dates, whatever was fitted; `Worthwhile(SpreadBudget(…))` deploys only
policies that change much or promise much. Both have the same budget, worlds, noise and seeds, and
the default mixture with stages chosen by the data. Regret is exact. The ratio of average regrets
has a 95% bootstrap interval over rounds. The rule was chosen on the first four worlds, with other
seeds; the others were not looked at.
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
EPISODES, ROUNDS = 1000, 10


def played(name: str, budget: int, seed: int) -> list[tuple[float, int]]:
    """Return average regret and deployments after the first, of both rules."""
    made: World = (WORLDS | STICKY)[name]
    world = made.build(seed=(SEED, seed))
    spread = rs.SpreadBudget(switches=budget)
    runs = [
        rs.simulate(
            world, rule, episodes=EPISODES, seed=(SEED, seed), initial_state=made.start,
            stages="auto",
        )
        for rule in (spread, Worthwhile(spread))
    ]  # fmt: skip
    return [(float(run.regret.mean()), run.deployments - 1) for run in runs]


def row(name: str, budget: int, found: Floats) -> str:
    """Return a row of the table, for (rounds, 2 rules, regret and deployments)."""
    (before, all_), (after, made) = found.mean(axis=0)
    weights = bootstrap.resamples(len(found), np.random.default_rng(SEED))
    ratio, low, high = bootstrap.ratio_interval(found[:, 1, 0], found[:, 0, 0], weights)
    chosen = " (chosen on)" if name in CHOSEN else ""
    return (
        f"| {name}{chosen} | {budget} | {before:.4g} | {after:.4g} | {ratio:.2f} "
        f"[{low:.2f}, {high:.2f}] | {all_:.1f} | **{made:.1f}** |"
    )


def table(rounds: int, workers: int | None) -> Iterator[str]:
    """Play, and write the table line by line."""
    yield "| world | budget | regret | looking | ratio | deployments | looking |"
    yield "|---|" + "---|" * 6
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
