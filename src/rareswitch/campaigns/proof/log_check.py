"""Whether every row says what the ledger allows: attribution, lateness and returns."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from rareswitch.campaigns.record.ledger import Entry
from rareswitch.campaigns.report import episode_of
from rareswitch.campaigns.state import State, Version


class LogCheck:
    """Rows of the chains are shown one by one, assignments before episodes."""

    def __init__(self, entries: Sequence[Entry], state: State) -> None:
        self._state = state
        self._assigned: dict[str, tuple[int, int]] = {}
        # The versions by the entry of the ledger, and how long other chains were then.
        self._since = {
            chain: [v.entry.payload["reached"][chain][0] for v in state.versions]
            for chain in ("episodes", "assignments")
        }
        # The rows after which each revision of the protocol holds.
        self._revised = [e.position for e in entries if e.kind in ("created", "amended")]
        self._first: dict[str, Any] = {}

    def see(self, chain: str, row: Any) -> list[str]:
        """Return what is wrong with a row."""
        if chain == "assignments":
            return self._assignment(row)
        return self._episode(row) if chain == "episodes" else []

    def _in_force(self, chain: str, number: int) -> Version:
        """Return the version in force when a row was written."""
        since = self._since[chain]
        return self._state.versions[bisect_left(since, number) - 1]

    def _assignment(self, row: Any) -> list[str]:
        self._assigned[row.episode_id] = row.version, row.member
        version = self._in_force("assignments", row.number)
        wrong = []
        if row.version != version.version:
            wrong.append(f"version {version.version} was in force, not {row.version}")
        elif row.member != version.member(row.episode_id):
            wrong.append(f"member {version.member(row.episode_id)} plays it, not {row.member}")
        return [f"assignments: row {row.number}: {what}" for what in wrong]

    def _episode(self, row: Any) -> list[str]:
        if row.revision:
            wrong = self._correction(row)
        else:
            self._first[row.episode_id] = row.version, row.member, row.late, row.learn
            wrong = self._attribution(row)
        if row.body is not None:
            try:
                total = float(episode_of(row.body).rewards.sum())
            except ValueError as error:
                return [f"episodes: row {row.seq}: its body cannot be read: {error}"]
            if total != row.total:
                wrong.append(f"its rewards add up to {total!r}, not {row.total!r}")
            elif not 0.0 <= total <= self._state.protocol.task.horizon:
                wrong.append(f"its return is {total!r}, which no episode of this task has")
        return [f"episodes: row {row.seq}: {what}" for what in wrong]

    def _correction(self, row: Any) -> list[str]:
        kept = (row.version, row.member, row.late, row.learn)
        if self._first.get(row.episode_id) != kept:
            return ["it corrects another attribution than was recorded"]
        return []

    def _attribution(self, row: Any) -> list[str]:
        wrong = []
        in_force = self._in_force("episodes", row.seq)
        intake = self._state.revisions[bisect_left(self._revised, row.seq) - 1].intake
        assigned = self._assigned.get(row.episode_id)
        if row.version > in_force.version:
            return [f"version {row.version} was not in force yet"]
        if row.assigned and assigned != (row.version, row.member):
            wrong.append(f"it was assigned to {assigned}, not to {row.version}, {row.member}")
        if row.member != self._state.version(row.version).member(row.episode_id):
            wrong.append(f"member {row.member} does not play it")
        late = row.version != in_force.version
        if row.late != late:
            wrong.append(f"late must be {late}")
        if row.learn != (not late or intake.late == "learn"):
            wrong.append(f"learn must be {not row.learn}")
        if not row.assigned:
            if intake.assigned:
                wrong.append("it was not assigned")
            if late:
                since = row.seq - 1 - self._state.version(row.version + 1).since
                if since > intake.grace:
                    wrong.append(f"version {row.version} was replaced {since} episodes before")
        return wrong
