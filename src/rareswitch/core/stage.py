"""Q of one stage, which a backward pass makes and statistics value next states by."""

from typing import NamedTuple

import numpy as np

from rareswitch.core.arguments import Floats, Rows


class Stage(NamedTuple):
    """Q of one stage, as a function of feature rows; `cap` is H−h, or None for no clip.

    Leading axes are free: runs, members, both or none. Rows are (n, d), or, where they are one-hot,
    the positions (n,) of their ones; W is then diagonal, and given by its diagonal.
    """

    weights: Floats  # (..., d)
    levels: Floats | None  # (...)
    whitener: Floats | None  # (..., d, d) or (..., d)
    beta: float
    offsets: Floats | None  # (..., J, d)
    cap: float | None

    def q_values(self, rows: Rows) -> Floats:
        """Return min{l + φᵀw + β‖Wφ‖ + max_j φᵀo_j, cap}⁺ of n rows, as (..., n).

        Alg. 1, lines 9–10.
        """
        values = along(self.weights, rows)
        if self.levels is not None:
            values = values + self.levels[..., None]
        if self.beta and self.whitener is not None:
            values = values + self.beta * _lengths(self.whitener, rows)
        if self.offsets is not None:
            values = values + along(self.offsets, rows).max(axis=-2)
        return values if self.cap is None else clipped(values, self.cap)

    def of(self, run: int) -> "Stage":
        """Return Q of one run, where the first axis is of runs."""
        levels, whitener, offsets = (
            None if array is None else array[run]
            for array in (self.levels, self.whitener, self.offsets)
        )
        return Stage(self.weights[run], levels, whitener, self.beta, offsets, self.cap)


def along(directions: Floats, rows: Rows) -> Floats:
    """Return the products (..., n) of directions (..., d) with n rows."""
    found: Floats = directions[..., rows] if rows.ndim == 1 else directions @ rows.T
    return found


def _lengths(whitener: Floats, rows: Rows) -> Floats:
    """Return ‖Wφ‖ (..., n) of n rows."""
    if rows.ndim == 1:
        return whitener[..., rows]
    whitened = rows @ whitener.mT
    return np.sqrt(np.vecdot(whitened, whitened))


def clipped(values: Floats, cap: float | Floats) -> Floats:
    """Return min{values, cap}⁺ (Alg. 1, line 10), in place."""
    np.minimum(values, cap, out=values)
    return np.maximum(values, 0.0, out=values)
