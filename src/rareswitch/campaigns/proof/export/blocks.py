"""The parts of a report: sections of sentences, tables and pictures, and their facts.

All texts are plain; the renderers escape them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rareswitch.campaigns.analysis import Analysis
from rareswitch.campaigns.proof.export.cohorts import OutcomeRow, Tally
from rareswitch.campaigns.rulebook.rows import Entry, Record, canonical
from rareswitch.campaigns.rulebook.state import State


class Table(NamedTuple):
    """Rows of cells; None is an unknown value. Without a header, a row is a name and a value."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


class Picture(NamedTuple):
    """An SVG and its caption; Markdown omits both."""

    svg: str | None
    caption: str


Block = str | list[str] | Table | Picture  # a list of sentences becomes bullet points


class Section(NamedTuple):
    """A heading, the checklist item that it answers, and its contents.

    A `closed` section shows returns by version, role or site, for unblinded readers only.
    """

    heading: str
    item: str
    blocks: Sequence[Block]
    closed: bool = False


class Facts(NamedTuple):
    """The data of the sections."""

    record: Record
    entries: Sequence[Entry]
    state: State
    tally: Tally
    cohorts: Sequence[OutcomeRow]
    sites: Sequence[OutcomeRow]
    analysis: Analysis | None = None
    blinded: bool = False  # sentences must not reveal returns

    @property
    def revisions(self) -> list[dict[str, Any]]:
        """The protocol and its later revisions, as plain tables."""
        return [terms.plain for terms in self.state.revisions]

    def total(self, column: str) -> int:
        return sum(row[column] for row in self.cohorts)

    def share(self, part: str, whole: str) -> str:
        """Return a count out of another count, over all versions."""
        return f"{self.total(part)} of {self.total(whole)}"

    def length(self, chain: str) -> int:
        return self.record.heads[chain].length


def pairs(rows: Sequence[tuple[str, Any]]) -> Table:
    """Return a table of names and values."""
    return Table(("", ""), rows)


def described(table: Mapping[str, Any], key: str = "rule") -> str:
    """Return a table with a name and arguments as words."""
    arguments = ", ".join(
        f"{name} {value if isinstance(value, str) else canonical(value)}"
        for name, value in sorted(table.items())
        if name != key
    )
    return f"{table[key]}: {arguments}" if arguments else str(table[key])
