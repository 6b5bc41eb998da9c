"""The coverage of 95% intervals: `python benchmarks/coverage.py`.

The first part has means of a few episodes. The second part has weighted returns of logs in which
the candidate takes a rare action: all logs, logs without warnings except `Weights.narrow`, and logs
without any warning. The rule was chosen on other settings.
"""

from collections import defaultdict
from itertools import product

import numpy as np

from rareswitch.evaluation.interval import Resampling
from rareswitch.evaluation.weights import describe_weights
from rareswitch.support.arguments import Floats
from rareswitch.support.bootstrap import interval

FEW = (3, 6, 12, 20, 30, 50)
LOGS, SAMPLES = 60, 400
TAKES, PAYS = 0.7, 3.0  # the candidate's share of the rare action, and its reward


def holds(values: Floats, truth: float, rng: np.random.Generator) -> bool:
    """Return whether the interval of a mean contains the truth."""
    low, high = interval(Resampling(len(values), rng).means(values[:, None])[:, 0])
    return bool(low <= truth <= high)


def few_episodes() -> None:
    """Print the coverage of means of a few episodes, by their number."""
    for count in FEW:
        held = defaultdict(list)
        for seed in range(SAMPLES):
            rng = np.random.default_rng([seed, count])
            for chance in (0.1, 0.74):
                wins = (rng.random(count) < chance).astype(float)
                held[f"wins with {chance}"].append(holds(wins, chance, rng))
            held["normal"].append(holds(rng.normal(size=count), 0.0, rng))
            held["exponential"].append(holds(rng.exponential(size=count), 1.0, rng))
        print(f"{count} episodes:", *(f"{law} {np.mean(hits):.2f};" for law, hits in held.items()))


def rare_actions() -> None:
    """Print the coverage of weighted returns, overall and in the worst setting of 20 or more."""
    held: dict[str, list[bool]] = defaultdict(list)
    by_setting: dict[tuple[str, tuple[float, ...]], list[bool]] = defaultdict(list)
    settings = product((150, 400), (1, 2, 4), (0.2, 0.05, 0.02, 0.005), (0.03, 0.1, 0.5))
    for setting in settings:
        episodes, steps, rarity, share = setting
        for log in range(LOGS):
            rng = np.random.default_rng([log, *(int(1000 * number) for number in setting)])
            special = rng.random((episodes, steps)) < share
            rare = rng.random((episodes, steps)) < rarity
            logged = np.where(rare, rarity, 1.0 - rarity)
            taken = np.where(special, np.where(rare, TAKES, 1.0 - TAKES), logged)
            rewards = PAYS * (special & rare) + rng.exponential(size=(episodes, steps))
            paths, chances = taken.cumprod(axis=1), logged.cumprod(axis=1)
            truth = steps * (share * TAKES * PAYS + 1.0)
            hit = holds((paths / chances * rewards).sum(axis=1), truth, rng)
            found = describe_weights(paths[..., None], chances)
            passed = found.reach == steps and not found.missing
            for name, counts in (
                ("all logs", True),
                ("no other warning", passed),
                ("no warning", passed and not found.narrow),
            ):
                if counts:
                    held[name].append(hit)
                    by_setting[name, setting].append(hit)
    for name, hits in held.items():
        mine = [x for (one, _), x in by_setting.items() if one == name and len(x) >= 20]
        worst = min(float(np.mean(x)) for x in mine)
        print(f"{name}: {len(hits)} logs, {np.mean(hits):.1%}, worst setting {worst:.0%}")


if __name__ == "__main__":
    few_episodes()
    rare_actions()
