"""A candidate that the schedule finds not worth proposing is an entry, and nobody is asked."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rareswitch as rs
from campaign_builders import create, fill, propose, report
from forgery import Forgery
from rareswitch.campaigns import (
    Approval,
    Campaign,
    Learning,
    NotAllowedError,
    candidates,
    export,
    heads,
    ledger,
    open_store,
    status,
)
from rareswitch.campaigns.learning import evidence, learning
from rareswitch.campaigns.learning.fold import Fold
from rareswitch.campaigns.proof.export.words import candidate_lines
from rareswitch.cli.campaign_look import _entry, _status, candidate_text
from two_proofs import of_export, of_folder, of_store

ANA, BEN = {"by": "ana", "reason": "agreed"}, {"by": "ben", "reason": "after a look"}
SECOND = Approval(by="second-person", retry_after=3)
NEVER = rs.rules.Worthwhile(rs.UniformGrid(batches=6), change=1.0, price=1e9)
GRID = {"kind": "uniform-grid", "batches": 6}
LOOKING = {"kind": "worthwhile", "schedule": GRID, "change": 1.0, "price": 1e9}
# After a decline the next candidate comes a quarter of the time later: 13 = 10 + ⌈10/4⌉, …
DECLINED = [10, 13, 17, 22, 28]


@dataclass(frozen=True)
class Picky:
    """A rule of somebody's own: due before every fifth episode, and content at some of them."""

    accepted: tuple

    def due(self, clock):
        return clock.episode % 5 == 0

    def accepts(self, candidate):
        return candidate.clock.episode in self.accepted


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as opened:
        yield opened


def learn(campaign, decide=None):
    """Let a new process be the learner at every step."""
    while True:
        with Learning(Campaign(campaign.store, campaign.name, allow=campaign.allow)) as one:
            candidate = one.step()
        if candidate is None:
            return
        if decide is not None and candidate.status == "waiting":
            decide(candidate.number, **BEN)


def approve(campaign):
    learn(campaign, campaign.approve)


def reject(campaign):
    learn(campaign, campaign.reject)


def amend(**tables):
    return lambda campaign: campaign.amend(tables, **ANA)


def withdraw(name):
    return lambda campaign: campaign.withdraw(name, **ANA)


def correct(campaign):
    campaign.correct(report(4, rewards=[0.25, 0.75]), **ANA)


def rollback(campaign):
    campaign.rollback(1, **BEN)


def happen(campaign, *events):
    for event in events:
        if isinstance(event, int):
            recorded = heads(campaign)["episodes"].length - campaign.state.corrections
            fill(campaign, range(recorded, recorded + event))
        else:
            event(campaign)
    return campaign


def told(campaign):
    """Return the row and the end of every candidate."""
    found = sorted(campaign.state.candidates.values(), key=lambda one: one.number)
    return [(one.seq, one.status) for one in found]


def all_declined(*rows):
    return [(row, "declined") for row in rows]


# The protocol, the events, and the candidates.
STORIES = {
    "all declined": ({"schedule": NEVER}, [30, learn], all_declined(*DECLINED)),
    "shared stages": (
        {"schedule": NEVER, "task": rs.Task(dim=3, horizon=2, episodes=60, stages="shared")},
        [30, learn], all_declined(*DECLINED),
    ),
    "one restart at each": (
        {"schedule": NEVER}, [11, learn, 2, learn, 3, learn, 6, learn], all_declined(*DECLINED[:4]),
    ),
    "some deployed": (
        {"schedule": rs.rules.Worthwhile(rs.SpreadBudget(switches=5), change=0.4, price=0.5)},
        [59, learn], None,
    ),
    "corrections after a decline": (
        {"schedule": NEVER}, [12, learn, withdraw("p3"), correct, withdraw("p11"), 6, learn],
        all_declined(10, 16, 20),
    ),
    "amended to look, and back": (
        {}, [12, learn, amend(schedule=LOOKING), 12, learn, amend(schedule=GRID), 9, learn,
             amend(schedule=LOOKING), 12, learn],
        [(10, "deployed"), (20, "declined"), (23, "declined"), (25, "deployed"),
         (30, "deployed"), (40, "declined"), (43, "declined")],
    ),
    "a rollback after a decline": (
        {"schedule": Picky((10,))}, [16, learn, rollback, 16, learn],
        [(4, "declined"), (9, "deployed"), (14, "declined"), (19, "declined"), (24, "declined"),
         (29, "declined")],
    ),
    "a rejection after a decline": (
        {"schedule": Picky((10, 20)), "approval": SECOND}, [12, reject, 20, approve],
        [(4, "declined"), (9, "rejected"), (19, "deployed"), (24, "declined"), (29, "declined")],
    ),
    "a spent budget": (
        {"schedule": Picky((10, 20)), "budget": 1}, [30, learn], [(4, "declined"), (9, "deployed")],
    ),
    "more budget": (
        {"schedule": Picky((10, 20, 30)), "budget": 1},
        [22, learn, amend(budget={"deployments": 2}), 12, learn],
        [(4, "declined"), (9, "deployed"), (24, "declined"), (29, "deployed")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STORIES)
def test_declined_candidates_are_entries_that_both_proofs_find_right(store, tmp_path, name):
    changes, events, expected = STORIES[name]
    campaign = happen(create(store, **changes), *events)
    found = told(campaign)
    assert expected in (None, found)
    assert "declined" in dict(found).values()
    assert [e.actor for e in ledger(campaign) if e.kind == "declined"] == ["schedule"] * sum(
        end == "declined" for _, end in found
    )
    assert campaign.state.spent <= campaign.state.terms.budget
    assert of_store(campaign) == []
    assert of_export(campaign, tmp_path / "out") == {}


def test_a_learner_that_never_stopped_writes_the_same_ledger(store, tmp_path):
    rule = rs.rules.Worthwhile(rs.SpreadBudget(switches=5), change=0.4, price=0.5)
    one = happen(create(store, schedule=rule), 59, learn)
    with open_store(tmp_path / "other.db", create=True) as other:
        two = happen(create(other, schedule=rule), 59)
        with Learning(two) as whole:
            while whole.step() is not None:
                pass
        for a, b in zip(ledger(one), ledger(two), strict=True):
            for entry in (a, b):
                del entry.payload["reached"]  # links depend on when a report was received
            assert (a.kind, a.actor, a.reason, a.payload) == (b.kind, b.actor, b.reason, b.payload)
    assert {"declined", "deployed"} <= {entry.kind for entry in ledger(one)}


def test_every_declined_candidate_has_draws_of_its_own(store):
    """So has the next deployment: its policy is not that of a learner that declined nothing."""
    campaign = happen(create(store, schedule=Picky((15,))), 15, learn)
    first, second, last = campaign.state.candidates.values()
    assert len({first.digest, second.digest, last.digest}) == 3
    learner = campaign.protocol.learner()
    learner.absorb(*(report(k).episode for k in range(14)))
    assert learner.fit().digest != last.digest
    learner.decline()
    learner.decline()
    assert learner.fit().digest == last.digest


def test_a_crash_before_the_entry_leaves_the_decision_to_the_next_learner(store, monkeypatch):
    campaign = happen(create(store, schedule=NEVER), 12)
    with monkeypatch.context() as patched:
        patched.setattr(Campaign, "propose", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError), Learning(campaign) as one:
            one.step()
    assert not campaign.state.candidates
    learn(campaign)
    assert told(campaign) == all_declined(10)
    assert of_store(campaign) == []


def test_the_entry_says_the_episode_the_change_the_gain_its_error_and_the_thresholds(store):
    campaign = happen(create(store, schedule=NEVER), 30, learn)
    entry = next(entry for entry in ledger(campaign) if entry.kind == "declined")
    worth, found = entry.payload["evidence"]["worth"], entry.payload["evidence"]
    assert (found["episodes"], found["triggers"][0]["value"]) == (10, 11)
    assert (worth["accepted"], worth["episodes"], worth["episodes_left"]) == (False, 10, 50)
    assert worth["gain"].keys() == {"value", "error"}
    change, gain = worth["reasons"]
    assert (change["threshold"], gain["threshold"]) == (1.0, 1e9)
    assert gain["value"] == pytest.approx(50 * worth["gain"]["value"])
    assert change["margin"] == change["value"] - 1.0
    assert entry.reason.startswith("not worth a deployment: share of episodes that change")
    assert "gain" in found  # the off-policy estimate, beside that of the model
    text = _entry(entry)
    assert "schedule declined a candidate for version 2: not worth a deployment" in text


def test_people_see_declined_candidates_everywhere_and_nobody_has_to_sign(store):
    campaign = happen(create(store, schedule=NEVER, approval=SECOND), 15, learn)
    now = status(campaign)
    assert (now.declined, now.spent, now.waiting, now.plain["declined"]) == (2, 0, None, 2)
    lines = _status(campaign, now)
    assert any("2 candidates were not worth proposing" in line for line in lines)
    assert any("no decision is pending" in line for line in lines)
    plain = candidates(campaign)[0]
    lines = candidate_text(campaign, plain)
    assert "fitted on 10 episodes, declined by schedule" in lines[0]
    assert lines[-1] == "not proposed, so nobody has to sign"
    assert any(line.startswith("worth: share of episodes that change") for line in lines)
    assert any(line.startswith("gain by the fitted model: ") for line in lines)
    with pytest.raises(NotAllowedError, match="is declined already"):
        campaign.approve(plain["number"], **BEN)
    with pytest.raises(NotAllowedError, match="is declined already"):
        campaign.reject(plain["number"], **BEN)


def test_a_person_who_proposes_in_place_of_the_schedule_hears_why_not(store):
    campaign = happen(create(store, schedule=NEVER, approval=SECOND), 12)
    found = learning.propose(campaign, by="ana", reason="please")
    assert (found.status, found.proposer) == ("declined", "schedule")
    early = learning.propose(campaign, by="ana", reason="new guideline", early=True)
    assert (early.status, early.planned) == ("waiting", False)
    campaign.approve(early.number, **BEN)
    assert campaign.state.in_force.version == 2
    assert of_store(campaign) == []


def test_where_no_report_tells_the_offers_the_candidate_is_proposed(store):
    campaign = create(store, schedule=NEVER)
    for k in range(12):
        campaign.record(report(k, first_features=None))
    learn(campaign)
    assert told(campaign) == [(10, "deployed")]
    worth = next(iter(campaign.state.candidates.values())).evidence["worth"]
    assert worth == {"accepted": True, "episodes": 0, "reasons": []}
    campaign.record(report(13))  # one that tells is enough to look at
    fill(campaign, range(14, 22))
    learn(campaign)
    assert told(campaign)[1:] == [(20, "declined")]
    assert of_store(campaign) == []


# --- what the rulebook refuses --------------------------------------------------------------------


REASON = {"quantity": "change", "value": 0.0, "threshold": 0.1, "reached": False}
NOT_WORTH = {"worth": {"accepted": False, "reasons": [REASON]}}


def test_only_the_schedule_declines_and_only_on_its_own_evidence(store):
    campaign = happen(create(store, approval=SECOND), 12)
    with pytest.raises(NotAllowedError, match="only the schedule declines a candidate"):
        propose(campaign, by="ana", evidence=NOT_WORTH)
    early = propose(campaign, by="ana", planned=False, evidence=NOT_WORTH)
    campaign.reject(early.number, **BEN)
    fill(campaign, range(12, 20))
    assert propose(campaign, evidence=NOT_WORTH).status == "declined"


@pytest.mark.parametrize(
    ("worth", "said"),
    [
        ([], "accepted is missing"),
        ({"accepted": 1, "reasons": []}, "accepted cannot be 1"),
        ({"accepted": True}, "reasons must be a list"),
        ({"accepted": True, "reasons": [{}]}, "quantity is missing"),
    ],
)
def test_a_misshapen_worth_is_refused(store, worth, said):
    campaign = happen(create(store), 12)
    with pytest.raises(rs.campaigns.CampaignError, match=said):
        propose(campaign, evidence={"worth": worth} if isinstance(worth, dict) else {"worth": {}})


# --- learners that did otherwise ------------------------------------------------------------------


def named(campaign, folder, said):
    found = of_store(campaign)
    assert [one for one in found if said in one], found
    assert of_export(campaign, folder)["replay"] == found


def test_a_missing_entry_is_named(store, tmp_path, monkeypatch):
    campaign = happen(create(store, schedule=NEVER), 30)
    due = Fold.due.fget
    with monkeypatch.context() as patched:
        patched.setattr(Fold, "due", property(lambda self: due(self) and self.seq != 13))
        patched.setattr(Fold, "_asked_once", lambda *_: False)
        learn(campaign)
    named(campaign, tmp_path / "out", "a new policy was due at row 13 already")


def test_an_extra_entry_is_named(store, tmp_path, monkeypatch):
    campaign = happen(create(store, schedule=NEVER), 15)
    due = Fold.due.fget
    with monkeypatch.context() as patched:
        patched.setattr(Fold, "due", property(lambda self: due(self) or self.seq == 12))
        learn(campaign)
    assert (12, "declined") in told(campaign)
    named(campaign, tmp_path / "out", "no new policy was due at row 12")


@pytest.mark.parametrize(("rule", "accepted"), [(NEVER, True), (Picky(tuple(range(60))), False)])
def test_a_forged_decision_is_named(store, tmp_path, monkeypatch, rule, accepted):
    campaign = happen(create(store, schedule=rule), 11)
    made = evidence._worth
    with monkeypatch.context() as patched:
        patched.setattr(evidence, "_worth", lambda *a: made(*a) | {"accepted": accepted})
        learn(campaign)
    assert told(campaign)[0][1] == ("deployed" if accepted else "declined")
    named(campaign, tmp_path / "out", "its evidence has worth")


@pytest.mark.parametrize("key", ["gain", "episodes", "reasons"])
def test_a_forged_reason_is_named(store, tmp_path, monkeypatch, key):
    campaign = happen(create(store, schedule=NEVER), 11)
    made = evidence._worth
    other = {"gain": {"value": 0.5, "error": 0.1}, "episodes": 11, "reasons": [REASON]}[key]
    with monkeypatch.context() as patched:
        patched.setattr(evidence, "_worth", lambda *a: made(*a) | {key: other})
        learn(campaign)
    named(campaign, tmp_path / "out", "its evidence has worth")


def test_a_decision_within_rounding_of_its_threshold_is_no_forgery(store, monkeypatch):
    """Another machine may round a change of exactly the threshold to the other side."""
    first = happen(create(store, schedule=NEVER, name="first"), 11, learn)
    worth = next(iter(first.state.candidates.values())).evidence["worth"]
    exact = rs.rules.Worthwhile(rs.UniformGrid(batches=6), change=worth["reasons"][0]["value"],
                                price=1e9)  # fmt: skip
    campaign = happen(create(store, schedule=exact), 11)
    made = evidence._worth

    def rounded(*args):
        found = made(*args)
        found["reasons"][0] |= {"reached": False, "margin": -1e-16}
        return found | {"accepted": False}

    with monkeypatch.context() as patched:
        patched.setattr(evidence, "_worth", rounded)
        learn(campaign)
    assert told(campaign) == all_declined(10)
    assert of_store(campaign) == []


# --- never above the budget -----------------------------------------------------------------------


EVENTS = st.one_of(
    st.integers(1, 9),
    st.sampled_from([approve, reject, rollback, correct, withdraw("p1"), amend(schedule=LOOKING),
                     amend(schedule=GRID), amend(budget={"deployments": 3})]),
)  # fmt: skip


@settings(max_examples=12, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(
    accepted=st.sets(st.sampled_from(range(5, 60, 5))),
    budget=st.integers(0, 3),
    approval=st.sampled_from([Approval(), SECOND]),
    events=st.lists(EVENTS, min_size=3, max_size=10),
)
def test_no_budget_is_exceeded_whatever_is_declined(tmp_path_factory, accepted, budget, approval,
                                                    events):  # fmt: skip
    folder = tmp_path_factory.mktemp("budget")
    with open_store(folder / "store.db", create=True) as store:
        rule = Picky(tuple(sorted(accepted)))
        campaign = create(store, schedule=rule, budget=budget, approval=approval)
        for event in [*events, 8, approve]:
            try:
                happen(campaign, event)
            except rs.campaigns.CampaignError:
                continue  # such as a rollback to the version in force
            state = campaign.state
            assert state.spent <= state.terms.budget
            made = [entry for entry in ledger(campaign) if entry.kind == "deployed"]
            assert len(made) - 1 == state.spent
        assert of_store(campaign) == []


def test_words_of_evidence_that_is_missing():
    known = {"version": 2, "proposer": "schedule", "planned": True}
    for worth in (None, 3, {}, {"gain": 3}, {"gain": {"value": "x"}}, {"reasons": [3]}):
        lines = candidate_lines(7, evidence={"worth": worth}, **known)
        assert not any("fitted model" in line for line in lines)
    lines = candidate_lines(7, evidence={"worth": {"gain": {"value": 0.5, "error": None}}}, **known)
    assert "gain by the fitted model: 0.5 per episode" in lines


@pytest.mark.parametrize(
    ("kind", "other", "said"),
    [
        ("declined", "candidate", "by its evidence the candidate is not worth proposing"),
        ("candidate", "declined", "by its evidence the candidate is worth proposing"),
    ],
)
def test_an_entry_of_the_other_kind_is_named(store, tmp_path, kind, other, said):
    """Somebody who links all rows anew cannot turn a decision round."""
    campaign = happen(create(store, schedule=Picky((10,))), 12, learn)
    export(campaign, tmp_path / "out", by="zoe", reason="a proof")
    forged = Forgery(tmp_path / "out", tmp_path / "forged")
    forged.entries(kind)[0]["kind"] = other
    forged.cover_up()
    found = of_folder(tmp_path / "forged")
    assert any(said in problem for problems in found.values() for problem in problems), found
