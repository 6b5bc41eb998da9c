"""States as what they are: each the set of the feature rows of its feasible actions."""

from collections.abc import Iterable

import numpy as np

from rareswitch.core.arguments import Floats

NUMBER = np.dtype(np.float64).itemsize


def row_sets(rows: Floats, lengths: Iterable[int]) -> list[bytes]:
    """Return each state's distinct rows as bytes, in an order that depends on the set alone.

    Rows (N, d) stand end to end, by lengths; a state without rows is b"". 0 and −0 are the same.

    >>> one, other = row_sets(np.array([[1.0], [2.0], [2.0], [-0.0], [0.0]]), [2, 3])
    >>> np.frombuffer(one), np.frombuffer(other)
    (array([2., 1.]), array([0., 2.]))
    """
    data, width = (rows + 0.0).tobytes(), NUMBER * rows.shape[1]  # adding 0 makes −0 into 0
    sets, end = [], 0
    for length in lengths:
        start, end = end, end + length * width
        sets.append(b"".join(sorted({data[i : i + width] for i in range(start, end, width)})))
    return sets
