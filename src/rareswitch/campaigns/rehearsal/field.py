"""The field of a simulated campaign: all sites, the learner and the signers, tick by tick."""

import heapq
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import chain, count
from typing import Any

import numpy as np
import sqlalchemy as sa

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import NotAllowedError, RefusedError
from rareswitch.campaigns.learning.learning import Learning
from rareswitch.campaigns.rehearsal.world import Circumstances, EpisodeFate, Fates, World, play
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.rulebook.approval import Approval
from rareswitch.campaigns.rulebook.decisions import SIMULATION
from rareswitch.campaigns.rulebook.names import same_person
from rareswitch.campaigns.rulebook.state import Candidate
from rareswitch.campaigns.rulebook.terms import AnalysisTerms
from rareswitch.campaigns.store.rows import heads_of
from rareswitch.campaigns.store.tables import episodes as recorded_episodes
from rareswitch.core.control import Player
from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy
from rareswitch.support.streams import Seed

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)  # start of the clock; a tick is an hour
HOUR = timedelta(hours=1)
DAMAGES = (7.0, "good")  # in place of a reward
APPROVER = "simulated approver"


class SimulatedClock:
    """A clock that shows the time of `tick`, which the simulation sets.

    >>> clock = SimulatedClock()
    >>> clock.tick = 25
    >>> clock()
    '2026-01-02T01:00:00.000+00:00'
    >>> clock.tick_after(clock())
    25
    """

    def __init__(self) -> None:
        self.tick = 0

    def __call__(self) -> str:
        return self.at(self.tick)

    def at(self, tick: int) -> str:
        return (BEGIN + tick * HOUR).isoformat(timespec="milliseconds")

    def tick_after(self, text: str) -> int:
        """Return the first tick at or after a time."""
        return -((BEGIN - datetime.fromisoformat(text)) // HOUR)


class ProcessDied(BaseException):
    """The simulated death of the learner's process; code in the process must not catch it."""


class MortalCampaign(Campaign):
    """The learner's campaign, whose process may die right before an entry."""

    dies = False

    def propose(self, *args: Any, **named: Any) -> Candidate:
        if self.dies:
            raise ProcessDied
        return super().propose(*args, **named)


class LearnerProcess:
    """A sequence of learners; a dead learner leaves only its data in the store."""

    def __init__(self, campaign: Campaign) -> None:
        known: dict[str, Any] = {"allow": campaign.allow, "clock": campaign.clock}
        self._open = partial(MortalCampaign, campaign.store, campaign.name, rehearsal=True, **known)
        self._campaign: MortalCampaign
        self._learning: Learning | None = None
        self.down_until = self.deaths = 0

    def look(self, tick: int, death: tuple[str, int] | None) -> None:
        """Propose all due policies, unless the process is down or dies."""
        if tick < self.down_until:
            return
        moment, outage = death or ("", 0)
        try:
            if self._learning is None:
                self._campaign = self._open()
                self._learning = Learning(self._campaign).__enter__()
            if moment == "before the fit":
                raise ProcessDied
            self._campaign.dies = moment == "before the entry"
            while self._learning.step() is not None:
                pass
            if moment:
                raise ProcessDied
        except ProcessDied:
            self.deaths += 1
            self.down_until = tick + outage
            self.end()
            self.look(tick, None)  # without an outage, a new process looks at once

    def end(self) -> None:
        """Release everything that a process holds."""
        if self._learning is not None:
            self._learning.__exit__()
            self._learning = None


class Field:
    """All sites, the learner and the signers, from tick to tick."""

    def __init__(
        self,
        campaign: Campaign,
        world: World,
        circumstances: Circumstances,
        *,
        clock: SimulatedClock,
        seed: Seed,
    ) -> None:
        self.campaign, self.world, self.are, self.clock = campaign, world, circumstances, clock
        self.protocol = campaign.protocol
        self.fates = Fates(circumstances, horizon=self.protocol.task.horizon, seed=seed)
        self.learner = LearnerProcess(campaign)
        self.count: Counter[str] = Counter()
        self.lost: float | None = 0.0 if hasattr(world, "loss") else None
        self._policy = cache(campaign.policy)
        self._loss = cache(lambda v, member: world.loss(self._policy(v).alone(member)))  # type: ignore[attr-defined]
        self._coming: list[tuple[int, int, Callable[[], None]]] = []  # by tick, then by order
        self._order = count()
        self._seen: dict[int, int] = {}  # by candidate: the tick at which a signer first saw it
        self.delays = 0
        self.totals: dict[str, float] = {}
        self._signer = next(iter(self.protocol.approval.signers), "")
        self._signers = signers_of(self.protocol.approval)
        with campaign.store.reading() as connection:
            self.enrolled = heads_of(connection, campaign.name)["assignments"].length
            told = recorded_episodes.c
            last = sa.select(sa.func.max(told.received)).where(told.campaign == campaign.name)
            times = [*filter(None, connection.execute(last).scalars())]
        times += [entry.at for entry in campaign.entries]
        clock.tick = max(self.enrolled, *map(clock.tick_after, times))

    def play(self, episodes: int | None, progress: Callable[[int, int], None]) -> None:
        """Continue until `episodes` more have begun and all their reports have arrived."""
        planned = self.protocol.episodes
        last = planned if episodes is None else min(planned, self.enrolled + episodes)
        ended = self.campaign.state.stopped is not None
        while not ended or self._coming:
            self.clock.tick += 1
            if not ended:
                ended = self.enrolled >= last or not self._begin(self.enrolled + 1)
                progress(self.enrolled, last)
            while self._coming and self._coming[0][0] <= self.clock.tick:
                heapq.heappop(self._coming)[-1]()
            if self.clock.tick % self.are.learn_every == 0:
                self.learner.look(self.clock.tick, self.fates.death(self.clock.tick))
            self._sign()
        self.learner.down_until = 0  # a new process takes over
        self.learner.look(self.clock.tick, None)
        if self.enrolled == planned and self.campaign.state.stopped is None:
            reason = f"all {planned} episodes have begun, and no more reports are due"
            self.campaign.stop(by=self._signer or SIMULATION, reason=reason)

    def _begin(self, number: int) -> bool:
        """Let a site begin an episode; return False if no more episodes may begin."""
        fate, clock = self.fates.episode(number), self.clock
        episode_id = f"{fate.site}:{number:05d}"
        try:
            given = self.campaign.assign(episode_id)
        except NotAllowedError:
            return False
        self.enrolled += 1
        self.count["begun"] += 1
        player = self._policy(given.version).player(given.member, given.key)
        if self.lost is not None:
            loss = self._loss(given.version, given.member)
            self.lost = None if loss is None else self.lost + loss
        report = played(
            self.world,
            player,
            number,
            episode_id=episode_id,
            fate=fate,
            analysis=self.protocol.analysis,
        )
        self.count["overridden"] += report.recommended is not None
        if fate.missing:
            self.count["missing"] += 1
            return True
        due = clock.tick + fate.delay
        report = replace(report, began=clock.at(clock.tick), ended=clock.at(due))
        first = mistaken(report) if fate.corrected else report
        again = due + fate.later
        if fate.damaged:
            self._at(due, partial(self._send_damaged, damaged(first, fate.damage)))
        self._at(due + fate.damaged, partial(self._send, first, clock.tick))
        if fate.repeated:
            self._at(again + 1, partial(self._repeat, first))
        if fate.corrected:
            self._at(again + 1, partial(self._correct, report))
        if fate.withdrawn:
            self._at(again + 2, partial(self._withdraw, report))
        return True

    def _send(self, report: Report, began: int) -> None:
        place = self.campaign.record(report)
        self.count["recorded"] += place.new
        self.count["late"] += place.late
        self.delays += self.clock.tick - began
        self.totals[report.id] = report.total

    def _repeat(self, report: Report) -> None:
        self.count["repeated"] += not self.campaign.record(report).new

    def _send_damaged(self, text: str) -> None:
        try:
            self.campaign.record(text)
        except RefusedError:
            self.count["refused"] += 1

    def _correct(self, report: Report) -> None:
        reason = "the last reward was entered wrongly"
        self.campaign.correct(report, by=report.site or "", reason=reason)
        self.count["corrected"] += 1
        self.totals[report.id] = report.total

    def _withdraw(self, report: Report) -> None:
        self.campaign.withdraw(report.id, by=report.site or "", reason="consent was withdrawn")
        self.count["withdrawn"] += 1
        del self.totals[report.id]

    def _sign(self) -> None:
        """Let the signers decide about a pending candidate at its time."""
        if not self.are.signs or self.protocol.approval.by == "schedule":
            return
        if (waiting := self.campaign.state.waiting) is None:
            return
        thought, approves = self.fates.decision(waiting.number)
        if self.clock.tick < self._seen.setdefault(waiting.number, self.clock.tick) + thought:
            return
        reason = "the evidence was looked at" if approves else "the evidence does not convince"
        decide = self.campaign.approve if approves else self.campaign.reject
        try:
            for person in self._signers if approves else self._signers[:1]:
                decide(waiting.number, by=person, reason=reason)
        except NotAllowedError:
            if self.campaign.state.stopped is None:
                raise

    def _at(self, tick: int, happens: Callable[[], None]) -> None:
        heapq.heappush(self._coming, (tick, next(self._order), happens))


def signers_of(approval: Approval) -> list[str]:
    """Return enough signers, from every group, for a candidate of the schedule.

    >>> signers_of(Approval(by="second-person", quorum=3, groups={"clinic": ["ana"]}))
    ['ana', 'simulated approver', 'simulated approver 2']
    """
    found = [persons[0] for persons in approval.groups.values()]
    others = iter(approval.signers or chain([APPROVER], (f"{APPROVER} {n}" for n in count(2))))
    while approval.owed(found).signatures:
        person = next(others)
        if not any(same_person(person, one) for one in found):
            found.append(person)
    return found


def played(
    world: World,
    policy: Policy | Player,
    number: int,
    *,
    episode_id: str,
    fate: EpisodeFate,
    analysis: AnalysisTerms | None = None,
) -> Report:
    """Let one member of a policy play an episode; return the report.

    If people override actions, the report contains the recommended actions, and no propensities. It
    contains the world's subgroup and events if `analysis` declares them.
    """
    offered, places, rewards, recommended, *_ = play(world, policy, number, fate)
    taken = np.array([rows[place] for rows, place in zip(offered, places, strict=False)])
    episode = Episode(features=taken, rewards=np.array(rewards), next_features=offered[1:])
    return Report(
        id=episode_id,
        episode=episode,
        first_features=offered[0],
        actions=np.array(places),
        recommended=np.array(recommended) if fate.overridden.any() else None,
        site=fate.site,
        **_claims_of(world, analysis or AnalysisTerms()),
    )


def _claims_of(world: World, analysis: AnalysisTerms) -> dict[str, Any]:
    """Return the subgroup and the events of a world's last episode."""
    claims: dict[str, Any] = {}
    if analysis.subgroups is not None and hasattr(world, "subgroup"):
        claims["subgroup"] = world.subgroup()
    if analysis.events and hasattr(world, "events"):
        claims["events"] = world.events()
    return claims


def mistaken(report: Report) -> Report:
    """Return the report as it was first entered, with a wrong last reward r → 1 − r."""
    episode = report.episode
    rewards = episode.rewards.copy()
    rewards[-1] = 1.0 - rewards[-1]
    wrong = Episode(features=episode.features, rewards=rewards, next_features=episode.next_features)
    return replace(report, episode=wrong)


def damaged(report: Report, kind: int) -> str:
    """Return the report as a text that must be refused, with an invalid first reward."""
    plain = report.plain
    return json.dumps(plain | {"rewards": [DAMAGES[kind % 2], *plain["rewards"][1:]]})
