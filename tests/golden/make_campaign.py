"""Write the golden store of this version: `python tests/golden/make_campaign.py`.

Run it once for a version whose stores are new: every later one must open it, and read in it what
was there. The clock stands still, so the store is the same whenever it is made.
"""

import sqlite3
import sys
from pathlib import Path

import numpy as np

import rareswitch as rs

sys.path.insert(0, str(Path(__file__).parents[1]))
from campaign_builders import protocol, report
from rareswitch.campaigns import (
    Approval,
    Campaign,
    Harm,
    Learning,
    NotAllowedError,
    RefusedError,
    open_store,
)

STORE = Path(__file__).parent / f"campaign-{rs.__version__}.db"


def story(store):
    """Let a campaign have one of everything."""
    agreed = protocol(
        episodes=40,
        batches=8,
        approval=Approval(by="second-person", retry_after=2),
        recipe=rs.Recipe(exploration=rs.Ensemble(members=2), seed=(1, 2)),
        stopping=(Harm(below=0.05),),
    ).with_simulation(b"a report")
    campaign = Campaign.create(
        store, agreed, by="ana", simulation=b"a report", clock=lambda: "2026-11-16T12:00:00Z"
    )
    with Learning(campaign) as learning:
        for k in range(30):
            if k % 2:
                campaign.assign(f"p{k}")
            campaign.record(report(k, site=f"{k % 3}", participant=f"person {k % 4}"))
            what_else_happens(campaign, k)
            if candidate := learning.step():
                decide = campaign.reject if candidate.seq % 4 == 1 else campaign.approve
                decide(candidate.number, by="ben", reason="after a look")
    campaign.assign("open")
    campaign.stop(by="ana", reason="enough for a test")
    return campaign


def what_else_happens(campaign, k):
    if k == 8:
        campaign.correct(report(3, rewards=[0.25, 0.75]), by="ana", reason="typing error")
    if k == 14:
        campaign.forget("person 2", by="ana", reason="she asked")
    if k == 17:
        campaign.rollback(1, by="cyd", reason="harm at site 2")
    if k == 23:
        refused(campaign)
    if k == 28:
        campaign.withdraw("p5", by="ana", reason="consent withdrawn")


def refused(campaign):
    for wrong in ('{"id": "x", "participant": "Ada"}', np.nan):
        try:
            campaign.record(wrong) if isinstance(wrong, str) else campaign.record("y", wrong)
        except (RefusedError, NotAllowedError):
            continue


def main():
    if STORE.exists():
        raise SystemExit(f"{STORE} is there already: it was written by the version that names it")
    with open_store(STORE, create=True) as store:
        story(store)
    connection = sqlite3.connect(STORE)
    connection.execute("PRAGMA journal_mode=DELETE")  # small pages need it, and one file to commit
    connection.execute("PRAGMA page_size=1024")
    connection.execute("VACUUM")
    connection.close()
    Path(f"{STORE}.trial.learner").unlink()


if __name__ == "__main__":
    main()
