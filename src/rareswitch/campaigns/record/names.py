"""What things may be called: names that are safe in a path, an address, a table and a log."""

import re
from typing import Any

from rareswitch.support.arguments import short_repr

MOST_CHARACTERS = 200
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_:@+=-]|\.(?!\.))*")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]")  # and what is no character at all
DIGEST = re.compile(r"[0-9a-f]{64}")


def checked_name(what: str, value: Any) -> str:
    """Return a name of ASCII letters, digits and . _ : @ + = - that begins with a letter or digit.

    >>> checked_name("episode_id", "site-3:0042")
    'site-3:0042'
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text; got {short_repr(value)}")
    if len(value) > MOST_CHARACTERS or not NAME.fullmatch(value):
        raise ValueError(
            f"{what} must be 1 to {MOST_CHARACTERS} letters, digits or . _ : @ + = - (no two dots "
            f"in a row), beginning with a letter or a digit; got {short_repr(value)}"
        )
    return value


def checked_text(what: str, value: Any, *, most: int = 10_000, empty: bool = False) -> str:
    """Return a text for people, without control characters other than the end of a line."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text; got {short_repr(value)}")
    if not value.strip() and not empty:
        raise ValueError(f"{what} must say something; got {short_repr(value)}")
    if len(value) > most:
        raise ValueError(f"{what} must have at most {most} characters; got {len(value)}")
    if CONTROL.search(value):
        raise ValueError(f"{what} must have no control characters; got {short_repr(value)}")
    return value


def same_person(one: str, other: str) -> bool:
    """Return whether two signatures are of one person, however they are typed.

    >>> same_person("Ana ", "ana")
    True
    """
    return one.strip().casefold() == other.strip().casefold()


def checked_digest(what: str, value: Any) -> str:
    """Return a SHA-256 in hexadecimal."""
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise ValueError(f"{what} must be a SHA-256, 64 digits 0-9a-f; got {short_repr(value)}")
    return value
