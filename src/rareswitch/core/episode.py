"""One finished episode: the input of a learner, and the unit of a log."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Self

import numpy as np

from rareswitch.support.arguments import (
    FLOAT64,
    INT64,
    LARGEST_COUNT,
    Floats,
    Rows,
    all_within,
    floats,
    positions,
    same_fields,
    short_repr,
)

ROW_KINDS = {1: INT64, 2: FLOAT64}  # positions (n,), features (n, d)


class NoOffersError(ValueError):
    """An episode without `first_features`, which rules that look at candidates need."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Episode:
    """One finished episode of n ≤ H steps.

    `features` (n, d) are the rows of the chosen pairs and `rewards` (n,) lie in [0, 1].
    `next_features[t]` (A, d) are the rows of all feasible actions in the state after step t. It has
    n−1 entries if the episode terminated, or n if it was truncated: the state after the last step
    then has its estimated value instead of 0. (After stage H every value is 0.) `first_features`
    (A, d) are the rows of all feasible actions in the first state. Learning does not need them;
    rules that look at candidates do. One-hot features may be given by the positions of their ones:
    integers (n,) and (A,).

    >>> Episode(features=[[1.0, 0.0], [0.0, 1.0]], rewards=[0.0, 1.0], next_features=[np.eye(2)])
    Episode(2 steps, d=2)
    >>> Episode(features=[0, 3], rewards=[0.0, 1.0], next_features=[[2, 3]])
    Episode(2 steps, one-hot)
    """

    features: Rows
    rewards: Floats
    next_features: Sequence[Rows]
    first_features: Rows | None = None
    next_rows: Rows = field(init=False, repr=False)  # next_features, concatenated
    lengths: tuple[int, ...] = field(init=False, repr=False)  # of next_features
    _dim: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows, rewards, lengths = self._join() or self._convert()
        rows.flags.writeable = rewards.flags.writeable = False
        first = self.first_features
        if first is not None:
            first = _offered("first_features", first, rows)
            first.flags.writeable = False
        self._hold(rows[: len(rewards)], rewards, rows[len(rewards) :], lengths, first)

    def _join(self) -> tuple[Rows, Floats, list[int]] | None:
        """Return copies of all rows, concatenated, or None if an array needs conversion."""
        features, rewards, given = self.features, self.rewards, self.next_features
        if not isinstance(given, list | tuple):
            return None
        if set(map(type, (features, rewards, *given))) != {np.ndarray}:
            return None
        try:
            kind = ROW_KINDS[features.ndim]
            rows = np.concatenate([features, *given], dtype=kind, casting="no")
        except (KeyError, TypeError, ValueError):  # another type or size
            return None
        joined = rows, rewards.copy(), list(map(len, given))
        return joined if are_valid(*joined) else None

    def _convert(self) -> tuple[Rows, Floats, list[int]]:
        """Return converted copies of all rows, concatenated; an error names the bad argument."""
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
                f"next_features must be a list of arrays; got {short_repr(self.next_features)}"
            ) from None
        if len(given) not in (steps - 1, steps):
            raise ValueError(
                f"next_features must have {steps - 1} entries for an episode of {steps} steps, "
                f"or {steps} if it was cut off; got {len(given)}"
            )
        following = [
            _offered(f"next_features[{t}]", rows, features) for t, rows in enumerate(given)
        ]
        return np.concatenate([features, *following]), rewards, list(map(len, following))

    @classmethod
    def of_offers(cls, offers: Sequence[Rows], places: Sequence[int], rewards: Floats) -> Self:
        """Return the episode whose step t took row places[t] of the offered rows.

        `offers` are the rows offered at each step, and after the last step if the episode was
        truncated.

        >>> Episode.of_offers([np.eye(2), np.eye(2)], [1, 0], np.ones(2)).features
        array([[0., 1.],
               [1., 0.]])
        """
        rows, lengths = np.concatenate(offers), list(map(len, offers))
        starts = [0, *accumulate(lengths)]
        features = rows[np.add(starts[: len(places)], places)]
        following, first = rows[lengths[0] :], rows[: lengths[0]]
        if not (
            len(offers) - len(places) in (0, 1)
            and all(lengths)
            and rows.dtype is ROW_KINDS.get(rows.ndim)
            and are_finite(rows)
            and rewards.shape == (len(places),)
            and rewards.dtype is FLOAT64
            and all_within(rewards, 0.0, 1.0)
        ):  # the error names the argument
            return cls(
                features=features, rewards=rewards, next_features=offers[1:], first_features=first
            )
        for array in (features, rewards, following, first):
            array.flags.writeable = False
        return cls.trusted(features, rewards, following, lengths[1:], first)

    @classmethod
    def trusted(
        cls,
        features: Rows,
        rewards: Floats,
        next_rows: Rows,
        lengths: Sequence[int],
        first_features: Rows | None = None,
    ) -> Self:
        """Return an episode of validated read-only arrays, without checks.

        `next_rows` are the rows of all next states, concatenated, with `lengths` rows each.

        >>> old = Episode(features=np.eye(2), rewards=[0.0, 1.0], next_features=[np.eye(2)])
        >>> Episode.trusted(old.features, old.rewards, old.next_rows, [2]) == old
        True
        """
        episode = cls.__new__(cls)
        episode._hold(features, rewards, next_rows, lengths, first_features)
        return episode

    def _hold(
        self,
        features: Rows,
        rewards: Floats,
        next_rows: Rows,
        lengths: Sequence[int],
        first: Rows | None,
    ) -> None:
        if features.ndim == 1:
            dim = 1 + int(max(features.max(), next_rows.max(initial=0)))
        else:
            dim = features.shape[1]
        self.__dict__.update(  # frozen
            features=features,
            rewards=rewards,
            next_rows=next_rows,
            lengths=tuple(lengths),
            first_features=first,
            _dim=dim,
        )
        self.__dict__.pop("next_features", None)

    def __getattr__(self, name: str) -> Any:
        """Return `next_features`, split at the first access because a log has very many."""
        if name != "next_features" or "next_rows" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = self.__dict__["next_features"] = _split(self.next_rows, self.lengths)
        return found

    @property
    def offers(self) -> tuple[Rows, ...]:
        """The rows offered at each step.

        >>> Episode(features=[1], rewards=[0.0], next_features=[], first_features=[0, 1]).offers
        (array([0, 1]),)
        """
        if self.first_features is None:
            raise NoOffersError(
                "episode must have first_features for a rule that looks at candidates"
            )
        return (self.first_features, *self.next_features)[: len(self)]

    @property
    def one_hot(self) -> bool:
        """Whether features are given by the positions of their ones."""
        return self.features.ndim == 1

    @property
    def dim(self) -> int:
        """The dimension d; for one-hot features the largest position plus 1."""
        return self._dim

    def __len__(self) -> int:
        return len(self.features)

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.features.tobytes(), self.rewards.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle each row once; the copies are read-only too."""
        return _again, (self.features, self.rewards, self.next_features, self.first_features)

    def __repr__(self) -> str:
        return f"Episode({len(self)} steps, {'one-hot' if self.one_hot else f'd={self.dim}'})"


def _again(
    features: Rows, rewards: Floats, next_features: Sequence[Rows], first: Rows | None
) -> Episode:
    return Episode(
        features=features, rewards=rewards, next_features=next_features, first_features=first
    )


def _rows(name: str, value: Any) -> Rows:
    """Return rows (n, d), or positions (n,) if the value has one axis of integers."""
    try:
        given = np.asarray(value)
    except ValueError:  # a ragged list, which `floats` refuses
        return floats(name, value, ("n", "d"))
    if given.ndim == 1 and given.dtype.kind in "iu":
        return positions(name, value, LARGEST_COUNT)
    return floats(name, value, ("n", "d"))


def are_valid(rows: Rows, rewards: Floats, lengths: Sequence[int]) -> bool:
    """Return whether rows and rewards are valid for an episode.

    `rows` are the features of its steps, followed by the rows of the next states, with `lengths`
    rows each.
    """
    steps = rewards.size
    return bool(
        steps
        and len(lengths) in (steps - 1, steps)
        and all(lengths)
        and rewards.shape == (len(rows) - sum(lengths),)
        and rewards.dtype is FLOAT64
        and rows.dtype is ROW_KINDS.get(rows.ndim)
        and are_finite(rows)
        and all_within(rewards, 0.0, 1.0)
    )


def are_finite(rows: Rows) -> bool:
    """Return whether rows (n, d) are finite, or positions (n,) at least 0 and below the limit."""
    if rows.ndim == 1:
        return all_within(rows, 0, LARGEST_COUNT - 1)
    return bool(rows.size and np.isfinite(rows).all())


def _offered(name: str, rows: Any, features: Rows) -> Rows:
    """Return the rows of a state's feasible actions, of the same kind as the features."""
    offered: Rows = (
        positions(name, rows, LARGEST_COUNT)
        if features.ndim == 1
        else floats(name, rows, ("A", features.shape[1]))
    )
    if not len(offered):
        raise ValueError(f"{name} must have at least one row; got an empty feasible set")
    return offered


def _split(together: Rows, lengths: Sequence[int]) -> tuple[Rows, ...]:
    """Split rows into parts of these lengths."""
    if len(set(lengths)) == 1:  # usual: every state has the same number of actions
        return tuple(together.reshape(len(lengths), lengths[0], *together.shape[1:]))
    ends = accumulate(lengths)
    return tuple(together[end - length : end] for end, length in zip(ends, lengths, strict=True))
