"""Sums over moves of the values that they led to, for a fit: from values of states to a target."""

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.stage import Stage

# The largest table of states by positions with which one product is faster than going move by move.
LARGEST_TABLE = 2**16


class MoveSums:
    """What a fit asks of moves between d positions and J states, laid out once for all its stages.

    Arrays are those of `Moves.to_arrays`: the `positions` of all states in a row, their `lengths`
    (J,), the `pairs` (n, 2) of a position and a state, and `sums` (n, 2), how often and Σr.
    """

    def __init__(self, dim: int, *, lengths: Ints, positions: Ints, pairs: Ints, sums: Floats):
        self._positions, self._goes_on = positions, lengths > 0
        self._starts = (np.cumsum(lengths) - lengths)[self._goes_on]
        (position, state), (count, reward) = pairs.T, sums.T
        states = len(lengths)
        self._counts = np.bincount(state, count, states)
        self._rewards = np.bincount(state, reward, states)
        self._dim = dim
        self._table: Floats | None = None
        if states * dim <= LARGEST_TABLE:
            self._table = np.zeros((states, dim + 3))
            self._table[state, position] = count
            self._table[:, -3], self._table[:, -2] = self._counts, self._rewards
        else:
            self._state, self._count = state, count
            self._first = np.flatnonzero(np.diff(position, prepend=-1))
            self._taken = position[self._first]

    def of(self, following: Stage, ended: float) -> Floats:
        """Return Σ V·(φ, 1, r, V) over the moves (..., d+3); the end of an episode is `ended`."""
        values = self._values(following, ended)
        total = self._linear(values) if self._table is None else values @ self._table
        total[..., -1] = np.square(values) @ self._counts
        return total

    def _linear(self, values: Floats) -> Floats:
        """Return Σ V·(φ, 1, r, 0), move by move."""
        total = np.zeros((*values.shape[:-1], self._dim + 3))
        if len(self._taken):
            weighted = values[..., self._state] * self._count
            total[..., self._taken] = np.add.reduceat(weighted, self._first, axis=-1)
        total[..., -3] = values @ self._counts
        total[..., -2] = values @ self._rewards
        return total

    def _values(self, following: Stage, ended: float) -> Floats:
        """Return the value of every state (..., J)."""
        values = np.full((*following.weights.shape[:-1], len(self._goes_on)), ended)
        if len(self._starts):
            best = following.q_values(self._positions)
            values[..., self._goes_on] = np.maximum.reduceat(best, self._starts, axis=-1)
        return values
