"""Whether the campaign stopped where a rule was reached, and nowhere else: every look again.

The engine looks after every episode that is recorded, every refusal, every correction and every
amendment, until the campaign has stopped. People may stop it at any time.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from rareswitch.campaigns.proof.check import Check
from rareswitch.campaigns.record.counting import Counting, in_their_order
from rareswitch.campaigns.record.ledger import Entry
from rareswitch.campaigns.record.names import same_person
from rareswitch.campaigns.state import State
from rareswitch.campaigns.stopping.looking import ENGINE, watched
from rareswitch.campaigns.stopping.rules import Watched

# Values that differ by no more may have been rounded otherwise on another machine.
TOLERANCE = 1e-9


def check_stops(
    connection: Connection, campaign: str, entries: Sequence[Entry], counting: Counting
) -> Check:
    """Go through rows, refusals and entries in their order; leave all cohorts counted."""
    looks, reached = Looks(counting), [_reached(entry) for entry in entries]
    rows = refusals = entered = 0

    def enter_what_was_written_here() -> int:
        upto = entered
        while upto < len(entries) and reached[upto] == (rows, refusals):
            looks.enter(entries[upto])
            upto += 1
        return upto

    entered = enter_what_was_written_here()
    for chain, row in in_their_order(connection, campaign):
        if chain == "episodes":
            rows += 1
        else:
            refusals += 1
            if row.seq != rows:
                looks.problems.append(
                    f"refusals: row {row.number} says that it came after episode {row.seq}; it "
                    f"came after episode {rows}"
                )
        looks.see(chain, row)
        entered = enter_what_was_written_here()
    looks.go_on()
    if entered < len(entries):
        looks.problems.append(
            f"ledger: entry {entries[entered].number} was written between other episodes and "
            "refusals than it says"
        )
    return Check(name="stops", rows=looks.made, problems=looks.problems)


def _reached(entry: Entry) -> tuple[int, int]:
    """Return how many episodes and refusals there were when an entry was written."""
    episodes, refusals = (entry.payload["reached"][chain] for chain in ("episodes", "refusals"))
    return episodes[0], refusals[0]


class Look(NamedTuple):
    """Where the engine looked, and what it saw there, in the order of the rules."""

    where: str
    seen: Sequence[Watched]


class Looks:
    """The looks of the engine at what is shown; `problems` name those after which it went wrong."""

    def __init__(self, counting: Counting) -> None:
        self._counting, self._state = counting, State()
        self._last: Look | None = None  # until something else happens
        self._corrected: Any = None  # a row that waits for its entry
        self.made = 0
        self.problems: list[str] = []
        self._missed = False

    def see(self, chain: str, row: Any) -> None:
        """Go on to a row of the log or a refusal."""
        self.go_on()
        self._counting.see(chain, row)
        if chain == "refusals":
            self._look(f"refusals: row {row.number}", self._state.in_force.version)
        elif row.revision:
            self._corrected = row  # it is looked at when it is entered
        else:
            self._look(f"episodes: row {row.seq}", row.version)

    def enter(self, entry: Entry) -> None:
        """Go on to an entry of the ledger."""
        where = f"ledger: entry {entry.number}"
        row, self._corrected = self._corrected, None
        if entry.kind == "corrected":
            if row is None or row.seq != entry.payload["seq"]:
                self.problems.append(f"{where}: no row was corrected there")
                row = None
        elif row is not None:
            self._unsigned(row)
        if entry.kind == "stopped" and same_person(entry.actor, ENGINE):
            self._check_warrant(where, entry)
        self.go_on()
        self._state.after([entry])
        if entry.kind == "amended":
            self._look(where, *(version.version for version in self._state.versions))
        elif row is not None and entry.kind == "corrected":
            self._look(where, row.version)

    def go_on(self) -> None:
        """Leave the last look: the campaign was not stopped there."""
        if self._corrected is not None:
            self._unsigned(self._corrected)
            self._corrected = None
        look, self._last = self._last, None
        if look is None or self._missed:
            return
        for one in look.seen:
            if one.passed and not _by_rounding(one):
                self._missed = True  # every later look would say so again
                self.problems.append(
                    f"{look.where}: {_words(one)}, and the engine did not stop the campaign"
                )
                return

    def _look(self, where: str, *versions: int) -> None:
        if self._state.stopped:
            return
        state, counting = self._state, self._counting
        self.made += 1
        self._last = Look(
            where, [one for v in versions for one in watched(state.protocol, counting, v)]
        )

    def _check_warrant(self, where: str, entry: Entry) -> None:
        look, self._last = self._last, None
        if look is None:
            self.problems.append(f"{where}: the engine stopped where it did not look")
        elif not _warranted(look.seen, entry.payload):
            passed = next((one for one in look.seen if one.passed), None)
            told = {name: entry.payload.get(name) for name in ("rule", "value", "threshold")}
            self.problems.append(
                f"{where}: the engine stopped with {told}; at {look.where} "
                f"{'no rule was reached' if passed is None else _words(passed)}"
            )

    def _unsigned(self, row: Any) -> None:
        self.problems.append(f"episodes: row {row.seq}: it corrects, and no entry says so")


def _warranted(seen: Sequence[Watched], told: dict[str, Any]) -> bool:
    """Return whether what a stop tells is what passed first, but for rounding."""
    for one in seen:
        either = _by_rounding(one)
        if (one.passed or either) and _alike(one.plain, told):
            return True
        if one.passed and not either:
            return False
    return False


def _alike(seen: dict[str, Any], told: dict[str, Any]) -> bool:
    numbers = ("value", "threshold", "margin")
    return told.get("rule") == seen["rule"] and all(
        isinstance(told.get(name), int | float) and abs(told[name] - seen[name]) <= TOLERANCE
        for name in numbers
    )


def _by_rounding(one: Watched) -> bool:
    """Return whether a value may be on the other side of its threshold on another machine.

    One that equals it is exact: a number of episodes, or the end of an interval cut off at 0 or 1.
    """
    return 0.0 < abs(one.value - one.threshold) <= TOLERANCE


def _words(one: Watched) -> str:
    return f"{one.rule} was reached ({one.value!r} has passed {one.threshold!r})"
