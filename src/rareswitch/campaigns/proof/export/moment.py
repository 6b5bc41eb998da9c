"""One moment of a campaign, as a connection sees it: what all files of an export agree on."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.record.ledger import Entry, entries_after
from rareswitch.campaigns.record.pen import Head, heads_of
from rareswitch.campaigns.state import State
from rareswitch.campaigns.store.tables import assignments, episodes, refusals


class Moment:
    """What is known of a campaign at one moment, without its rows.

    `corrected` says of every episode that was recorded anew which revision of it counts.
    """

    def __init__(self, connection: Connection, campaign: str) -> None:
        self.connection, self.campaign = connection, campaign
        self.heads: dict[str, Head] = heads_of(connection, campaign)
        # A campaign that is open remembers its ledger, perhaps beyond what this connection sees.
        self.entries: list[Entry] = entries_after(connection, campaign, 0)
        self.state: State = State().after(self.entries)
        self.corrected: dict[str, int] = self._corrected()

    @property
    def horizon(self) -> int:
        return self.state.protocol.task.horizon

    @property
    def assigned(self) -> dict[int, int]:
        """How many episodes were assigned to each version."""
        mine = assignments.c.campaign == self.campaign
        asked = sa.select(assignments.c.version, sa.func.count()).where(mine)
        return self._counts(asked.group_by(assignments.c.version))

    @property
    def missing(self) -> dict[int, int]:
        """How many of them were never reported."""
        reported = (
            sa.select(episodes.c.seq)
            .where(
                episodes.c.campaign == self.campaign,
                episodes.c.episode_id == assignments.c.episode_id,
                episodes.c.revision == 0,
            )
            .exists()
        )
        asked = sa.select(assignments.c.version, sa.func.count()).where(
            assignments.c.campaign == self.campaign, ~reported
        )
        return self._counts(asked.group_by(assignments.c.version))

    @property
    def refused(self) -> list[tuple[str, int]]:
        """How often input was refused for each reason, the most frequent first."""
        counts: dict[str, int] = {}
        rows = self.connection.execute(
            sa.select(refusals.c.reason, sa.func.count())
            .where(refusals.c.campaign == self.campaign)
            .group_by(refusals.c.reason)
        )
        for reason, count in rows:
            kind = reason.partition(";")[0]
            counts[kind] = counts.get(kind, 0) + count
        return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))

    def _corrected(self) -> dict[str, int]:
        rows = self.connection.execute(
            sa.select(episodes.c.episode_id, sa.func.max(episodes.c.revision))
            .where(episodes.c.campaign == self.campaign, episodes.c.revision > 0)
            .group_by(episodes.c.episode_id)
        )
        return dict(map(tuple, rows))

    def _counts(self, asked: sa.Select[Any]) -> dict[int, int]:
        return dict(map(tuple, self.connection.execute(asked)))
