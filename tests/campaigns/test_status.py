"""The counts of a status: a process counts only the rows that are new to it."""

import sys

import pytest
import sqlalchemy as sa

from campaign_builders import create, fill, propose, report
from rareswitch.campaigns import Approval, Campaign, candidates, status
from rareswitch.campaigns.store.tables import episodes
from rareswitch.cli.campaign_look import candidate_text

COUNTS = ("recorded", "open", "late", "withdrawn", "assigned", "versions")


def counts(campaign):
    found = status(campaign)
    return {name: getattr(found, name) for name in COUNTS}


def anew(campaign):
    """Return the counts as a process has them that has not counted before."""
    return counts(Campaign(campaign.store, campaign.name))


@pytest.mark.parametrize("one_by_one", [0, 2, 5000])
def test_counts_go_on_from_the_rows_that_were_counted(store, monkeypatch, one_by_one):
    module = sys.modules[status.__module__]
    monkeypatch.setattr(module, "COUNTED_ONE_BY_ONE", one_by_one)
    campaign = create(store)
    assert counts(campaign) == anew(campaign)
    for number in (1, 2, 3):
        campaign.assign(f"p{number}")
    fill(campaign, [4, 1])
    assert counts(campaign) == anew(campaign)
    propose(campaign)
    fill(campaign, [2, 5, 6])  # 2 is late
    campaign.correct(report(4, actions=[1, 1]), by="ana", reason="typing error")
    campaign.withdraw("p1", by="ana", reason="consent withdrawn")
    found = counts(campaign)
    assert found == anew(campaign)
    assert (found["recorded"], found["open"], found["late"]) == (5, 1, 1)
    assert counts(campaign) == found  # asked again, without a new row


def test_counts_of_another_past_are_not_gone_on_from(store):
    campaign = create(store)
    campaign.assign("p1")
    fill(campaign, [1, 2])
    assert counts(campaign)["open"] == 0
    with store.engine.begin() as connection:  # somebody changes a row that was counted
        connection.execute(
            episodes.update().where(episodes.c.seq == 2).values(link="0" * 64, assigned=True)
        )
        connection.execute(
            sa.text("UPDATE heads SET link = :link WHERE chain = 'episodes'"), {"link": "0" * 64}
        )
    assert counts(campaign) == anew(campaign)
    assert counts(campaign)["open"] == -1


def test_a_candidate_that_waits_counts_the_rows_since_its_fit(store):
    campaign = create(store, approval=Approval(by="second-person"))
    fill(campaign, [1, 2, 3])
    propose(campaign)
    assert status(campaign).waiting["since_fit"] == {"reports": 0, "corrections": 0}
    assert "evidence as of row 3; no reports since" in candidate_text(campaign, one_of(campaign))
    fill(campaign, [4, 5])
    campaign.correct(report(1, actions=[1, 1]), by="ana", reason="typing error")
    campaign.withdraw("p2", by="ana", reason="consent withdrawn")
    campaign.withdraw("p4", by="ana", reason="consent withdrawn")  # was not fitted
    assert status(campaign).waiting["since_fit"] == {"reports": 2, "corrections": 2}
    said = "evidence as of row 3; 2 reports and 2 corrections of fitted episodes since"
    assert said in candidate_text(campaign, one_of(campaign))
    campaign.reject(one_of(campaign)["number"], by="ben", reason="too early")
    assert one_of(campaign)["since_fit"] is None


def one_of(campaign):
    (one,) = candidates(campaign)
    return one
