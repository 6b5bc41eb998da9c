"""The learner of a campaign, folded from its log and ledger.

What a learner knows is a function of the log up to some `seq` and of the deployments before it. A
candidate that was fitted at `seq` counts as deployed there, however long people took to approve it:
so it does not matter when a learner ran, how often it was killed, and who ran it.
"""

from collections.abc import Callable, Sequence

from sqlalchemy.engine import Connection

from rareswitch.campaigns.canonical import canonical
from rareswitch.campaigns.ledger import Entry
from rareswitch.campaigns.log import corrections_of, rows_of
from rareswitch.campaigns.protocol import Protocol, protocol_of
from rareswitch.campaigns.report import episode_of
from rareswitch.core.learner import Learner
from rareswitch.core.policy import Policy

COLUMNS = ("episode_id", "revision", "learn", "body")


class Fold:
    """A learner that has seen the log up to `seq`, and the first `entries` of the ledger."""

    def __init__(self, campaign: str, policies: Callable[[str], Policy]) -> None:
        self.campaign, self._policies = campaign, policies
        self.seq = self.entries = 0
        self.learner: Learner
        self._protocol: Protocol
        self._corrected: dict[str, bytes | None] = {}
        self._corrected_upto = 0  # the last row whose correction is among them
        self._taken: list[Entry] = []

    @classmethod
    def resumed(
        cls,
        campaign: str,
        policies: Callable[[str], Policy],
        *,
        data: bytes,
        seq: int,
        entries: Sequence[Entry],
    ) -> "Fold":
        """Return the fold of a snapshot that was taken after these entries."""
        fold = cls(campaign, policies)
        fold._taken = list(entries)
        for entry in entries:
            if entry.kind in ("created", "amended"):
                fold._protocol = protocol_of(canonical(entry.payload["protocol"]))
        recipe, schedule = fold._protocol.recipe, fold._protocol.schedule
        fold.learner = Learner.restore(data, schedule=schedule, exploration=recipe.exploration)
        fold.seq, fold.entries = seq, len(entries)
        return fold

    def follow(self, connection: Connection, entries: Sequence[Entry]) -> None:
        """Go on through entries of the ledger, absorbing the log up to where each belongs."""
        for entry in entries:
            self._taken.append(entry)
            if entry.kind == "created":
                self._protocol = protocol_of(canonical(entry.payload["protocol"]))
                self.learner = self._protocol.learner()
            elif entry.kind == "amended":
                self._protocol = protocol_of(canonical(entry.payload["protocol"]))
                self.learner.schedule = self._protocol.schedule
                self.learner.planned_episodes = self._protocol.task.episodes
            elif entry.kind in ("deployed", "rolled-back") and entry.payload["version"] > 1:
                self.absorb(connection, upto=entry.payload["seq"])
                self.learner.deploy(self._policies(entry.payload["digest"]))
            self.entries = entry.number

    def absorb(
        self,
        connection: Connection,
        *,
        upto: int,
        until: Callable[["Fold"], bool] = lambda fold: False,
    ) -> bool:
        """Absorb the log up to a row, or until something is so after one; return whether it is."""
        rows = rows_of(
            connection,
            "episodes",
            self.campaign,
            after=self.seq,
            upto=upto,
            columns=COLUMNS,
        )
        for row in rows:
            if row.revision and row.seq > self._corrected_upto:
                self._fold_again(connection, upto=row.seq)
            elif not row.revision:
                body = self._corrected.get(row.episode_id, row.body)
                if body is not None and row.learn:
                    self.learner.absorb(episode_of(body))
            self.seq = row.seq
            if until(self):
                return True
        return False

    def _fold_again(self, connection: Connection, *, upto: int) -> None:
        """Fold everything up to a correction again, with what is known after it."""
        again = Fold(self.campaign, self._policies)
        again._corrected = corrections_of(connection, self.campaign, upto=upto)
        again._corrected_upto = upto
        again.follow(connection, self._taken)
        again.absorb(connection, upto=upto)
        vars(self).update(vars(again))
