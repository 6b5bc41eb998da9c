"""Whether every row says what the ledger allows: attribution, lateness, returns, corrections."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from rareswitch.campaigns.proof.check import NONSENSE, words
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.record.canonical import canonical, digest_of
from rareswitch.campaigns.record.ledger import Entry
from rareswitch.campaigns.report import episode_of, return_of
from rareswitch.campaigns.state import State, Version
from rareswitch.campaigns.store.tables import CHAINS


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
        signed = [entry.payload for entry in entries if entry.kind == "corrected"]
        self._corrected = {payload["episode_id"] for payload in signed}
        self._signed = {payload["seq"]: payload for payload in signed}
        # Of those that are corrected, the row before: its number, its revision and who played.
        self._last: dict[str, tuple[int, int, Any]] = {}
        # How long the chains were when the campaign stopped.
        self._stopped = state.stopped.payload["reached"] if state.stopped else {}

    def see(self, chain: str, row: Any) -> list[str]:
        """Return what is wrong with a row."""
        look = {"assignments": self._assignment, "episodes": self._episode}.get(chain)
        try:
            return [] if look is None else look(row)
        except NONSENSE as error:
            place = getattr(row, CHAINS[chain][1])
            return [f"{chain}: row {place}: it cannot be checked, {words(error)}"]

    def _in_force(self, chain: str, number: int) -> Version:
        """Return the version in force when a row was written."""
        since = self._since[chain]
        return self._state.versions[bisect_left(since, number) - 1]

    def _after_stop(self, chain: str, number: int) -> bool:
        return bool(self._stopped) and number > self._stopped[chain][0]

    def _assignment(self, row: Any) -> list[str]:
        self._assigned[row.episode_id] = row.version, row.member
        version = self._in_force("assignments", row.number)
        wrong = []
        if row.version != version.version:
            wrong.append(f"version {version.version} was in force, not {row.version}")
        elif row.member != version.member(row.episode_id):
            wrong.append(f"member {version.member(row.episode_id)} plays it, not {row.member}")
        if self._after_stop("assignments", row.number):
            wrong.append("the campaign had stopped")
        return [f"assignments: row {row.number}: {what}" for what in wrong]

    def _episode(self, row: Any) -> list[str]:
        wrong = self._correction(row) if row.revision else self._attribution(row)
        if row.episode_id in self._corrected:
            self._last[row.episode_id] = row.seq, row.revision, _kept(row)
        if row.body is None and not row.revision:
            wrong.append("it has no content")
        if row.body is not None:
            if row.digest not in _digests(row):
                wrong.append("its digest is not that of the report that it holds")
            try:
                total = return_of(row.body)
            except ValueError as error:
                return [f"episodes: row {row.seq}: its body cannot be read: {error}"]
            if row.revision or not row.learn or row.episode_id in self._corrected:
                wrong += unsound(row.body, self._state.protocol)  # the replay meets all others
            if total != row.total:
                wrong.append(f"its rewards add up to {total!r}, not {row.total!r}")
            elif not 0.0 <= total <= self._state.protocol.task.horizon:
                wrong.append(f"its return is {total!r}, which no episode of this task has")
        return [f"episodes: row {row.seq}: {what}" for what in wrong]

    def _correction(self, row: Any) -> list[str]:
        if row.episode_id not in self._corrected:
            return ["it corrects, and no entry says so"]
        seq, revision, kept = self._last.get(row.episode_id, (0, row.revision, None))
        if row.revision != revision + 1:
            return ["it corrects a row that is not there"]
        wrong = []
        if kept != _kept(row):
            wrong.append("it corrects another attribution than was recorded")
        told = {"episode_id": row.episode_id, "corrects": seq, "withdrawn": row.body is None}
        signed = self._signed.get(row.seq, {})
        if any(signed.get(name) != value for name, value in told.items()):
            wrong.append("it is another correction than was signed for")
        return wrong

    def _attribution(self, row: Any) -> list[str]:
        wrong = []
        in_force = self._in_force("episodes", row.seq)
        intake = self._state.revisions[bisect_left(self._revised, row.seq) - 1].intake
        assigned = self._assigned.get(row.episode_id)
        if row.version > in_force.version:
            return [f"version {row.version} was not in force yet"]
        if row.assigned != (assigned is not None):
            wrong.append(f"assigned must be {not row.assigned}")
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
            if self._after_stop("episodes", row.seq):
                wrong.append("it was not assigned before the campaign had stopped")
            if late:
                since = row.seq - 1 - self._state.version(row.version + 1).since
                if since > intake.grace:
                    wrong.append(f"version {row.version} was replaced {since} episodes before")
        return wrong


def unsound(body: bytes, protocol: Protocol) -> list[str]:
    """Return what is wrong with a body: that it holds no episode, or one of another task."""
    try:
        episode = episode_of(body)
    except ValueError as error:
        return [f"its body cannot be read: {error}"]
    try:
        protocol.no_data.check(episode)
    except ValueError as error:
        return [str(error)]
    return []


def _kept(row: Any) -> tuple[Any, ...]:
    """Return what stays of an episode, whatever corrects it: who played it, and what it is for."""
    return row.version, row.member, row.assigned, row.late, row.learn


def _digests(row: Any) -> Iterator[str]:
    """Give the digests that a report of this content may have.

    Version and member may be left to the campaign; the digest is of what the actor told.
    """
    body, named = row.body[-32:].hex(), canonical(row.episode_id)
    said = f'{{"body":"{body}","claims":{row.claims},"id":{named},"member":'  # keys in their order
    for version in ("null", row.version):
        for member in ("null", row.member):
            yield digest_of(f'{said}{member},"version":{version}}}')
