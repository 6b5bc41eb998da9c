"""The cost of folding a log, compared with the arithmetic that every learner needs.

The baseline is a bare loop of rank-one updates: for each episode Λ⁻¹ ← Λ⁻¹ − vvᵀ/(1 + φᵀv) with v =
Λ⁻¹φ and Σrφ, all stages together in NumPy. It has no checks, no next states and no corrections. The
comparison is a history folded from arrays in the form of a store, until its sums can be read. Both
take turns in one process, so a busy machine slows both equally.
"""

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.core.task import Task
from rareswitch.statistics import History, history_of

HORIZON, ACTIONS, DIM = 5, 4, 6
EPISODES, TURN = 4000, 500
ROUNDS = 5


class Stored:
    """Episodes in stored form: concatenated features, rewards and rows of next states."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        shape = (EPISODES, HORIZON + HORIZON * ACTIONS, DIM)  # every next state, including the last
        rows = rng.standard_normal(shape) / np.sqrt(DIM)
        rewards = rng.random((EPISODES, HORIZON))
        rows.flags.writeable = rewards.flags.writeable = False
        self.parts = [
            (each[:HORIZON], earned, each[HORIZON:])
            for each, earned in zip(rows, rewards, strict=True)
        ]
        self.bytes = sum(array.nbytes for array in self.parts[0])


class Bare:
    """Only rank-one updates."""

    def __init__(self) -> None:
        self._inverse = np.tile(np.eye(DIM), (HORIZON, 1, 1))
        self._targets = np.zeros((HORIZON, DIM))

    def take(self, parts: list[Any]) -> None:
        for features, rewards, _ in parts:
            along = np.matvec(self._inverse, features)
            scale = 1.0 / (1.0 + np.vecdot(features, along))
            self._inverse -= along[:, :, None] * (scale[:, None] * along)[:, None, :]
            self._targets += rewards[:, None] * features


class Folded:
    """A history, from stored arrays to sums that can be read."""

    def __init__(self, absorb: Callable[[History, list[Episode]], History]) -> None:
        self._history = history_of(Task(dim=DIM, horizon=HORIZON, feature_norm=1e6))
        self._absorb = absorb

    def take(self, parts: list[Any]) -> None:
        lengths = [ACTIONS] * HORIZON
        episodes = [Episode.trusted(*part, lengths) for part in parts]
        self._history = self._absorb(self._history, episodes).fold()


def at_once(history: History, episodes: list[Episode]) -> History:
    return history.absorb(*episodes)


def one_by_one(history: History, episodes: list[Episode]) -> History:
    for episode in episodes:
        history = history.absorb(episode)
    return history


def compared(stored: Stored) -> list[float]:
    """Return the seconds of an episode: bare, in parts, and one by one."""
    runs = (Bare(), Folded(at_once), Folded(one_by_one))
    seconds = [0.0] * len(runs)
    for start in range(0, EPISODES, TURN):
        for i, run in enumerate(runs):
            began = process_time()
            run.take(stored.parts[start : start + TURN])
            seconds[i] += process_time() - began
    return [each / EPISODES for each in seconds]


def run() -> dict[str, Any]:
    stored = Stored()
    rounds = np.array([compared(stored) for _ in range(ROUNDS)])
    size = f"{stored.bytes / 1000:.1f} kB (H = {HORIZON}, A = {ACTIONS}, d = {DIM})"
    results = {f"bare rank-one updates, episodes of {size}": f"{_rate(rounds[:, 0])} a second"}
    for name, times in (
        ("absorb, 500 at once", rounds[:, 1]),
        ("absorb, one by one", rounds[:, 2]),
    ):
        ratios = times / rounds[:, 0]
        results[f"a log folded by {name}"] = (
            f"{_rate(times)} a second: {np.median(ratios):.2f} of the time of bare updates "
            f"[{ratios.min():.2f}, {ratios.max():.2f}]"
        )
    return results


def _rate(seconds: np.ndarray) -> str:
    return f"{1.0 / np.median(seconds):,.0f} episodes"
