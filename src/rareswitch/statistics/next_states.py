"""The distinct states that followed the steps of one pool, and the features that led to each.

The target of stage h (Alg. 1, line 8) is Σ φ_τ·[r_τ + V_{h+1}(s'_τ)] = Σ r_τφ_τ + Σ_j F_j V(s'_j),
with F_j the sum of the features that led to the distinct next state s'_j. Rows (φ, 1, r) are summed
instead of φ, which gives the moments of the targets too. A next state is the set of the feature
rows of its feasible actions, in any order. So on a finite space a fit costs the same after any
number of episodes, and on an infinite one F is simply the features.

Sums keep what rounding takes away (Neumaier 1974): Λ⁻¹ magnifies an error of Σrφ by up to 1/λ in
directions that no feature has visited, and adding the same feature 10⁵ times plainly drifts by far
more than one rounding.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rareswitch.core.lsvi import QFunction
from rareswitch.support.arguments import Floats, Ints
from rareswitch.support.persistent import PersistentRows

# Rows evaluated at a time: a block and its whitened copy stay in the processor's cache.
BLOCK_ROWS = 4096
# States whose values are kept at a time, for every member.
BLOCK_STATES = 2**16
NUMBER = np.dtype(np.float64).itemsize
MANY = 32  # states, from which on it pays to order the rows of all at once


@dataclass(frozen=True, eq=False)
class NextStates:
    """Distinct states; it never changes.

    `rows` (N, d) are those of all states end to end, and `lengths` (J,) how many rows each has.
    `sums` and `lost` (J, d+2) are Σ(φ, 1, r) of the steps that led to each, and `ended` (2, d+2)
    is that of the steps that ended an episode.
    """

    _places: dict[bytes, int]  # of each state, by a digest of its rows
    _sums: PersistentRows
    _lost: PersistentRows  # may be shorter: the rest is 0
    _lengths: PersistentRows
    _rows: PersistentRows
    ended: Floats

    @classmethod
    def none(cls, dim: int, *, width: int | None = None) -> Self:
        """Return no states, for steps of d+2 numbers and rows of `width` numbers, by default d."""
        widths = (dim if width is None else width, dim + 2, dim + 2)
        rows, sums, lost = (PersistentRows(np.zeros((0, n))) for n in widths)
        lengths = PersistentRows(np.zeros(0, np.int64))
        return cls({}, sums, lost, lengths, rows, np.zeros((2, dim + 2)))

    @classmethod
    def from_arrays(
        cls, *, sums: Floats, lost: Floats, lengths: Ints, rows: Floats, ended: Floats
    ) -> Self:
        """Return the states that `to_arrays` returned, once they are known to fit together."""
        if len(lengths) and (lengths.min() < 1 or lengths.max() > len(rows)):
            raise ValueError("a next state must have at least one row")
        if int(lengths.sum()) != len(rows):
            raise ValueError("next states must have as many rows as their lengths say")
        states, width = row_sets(rows, lengths.tolist()), rows[:1].nbytes
        whole = [len(state) for state in states] == (width * lengths).tolist()
        if not whole or len({*map(_key, states)}) < len(states):
            raise ValueError("next states must be distinct sets of distinct rows")
        none = cls.none(sums.shape[1] - 2, width=rows.shape[1])
        found = NextStates.add(none, sums, states)  # ends of episodes are not among the states
        lost_rows = PersistentRows(np.array(lost))
        return cls(found._places, found._sums, lost_rows, found._lengths, found._rows, ended)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def sums(self) -> Floats:
        return self._sums.array

    @property
    def lost(self) -> Floats:
        return _padded(self._lost.array, len(self.sums))

    @property
    def lengths(self) -> Ints:
        return self._lengths.array

    @property
    def rows(self) -> Floats:
        return self._rows.array

    @property
    def numbers(self) -> int:
        """How many numbers a change to the sums would copy."""
        return 2 * self.sums.size

    def add(self, steps: Floats, states: list[bytes]) -> Self:
        """Return the states with steps (n, d+2) and the states they led to, in their order.

        A step is (φ, 1, r), a state its rows as `row_sets` gives them, b"" the end of an episode.
        """
        ended = self.ended
        if b"" in states:
            goes_on = [bool(state) for state in states]
            ended = np.stack(add_in_turn(ended[0], ended[1], steps[np.logical_not(goes_on)]))
            steps, states = steps[goes_on], [state for state in states if state]
        places, count = self._places.copy(), len(self._places)
        first, again = list[int](), dict[int, list[int]]()
        for i, state in enumerate(states):
            place = places.setdefault(_key(state), len(places))
            if place == count + len(first):
                first.append(i)
            else:
                again.setdefault(place, []).append(i)
        sums, lost, lengths, rows = self._sums, self._lost, self._lengths, self._rows
        if first:
            new, width = [states[i] for i in first], self.rows.shape[1]
            sums = sums.extend(steps.take(first, 0) if again else steps)
            lengths = lengths.extend(np.array([len(state) // (NUMBER * width) for state in new]))
            rows = rows.extend(np.frombuffer(b"".join(new)).reshape(-1, width))
        if again:
            total = sums.array.copy()
            rounded_off = np.array(_padded(lost.array, len(total)))
            _add_again(total, rounded_off, steps, again)
            sums, lost = PersistentRows(total), PersistentRows(rounded_off)
        return type(self)(places, sums, lost, lengths, rows, ended)

    def value_sums(self, following: QFunction, ended: float) -> Floats:
        """Return Σ V·(φ, 1, r, V) over the steps, V the value of the state after, as (..., d+3).

        The end of an episode is worth `ended`.
        """
        lengths, rows = self.lengths, self.rows
        ends = np.concatenate([[0], np.cumsum(lengths)])
        width = self.sums.shape[1]
        total = np.zeros((*following.weights.shape[:-1], width + 1))
        total[..., :width] = ended * self.ended.sum(axis=0)
        total[..., width] = ended**2 * self.ended[0, -2]
        for start in range(0, len(lengths), BLOCK_STATES):
            stop = min(start + BLOCK_STATES, len(lengths))
            sums, lost = self.sums[start:stop], self._lost.array[start:stop]
            some = rows[ends[start] : ends[stop]]
            values = state_values(lengths[start:stop], some, following)
            total[..., :width] += values @ sums
            if lost.any():  # states that were met once lost nothing
                total[..., :width] += values @ _padded(lost, len(sums))
            total[..., width:] += np.square(values, out=values) @ sums[:, -2:-1]  # exact counts
        return total

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "sums": self.sums,
            "lost": self.lost,
            "lengths": self.lengths,
            "rows": self.rows,
            "ended": self.ended,
        }


def _padded(rows: Floats, count: int) -> Floats:
    """Return rows with rows of zeros after them, so many in all."""
    if len(rows) == count:
        return rows
    padded = np.zeros((count, rows.shape[1]))
    padded[: len(rows)] = rows
    return padded


def _add_again(total: Floats, lost: Floats, steps: Floats, again: dict[int, list[int]]) -> None:
    """Add steps to sums that exist, in place: at each place some of them, in their order."""
    once = {place: some[0] for place, some in again.items() if len(some) == 1}
    if len(once) > 1:
        _add(total, lost, steps.take([*once.values()], 0), [*once])
    else:
        for place, step in once.items():  # a view is quicker than a list of one
            _add(total, lost, steps[step], place)
    for place in again.keys() - once.keys():
        some = steps.take(again[place], 0)
        total[place], lost[place] = add_in_turn(total[place], lost[place], some)


def _add(total: Floats, lost: Floats, addend: Floats, at: Any) -> None:
    """Add to total[at] in place, and to lost[at] what the addition rounded off.

    total + lost is the sum to about twice the precision of a float; `at` must not repeat a place.
    """
    before = total[at]
    after = before + addend
    # Knuth's TwoSum: exactly before + addend − after, whichever is larger.
    share = after - before
    lost[at] += (before - (after - share)) + (addend - share)
    total[at] = after


def add_in_turn(total: Floats, lost: Floats, addends: Floats) -> tuple[Floats, Floats]:
    """Return total and lost after adding each of the addends (n, ...) in their order.

    Bit for bit as one after the other: an accumulation adds in order.
    """
    totals = np.add.accumulate(np.concatenate([total[None], addends]))
    before, after = totals[:-1], totals[1:]
    share = after - before
    rounded_off = (before - (after - share)) + (addends - share)
    return after[-1], np.add.accumulate(np.concatenate([lost[None], rounded_off]))[-1]


def row_sets(rows: Floats, lengths: Sequence[int]) -> list[bytes]:
    """Return canonical bytes of each state: its distinct rows, in an order of the set alone.

    Rows (N, d) stand end to end, by lengths; a state without rows is b"". 0 and −0 are the same.

    >>> one, other = row_sets(np.array([[1.0], [2.0], [2.0], [-0.0], [0.0]]), [2, 3])
    >>> np.frombuffer(one), np.frombuffer(other)
    (array([2., 1.]), array([0., 2.]))
    """
    rows, width = rows + 0.0, NUMBER * rows.shape[1]  # adding 0 makes −0 into 0
    sizes = {*lengths} - {0}
    if len(sizes) == 1 and len(lengths) >= MANY:  # most worlds have as many actions everywhere
        states = _in_order(rows, width, sizes.pop())
        if states is not None:
            return [next(states) if length else b"" for length in lengths]
    data, sets, end = rows.tobytes(), [], 0
    for length in lengths:
        start, end = end, end + length * width
        sets.append(b"".join(sorted({data[i : i + width] for i in range(start, end, width)})))
    return sets


def _in_order(rows: Floats, width: int, size: int) -> Iterator[bytes] | None:
    """Return states of one size with their rows in order; None, if any row is repeated."""
    ordered = np.sort(rows.view(f"V{width}").reshape(-1, size), axis=1)  # byte by byte
    numbers = ordered.view(np.int64).reshape(len(ordered), size, -1)
    if (numbers[:, 1:] == numbers[:, :-1]).all(axis=2).any():
        return None
    data, length = ordered.tobytes(), size * width
    return (data[i : i + length] for i in range(0, len(data), length))


def state_values(lengths: Ints, rows: Floats, following: QFunction) -> Floats:
    """Return max_a Q (..., J) of states whose rows (N, d) stand end to end, by lengths (J,).

    The rows are visited in blocks of whole states; leading axes are those of the Q-function.
    """
    values = np.empty((*following.weights.shape[:-1], len(lengths)))
    for some, theirs, starts in visits(lengths, BLOCK_ROWS):
        q_values = following.q_values(np.asarray(rows[theirs]))
        np.maximum.reduceat(q_values, starts, axis=-1, out=values[..., some])
    return values


def visits(lengths: Ints, most: int) -> Iterator[tuple[slice, slice, Ints]]:
    """Yield blocks of whole states with at most so many rows, or one state with more.

    A block is given by the places of its states, the places of their rows, and the first row of
    each state, counted inside the block.
    """
    ends = np.cumsum(lengths)
    starts = ends - lengths
    state, count = 0, len(lengths)
    while state < count:
        row = int(starts[state])
        beyond = max(state + 1, int(np.searchsorted(ends, row + most, side="right")))
        yield slice(state, beyond), slice(row, int(ends[beyond - 1])), starts[state:beyond] - row
        state = beyond


def _key(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
