"""One finished episode: what a learner is told, and what a log is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.core.arguments import (
    LARGEST_COUNT,
    Floats,
    Rows,
    floats,
    positions,
    same_fields,
    settle,
    shown,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Episode:
    """One finished episode of n ≤ H steps.

    `features` (n, d) are those of the chosen pairs and `rewards` (n,) lie in [0, 1].
    `next_features[t]` (A, d) are those of all actions feasible at the state after step t. It has
    n−1 entries if the episode ended, or n if it was cut off: the state after the last step is then
    worth what the learner expects of it rather than 0. (After stage H nothing is worth anything.)
    One-hot features may be given by the positions of their ones: whole numbers (n,) and (A,).

    >>> Episode(features=[[1.0, 0.0], [0.0, 1.0]], rewards=[0.0, 1.0], next_features=[np.eye(2)])
    Episode(2 steps, d=2)
    >>> Episode(features=[0, 3], rewards=[0.0, 1.0], next_features=[[2, 3]])
    Episode(2 steps, one-hot)
    """

    features: Rows
    rewards: Floats
    next_features: Sequence[Rows]

    def __post_init__(self) -> None:
        features = _rows("features", self.features)
        steps = len(features)
        if not steps:
            raise ValueError("features must have at least one step; got none")
        rewards = floats("rewards", self.rewards, (steps,))
        if rewards.min() < 0.0 or rewards.max() > 1.0:
            step = int(np.argmax((rewards < 0.0) | (rewards > 1.0)))
            raise ValueError(f"rewards must lie in [0, 1]; got {rewards[step]} at step {step}")
        try:
            given = list(self.next_features)
        except TypeError:
            raise TypeError(
                f"next_features must be a list of arrays; got {shown(self.next_features)}"
            ) from None
        if len(given) not in (steps - 1, steps):
            raise ValueError(
                f"next_features must have {steps - 1} entries for an episode of {steps} steps, "
                f"or {steps} if it was cut off; got {len(given)}"
            )
        following = []
        for step, rows in enumerate(given):
            feasible = _rows(f"next_features[{step}]", rows, like=features)
            if not len(feasible):
                raise ValueError(
                    f"next_features[{step}] must have at least one row; got an empty feasible set"
                )
            following.append(feasible)
        settle(self, features=features, rewards=rewards, next_features=tuple(following))

    @property
    def one_hot(self) -> bool:
        """Whether features are given by the positions of their ones."""
        return self.features.ndim == 1

    @property
    def dim(self) -> int:
        """The dimension d; of one-hot features, the least that holds them."""
        if self.one_hot:
            return 1 + max(int(rows.max()) for rows in (self.features, *self.next_features))
        return self.features.shape[1]

    def __len__(self) -> int:
        return len(self.features)

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.features.tobytes(), self.rewards.tobytes()))

    def __repr__(self) -> str:
        return f"Episode({len(self)} steps, {'one-hot' if self.one_hot else f'd={self.dim}'})"


def _rows(name: str, value: Any, like: Rows | None = None) -> Rows:
    """Return rows (n, d), or positions (n,), of the same kind as others where these are given."""
    try:
        given = np.asarray(value)
        one_hot = given.ndim == 1 and given.dtype.kind in "iu" if like is None else like.ndim == 1
    except ValueError:  # of no shape at all, which `floats` says better
        one_hot = False
    if one_hot:
        return positions(name, value, LARGEST_COUNT)
    return floats(name, value, ("n", "d") if like is None else ("A", like.shape[1]))
