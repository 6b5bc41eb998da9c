"""The cost of a correction, as a multiple of the cost of absorbing an episode.

A correction must not cost more after many episodes than after few. Every next state is new, so the
tables have their maximum size; the times include a fold at the end.
"""

from time import process_time
from typing import Any

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.core.task import Task
from rareswitch.statistics import history_of

HORIZON, ACTIONS, DIM = 3, 2, 6
SIZES, CHANGES = (10**3, 10**5), 10**4


def episodes(count: int, seed: int) -> list[Episode]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, HORIZON * (1 + ACTIONS), DIM)) / np.sqrt(DIM)
    rewards = rng.random((count, HORIZON))
    lengths = [ACTIONS] * HORIZON
    return [
        Episode.trusted(each[:HORIZON], earned, each[HORIZON:], lengths)
        for each, earned in zip(rows, rewards, strict=True)
    ]


def ratios(size: int) -> tuple[float, float]:
    """Return the times of a replacement and of a removal, divided by the time of absorbing."""
    task = Task(dim=DIM, horizon=HORIZON, feature_norm=1e6)
    log, more = episodes(size, 0), episodes(2 * CHANGES, 1)
    history = history_of(task, log=log).fold()
    times = [process_time()]
    for episode in more[:CHANGES]:
        history = history.absorb(episode)
    history = history.fold()
    times.append(process_time())
    for old, new in zip(more[:CHANGES], more[CHANGES:], strict=True):
        history = history.replace(old, new)
    history = history.fold()
    times.append(process_time())
    for old in more[CHANGES:]:
        history = history.remove(old)
    history.fold()
    times.append(process_time())
    absorbing, replacing, withdrawing = np.diff(times)
    return replacing / absorbing, withdrawing / absorbing


def run() -> dict[str, Any]:
    rows = {}
    for size in SIZES:
        replacing, withdrawing = np.median([ratios(size) for _ in range(3)], axis=0)
        rows[f"after {size:,} episodes, an episode"] = (
            f"replaced: {replacing:.1f} times the time of absorbing one; "
            f"withdrawn: {withdrawing:.1f} times"
        )
    return rows
