"""A study for tests of the service: three sites, a control, two subgroups and two signatures."""

from datetime import UTC, datetime, timedelta

import numpy as np

import rareswitch as rs
from rareswitch.campaigns import (
    AnalysisTerms,
    Approval,
    Campaign,
    ControlHarm,
    ControlSuperiority,
    DataQuality,
    Harm,
    Intake,
    Learning,
    Protocol,
    Subgroups,
    packed_features,
)
from rareswitch.core.control import Control
from rareswitch.core.task import Task
from rareswitch.features import OneHot

ACTIONS = ("usual care", "low dose", "high dose")
SITES = ("berlin", "porto", "turku")
# The chance of a success by severity and action: a high dose harms mild cases, and helps severe.
CHANCES = ((0.7, 0.75, 0.45), (0.6, 0.7, 0.5), (0.3, 0.5, 0.75), (0.2, 0.35, 0.7))
BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = BEGIN

    def __call__(self):
        return self.now.isoformat(timespec="milliseconds")

    def move(self, hours):
        self.now += timedelta(hours=hours)


def study_protocol(**changes):
    """Return a protocol of one decision, and the bytes of its feature map."""
    terms, data = packed_features(OneHot(states=4, actions=3), ["severity"])
    control = changes.pop("control", Control(0, share=0.2))
    given = {
        "name": "dosing",
        "task": Task(dim=12, horizon=1, episodes=600, one_hot=True),
        "actions": ACTIONS,
        "features": terms,
        "schedule": rs.rules.Waiting(rs.SpreadBudget(switches=4), first=60, apart=40),
        "budget": 4,
        "recipe": rs.Recipe(exploration=rs.Ensemble(members=8), control=control, floor=0.1),
        "approval": Approval(by="second-person", retry_after=20),
        "intake": Intake(assigned=True),  # concealed salts would make each run another
        "stopping": (
            Harm(below=0.2),
            DataQuality(most=0.2),
            *((ControlHarm(margin=0.05), ControlSuperiority(after=150)) if control else ()),
        ),
        "analysis": AnalysisTerms(
            events=["nausea"],
            subgroups=Subgroups(names=["mild", "severe"], column="severity", cuts=[2.0]),
        ),
    }
    return Protocol(**given | changes), data


def create_study(store, *, clock=None, by="Ana Ruiz", **changes):
    protocol, data = study_protocol(**changes)
    clock = Clock() if clock is None else clock
    return Campaign.create(
        store, protocol, by=by, reason="as agreed with the board", features=data, clock=clock
    )


def treat(campaign, number, rng, *, site=None):
    """Let a site treat a participant; return the report, which is not recorded yet."""
    site = SITES[number % 3] if site is None else site
    severity, name = int(rng.integers(4)), f"{site}:{number:04}"
    act = campaign.act(name, {"severity": severity})
    return {
        "id": name,
        "observations": [{"severity": severity}],
        "actions": [act.action],
        "rewards": [float(rng.random() < CHANCES[severity][act.place])],
        "events": {"nausea": 1} if act.place == 2 and rng.random() < 0.3 else {},
        "site": site,
    }


def run_study(campaign, episodes, *, seed=0, hours=2.0, approves="Ben Okafor", until=None, open=6):
    """Treat so many participants, and let a second person approve each candidate.

    From version `until` on candidates wait. The last `open` participants are not reported.
    """
    rng, clock, waiting = np.random.default_rng(seed), campaign.clock, []
    with Learning(campaign) as learning:
        for number in range(1, episodes + 1):
            waiting.append(treat(campaign, number, rng))
            clock.move(hours * rng.exponential())
            if len(waiting) > open:
                campaign.record(waiting.pop(0))
            if (found := learning.step()) is not None and found.status == "waiting":
                clock.move(5)
                if until is None or found.version <= until:
                    campaign.approve(found.number, by=approves, reason="the evidence is clear")
                else:
                    for report in waiting[: -open or None]:
                        campaign.record(report)
                    return
