"""The moves of one pool of one-hot steps: counts of pairs of a position and a next state."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rareswitch.core.lsvi import QFunction
from rareswitch.support.arguments import Floats, Ints
from rareswitch.support.codec import Arrays

# A position, 1, the reward, and the positions of the next state; −1 and −reward remove a move.
Move = tuple[int, float, float, Ints]
END = np.zeros(0, np.int64)  # the next state at the end of an episode, without feasible actions
# Up to this size of the table of states by positions, one product is faster than sums over moves.
LARGEST_TABLE = 2**16


@dataclass(frozen=True, eq=False)
class Moves:
    """The moves of one pool from positions to states: their counts and Σr.

    A state is the set of positions of its feasible actions; the empty set is the end of an episode.
    Moves are immutable.
    """

    dim: int
    _numbers: dict[bytes, int]  # number of each state, by its ascending positions
    _states: list[Ints]  # the positions of each state
    pairs: Ints  # (n, 2) positions and numbers of states, ascending
    sums: Floats  # (n, 2) counts and Σr

    @classmethod
    def none(cls, dim: int) -> "Moves":
        """Return an empty table of moves."""
        return cls(dim, {}, [], np.zeros((0, 2), np.int64), np.zeros((0, 2)))

    @classmethod
    def from_arrays(
        cls, dim: int, *, lengths: Ints, positions: Ints, pairs: Ints, sums: Floats
    ) -> "Moves":
        """Return the moves of `to_arrays`, or raise an error if the arrays are inconsistent."""
        if len(lengths) and (lengths.min() < 0 or lengths.max() > len(positions)):
            raise ValueError("lengths of next states must be from 0 to the number of rows")
        if int(lengths.sum()) != len(positions):
            raise ValueError("lengths of next states must add up to the number of rows")
        for name, array, end in (
            ("positions", positions, dim),
            ("pairs", pairs[:, 0], dim),
            ("pairs", pairs[:, 1], len(lengths)),
        ):
            if len(array) and (array.min() < 0 or array.max() >= end):
                raise ValueError(f"{name} must be from 0 to {end - 1}")
        numbers, states = dict[bytes, int](), list[Ints]()
        for number, last in enumerate(np.cumsum(lengths)):
            state = positions[last - lengths[number] : last]
            if _number(state, numbers, states) != number or len(states[number]) != len(state):
                raise ValueError("next states must be distinct sets of distinct rows")
        order = np.lexsort(pairs.T[::-1])
        if (np.diff(pairs[order], axis=0) == 0).all(axis=1).any():
            raise ValueError("moves must be distinct pairs")
        return cls(dim, numbers, states, pairs[order], sums[order])

    @property
    def rows(self) -> int:
        """The number of positions of all states together."""
        return sum(map(len, self._states))

    def add(self, moves: Sequence[Move]) -> "Moves":
        """Return the moves after additions and removals; rewards are added in order."""
        if not moves:
            return self
        taken, signs, rewards, after = zip(*moves, strict=True)
        numbers, states = self._numbers.copy(), self._states.copy()
        reached = [_number(state, numbers, states) for state in after]
        pairs = np.concatenate([self.pairs, np.array([taken, reached], np.int64).T])
        end = pairs[:, 1].max() + 1  # number of states, to encode a pair as one number
        distinct, place = np.unique(pairs @ [end, 1], return_inverse=True)
        sums = np.zeros((len(distinct), 2))
        old, new = place[: len(self.pairs)], place[len(self.pairs) :]
        sums[old] = self.sums
        sums[:, 0] += np.bincount(new, signs, len(distinct))
        np.add.at(sums[:, 1], new, rewards)
        return Moves(self.dim, numbers, states, np.stack(np.divmod(distinct, end), axis=1), sums)

    def value_sums(self, following: QFunction, ended: float) -> Floats:
        """Return Σ V·(φ, 1, r, V) over the moves, V the value of the next state, as (..., d+3).

        `ended` is the value of the end of an episode.
        """
        return self._layout.value_sums(following, ended)

    @property
    def offered(self) -> Ints:
        """The concatenated positions of all states."""
        return np.concatenate([END, *self._states])

    def lay_out(self, known: Ints) -> "Layout":
        """Return the moves in columns of ascending positions that contain all of theirs."""
        return Layout(self, known)

    def to_arrays(self) -> Arrays:
        """Return the states, their numbers of positions, and the moves by position and state."""
        return {
            "lengths": np.array([len(state) for state in self._states], np.int64),
            "positions": self.offered,
            "pairs": self.pairs,
            "sums": self.sums,
        }

    @cached_property
    def _layout(self) -> "Layout":
        return Layout(self)


class Layout:
    """Moves between d positions and J states in arrays for all stages of a fit.

    With n `known` positions, there are n+1 columns instead of d.
    """

    def __init__(self, moves: Moves, known: Ints | None = None) -> None:
        self._dim, states = moves.dim, len(moves._states)
        self._positions, taken = moves.offered, moves.pairs[:, 0]
        if known is not None:
            self._dim = len(known) + 1
            self._positions = known.searchsorted(self._positions)
            taken = known.searchsorted(taken)
        lengths = np.array([len(state) for state in moves._states], np.int64)
        self._goes_on = lengths > 0
        self._starts = (np.cumsum(lengths) - lengths)[self._goes_on]
        state, (count, reward) = moves.pairs[:, 1], moves.sums.T
        self.counts = np.bincount(state, count, states)
        self._rewards = np.bincount(state, reward, states)
        self.table: Floats | None = None
        if states * self._dim <= LARGEST_TABLE:
            self.table = np.zeros((states, self._dim + 3))
            self.table[state, taken] = count
            self.table[:, -3], self.table[:, -2] = self.counts, self._rewards
        else:
            self._state, self._count = state, count
            self._first = np.flatnonzero(np.diff(taken, prepend=-1))
            self._taken = taken[self._first]

    def value_sums(self, following: QFunction, ended: float) -> Floats:
        """Return `Moves.value_sums` in these columns."""
        values = self.state_values(following, ended)
        total = self.sum_moves(values) if self.table is None else values @ self.table
        total[..., -1] = np.square(values) @ self.counts
        return total

    def sum_moves(self, values: Floats) -> Floats:
        """Return Σ V·(φ, 1, r, 0), move by move."""
        total = np.zeros((*values.shape[:-1], self._dim + 3))
        if len(self._taken):
            weighted = values[..., self._state] * self._count
            total[..., self._taken] = np.add.reduceat(weighted, self._first, axis=-1)
        total[..., -3] = values @ self.counts
        total[..., -2] = values @ self._rewards
        return total

    def state_values(self, following: QFunction, ended: float) -> Floats:
        """Return the value of every state (..., J)."""
        values = np.full((*following.weights.shape[:-1], len(self._goes_on)), ended)
        if len(self._starts):
            best = following.q_values(self._positions)
            values[..., self._goes_on] = np.maximum.reduceat(best, self._starts, axis=-1)
        return values


def _number(state: Ints, numbers: dict[bytes, int], states: list[Ints]) -> int:
    """Return the number of a state; an unknown state gets a new number."""
    known = numbers.get(state.tobytes())  # most states have ordered positions
    if known is not None:
        return known
    distinct = np.unique(state)
    number = numbers.setdefault(distinct.tobytes(), len(states))
    if number == len(states):
        states.append(distinct)
    return number
