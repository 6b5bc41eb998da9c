"""What the regression must remember.

The target of stage h (Alg. 1, line 8) is Σ φ_τ·[r_τ + V_{h+1}(s'_τ)] = Σ r_τφ_τ + Σ_j F_j V(s'_j),
with F_j the sum of the features that led to the distinct next state s'_j. A next state is the
feature rows of its feasible actions; equal rows are the same state. So on a finite space a fit
costs the same after any number of episodes, and on an infinite one F is simply the features.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.core.arguments import Floats, Ints, floats
from rareswitch.core.codec import Arrays

# Rows evaluated at a time: a block and its whitened copy stay in the processor's cache.
BLOCK_ROWS = 4096


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One finished episode of n ≤ H steps.

    `features` (n, d) are those of the chosen pairs and `rewards` (n,) lie in [0, 1].
    `next_features[t]` (A, d) are those of all actions feasible at the state after step t. It has
    n−1 entries if the episode ended, or n if it was cut off: the state after the last step is then
    worth what the learner expects of it rather than 0. (After stage H nothing is worth anything.)

    >>> Episode(features=[[1.0, 0.0], [0.0, 1.0]], rewards=[0.0, 1.0], next_features=[np.eye(2)])
    Episode(2 steps, d=2)
    """

    features: Floats
    rewards: Floats
    next_features: Sequence[Floats]

    def __post_init__(self) -> None:
        features = floats("features", self.features, ("n", "d"))
        steps, dim = features.shape
        if not steps:
            raise ValueError("features must have at least one step; got none")
        rewards = floats("rewards", self.rewards, (steps,))
        if rewards.min() < 0.0 or rewards.max() > 1.0:
            step = int(np.argmax((rewards < 0.0) | (rewards > 1.0)))
            raise ValueError(f"rewards must lie in [0, 1]; got {rewards[step]} at step {step}")
        if len(self.next_features) not in (steps - 1, steps):
            raise ValueError(
                f"next_features must have {steps - 1} entries for an episode of {steps} steps, "
                f"or {steps} if it was cut off; got {len(self.next_features)}"
            )
        following = []
        for step, rows in enumerate(self.next_features):
            feasible = floats(f"next_features[{step}]", rows, ("A", dim))
            if not len(feasible):
                raise ValueError(
                    f"next_features[{step}] must have at least one row; got an empty feasible set"
                )
            following.append(feasible)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "rewards", rewards)
        object.__setattr__(self, "next_features", tuple(following))

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        return f"Episode({len(self)} steps, d={self.features.shape[1]})"


class History:
    """The sufficient statistics of all episodes so far, for one learner."""

    def __init__(self, horizon: int, dim: int) -> None:
        self.reward_sums: Floats = np.zeros((horizon, dim))  # Σ rφ
        self._next_states = [_NextStates(dim) for _ in range(horizon - 1)]

    def absorb(self, episode: Episode) -> None:
        """Add one episode, already checked against horizon and dim."""
        self.reward_sums[: len(episode)] += episode.rewards[:, None] * episode.features
        steps = zip(self._next_states, episode.features, episode.next_features, strict=False)
        for next_states, feature, rows in steps:
            next_states.absorb(feature, rows)

    def next_value_sums(self, h: int, q_values: Callable[[Floats], Floats]) -> Floats:
        """Return Σ_τ φ_τ·max_a Q_{h+1}(s'_τ, a), q_values being Q_{h+1} of feature rows."""
        return self._next_states[h].value_sums(q_values)

    def to_arrays(self) -> Arrays:
        arrays: Arrays = {"reward_sums": self.reward_sums}
        for h, next_states in enumerate(self._next_states):
            arrays |= {f"next_states/{h}/{name}": a for name, a in next_states.to_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "History":
        history = cls(*arrays["reward_sums"].shape)
        history.reward_sums += arrays["reward_sums"]
        for h, next_states in enumerate(history._next_states):
            sums, lengths, rows = (
                arrays[f"next_states/{h}/{name}"] for name in ("sums", "lengths", "rows")
            )
            for total, state in zip(sums, np.split(rows, np.cumsum(lengths))[:-1], strict=True):
                next_states.absorb(total, state)
        return history


class _NextStates:
    """The distinct states that followed one stage: their rows end to end, and Σφ leading there."""

    def __init__(self, dim: int) -> None:
        self._position: dict[bytes, int] = {}
        self._sums = _Growing(np.zeros((0, dim)))
        self._lengths = _Growing(np.zeros(0, np.int64))
        self._rows = _Growing(np.zeros((0, dim)))

    def absorb(self, feature: Floats, rows: Floats) -> None:
        key = hashlib.blake2b(rows.tobytes(), digest_size=16).digest()
        position = self._position.setdefault(key, len(self._position))
        if position == len(self._lengths.array):
            self._sums.extend(feature[None])
            self._lengths.extend(np.array([len(rows)]))
            self._rows.extend(rows)
        else:
            self._sums.array[position] += feature

    def value_sums(self, q_values: Callable[[Floats], Floats]) -> Floats:
        return state_values(self._lengths.array, self._rows.array, q_values) @ self._sums.array

    def to_arrays(self) -> Arrays:
        return {
            "sums": self._sums.array,
            "lengths": self._lengths.array,
            "rows": self._rows.array,
        }


def state_values(lengths: Ints, rows: Floats, q_values: Callable[[Floats], Floats]) -> Floats:
    """Return max_a Q of states whose rows (M, d) stand end to end, by lengths (J,), in blocks."""
    if not len(lengths):
        return np.zeros(0)
    values = np.empty(len(rows))
    for start in range(0, len(rows), BLOCK_ROWS):
        values[start : start + BLOCK_ROWS] = q_values(rows[start : start + BLOCK_ROWS])
    return np.maximum.reduceat(values, np.cumsum(lengths) - lengths)


class _Growing:
    """An array that grows along its first axis; room doubles, so growing costs O(1) a row."""

    def __init__(self, empty: npt.NDArray[Any]) -> None:
        self._room = empty
        self.array = empty

    def extend(self, rows: npt.NDArray[Any]) -> None:
        used = len(self.array)
        if used + len(rows) > len(self._room):
            size = max(2 * len(self._room), used + len(rows))
            room = np.empty((size, *self._room.shape[1:]), self._room.dtype)
            room[:used] = self.array
            self._room = room
        self._room[used : used + len(rows)] = rows
        self.array = self._room[: used + len(rows)]
