"""Checks of a record and their problems, errors of altered rows, and checks of chains.

Every row of a chain is linked to the row before, and to the later entries of the ledger.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rareswitch.campaigns.errors import ConflictError, DamagedError, NotAllowedError
from rareswitch.campaigns.rulebook.rows import GENESIS, NUMBERS, Entry, Head, link_of

Progress = Callable[[str, int, int], None]  # the check or file, its finished rows, all its rows
Marks = Mapping[int, Sequence[tuple[str, str]]]

# Errors of altered rows; an unreadable store is not among them.
ALTERED = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError,
    RecursionError, MemoryError, NotAllowedError, ConflictError, DamagedError,
)  # fmt: skip


@dataclass(kw_only=True)
class Check:
    """A check of rows: its problems, its remarks, and the parts that were not checked."""

    name: str
    rows: int = 0
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def fail(self, problem: str) -> None:
        self.problems.append(problem)

    @property
    def outcome(self) -> str:
        return "FAILS" if self.problems else "partly" if self.unchecked else "holds"


def describe(error: BaseException) -> str:
    """Return an error with its type, because the text of a KeyError is only the key."""
    return f"{type(error).__name__}: {error}"


def quiet(check: str, done: int, of: int) -> None:
    """Report no progress."""


class ChainCheck:
    """A check of one chain, row by row; `problems` name the wrong rows.

    `marks` are known links at some lengths of the chain, with their source.
    """

    def __init__(self, chain: str, marks: Marks | None = None) -> None:
        self.chain, self._marks = chain, marks or {}
        self.length, self._link, self._before = 0, GENESIS, [GENESIS]
        self.problems: list[str] = []
        self._compare_marks()

    def see(self, row: Any) -> None:
        number = getattr(row, NUMBERS[self.chain])
        if type(number) is not int or number <= self.length:
            self.problems.append(f"{self.chain}: row {number!r} is out of its place")
            return
        if number != self.length + 1:
            self._missing(self.length + 1, number - 1)
        try:
            links = [link_of(self.chain, before, row._asdict()) for before in self._before]
        except (TypeError, ValueError):  # an impossible value
            links = []
        if row.link in links:
            links = []
        elif number == self.length + 1:
            self.problems.append(f"{self.chain}: row {number} was altered")
        # The row after an altered row is right if it follows that row's stored link or, if the link
        # was altered, its recomputed link.
        self.length, self._link, self._before = number, row.link, [row.link, *links]
        self._compare_marks()

    def end(self, head: Head) -> Check:
        """Compare the last row with the head of the chain, and return the check."""
        if self.length < head.length:
            self._missing(self.length + 1, head.length)
        elif (self.length, self._link) != tuple(head):
            self.problems.append(
                f"{self.chain}: row {self.length} is not the last row written, {head.length}"
            )
        for length in sorted(self._marks):
            if length > max(self.length, head.length):
                seen_by = self._marks[length][0][1]
                self._missing(self.length + 1, length, f", which {seen_by} saw")
        return Check(name=self.chain, rows=self.length, problems=self.problems)

    def _missing(self, first: int, last: int, more: str = "") -> None:
        rows = f"row {first} is" if first == last else f"rows {first} to {last} are"
        self.problems.append(f"{self.chain}: {rows} missing{more}")

    def _compare_marks(self) -> None:
        for link, seen_by in self._marks.get(self.length, ()):
            if link != self._link:
                self.problems.append(
                    f"{self.chain}: {seen_by} holds another hash for row {self.length}"
                )


def marks_of(entries: Sequence[Entry], chain: str) -> dict[int, list[tuple[str, str]]]:
    """Return the heads of a chain that entries of the ledger hold, by length."""
    marks: dict[int, list[tuple[str, str]]] = {}
    for entry in entries:
        length, link = entry.payload["reached"][chain]
        marks.setdefault(length, []).append((link, f"entry {entry.number} of the ledger"))
    return marks


def checked(rows: Iterator[Any], check: ChainCheck) -> Iterator[Any]:
    """Yield rows, and pass each to a check."""
    for row in rows:
        check.see(row)
        yield row
