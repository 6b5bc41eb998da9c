"""Many episodes at once under frozen policies, and how they make the determinants grow.

Noise is indexed by (episode, stage), so episodes rolled out ahead of time and then dropped
consume no randomness.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.support.arguments import Floats, Ints

# Cells of which every episode's sums are kept.
MOST_SUMMED = 16


def rollout(
    limits: Floats,
    initial: Ints,
    noise: Floats,
    member: Ints | Callable[[int, Ints], Ints] | None = None,
) -> Ints:
    """Return the states (R, L, H+1) of L episodes of R runs.

    `limits` (R, H, C, S−1) are the thresholds of the next state from each cell, a state to one
    member of the run's policy; `initial` (R, L) states, `noise` (R, L, H) uniforms, `member` (R, L)
    who plays, where there are more than one, or a function of stage and states (R, L).
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
    """How often each cell was visited in the first episodes of each run, cells (R, L, H) of C.

    Of few cells sums are kept for every episode; many are counted when they are asked for.
    """

    def __init__(self, cells: Ints, count: int) -> None:
        self._cells, self._count = cells, count
        self._sums: npt.NDArray[np.int32] | None = None
        if count <= MOST_SUMMED:
            here = cells[..., None] == np.arange(count)
            self._sums = np.cumsum(here, axis=1, dtype=np.int32)

    def until(self, runs: Ints, last: Ints) -> Ints:
        """Return the visits (n, H, C) of these runs in their episodes up to `last` (n,), counted
        from 0.
        """
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
