"""The range of an environment's rewards, and their scaling to [0, 1]."""

from dataclasses import dataclass

import numpy as np

from rareswitch.support.arguments import Floats, all_within, floats, real, set_fields

# Rewards may miss their range by rounding, relative to its width.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Rewards:
    """Rewards from `low` to `high`, a range that is widened to contain 0.

    Stages after an early end of an episode earn 0; `end` is this 0, scaled.

    >>> rewards = Rewards(-1.0, 20.0)
    >>> rewards.scaled(-1.0), rewards.scaled(20.0), round(rewards.end, 4)
    (0.0, 1.0, 0.0476)
    >>> rewards.scaled(21.0)
    Traceback (most recent call last):
        ...
    ValueError: reward must be from -1 to 20; got 21.0: give the range as Rewards(low, high)
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        low, high = real("low", self.low), real("high", self.high)
        if low > high:
            raise ValueError(f"low must be at most high; got low = {low:g} and high = {high:g}")
        if low == high == 0.0:
            raise ValueError("low and high must not both be 0: a range needs a width")
        low, high = min(low, 0.0), max(high, 0.0)
        real("high - low", high - low, least=1e-300)
        set_fields(self, low=low, high=high)

    @property
    def end(self) -> float:
        """The scaled reward of a stage after the end of an episode: the position of 0."""
        return -self.low / (self.high - self.low)

    def scaled(self, reward: float) -> float:
        """Return a reward's position in the range, from 0 to 1, or raise ValueError."""
        return float(self.scaled_all(np.array([real("reward", reward)]))[0])

    def scaled_all(self, rewards: Floats) -> Floats:
        """Return the positions of many rewards (n,) in the range, or raise ValueError."""
        rewards = floats("rewards", rewards, ("n",))
        places: Floats = (rewards - self.low) / (self.high - self.low)
        if not all_within(places, -ROUNDING, 1.0 + ROUNDING):
            wrong = (places < -ROUNDING) | (places > 1.0 + ROUNDING)
            raise ValueError(
                f"reward must be from {self.low:g} to {self.high:g}; got "
                f"{float(rewards[wrong][0])}: give the range as Rewards(low, high)"
            )
        return np.minimum(np.maximum(places, 0.0), 1.0)
