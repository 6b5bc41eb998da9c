"""One round at the paper's size: rareswitch, alone and stacked, and transcriptions of the paper.

The transcriptions recompute everything from the raw history, so their cost of an episode grows with
k. It is measured over fewer episodes and extrapolated to K.
"""

import importlib.util
import resource
from pathlib import Path
from typing import Any

import numpy as np
from measure import cpu_time

import rareswitch as rs
from rareswitch.core.clock import Schedule
from rareswitch.sim import Simulation

ROOT = Path(__file__).parent.parent
K, H = 2500, 10


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def together(schedule: Schedule, rounds: int, episodes: int = K) -> None:
    seeds = [(0, r) for r in range(rounds)]
    worlds = [rs.worlds.hard_to_learn(seed=seed) for seed in seeds]
    task = worlds[0].task(episodes=episodes)
    Simulation(worlds, schedule, rs.Recipe.paper(beta=1.0), task=task, seeds=seeds).run()


def literal_round_seconds(episodes: int = 300) -> float:
    """Extrapolate tests/literal.py, with loops over pairs and over the history, to one round.

    With one batch only the Gram matrices are recomputed before every episode; more batches add
    fits. This gives three constants: the cost of a fit's loop over pairs, and the costs of one
    logged step in a Gram matrix and in a target.
    """
    literal = load(ROOT / "tests" / "literal.py")
    world = rs.worlds.hard_to_learn(seed=0)
    noise = np.random.default_rng(0).random((episodes, H))

    def seconds(count: int, batches: int) -> float:
        arguments = {"episodes": count, "noise": noise, "beta": 1.0, "batches": batches}
        return cpu_time(lambda: literal.play(world, **arguments)).least

    pairs = seconds(1, 1)
    batches = 20
    without, with_more = seconds(episodes, 1), seconds(episodes, batches)
    gram_step = (without - pairs) / (H * episodes**2 / 2)
    steps = H * sum(i * (episodes // batches) for i in range(1, batches))
    target_step = max(0.0, (with_more - without - (batches - 1) * pairs) / steps)
    return pairs * K + (gram_step + target_step) * H * K**2 / 2


def one_page_round_seconds() -> float:
    """Extrapolate examples/one_page.py, with a fit in (almost) every episode, to one round."""
    page = load(ROOT / "examples" / "one_page.py")
    rng = np.random.default_rng(0)
    world = page.hard_instance(13, H, 0.35, rng.choice([-1, 1], (H, 11)))
    noise = rng.random((K, H))
    counts = np.array([200, 800])
    seconds = [
        cpu_time(
            lambda count=count: page.rare_switch(*world, K=count, eta=1 + 1e-9, noise=noise),
            repeats=2,
        ).least
        for count in counts
    ]
    linear, square = np.linalg.solve(np.column_stack([counts, counts**2]), seconds)
    return float(linear * K + square * K**2)


def run() -> dict[str, Any]:
    lsvi, rare = rs.EveryEpisode(), rs.DeterminantGrowth(eta=2.0)
    alone = cpu_time(lambda: together(lsvi, 1))
    stacked = cpu_time(lambda: together(lsvi, 25), repeats=2).median / 25
    rare_alone = cpu_time(lambda: together(rare, 1))
    rare_stacked = cpu_time(lambda: together(rare, 25)).median / 25
    million = cpu_time(lambda: together(rare, 1, 10**6), repeats=1)
    world = rs.worlds.hard_to_learn(seed=0)
    recipe = rs.Recipe.paper(beta=1.0)
    ten_million = cpu_time(lambda: rs.simulate(world, rare, recipe, episodes=10**7), repeats=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    literal, page_round = literal_round_seconds(), one_page_round_seconds()
    return {
        "LSVI-UCB, one round alone": f"{alone}",
        "LSVI-UCB, a round of 25 stacked": f"{stacked:.3f} s",
        "RareSwitch η=2, one round alone": f"{rare_alone}",
        "RareSwitch η=2, a round of 25 stacked": f"{rare_stacked:.3f} s",
        "RareSwitch η=2, K = 10⁶": f"{million.median:.2f} s",
        "RareSwitch η=2, K = 10⁷": f"{ten_million.median:.1f} s, {peak:.1f} GiB of memory",
        "literal transcription, one round (extrapolated)": f"{literal:.0f} s",
        "literal / ours alone": f"{literal / alone.median:.0f}×",
        "one page of NumPy, one round (extrapolated)": f"{page_round:.0f} s",
        "one page / ours alone": f"{page_round / alone.median:.0f}×",
        "one page / ours stacked": f"{page_round / stacked:.0f}×",
    }
