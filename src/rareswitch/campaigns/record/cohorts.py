"""The returns of each version, kept so that nobody has to count episodes to know them.

A cohort is the episodes that one version played, as shares of the horizon; cohort 0 is the intake,
1 for every report that was refused and 0 for every one recorded.
"""

import json

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.record.canonical import canonical
from rareswitch.campaigns.record.counting import INTAKE, NOTHING, Counting, in_their_order
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.state import State
from rareswitch.campaigns.stopping.running_mean import RunningMean
from rareswitch.campaigns.store.prepared import rows_found, run_each
from rareswitch.campaigns.store.tables import cohorts, episodes

_SELECT = sa.select(cohorts.c.version, cohorts.c.state).where(
    cohorts.c.campaign == sa.bindparam("of")
)
_UPDATE = (
    cohorts.update()
    .where(cohorts.c.campaign == sa.bindparam("of"), cohorts.c.version == sa.bindparam("which"))
    .values(state=sa.bindparam("kept"))
)
_INSERT = cohorts.insert().values(
    campaign=sa.bindparam("of"), version=sa.bindparam("which"), state=sa.bindparam("kept")
)


class Cohorts:
    """The cohorts of a campaign within one transaction; `write` keeps those that changed."""

    def __init__(self, pen: Pen, state: State) -> None:
        self._connection, self._campaign = pen.connection, pen.campaign
        self._known = cohorts_of(self._connection, self._campaign)
        self._stored = set(self._known)
        self._changed: set[int] = set()
        log, refused = pen.heads["episodes"].length, pen.heads["refusals"].length
        if self[INTAKE].observations != log - state.corrections + refused:  # lost, or of others
            horizon = state.protocol.task.horizon
            self._known = all_counted_again(self._connection, self._campaign, horizon=horizon)
            self._changed |= set(self._known)

    def __getitem__(self, version: int) -> RunningMean:
        return self._known.get(version, NOTHING)

    def __setitem__(self, version: int, seen: RunningMean) -> None:
        self._known[version] = seen
        self._changed.add(version)

    @property
    def episodes(self) -> int:
        """How many episodes all versions played together."""
        return sum([seen.observations for seen in self._known.values()]) - self[INTAKE].observations

    def add(self, version: int, x: float) -> None:
        """Count one more observation in [0, 1]."""
        self[version] = self[version].after(x)

    def write(self) -> None:
        for statement, versions in (
            (_UPDATE, self._changed & self._stored),
            (_INSERT, self._changed - self._stored),
        ):
            kept = [
                {
                    "of": self._campaign,
                    "which": version,
                    "kept": canonical(self._known[version]._asdict()),
                }
                for version in sorted(versions)
            ]
            if kept:
                run_each(self._connection, statement, kept)
        self._stored |= self._changed
        self._changed.clear()


def cohorts_of(connection: Connection, campaign: str) -> dict[int, RunningMean]:
    """Return what is kept of every cohort."""
    found = rows_found(connection, _SELECT, {"of": campaign})
    return {version: RunningMean(**json.loads(state)) for version, state in found}


def all_counted_again(
    connection: Connection, campaign: str, *, horizon: int
) -> dict[int, RunningMean]:
    """Return every cohort from the log and the register of refusals, in the order they came."""
    counting = Counting(horizon=horizon)
    for chain, row in in_their_order(connection, campaign):
        counting.see(chain, row)
    return counting.cohorts


def counted_again(
    connection: Connection, campaign: str, version: int, *, horizon: int
) -> RunningMean:
    """Return a version's cohort from the log: every episode in its place, as it was corrected."""
    latest: dict[str, float | None] = {}
    rows = connection.execute(
        sa.select(episodes.c.episode_id, episodes.c.total, episodes.c.body.is_(None))
        .where(episodes.c.campaign == campaign, episodes.c.version == version)
        .order_by(episodes.c.seq)
    )
    for episode_id, total, withdrawn in rows:
        latest[episode_id] = None if withdrawn else total
    seen = RunningMean()
    for total in latest.values():
        if total is not None:
            seen = seen.after(total / horizon)
    return seen
