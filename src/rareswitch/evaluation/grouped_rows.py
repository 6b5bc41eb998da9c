"""Rows of features, grouped by their nonzero columns, so that products skip all others."""

from typing import Any

import numpy as np

from rareswitch.support.arguments import Floats, Ints, Rows

# With more groups, calls cost more than skipped zeros save.
MOST_GROUPS = 64


class GroupedRows:
    """Rows (n, d), or the positions (n,) of one-hot rows, ready for products.

    The rows of an action often use their own block of columns, so rows with the same columns are
    multiplied together, without the other columns.
    """

    def __init__(self, rows: Rows) -> None:
        self.one_hot, self._rows = rows.ndim == 1, rows
        self._groups: list[tuple[Any, Any, Rows]] = []
        if self.one_hot:
            return
        used = rows != 0.0
        places: dict[bytes, list[int]] = {}
        for place, pattern in enumerate(np.packbits(used, axis=1)):
            places.setdefault(pattern.tobytes(), []).append(place)
        if len(places) > MOST_GROUPS or 2 * np.count_nonzero(used) > used.size:
            self._groups = [(slice(None), slice(None), rows)]
            return
        for group in map(np.array, places.values()):
            columns = np.flatnonzero(used[group[0]])
            block = np.ascontiguousarray(rows[group][:, columns])
            self._groups.append((group, _as_slice(columns), block))

    def __matmul__(self, weights: Floats) -> Floats:
        """Return the product of the rows with weights (d, M), as (n, M)."""
        if self.one_hot:
            return weights[self._rows]
        values = np.zeros((len(self._rows), weights.shape[1]))
        for places, columns, block in self._groups:
            values[places] = block @ weights[columns]
        return values

    def sums(self, targets: Floats, dim: int) -> Floats:
        """Return the sums of rows times targets (n, M), as (d, M)."""
        sums = np.zeros((dim, targets.shape[1]))
        if self.one_hot:
            np.add.at(sums, self._rows, targets)
        for places, columns, block in self._groups:
            sums[columns] += block.T @ targets[places]
        return sums

    def gram(self, dim: int) -> Floats:
        """Return Σφφᵀ (d, d), or its diagonal (d,) for one-hot rows."""
        if self.one_hot:
            return np.bincount(self._rows, minlength=dim).astype(np.float64)
        return self._rows.T @ self._rows


def _as_slice(columns: Ints) -> Any:
    """Return adjacent columns as a slice, which selects without a copy."""
    if len(columns) and columns[-1] - columns[0] + 1 == len(columns):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns
