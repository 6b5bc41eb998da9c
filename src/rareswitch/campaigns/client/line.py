"""The connection to the server, with exponential backoff after failures."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

FIRST, LONGEST = 1.0, 300.0  # seconds


def time_of_day() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The clocks of a client: `clock` counts seconds, `now` is the time for people to read.

    `chance` is a random number from 0 to 1.
    """

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], str] = time_of_day
    chance: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep


class Line:
    """Counts consecutive failures; the wait doubles with each, up to five minutes.

    Half of the wait is random, so that devices do not all return to the server together.

    >>> line = Line(Timing(clock=lambda: 100.0, chance=lambda: 0.5))
    >>> for _ in range(3): line.failed("no route")
    >>> line.wait, line.failures
    (3.0, 3)
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._until = 0.0
        self.failures = 0
        self.error: str | None = None

    def failed(self, error: str, after: float | None = None) -> None:
        """Count a failure; `after` is the server's least wait in seconds."""
        doubled = FIRST * 2.0 ** min(self.failures, 30)
        wait = min(doubled, LONGEST) * (0.5 + 0.5 * self._timing.chance())
        self.failures, self.error = self.failures + 1, error
        self._until = self._timing.clock() + max(wait, after or 0.0)

    def worked(self) -> None:
        self.failures, self.error, self._until = 0, None, 0.0

    @property
    def wait(self) -> float:
        """The seconds until the next attempt; 0 if it is allowed now."""
        return max(0.0, self._until - self._timing.clock()) if self.failures else 0.0
