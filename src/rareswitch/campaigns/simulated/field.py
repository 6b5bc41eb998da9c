"""The field of a simulated campaign: all sites, the learner and whoever signs, tick by tick."""

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import fsum

import sqlalchemy as sa

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import NotAllowedError, RefusedError
from rareswitch.campaigns.record.pen import heads_of
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.simulated.circumstances import Circumstances, Fates
from rareswitch.campaigns.simulated.clock import SimulatedClock
from rareswitch.campaigns.simulated.learner_process import LearnerProcess
from rareswitch.campaigns.simulated.result import SimulatedCampaign
from rareswitch.campaigns.simulated.same_log import differences_from_learner, went_as_planned
from rareswitch.campaigns.simulated.site import damaged, mistaken, played
from rareswitch.campaigns.simulated.world import World
from rareswitch.campaigns.store.tables import episodes as recorded_episodes
from rareswitch.core.policy import Policy
from rareswitch.support.streams import Seed

SIMULATION = "simulation"  # who creates simulated campaigns: no other is ever played on
APPROVER = "simulated approver"
COUNTED = (
    "begun", "recorded", "missing", "late", "repeated", "refused", "corrected", "withdrawn",
    "overridden",
)  # fmt: skip


class Field:
    """All sites, the learner and whoever signs, from tick to tick."""

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
        self.learner = LearnerProcess(campaign.store, campaign.name, clock)
        self.count: Counter[str] = Counter()
        self.lost: float | None = 0.0 if hasattr(world, "loss") else None
        self._losses: dict[tuple[int, int], float | None] = {}
        self._members: dict[tuple[int, int], Policy] = {}
        self._coming: list[tuple[int, int, Callable[[], None]]] = []  # by tick, then by order
        self._pushed = 0
        self._decided: dict[int, tuple[int, bool]] = {}  # by candidate: when, and whether approved
        self._delays = 0
        self._totals: dict[str, float] = {}
        with campaign.store.reading() as connection:
            self.enrolled = heads_of(connection, campaign.name)["assignments"].length
            last = connection.execute(
                sa.select(sa.func.max(recorded_episodes.c.received)).where(
                    recorded_episodes.c.campaign == campaign.name
                )
            ).scalar()
        times = [entry.at for entry in campaign.entries] + ([last] if last else [])
        clock.tick = max(self.enrolled, *map(clock.tick_after, times))

    def play(self, episodes: int | None, progress: Callable[[int, int], None]) -> None:
        """Go on until as many episodes have begun, and all that is reported has come in."""
        planned = self.protocol.episodes
        last = planned if episodes is None else min(planned, self.enrolled + episodes)
        ended = self.campaign.state.stopped is not None
        while not ended or self._coming:
            self.clock.tick += 1
            if not ended:
                ended = self.enrolled >= last or not self._begin(self.enrolled + 1)
                progress(self.enrolled, last)
            self._deliver()
            if self.clock.tick % self.are.learn_every == 0:
                self.learner.look(self.clock.tick, self.fates.death(self.clock.tick))
            self._sign()
        self.learner.take_over()
        self.learner.look(self.clock.tick, None)
        if self.enrolled == planned and self.campaign.state.stopped is None:
            self.campaign.stop(
                actor=SIMULATION, reason=f"all {planned} episodes have begun, and reports are in"
            )

    def _begin(self, number: int) -> bool:
        """Let a site begin an episode; return False if none may begin any more."""
        fate, clock = self.fates.episode(number), self.clock
        episode_id = f"{fate.site}:{number:05d}"
        try:
            given = self.campaign.assign(episode_id)
        except NotAllowedError:
            return False
        self.enrolled += 1
        self.count["begun"] += 1
        policy = self._member(given.version, given.member)
        self._lose(policy, (given.version, given.member))
        report = played(self.world, policy, number, episode_id=episode_id, fate=fate)
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

    def _deliver(self) -> None:
        """Let everything come in that is due."""
        while self._coming and self._coming[0][0] <= self.clock.tick:
            _, _, come_in = heapq.heappop(self._coming)
            come_in()

    def _send(self, report: Report, began: int) -> None:
        place = self.campaign.take(report)
        self.count["recorded"] += place.new
        self.count["late"] += place.late
        self._delays += self.clock.tick - began
        self._totals[report.id] = report.total

    def _repeat(self, report: Report) -> None:
        self.count["repeated"] += not self.campaign.take(report).new

    def _send_damaged(self, text: str) -> None:
        try:
            self.campaign.record_json(text)
        except RefusedError:
            self.count["refused"] += 1

    def _correct(self, report: Report) -> None:
        self.campaign.correct(
            report, actor=report.site or "", reason="the last reward was entered wrongly"
        )
        self.count["corrected"] += 1
        self._totals[report.id] = report.total

    def _withdraw(self, report: Report) -> None:
        self.campaign.withdraw(report.id, actor=report.site or "", reason="consent was withdrawn")
        self.count["withdrawn"] += 1
        del self._totals[report.id]

    def _sign(self) -> None:
        """Let whoever signs look at a candidate that waits, when its time has come."""
        if not self.are.signs or self.protocol.approval.by == "schedule":
            return
        waiting = self.campaign.state.waiting
        if waiting is None:
            return
        if waiting.number not in self._decided:
            thought, approves = self.fates.decision(waiting.number)
            self._decided[waiting.number] = self.clock.tick + thought, approves
        due, approves = self._decided[waiting.number]
        if self.clock.tick < due:
            return
        try:
            if approves:
                reason = "the evidence was looked at"
                self.campaign.approve(waiting.number, actor=APPROVER, reason=reason)
            else:
                reason = "the evidence does not convince"
                self.campaign.reject(waiting.number, actor=APPROVER, reason=reason)
        except NotAllowedError:
            if self.campaign.state.stopped is None:
                raise

    def _at(self, tick: int, happens: Callable[[], None]) -> None:
        self._pushed += 1
        heapq.heappush(self._coming, (tick, self._pushed, happens))

    def _member(self, version: int, member: int) -> Policy:
        if (version, member) not in self._members:
            self._members[version, member] = self.campaign.policy(version).member(member)
        return self._members[version, member]

    def _lose(self, policy: Policy, name: tuple[int, int]) -> None:
        """Count what is lost by letting this member play."""
        if self.lost is None:
            return
        if name not in self._losses:
            self._losses[name] = self.world.loss(policy)  # type: ignore[attr-defined]
        loss = self._losses[name]
        self.lost = None if loss is None else self.lost + loss

    def summary(self) -> SimulatedCampaign:
        """Return what the simulation came to."""
        campaign, count = self.campaign, self.count
        with campaign.store.reading() as connection:
            state = campaign.state_at(connection)
            heads = heads_of(connection, campaign.name)
        totals = self._totals.values()
        return SimulatedCampaign(
            **{name: count[name] for name in COUNTED},
            deaths=self.learner.deaths,
            mean_delay=self._delays / count["recorded"] if count["recorded"] else None,
            mean_return=fsum(totals) / len(totals) if totals else None,
            regret=self.lost,
            deployments=state.spent,
            budget=state.protocol.budget,
            rejections=sum(one.status == "rejected" for one in state.candidates.values()),
            waiting=None if state.waiting is None else state.waiting.number,
            decision_delays=tuple(
                version.since - version.seq
                for version in state.versions[1:]
                if version.rollback_to is None
            ),
            stopped=None if state.stopped is None else state.stopped.reason,
            differences=differences_from_learner(campaign) if went_as_planned(state) else None,
            links={chain: head.link for chain, head in heads.items()},
        )
