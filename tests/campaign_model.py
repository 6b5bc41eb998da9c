"""What a campaign is, in plain Python: lists, dictionaries and loops over everything.

The model keeps whole histories and computes every answer from them again. It knows nothing of
stores, chains, snapshots or caches; only fits are those of the core.
"""

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
from rareswitch.campaigns.stopping.running_mean import RunningMean


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
    """A version: who it was made from, where it was fitted, and when it came into force."""

    digest: str
    seq: int
    since: int
    rollback: bool = False


@dataclass
class Waiting:
    """A candidate."""

    seq: int
    digest: str
    proposer: str
    status: str = "waiting"


@dataclass
class Model:
    """A campaign of the protocol that a test gives it; all numbers count from 1."""

    protocol: object
    rows: list = field(default_factory=list)
    assigned: dict = field(default_factory=dict)
    refusals: list = field(default_factory=list)  # rows before each
    versions: list = field(default_factory=list)
    candidates: dict = field(default_factory=dict)
    revisions: list = field(default_factory=list)  # (rows before it, protocol)
    entries: list = field(default_factory=list)
    asked_again: int = 0
    stopped: bool = False

    def __post_init__(self):
        self.revisions.append((0, self.protocol))
        self.versions.append(Acting(self.protocol.learner().policy.digest, 0, 0))
        self.entries += ["created", "deployed"]

    # What is known

    @property
    def now(self):
        return self.revisions[-1][1]

    @property
    def spent(self):
        return sum(not version.rollback for version in self.versions) - 1

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

    def latest(self, number, upto=None):
        return [row for row in self.rows[:upto] if row.number == number][-1]

    def place(self, number):
        """Return the place of an episode, from 1; None if it is not recorded."""
        for place, row in enumerate(self.rows, start=1):
            if row.number == number:
                return place
        return None

    def agreed(self, row):
        """Return the protocol that held when a row was written."""
        return [protocol for before, protocol in self.revisions if before < row or not before][-1]

    # What happens

    def assign(self, number):
        if number in self.assigned:
            return self.assigned[number]
        if self.place(number):
            raise ConflictError
        if self.stopped or len(self.assigned) >= self.now.task.episodes:
            raise NotAllowedError
        self.assigned[number] = len(self.versions)
        return self.assigned[number]

    def record(self, number, content, version):
        """Take in one report; what is refused goes into the register."""
        try:
            return self.taken(number, content, version)
        except RefusedError:
            return self.refuse()

    def record_all(self, told):
        """Take in reports in one commit; return answers and errors. Refusals come after it."""
        answers = []
        for number, content, version in told:
            try:
                answers.append(self.taken(number, content, version))
            except CampaignError as error:
                answers.append(error)
        for answer in answers:
            if isinstance(answer, RefusedError):
                self.register()
        return answers

    def taken(self, number, content, version):
        if place := self.place(number):
            if self.rows[place - 1].content != content:
                raise ConflictError
            return place
        intake, in_force, assigned = self.now.intake, len(self.versions), self.assigned.get(number)
        if assigned is None and intake.assigned:
            raise RefusedError
        if assigned is None and self.stopped:
            raise NotAllowedError
        acted = version or assigned or in_force
        if acted > in_force or (assigned and acted != assigned):
            raise RefusedError
        if not assigned and acted < in_force:
            since = len(self.rows) - self.versions[acted].since
            if since > intake.grace:
                raise RefusedError
        late = acted != in_force
        self.rows.append(Row(number, 0, acted, late, not late or intake.late == "learn", content))
        self.look(acted)
        return len(self.rows)

    def refuse(self):
        self.register()
        raise RefusedError

    def register(self):
        self.refusals.append(len(self.rows))
        self.look(len(self.versions))

    def correct(self, number, content):
        if not self.place(number):
            raise NotAllowedError
        last = self.latest(number)
        self.rows.append(
            Row(number, last.revision + 1, last.version, last.late, last.learn, content)
        )
        self.entries.append("corrected")
        self.look(last.version)
        return len(self.rows)

    def look(self, version):
        """Stop if there is a reason to, as far as one version goes."""
        if self.stopped:
            return
        done = self.counted >= self.now.task.episodes
        if done or any(self.reached(rule, version) for rule in self.now.stopping):
            self.stop()

    def reached(self, rule, version):
        """Return whether a stopping rule says that it is enough."""
        if isinstance(rule, DataQuality):
            reports = [(place, 0.0) for place, row in enumerate(self.rows, 1) if not row.revision]
            reports = sorted(reports + [(place + 0.5, 1.0) for place in self.refusals])
            return mean_of(x for _, x in reports).bounds(rule.confidence).low > rule.most
        if isinstance(rule, Futility) and self.counted < rule.after:
            return False
        latest = [self.latest(row.number) for row in self.first_rows() if row.version == version]
        returns = [told(*row.content).total / 2 for row in latest if row.content is not None]
        share = (1.0 - rule.confidence) / (version * (version + 1))
        high = 2 * mean_of(returns).bounds(1.0 - share).high
        return high < (rule.target if isinstance(rule, Futility) else rule.below)

    def stop(self):
        if self.stopped:
            raise NotAllowedError
        self.stopped = True
        self.entries.append("stopped")

    def due(self):
        """Return the first row at which a new policy is due and may be proposed, or None."""
        if self.waiting or self.stopped or self.spent >= self.now.budget:
            return None
        watched = max([one.seq for one in self.candidates.values()], default=0)
        watched = max(watched, self.asked_again - 1)
        deployed = self.versions[-1].seq
        for row in range(max(watched, deployed) + 1, len(self.rows) + 1):
            known = len(self.episodes(row, known_at=row))
            before = len(self.episodes(deployed, known_at=row))
            agreed = self.agreed(row)
            allowed = known < agreed.task.episodes and self.spent < agreed.budget
            if allowed and asked(agreed.schedule, before, known):
                return row
        return None

    def episodes(self, upto, *, known_at):
        """Return what is learnt from up to a row, as it was known at another."""
        found = []
        for row in self.first_rows(upto):
            content = self.latest(row.number, known_at).content
            if row.learn and content is not None:
                found.append(content)
        return found

    def fitted(self, seq):
        """Return the digest of the policy that is fitted at a row, for the next version."""
        learner = self.protocol.learner()
        for _ in self.versions[1:]:
            learner.deploy(learner.policy)
        for number, variant, _ in self.episodes(seq, known_at=seq):
            learner.absorb(told(number, variant, None).episode)
        return learner.fit().digest

    def propose(self, seq, *, proposer, planned):
        if self.waiting or self.stopped or self.spent >= self.now.budget:
            raise NotAllowedError
        self.entries.append("candidate")
        number = len(self.entries)
        self.candidates[number] = Waiting(seq, self.fitted(seq), proposer)
        if planned and self.now.approval.by == "schedule":
            self.deploy(number)
        return number

    def deploy(self, number):
        candidate = self.candidates[number]
        candidate.status = "deployed"
        self.versions.append(Acting(candidate.digest, candidate.seq, len(self.rows)))
        self.entries.append("deployed")

    def approve(self, number, actor):
        candidate = self.undecided(number)
        if self.stopped or self.spent >= self.now.budget or actor == candidate.proposer:
            raise NotAllowedError
        self.entries.append("approved")
        self.deploy(number)

    def reject(self, number):
        self.undecided(number).status = "rejected"
        self.asked_again = len(self.rows) + self.now.approval.retry_after
        self.entries.append("rejected")

    def undecided(self, number):
        candidate = self.candidates.get(number)
        if candidate is not None and candidate.status == "void":
            raise MovedError
        if candidate is None or candidate.status != "waiting":
            raise NotAllowedError
        return candidate

    def roll_back(self, to):
        if not 1 <= to < len(self.versions):
            raise NotAllowedError
        if self.waiting:
            self.candidates[self.waiting].status = "void"
        digest = self.versions[to - 1].digest
        self.versions.append(Acting(digest, len(self.rows), len(self.rows), rollback=True))
        self.entries.append("rolled-back")

    def amend(self, changes):
        if self.stopped:
            raise NotAllowedError
        amended = self.now.amended(changes)
        if amended.budget < self.spent:
            raise NotAllowedError
        if self.now.budget <= self.spent < amended.budget:
            self.asked_again = max(self.asked_again, len(self.rows) + 1)
        self.revisions.append((len(self.rows), amended))
        self.entries.append("amended")
        for version in range(1, len(self.versions) + 1):
            self.look(version)


def asked(schedule, before, known):
    """Return whether a policy is asked for after `known` episodes, the last after `before`."""
    if isinstance(schedule, rs.EveryEpisode):
        return before < known
    length = schedule.episodes // schedule.batches
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
