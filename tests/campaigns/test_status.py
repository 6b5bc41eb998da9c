"""The counts of a status: a process counts only the rows that are new to it."""

import sys

import pytest
import sqlalchemy as sa

from campaign_builders import create, fill, propose, report
from rareswitch.campaigns import Campaign, status
from rareswitch.campaigns.store.tables import episodes

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
