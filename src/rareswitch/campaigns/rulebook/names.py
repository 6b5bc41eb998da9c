"""Names and texts that are safe in paths, URLs, tables and logs; one key for each person."""

import re
import unicodedata
from typing import Any

from rareswitch.support.arguments import short_repr

MOST_CHARACTERS = 200
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_:@+=-]|\.(?!\.))*")
DIGEST = re.compile(r"[0-9a-f]{64}")
ENGINE, SCHEDULE = "engine", "schedule"  # actors: stops by a rule; proposes due policies
NOBODY = (ENGINE, SCHEDULE)
# Control, format (zero width, bidirectional), surrogate, private and unassigned characters, and
# the separators of lines and paragraphs.
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Characters that look blank: the fillers of Hangul, and Braille without dots.
BLANK = "\u115f\u1160\u3164\uffa0\u2800"
# Characters that look like these Latin letters: other scripts, rare letters and digits.
ALIKE = str.maketrans(
    "авсԁеɡһніјкӏмոпоргѕтсуԛԝхзαβεικνορτυχωηγօսɑıȷᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢ01",
    "abcdeghhijklmnnoprstcyqwxzabeikvoptuxwnyouaijabcdeghijklmnoprtuvwyzol",
)


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


def checked_text(what: str, value: Any, *, most: int = 10_000) -> str:
    """Return a text of one line in Unicode's NFKC form, without invisible characters.

    >>> checked_text("actor", "Ａna")
    'Ana'
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text; got {short_repr(value)}")
    if value.isascii() and value.isprintable():
        text = value
    else:
        if any(unicodedata.category(sign) in INVISIBLE or sign in BLANK for sign in value):
            raise ValueError(
                f"{what} must be one line without control, format or other invisible characters; "
                f"got {short_repr(value)}"
            )
        text = unicodedata.normalize("NFKC", value)
    if not text.strip():
        raise ValueError(f"{what} must not be empty; got {short_repr(value)}")
    if len(text) > most:
        raise ValueError(f"{what} must have at most {most} characters; got {len(text)}")
    return text


def checked_names(what: str, given: Any) -> tuple[str, ...]:
    """Return a list of distinct texts that neither begin nor end with a space."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"{what} must be a list of names; got {short_repr(given)}")
    seen = set[str]()
    for name in given:
        if checked_text(what, name, most=MOST_CHARACTERS) and name != name.strip():
            raise ValueError(f"{what} must not begin or end with a space; got {name!r}")
        if name in seen:
            raise ValueError(f"{what} must be distinct names; got {name!r} twice")
        seen.add(name)
    return tuple(given)


def checked_person(what: str, value: Any) -> str:
    """Return the name of a signer, with single spaces; engine and schedule are not persons.

    >>> checked_person("by", " Ana  Ruiz")
    'Ana Ruiz'
    """
    name = " ".join(checked_text(what, value, most=MOST_CHARACTERS).split())
    if not (key := person_key(name)):
        raise ValueError(f"{what} must have letters or digits; got {short_repr(value)}")
    if key in NOBODY:
        raise ValueError(f"{what} must be a person: {key} signs nothing; got {short_repr(value)}")
    if not name.isascii() and any(
        "LATIN" in (of := _scripts(word)) and len(of) > 1 for word in name.split()
    ):
        raise ValueError(
            f"{what} must not mix Latin letters with those of another script in one word; got "
            f"{short_repr(value)}"
        )
    return name


def _scripts(word: str) -> set[str]:
    """Return the scripts of a word's letters, from the letters' Unicode names."""
    letters = [sign for sign in word if unicodedata.category(sign) in ("Ll", "Lo", "Lt", "Lu")]
    return {unicodedata.name(letter, "").partition(" ")[0] for letter in letters}


def person_key(name: str) -> str:
    """Return a key that all spellings of one name share.

    Case, accents, spaces, punctuation and similar letters do not change it.

    >>> {person_key(name) for name in ("Ana", "a na.", "аna", "Aná")}
    {'ana'}
    """
    plain = unicodedata.normalize("NFKD", name).casefold()
    plain = unicodedata.normalize("NFKD", plain)
    # A modifier letter looks like an apostrophe or an accent.
    kept = [sign for sign in plain if sign.isalnum() and unicodedata.category(sign) != "Lm"]
    return "".join(kept).translate(ALIKE)


def same_person(one: str, other: str) -> bool:
    """Return whether two names are of one person.

    >>> same_person("Ana ", "ana"), same_person("ana", "ben")
    (True, False)
    """
    return person_key(one) == person_key(other)


def checked_digest(what: str, value: Any) -> str:
    """Return a SHA-256 in hexadecimal."""
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise ValueError(f"{what} must be a SHA-256, 64 digits 0-9a-f; got {short_repr(value)}")
    return value
