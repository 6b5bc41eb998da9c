"""One round at the paper's size: ours, alone and stacked, against transcriptions of the algorithm.

The transcriptions recompute everything from the raw history, so the cost of an episode grows with
k. It is measured over the first episodes and extrapolated to K by its fitted growth a + b·k.
"""

import importlib.util
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import cpu_time

import rareswitch as rs

ROOT = Path(__file__).parent.parent
K, H = 2500, 10


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def together(schedule: rs.Schedule, rounds: int, episodes: int = K) -> None:
    seeds = [(0, r) for r in range(rounds)]
    worlds = [rs.instances.hard_to_learn(seed=seed) for seed in seeds]
    simulation = rs.Simulation(worlds, schedule, episodes=episodes, seeds=seeds)
    while not simulation.done:
        simulation.step()


def extrapolated(episode_seconds: list[float], episodes: int) -> float:
    """Return Σ_k (a + b·k) with the growth fitted to the measured episodes."""
    k = np.arange(1, len(episode_seconds) + 1)
    b, a = np.polyfit(k, episode_seconds, 1)
    return float(a * episodes + max(b, 0.0) * episodes * (episodes + 1) / 2)


def literal_episode_seconds(episodes: int) -> list[float]:
    """Time the first episodes of tests/literal.py: loops over pairs and over the history."""
    literal = load(ROOT / "tests" / "literal.py")
    world = rs.instances.hard_to_learn(seed=0)
    noise = np.random.default_rng(0).random((episodes, H))
    ends = []
    for count in range(1, episodes + 1):
        began = time.process_time()
        literal.play(world, episodes=count, noise=noise, beta=1.0, batches=count)
        ends.append(time.process_time() - began)
    return list(np.diff(ends, prepend=0.0))


def one_page_seconds(episodes: int) -> float:
    """Time examples/one_page.py with an update in (almost) every episode."""
    page = load(ROOT / "examples" / "one_page.py")
    rng = np.random.default_rng(0)
    world = page.hard_instance(13, H, 0.35, rng.choice([-1, 1], (H, 11)))
    noise = rng.random((episodes, H))
    began = time.process_time()
    page.rare_switch(*world, K=episodes, eta=1.0 + 1e-9, noise=noise)
    return time.process_time() - began


def run() -> dict[str, Any]:
    lsvi, rare = rs.EveryEpisode(), rs.DeterminantGrowth(eta=2.0)
    alone = cpu_time(lambda: together(lsvi, 1))
    stacked = cpu_time(lambda: together(lsvi, 25), repeats=2).median / 25
    rare_alone = cpu_time(lambda: together(rare, 1))
    rare_stacked = cpu_time(lambda: together(rare, 25)).median / 25
    million = cpu_time(lambda: together(rare, 1, 10**6), repeats=1)
    literal = extrapolated(literal_episode_seconds(8), K)
    page = {count: one_page_seconds(count) for count in (100, 200, 400)}
    growth = np.polyfit(list(page), list(page.values()), 2)
    page_round = float(np.polyval(growth, K))
    return {
        "LSVI-UCB, one round alone": f"{alone}",
        "LSVI-UCB, a round of 25 stacked": f"{stacked:.3f} s",
        "RareSwitch η=2, one round alone": f"{rare_alone}",
        "RareSwitch η=2, a round of 25 stacked": f"{rare_stacked:.3f} s",
        "RareSwitch η=2, K = 10⁶": f"{million.median:.2f} s",
        "literal transcription, one round (extrapolated)": f"{literal:.0f} s",
        "literal / ours alone": f"{literal / alone.median:.0f}×",
        "one page of NumPy, one round (extrapolated)": f"{page_round:.0f} s",
        "one page / ours alone": f"{page_round / alone.median:.0f}×",
        "one page / ours stacked": f"{page_round / stacked:.0f}×",
    }
