"""Roll out many episodes at once under frozen policies, and compute the growth of determinants.

Noise is indexed by (episode, stage), so discarded look-ahead episodes consume no randomness.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.support.arguments import Floats, Ints

# Up to this number of cells, `Visits` keeps the sums after every episode.
MOST_SUMMED = 16


def rollout(
    limits: Floats,
    initial: Ints,
    noise: Floats,
    member: Ints | Callable[[int, Ints], Ints] | None = None,
) -> Ints:
    """Return the states (R, L, H+1) of L episodes of R runs.

    `limits` (R, H, C, S−1) are the thresholds of the next state from each cell; a cell is a pair of
    a member and a state. `initial` (R, L) are states, `noise` (R, L, H) uniforms, and `member`
    (R, L) the playing members of a mixture, or a function of stage and states (R, L).
    """
    runs, length, horizon = noise.shape
    states = np.empty((runs, length, horizon + 1), np.int64)
    states[:, :, 0] = initial
    cells, count = limits.shape[-2], limits.shape[-1] + 1
    first = np.arange(runs)[:, None] * cells  # where a run's cells begin, and a member's
    seat = member if callable(member) else None
    if member is not None and seat is None:
        first = first + member * count
    by_stage = limits.swapaxes(0, 1).reshape(horizon, runs * cells, count - 1)
    for h in range(horizon):
        now = states[:, :, h]
        here = first + now if seat is None else first + now + seat(h, now) * count
        passed = by_stage[h].take(here, axis=0) <= noise[:, :, h, None]
        states[:, :, h + 1] = passed.sum(axis=-1)
    return states


def logdet_growth(whitened: Floats, visits: npt.NDArray[Any]) -> Floats:
    """Return by how much log det Λ_h grows when each cell c is visited visits[c] times.

    `whitened` (..., H, C, d), `visits` (..., H, C): log det(I + Σ_c n_c·Wφ_c(Wφ_c)ᵀ), in whichever
    of C and d is smaller (Sylvester's identity).
    """
    scaled = whitened * np.sqrt(visits)[..., None]
    cells, dim = scaled.shape[-2:]
    product = scaled @ scaled.mT if cells < dim else scaled.mT @ scaled
    growth: Floats = np.linalg.slogdet(np.eye(min(cells, dim)) + product)[1]
    return growth


class Visits:
    """The visits of each of C cells in the first episodes of each run, given cells (R, L, H)."""

    def __init__(self, cells: Ints, count: int) -> None:
        self._cells, self._count = cells, count
        self._sums: npt.NDArray[np.int32] | None = None
        if count <= MOST_SUMMED:
            here = cells[..., None] == np.arange(count)
            self._sums = np.cumsum(here, axis=1, dtype=np.int32)

    def until(self, runs: Ints, last: Ints) -> Ints:
        """Return the visits (n, H, C) of these runs in episodes 0 … `last` (n,)."""
        if self._sums is not None:
            return self._sums[runs, last].astype(np.int64)
        longest = int(last.max()) + 1
        run, episode = np.nonzero(np.arange(longest) <= last[:, None])
        shape = (len(runs), self._cells.shape[2], self._count)
        visited = self._cells[runs[run], episode]
        places = np.ravel_multi_index((run[:, None], np.arange(shape[1]), visited), shape)
        return np.bincount(places.ravel(), minlength=int(np.prod(shape))).reshape(shape)


def count_moves(run: Ints, cells: Ints, states: Ints, shape: tuple[int, int, int, int]) -> Floats:
    """Count the moves (R, H, C, S) from cells (n, H) to states (n, H) of episodes of these runs."""
    stage = np.arange(shape[1])
    moves = np.ravel_multi_index((run[:, None], stage, cells, states), shape)
    return np.bincount(moves.ravel(), minlength=int(np.prod(shape))).reshape(shape).astype(float)
