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
from rareswitch.core.row_sets import NUMBER, row_sets
from rareswitch.core.stage import Stage
from rareswitch.core.undo import Undo

# Rows evaluated at a time: a block and its whitened copy stay in the processor's cache.
BLOCK_ROWS = 4096
# States whose values are kept at a time, for every member.
BLOCK_STATES = 2**16


class NextStates:
    """Their rows end to end, how many rows each has, and Σ(φ, 1, r) of the steps leading there."""

    def __init__(self, dim: int) -> None:
        self._position: dict[bytes, int] = {}  # by its set of rows, in their order
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

    def absorb(self, steps: Floats, states: list[bytes], undo: Undo) -> None:
        """Add steps (n, d+2) and the states they led to, in their order; `undo` can take them back.

        A step is (φ, 1, r), a state its rows as `row_sets` gives them, b"" the end of an episode.
        """
        ended, count, end = self._ended, len(self._position), self._rows.count
        if b"" in states:
            goes_on = [bool(state) for state in states]
            ended = np.stack(sums.add_in_turn(ended[0], ended[1], steps[np.logical_not(goes_on)]))
            steps, states = steps[goes_on], [state for state in states if state]
        keys = [_key(state) for state in states]
        met = np.array([*{*map(self._position.get, keys)} - {None}], np.int64)
        before = self._ended, self._sums.array.take(met, 0), self._lost.array.take(met, 0)

        def take_back() -> None:
            while len(self._position) > count:
                self._position.popitem()
            for array in (self._sums, self._lost, self._lengths):
                array.count = count
            self._rows.count = end
            self._ended, self._sums.array[met], self._lost.array[met] = before

        undo.append(take_back)
        self._ended = ended
        self._append(steps, states, keys)

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
        states, width = row_sets(rows, lengths.tolist()), rows[:1].nbytes
        keys = [_key(state) for state in states]
        whole = [len(state) for state in states] == (width * lengths).tolist()
        if not whole or len({*keys}) < len(keys):
            raise ValueError("next states must be distinct sets of distinct rows")
        self._append(sums, states, keys)
        self._lost.array[:] = lost
        self._ended[:] = ended

    def _append(self, steps: Floats, states: list[bytes], keys: list[bytes]) -> None:
        """Add steps that led to states of which some are new and some come up again."""
        position = self._position
        count, first, again = len(position), list[int](), dict[int, list[int]]()
        for i, key in enumerate(keys):
            place = position.setdefault(key, len(position))
            if place == count + len(first):
                first.append(i)
            else:
                again.setdefault(place, []).append(i)
        if first:
            new, dim = [states[i] for i in first], steps.shape[1] - 2
            self._sums.extend(steps.take(first, 0) if again else steps)
            self._lost.extend(np.zeros((len(new), dim + 2)))
            self._lengths.extend(np.array([len(state) // (NUMBER * dim) for state in new]))
            self._rows.extend(np.frombuffer(b"".join(new)).reshape(-1, dim))
        if again:
            self._add(steps, again)

    def _add(self, steps: Floats, again: dict[int, list[int]]) -> None:
        """Add steps to sums that exist: at each place some of them, in their order."""
        total, lost = self._sums.array, self._lost.array
        once = {place: some[0] for place, some in again.items() if len(some) == 1}
        if len(once) > 1:
            sums.add(total, lost, steps.take([*once.values()], 0), [*once])
        else:
            for place, step in once.items():  # a view is quicker than a list of one
                sums.add(total, lost, steps[step], place)
        for place in again.keys() - once.keys():
            some = steps.take(again[place], 0)
            total[place], lost[place] = sums.add_in_turn(total[place], lost[place], some)


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


def _key(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
