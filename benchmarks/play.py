"""The cost of learning compared with the world: a step of `play` and a bare step of the world.

The baseline is only `reset` and `step` of FrozenLake-v1 under uniformly random actions drawn
beforehand. The comparison is all of `play` with the default learner of `train`: acting, absorbing,
29 switches. The time of fits is also shown separately, because their number does not grow with the
steps. Both take turns of a few episodes in one process, so a busy machine slows both equally.
"""

from collections.abc import Iterator
from time import process_time
from typing import Any

import gymnasium
import numpy as np

from rareswitch import Episode, Learner
from rareswitch.gym import play, setting_of
from rareswitch.gym.train import schedule_for

WORLD = "FrozenLake-v1"
EPISODES, SWITCHES, TURN = 3000, 29, 50
ROUNDS = 3


class Bare:
    """The world under random actions."""

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon

    def episodes(self) -> Iterator[int]:
        """Give the steps of each episode."""
        world = gymnasium.make(WORLD)
        world.reset(seed=0)
        actions = np.random.default_rng(0).integers(4, size=EPISODES * self._horizon).tolist()
        played = 0
        while True:
            world.reset()
            began = played
            while played < began + self._horizon:
                *_, terminated, truncated, _ = world.step(actions[played % len(actions)])
                played += 1
                if terminated or truncated:
                    break
            yield played - began


class TimedLearner(Learner):
    """A learner that adds up the CPU time of its fits."""

    fitting = 0.0

    def observe(self, episode: Episode) -> bool:
        self.absorb(episode)
        due = self.due
        if due:
            began = process_time()
            candidate = self.fit()
            self.fitting += process_time() - began
            self.deploy(candidate)
        return due


class Learning:
    """The world and a learner; `fitting` is the CPU time of its fits so far."""

    def __init__(self, horizon: int) -> None:
        self._world = gymnasium.make(WORLD)
        self._setting = setting_of(self._world, horizon=horizon)
        rule = schedule_for(episodes=EPISODES, switches=SWITCHES)
        self._learner = TimedLearner(self._setting.task(EPISODES), rule)

    @property
    def fitting(self) -> float:
        return self._learner.fitting

    def episodes(self) -> Iterator[int]:
        """Give the steps of each episode."""
        setting = self._setting
        for game in play(
            self._learner,
            self._world,
            setting.features,
            episodes=EPISODES,
            rewards=setting.rewards,
        ):
            yield game.steps


class Stopwatch:
    """CPU time and steps of episodes that come in turns."""

    def __init__(self, episodes: Iterator[int]) -> None:
        self._episodes = episodes
        self.seconds, self.steps = 0.0, 0

    def turn(self) -> None:
        began = process_time()
        for _ in range(TURN):
            self.steps += next(self._episodes)
        self.seconds += process_time() - began

    def microseconds(self, left_out: float = 0.0) -> float:
        """Return microseconds per step, without the seconds `left_out`."""
        return 1e6 * (self.seconds - left_out) / self.steps


def compared(horizon: int) -> tuple[float, float, float]:
    """Return the microseconds of a bare step, and of a step of `play` without and with fits."""
    learning = Learning(horizon)
    alone, learnt = Stopwatch(Bare(horizon).episodes()), Stopwatch(learning.episodes())
    for _ in range(EPISODES // TURN):
        alone.turn()
        learnt.turn()
    return alone.microseconds(), learnt.microseconds(learning.fitting), learnt.microseconds()


def run() -> dict[str, Any]:
    results = {}
    for horizon in (100, 12):
        rounds = np.array([compared(horizon) for _ in range(ROUNDS)])
        results[f"a step of {WORLD} alone, random actions, horizon {horizon}"] = (
            f"{np.median(rounds[:, 0]):.1f} µs"
        )
        for what, times in (
            ("acting and absorbing", rounds[:, 1]),
            (f"with the fits of {SWITCHES} switches", rounds[:, 2]),
        ):
            ratios = times / rounds[:, 0]
            results[f"a step of play, {what}, horizon {horizon}"] = (
                f"{np.median(times):.1f} µs: {np.median(ratios):.2f} of the world alone "
                f"[{ratios.min():.2f}, {ratios.max():.2f}]"
            )
    return results
