"""The learner of a campaign, folded from its log and ledger.

What a learner knows is a function of the log up to some `seq` and of the deployments before it. A
candidate that was fitted at `seq` counts as deployed there, however long people took to approve it,
and an amendment holds for the rows after it: so it does not matter when a learner ran, how often it
was killed, and who ran it.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Connection

from rareswitch.campaigns.protocol import Protocol, protocol_of
from rareswitch.campaigns.record.canonical import canonical
from rareswitch.campaigns.record.ledger import Entry
from rareswitch.campaigns.record.log import corrections_of, rows_of
from rareswitch.campaigns.report import episode_of
from rareswitch.campaigns.state import State
from rareswitch.core.clock import Clock, Trigger, triggers_of
from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy
from rareswitch.learning.learner import Learner

Step = tuple[int, Episode | None]  # a row, and the episode that is learnt from it
ABSORBED_TOGETHER = 256
COLUMNS = ("episode_id", "revision", "learn", "body")


class Fold:
    """A learner that has seen the log up to `seq`, and the first `entries` of the ledger."""

    def __init__(self, campaign: str, policies: Callable[[str], Policy]) -> None:
        self.campaign, self._policies = campaign, policies
        self.seq = self.entries = 0
        self.learner: Learner
        self.protocol: Protocol  # the revision that holds for the last row
        self._coming: list[tuple[int, Protocol]] = []  # revisions, and the rows after which
        self._rollbacks = 0
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
            if entry.kind == "created" or (entry.kind == "amended" and entry.position < seq):
                fold.protocol = _protocol_in(entry)
            elif entry.kind == "amended":
                fold._coming.append((entry.position, _protocol_in(entry)))
            fold._rollbacks += entry.kind == "rolled-back"
        recipe, schedule = fold.protocol.recipe, fold.protocol.schedule
        fold.learner = Learner.restore(data, schedule=schedule, exploration=recipe.exploration)
        fold.seq, fold.entries = seq, len(entries)
        return fold

    @property
    def clock(self) -> Clock:
        """What the schedule sees: rollbacks are counted apart, so it counts deployments without."""
        seen = self.learner.clock
        return replace(seen, deployments=seen.deployments - self._rollbacks)

    @property
    def due(self) -> bool:
        """Whether the schedule asks for a new policy."""
        if self.learner.episodes >= self.protocol.episodes:
            return False  # there is no next episode
        return bool(self.protocol.schedule.due(self.clock))

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """What the schedule watches."""
        return triggers_of(self.protocol.schedule, self.clock)

    def follow(self, connection: Connection, entries: Sequence[Entry]) -> None:
        """Go on through entries of the ledger, absorbing the log up to where each belongs."""
        for entry in entries:
            if entry.kind == "created":
                self.protocol = _protocol_in(entry)
                self.learner = self.protocol.learner()
            elif entry.kind == "amended":
                self._coming.append((entry.position, _protocol_in(entry)))
            elif entry.kind in ("deployed", "rolled-back") and entry.payload["version"] > 1:
                self.absorb(connection, upto=entry.payload["seq"])
                self.learner.deploy(self._policies(entry.payload["digest"]))
                self._rollbacks += entry.kind == "rolled-back"
            self._taken.append(entry)  # only now: a correction on the way folds the others again
            self.entries = entry.number

    def absorb(self, connection: Connection, *, upto: int) -> None:
        """Absorb the log up to a row; nobody asks the schedule on the way."""
        self._absorb(connection, upto=upto, until=None)

    def absorb_until_due(self, connection: Connection, state: State, *, upto: int) -> bool:
        """Absorb the log until a row at which a new policy is due; return whether there is one.

        `state` is that of the ledger so far. The schedule is asked after every row that it was not
        asked at before, while a deployment is left, now and by the protocol of that row.
        """
        if not state.may_propose:
            self.absorb(connection, upto=upto)
            return False
        self.absorb(connection, upto=min(upto, state.watched))

        def asked() -> bool:
            beyond = self.seq > state.watched
            return beyond and state.spent < self.protocol.budget and self.due

        # A learner that died before it proposed has left a snapshot of where one is due.
        return asked() or self._absorb(connection, upto=upto, until=asked)

    def _absorb(
        self, connection: Connection, *, upto: int, until: Callable[[], bool] | None
    ) -> bool:
        """Absorb the log up to a row, or until something is so after one; return whether it is."""
        block: list[Step] = []
        for row in rows_of(
            connection, "episodes", self.campaign, after=self.seq, upto=upto, columns=COLUMNS
        ):
            corrects = row.revision and row.seq > self._corrected_upto
            if corrects and until is None:
                self._fold_again(connection, upto=upto)
                return False
            amended = self._coming and self._coming[0][0] < row.seq
            if corrects or amended or len(block) == ABSORBED_TOGETHER:
                if self._take(block, until):
                    return True
                block = []
            if corrects:
                self._fold_again(connection, upto=row.seq)
                if until is not None and until():
                    return True
            else:
                block.append((row.seq, self._episode(row)))
        return self._take(block, until)

    def _episode(self, row: Any) -> Episode | None:
        """Return what is learnt from a row, as it is known now."""
        body = None if row.revision else self._corrected.get(row.episode_id, row.body)
        return episode_of(body) if body is not None and row.learn else None

    def _take(self, block: Sequence[Step], until: Callable[[], bool] | None) -> bool:
        """Absorb rows of one revision of the protocol, or until something is so after one."""
        if not block:
            return False
        self._go_to(block[0][0])
        episodes = [episode for _, episode in block if episode is not None]
        if until is None or self._asked_once(len(episodes)):
            before, self.learner = self.learner, copy(self.learner)
            self.learner.absorb(*episodes)
            self.seq = block[-1][0]
            if until is None or not until():
                return False
            self.learner = before
        for seq, episode in block:
            if episode is not None:
                self.learner.absorb(episode)
            self.seq = seq
            if until():
                return True
        return False

    def _asked_once(self, episodes: int) -> bool:
        """Return whether it is enough to ask the schedule after the last of so many episodes.

        A rule with `stays_due`, once due, stays due until a deployment: if it is not due after the
        last, it was not due before. But no rule is due after the planned episodes.
        """
        stays_due = getattr(self.protocol.schedule, "stays_due", False)
        return bool(stays_due) and self.learner.episodes + episodes < self.protocol.episodes

    def _fold_again(self, connection: Connection, *, upto: int) -> None:
        """Fold everything up to a correction again, with what is known after it."""
        again = Fold(self.campaign, self._policies)
        again._corrected = corrections_of(connection, self.campaign, upto=upto)
        again._corrected_upto = upto
        again.follow(connection, self._taken)
        again.absorb(connection, upto=upto)
        vars(self).update(vars(again))

    def _go_to(self, seq: int) -> None:
        """Have seen the log up to a row, with the amendments that hold from there on."""
        self.seq = seq
        while self._coming and self._coming[0][0] < seq:
            _, self.protocol = self._coming.pop(0)
            self.learner.amend(schedule=self.protocol.schedule, episodes=self.protocol.episodes)


def _protocol_in(entry: Entry) -> Protocol:
    return protocol_of(canonical(entry.payload["protocol"]))
