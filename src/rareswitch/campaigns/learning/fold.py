"""The learner of a campaign, computed from its log and ledger.

A learner is a function of the log up to some row and of the deployments before it. A candidate
fitted at row `seq` counts as deployed there, however long its approval took; an amendment applies
to the rows after it; a correction replaces an episode at the correction's row. So the result does
not depend on when a learner ran, how often it was killed, or who ran it.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from rareswitch.campaigns.protocol import recipe_of, schedule_of, task_of
from rareswitch.campaigns.report import episode_of, read_bodies
from rareswitch.campaigns.rulebook.rows import Entry, EpisodeRow, Record
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.core.candidate import Candidate
from rareswitch.core.clock import Clock, Schedule, Trigger, triggers_of
from rareswitch.core.policy import Policy
from rareswitch.learning.learner import Learner

ABSORBED_TOGETHER = 256


class Fold:
    """A learner with the log up to `seq` and the first `entries` of the ledger.

    `policies(digest)` returns a policy. `schedules(terms)` returns the schedule of a revision, by
    default the protocol's schedule. `allow` names the modules of the user's own code.
    """

    def __init__(
        self,
        policies: Callable[[str], Policy],
        schedules: Callable[[Terms], Schedule] | None = None,
        *,
        allow: Sequence[str] = (),
    ) -> None:
        self._policies, self._allow = policies, allow
        self._schedules = schedules or (lambda terms: schedule_of(terms.plain, allow=allow))
        self.seq = self.entries = 0
        self.learner: Learner
        self.terms: Terms  # the revision for the last row
        self._coming: list[tuple[int, Terms]] = []  # revisions, and the rows after which they apply
        self._rollbacks = 0

    def resume(self, data: bytes, *, seq: int, entries: Sequence[Entry]) -> None:
        """Restore a snapshot that was taken after these entries."""
        for entry in entries:
            if entry.kind in ("created", "amended"):
                terms = Terms.of(entry.payload["protocol"])
                if entry.kind == "created" or entry.position < seq:
                    self.terms = terms
                else:
                    self._coming.append((entry.position, terms))
            self._rollbacks += entry.kind == "rolled-back"
        exploration = recipe_of(self.terms.plain, self._allow).exploration
        schedule = self._schedules(self.terms)
        self.learner = Learner.restore(data, schedule=schedule, exploration=exploration)
        self.seq, self.entries = seq, len(entries)

    @property
    def clock(self) -> Clock:
        """The schedule's clock; it counts deployments without rollbacks."""
        seen = self.learner.clock
        return replace(seen, deployments=seen.deployments - self._rollbacks)

    @property
    def due(self) -> bool:
        """Whether the schedule asks for a new policy."""
        if self.learner.episodes >= self.terms.episodes:
            return False  # there is no next episode
        return bool(self.learner.schedule.due(self.clock))

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The triggers that the schedule watches."""
        return triggers_of(self.learner.schedule, self.clock)

    def candidate(self, policy: Policy) -> Candidate:
        """Return a policy and the policy in force, in the form that a schedule examines."""
        return replace(self.learner.candidate(policy), clock=self.clock)

    def follow(self, record: Record, entries: Sequence[Entry]) -> None:
        """Process entries of the ledger; absorb the log up to the row of each entry."""
        for entry in entries:
            if entry.kind == "created":
                self.terms = Terms.of(entry.payload["protocol"])
                plain = self.terms.plain
                schedule = self._schedules(self.terms)
                recipe = recipe_of(plain, self._allow)
                self.learner = Learner(task_of(plain["task"]), schedule, recipe)
            elif entry.kind == "amended":
                self._coming.append((entry.position, Terms.of(entry.payload["protocol"])))
            elif entry.kind == "declined":
                self.absorb(record, upto=entry.payload["seq"])
                self.learner.decline()
            elif entry.kind in ("deployed", "rolled-back") and entry.payload["version"] > 1:
                self.absorb(record, upto=entry.payload["seq"])
                self.learner.deploy(self._policies(entry.payload["digest"]))
                self._rollbacks += entry.kind == "rolled-back"
            self.entries = entry.number

    def absorb(self, record: Record, *, upto: int) -> None:
        """Absorb the log up to a row, without evaluating the schedule."""
        self._absorb(record, upto=upto, until=None)

    def absorb_until_due(self, record: Record, state: State, *, upto: int) -> bool:
        """Absorb the log until a row at which a new policy is due; return whether there is one.

        `state` is that of the ledger so far. The schedule is evaluated once after every episode,
        but not after a correction.
        """
        if not state.may_propose:
            self.absorb(record, upto=upto)
            return False
        self.absorb(record, upto=min(upto, state.watched))

        def asked() -> bool:
            beyond = self.seq > state.watched
            return beyond and state.spent < self.terms.budget and self.due

        # A learner that died before its proposal left a snapshot at a row where a policy is due.
        last = record.rows("episodes", after=self.seq - 1, upto=self.seq) if self.seq else ()
        due = any(not row.revision for row in last) and asked()
        return due or self._absorb(record, upto=upto, until=asked)

    def _absorb(self, record: Record, *, upto: int, until: Callable[[], bool] | None) -> bool:
        """Absorb the log up to a row, or until `until()` is true; return whether it became true."""
        block: list[EpisodeRow] = []
        for row in record.rows("episodes", after=self.seq, upto=upto):
            amended = self._coming and self._coming[0][0] < row.seq
            if row.revision or amended or len(block) == ABSORBED_TOGETHER:
                if self._take(block, until):
                    return True
                block = []
            if row.revision:
                self._correct(record, row)
            else:
                block.append(row)
        return self._take(block, until)

    def _correct(self, record: Record, row: EpisodeRow) -> None:
        """Replace an episode by its correction, or remove it."""
        self._go_to(row.seq)
        if row.learn:
            before = record.revision(row.episode_id, row.revision - 1)
            new = None if row.body is None else episode_of(row.body)
            assert before.body is not None
            self.learner.correct(episode_of(before.body), new)

    def _take(self, block: Sequence[EpisodeRow], until: Callable[[], bool] | None) -> bool:
        """Absorb rows of one revision of the protocol, or until `until()` is true."""
        if not block:
            return False
        self._go_to(block[0].seq)
        bodies = {row.seq: row.body for row in block if row.learn and row.body is not None}
        looks = hasattr(self.learner.schedule, "accepts")
        learnt = [
            report.episode_with_offers if looks else report.episode
            for report in read_bodies([*bodies.values()])
        ]
        episodes = dict(zip(bodies, learnt, strict=True))
        if until is None or self._asked_once(len(learnt)):
            before, self.learner = self.learner, copy(self.learner)
            self.learner.absorb(*learnt)
            self.seq = block[-1].seq
            if until is None or not until():
                return False
            self.learner = before
        for row in block:
            if row.seq in episodes:
                self.learner.absorb(episodes[row.seq])
            self.seq = row.seq
            if until():
                return True
        return False

    def _asked_once(self, episodes: int) -> bool:
        """Return whether evaluating the schedule after the last of `episodes` episodes is enough.

        A rule with `stays_due`, once due, stays due until a deployment: if it is not due after the
        last episode, it was not due before. But no rule is due after the planned episodes.
        """
        stays_due = getattr(self.learner.schedule, "stays_due", False)
        return bool(stays_due) and self.learner.episodes + episodes < self.terms.episodes

    def _go_to(self, seq: int) -> None:
        """Move to a row of the log, and apply the amendments up to it."""
        self.seq = seq
        while self._coming and self._coming[0][0] < seq:
            _, self.terms = self._coming.pop(0)
            schedule = self._schedules(self.terms)
            self.learner.amend(schedule=schedule, episodes=self.terms.episodes)
