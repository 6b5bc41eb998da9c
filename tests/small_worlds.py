"""Worlds small enough for tests, which processes of their own can import."""

import gymnasium
from gymnasium.spaces import Discrete


class Door(gymnasium.Env):
    """Two doors; the second is worth `prize`, and then luck adds 0 or 1, whatever was chosen."""

    observation_space = Discrete(1)
    action_space = Discrete(2)

    def __init__(self, prize=1.0, luck=True):
        self.prize, self.luck = prize, luck
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        luck = float(self.np_random.integers(2)) if self.luck else 0.0
        return 0, self.prize * float(action) + luck, True, False, {}

    def close(self):
        self.closed = True


class UnpicklableError(Exception):
    """An error that another process cannot read."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Broken(Door):
    """A world whose doors cannot be opened."""

    def step(self, action):
        raise UnpicklableError("stuck", "locked")


def door(seed):
    return Door()


def luck_alone(seed):
    return Door(prize=0.0)


def prize_of_round(seed):
    """Return a world whose prize is the number of the round."""
    return Door(prize=float(seed[1]), luck=False)


def broken(seed):
    return Broken()
