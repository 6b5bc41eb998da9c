"""The participants of episodes, stored apart from the chains and erased on request.

An episode whose participant was erased keeps a row without a name, so no later report of the
episode restores the name.
"""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.errors import ConflictError
from rareswitch.campaigns.store.rows import rows_of_episodes
from rareswitch.campaigns.store.tables import participants

FORGOTTEN = ""  # replaces an erased name; no participant has this name
_KEEP = sa.text(
    "INSERT INTO participants (campaign, episode_id, participant) VALUES (:of, :which, :kept) "
    "ON CONFLICT (campaign, episode_id) DO UPDATE SET participant = excluded.participant"
)


class People:
    """The participants of the episodes `names` within one transaction; `write` stores them."""

    def __init__(self, connection: Connection, campaign: str, names: str) -> None:
        self._connection, self._campaign, self._names = connection, campaign, names
        self._told: dict[str, str] = {}
        self._stored: dict[str, str] | None = None  # looked up when first needed

    def add(self, episode_id: str, participant: str | None) -> None:
        """Keep the participant of a new episode."""
        if participant is not None:
            self._told[episode_id] = participant

    def tell_again(self, episode_id: str, participant: str | None) -> None:
        """Keep the participant of a recorded episode if it has none; another name is a conflict."""
        if participant is None:
            return
        kept = self._kept(episode_id)
        if kept is None:
            self._told[episode_id] = participant
        elif kept not in (FORGOTTEN, participant):
            raise ConflictError(
                f"episode {episode_id} is recorded already, for another participant; a participant "
                "is never overwritten, but can be corrected"
            )

    def correct(self, episode_id: str, participant: str | None) -> None:
        """Replace the participant of an episode, unless the participant was erased."""
        if participant is not None and self._kept(episode_id) != FORGOTTEN:
            self._told[episode_id] = participant

    def forget(self, participant: str) -> int:
        """Erase a participant's name, also in this transaction; return the number of episodes.

        Later reports in the transaction do not restore it.
        """
        self.write()
        self._stored = None  # the names that were looked up before
        told = participants.c
        gone: int = self._connection.execute(
            participants.update()
            .where(told.campaign == self._campaign, told.participant == participant)
            .values(participant=FORGOTTEN)
        ).rowcount
        return gone

    def write(self) -> None:
        """Store all new participants."""
        if not self._told:
            return
        of = {"of": self._campaign}
        rows = [of | {"which": name, "kept": told} for name, told in self._told.items()]
        self._connection.execute(_KEEP, rows)
        self._told.clear()

    def _kept(self, episode_id: str) -> str | None:
        if episode_id in self._told:
            return self._told[episode_id]
        if self._stored is None:
            columns = (participants.c.episode_id, participants.c.participant)
            found = rows_of_episodes(self._connection, self._campaign, self._names, columns)
            self._stored = dict(map(tuple, found))
        return self._stored.get(episode_id)
