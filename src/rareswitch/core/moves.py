"""The moves of one pool of one-hot steps: from positions to the states after, and how often."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.codec import Arrays
from rareswitch.core.move_sums import MoveSums
from rareswitch.core.stage import Stage
from rareswitch.core.undo import Undo

END = np.zeros(0, np.int64)  # the state after the end of an episode: no action is feasible
MOST_WAITING = 10_000


class Moves:
    """The moves of one pool from positions to states: how often, and Σr over them.

    A state is the positions of its feasible actions, in any order; a state without any is the end
    of an episode. Moves wait in a list until a fit asks for their sums, or until they are many.
    """

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._state: dict[bytes, int] = {}  # by its positions, ascending
        self._positions: list[Ints] = []  # of each state
        self._kept = _Kept(np.zeros((0, 2), np.int64), np.zeros((0, 2)), [])
        self._sums: MoveSums | None = None  # of all this, once a fit has asked

    @property
    def rows(self) -> int:
        """The number of positions of all states together."""
        return sum(map(len, self._positions))

    def absorb(self, taken: Iterable[tuple[int, float, Ints]], undo: Undo) -> None:
        """Add moves, each a position, a reward and the state's positions; `undo` can take back."""
        if len(self._kept.waiting) > MOST_WAITING:
            self._kept = self._kept.summed()
        kept, states = self._kept, len(self._state)
        waiting, count = kept.waiting, len(kept.waiting)

        def take_back() -> None:
            self._sums = None
            self._kept = kept  # as it was: sums are made anew and never changed
            del waiting[count:]
            for key in list(self._state)[states:]:
                del self._state[key]
            del self._positions[states:]

        undo.append(take_back)
        self._sums = None
        positions, rewards, after = zip(*taken, strict=True)
        known = map(self._state.get, map(np.ndarray.tobytes, after))
        numbers = [number for number in known if number is not None]
        if len(numbers) < len(after):
            numbers = [self._number(state) for state in after]
        waiting.extend(zip(positions, numbers, rewards, strict=True))

    def value_sums(self, following: Stage, ended: float) -> Floats:
        """Return Σ V·(φ, 1, r, V) over the moves, V the value of the state after, as (..., d+3).

        The end of an episode is worth `ended`.
        """
        if self._sums is None:
            self._sums = MoveSums(self._dim, **self.to_arrays())
        return self._sums.of(following, ended)

    def to_arrays(self) -> Arrays:
        """Return the states, how many positions each has, and the moves by position and state."""
        self._kept = self._kept.summed()
        return {
            "lengths": np.array([len(state) for state in self._positions], np.int64),
            "positions": np.concatenate([END, *self._positions]),
            "pairs": self._kept.pairs,
            "sums": self._kept.sums,
        }

    def fill(self, lengths: Ints, positions: Ints, pairs: Ints, sums: Floats) -> None:
        """Take over what `to_arrays` returned, once it is known to fit together."""
        if len(lengths) and (lengths.min() < 0 or lengths.max() > len(positions)):
            raise ValueError("a next state must have as many rows as there are, or none")
        if int(lengths.sum()) != len(positions):
            raise ValueError("the rows of next states must be as many as their lengths say")
        for name, array, end in (
            ("positions", positions, self._dim),
            ("pairs", pairs[:, 0], self._dim),
            ("pairs", pairs[:, 1], len(lengths)),
        ):
            if len(array) and (array.min() < 0 or array.max() >= end):
                raise ValueError(f"{name} must be from 0 to {end - 1}")
        ends = np.cumsum(lengths)
        for number, end in enumerate(ends):
            state = positions[end - lengths[number] : end]
            if self._number(state) != number or len(self._positions[number]) != len(state):
                raise ValueError("next states must be distinct sets of distinct rows")
        order = np.lexsort(pairs.T[::-1])
        if (np.diff(pairs[order], axis=0) == 0).all(axis=1).any():
            raise ValueError("moves must be distinct pairs")
        self._kept, self._sums = _Kept(pairs[order], sums[order], []), None

    def _number(self, state: Ints) -> int:
        """Return the number of a state, a new one if it was never seen."""
        distinct = np.unique(state)
        number = self._state.setdefault(distinct.tobytes(), len(self._positions))
        if number == len(self._positions):
            self._positions.append(distinct)
        return number


class _Kept(NamedTuple):
    """Moves that are summed, and those that wait to be: (position, state, reward), in order."""

    pairs: Ints  # (n, 2) positions and states, ascending
    sums: Floats  # (n, 2) how often, and Σr
    waiting: list[tuple[int, int, float]]

    def summed(self) -> "_Kept":
        """Return the same moves with none waiting.

        Rewards are added one by one in their order: when it is done makes no difference.
        """
        if not self.waiting:
            return self
        positions, states, rewards = zip(*self.waiting, strict=True)
        pairs = np.concatenate([self.pairs, np.array([positions, states], np.int64).T])
        end = pairs[:, 1].max() + 1  # of states: a pair as one number
        distinct, place = np.unique(pairs @ [end, 1], return_inverse=True)
        sums = np.zeros((len(distinct), 2))
        old, new = place[: len(self.pairs)], place[len(self.pairs) :]
        sums[old] = self.sums
        sums[:, 0] += np.bincount(new, minlength=len(distinct))
        np.add.at(sums[:, 1], new, rewards)
        return _Kept(np.stack(np.divmod(distinct, end), axis=1), sums, [])
