"""The distinct states that followed one stage, and the features that led to each.

The target of stage h (Alg. 1, line 8) is Σ φ_τ·[r_τ + V_{h+1}(s'_τ)] = Σ r_τφ_τ + Σ_j F_j V(s'_j),
with F_j the sum of the features that led to the distinct next state s'_j. Beside φ a row (φ, 1, r)
is summed, which gives the moments of the targets too. A next state is the set of the feature rows
of its feasible actions, in any order. So on a finite space a fit costs the same after any number of
episodes, and on an infinite one F is simply the features.
"""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.core import sums
from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.growing import Growing
from rareswitch.core.stage import Stage
from rareswitch.core.undo import Undo

# Rows evaluated at a time: a block and its whitened copy stay in the processor's cache.
BLOCK_ROWS = 4096
# States whose values are kept at a time, for every member.
BLOCK_STATES = 2**16


class NextStates:
    """Their rows end to end, how many rows each has, and Σ(φ, 1, r) of the steps leading there."""

    def __init__(self, dim: int) -> None:
        self._position: dict[bytes, int] = {}  # by the rows as they came, and as a set
        self._sums = Growing(np.zeros((0, dim + 2)))
        self._lost = Growing(np.zeros((0, dim + 2)))
        self._lengths = Growing(np.zeros(0, np.int64))
        self._rows = Growing(np.zeros((0, dim)))
        self._ended = np.zeros((2, dim + 2))  # Σ(φ, 1, r) of the steps that ended an episode

    def __len__(self) -> int:
        return len(self._lengths.array)

    @property
    def rows(self) -> int:
        """The number of rows of all of them together."""
        return len(self._rows.array)

    def absorb(self, step: Floats, rows: Floats, undo: Undo) -> None:
        """Add a step (φ, 1, r) that led to the state with these rows; `undo` can take it back.

        No rows stand for the end of an episode.
        """
        if not len(rows):
            self._end(step, undo)
            return
        given = _key(rows.tobytes())
        position = self._position.get(given)
        if position is None:
            distinct = _distinct(rows)
            key = _key(distinct.tobytes())
            position = self._position.get(key)
            if position is None:
                self._append(step, distinct, {given, key}, undo)
                return
            undo.append(lambda: self._forget(given))
            self._position[given] = position
        before = self._sums.array[position].copy(), self._lost.array[position].copy()

        def take_back() -> None:
            self._sums.array[position], self._lost.array[position] = before

        undo.append(take_back)
        sums.add(self._sums.array, self._lost.array, step, position)

    def value_sums(self, following: Stage, ended: float) -> Floats:
        """Return Σ V·(φ, 1, r, V) over the steps, V the value of the state after, as (..., d+3).

        The end of an episode is worth `ended`.
        """
        lengths, rows = self._lengths.array, self._rows.array
        ends = np.concatenate([[0], np.cumsum(lengths)])
        width = self._sums.array.shape[1]
        total = np.zeros((*following.weights.shape[:-1], width + 1))
        total[..., :width] = ended * self._ended.sum(axis=0)
        total[..., width] = ended**2 * self._ended[0, -2]
        for start in range(0, len(lengths), BLOCK_STATES):
            stop = min(start + BLOCK_STATES, len(lengths))
            sums, lost = self._sums.array[start:stop], self._lost.array[start:stop]
            some = rows[ends[start] : ends[stop]]
            values = state_values(lengths[start:stop], some, following)
            total[..., :width] += values @ sums
            if lost.any():  # of states that came up once, nothing was lost
                total[..., :width] += values @ lost
            total[..., width:] += np.square(values, out=values) @ sums[:, -2:-1]  # exact counts
        return total

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "sums": self._sums.array,
            "lost": self._lost.array,
            "lengths": self._lengths.array,
            "rows": self._rows.array,
            "ended": self._ended,
        }

    def fill(self, sums: Floats, lost: Floats, lengths: Ints, rows: Floats, ended: Floats) -> None:
        """Take over what `to_arrays` returned, once it is known to fit together."""
        if len(lengths) and (lengths.min() < 1 or lengths.max() > len(rows)):
            raise ValueError("a next state must have at least one row")
        if int(lengths.sum()) != len(rows):
            raise ValueError("the rows of next states must be as many as their lengths say")
        ends = np.cumsum(lengths)
        starts = ends - lengths
        for start, end, total, rest in zip(starts, ends, sums, lost, strict=True):
            distinct = _distinct(rows[start:end])
            key = _key(distinct.tobytes())
            if len(distinct) != end - start or key in self._position:
                raise ValueError("next states must be distinct sets of distinct rows")
            self._append(total, distinct, {key}, [])
            self._lost.array[-1] = rest
        self._ended[:] = ended

    def _end(self, step: Floats, undo: Undo) -> None:
        before = self._ended.copy()

        def take_back() -> None:
            self._ended = before

        undo.append(take_back)
        sums.add(self._ended[0], self._ended[1], step)

    def _append(self, step: Floats, rows: Floats, keys: set[bytes], undo: Undo) -> None:
        count, end = len(self), len(self._rows.array)

        def take_back() -> None:
            self._forget(*keys)
            for array in (self._sums, self._lost, self._lengths):
                array.count = count
            self._rows.count = end

        undo.append(take_back)
        self._sums.extend(step[None])
        self._lost.extend(np.zeros((1, len(step))))
        self._lengths.extend(np.array([len(rows)]))
        self._rows.extend(rows)
        self._position.update(dict.fromkeys(keys, count))

    def _forget(self, *keys: bytes) -> None:
        for key in keys:
            self._position.pop(key, None)


def state_values(lengths: Ints, rows: Floats, following: Stage) -> Floats:
    """Return max_a Q (..., J) of states whose rows (N, d) stand end to end, by lengths (J,).

    The rows are visited in blocks of whole states; leading axes are those of the stage.
    """
    count = len(lengths)
    values = np.empty((*following.weights.shape[:-1], count))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    state = 0
    while state < count:
        row = int(starts[state])
        beyond = max(state + 1, int(np.searchsorted(ends, row + BLOCK_ROWS, side="right")))
        block = np.asarray(rows[row : int(ends[beyond - 1])])
        q_values = following.q_values(block)
        inside = starts[state:beyond] - row
        np.maximum.reduceat(q_values, inside, axis=-1, out=values[..., state:beyond])
        state = beyond
    return values


def _distinct(rows: Floats) -> Floats:
    """Return the distinct rows of a set of rows in an order that depends on nothing but the set."""
    data, width = (rows + 0.0).tobytes(), rows[0].nbytes  # adding 0 makes −0 and 0 the same
    ordered = sorted({data[i : i + width] for i in range(0, len(data), width)})
    return np.frombuffer(b"".join(ordered)).reshape(-1, rows.shape[1])


def _key(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
