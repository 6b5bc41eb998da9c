"""Rate limits: a token bucket for each caller."""

import time
from collections import OrderedDict
from collections.abc import Callable

from rareswitch.service.problems import Problem

MOST_CALLERS = 10_000


class Rate:
    """A limit of requests per second for each caller, with bursts of one second's requests.

    >>> rate = Rate(2, clock=lambda: 0.0)
    >>> [rate.wait("ana") == 0.0 for _ in range(3)]
    [True, True, False]
    """

    def __init__(self, per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second, self._clock = per_second, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str, *, places: float = 1.0) -> float:
        """Take places and return 0, or return the seconds until a place is free."""
        now, most = self._clock(), max(1.0, self.per_second)
        left, at = self._buckets.get(caller, (most, now))
        left = min(most, left + (now - at) * self.per_second)
        allowed = left >= 1.0
        self._buckets[caller] = (left - places if allowed else left), now
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self.per_second

    def check(self, caller: str, *, take: bool = True) -> None:
        """Raise if a caller sends too many requests; without `take` do not count this one."""
        if seconds := self.wait(caller, places=1.0 if take else 0.0):
            raise Problem(
                429, f"at most {self.per_second:g} requests per second; wait {seconds:.2g} s",
                code="too-many", retry_after=max(1, round(seconds + 0.5)),
            )  # fmt: skip
