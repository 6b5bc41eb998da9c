"""Notes about the rewards and the observations of a training."""

from typing import Any

import numpy as np

from rareswitch.features import FeatureMap
from rareswitch.features.packed import Packed
from rareswitch.features.spaces import kind_of
from rareswitch.trajectories import Rewards, Trajectory

# Rewards that span less than this share of their range get a note.
NARROW = 0.2
# A note about a log that takes every action except 0.
FROM_ONE = "the log never takes action 0: if its actions count from 1, subtract 1 from each"
# Observations may miss their bounds by the rounding of 32-bit floats.
ROUNDING = 1e-6


def span_of(trajectory: Trajectory) -> tuple[float, float]:
    """Return the least and the largest reward of an episode."""
    return float(trajectory.rewards.min()), float(trajectory.rewards.max())


def widening_note(before: Rewards, after: Rewards, reward: float, episode: int) -> str:
    """Return the note about a widened range."""
    return (
        f"reward {reward:g} in episode {episode} is outside {before.low:g} to {before.high:g}: the "
        f"range is {after.low:g} to {after.high:g} from there on"
    )


def narrow_note(scale: Rewards, low: float, high: float) -> str | None:
    """Return a note if rewards from `low` to `high`, with 0, span less than a fifth of the range.

    >>> narrow_note(Rewards(-0.5, 1.0), -0.5, 0.0) is None
    True
    >>> narrow_note(Rewards(0.0, 1.0), 0.0, 0.0) is None  # the learner's health has a note for it
    True
    """
    low, high = min(low, 0.0), max(high, 0.0)
    share = (high - low) / (scale.high - scale.low)
    if low == high or share >= NARROW:
        return None
    return (
        f"the rewards, with 0, span {low:g} to {high:g}, {100 * share:.2g}% of the range "
        f"{scale.low:g} to {scale.high:g}: this slows learning down. If no others can occur, give "
        "the range: rewards=(low, high), or --rewards LOW HIGH"
    )


class Bounds:
    """The declared bounds of observations, if they are a Box that the features scale and clip."""

    def __init__(self, world: Any, features: FeatureMap) -> None:
        space: Any = getattr(world, "single_observation_space", None)
        space = getattr(world, "observation_space", None) if space is None else space
        clips = isinstance(features, Packed) and features.code is None and not features.one_hot
        self._ends: tuple[Any, Any] | None = None
        if clips and kind_of(space) == "Box":
            low, high = (np.asarray(end, np.float64) for end in (space.low, space.high))
            self._ends = low - ROUNDING * np.abs(low), high + ROUNDING * np.abs(high)

    def count(self, trajectory: Trajectory) -> tuple[int, int]:
        """Return the number of observations outside the bounds, and of all before the end."""
        seen = trajectory.observations
        if self._ends is None or not isinstance(seen, np.ndarray):
            return 0, 0
        low, high = self._ends
        seen = seen[:-1] if trajectory.terminated else seen
        if seen.shape[1:] != low.shape:
            return 0, 0
        outside = (seen < low) | (seen > high)
        return int(outside.reshape(len(seen), -1).any(axis=1).sum()), len(seen)


def outside_note(outside: int, seen: int) -> str | None:
    """Return a note if observations were outside the bounds of their space."""
    if not outside:
        return None
    return (
        f"{100 * outside / seen:.2g}% of the observations are outside the bounds of the "
        "observation space: features scaled to the bounds clip them. Declare wider bounds"
    )
