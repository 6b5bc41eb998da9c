"""Persistent data structures: a change returns a new version, and the old version stays valid.

The owner of a version changes atomically: it computes the next version and replaces one attribute.
Versions share memory, so a change to the newest version, the usual case, costs only as much as the
addition; a change to an older version copies. Versions that share memory belong to one thread.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from rareswitch.support.arguments import Floats, Ints

Item = TypeVar("Item")


class PersistentList(Sequence[Item], Generic[Item]):
    """A list with `extend`.

    >>> short = PersistentList([1, 2])
    >>> long, other = short.extend([3]), short.extend([4])
    >>> list(short), list(long), list(other)
    ([1, 2], [1, 2, 3], [1, 2, 4])
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = list(items)  # the first `_count` belong to this version
        self._count = len(self._items)

    def extend(self, items: Sequence[Item]) -> "PersistentList[Item]":
        """Return the list with these items appended."""
        longer: PersistentList[Item] = PersistentList.__new__(PersistentList)
        mine = self._items
        if len(mine) != self._count:  # a later version has appended items
            mine = mine[: self._count]
        longer._items, longer._count = mine, self._count + len(items)
        mine.extend(items)
        return longer

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: Any) -> Any:
        picked = range(self._count)[position]
        return self._items[picked] if isinstance(picked, int) else [self._items[i] for i in picked]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items[: self._count])


class PersistentRows:
    """An array with `extend` for rows; its memory doubles when it is full.

    >>> few = PersistentRows(np.zeros((0, 2)))
    >>> more = few.extend(np.ones((3, 2)))
    >>> few.array.shape, more.array.shape
    ((0, 2), (3, 2))
    """

    def __init__(self, rows: npt.NDArray[Any]) -> None:
        self._memory = _Memory(rows, len(rows))
        self._count = len(rows)

    @property
    def array(self) -> npt.NDArray[Any]:
        return self._memory.rows[: self._count]

    def extend(self, rows: npt.NDArray[Any]) -> "PersistentRows":
        """Return the array with these rows appended."""
        end, memory = self._count + len(rows), self._memory
        if end > len(memory.rows) or memory.used != self._count:
            size = max(2 * self._count, end)
            larger = np.empty((size, *memory.rows.shape[1:]), memory.rows.dtype)
            larger[: self._count] = self.array
            memory = _Memory(larger, self._count)
        memory.rows[self._count : end] = rows
        memory.used = end
        longer = PersistentRows.__new__(PersistentRows)
        longer._memory, longer._count = memory, end
        return longer


class _Memory:
    """Memory shared by versions of an array, with `used` rows in use."""

    def __init__(self, rows: npt.NDArray[Any], used: int) -> None:
        self.rows, self.used = rows, used


class PersistentArray:
    """An array with `put` for rows, at the cost of these rows.

    The newest version stores the array; an older version stores its differences from the next
    version, and makes a copy when it is read.

    >>> old = PersistentArray(np.zeros(3))
    >>> new = old.put([1], [5.0])
    >>> old.array, new.array, new.take([1, 2])
    (array([0., 0., 0.]), array([0., 5., 0.]), array([5., 0.]))
    """

    def __init__(self, array: Floats) -> None:
        self._held: Floats | tuple[PersistentArray, Any, Floats] = array

    def __len__(self) -> int:
        return len(self._own())

    @property
    def array(self) -> Floats:
        """A copy of the array."""
        return self._own().copy()

    def take(self, places: Any) -> Floats:
        """Return the rows at these places."""
        return self._own()[places]

    def put(self, places: Any, rows: Any) -> "PersistentArray":
        """Return the array with these rows at these places, which must be distinct."""
        mine = self._own()
        if not mine.flags.writeable:  # the memory is not ours
            mine = mine.copy()
        newer = PersistentArray(mine)
        # This version is valid from here on, even if the next line does not run.
        self._held = (newer, places, mine[places])
        mine[places] = rows
        return newer

    def _own(self) -> Floats:
        """Return this version's array; an older version makes its own copy."""
        changes: list[tuple[Any, Floats]] = []
        version = self
        while isinstance(version._held, tuple):
            version, places, before = version._held
            changes.append((places, before))
        if not changes:
            return version._held
        mine = version._held.copy()
        for places, before in reversed(changes):
            mine[places] = before
        self._held = mine
        return mine


class PersistentNumbers:
    """A sparse array of numbers with `put`; the cost depends on the places in use.

    The newest version stores all numbers; an older version stores its differences from the next
    version, and makes a copy when it is read.

    >>> old = PersistentNumbers()
    >>> new = old.put([1], [5.0])
    >>> old.array(3), new.array(3), new.take([1, 2])
    (array([0., 0., 0.]), array([0., 5., 0.]), array([5., 0.]))
    >>> new.put([0, 2], [4.0, 0.0]).nonzero()
    (array([0, 1]), array([4., 5.]))
    """

    def __init__(self, numbers: dict[int, float] | None = None) -> None:
        self._held: dict[int, float] | tuple[PersistentNumbers, dict[int, float]]
        self._held = {} if numbers is None else numbers

    @classmethod
    def of_array(cls, array: Floats) -> "PersistentNumbers":
        """Return the numbers of an array (n,)."""
        places = np.flatnonzero(array)
        return cls.at(places, array[places])

    @classmethod
    def at(cls, places: Ints, numbers: Floats) -> "PersistentNumbers":
        """Return these numbers at these places."""
        return cls(dict(zip(places.tolist(), numbers.tolist(), strict=True)))

    def array(self, size: int) -> Floats:
        """Return the numbers at the first places, (size,)."""
        array = np.zeros(size)
        numbers = self._own()
        array[np.fromiter(numbers, np.int64, len(numbers))] = [*numbers.values()]
        return array

    def nonzero(self) -> tuple[Ints, Floats]:
        """Return the ascending places (n,) of all nonzero numbers, and these numbers."""
        numbers = self._own()
        places = np.fromiter(numbers, np.int64, len(numbers))
        values = np.fromiter(numbers.values(), np.float64, len(numbers))
        order = np.argsort(places)
        order = order[values[order] != 0.0]
        return places[order], values[order]

    def take(self, places: Iterable[int]) -> Floats:
        """Return the numbers at these places."""
        numbers = self._own()
        return np.array([*map(numbers.get, places, repeat(0.0))])

    def put(self, places: Sequence[int], numbers: Sequence[float]) -> "PersistentNumbers":
        """Return a version with these numbers at these places."""
        mine = self._own()
        newer = PersistentNumbers(mine)
        before = dict(zip(places, map(mine.get, places, repeat(0.0)), strict=True))
        # This version is valid from here on, even if the next line does not run.
        self._held = (newer, before)
        mine.update(zip(places, numbers, strict=True))
        return newer

    def _own(self) -> dict[int, float]:
        """Return this version's numbers; an older version makes its own copy."""
        changes: list[dict[int, float]] = []
        version = self
        while isinstance(version._held, tuple):
            version, before = version._held
            changes.append(before)
        if not changes:
            return version._held
        mine = dict(version._held)
        for before in reversed(changes):
            mine.update(before)
        self._held = mine
        return mine
