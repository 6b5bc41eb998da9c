"""A small campaign with everything in it that a campaign can have, and its export."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import rareswitch as rs
from rareswitch.campaigns import (
    AnalysisTerms,
    Approval,
    Campaign,
    DataQuality,
    Harm,
    Intake,
    Learning,
    Protocol,
    RefusedError,
    Report,
    Subgroups,
    open_store,
)
from rareswitch.core.task import Task

SIMULATION = b'{"simulated": true}'
EVE = {"by": "eve", "reason": "fine"}
SECRET = "Ada-Lovelace-of-London"
ROWS = np.eye(3)
ANALYSIS = AnalysisTerms(
    events=["serious", "nausea | é"], subgroups=Subgroups(names=["mild", "severe|er", "unseen"])
)
EVENTS: tuple[dict[str, int] | None, ...] = (None, {}, {"nausea | é": 2, "serious": 1})


def ticking() -> Iterator[str]:
    """Tell times a minute apart, so that nothing depends on the clock of the machine."""
    return (
        f"2026-03-{1 + n // 1440:02d}T{n // 60 % 24:02d}:{n % 60:02d}:00+00:00" for n in count()
    )


def protocol_of(**changes: Any) -> Protocol:
    task = changes.pop("task", Task(dim=3, horizon=2, episodes=120))
    given: dict[str, Any] = {
        "name": "small",
        "task": task,
        "schedule": rs.SpreadBudget(switches=4),
        "budget": 4,
        "approval": Approval(by="second-person"),
        "intake": Intake(grace=30),
        "stopping": (Harm(below=0.01), DataQuality(most=0.5)),
    }
    return Protocol(**given | changes)


def opened(path: Path, protocol: Protocol, simulation: bytes | None = None) -> Campaign:
    """Create a campaign in a new file."""
    times = ticking()
    store = open_store(path, create=True)
    return Campaign.create(
        store, protocol, by="ana", simulation=simulation, clock=lambda: next(times)
    )


def episode_of(rng: np.random.Generator, *, one_hot: bool, short: bool) -> rs.Episode:
    """Draw an episode of two steps, or of one that was cut off."""
    chosen = rng.integers(3, size=1 if short else 2)
    offered: Any = np.arange(3) if one_hot else ROWS
    features = chosen if one_hot else ROWS[chosen] * rng.uniform(0.3, 1.0, (len(chosen), 1))
    return rs.Episode(
        features=features, rewards=rng.random(len(chosen)), next_features=[offered.copy()]
    )


def play(campaign: Campaign, episodes: int, *, name: str = "p", seed: int = 0) -> None:
    """Record episodes, most of them assigned before, and approve what is due."""
    rng, one_hot = np.random.default_rng(seed), campaign.protocol.task.one_hot
    with Learning(campaign) as learning:
        for k in range(episodes):
            if k % 4:
                campaign.assign(f"{name}{k}")
            if k % 10 != 9:
                episode = episode_of(rng, one_hot=one_hot, short=k % 7 == 3)
                campaign.record(f"{name}{k}", episode)
            while (candidate := learning.step()) is not None:
                if candidate.status == "waiting":
                    campaign.approve(candidate.number, by="eve", reason="as planned")


def _told(k: int, rng: np.random.Generator) -> Report:
    """Return a report that tells all it can; number 21 is late."""
    given = rng.integers(3, size=2)
    return Report(
        id=f"p{k}",
        episode=rs.Episode(
            features=ROWS[given], rewards=rng.random(2).round(3), next_features=[ROWS]
        ),
        first_features=ROWS,
        actions=given,
        recommended=given if k % 5 else (given + np.array([1, 0])) % 3,
        propensities=np.full(2, 0.5) if k % 2 else None,
        site=f"site {k % 3} | é" if k % 4 else None,
        began="2026-01-01T00:00Z",
        subgroup=("mild", "severe|er")[k % 2] if k % 7 else None,
        events=EVENTS[k % 3],
        participant=SECRET,
        version=1 if k == 21 else None,
    )


def full_campaign(path: Path) -> Campaign:
    """Return a campaign with late, missing, cancelled, corrected, withdrawn, overridden and refused
    episodes, a reopening, a rejection, a rollback, an amendment and an unplanned version.
    """
    protocol = protocol_of(actions=("a", "b|b", "c"), analysis=ANALYSIS)
    protocol = protocol.with_simulation(SIMULATION)
    campaign = opened(path, protocol, SIMULATION)
    refuse_until_stopped(campaign)
    campaign.approve(campaign.reopen(by="bo", reason="a wrong file").number, **EVE)
    rng = np.random.default_rng(1)
    rejected = False
    with Learning(campaign) as learning:
        for k in range(70):
            if k % 3:
                campaign.assign(f"p{k}")
            if k % 10 == 9:
                continue
            if k % 12 == 0:
                campaign.record(f"p{k}", episode_of(rng, one_hot=False, short=True))
            else:
                campaign.record(_told(k, rng))
            if k == 30:
                campaign.withdraw("p2", by="bo", reason="consent <b>withdrawn</b>")
                campaign.cancel("p29", by="bo", reason="never came")
            if k == 31:
                again = rs.Episode(features=ROWS[[0, 1]], rewards=[1.0, 0.0], next_features=[ROWS])
                campaign.correct(Report(id="p5", episode=again), by="bo", reason="typo | form")
            candidate = learning.step()
            if candidate is not None and candidate.version == 3 and not rejected:
                campaign.reject(candidate.number, by="eve", reason="not yet")
                rejected = True
            elif candidate is not None:
                campaign.approve(candidate.number, **EVE)
            if k == 45:
                campaign.rollback(1, by="eve", reason="harm suspected")
            if k == 50:
                more = {"budget": {"deployments": 6}}
                amendment = campaign.amend(more, by="bo", reason="more are needed")
                campaign.approve(amendment.number, **EVE)
        early = learning.propose_early(by="bo", reason="interim")
        campaign.approve(early.number, by="eve", reason="early")
    campaign.forget(SECRET, by="bo", reason="asked to")
    return campaign


def refuse_until_stopped(campaign: Campaign) -> int:
    """Hand in reports that are refused until data quality stops the campaign; return how many."""
    for k in count():
        if campaign.state.stopped:
            return k
        refuse(campaign, f"x{k}")
    raise AssertionError


def refuse(campaign: Campaign, name: str) -> None:
    with suppress(RefusedError):
        campaign.record({"id": name, "features": [[1, 0, 0]], "rewards": [2]})
