"""Passwords: the rules for new passwords, and argon2id hashes.

The rules follow NIST SP 800-63B: a least length and a list of common passwords, but no rules about
kinds of characters.
"""

import hmac
import os
import secrets
import threading
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any

from rareswitch.campaigns.rulebook.names import person_key
from rareswitch.support.extras import require

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LEAST_CHARACTERS = 12
MOST_BYTES = 1024
# One of the settings that OWASP recommends for argon2id: 46 MiB, one pass, one lane.
MEMORY_KIB, PASSES, LANES = 47_104, 1, 1
# Limits parallel hashing, so that many sign-ins cannot use up all memory.
_TOGETHER = threading.BoundedSemaphore(max(2, os.cpu_count() or 1))
# The commonest passwords of twelve characters or more in published lists; compared without case.
COMMON = frozenset(
    """
    000000000000 111111111111 123123123123 123456123456 123456789012 1234567890123
    12345678901234 123456789123 1234567891011 123456789abc 1234567890qwe
    1234qwerasdf 1q2w3e4r5t6y 1q2w3e4r5t6y7u 1qaz2wsx3edc 1qaz2wsx3edc4rfv 987654321098
    abc123456789 abcd12345678 abcdefghijkl abcdefghijklm administrator administrator1
    administrator123 asdfghjkl123 changeme1234 changemenow1 correcthorsebatterystaple
    defaultpassword iloveyou1234 iloveyou12345 letmein12345 letmein123456 passw0rd1234
    passwordpassword password1234 password12345 password123456 password1234567
    password12345678 password123456789 password2024 password2025 password2026
    p@ssw0rd1234 p@ssword1234 q1w2e3r4t5y6 qazwsxedcrfv qwerty123456 qwerty1234567
    qwerty12345678 qwertyqwerty qwertyuiop12 qwertyuiop123 qwertyuiop1234 qwertyuiopasdf
    rareswitch123 rareswitch1234 rareswitchrareswitch thisisapassword unknownpassword
    welcome12345 welcome123456 zaq12wsxcde3 zaq1zaq1zaq1
    """.split()  # noqa: SIM905
)


def checked_password(password: Any, *, name: str) -> str:
    """Return a valid new password in Unicode's NFKC form; an error never shows it."""
    if not isinstance(password, str):
        raise TypeError(f"password must be a text; got {type(password).__name__}")
    allowed = f"password must have {LEAST_CHARACTERS} characters or more"
    text = normal_form(password)
    if text is None:
        raise ValueError(f"password must have at most {MOST_BYTES} bytes of Unicode text; got more")
    if len(text) < LEAST_CHARACTERS:
        raise ValueError(f"{allowed}; got {len(text)}")
    folded = text.casefold()
    if folded in COMMON or len({*folded}) < 4:
        raise ValueError("password must not be one of the commonest; use several words of your own")
    own = person_key(name)
    if person_key(text) in (own, own * 2):
        raise ValueError("password must not be the name itself")
    return text


def password_hash(password: str) -> str:
    """Return the argon2id hash of a checked password, with its settings and salt."""
    text = normal_form(password)
    assert text is not None
    with _TOGETHER:
        return _hasher().hash(text)


def password_matches(stored: str | None, password: Any) -> bool:
    """Return whether a password matches a stored hash; without a hash, do the same work."""
    from argon2.exceptions import VerificationError

    text = normal_form(password) if isinstance(password, str) else None
    usable = stored is not None and text is not None
    with _TOGETHER:
        decoy = _decoy()
        try:
            _hasher().verify(stored or decoy, text or "")
        except (VerificationError, ValueError):  # wrong, or not a hash
            return False
    return usable


def is_outdated(stored: str) -> bool:
    """Return whether a hash was made with outdated settings."""
    return _hasher().check_needs_rehash(stored)


def same_hash(one: str | None, other: str | None) -> bool:
    """Return whether two stored hashes are equal."""
    return one is not None and other is not None and hmac.compare_digest(one, other)


def normal_form(password: str) -> str | None:
    """Return the NFKC form of a password; None if it is too long or is not Unicode text."""
    try:
        if len(password.encode()) > MOST_BYTES:
            return None
        text = unicodedata.normalize("NFKC", password)
        return text if len(text.encode()) <= MOST_BYTES else None
    except UnicodeEncodeError:  # half of a surrogate pair
        return None


@cache
def _hasher() -> "PasswordHasher":
    require("service")
    from argon2 import PasswordHasher, Type

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES, type=Type.ID)


@cache
def _decoy() -> str:
    """Return the hash of a password that nobody knows."""
    return _hasher().hash(secrets.token_urlsafe(32))
