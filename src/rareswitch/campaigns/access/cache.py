"""A cache of principals for one second, so that a known secret needs no query of the store."""

import threading
import time
import weakref
from collections.abc import Callable
from typing import NamedTuple

from rareswitch.campaigns.access.roles import Principal
from rareswitch.campaigns.store import Store

SECONDS = 1.0
MOST = 10_000


class Known(NamedTuple):
    """A principal, and the end of its session or token."""

    principal: Principal
    ends: float


class PrincipalCache:
    """A thread-safe cache of principals by the digest of their secret.

    `clear` also keeps loads in progress out of the cache: a revocation takes effect at once in its
    own process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, Known]] = {}
        self._generation = 0

    def get(self, digest: str, load: Callable[[], Known | None]) -> Known | None:
        """Return the principal of a digest; `load` reads it from the store."""
        if (found := self.peek(digest)) is not None:
            return found
        began, generation = time.monotonic(), self._generation
        known = load()
        with self._lock:
            if known is not None and generation == self._generation:
                if len(self._known) >= MOST:
                    self._known.clear()
                self._known[digest] = began, known
        return known

    def peek(self, digest: str) -> Known | None:
        """Return the principal of a digest if it is cached, without a query of the store."""
        found = self._known.get(digest)
        return found[1] if found is not None and time.monotonic() - found[0] < SECONDS else None

    def clear(self) -> None:
        with self._lock:
            self._generation += 1
            self._known.clear()


_CACHES: "weakref.WeakKeyDictionary[Store, PrincipalCache]" = weakref.WeakKeyDictionary()
_MAKING = threading.Lock()


def cache_of(store: Store) -> PrincipalCache:
    """Return the cache that all users of an open store share."""
    with _MAKING:
        return _CACHES.setdefault(store, PrincipalCache())
