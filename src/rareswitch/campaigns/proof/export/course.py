"""How a campaign went, in as many points as a picture shows."""

from datetime import datetime
from typing import Any, NamedTuple

MOST_POINTS = 80


class Stretch(NamedTuple):
    """Some rows of the log in a row: where they end, their mean return, and when that was."""

    seq: int
    mean: float
    at: datetime | None


class Course:
    """Means of returns over stretches of equal length; corrections are passed over."""

    def __init__(self, rows: int) -> None:
        self.stretches: list[Stretch] = []
        self._length = max(1, -(-rows // MOST_POINTS))
        self._rows, self._totals = rows, list[float]()

    def add(self, row: Any) -> None:
        """Take a row of the log."""
        if not row.revision:
            self._totals.append(row.total)
        if self._totals and (row.seq % self._length == 0 or row.seq == self._rows):
            mean = sum(self._totals) / len(self._totals)
            self.stretches.append(Stretch(row.seq, mean, moment_of(row.received)))
            self._totals = []


def moment_of(text: str) -> datetime | None:
    """Return a time that a clock told, if it told one."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
