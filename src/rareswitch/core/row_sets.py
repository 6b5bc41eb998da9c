"""States as what they are: each the set of the feature rows of its feasible actions."""

from collections.abc import Iterator, Sequence

import numpy as np

from rareswitch.core.arguments import Floats

NUMBER = np.dtype(np.float64).itemsize
MANY = 32  # states, from which on it pays to order the rows of all at once


def row_sets(rows: Floats, lengths: Sequence[int]) -> list[bytes]:
    """Return each state's distinct rows as bytes, in an order that depends on the set alone.

    Rows (N, d) stand end to end, by lengths; a state without rows is b"". 0 and −0 are the same.

    >>> one, other = row_sets(np.array([[1.0], [2.0], [2.0], [-0.0], [0.0]]), [2, 3])
    >>> np.frombuffer(one), np.frombuffer(other)
    (array([2., 1.]), array([0., 2.]))
    """
    rows, width = rows + 0.0, NUMBER * rows.shape[1]  # adding 0 makes −0 into 0
    sizes = {*lengths} - {0}
    if len(sizes) == 1 and len(lengths) >= MANY:  # most worlds have as many actions everywhere
        states = _ordered(rows, width, sizes.pop())
        if states is not None:
            return [next(states) if length else b"" for length in lengths]
    data, sets, end = rows.tobytes(), [], 0
    for length in lengths:
        start, end = end, end + length * width
        sets.append(b"".join(sorted({data[i : i + width] for i in range(start, end, width)})))
    return sets


def _ordered(rows: Floats, width: int, size: int) -> Iterator[bytes] | None:
    """Give states of one size with their rows in order; None, if any row is repeated."""
    ordered = np.sort(rows.view(f"V{width}").reshape(-1, size), axis=1)  # byte by byte
    numbers = ordered.view(np.int64).reshape(len(ordered), size, -1)
    if (numbers[:, 1:] == numbers[:, :-1]).all(axis=2).any():
        return None
    data, length = ordered.tobytes(), size * width
    return (data[i : i + length] for i in range(0, len(data), length))
