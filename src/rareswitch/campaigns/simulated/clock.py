"""The time of day in a simulated campaign: an hour a tick, the same whenever it is simulated."""

from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class SimulatedClock:
    """A clock that stands still until it is moved to another `tick`.

    >>> clock = SimulatedClock()
    >>> clock.tick = 25
    >>> clock()
    '2026-01-02T01:00:00.000+00:00'
    >>> clock.tick_after(clock())
    25
    """

    def __init__(self) -> None:
        self.tick = 0

    def __call__(self) -> str:
        return self.at(self.tick)

    def at(self, tick: int) -> str:
        """Return the time at a tick."""
        return (BEGIN + tick * HOUR).isoformat(timespec="milliseconds")

    def tick_after(self, text: str) -> int:
        """Return the first tick that is not before a time."""
        return -((BEGIN - datetime.fromisoformat(text)) // HOUR)
