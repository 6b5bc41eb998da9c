"""Names and texts: safe in a path, an address, a table and a log, and one person under one name."""

import re
import unicodedata
from typing import Any

MOST_CHARACTERS = 200
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_:@+=-]|\.(?!\.))*")
DIGEST = re.compile(r"[0-9a-f]{64}")
ENGINE, SCHEDULE = "engine", "schedule"  # who stops by a rule, and who proposes what is due
NOBODY = (ENGINE, SCHEDULE)
# Control, format (zero width, bidirectional), surrogate, private and unassigned characters, and
# the separators of lines and paragraphs.
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Letters of other scripts, and digits, that look like these Latin letters.
ALIKE = str.maketrans(
    "авсԁеɡһніјкӏмոпоргѕтсуԛԝхзαβεικνορτυχωηγօս01",
    "abcdeghhijklmnnoprstcyqwxzabeikvoptuxwnyouol",
)


def checked_name(what: str, value: Any) -> str:
    """Return a name of ASCII letters, digits and . _ : @ + = - that begins with a letter or digit.

    >>> checked_name("episode_id", "site-3:0042")
    'site-3:0042'
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text; got {_short(value)}")
    if len(value) > MOST_CHARACTERS or not NAME.fullmatch(value):
        raise ValueError(
            f"{what} must be 1 to {MOST_CHARACTERS} letters, digits or . _ : @ + = - (no two dots "
            f"in a row), beginning with a letter or a digit; got {_short(value)}"
        )
    return value


def checked_text(what: str, value: Any, *, most: int = 10_000) -> str:
    """Return a text of one line in Unicode's NFKC form, without invisible characters.

    >>> checked_text("actor", "Ａna")
    'Ana'
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text; got {_short(value)}")
    if value.isascii() and value.isprintable():
        text = value
    else:
        if any(unicodedata.category(character) in INVISIBLE for character in value):
            raise ValueError(
                f"{what} must be one line without control, format or other invisible characters; "
                f"got {_short(value)}"
            )
        text = unicodedata.normalize("NFKC", value)
    if not text.strip():
        raise ValueError(f"{what} must not be empty; got {_short(value)}")
    if len(text) > most:
        raise ValueError(f"{what} must have at most {most} characters; got {len(text)}")
    return text


def checked_person(what: str, value: Any) -> str:
    """Return the name of a person who signs, with single spaces; the engine is no person.

    >>> checked_person("by", " Ana  Ruiz")
    'Ana Ruiz'
    """
    name = " ".join(checked_text(what, value, most=MOST_CHARACTERS).split())
    if not (key := person_key(name)):
        raise ValueError(f"{what} must have letters or digits; got {_short(value)}")
    if key in NOBODY:
        raise ValueError(f"{what} must be a person: {key} signs nothing; got {_short(value)}")
    return name


def person_key(name: str) -> str:
    """Return a key that two spellings of one name share.

    Case, accents, spaces, punctuation and letters that look alike make no other person.

    >>> {person_key(name) for name in ("Ana", "a na.", "аna", "Aná")}
    {'ana'}
    """
    plain = unicodedata.normalize("NFKD", name).casefold()
    plain = unicodedata.normalize("NFKD", plain)
    return "".join(filter(str.isalnum, plain)).translate(ALIKE)


def same_person(one: str, other: str) -> bool:
    """Return whether two signatures are of one person.

    >>> same_person("Ana ", "ana"), same_person("ana", "ben")
    (True, False)
    """
    return person_key(one) == person_key(other)


def checked_digest(what: str, value: Any) -> str:
    """Return a SHA-256 in hexadecimal."""
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise ValueError(f"{what} must be a SHA-256, 64 digits 0-9a-f; got {_short(value)}")
    return value


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
