"""Every planned candidate was fitted where the schedule asked for one first: both verifiers say."""

from contextlib import contextmanager
from dataclasses import dataclass

import pytest

import rareswitch as rs
from campaign_builders import create, fill, report
from rareswitch.campaigns import Approval, Campaign, Intake, Learning, open_store
from rareswitch.campaigns.learn import fold as folding
from rareswitch.campaigns.learn.fold import Fold
from rareswitch.campaigns.proof.export import export as export_module
from rareswitch.campaigns.state import State
from rareswitch.campaigns.stopping import looking
from two_proofs import of_export, of_store, remarks

ANA, BEN = {"actor": "ana", "reason": "agreed"}, {"actor": "ben", "reason": "after a look"}
SECOND = Approval(by="second-person", retry_after=4)
EVERY = {"schedule": {"kind": "every-episode"}}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as opened:
        yield opened


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch):
    """Absorb few rows at once, so that there are several blocks, and draw no pictures."""
    monkeypatch.setattr(folding, "ABSORBED_TOGETHER", 4)
    monkeypatch.setattr(export_module, "page", lambda *_: "")


def places(campaign):
    """Return where the candidates were fitted."""
    return [candidate.seq for candidate in campaign.state.candidates.values()]


def learn(campaign, *, decide=None):
    """Let a learner come and propose all that is due; somebody may decide about each."""
    with Learning(campaign) as learning:
        while (candidate := learning.step(reason="it is due")) is not None:
            if decide is not None:
                decide(candidate.number, **BEN)


# --- campaigns that went right --------------------------------------------------------------------


def a_learner_that_comes_late(store):
    campaign = create(store)
    fill(campaign, range(34))
    learn(campaign)
    return campaign, [10, 20, 30]


def growth_and_dates(store):
    campaign = create(store, schedule=rs.SpreadBudget(switches=5))
    fill(campaign, range(50))
    learn(campaign)
    found = places(campaign)
    assert len(found) == 5
    return campaign, found


def rejections(store):
    campaign = create(store, approval=SECOND)
    fill(campaign, range(12))
    learn(campaign, decide=campaign.reject)  # the schedule is asked again at row 16
    fill(campaign, range(12, 19))
    learn(campaign, decide=campaign.reject)  # and at row 23
    fill(campaign, range(19, 26))
    learn(campaign, decide=campaign.approve)
    return campaign, [10, 16, 23]


def a_rollback_while_one_waits(store):
    campaign = create(store, approval=SECOND)
    fill(campaign, range(10))
    learn(campaign, decide=campaign.approve)
    fill(campaign, range(10, 25))
    learn(campaign)  # at row 20
    campaign.roll_back(1, **BEN)
    fill(campaign, range(25, 42))
    learn(campaign, decide=campaign.approve)
    return campaign, [10, 20, 30, 40]


def corrections(store):
    """A withdrawal moves the date; another of what was fitted on makes one due where it stands."""
    campaign = create(store)
    fill(campaign, range(8))
    campaign.withdraw("p3", **ANA)  # row 9
    campaign.correct(report(4, rewards=[0.25, 0.75]), **ANA)  # row 10
    fill(campaign, range(8, 12))
    campaign.withdraw("p6", **ANA)  # row 15
    fill(campaign, range(12, 30))
    learn(campaign)
    return campaign, [13, 15, 25]


def withdrawn_when_it_was_due(store):
    """At row 10 a policy is due, at row 11 no longer: the learner comes after that.

    It counts as deployed after nine episodes, as is known then: the tenth is at row 12.
    """
    campaign = create(store)
    fill(campaign, range(10))
    campaign.withdraw("p3", **ANA)
    fill(campaign, range(10, 16))
    learn(campaign)
    return campaign, [10, 12]


def an_early_one_passes_rows_over(store):
    """The policy that was due at row 10 is nobody's any more; one is due again after it."""
    campaign = create(store, approval=SECOND)
    fill(campaign, range(14))
    with Learning(campaign) as learning:
        early = learning.propose_early(actor="ana", reason="interim")
    campaign.reject(early.number, **BEN)  # asked again at row 18
    fill(campaign, range(14, 24))
    learn(campaign, decide=campaign.approve)
    return campaign, [14, 18, 20]


def amended_schedules(store):
    campaign = create(store, episodes=60, batches=3)  # due at rows 20 and 40
    fill(campaign, range(5))
    campaign.amend(EVERY, **ANA)
    fill(campaign, range(5, 7))
    campaign.amend({"schedule": {"kind": "uniform-grid", "batches": 4}}, **ANA)
    fill(campaign, range(7, 20))
    learn(campaign)
    return campaign, [6, 7, 15]


def a_budget_that_goes_down_and_up(store):
    campaign = create(store, budget=3)
    fill(campaign, range(12))
    learn(campaign)
    campaign.amend({"budget": {"deployments": 1}}, **ANA)
    fill(campaign, range(12, 23))  # due at row 20, and none is left
    campaign.amend({"budget": {"deployments": 3}}, **ANA)
    fill(campaign, range(23, 32))
    learn(campaign)
    return campaign, [10, 24, 30]


def a_budget_that_goes_down_but_not_so_far(store):
    """At rows 11 to 20 the protocol allows one, of which none is left; later two again."""
    campaign = create(store, budget=2)
    fill(campaign, range(11))
    campaign.amend({"budget": {"deployments": 1}}, **ANA)
    fill(campaign, range(11, 22))
    campaign.amend({"budget": {"deployments": 2}}, **ANA)
    fill(campaign, range(22, 26))
    learn(campaign)
    return campaign, [10, 23]


def late_episodes_that_nobody_learns_from(store):
    campaign = create(store, intake=Intake(late="record"), approval=SECOND)
    fill(campaign, range(10))
    learn(campaign, decide=campaign.approve)
    for k in range(10, 26):
        campaign.take(report(k, version=1 + k % 2))
    learn(campaign, decide=campaign.reject)  # asked again at row 30
    for k in range(26, 29):
        campaign.take(report(k))
    campaign.take(report(29, version=1))  # this is row 30: nothing is learnt, but one is due
    fill(campaign, [30])
    learn(campaign, decide=campaign.approve)
    return campaign, places(campaign)


STORIES = [
    a_learner_that_comes_late,
    growth_and_dates,
    rejections,
    a_rollback_while_one_waits,
    corrections,
    withdrawn_when_it_was_due,
    an_early_one_passes_rows_over,
    amended_schedules,
    a_budget_that_goes_down_and_up,
    a_budget_that_goes_down_but_not_so_far,
    late_episodes_that_nobody_learns_from,
]


@pytest.mark.parametrize("story", STORIES)
def test_a_campaign_that_went_right_passes(store, tmp_path, story):
    campaign, expected = story(store)
    assert places(campaign) == expected
    assert of_store(campaign) == []
    assert of_export(campaign, tmp_path / "out") == {}


def test_a_policy_that_is_due_and_that_nobody_proposed_is_remarked(store):
    campaign = create(store)
    fill(campaign, range(14))
    assert of_store(campaign) == []
    assert remarks(campaign)[-1] == "a new policy is due since row 10; nobody proposed it yet"
    learn(campaign)
    assert "due since" not in remarks(campaign)[-1]
    campaign.stop(**ANA)
    assert not any("due since" in one for one in remarks(campaign))


# --- learners that did otherwise ------------------------------------------------------------------


@contextmanager
def a_learner_that(monkeypatch, *, overlooks=(), proposes_at=()):
    """Let the learner see nothing that is due at some rows, and something at others."""
    due = Fold.due.fget
    with monkeypatch.context() as patched:
        patched.setattr(
            Fold,
            "due",
            property(
                lambda self: self.seq in proposes_at or (due(self) and self.seq not in overlooks)
            ),
        )
        patched.setattr(Fold, "_asked_once", lambda *_: False)
        yield


def named_by_both(campaign, folder, *, store, export):
    """Assert that both verifiers name what is wrong, in these words."""
    found = of_store(campaign)
    assert [one for one in found if store in one], found
    told = of_export(campaign, folder)
    assert [one for one in told.get("triggers", []) if export in one], told


def test_one_row_late_is_named(store, tmp_path, monkeypatch):
    campaign = create(store)
    fill(campaign, range(15))
    with a_learner_that(monkeypatch, overlooks=[10]):
        learn(campaign)
    assert places(campaign) == [11]
    named_by_both(
        campaign,
        tmp_path / "out",
        store="entry 3, candidate for version 2: a new policy was due at row 10 already",
        export="candidate 3: the rule asked for a policy by row 10 already, not first at row 11",
    )


def test_one_row_late_is_named_where_growth_decides(store, tmp_path, monkeypatch):
    campaign = create(store, schedule=rs.DeterminantGrowth(eta=4.0))
    fill(campaign, range(8))
    with a_learner_that(monkeypatch):
        learn(campaign)
    first, second, *_ = places(campaign)
    with open_store(tmp_path / "late.db", create=True) as other:
        campaign = create(other, schedule=rs.DeterminantGrowth(eta=4.0))
        fill(campaign, range(8))
        with a_learner_that(monkeypatch, overlooks=[second]):
            learn(campaign)
        assert places(campaign)[:2] == [first, second + 1]
        named_by_both(
            campaign,
            tmp_path / "out",
            store=f"a new policy was due at row {second} already",
            export=f"the rule asked for a policy by row {second} already",
        )


def test_one_row_early_is_named(store, tmp_path, monkeypatch):
    campaign = create(store)
    fill(campaign, range(12))
    with a_learner_that(monkeypatch, proposes_at=[9], overlooks=[10, 11, 12]):
        learn(campaign)
    assert places(campaign) == [9]
    named_by_both(
        campaign,
        tmp_path / "out",
        store="entry 3, candidate for version 2: no new policy was due at row 9",
        export="candidate 3 is said to be planned, and none was due",
    )


def test_one_that_was_due_only_before_a_withdrawal_is_missed(store, tmp_path, monkeypatch):
    """At row 10 one is due; row 11 withdraws an episode, and at row 12 one is due again."""
    campaign = create(store)
    fill(campaign, range(10))
    campaign.withdraw("p3", **ANA)
    fill(campaign, range(10, 16))
    with a_learner_that(monkeypatch, overlooks=[10]):
        learn(campaign)
    assert places(campaign) == [12]
    named_by_both(
        campaign, tmp_path / "out", store="was due at row 10 already", export="by row 10 already"
    )


def test_one_that_was_due_only_before_an_amendment_is_missed(store, tmp_path, monkeypatch):
    campaign = create(store)
    fill(campaign, range(10))
    campaign.amend({"schedule": {"kind": "uniform-grid", "batches": 4}}, **ANA)  # 15, 30, 45
    fill(campaign, range(10, 18))
    with a_learner_that(monkeypatch, overlooks=[10]):
        learn(campaign)
    assert places(campaign) == [15]
    named_by_both(
        campaign, tmp_path / "out", store="was due at row 10 already", export="by row 10 already"
    )


def test_a_learner_that_did_not_hear_of_an_amendment_is_named(store, tmp_path, monkeypatch):
    campaign = create(store)
    fill(campaign, range(5))
    campaign.amend(EVERY, **ANA)
    fill(campaign, range(5, 12))
    with a_learner_that(monkeypatch, overlooks=range(10)):
        learn(campaign)
    assert places(campaign)[0] == 10
    named_by_both(
        campaign, tmp_path / "out", store="was due at row 6 already", export="by row 9 already"
    )


def test_asking_too_soon_after_a_rejection_is_named(store, tmp_path, monkeypatch):
    campaign = create(store, approval=SECOND)
    fill(campaign, range(12))
    learn(campaign, decide=campaign.reject)
    fill(campaign, range(12, 14))
    forgetting = Campaign(store, campaign.name)
    with monkeypatch.context() as patched:
        patched.setattr(State, "_rejected", _rejected_and_asked_at_once)
        learn(forgetting)
    assert places(campaign) == [10, 13]
    named_by_both(
        campaign,
        tmp_path / "out",
        store="the schedule was not to be asked at row 13",
        export="it was fitted at row 13, and the rule was to be asked from row 16 on",
    )


def _rejected_and_asked_at_once(state, entry):
    state.candidates[entry.payload["candidate"]].status = "rejected"
    state.asked_again = entry.position + 1


def test_asking_too_late_after_a_rejection_is_named(store, tmp_path, monkeypatch):
    campaign = create(store, approval=SECOND)
    fill(campaign, range(12))
    learn(campaign, decide=campaign.reject)
    fill(campaign, range(12, 19))
    with a_learner_that(monkeypatch, overlooks=[16, 17]):
        learn(campaign)
    assert places(campaign) == [10, 18]
    named_by_both(
        campaign, tmp_path / "out", store="was due at row 16 already", export="by row 17 already"
    )


def test_asking_where_no_deployment_was_left_is_named(store, tmp_path, monkeypatch):
    """A learner goes back to row 20, when the budget was spent, after it was raised at row 23."""
    campaign = create(store, budget=1)
    fill(campaign, range(12))
    learn(campaign)
    fill(campaign, range(12, 23))
    campaign.amend({"budget": {"deployments": 3}}, **ANA)
    forgetting = Campaign(store, campaign.name)
    with monkeypatch.context() as patched:
        patched.setattr(State, "_amended", State._created)
        now = campaign.protocol
        always = property(lambda _: now, lambda *_: None)
        patched.setattr(Fold, "protocol", always, raising=False)
        learn(forgetting)
    assert places(campaign) == [10, 20]
    named_by_both(
        campaign,
        tmp_path / "out",
        store="the schedule was not to be asked at row 20",
        export="the rule was to be asked from row 24 on",
    )


def test_a_row_whose_protocol_left_no_deployment_is_named(store, tmp_path, monkeypatch):
    """The budget went down to what was spent, and a learner goes on all the same."""
    campaign = create(store, budget=2, batches=12)  # due at rows 5, 10, …
    fill(campaign, range(7))
    learn(campaign)
    campaign.amend({"budget": {"deployments": 1}}, **ANA)
    fill(campaign, range(7, 12))
    assert of_store(campaign) == []
    with monkeypatch.context() as patched:
        patched.setattr(State, "left", property(lambda _: 1))
        patched.setattr(Fold, "absorb_until_due", _absorb_ten_rows)
        learn_one(Campaign(store, campaign.name))
    assert places(campaign) == [5, 10]
    assert [one for one in of_store(campaign) if "of a budget of 1" in one]
    told = of_export(campaign, tmp_path / "out")
    assert "candidate 6: no deployment was left at row 10" in told["triggers"]


def _absorb_ten_rows(fold, connection, state, *, upto):
    fold.absorb(connection, upto=10)
    return True


def learn_one(campaign):
    with Learning(campaign) as learning:
        assert learning.step() is not None


# --- rules that are not ours ----------------------------------------------------------------------


@dataclass(frozen=True)
class Blinking:
    """A rule of somebody's own that is due before some episodes, and not any more after them."""

    episodes: tuple

    def due(self, clock):
        return clock.episode in self.episodes


def test_a_rule_of_ones_own_is_asked_after_every_row(store):
    campaign = create(store, schedule=Blinking(episodes=(7, 12)))
    fill(campaign, range(20))
    learn(campaign)
    assert places(campaign) == [6, 11]
    assert of_store(campaign) == []


def test_a_rule_of_ones_own_that_was_overlooked_is_named(store, monkeypatch):
    campaign = create(store, schedule=Blinking(episodes=(7, 12)))
    fill(campaign, range(20))
    with a_learner_that(monkeypatch, overlooks=[6]):
        learn(campaign)
    assert places(campaign) == [11]
    assert [one for one in of_store(campaign) if "was due at row 6 already" in one]


def test_after_the_planned_episodes_nothing_is_due_but_before_it_was(store, monkeypatch):
    """An engine that did not stop: a block that goes beyond the end is asked row by row."""
    monkeypatch.setattr(folding, "ABSORBED_TOGETHER", 256)
    campaign = create(store, episodes=20, batches=2)
    with monkeypatch.context() as patched:
        patched.setattr(looking, "watched", lambda *_: ())
        fill(campaign, range(25))
    learn(campaign)
    assert places(campaign) == [10]
