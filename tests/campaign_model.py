"""A campaign in plain Python: lists, dictionaries and loops over everything.

The model keeps whole histories and computes every answer from them again. It knows nothing of
stores, chains, snapshots or caches; only fits are those of the core.
"""

from contextlib import suppress
from dataclasses import dataclass, field

import rareswitch as rs
from campaign_builders import report
from rareswitch.campaigns import (
    CampaignError,
    ConflictError,
    DataQuality,
    Futility,
    MovedError,
    NotAllowedError,
    RefusedError,
)
from rareswitch.campaigns.rulebook.running_mean import RunningMean


@dataclass
class Row:
    """A row of the log: an episode, or the next revision of one."""

    number: int
    revision: int
    version: int
    late: bool
    learn: bool
    content: tuple | None  # None: withdrawn


@dataclass
class Acting:
    """A version: its policy, where it was fitted, when it came into force, whose policy it is."""

    digest: str
    seq: int
    since: int
    origin: int
    rollback_to: int | None = None


@dataclass
class Waiting:
    """A candidate."""

    seq: int
    digest: str
    proposer: str
    status: str = "waiting"
    approver: str | None = None


@dataclass
class Model:
    """A campaign of the protocol that a test gives it; all numbers count from 1."""

    protocol: object
    rows: list = field(default_factory=list)
    assigned: dict = field(default_factory=dict)
    cancelled: set = field(default_factory=set)
    refusals: list = field(default_factory=list)  # the keys of those in the register
    intake: list = field(default_factory=list)  # 1 for each refusal, 0 for each episode
    versions: list = field(default_factory=list)
    candidates: dict = field(default_factory=dict)
    revisions: list = field(default_factory=list)  # (rows before it, protocol)
    entries: list = field(default_factory=list)
    amendment: tuple | None = None  # the number of its entry, and the protocol
    asked_again: int = 0
    stopped: str = ""  # by whom, or by which rule

    def __post_init__(self):
        self.revisions.append((0, self.protocol))
        self.versions.append(Acting(self.protocol.learner().policy.digest, 0, 0, 1))
        self.entries += ["created", "deployed"]

    # Its state

    @property
    def now(self):
        return self.revisions[-1][1]

    @property
    def spent(self):
        return sum(version.rollback_to is None for version in self.versions) - 1

    @property
    def waiting(self):
        found = [n for n, one in self.candidates.items() if one.status == "waiting"]
        return found[-1] if found else None

    @property
    def counted(self):
        """The episodes that are not withdrawn."""
        return sum(self.latest(row.number).content is not None for row in self.first_rows())

    def first_rows(self, upto=None):
        return [row for row in self.rows[:upto] if not row.revision]

    def latest(self, number):
        return [row for row in self.rows if row.number == number][-1]

    def place(self, number):
        """Return the place of an episode, from 1; None if it is not recorded."""
        for place, row in enumerate(self.rows, start=1):
            if row.number == number:
                return place
        return None

    def last_place(self, number):
        return max(place for place, row in enumerate(self.rows, 1) if row.number == number)

    def agreed(self, row):
        """Return the protocol that held when a row was written."""
        return [protocol for before, protocol in self.revisions if before < row or not before][-1]

    # Events

    def assign(self, number):
        if number in self.cancelled:
            raise NotAllowedError("cancelled")
        if number in self.assigned:
            return self.assigned[number]
        if self.place(number):
            raise ConflictError("recorded")
        if self.stopped or len(self.assigned) - len(self.cancelled) >= self.now.task.episodes:
            raise NotAllowedError("no more")
        self.assigned[number] = len(self.versions)
        return self.assigned[number]

    def cancel(self, number):
        if number in self.cancelled:
            return False
        if number not in self.assigned or self.place(number):
            raise NotAllowedError("not open")
        self.cancelled.add(number)
        self.entries.append("cancelled")
        return True

    def record(self, number, content, version):
        """Record one report; a refused report goes into the register."""
        try:
            return self.recorded(number, content, version)
        except RefusedError as error:
            self.refuse((content, str(error)))

    def record_all(self, reports):
        """Record reports in one commit; return answers and errors."""
        answers = []
        for number, content, version in reports:
            try:
                answers.append(self.record(number, content, version))
            except CampaignError as error:
                answers.append(error)
        return answers

    def recorded(self, number, content, version):
        if place := self.place(number):
            if self.rows[place - 1].content != content:
                with suppress(RefusedError):
                    self.refuse((content, "other content"))
                raise ConflictError("other content")
            return place
        intake, in_force, assigned = self.now.intake, len(self.versions), self.assigned.get(number)
        if number in self.cancelled:
            raise NotAllowedError("cancelled")
        if assigned is None and intake.assigned:
            raise RefusedError("not assigned")
        if assigned is None and self.stopped:
            raise NotAllowedError("stopped")
        acted = version or assigned or in_force
        if acted > in_force:
            raise RefusedError(f"{in_force} is in force")
        if assigned and acted != assigned:
            raise RefusedError("assigned to another")
        if not assigned and acted < in_force:
            since = len(self.rows) - self.versions[acted].since
            if since > intake.grace:
                raise RefusedError(f"{since} ago, {intake.grace} of grace")
        late = acted != in_force
        self.rows.append(Row(number, 0, acted, late, not late or intake.late == "learn", content))
        self.intake.append(0.0)
        self.look(acted)
        return len(self.rows)

    def refuse(self, key):
        """Enter a refusal into the register, unless it is there."""
        if key not in self.refusals:
            self.refusals.append(key)
            self.intake.append(1.0)
            self.look(len(self.versions))
        raise RefusedError("refused")

    def correct(self, number, content):
        """Correct an episode, or withdraw it: the same again changes nothing."""
        if not self.place(number):
            raise NotAllowedError("not recorded")
        last = self.latest(number)
        if last.content == content:
            return self.last_place(number)
        if last.content is None:
            raise NotAllowedError("withdrawn")
        self.rows.append(
            Row(number, last.revision + 1, last.version, last.late, last.learn, content)
        )
        self.entries.append("corrected")
        self.look(last.version)
        return len(self.rows)

    def look(self, version):
        """Stop if a rule is reached, as far as one version goes."""
        if self.stopped:
            return
        for rule in self.now.stopping:
            if self.reached(rule, version):
                self.enter_stop(rule.name)
                return
        if self.counted >= self.now.task.episodes:
            self.enter_stop("episodes")

    def reached(self, rule, version):
        """Return whether a stopping rule is reached."""
        if isinstance(rule, DataQuality):
            return mean_of(self.intake).bounds(rule.confidence).low > rule.most
        if isinstance(rule, Futility) and self.counted < rule.after:
            return False
        share = (1.0 - rule.confidence) / (version * (version + 1))
        high = 2 * self.returns(version).bounds(1.0 - share).high
        return high < (rule.target if isinstance(rule, Futility) else rule.below)

    def returns(self, version):
        """Return the mean of a version's returns: a correction replaces a return in its place."""
        seen, places = RunningMean(), {}
        for row in self.rows:
            if row.version != version:
                continue
            if row.revision:
                place, before = places[row.number]
                seen = seen.add(place, before, -1)
            else:
                place = seen.next_place
            if row.content is not None:
                x = told(*row.content).total / 2
                seen, places[row.number] = seen.add(place, x, 1), (place, x)
        return seen

    def stop(self):
        if self.stopped not in ("", "ana"):
            raise NotAllowedError("stopped")
        if not self.stopped:
            self.enter_stop("ana")

    def enter_stop(self, who):
        self.stopped = who
        self.entries.append("stopped")

    def reopen(self):
        """Lift a stop by data quality, by two persons."""
        if self.stopped != "data-quality":
            raise NotAllowedError("not by data quality")
        self.stopped, self.intake = "", []
        self.entries += ["reopening", "reopened"]

    def due(self):
        """Return the first row at which a new policy is due and may be proposed, or None."""
        if self.waiting or self.stopped or self.spent >= self.now.budget:
            return None
        watched = max([one.seq for one in self.candidates.values()], default=0)
        watched = max(watched, self.asked_again - 1)
        deployed = self.versions[-1].seq
        for row in range(max(watched, deployed) + 1, len(self.rows) + 1):
            known, before, agreed = self.learnt(row), self.learnt(deployed), self.agreed(row)
            allowed = known < agreed.task.episodes and self.spent < agreed.budget
            first = not self.rows[row - 1].revision
            if allowed and first and asked(agreed, before, known):
                return row
        return None

    def learnt(self, upto):
        """Return how many episodes fits know up to a row, also if they were withdrawn."""
        return sum(row.learn for row in self.first_rows(upto))

    def fitted(self, seq):
        """Return the digest of the policy that is fitted at a row, for the next version."""
        learner, episodes = self.protocol.learner(), {}
        for _ in self.versions[1:]:
            learner.deploy(learner.policy)
        for row in self.rows[:seq]:
            if not row.learn:
                continue
            episode = None if row.content is None else told(*row.content).episode
            if row.revision:
                learner.correct(episodes[row.number], episode)
            else:
                learner.absorb(episode)
            episodes[row.number] = episode
        return learner.fit().digest

    def propose(self, seq, *, proposer, planned):
        if self.waiting or self.stopped or self.spent >= self.now.budget:
            raise NotAllowedError("not now")
        self.entries.append("candidate")
        number = len(self.entries)
        self.candidates[number] = Waiting(seq, self.fitted(seq), proposer)
        if planned and self.now.approval.by == "schedule":
            self.deploy(number)
        return number

    def deploy(self, number, approver=None):
        candidate = self.candidates[number]
        candidate.status, candidate.approver = "deployed", approver
        version = len(self.versions) + 1
        self.versions.append(Acting(candidate.digest, candidate.seq, len(self.rows), version))
        self.entries.append("deployed")

    def approve(self, number, by):
        known = self.candidates.get(number)
        if known is not None and known.approver == by:
            return
        if self.stopped:
            raise NotAllowedError("stopped")
        candidate = self.undecided(number)
        if self.spent >= self.now.budget or by == candidate.proposer:
            raise NotAllowedError("not by them")
        self.entries.append("approved")
        self.deploy(number, by)

    def reject(self, number):
        if number in self.candidates and self.candidates[number].status == "rejected":
            return
        self.undecided(number).status = "rejected"
        self.asked_again = len(self.rows) + self.now.approval.retry_after
        self.entries.append("rejected")

    def undecided(self, number):
        candidate = self.candidates.get(number)
        if candidate is not None and candidate.status == "void":
            raise MovedError("void")
        if candidate is None or candidate.status != "waiting":
            raise NotAllowedError("decided")
        return candidate

    def rollback(self, to):
        last = self.versions[-1]
        if last.rollback_to == to:
            return
        if not 1 <= to <= len(self.versions):
            raise NotAllowedError("no such version")
        earlier, rows = self.versions[to - 1], len(self.rows)
        if earlier.origin >= last.origin:
            raise NotAllowedError("not back")
        if self.waiting:
            self.candidates[self.waiting].status = "void"
        self.versions.append(Acting(earlier.digest, rows, rows, earlier.origin, to))
        self.entries.append("rolled-back")

    def amend(self, changes):
        """Amend the protocol, or propose to; return whether a second person has to approve."""
        amended = self.now.amended(changes)
        self.check_amendment(amended)
        if self.now.approval.by == "schedule":
            self.amend_to(amended)
            return False
        if self.amendment is None or self.amendment[1] != amended:
            self.entries.append("amendment")
            self.amendment = len(self.entries), amended
        return True

    def approve_amendment(self):
        self.check_amendment(self.amendment[1])
        self.amend_to(self.amendment[1])

    def check_amendment(self, amended):
        recorded = len(self.first_rows())
        fewer = amended.episodes != self.now.episodes and amended.episodes <= recorded
        if self.stopped or amended.budget < self.spent or fewer:
            raise NotAllowedError("not so")

    def amend_to(self, amended):
        if self.now.budget <= self.spent < amended.budget:
            self.asked_again = max(self.asked_again, len(self.rows) + 1)
        self.revisions.append((len(self.rows), amended))
        self.entries.append("amended")
        self.amendment = None
        for version in range(1, len(self.versions) + 1):
            self.look(version)


def asked(agreed, before, known):
    """Return whether a policy is asked for after `known` episodes, the last after `before`."""
    schedule = agreed.schedule
    if isinstance(schedule, rs.EveryEpisode):
        return before < known
    length = agreed.task.episodes // schedule.batches
    return any(before < batch * length <= known for batch in range(schedule.batches))


def mean_of(observations):
    seen = RunningMean()
    for x in observations:
        seen = seen.after(x)
    return seen


def told(number, variant, version):
    """Return the report of an episode; variants differ in a reward."""
    rewards = None if not variant else [0.25 * variant, 0.5]
    return report(number, rewards=rewards, version=version)
