"""The distinct next states of one pool, and the features that led to each.

The target of stage h (Alg. 1, line 8) is Σ φ_τ·[r_τ + V_{h+1}(s'_τ)] = Σ r_τφ_τ + Σ_j F_j V(s'_j),
with F_j the sum of the features that led to the distinct next state s'_j. Rows (φ, 1, r) are summed
instead of φ, which gives the moments of the targets too. A next state is the set of the feature
rows of its feasible actions. So the cost of a fit on a finite space does not grow with the number
of episodes; on an infinite space F is simply the features.

Sums are compensated (Neumaier 1974): Λ⁻¹ magnifies an error of Σrφ by up to 1/λ in directions that
no feature has visited, and the plain sum of 10⁵ equal features has a far larger error than one
rounding.
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

# Rows evaluated together: a block and its whitened copy stay in the processor's cache.
BLOCK_ROWS = 4096
# States whose values are stored together, for every member.
BLOCK_STATES = 2**16
NUMBER = np.dtype(np.float64).itemsize
MANY = 32  # from this number of states on, ordering the rows of all states together is faster


@dataclass(frozen=True, eq=False)
class NextStates:
    """A table of distinct states; immutable.

    `rows` (N, d) are the concatenated rows of all states, and `lengths` (J,) the number of rows of
    each. `sums` and `lost` (J, d+2) are Σ(φ, 1, r) of the steps that led to each state and its
    rounding error, and `ended` (2, d+2) has both for the steps that ended an episode.
    """

    _places: dict[bytes, int]  # index of each state, by a digest of its rows
    _sums: PersistentRows
    _lost: PersistentRows  # may be shorter: the rest is 0
    _lengths: PersistentRows
    _rows: PersistentRows
    ended: Floats

    @classmethod
    def none(cls, dim: int, *, width: int | None = None) -> Self:
        """Return an empty table for steps of d+2 numbers and rows of `width` numbers, default d."""
        widths = (dim if width is None else width, dim + 2, dim + 2)
        rows, sums, lost = (PersistentRows(np.zeros((0, n))) for n in widths)
        lengths = PersistentRows(np.zeros(0, np.int64))
        return cls({}, sums, lost, lengths, rows, np.zeros((2, dim + 2)))

    @classmethod
    def from_arrays(
        cls, *, sums: Floats, lost: Floats, lengths: Ints, rows: Floats, ended: Floats
    ) -> Self:
        """Return the states of `to_arrays`, or raise an error if the arrays are inconsistent."""
        if len(lengths) and (lengths.min() < 1 or lengths.max() > len(rows)):
            raise ValueError("a next state must have at least one row")
        if int(lengths.sum()) != len(rows):
            raise ValueError("lengths of next states must add up to the number of rows")
        states, width = row_sets(rows, lengths.tolist()), rows[:1].nbytes
        whole = [len(state) for state in states] == (width * lengths).tolist()
        if not whole or len({*map(_key, states)}) < len(states):
            raise ValueError("next states must be distinct sets of distinct rows")
        none = cls.none(sums.shape[1] - 2, width=rows.shape[1])
        found = NextStates.add(none, sums, states)  # without ends of episodes
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
        """The number of numbers that a change to the sums would copy."""
        return 2 * self.sums.size

    def add(self, steps: Floats, states: list[bytes]) -> Self:
        """Return the table with added steps (n, d+2) and their next states, in order.

        A step is (φ, 1, r), a state its bytes from `row_sets`, with b"" for the end of an episode.
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
        """Return Σ V·(φ, 1, r, V) over the steps, V the value of the next state, as (..., d+3).

        `ended` is the value of the end of an episode.
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
            if lost.any():  # 0 for states reached once
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
    """Pad rows with rows of zeros to this count."""
    if len(rows) == count:
        return rows
    padded = np.zeros((count, rows.shape[1]))
    padded[: len(rows)] = rows
    return padded


def _add_again(total: Floats, lost: Floats, steps: Floats, again: dict[int, list[int]]) -> None:
    """Add steps to existing sums in place: some steps at each place, in order."""
    once = {place: some[0] for place, some in again.items() if len(some) == 1}
    if len(once) > 1:
        _add(total, lost, steps.take([*once.values()], 0), [*once])
    else:
        for place, step in once.items():  # a view is faster than a list of one
            _add(total, lost, steps[step], place)
    for place in again.keys() - once.keys():
        some = steps.take(again[place], 0)
        total[place], lost[place] = add_in_turn(total[place], lost[place], some)


def _add(total: Floats, lost: Floats, addend: Floats, at: Any) -> None:
    """Add to total[at] in place, and the rounding error to lost[at].

    total + lost is the sum with about twice the precision of a float; `at` must not repeat a place.
    """
    before = total[at]
    after = before + addend
    # Knuth's TwoSum: exactly before + addend − after, for any order of magnitude.
    share = after - before
    lost[at] += (before - (after - share)) + (addend - share)
    total[at] = after


def add_in_turn(total: Floats, lost: Floats, addends: Floats) -> tuple[Floats, Floats]:
    """Return total and lost after adding the addends (n, ...) in order.

    An accumulation adds in order, so the result equals adding in turn, bit for bit.
    """
    totals = np.add.accumulate(np.concatenate([total[None], addends]))
    before, after = totals[:-1], totals[1:]
    share = after - before
    rounded_off = (before - (after - share)) + (addends - share)
    return after[-1], np.add.accumulate(np.concatenate([lost[None], rounded_off]))[-1]


def row_sets(rows: Floats, lengths: Sequence[int]) -> list[bytes]:
    """Return canonical bytes of each state: its distinct rows in a canonical order.

    Rows (N, d) are concatenated, by lengths; a state without rows is b"". 0 and −0 are equal.

    >>> one, other = row_sets(np.array([[1.0], [2.0], [2.0], [-0.0], [0.0]]), [2, 3])
    >>> np.frombuffer(one), np.frombuffer(other)
    (array([2., 1.]), array([0., 2.]))
    """
    rows, width = rows + 0.0, NUMBER * rows.shape[1]  # adding 0 turns −0 into 0
    sizes = {*lengths} - {0}
    if len(sizes) == 1 and len(lengths) >= MANY:  # usual: equal numbers of actions
        states = _in_order(rows, width, sizes.pop())
        if states is not None:
            return [next(states) if length else b"" for length in lengths]
    data, sets, end = rows.tobytes(), [], 0
    for length in lengths:
        start, end = end, end + length * width
        sets.append(b"".join(sorted({data[i : i + width] for i in range(start, end, width)})))
    return sets


def _in_order(rows: Floats, width: int, size: int) -> Iterator[bytes] | None:
    """Return states of one size with ordered rows, or None if any row is repeated."""
    ordered = np.sort(rows.view(f"V{width}").reshape(-1, size), axis=1)  # byte by byte
    numbers = ordered.view(np.int64).reshape(len(ordered), size, -1)
    if (numbers[:, 1:] == numbers[:, :-1]).all(axis=2).any():
        return None
    data, length = ordered.tobytes(), size * width
    return (data[i : i + length] for i in range(0, len(data), length))


def state_values(lengths: Ints, rows: Floats, following: QFunction) -> Floats:
    """Return max_a Q (..., J) of states with concatenated rows (N, d), by lengths (J,).

    The rows are evaluated in blocks of whole states; leading axes come from the Q-function.
    """
    values = np.empty((*following.weights.shape[:-1], len(lengths)))
    for some, theirs, starts in visits(lengths, BLOCK_ROWS):
        q_values = following.q_values(np.asarray(rows[theirs]))
        np.maximum.reduceat(q_values, starts, axis=-1, out=values[..., some])
    return values


def visits(lengths: Ints, most: int) -> Iterator[tuple[slice, slice, Ints]]:
    """Yield blocks of whole states with at most `most` rows, or one state with more.

    A block is the slice of its states, the slice of their rows, and the first row of each state,
    counted inside the block.
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
