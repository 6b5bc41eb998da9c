"""Who was behind episodes: apart from the chains, and forgotten when somebody asks.

An episode whose participant was forgotten keeps a row without a name: nothing that is told of the
episode later brings the name back.
"""

from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from rareswitch.campaigns.errors import ConflictError
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.store.among import among, names_given
from rareswitch.campaigns.store.prepared import rows_found
from rareswitch.campaigns.store.tables import participants

FORGOTTEN = ""  # in place of a name; no participant is called so


class People:
    """The participants of some episodes within one transaction; `write` keeps what was told."""

    def __init__(self, pen: Pen, names: str) -> None:
        """Know of the episodes that `names_given` made these names of."""
        self._pen, self._names = pen, names
        self._told: dict[str, str] = {}
        self._stored: dict[str, str] | None = None  # looked up when somebody asks

    def add(self, episode_id: str, participant: str | None) -> None:
        """Keep who was behind an episode that is just being recorded."""
        if participant is not None:
            self._told[episode_id] = participant

    def tell_again(self, episode_id: str, participant: str | None) -> None:
        """Keep who was behind a recorded episode if nobody is kept yet; another is a conflict."""
        if participant is None:
            return
        kept = self._kept(episode_id)
        if kept is None:
            self._told[episode_id] = participant
        elif kept not in (FORGOTTEN, participant):
            raise ConflictError(
                f"episode {episode_id} is recorded already, of another participant; who it was is "
                "never overwritten, but it can be corrected"
            )

    def correct(self, episode_id: str, participant: str | None) -> None:
        """Keep who was behind an episode instead of who is kept, but for who was forgotten."""
        if participant is not None and self._kept(episode_id) != FORGOTTEN:
            self._told[episode_id] = participant

    def write(self) -> None:
        """Put down all that was told."""
        if not self._told:
            return
        connection, campaign = self._pen.connection, self._pen.campaign
        told = participants.c
        for episode_id in self._told.keys() & (self._stored or {}).keys():
            connection.execute(
                participants.delete().where(
                    told.campaign == campaign, told.episode_id == episode_id
                )
            )
        connection.execute(
            participants.insert(),
            [
                {"campaign": campaign, "episode_id": episode_id, "participant": participant}
                for episode_id, participant in self._told.items()
            ],
        )

    def _kept(self, episode_id: str) -> str | None:
        if episode_id in self._told:
            return self._told[episode_id]
        if self._stored is None:
            connection = self._pen.connection
            given = {"of": self._pen.campaign, "names": self._names}
            statement = _kept_statement(connection.dialect.name)
            self._stored = dict(map(tuple, rows_found(connection, statement, given)))
        return self._stored.get(episode_id)


def people_of(pen: Pen, episode_id: str) -> People:
    """Return the participants of one episode."""
    return People(pen, names_given([episode_id]))


def forget(pen: Pen, participant: str) -> int:
    """Put nobody in the place of a participant; return of how many episodes."""
    told = participants.c
    gone: int = pen.connection.execute(
        participants.update()
        .where(told.campaign == pen.campaign, told.participant == participant)
        .values(participant=FORGOTTEN)
    ).rowcount
    return gone


@lru_cache
def _kept_statement(dialect: str) -> Any:
    columns = participants.c
    return sa.select(columns.episode_id, columns.participant).where(
        columns.campaign == sa.bindparam("of"), among(dialect, columns.episode_id)
    )
