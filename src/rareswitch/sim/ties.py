"""The greedy row of every state at once, with the tie rule of `Policy.act`."""

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.policy import TIE_TOLERANCE
from rareswitch.sim.space import FiniteSpace


def best_rows(values: Floats, top: Floats, space: FiniteSpace, directions: Floats | None) -> Ints:
    """Return the greedy row (M, S) of each state under M vectors of values.

    `values` is (M, N), one for each row of the space, and attains `top` (M, S) in each state. Of
    the rows whose value is at least top − TIE_TOLERANCE, the one whose feature lies furthest along
    the vector's direction (M, d) wins, then the lowest index; without directions, the lowest index.
    """
    count, size = values.shape
    tied = np.flatnonzero(values >= np.repeat(top - TIE_TOLERANCE, space.lengths, axis=1))
    segments = (np.arange(count)[:, None] * size + space.starts).ravel()
    first = np.searchsorted(tied, segments)  # where each segment's ties begin
    if directions is not None and tied.size > segments.size:
        vector, row = np.divmod(tied, size)
        crowded = np.bincount(vector, minlength=count) > space.states
        along = np.zeros(tied.size)
        among = crowded[vector]
        position = np.cumsum(crowded) - 1
        products = np.vecmat(directions[crowded], space.columns)
        along[among] = products[position[vector[among]], row[among]]
        furthest = np.maximum.reduceat(along, first) - TIE_TOLERANCE
        tied = tied[along >= np.repeat(furthest, np.append(first[1:], tied.size) - first)]
        first = np.searchsorted(tied, segments)
    best: Ints = (tied[first] % size).reshape(top.shape)
    return best
