"""Where a campaign stands, for the people who run it; without reading its episodes."""

from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.learn.learning import progress_of
from rareswitch.campaigns.record.cohorts import cohorts_of
from rareswitch.campaigns.record.pen import heads_of
from rareswitch.campaigns.state import Candidate, State
from rareswitch.campaigns.store.tables import episodes

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class VersionStatus:
    """A version as a cohort: since when, how it came about, and what its episodes returned.

    `low` and `high` are an interval for the mean return that holds at every look together.
    """

    version: int
    since: int
    at: str
    actor: str
    rollback_to: int | None
    digest: str
    episodes: int
    late: int
    mean: float | None
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Status:
    """All that a trial manager asks first."""

    name: str
    protocol: str
    revision: int
    stopped: str | None
    version: int
    budget: int
    spent: int
    left: int
    rollbacks: int
    planned_episodes: int
    recorded: int
    rows: int
    assigned: int
    open: int
    refused: int
    late: int
    folded: int
    triggers: tuple[dict[str, Any], ...]
    waiting: dict[str, Any] | None
    versions: tuple[VersionStatus, ...]
    ledger: int
    ledger_link: str

    @property
    def plain(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


def status_of(campaign: Campaign) -> Status:
    """Return where a campaign stands at one moment."""
    with campaign.store.reading() as connection:
        state, heads = campaign.state_at(connection), heads_of(connection, campaign.name)
        reported, late = _counts(connection, campaign.name)
        versions = _versions(connection, campaign.name, state, late)
        folded, said = progress_of(connection, campaign.name) or (0, {"triggers": []})
        in_force = state.in_force.entry.number
    current = said.get("entries", 0) >= in_force  # else it speaks of an earlier version
    protocol = state.protocol
    return Status(
        name=campaign.name,
        protocol=protocol.digest,
        revision=len(state.revisions),
        stopped=None if state.stopped is None else state.stopped.reason,
        version=state.in_force.version,
        budget=protocol.budget,
        spent=state.spent,
        left=state.left,
        rollbacks=sum(version.rollback_to is not None for version in state.versions),
        planned_episodes=protocol.episodes,
        recorded=sum(version.episodes for version in versions),
        rows=heads["episodes"].length,
        assigned=heads["assignments"].length,
        open=heads["assignments"].length - reported,
        refused=heads["refusals"].length,
        late=sum(late.values()),
        folded=folded,
        triggers=tuple(said["triggers"]) if current else (),
        waiting=_waiting(state.waiting),
        versions=versions,
        ledger=heads["ledger"].length,
        ledger_link=heads["ledger"].link,
    )


def _counts(connection: Connection, campaign: str) -> tuple[int, dict[int, int]]:
    """Return how many assigned episodes were reported, and how many of each version were late."""
    columns = episodes.c
    rows = connection.execute(
        sa.select(columns.version, columns.assigned, columns.late, sa.func.count())
        .where(columns.campaign == campaign, columns.revision == 0)
        .group_by(columns.version, columns.assigned, columns.late)
    ).all()
    late: dict[int, int] = {}
    for version, _, was_late, count in rows:
        if was_late:
            late[version] = late.get(version, 0) + count
    return sum(count for _, assigned, _, count in rows if assigned), late


def _versions(
    connection: Connection, campaign: str, state: State, late: dict[int, int]
) -> tuple[VersionStatus, ...]:
    cohorts, horizon, found = cohorts_of(connection, campaign), state.protocol.task.horizon, []
    for version in state.versions:
        seen = cohorts.get(version.version)
        ends = (0.0, 1.0) if seen is None else seen.bounds(CONFIDENCE)
        mean = None if seen is None else seen.mean
        found.append(
            VersionStatus(
                version=version.version,
                since=version.since,
                at=version.entry.at,
                actor=version.entry.actor,
                rollback_to=version.rollback_to,
                digest=version.digest,
                episodes=0 if seen is None else seen.observations,
                late=late.get(version.version, 0),
                mean=None if mean is None else horizon * mean,
                low=horizon * ends[0],
                high=horizon * ends[1],
            )
        )
    return tuple(found)


def _waiting(candidate: Candidate | None) -> dict[str, Any] | None:
    if candidate is None:
        return None
    return {
        "candidate": candidate.number,
        "version": candidate.version,
        "proposer": candidate.proposer,
        "planned": candidate.planned,
        "seq": candidate.seq,
        "digest": candidate.digest,
        "reason": candidate.entry.reason,
        "evidence": candidate.evidence,
    }
