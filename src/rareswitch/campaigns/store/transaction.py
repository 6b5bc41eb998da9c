"""One transaction on a campaign: rows are collected in memory, checked, and written together."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.rulebook.attribution import Assigned, Attribution, LastRow
from rareswitch.campaigns.rulebook.cohorts import Cohorts, in_their_order
from rareswitch.campaigns.rulebook.decisions import broken_rules
from rareswitch.campaigns.rulebook.rows import (
    CHAINS,
    GENESIS,
    NUMBERS,
    Entry,
    Head,
    RefusalRow,
    canonical,
    link_of,
)
from rareswitch.campaigns.rulebook.running_mean import Place
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.store.people import People
from rareswitch.campaigns.store.rows import (
    entries_after,
    heads_of,
    names_given,
    rows_found,
    rows_of,
    rows_of_episodes,
    run_each,
)
from rareswitch.campaigns.store.tables import (
    artifacts,
    assignments,
    cohorts,
    episodes,
    heads,
    metadata,
)

# Columns of a row of the log: its name, its place in the cohort, and the fields of a LastRow.
_RECORDED = (
    *(episodes.c[name] for name in (
        "episode_id", "place", "seq", "revision", "version", "member", "assigned", "late", "learn",
        "total", "digest",
    )),
    episodes.c.body.is_(None),
)  # fmt: skip
_ASSIGNED = tuple(assignments.c[name] for name in ("episode_id", *Assigned._fields))
_INSERT = {chain: metadata.tables[chain].insert() for chain in CHAINS}
_MOVE = (
    heads.update()
    .where(heads.c.campaign == sa.bindparam("of"), heads.c.chain == sa.bindparam("moved"))
    .values(length=sa.bindparam("length"), link=sa.bindparam("link"))
)
_COHORTS = sa.select(cohorts.c.version, cohorts.c.state).where(
    cohorts.c.campaign == sa.bindparam("of")
)
_KEEP_COHORT = sa.text(
    "INSERT INTO cohorts (campaign, version, state) VALUES (:of, :which, :kept) "
    "ON CONFLICT (campaign, version) DO UPDATE SET state = excluded.state"
)


class Transaction:
    """The next rows of the chains of one campaign, and the data that the rules need.

    `ids` are the transaction's episodes: their rows and assignments are looked up together. Every
    row updates `state` and `heads`. `now` is the time stamp of rows.
    """

    def __init__(
        self,
        connection: Connection,
        campaign: str,
        *,
        state: State,
        heads: dict[str, Head],
        now: str,
        ids: Iterable[str] = (),
        cohorts: Cohorts | None = None,
    ) -> None:
        self.connection, self.campaign, self.now = connection, campaign, now
        self.state, self.heads = state, dict(heads)
        self.entries: list[Entry] = []
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._names = names_given(ids)
        self._cohorts = cohorts
        self.added = 0

    def add(self, chain: str, **row: Any) -> int:
        """Append a row, given by its columns; return its number."""
        length, link = self.heads[chain]
        row[NUMBERS[chain]] = length = length + 1
        row["link"] = link = link_of(chain, link, row)
        row["campaign"] = self.campaign
        self._rows[chain].append(row)
        self.heads[chain] = Head(length, link)
        self.added += 1
        return length

    def enter(self, kind: str, payload: dict[str, Any], *, by: str, reason: str) -> Entry:
        """Append an entry to the ledger; raise if it breaks a rule."""
        return self.enter_all([(kind, payload)], by=by, reason=reason)[0]

    def enter_all(
        self, drafts: Iterable[tuple[str, dict[str, Any]]], *, by: str, reason: str
    ) -> list[Entry]:
        """Append entries, each a kind and a payload, to the ledger; raise if one breaks a rule."""
        reached = {name: list(head) for name, head in self.heads.items() if name != "ledger"}
        state, (number, link) = self.state, self.heads["ledger"]
        rows, entries = list[dict[str, Any]](), list[Entry]()
        for kind, payload in drafts:
            number, text = number + 1, canonical(payload | {"reached": reached})
            entry = Entry(number, kind, by, reason, self.now, json.loads(text), "")
            for broken in broken_rules(state, entry):
                raise broken
            row = {"kind": kind, "actor": by, "reason": reason, "at": self.now, "payload": text}
            link = link_of("ledger", link, row | {"number": number})
            entries.append(entry._replace(link=link))
            state = state.after(entries[-1])
            rows.append(row)
        for row in rows:
            self.add("ledger", **row)
        self.state = state
        self.entries += entries
        return entries

    def last_row(self, episode_id: str) -> LastRow | None:
        """Return the last row of an episode, if it is recorded."""
        found = self._recorded.get(episode_id)
        return found[-1] if found else None

    def first_row(self, episode_id: str) -> LastRow | None:
        """Return the first row of an episode, if it is recorded."""
        found = self._recorded.get(episode_id)
        return found[0] if found else None

    def recorded(self, episode_id: str, row: LastRow) -> None:
        """Remember a new row."""
        self._recorded.setdefault(episode_id, []).append(row)

    def assigned(self, episode_id: str) -> Assigned | None:
        """Return the assignment of an episode."""
        return self._assignments.get(episode_id)

    def assign(self, episode_id: str, given: Assigned) -> None:
        """Append an assignment."""
        self._assignments[episode_id] = given
        self.add(
            "assignments",
            episode_id=episode_id,
            version=given.version,
            member=given.member,
            assigned=self.now,
            salt=given.salt,
        )

    def assignment_number(self, episode_id: str) -> int:
        """Return the number of an episode's assignment."""
        number = self._number_of("assignments", episode_id=episode_id)
        assert number is not None
        return number

    @cached_property
    def people(self) -> People:
        """The participants of the episodes."""
        return People(self.connection, self.campaign, self._names)

    @property
    def cohorts(self) -> Cohorts:
        """The cohorts after the last row."""
        if self._cohorts is None:
            self._cohorts = cohorts_of(self.connection, self.campaign, self.state)
        return self._cohorts

    def refusal_of(self, digest: str) -> int | None:
        """Return the number of an equal refusal, if the register has one."""
        return self._number_of("refusals", digest=digest)

    def _number_of(self, chain: str, **told: str) -> int | None:
        """Return the number of the pending or stored row with this value in a column."""
        ((name, value),) = told.items()
        for row in self._rows[chain]:
            if row[name] == value:
                return int(row["number"])
        columns = metadata.tables[chain].c
        mine = (columns.campaign == self.campaign, columns[name] == value)
        found: int | None = self.connection.execute(sa.select(columns.number).where(*mine)).scalar()
        return found

    def add_artifact(self, kind: str, data: bytes, digest: str) -> None:
        """Keep bytes under their digest, unless they are stored already."""
        columns = artifacts.c
        mine = (columns.campaign == self.campaign, columns.digest == digest)
        if self.connection.execute(sa.select(columns.digest).where(*mine)).first() is None:
            row = {"campaign": self.campaign, "digest": digest, "kind": kind, "data": data}
            self.connection.execute(artifacts.insert().values(**row))

    def write(self) -> Cohorts | None:
        """Insert the rows, update the heads, and store the cohorts; return these for reuse."""
        for chain, rows in self._rows.items():
            if not rows:
                continue
            run_each(self.connection, _INSERT[chain], rows)
            length, link = self.heads[chain]
            moved = {"of": self.campaign, "moved": chain, "length": length, "link": link}
            run_each(self.connection, _MOVE, [moved])
        counts = self._rows["episodes"] or self._rows["refusals"]
        self._rows.clear()
        if self._cohorts is not None and (counts or self._cohorts.changed):
            kept = [
                {"of": self.campaign, "which": version, "kept": text}
                for version, text in sorted(self._cohorts.texts(self.heads).items())
            ]
            run_each(self.connection, _KEEP_COHORT, kept)
            self._cohorts.changed.clear()
        if "people" in vars(self):  # they were used
            self.people.write()
        return self._cohorts

    @cached_property
    def _recorded(self) -> dict[str, list[LastRow]]:
        known: dict[str, list[LastRow]] = {}
        for name, place, *row in self._of_episodes(_RECORDED):
            known.setdefault(name, []).append(_last_row(name, row, place))
        for rows in known.values():
            rows.sort(key=attrgetter("seq"))
        return known

    @cached_property
    def _assignments(self) -> dict[str, Assigned]:
        found = self._of_episodes(_ASSIGNED) if self.heads["assignments"].length else []
        return {name: Assigned(*row) for name, *row in found}

    def _of_episodes(self, columns: Sequence[Any]) -> list[Any]:
        return rows_of_episodes(self.connection, self.campaign, self._names, columns)


def begin_chains(connection: Connection, campaign: str, *, now: str) -> Transaction:
    """Return the transaction that creates a campaign."""
    begun = {chain: Head(0, GENESIS) for chain in CHAINS}
    rows = [{"campaign": campaign, "chain": name, **head._asdict()} for name, head in begun.items()]
    connection.execute(heads.insert(), rows)
    return Transaction(connection, campaign, state=State(), heads=begun, now=now)


def cohorts_for(state: State) -> Cohorts:
    """Return empty cohorts under the terms of a campaign."""
    return Cohorts(horizon=state.terms.horizon, control=state.terms.control_share)


def cohorts_of(connection: Connection, campaign: str, state: State) -> Cohorts:
    """Return the stored cohorts; recount them if they are lost, damaged or outdated."""
    stored = dict(map(tuple, rows_found(connection, _COHORTS, {"of": campaign})))
    found = cohorts_for(state)
    if found.load(stored, heads_of(connection, campaign)):
        return found
    return count_again(connection, campaign, state)[0]


Places = dict[str, tuple[Place, float]]  # by episode: its place in the cohort, its return


def count_again(connection: Connection, campaign: str, state: State) -> tuple[Cohorts, Places]:
    """Recount the cohorts from all stored rows."""
    found, places, seen = cohorts_for(state), Places(), [0, 0]
    gone = episodes.c.body.is_(None).label("gone")
    columns = ("episode_id", "revision", "version", "member", "total", gone)
    reopened = [
        [entry.payload["reached"][chain][0] for chain in ("episodes", "refusals")]
        for entry in entries_after(connection, campaign, 0)
        if entry.kind == "reopened"
    ]
    for row in in_their_order(
        rows_of(connection, "episodes", campaign, columns=columns),
        rows_of(connection, "refusals", campaign),
    ):
        if isinstance(row, RefusalRow):
            found.refuse()
        elif row.revision:
            place, before = places[row.episode_id]
            after, role = None if row.gone else row.total, state.role(row.version, row.member)
            found.correct(row.version, place, before, after, role)
            places[row.episode_id] = place, row.total
        else:
            place = found.record(row.version, row.total, state.role(row.version, row.member))
            places[row.episode_id] = place, row.total
        seen[isinstance(row, RefusalRow)] += 1
        if seen in reopened:
            found.reopen()
    return found, places


def _last_row(episode_id: str, row: Sequence[Any], place: str | None) -> LastRow:
    seq, revision, version, member, assigned, late, learn, total, digest, gone = row
    attribution = Attribution(version, member, bool(assigned), bool(late), bool(learn))
    kept = _read_place(episode_id, version, place)
    return LastRow(seq, revision, attribution, total, digest, bool(gone), kept)


def sealed_place(episode_id: str, version: int, place: Place) -> str:
    """Return the text of an episode's place in the cohort of a version."""
    text = f"[{place.t},{place.mean!r},{place.weight!r}]"
    return f"{_place_seal(episode_id, version, text)} {text}"


def _read_place(episode_id: str, version: int, sealed: str | None) -> Place | None:
    """Return a place; None if the cached place is missing, damaged or another episode's."""
    # SQLite may also keep bytes in a text column.
    seal, _, text = sealed.partition(" ") if isinstance(sealed, str) else ("", "", "")
    if not text or seal != _place_seal(episode_id, version, text):
        return None
    return Place(*json.loads(text))


def _place_seal(episode_id: str, version: int, text: str) -> str:
    return f"{crc32(f'{episode_id} {version} {text}'.encode()):08x}"
