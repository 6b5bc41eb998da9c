"""What learning costs beside the world itself: a step of `play` against a bare step of the world.

The baseline is FrozenLake-v1 alone under uniformly random actions drawn beforehand: `reset` and
`step`, and nothing else. Beside it stands all of `play` with the learner that `train` makes by
default: acting, absorbing, 29 switches. Both advance in turns in one process, a few episodes at a
time, so that a busy machine slows both alike.
"""

from collections.abc import Iterator
from time import process_time
from typing import Any

import gymnasium
import numpy as np

from rareswitch.gym import play, setting_of
from rareswitch.gym.train import schedule_for

WORLD = "FrozenLake-v1"
EPISODES, SWITCHES, TURN = 3000, 29, 50
ROUNDS = 3


def bare(horizon: int) -> Iterator[int]:
    """Play at random, and give the steps of each episode."""
    world = gymnasium.make(WORLD)
    world.reset(seed=0)
    actions = np.random.default_rng(0).integers(4, size=EPISODES * horizon).tolist()
    played = 0
    while True:
        world.reset()
        began = played
        while played < began + horizon:
            *_, terminated, truncated, _ = world.step(actions[played % len(actions)])
            played += 1
            if terminated or truncated:
                break
        yield played - began


def learning(horizon: int) -> Iterator[int]:
    """Learn, and give the steps of each episode."""
    world = gymnasium.make(WORLD)
    setting = setting_of(world, horizon=horizon)
    rule = schedule_for(setting, episodes=EPISODES, switches=SWITCHES)
    learner = setting.learner(rule, planned_episodes=EPISODES)
    rewards = setting.rewards
    for game in play(learner, world, setting.features, episodes=EPISODES, rewards=rewards):
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

    @property
    def microseconds(self) -> float:
        """Microseconds a step."""
        return 1e6 * self.seconds / self.steps


def compared(horizon: int) -> tuple[float, float]:
    """Return the microseconds of a bare step and of one of ours."""
    alone, learnt = Stopwatch(bare(horizon)), Stopwatch(learning(horizon))
    for _ in range(EPISODES // TURN):
        alone.turn()
        learnt.turn()
    return alone.microseconds, learnt.microseconds


def run() -> dict[str, Any]:
    results = {}
    for horizon in (100, 12):
        rounds = np.array([compared(horizon) for _ in range(ROUNDS)])
        ratios = rounds[:, 1] / rounds[:, 0]
        alone, learnt = np.median(rounds, axis=0)
        results[f"a step of {WORLD} alone, random actions, horizon {horizon}"] = f"{alone:.1f} µs"
        results[f"a step of play, {SWITCHES} switches, horizon {horizon}"] = (
            f"{learnt:.1f} µs: {np.median(ratios):.2f} of the world alone "
            f"[{ratios.min():.2f}, {ratios.max():.2f}]"
        )
    return results
