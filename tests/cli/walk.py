"""An environment of a user's own, with features and a rule of their own."""

import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete

from rareswitch.features import OneHot

PLACES = 5


class Walk(gymnasium.Env):
    """Left or right, slipping at times; the right end pays 1, and both ends are ends.

    From its twentieth episode on it does what the file `trouble` says, while that is there: raise
    an error, or pay this much.
    """

    observation_space, action_space = Discrete(PLACES), Discrete(2)

    def __init__(self, pause=0.0, trouble="nowhere"):
        self.pause, self.trouble, self.episode = pause, Path(trouble), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = PLACES // 2
        self.episode += 1
        return self.place, {}

    def step(self, action):
        time.sleep(self.pause)
        slips = self.np_random.random() < 0.1
        self.place += 1 if (action == 1) != slips else -1
        reward = float(self.place == PLACES - 1)
        if self.episode >= 20 and self.trouble.exists():
            if self.trouble.read_text() == "raise":
                raise RuntimeError("the bridge is down")
            reward = float(self.trouble.read_text())
        return self.place, reward, self.place in (0, PLACES - 1), False, {}


if "Walk-v0" not in gymnasium.registry:  # doctests import this file under a name of its own
    gymnasium.register("Walk-v0", Walk, max_episode_steps=30)


def rows(place):
    """Return rows of which some are longer than 1."""
    return np.array([[1.0, place, 0.0, 0.0], [0.0, 0.0, 1.0, place]])


class Table(OneHot):
    """A feature map that is made with an argument."""

    def __init__(self, states=PLACES):
        super().__init__(states=states, actions=2)


class Fifth:
    """A rule of a user's own."""

    def due(self, clock):
        return clock.episode % 5 == 0
