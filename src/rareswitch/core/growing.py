"""An array that grows along its first axis."""

from typing import Any

import numpy as np
import numpy.typing as npt


class Growing:
    """An array whose room doubles, so that growing costs O(1) a row; `count` rows are in use.

    >>> grown = Growing(np.zeros((0, 2)))
    >>> grown.extend(np.ones((3, 2)))
    >>> grown.array.shape
    (3, 2)
    """

    def __init__(self, empty: npt.NDArray[Any]) -> None:
        self._room = empty
        self.count = 0

    @property
    def array(self) -> npt.NDArray[Any]:
        return self._room[: self.count]

    def extend(self, rows: npt.NDArray[Any]) -> None:
        end = self.count + len(rows)
        if end > len(self._room):
            room = np.empty((max(2 * len(self._room), end), *self._room.shape[1:]), rows.dtype)
            room[: self.count] = self.array
            self._room = room
        self._room[self.count : end] = rows
        self.count = end
