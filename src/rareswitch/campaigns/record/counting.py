"""Counting cohorts again from what is recorded: rows and refusals in the order they came."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from sqlalchemy.engine import Connection

from rareswitch.campaigns.record.log import rows_of
from rareswitch.campaigns.stopping.running_mean import RunningMean
from rareswitch.campaigns.store.tables import episodes

NOTHING = RunningMean()
INTAKE = 0  # the cohort of all reports: 1 for what was refused, 0 for what was recorded
COLUMNS = ("episode_id", "revision", "version", "total", episodes.c.body.is_(None).label("gone"))


def in_their_order(connection: Connection, campaign: str) -> Iterator[tuple[str, Any]]:
    """Give all rows of the log, and each refusal after the row that was the last one then."""
    refused = rows_of(connection, "refusals", campaign, columns=("seq",))
    coming = next(refused, None)
    for row in rows_of(connection, "episodes", campaign, columns=COLUMNS):
        while coming is not None and coming.seq < row.seq:
            yield "refusals", coming
            coming = next(refused, None)
        yield "episodes", row
    while coming is not None:
        yield "refusals", coming
        coming = next(refused, None)


class Counting:
    """The cohorts of what was shown so far: every episode in its place, as it was corrected.

    A version whose episodes were corrected is counted again when somebody asks for it.
    """

    def __init__(self, *, horizon: int) -> None:
        self._horizon = horizon
        self._known: dict[int, RunningMean] = {}
        self._returns: dict[int, dict[str, float | None]] = defaultdict(dict)  # None: withdrawn
        self._stale: set[int] = set()
        self.episodes = 0  # those that are not withdrawn

    def __getitem__(self, version: int) -> RunningMean:
        if version in self._stale:
            self._stale.remove(version)
            self._known[version] = NOTHING
            for total in self._returns[version].values():
                self._add(version, total)
        return self._known.get(version, NOTHING)

    @property
    def cohorts(self) -> dict[int, RunningMean]:
        """All of them, by the version; the intake too."""
        return {version: self[version] for version in self._known}

    def see(self, chain: str, row: Any) -> None:
        """Count the next row of the log, or the next refusal."""
        if chain == "refusals":
            self._known[INTAKE] = self[INTAKE].after(1.0)
            return
        returns, total = self._returns[row.version], None if row.gone else row.total
        self.episodes += (total is not None) - (returns.get(row.episode_id) is not None)
        returns[row.episode_id] = total
        if row.revision:
            self._stale.add(row.version)
            return
        self._known[INTAKE] = self[INTAKE].after(0.0)
        if row.version not in self._stale:
            self._add(row.version, total)

    def _add(self, version: int, total: float | None) -> None:
        if total is not None:
            self._known[version] = self[version].after(total / self._horizon)
