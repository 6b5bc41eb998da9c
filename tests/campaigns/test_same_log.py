"""The plain learner beside a campaign sees every candidate that is not its own."""

import pytest

import rareswitch as rs
from rareswitch.campaigns import (
    Approval,
    Campaign,
    Circumstances,
    FiniteWorld,
    Learning,
    Protocol,
    open_store,
    simulate,
)
from rareswitch.campaigns.report import episode_of
from rareswitch.campaigns.store.rows import rows_of
from same_log import differences_from_learner

MDP = rs.worlds.tabular(states=2, actions=2, horizon=2, seed=1)
PROTOCOL = Protocol(
    name="pair",
    task=MDP.task(episodes=40),
    schedule=rs.rules.EpisodeGrid(dates=(1, 11, 21)),
    budget=2,
    approval=Approval(by="second-person"),
)


@pytest.fixture
def campaign(tmp_path):
    """Give a campaign with twelve episodes, whose first candidate was due after ten."""
    with open_store(tmp_path / "pair.db", create=True) as store:
        campaign = Campaign.create(store, PROTOCOL, by="simulation", rehearsal=True)
        calm = Circumstances.calm()
        with pytest.MonkeyPatch.context() as patch:  # nobody has looked yet
            patch.setattr(Learning, "step", lambda self: None)
            simulate(PROTOCOL, FiniteWorld(MDP), store, circumstances=calm, episodes=12)
        yield campaign


def log_of(campaign):
    with campaign.store.reading() as connection:
        return list(rows_of(connection, "episodes", campaign.name))


def propose(campaign, policy, seq, **more):
    signed = {"by": "schedule", "reason": "so"}
    return campaign.propose(policy, seq=seq, evidence={"triggers": []}, expected=1, **signed | more)


def test_a_candidate_that_nobody_proposed_is_missed(campaign):
    assert differences_from_learner(campaign) == ("a Learner is due at 10; no candidate is",)
    with Learning(campaign) as learning:
        learning.step()
    assert differences_from_learner(campaign) == ()


def test_another_policy_is_named(campaign):
    propose(campaign, PROTOCOL.learner().policy, 10)
    (found,) = differences_from_learner(campaign)
    assert found == ("candidate 3 was fitted at 10; a Learner is due at 10, with another policy")


def test_the_right_policy_at_another_row_is_named(campaign):
    learner = PROTOCOL.learner()
    for row in log_of(campaign)[:10]:
        learner.absorb(episode_of(row.body))
    propose(campaign, learner.fit(), 11)
    assert differences_from_learner(campaign) == (
        "candidate 3 was fitted at 11; a Learner is due at 10, with the same policy",
    )


def test_what_was_not_due_is_not_asked_about(campaign):
    propose(campaign, PROTOCOL.learner().policy, 12, planned=False, by="ana")
    with pytest.raises(ValueError, match="campaign must have gone as planned"):
        differences_from_learner(campaign)


def test_a_candidate_that_is_due_nowhere_is_named(tmp_path):
    with open_store(tmp_path / "none.db", create=True) as store:
        campaign = Campaign.create(store, PROTOCOL, by="ana")
        propose(campaign, PROTOCOL.learner().policy, 0)
        assert differences_from_learner(campaign) == ("candidate 3 is due nowhere",)


def test_an_amended_campaign_is_not_asked_about(campaign):
    number = campaign.amend({"budget": {"deployments": 3}}, by="ana", reason="more money").number
    campaign.approve(number, by="ben", reason="more money")
    with pytest.raises(ValueError, match="campaign must have gone as planned; it was amended"):
        differences_from_learner(campaign)
