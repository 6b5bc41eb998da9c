"""One thing that was checked, and what is wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass, field

Said = Callable[[str, int, int], None]  # what is being checked, how far it is, and of how much


@dataclass(kw_only=True)
class Check:
    """A check of so many rows, with all its problems, and remarks on what was found right."""

    name: str
    rows: int = 0
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
