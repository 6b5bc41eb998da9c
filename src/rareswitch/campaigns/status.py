"""The status of a campaign for the people who run it, and pages of its record."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.analysis import Analysis, ComparisonRow, analyse_record, comparison_row
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.conclusion import cost_of_amendment
from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.learning.learning import progress_of
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.rows import Entry, Head
from rareswitch.campaigns.rulebook.signed import comments_on, decisions_of, signed_plain
from rareswitch.campaigns.rulebook.state import Candidate, State
from rareswitch.campaigns.store.rows import StoredRecord, heads_of, rows_of
from rareswitch.campaigns.store.tables import assignments, episodes
from rareswitch.campaigns.store.transaction import cohorts_of
from rareswitch.support.words import plural

CONFIDENCE = 0.95
COUNTED_ONE_BY_ONE = 5000  # rows; more are counted by an index of all rows
# The entries of a ledger in words, with the fields of their payloads.
ENTRIES = {
    "created": "created the campaign",
    "candidate": "proposed version {version}",
    "declined": "declined a candidate for version {version}",
    "registered": "has a passkey of {relying_party}",
    "expired": "let candidate {candidate} expire",
    "countersigned": "countersigned rollback {rollback}",
    "deployed": "deployed version {version}",
    "rolled-back": "rolled back to version {to}",
    "amendment": "proposed an amendment",
    "amended": "amended the protocol",
    "corrected": "corrected {episode_id}",
    "withdrawn": "withdrew {episode_id}",
    "cancelled": "cancelled {episode_id}",
    "forgotten": "erased a name in {counted}",
    "exported": "exported the record",
    "stopped": "stopped the campaign",
    "reopening": "proposed to reopen the campaign",
    "reopened": "reopened the campaign",
}
KEPT = ("version", "since", "rollback_to", "digest")  # of a version
OPEN = ("number", "episode_id", "version", "member", "assigned")  # columns of an assignment

Counted = tuple[Head, Counter[tuple[int, bool, bool]]]
# Episodes by version, assigned and late, of the rows up to the head of their chain.
_COUNTED: WeakKeyDictionary[Campaign, Counted] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class VersionStatus:
    """A version: its first episode, its signer, and the returns of its episodes.

    `low` and `high` are an interval for the mean return that is valid at any time. `difference`
    compares learned members with the control, if there is one.
    """

    version: int
    since: int
    at: str
    by: str
    rollback_to: int | None
    digest: str
    episodes: int
    late: int
    mean: float | None
    low: float
    high: float
    difference: ComparisonRow | None = None


@dataclass(frozen=True, kw_only=True)
class Status:
    """The status of a campaign.

    `recorded` counts episodes, including withdrawn episodes; `open` counts assigned episodes
    without a report, and `late` episodes of a replaced version. `declined` counts the candidates
    that the schedule found not worth proposing. `heads` are the lengths and last links of the
    chains; a copy kept elsewhere proves later that nothing was cut off. After a rejection the
    schedule is evaluated again at row `asked_again`; later it is None. `difference` compares
    learned members with the concurrent control over all versions, None without a control; its
    columns are `analysis.COMPARISON_COLUMNS`. `uncountersigned` are rollbacks that wait for a
    second signature.
    """

    name: str
    rehearsal: bool
    protocol: str
    revision: int
    stopped: str | None
    version: int
    budget: int
    spent: int
    left: int
    rollbacks: int
    declined: int
    planned_episodes: int
    recorded: int
    withdrawn: int
    assigned: int
    open: int
    cancelled: int
    refused: int
    late: int
    rows: int
    folded: int
    triggers: tuple[dict[str, Any], ...]
    waiting: dict[str, Any] | None
    amendment: dict[str, Any] | None
    reopening: dict[str, Any] | None
    asked_again: int | None
    versions: tuple[VersionStatus, ...]
    heads: dict[str, Head]
    difference: ComparisonRow | None = None
    uncountersigned: tuple[dict[str, Any], ...] = ()

    @property
    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"heads": {name: list(head) for name, head in self.heads.items()}}


def status(campaign: Campaign) -> Status:
    """Return the status of a campaign at one moment, without reading its episodes."""
    with campaign.store.reading() as connection:
        state, heads = campaign.state_at(connection), heads_of(connection, campaign.name)
        reported, late = _counts(connection, campaign, heads["episodes"])
        cohorts = cohorts_of(connection, campaign.name, state)
        versions = tuple(_versions(cohorts, state, late))
        waiting = None
        if state.waiting is not None and not state.stopped:
            waiting = _candidate(connection, campaign.name, state, state.waiting)
        folded, said = progress_of(connection, campaign.name)
    terms, began = state.terms, heads["assignments"].length
    current = said["entries"] >= state.in_force.entry.number  # else of an earlier version
    return Status(
        name=campaign.name,
        rehearsal=state.rehearsal,
        protocol=terms.digest,
        revision=len(state.revisions),
        stopped=state.stopped and state.stopped.reason,
        version=state.in_force.version,
        budget=terms.budget,
        spent=state.spent,
        left=state.left,
        rollbacks=sum(version.rollback_to is not None for version in state.versions),
        declined=len(state.declined),
        planned_episodes=terms.episodes,
        recorded=heads["episodes"].length - state.corrections,
        withdrawn=state.withdrawn,
        assigned=began,
        open=began - reported - len(state.cancelled),
        cancelled=len(state.cancelled),
        refused=heads["refusals"].length,
        late=sum(late.values()),
        rows=heads["episodes"].length,
        folded=folded,
        triggers=tuple(said["triggers"]) if current and not state.stopped else (),
        waiting=waiting,
        amendment=_proposal(state, state.amendment),
        reopening=_proposal(state, state.reopening),
        asked_again=state.asked_again if state.asked_again > heads["episodes"].length else None,
        versions=versions,
        heads=heads,
        difference=_difference(cohorts, state),
        uncountersigned=tuple(entry._asdict() for entry in state.uncountersigned),
    )


def analyse(campaign: Campaign) -> Analysis:
    """Compare the learned policies with the concurrent control, from the whole record."""
    with campaign.store.reading() as connection:
        state = campaign.state_at(connection)
        found = analyse_record(StoredRecord(connection, campaign.name), state)
    if found is None:
        raise NotAllowedError(
            "the protocol has no control to compare with; [recipe] control gives a version one"
        )
    return found


def heads(campaign: Campaign) -> dict[str, Head]:
    """Return the length and the last link of each chain; a copy kept elsewhere proves its past."""
    with campaign.store.reading() as connection:
        return heads_of(connection, campaign.name)


def ledger(campaign: Campaign, *, after: int = 0, limit: int | None = None) -> list[Entry]:
    """Return entries of the ledger, by default all of them."""
    return list(campaign.entries[after:][:limit])


def protocol(campaign: Campaign, revision: int | None = None) -> dict[str, Any]:
    """Return the tables of a revision of the protocol, by default the revision in force."""
    revisions = campaign.state.revisions
    if revision is not None and not 1 <= revision <= len(revisions):
        raise NotAllowedError(f"revision must be from 1 to {len(revisions)}; got {revision}")
    plain: dict[str, Any] = revisions[-1 if revision is None else revision - 1].plain
    return plain


def candidates(campaign: Campaign) -> list[dict[str, Any]]:
    """Return every candidate with its evidence, signatures and comments, as plain values.

    A candidate that waits has `since_fit`, the reports and corrections since the row of its fit.
    """
    with campaign.store.reading() as connection:
        state = campaign.state_at(connection)
        every = state.candidates.values()
        return [_candidate(connection, campaign.name, state, one) for one in every]


def since_fit(connection: Connection, campaign: str, candidate: Candidate) -> dict[str, int]:
    """Count the new reports, and the corrections of fitted episodes, since a candidate's fit."""
    columns, mine = episodes.c, episodes.c.campaign == campaign
    later = sa.select(sa.func.count()).where(mine, columns.seq > candidate.seq)
    fitted = sa.select(columns.episode_id).where(
        mine, columns.seq <= candidate.seq, columns.revision == 0
    )
    corrected = later.where(columns.revision > 0, columns.episode_id.in_(fitted))
    return {
        "reports": connection.execute(later.where(columns.revision == 0)).scalar_one(),
        "corrections": connection.execute(corrected).scalar_one(),
    }


def refusals(campaign: Campaign, *, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
    """Return refused reports with their reasons, a page at a time."""
    return _page(campaign, "refusals", after, limit)


def list_episodes(campaign: Campaign, *, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
    """Return rows of the log with their reports, a page at a time."""
    page = _page(campaign, "episodes", after, limit)
    for plain in page:
        body = plain.pop("body")
        report = None
        if body is not None:
            told = Report.from_body(body, id=plain["episode_id"]).plain
            report = told | json.loads(plain["claims"])
        plain |= {"withdrawn": body is None, "report": report}
    return page


def open_episodes(
    campaign: Campaign, *, after: int = 0, limit: int = 100, prefix: str = ""
) -> list[dict[str, Any]]:
    """Return episodes that are assigned and not reported, a page at a time.

    With `prefix`, return only ids that begin with it, such as the ids of a site.
    """
    columns = [assignments.c[name] for name in OPEN]
    begins = sa.func.substr(assignments.c.episode_id, 1, len(prefix)) == prefix
    reported = sa.select(episodes.c.seq).where(
        episodes.c.campaign == assignments.c.campaign,
        episodes.c.episode_id == assignments.c.episode_id,
        episodes.c.revision == 0,
    )
    with campaign.store.reading() as connection:
        cancelled = campaign.state_at(connection).cancelled_ids
        rows = connection.execute(
            sa.select(*columns)
            .where(assignments.c.campaign == campaign.name, assignments.c.number > after)
            .where(begins if prefix else sa.true())
            .where(~reported.exists())
            .order_by(assignments.c.number)
            .limit(limit + len(cancelled))
        ).all()
    return [dict(row._mapping) for row in rows if row.episode_id not in cancelled][:limit]


def sites(campaign: Campaign) -> list[dict[str, Any]]:
    """Return the recorded, late and deviating episodes of each site, and their mean return.

    A corrected episode counts as corrected, and a withdrawn episode does not count.
    """
    last: dict[str, Any] = {}
    columns = ("claims", "late", "total", "deviations", "episode_id", "digest")
    with campaign.store.reading() as connection:
        for row in rows_of(connection, "episodes", campaign.name, columns=columns):
            last[row.episode_id] = row
    found: dict[str, list[Any]] = {}
    for row in last.values():
        if row.digest:  # not a withdrawal
            found.setdefault(json.loads(row.claims).get("site", ""), []).append(row)
    return [
        {
            "site": site,
            "episodes": len(rows),
            "late": sum(bool(row.late) for row in rows),
            "deviating": sum(bool(row.deviations) for row in rows),
            "mean_return": sum(row.total for row in rows) / len(rows),
        }
        for site, rows in sorted(found.items())
    ]


def _candidate(
    connection: Connection, campaign: str, state: State, candidate: Candidate
) -> dict[str, Any]:
    """Return a candidate with its signatures, comments, missing signatures and `since_fit`.

    After a stop no signature is missing, and nothing is counted.
    """
    waits = candidate is state.waiting and not state.stopped
    return candidate.plain | {
        "signatures": [signed_plain(state, entry) for entry in decisions_of(candidate)],
        "comments": [signed_plain(state, one) for one in comments_on(state, candidate.number)],
        "owed": _owed(state, candidate) if waits else None,
        "expires_at": state.expires_at if waits else None,
        "since_fit": since_fit(connection, campaign, candidate) if waits else None,
    }


def _proposal(state: State, entry: Entry | None) -> dict[str, Any] | None:
    """Return a pending amendment or reopening with its approvals and missing approvals."""
    if entry is None:
        return None
    approvals = state.amendment_approvals if entry.kind == "amendment" else ()
    return entry._asdict() | {
        "signatures": [signed_plain(state, one) for one in (entry, *approvals)],
        "comments": [signed_plain(state, one) for one in comments_on(state, entry.number)],
        "owed": _owed(state, entry),
        "cost": cost_of_amendment(state, entry) if entry.kind == "amendment" else None,
    }


def _owed(state: State, proposal: Candidate | Entry) -> dict[str, Any]:
    """Return the number of missing signatures, and the persons of groups that must sign."""
    signatures, groups = state.owed(proposal)
    persons = {name: list(state.terms.approval.groups[name]) for name in groups}
    return {"signatures": signatures, "groups": persons}


def _page(campaign: Campaign, chain: str, after: int, limit: int) -> list[dict[str, Any]]:
    with campaign.store.reading() as connection:
        page = rows_of(connection, chain, campaign.name, after=after, upto=after + limit)
        return [row._asdict() for row in page]


def _counts(connection: Connection, campaign: Campaign, head: Head) -> tuple[int, Counter[int]]:
    """Return the number of reported assigned episodes, and of late episodes by version."""
    known = _COUNTED.get(campaign)
    if known is None or known[0] != head:
        counts = _count_rows(connection, campaign.name, head, known)
        _COUNTED[campaign] = known = head, counts
    late = Counter[int]()
    for (version, _, was_late), count in known[1].items():
        late[version] += count if was_late else 0
    return sum(count for (_, assigned, _), count in known[1].items() if assigned), late


def _count_rows(
    connection: Connection, campaign: str, head: Head, known: Counted | None
) -> Counter[tuple[int, bool, bool]]:
    """Count the episodes by version, assigned and late; if `known` is valid, only later rows."""
    columns = episodes.c
    chosen, mine = (columns.version, columns.assigned, columns.late), columns.campaign == campaign
    if known is not None and 0 <= head.length - known[0].length <= COUNTED_ONE_BY_ONE:
        (seq, link), before = known
        last = sa.select(columns.link).where(mine, columns.seq == seq)
        if connection.execute(last).scalar() == link:  # the chain continues from there
            new = sa.select(*chosen).where(mine, columns.seq > seq, columns.revision == 0)
            return before + Counter(map(tuple, connection.execute(new)))
    asked = sa.select(*chosen, sa.func.count()).where(mine, columns.revision == 0)
    found = connection.execute(asked.group_by(*chosen))
    return Counter({(version, *kind): count for version, *kind, count in found})


def _versions(found: Cohorts, state: State, late: Counter[int]) -> Iterator[VersionStatus]:
    horizon = state.terms.horizon
    for version in state.versions:
        seen, entry = found[version.version], version.entry
        low, high = (horizon * end for end in seen.bounds(CONFIDENCE))
        mean = None if seen.mean is None else horizon * seen.mean
        told: dict[str, Any] = {name: getattr(version, name) for name in KEPT}
        told |= {"episodes": seen.observations, "late": late[version.version]}
        told |= {"mean": mean, "low": low, "high": high}
        told["difference"] = _difference(found, state, version.version)
        yield VersionStatus(at=entry.at, by=entry.actor, **told)


def _difference(found: Cohorts, state: State, version: int | None = None) -> ComparisonRow | None:
    """Return the comparison of one version or all versions with the control."""
    strata, terms = found.strata, state.terms
    chosen = [strata[number] for number in sorted(strata) if version in (None, number)]
    if not any(one.episodes for one in chosen):
        return None
    return comparison_row(
        "all versions" if version is None else "version",
        "" if version is None else version,
        chosen,
        horizon=terms.horizon,
        share=terms.control_share,
        confidence=terms.analysis.confidence,
    )


def entry_words(entry: Entry) -> str:
    """Describe an entry of the ledger in words; its actor is the subject.

    >>> told = {"version": 2, "withdrawn": False}
    >>> entry_words(Entry(5, "deployed", "ben", "reviewed", "2026-03-02", told, ""))
    'deployed version 2'
    """
    told = entry.payload
    kind = "withdrawn" if told.get("withdrawn") is True else entry.kind
    if kind == "rejected":
        return str(told["meaning"]).replace("reject", "rejected", 1)
    if kind == "approved":
        what = "amendment" if "amendment" in told else "candidate"
        return f"approved {what} {told[what]}"
    if kind == "commented":
        return str(told["meaning"]).replace("comment on", "commented on", 1)
    if kind == "forgotten":
        told = {"counted": plural(told["episodes"], "episode")}
    return ENTRIES.get(kind, kind).format_map(told)


def changed_values(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the keys in which two protocols differ, with both values; None means not set.

    >>> [*changed_values({"budget": {"deployments": 2}}, {"budget": {"deployments": 4}})]
    [('budget.deployments', 2, 4)]
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from changed_values(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield path, old, new
