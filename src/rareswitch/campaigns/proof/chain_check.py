"""Whether the rows of a chain are the ones that were written, all of them and in their order."""

from collections.abc import Mapping, Sequence
from typing import Any

from rareswitch.campaigns.record.canonical import GENESIS, linked
from rareswitch.campaigns.record.pen import Head, linked_part
from rareswitch.campaigns.store.tables import CHAINS


class ChainCheck:
    """Rows are shown one by one; `problems` name those that are wrong.

    `marks` are links that others saw when the chain had some length.
    """

    def __init__(
        self, chain: str, *, marks: Mapping[int, Sequence[tuple[str, str]]] | None = None
    ) -> None:
        self.chain, self._marks = chain, marks or {}
        self._number = CHAINS[chain][1]
        self.length, self._link = 0, GENESIS
        self.problems: list[str] = []
        self._compare_marks()

    def see(self, row: Mapping[str, Any]) -> None:
        """Look at the next row."""
        number = row[self._number]
        if number != self.length + 1:
            missing = (
                f"row {self.length + 1} is missing"
                if number == self.length + 2
                else f"rows {self.length + 1} to {number - 1} are missing"
            )
            self.problems.append(f"{self.chain}: {missing}")
        expected = linked(self._link, linked_part(self.chain, row))
        if expected != row["link"] and number == self.length + 1:
            self.problems.append(f"{self.chain}: row {number} is not what was written")
        # The row after an altered one is right if it is linked to what is stored.
        self.length, self._link = number, row["link"]
        self._compare_marks()

    def ended(self, head: Head) -> list[str]:
        """Compare the last row with the head that is kept of the chain; return all problems."""
        if self.length < head.length:
            self.problems.append(
                f"{self.chain}: rows {self.length + 1} to {head.length} are missing"
            )
        elif (self.length, self._link) != tuple(head):
            self.problems.append(
                f"{self.chain}: row {self.length} is not the last one written, {head.length}"
            )
        for length in sorted(self._marks):
            if length > max(self.length, head.length):
                who = self._marks[length][0][1]
                self.problems.append(
                    f"{self.chain}: rows {self.length + 1} to {length} are missing, which {who} saw"
                )
        return self.problems

    def _compare_marks(self) -> None:
        for link, who in self._marks.get(self.length, ()):
            if link != self._link:
                self.problems.append(
                    f"{self.chain}: row {self.length} is not the one that {who} saw"
                )
