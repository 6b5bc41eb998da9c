"""Words for numbers; needs the standard library only."""


def plural(number: int, noun: str, several: str = "") -> str:
    """Return a number with its noun.

    >>> plural(1, "episode"), plural(3, "entry", "entries")
    ('1 episode', '3 entries')
    """
    return f"{number} {noun if number == 1 else several or noun + 's'}"
