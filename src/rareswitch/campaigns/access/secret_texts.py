"""Secrets that are shown once: creating, reading, and comparing in constant time.

A secret is `prefix_id_random`. The store finds it by its id and keeps only its SHA-256.
"""

import hashlib
import hmac
import re
import secrets
from typing import Any, NamedTuple

TOKEN, SESSION, INVITATION = "rsw", "rss", "rsi"
PUBLIC_PART = 20  # characters of a secret that hold its prefix and its id
_SHAPE = re.compile(r"(rsw|rss|rsi)_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")


class SecretText(NamedTuple):
    """The id and the SHA-256 of a secret."""

    id: str
    digest: str

    def matches(self, digest: str) -> bool:
        """Compare with a stored SHA-256 in constant time."""
        return hmac.compare_digest(self.digest, digest)


def new_secret(prefix: str) -> tuple[str, SecretText]:
    """Return a new secret, and its id and digest for the store."""
    text = f"{prefix}_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"
    found = read_secret(prefix, text)
    assert found is not None
    return text, found


def read_secret(prefix: str, text: Any) -> SecretText | None:
    """Return the id and digest of a secret; None if the text is not a secret."""
    shape = _SHAPE.fullmatch(text) if isinstance(text, str) else None
    if shape is None or shape[1] != prefix:
        return None
    return SecretText(shape[2], hashlib.sha256(text.encode()).hexdigest())


def csrf_of(session: str) -> str:
    """Return the CSRF token of a session, derived from its secret and not stored."""
    return hmac.new(session.encode(), b"rareswitch csrf", hashlib.sha256).hexdigest()


def same_csrf(session: str, given: Any) -> bool:
    """Return whether a text is the CSRF token of a session."""
    return isinstance(given, str) and hmac.compare_digest(csrf_of(session).encode(), given.encode())
