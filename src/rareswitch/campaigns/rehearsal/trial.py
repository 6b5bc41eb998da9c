"""A campaign in memory: a fast rehearsal without a store, for many repetitions.

Assignments, deployments, stops and cohorts are those of `simulate` with the same protocol, world,
circumstances and seed; a test compares both. Only a rehearsal in a store has a ledger, proofs,
crashes of the learner, and refused, corrected or withdrawn reports.
"""

import heapq
import math
from collections import Counter
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.rehearsal.world import Circumstances, Fates, PlayedEpisode, World, play
from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.stopping import ControlSuperiority, evidence_for, may_pass, watch
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.core.clock import Clock, Schedule
from rareswitch.core.control import Player
from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy
from rareswitch.rules.waiting import Waiting
from rareswitch.support.arguments import all_within, short_repr
from rareswitch.support.streams import Seed

NEVER = 2**62  # after the last episode of any study
# Mishaps that only a rehearsal in a store can simulate.
STORE_ONLY = ("repeated", "damaged", "corrected", "withdrawn", "crashes")


class Assigned(NamedTuple):
    """The player of an episode, and its time."""

    number: int
    version: int
    member: int
    role: str
    tick: int


class Deployed(NamedTuple):
    """A version: fitted after `seq` rows, in force when the log had `since` rows."""

    policy: Policy
    seq: int
    since: int


class Stop(NamedTuple):
    """The rule that ended a trial, its reason, and the counts at that time."""

    rule: str
    reason: str
    begun: int
    recorded: int
    tick: int


class _Coming(NamedTuple):
    """A report in transit; reports of one tick arrive in the order of sending."""

    tick: int
    order: int
    given: Assigned
    episode: Episode
    total: float


class _Waiting(NamedTuple):
    """A pending candidate: the tick and the answer of its decision, and its rows."""

    tick: int
    approves: bool
    policy: Policy
    rows: int


class Trial:
    """One simulated trial of a protocol in a world; `run` plays it to its end.

    `fates` are those of the circumstances and the seed, for trials that share them. `evidence` is
    the largest evidence at a look for superiority over the control by the margin of the rule
    `measures`; this rule does not stop the trial.

    >>> import rareswitch as rs
    >>> from rareswitch.campaigns import FiniteWorld
    >>> world = rs.worlds.tabular(states=2, actions=2, horizon=2, seed=1)
    >>> plan = Protocol(
    ...     name="small",
    ...     task=world.task(episodes=60),
    ...     schedule=rs.UniformGrid(batches=3),
    ...     budget=2,
    ... )
    >>> trial = Trial(plan, FiniteWorld(world), Circumstances.calm()).run()
    >>> len(trial.assignments), [one.seq for one in trial.versions], trial.stop.reason
    (60, [0, 20, 40], 'all 60 are recorded')
    """

    def __init__(
        self,
        protocol: Protocol,
        world: World,
        circumstances: Circumstances,
        *,
        seed: Seed = 0,
        fates: Fates | None = None,
        measures: ControlSuperiority | None = None,
    ) -> None:
        for name in STORE_ONLY:
            if value := getattr(circumstances, name):
                raise ValueError(
                    f"{name} must be 0 in a trial without a store; got {short_repr(value)}: "
                    "`rareswitch campaign simulate` rehearses it"
                )
        self.protocol, self.world, self.are = protocol, world, circumstances
        self.terms = Terms.of(protocol.plain)
        self.learner = protocol.learner()
        control = self.terms.control_share
        self.cohorts = Cohorts(horizon=protocol.task.horizon, control=control)
        self.versions = [Deployed(self.learner.policy, 0, 0)]
        self.assignments: list[Assigned] = []
        self.episodes: list[PlayedEpisode] = []
        self.reported: Counter[tuple[int, str]] = Counter()  # by version and role
        self.rejections = self.declined = self.missing = self.late = self.expired = 0
        self.stop: Stop | None = None
        self.measures, self.evidence = measures, -math.inf
        self.tick = 0
        horizon = protocol.task.horizon
        self._fates = fates or Fates(circumstances, horizon=horizon, seed=seed)
        self._looks = hasattr(protocol.schedule, "accepts")
        self._players: dict[int, Policy] = {}  # by member, for the version in force
        self._coming: list[_Coming] = []
        self._log: list[Episode | None] = []  # None for a row that fits do not use
        self._seen = 0  # rows absorbed by the learner
        self._watched = 0  # the row up to which the schedule needs no evaluation
        self._earliest = 0  # the first episode before which a policy may be due
        self._entries = 2  # of the ledger; the number draws the time of a signature
        self._waiting: _Waiting | None = None

    def run(self) -> "Trial":
        """Play until every report has arrived; return the trial."""
        ended, planned, every = False, self.terms.episodes, self.are.learn_every
        while not ended or self._coming:
            self.tick += 1
            if not ended:
                ended = len(self.assignments) >= planned or self.stop is not None
                if not ended:
                    self._begin(len(self.assignments) + 1)
            while self._coming and self._coming[0].tick <= self.tick:
                self._record(heapq.heappop(self._coming))
            if self.tick % every == 0:
                self._learn()
            if self._waiting is not None:
                self._sign()
        self._learn()
        if self.stop is None:
            self._stop("", f"all {planned} episodes have begun, and no more reports are due")
        return self

    @property
    def recorded(self) -> int:
        """The number of reported episodes."""
        return len(self._log)

    @property
    def deployments(self) -> int:
        """The number of deployments after the first."""
        return len(self.versions) - 1

    @property
    def elapsed(self) -> float:
        """The time until the stop, in the unit of the circumstances."""
        assert self.stop is not None
        return self.stop.tick / self.are.accrual

    @cached_property
    def recommended(self) -> Policy:
        """The greedy policy from all reported episodes that fits use."""
        self._absorb(len(self._log))
        return self.learner.recommend()

    def _begin(self, number: int) -> None:
        fate, version = self._fates.episode(number), len(self.versions)
        policy = self.versions[-1].policy
        # A salt draws a concealed allocation, with the same distribution as the id.
        key = f"{fate.site}:{number:05d}"
        member = policy.allocate(key)
        given = Assigned(number, version, member, policy.split.role(member), self.tick)
        done = play(self.world, self._player(policy, member, key), number, fate)
        self.assignments.append(given)
        self.episodes.append(done)
        if fate.missing:
            self.missing += 1
            return
        episode = _episode_of(done)
        total = float(np.add.reduce(episode.rewards))
        report = _Coming(self.tick + fate.delay, number, given, episode, total)
        heapq.heappush(self._coming, report)

    def _player(self, policy: Policy, member: int, key: str) -> Policy | Player:
        if member >= policy.members:
            return policy.player(member, key)
        if member not in self._players:
            self._players[member] = policy.member(member)
        return self._players[member]

    def _record(self, report: _Coming) -> None:
        given, late = report.given, report.given.version != len(self.versions)
        learns = not late or self.terms.intake.late == "learn"
        self.late += late
        self.reported[given.version, given.role] += 1
        self.cohorts.record(given.version, report.total, given.role)
        self._log.append(report.episode if learns else None)
        if self.stop is not None:
            return
        if self.measures is not None:
            self.evidence = max(self.evidence, evidence_for(self.measures, self.cohorts))
        version = given.version
        possible = [rule for rule in self.terms.stopping if may_pass(rule, self.cohorts, version)]
        if possible or self.cohorts.episodes >= self.terms.episodes:
            for seen in watch(self.terms, self.cohorts, version):
                if seen.passed:
                    self._stop(seen.rule, seen.reason)
                    return
        self._expire()

    def _expire(self) -> None:
        """Let a candidate expire after the protocol's waiting time."""
        after, rows = self.terms.approval.expires_after, len(self._log)
        if after is None or self._waiting is None or rows < self._waiting.rows + after:
            return
        self._entries += 1
        self._waiting = None
        self.expired += 1
        self._watched = max(self._watched, rows)

    def _stop(self, rule: str, reason: str) -> None:
        self._entries += 1
        self.stop = Stop(rule, reason, len(self.assignments), len(self._log), self.tick)

    def _learn(self) -> None:
        """Propose every due policy, like the learner of a campaign."""
        while (
            self._waiting is None
            and self.stop is None
            and self.deployments < self.terms.budget
            and self._absorb_until_due()
        ):
            self._propose()

    def _absorb_until_due(self) -> bool:
        """Absorb reports until a policy is due; return whether one is."""
        rows = len(self._log)
        while self._seen < rows:
            # Rows at which no policy can be due are absorbed in one batch.
            ahead = max(self._watched, self._seen, self._earliest - 2)
            if ahead >= rows:
                return False
            self._absorb(ahead + 1)
            if self.learner.due:
                return True
            self._earliest = first_date(self.protocol.schedule, self.learner.clock)
        return False

    def _absorb(self, upto: int) -> None:
        if upto > self._seen:
            self.learner.absorb(*filter(None, self._log[self._seen : upto]))
            self._seen = upto

    def _propose(self) -> None:
        policy = self.learner.fit()
        self._entries += 1
        self._watched = self._seen
        self._earliest = 0
        if (
            self._looks
            and self.learner.candidate(policy).paths
            and not self.learner.accepts(policy)
        ):
            self.declined += 1
            self.learner.decline()
        elif self.terms.approval.two_persons:
            thought, approves = self._fates.decision(self._entries)
            self._waiting = _Waiting(self.tick + thought, approves, policy, len(self._log))
        else:
            self._deploy(policy)

    def _sign(self) -> None:
        """Let a second person decide about the pending candidate at its time."""
        assert self._waiting is not None
        when, approves, policy, _ = self._waiting
        if not self.are.signs or self.tick < when:
            return
        if not approves:
            self._entries += 1
            self._waiting = None
            self.rejections += 1
            again = len(self._log) + self.terms.approval.retry_after
            self._watched = max(self._watched, again - 1)
        elif self.stop is None:
            self._entries += self.terms.approval.owed(()).signatures
            self._waiting = None
            self._deploy(policy)

    def _deploy(self, policy: Policy) -> None:
        self._entries += 1
        self.learner.deploy(policy)
        self.versions.append(Deployed(policy, self._seen, len(self._log)))
        self._players = {}


def first_date(schedule: Schedule, clock: Clock) -> int:
    """Return the first episode before which a rule can be due; 0 if it has no dates.

    >>> from rareswitch import Learner, SpreadBudget, Task
    >>> learner = Learner(Task(dim=2, horizon=1, episodes=90), SpreadBudget(switches=2))
    >>> first_date(Waiting(learner.schedule, first=30), learner.clock)
    31
    """
    if isinstance(schedule, Waiting):
        wait = schedule.first if clock.deployments == 1 else schedule.apart
        return max(clock.deployed_at + wait, first_date(schedule.schedule, clock))
    if (upcoming := getattr(schedule, "upcoming", None)) is not None:
        date: int | None = upcoming(clock.task, clock.deployed_at)
        return NEVER if date is None else date
    return 0


def _episode_of(done: PlayedEpisode) -> Episode:
    """Return a played episode for a learner; rows are checked when it is absorbed."""
    offered, places, rewards = done.offered, done.places, np.array(done.rewards)
    if len(places) > 1:
        return Episode.of_offers(offered, places, rewards)
    if not all_within(rewards, 0.0, 1.0):
        raise ValueError(f"reward must lie in [0, 1]; the world gave {done.rewards[0]}")
    first, place = offered[0], places[0]
    following = offered[1] if len(offered) > 1 else first[:0]
    taken = first[place : place + 1]
    return Episode.trusted(taken, rewards, following, [len(following)][: len(offered) - 1], first)
