"""One thing that was checked, and what is wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rareswitch.campaigns.errors import DamagedError, NotAllowedError

Said = Callable[[str, int, int], None]  # what is being checked, how far it is, and of how much

# What comes of rows that nobody wrote in good faith; a store that cannot be read is none of it.
NONSENSE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    NotAllowedError,
    DamagedError,
)


@dataclass(kw_only=True)
class Check:
    """A check of so many rows, with all its problems, and remarks on what was found right."""

    name: str
    rows: int = 0
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def words(error: BaseException) -> str:
    """Return what went wrong, with the kind of error: that of a missing key says little else."""
    return f"{type(error).__name__}: {error}"
