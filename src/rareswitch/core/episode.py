"""One finished episode: what a learner is told, and what a log is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Self

import numpy as np

from rareswitch.core.arguments import (
    FLOAT64,
    INT64,
    LARGEST_COUNT,
    Floats,
    Rows,
    all_within,
    floats,
    positions,
    same_fields,
    shown,
)

ROW_KINDS = {1: INT64, 2: FLOAT64}  # positions of ones (n,), features (n, d)


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
    next_rows: Rows = field(init=False, repr=False)  # those of next_features, end to end
    _dim: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self._settle_together():
            self._settle_one_by_one()

    def _settle_together(self) -> bool:
        """Copy and check all rows at once; false if anything is wrong or has to be converted."""
        features, rewards, given = self.features, self.rewards, self.next_features
        if not isinstance(given, list | tuple):
            return False
        if set(map(type, (features, rewards, *given))) != {np.ndarray}:
            return False
        try:
            kind = ROW_KINDS[features.ndim]
            rows = np.concatenate([features, *given], dtype=kind, casting="no")
        except (KeyError, TypeError, ValueError):  # of another type or size
            return False
        return self._settle_rows(rows, rewards.copy(), list(map(len, given)))

    def _settle_rows(self, rows: Rows, rewards: Floats, lengths: Sequence[int]) -> bool:
        """Take arrays that nobody else has, if they are sound."""
        steps = rewards.size
        if not steps or len(lengths) not in (steps - 1, steps) or not all(lengths):
            return False
        if rewards.shape != (len(rows) - sum(lengths),) or rewards.dtype is not FLOAT64:
            return False
        if rows.dtype is not ROW_KINDS.get(rows.ndim) or not _sound(rows):
            return False
        if not all_within(rewards, 0.0, 1.0):
            return False
        rows.flags.writeable = rewards.flags.writeable = False
        self._settle(rows[:steps], rewards, rows[steps:], lengths)
        return True

    def _settle_one_by_one(self) -> None:
        """Convert what can be, and say what is wrong with the rest."""
        features = _rows("features", self.features)
        steps = len(features)
        if not steps:
            raise ValueError("features must have at least one step; got none")
        rewards = floats("rewards", self.rewards, (steps,))
        if not all_within(rewards, 0.0, 1.0):
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
        given = _one_by_one(given, features)
        together = np.concatenate([features[:0], *given])
        together.flags.writeable = False
        self._settle(features, rewards, together, list(map(len, given)))

    @classmethod
    def of_checked(
        cls, features: Rows, rewards: Floats, next_rows: Rows, lengths: Sequence[int]
    ) -> Self:
        """Return an episode of what was once that of an `Episode`: nothing is looked at again.

        `next_rows` are its rows of next states end to end, `lengths` how many each state has. Of
        read-only arrays of float64, or of int64 where they are positions, none is copied.

        >>> old = Episode(features=np.eye(2), rewards=[0.0, 1.0], next_features=[np.eye(2)])
        >>> Episode.of_checked(old.features, old.rewards, old.next_rows, [2]) == old
        True
        """
        episode = cls.__new__(cls)
        episode._settle(features, rewards, next_rows, lengths)
        return episode

    @classmethod
    def of_rows(cls, rows: Rows, rewards: Floats, lengths: Sequence[int]) -> Self | None:
        """Return an episode of arrays that are handed over: they are checked, and not copied.

        `rows` are the features of its steps, and then those of the states after, end to end;
        `lengths` how many each of these has. None, if anything is wrong with them, which the
        constructor says in words.

        >>> Episode.of_rows(np.eye(3), np.array([0.0]), [2])
        Episode(1 steps, d=3)
        """
        episode = cls.__new__(cls)
        return episode if episode._settle_rows(rows, rewards, lengths) else None

    def _settle(
        self, features: Rows, rewards: Floats, next_rows: Rows, lengths: Sequence[int]
    ) -> None:
        if features.ndim == 1:
            dim = 1 + int(max(features.max(), next_rows.max(initial=0)))
        else:
            dim = features.shape[1]
        self.__dict__.update(  # frozen
            features=features,
            rewards=rewards,
            next_features=_apart(next_rows, lengths),
            next_rows=next_rows,
            _dim=dim,
        )

    @property
    def one_hot(self) -> bool:
        """Whether features are given by the positions of their ones."""
        return self.features.ndim == 1

    @property
    def dim(self) -> int:
        """The dimension d; of one-hot features, the least that holds them."""
        return self._dim

    def __len__(self) -> int:
        return len(self.features)

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.features.tobytes(), self.rewards.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle each row once, into arrays that are read-only again."""
        return _again, (self.features, self.rewards, self.next_features)

    def __repr__(self) -> str:
        return f"Episode({len(self)} steps, {'one-hot' if self.one_hot else f'd={self.dim}'})"


def _again(features: Rows, rewards: Floats, next_features: Sequence[Rows]) -> Episode:
    return Episode(features=features, rewards=rewards, next_features=next_features)


def _rows(name: str, value: Any) -> Rows:
    """Return rows (n, d), or positions (n,) where whole numbers are given that way."""
    try:
        given = np.asarray(value)
    except ValueError:  # of no shape at all, which `floats` says better
        return floats(name, value, ("n", "d"))
    if given.ndim == 1 and given.dtype.kind in "iu":
        return positions(name, value, LARGEST_COUNT)
    return floats(name, value, ("n", "d"))


def _sound(rows: Rows) -> bool:
    if rows.ndim == 1:
        return all_within(rows, 0, LARGEST_COUNT - 1)
    return bool(rows.size and np.isfinite(rows).all())


def _one_by_one(given: list[Any], features: Rows) -> list[Rows]:
    """Return the rows of every next state, of the same kind as the features."""
    following: list[Rows] = []
    for step, rows in enumerate(given):
        name = f"next_features[{step}]"
        if features.ndim == 1:
            following.append(positions(name, rows, LARGEST_COUNT))
        else:
            following.append(floats(name, rows, ("A", features.shape[1])))
        if not len(following[-1]):
            raise ValueError(f"{name} must have at least one row; got an empty feasible set")
    return following


def _apart(together: Rows, lengths: Sequence[int]) -> tuple[Rows, ...]:
    """Return parts of these lengths."""
    if len(set(lengths)) == 1:  # most worlds have as many actions in every state
        return tuple(together.reshape(len(lengths), lengths[0], *together.shape[1:]))
    ends = accumulate(lengths)
    return tuple(together[end - length : end] for end, length in zip(ends, lengths, strict=True))
