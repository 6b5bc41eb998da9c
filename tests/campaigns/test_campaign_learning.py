"""The learner of a campaign: a function of log and ledger, byte for byte that of the core."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import sqlalchemy as sa

import rareswitch as rs
from campaign_builders import (
    check_chains,
    create,
    fill,
    mostly_in_files,
    played,
    propose,
    protocol,
    report,
)
from rareswitch import campaigns
from rareswitch.campaigns import (
    AnalysisTerms,
    Approval,
    Campaign,
    DataQuality,
    Intake,
    Learning,
    NotAllowedError,
    RefusedError,
    Report,
    Subgroups,
    learn,
    open_store,
    status,
    verify,
)
from rareswitch.campaigns import report as bodies
from rareswitch.campaigns.learning.fold import Fold
from rareswitch.campaigns.proof.export.words import FITTED, candidate_lines
from rareswitch.campaigns.store.rows import StoredRecord
from rareswitch.campaigns.store.tables import progress, snapshots
from rareswitch.campaigns.treatments import Treated, treatment_rows
from rareswitch.core.task import Task

SECOND = Approval(by="second-person", retry_after=4)
SCHEDULES = {
    "grid": rs.UniformGrid(batches=4),
    "growth": rs.DeterminantGrowth(eta=2.0),
    "spread": rs.SpreadBudget(switches=5),
}


def folded(campaign):
    """Return the learner that somebody folds who has only the log and the ledger."""
    fold = Fold(campaign.artifact)
    with campaign.store.reading() as connection:
        record = StoredRecord(connection, campaign.name)
        fold.follow(record, campaign.entries_at(connection))
        fold.absorb(record, upto=10**9)
    return fold


def lose_caches(store):
    with store.writing("trial") as connection:
        connection.execute(snapshots.delete())
        connection.execute(progress.delete())


@mostly_in_files("schedule", SCHEDULES, "spread")
@pytest.mark.parametrize("exploration", [rs.Ensemble(members=3), rs.Bonus(0.5)])
def test_a_campaign_is_the_learner_of_the_core(store, schedule, exploration):
    campaign = create(
        store, schedule=SCHEDULES[schedule], recipe=rs.Recipe(exploration=exploration)
    )
    learner, switches = campaign.protocol.learner(), 0
    with Learning(campaign) as learning:
        for k in range(60):
            one = played(campaign.policy(), f"p{k}", k)
            campaign.record(one)
            switched = learner.observe(one.episode) if switches < 5 else learner.absorb(one.episode)
            candidate = learning.step()
            assert bool(switched) == (candidate is not None), k
            if candidate:
                switches += 1
                assert candidate.seq == k + 1
                assert candidate.digest == learner.policy.digest
                assert campaign.policy().to_bytes() == learner.policy.to_bytes()
    assert switches >= 3
    assert folded(campaign).learner.snapshot() == learner.snapshot()
    assert campaign.state.stopped.reason == "episodes: all 60 are recorded"
    check_chains(campaign)


@mostly_in_files("delay", [0, 1, 7], 7)
def test_approvals_that_take_long_change_nothing_that_is_fitted(store, delay):
    """The policies are those of a learner that saw the log and deployed each where it was due."""
    campaign = create(store, approval=SECOND, schedule=SCHEDULES["spread"])
    waits = {}
    with Learning(campaign) as learning:
        for k in range(59):
            campaign.record(played(campaign.policy(), f"p{k}", k))
            candidate = learning.step()
            if candidate:
                waits[candidate.number] = k + delay
            due = [number for number, when in waits.items() if when <= k]
            for number in due:
                campaign.approve(number, by="ben", reason="yes")
                del waits[number]
    learner, told = campaign.protocol.learner(), []
    for k in range(59):
        version = campaign.state.version(learner_version(campaign, k))
        one = played(campaign.artifact(version.digest), f"p{k}", k)
        if learner.observe(one.episode):
            told.append((k + 1, learner.policy.digest))
    found = [(v.seq, v.digest) for v in campaign.state.versions[1:]]
    assert len(found) >= 3
    assert found == told[: len(found)]


def learner_version(campaign, k):
    """Return the version that acted in the k-th episode."""
    acted = [v.version for v in campaign.state.versions if v.since <= k]
    return max(acted)


def test_evidence_has_the_trigger_its_margin_and_how_the_policies_differ(store):
    campaign = create(store, schedule=SCHEDULES["growth"])
    with Learning(campaign) as learning:
        for k in range(30):
            campaign.record(played(campaign.policy(), f"p{k}", k))
            if candidate := learning.step():
                break
    evidence = candidate.evidence
    (trigger,) = [one for one in evidence["triggers"] if one["reached"]]
    assert trigger["value"] > trigger["threshold"] == pytest.approx(np.log(2.0))
    assert trigger["margin"] == trigger["value"] - trigger["threshold"]
    assert 0.0 <= evidence["disagreement"] <= 1.0
    assert evidence["episodes"] == candidate.seq
    assert evidence["gain"]["low"] <= evidence["gain"]["value"] <= evidence["gain"]["high"]
    assert f"{trigger['value']:g} has reached {trigger['threshold']:g}" in candidate.entry.reason


def test_a_rejection_leaves_no_trace_in_what_is_fitted(store):
    campaign = create(store, approval=SECOND)  # due before episodes 11, 21, …
    with Learning(campaign) as learning:
        fill(campaign, range(12))
        first = learning.step()
        assert first.seq == 10
        campaign.reject(first.number, by="ben", reason="no")
        assert learning.step() is None
        fill(campaign, range(12, 15))
        assert learning.step() is None  # three of the four episodes to wait for
        fill(campaign, [15])
        again = learning.step()
    assert again.seq == 16
    learner = campaign.protocol.learner()
    for k in range(16):
        learner.absorb(report(k).episode)
    assert again.digest == learner.fit().digest
    campaign.approve(again.number, by="ben", reason="yes")
    learner.deploy(learner.fit())
    assert folded(campaign).learner.snapshot() == learner.snapshot()


def test_while_a_candidate_waits_none_is_proposed(store):
    campaign = create(store, approval=SECOND)
    with Learning(campaign) as learning:
        fill(campaign, range(10))
        candidate = learning.step()
        fill(campaign, range(10, 45))
        assert learning.step() is None
        campaign.approve(candidate.number, by="ben", reason="at last")
        following = learning.step()
    assert (candidate.seq, following.seq) == (10, 20)


@pytest.mark.parametrize("rule", ["learn", "record"])
def test_whether_late_episodes_are_learnt_from(store, rule):
    campaign = create(store, intake=Intake(late=rule))
    with Learning(campaign) as learning:
        fill(campaign, range(10))
        assert learning.step().version == 2
        for k in range(10, 16):
            campaign.record(report(k, version=1 + k % 2))
        learning.step()
    learner = campaign.protocol.learner()
    for k in range(16):
        if k < 10 or k % 2 or rule == "learn":
            learner.observe(report(k).episode)
    assert folded(campaign).learner.snapshot() == learner.snapshot()


def test_later_fits_use_corrections_and_leave_out_what_was_withdrawn(store):
    campaign = create(store)
    with Learning(campaign) as learning:
        fill(campaign, range(8))
        learning.step()
        campaign.correct(report(3, rewards=[0.25, 0.75]), by="ana", reason="typing error")
        campaign.withdraw("p5", by="ana", reason="consent")
        learning.step()
        campaign.correct(report(3, rewards=[0.5, 0.75]), by="ana", reason="another")
        fill(campaign, range(8, 11))
        candidate = learning.step()
    told = [report(3, rewards=rewards).episode for rewards in (None, [0.25, 0.75], [0.5, 0.75])]
    learner = campaign.protocol.learner()
    for k in range(8):
        learner.absorb(report(k).episode)
    learner.correct(told[0], told[1])
    learner.correct(report(5).episode, None)
    learner.correct(told[1], told[2])
    for k in (8, 9):
        learner.absorb(report(k).episode)
    assert candidate.seq == 13  # three rows of thirteen are corrections: ten episodes came
    assert candidate.digest == learner.fit().digest
    learner.deploy(learner.fit())
    learner.absorb(report(10).episode)
    assert folded(campaign).learner.snapshot() == learner.snapshot()


def test_evidence_uses_corrections_and_leaves_out_what_was_withdrawn(tmp_path):
    """Two campaigns: one is told at once what the other is told later."""
    found = {}
    for told in ("late", "at once"):
        with open_store(tmp_path / f"{told}.db", create=True) as store:
            campaign = create(store)
            for k in range(10):
                one = played(campaign.policy(), f"p{k}", k)
                right = rs.Episode(
                    features=one.episode.features, rewards=[0.25, 0.75], next_features=[np.eye(3)]
                )
                fixed = replace(one, episode=right)
                campaign.record(fixed if k == 3 and told == "at once" else one)
                if k == 3 and told == "late":
                    campaign.correct(fixed, by="ana", reason="typing error")
                if k == 5:
                    campaign.withdraw("p5", by="ana", reason="consent")
            campaign.record(played(campaign.policy(), "p10", 10))
            with Learning(campaign) as learning:
                found[told] = learning.step().evidence
    assert found["late"] == found["at once"]
    assert (found["late"]["gain"]["episodes"], found["late"]["episodes"]) == (9, 10)


SUBGROUPS = ("severe", "mild", "unseen")


def by_subgroup(rng, number, subgroup, **told):
    """Return a report with random offers; in severe cases action c is best."""
    first, place = rng.random((3, 3)) / 2, int(rng.integers(3))
    if subgroup == "severe":
        first = 0.2 * first + 0.5 * np.eye(3)
    reward = 0.5 if subgroup != "severe" else float(place == 2)
    episode = rs.Episode(features=first[[place]], rewards=[reward], next_features=[])
    told = {"id": f"p{number}", "first_features": first, "actions": [place]} | told
    events = (None, {}, {"serious": 2}, {"serious": 0, "nausea": 1})[number % 4]
    return Report(episode=episode, subgroup=subgroup, events=events, **told)


def differences(candidate, in_force, reports, names):
    """Return how two policies treat the participants of each subgroup, counted one by one."""
    found = []
    for subgroup in SUBGROUPS:
        shares, changes = [], Counter()
        for one in reports:
            if one.subgroup == subgroup:
                now, then = (p.propensities(0, one.first_features) for p in (candidate, in_force))
                shares.append(sum(abs(a - b) for a, b in zip(now, then, strict=True)) / 2)
                if now.argmax() != then.argmax():
                    changes[names[then.argmax()], names[now.argmax()]] += 1
        if shares:
            change = max(sorted(changes), key=changes.__getitem__, default=(None, None))
            part = changes[change] / sum(changes.values()) if changes else None
            found.append((subgroup, len(shares), np.mean(shares), *change, part))
    return sorted(found, key=lambda one: -one[2])


def treatments(candidate, in_force, reports, names):
    """Return the row of each treatment in each subgroup, counted one by one."""
    found = []
    for subgroup in (*SUBGROUPS, None):
        mine = [one for one in reports if one.subgroup == subgroup]
        for place, name in enumerate(names if mine else ()):
            given = [one for one in mine if one.actions[0] == place]
            told = [one.events for one in given if one.events is not None]
            now, then = (
                float(np.mean([p.propensities(0, one.first_features)[place] for one in mine]))
                for p in (in_force, candidate)
            )
            found.append({
                "subgroup": subgroup, "action": name, "episodes": len(given), "told": len(told),
                "mean_return": float(np.mean([one.total for one in given])) if given else None,
                "events": {kind: sum(events.get(kind, 0) > 0 for events in told)
                           for kind in ("serious", "nausea")},
                "now": now, "then": then,
            })  # fmt: skip
    return found


def test_evidence_tells_how_each_subgroup_would_be_treated(tmp_path):
    """Corrections count, withdrawals do not, and no report without a subgroup does."""
    rng, names, seen, moved = np.random.default_rng(4), ("a", "b", "c"), 0, 0
    declared = AnalysisTerms(subgroups=Subgroups(names=SUBGROUPS), events=("serious", "nausea"))
    with open_store(tmp_path / "s.db", create=True) as store:
        task = Task(dim=3, horizon=1, episodes=60)
        campaign = create(store, task=task, actions=names, analysis=declared)
        told = {}
        with Learning(campaign) as learning:
            for k in range(60):
                subgroup = (None, "mild", "severe")[int(rng.integers(3))]
                told[f"p{k}"] = by_subgroup(rng, k, subgroup)
                campaign.record(told[f"p{k}"])
                if k == 20:
                    campaign.withdraw("p3", by="ana", reason="consent")
                    del told["p3"]
                    told["p4"] = by_subgroup(rng, 4, "severe")
                    campaign.correct(told["p4"], by="ana", reason="typing error")
                before = campaign.policy()
                if (candidate := learning.step()) is None:
                    continue
                policy = campaign.artifact(candidate.digest)
                due = differences(policy, before, told.values(), names)
                keys = ("subgroup", "episodes", "share", "from", "to", "share_of_change")
                for one, right in zip(candidate.evidence["subgroups"], due, strict=True):
                    assert one == dict(zip(keys, right, strict=True)) | {"share": one["share"]}
                    assert one["share"] == pytest.approx(right[2])
                seen, moved = seen + len(due), moved + sum(one[3] is not None for one in due)
                rows = treatments(policy, before, told.values(), names)
                for one, right in zip(candidate.evidence["treatments"], rows, strict=True):
                    numbers = {k: pytest.approx(right[k]) for k in ("mean_return", "now", "then")}
                    assert one == right | numbers
        assert seen >= 8
        assert moved >= 2
        last = campaigns.candidates(campaign)[-1]
        assert last["evidence"]["warnings"].count(FITTED) == 1
        lines = candidate_lines(**last)
        assert [line for line in lines if line.startswith("severe (")]
        row = next(one for one in rows if one["subgroup"] == "severe" and one["action"] == "c")
        (line,) = [line for line in lines if line.startswith("severe, c: ")]
        assert f"{row['now']:.0%} → {row['then']:.0%}; {row['episodes']} episodes, mean" in line
        assert f"serious in {row['events']['serious']}" in line
        assert not [line for line in lines if line.startswith("most frequent action")]
        assert verify(campaign).verdict == "proven"


def test_without_one_table_of_actions_evidence_has_no_treatments(tmp_path):
    """The protocol names none, or some of its actions were not offered: a position is no name."""
    for names in ((), ("a", "b", "c", "d")):
        with open_store(tmp_path / f"{len(names)}.db", create=True) as store:
            campaign = create(store, actions=names)
            fill(campaign, range(11))
            with Learning(campaign) as learning:
                assert "treatments" not in learning.step().evidence


def test_many_actions_have_no_table():
    treated = [Treated(None, 0, 0.5, {"serious": 1})]
    for number in (1, 12, 13):
        names = [f"action {k}" for k in range(number)]
        rows = treatment_rows(treated, subgroups=(), actions=names, kinds=("serious",))
        assert len(rows) == (12 if number == 12 else 0)


def test_evidence_without_subgroups_has_none(tmp_path):
    declared = AnalysisTerms(subgroups=Subgroups(names=SUBGROUPS))
    found = {}
    for name, analysis in (("none", None), ("declared", declared)):
        with open_store(tmp_path / f"{name}.db", create=True) as store:
            campaign = create(store, analysis=analysis)
            fill(campaign, range(11))
            with Learning(campaign) as learning:
                found[name] = learning.step().evidence
    assert found["none"] == found["declared"]
    assert "subgroups" not in found["none"]


def busy_story(campaign, step):
    """Have all kinds of things happen; `step` is called between them, by whoever learns."""
    for k in range(60):
        if k == 14:
            campaign.correct(report(2, rewards=[0.25, 0.75]), by="ana", reason="typing error")
        if k == 26:
            campaign.amend(
                {"schedule": {"kind": "determinant-growth", "eta": 1.5}},
                by="ana",
                reason="sooner",
            )
        if k == 33:
            campaign.rollback(1, by="cyd", reason="harm")
        if k == 41:
            campaign.withdraw("p30", by="ana", reason="consent")
            campaign.correct(report(1, rewards=[0.0, 0.0]), by="ana", reason="typing error")
        if k == 47:
            campaign.amend({"budget": {"deployments": 9}}, by="ana", reason="more")
        if not campaign.state.stopped:
            campaign.record(report(k))
        step(k)


def test_whoever_folds_log_and_ledger_later_has_the_same_learner(store):
    """After corrections, amendments and rollbacks: live, from a snapshot, and from nothing."""
    campaign = create(store, schedule=SCHEDULES["spread"])
    with Learning(campaign) as learning:
        busy_story(campaign, lambda k: learning.step())
        live = learning._fold
        assert live.learner.snapshot() == folded(campaign).learner.snapshot()
    with Learning(campaign) as resumed:
        assert resumed.step() is None
        assert resumed._fold.learner.snapshot() == live.learner.snapshot()
    assert campaign.version > 4
    assert any(version.rollback_to for version in campaign.state.versions)
    assert verify(campaign).problems == []


@pytest.mark.parametrize("seed", range(4))
def test_a_learner_that_is_replaced_often_decides_as_one_that_never_is(tmp_path, seed):
    """New learners, with or without the snapshot, at random moments: the same ledger."""
    rng = np.random.default_rng(seed)
    ledgers = []
    for name, url in (("one", tmp_path / "one.db"), ("many", tmp_path / "many.db")):
        with open_store(url, create=True) as store:
            campaign = create(store, schedule=SCHEDULES["spread"])
            learning = Learning(campaign)

            def step(k, learning=learning, campaign=campaign, store=store, name=name):
                if name == "many" and rng.random() < 0.5:
                    learning._fold = None
                    if rng.random() < 0.5:
                        lose_caches(store)
                while learning.step():
                    pass

            with learning:
                busy_story(campaign, step)
            ledgers.append(
                [(e.kind, e.actor, e.reason, e.payload | {"reached": 0}) for e in campaign.entries]
            )
    assert ledgers[0] == ledgers[1]


@mostly_in_files("late", [1, 3, 10], 3)
def test_an_amendment_holds_for_the_rows_after_it_however_late_the_learner(store, late):
    """What was recorded before an amendment is judged by what was agreed then."""
    campaign = create(store, schedule=rs.UniformGrid(batches=2))  # due at 30
    with Learning(campaign) as learning:
        for k in range(20):
            campaign.record(report(k))
            if k == 11:
                campaign.amend(
                    {"schedule": {"kind": "uniform-grid", "batches": 12}},
                    by="ana",
                    reason="sooner",
                )
            if (k + 1) % late == 0:
                learning.step()
        learning.step()
    assert campaign.state.versions[1].seq == 13  # the first row after the amendment


def test_a_snapshot_from_before_an_amendment_goes_on_through_it(store):
    campaign = create(store, approval=SECOND)  # due at 10 and, without an amendment, at 20
    fill(campaign, range(14))
    number = campaign.amend(
        {"schedule": {"kind": "uniform-grid", "batches": 2}}, by="ana", reason="later"
    ).number
    campaign.approve(number, by="ben", reason="later")
    with Learning(campaign) as learning:
        candidate = learning.step()
    assert candidate.seq == 10
    with Learning(campaign) as resumed:
        assert resumed.step() is None
        assert resumed._fold.terms == campaign.state.revisions[0]
        campaign.approve(candidate.number, by="ben", reason="yes")
        fill(campaign, range(14, 35))
        following = resumed.step()
    assert following.seq == 30


def test_a_larger_budget_holds_for_the_rows_after_its_amendment(store):
    seqs = []
    for name, always in (("fast", True), ("slow", False)):
        campaign = create(store, name=name, schedule=rs.EveryEpisode(), budget=1)
        with Learning(campaign) as learning:
            for k in range(9):
                if k == 6:
                    campaign.amend({"budget": {"deployments": 2}}, by="ana", reason="more")
                campaign.record(report(k))
                if always or k == 8:
                    while learning.step():
                        pass
        seqs.append([version.seq for version in campaign.state.versions])
    assert seqs == [[0, 1, 7]] * 2


@pytest.mark.parametrize("ran", [False, True])
def test_a_budget_that_was_taken_away_and_given_back(store, ran):
    """Rows from before are not asked about again, whether or not a learner ran meanwhile."""
    campaign = create(store, schedule=rs.EveryEpisode(), budget=2)
    fill(campaign, range(2))
    campaign.amend({"budget": {"deployments": 0}}, by="ana", reason="frozen")
    fill(campaign, range(2, 4))
    with Learning(campaign) as learning:
        if ran:
            assert learning.step() is None
        campaign.amend({"budget": {"deployments": 2}}, by="ana", reason="thawed")
        assert learning.step() is None
        fill(campaign, range(4, 6))
        assert learning.step().seq == 5
    assert campaign.version == 2


def test_schedules_count_rollbacks_apart_as_the_budget_does(store):
    campaign = create(store, schedule=rs.SpreadBudget(switches=2), budget=2)
    with Learning(campaign) as learning:
        for k in range(60):
            if campaign.version == 2:
                campaign.rollback(1, by="cyd", reason="harm")
            campaign.record(report(k))
            learning.step()
    assert (campaign.state.spent, campaign.version) == (2, 4)


def test_an_early_proposal_is_unplanned_and_waits(store):
    campaign = create(store)
    fill(campaign, range(4))
    with Learning(campaign) as learning:
        candidate = learning.propose_early(by="ana", reason="new data from abroad")
        assert (candidate.planned, candidate.status, candidate.seq) == (False, "waiting", 4)
        with pytest.raises(NotAllowedError, match="waits for a decision"):
            learning.propose_early(by="ana", reason="again")
        campaign.approve(candidate.number, by="ben", reason="fine")
        fill(campaign, range(4, 12))
        following = learning.step()
    assert (following.seq, following.version) == (10, 3)
    learner = campaign.protocol.learner()
    for k in range(10):
        learner.absorb(report(k).episode)
        if k == 3:
            assert candidate.digest == learner.fit().digest
            learner.deploy(learner.fit())
    assert following.digest == learner.fit().digest


def test_an_early_proposal_that_fails_passes_over_no_row_that_is_due(store):
    campaign = create(store, approval=SECOND)
    with Learning(campaign) as learning:
        learning.step()
        fill(campaign, range(12))  # due at 10
        with pytest.raises(ValueError, match="reason must not be empty"):
            learning.propose_early(by="ana", reason=" ")
        first = learning.step()
        assert first.seq == 10
        campaign.reject(first.number, by="ben", reason="no")
        fill(campaign, range(12, 20))  # asked again, and due, at 16
        with pytest.raises(ValueError, match="reason must not be empty"):
            learning.propose_early(by="ana", reason=" ")
    with Learning(campaign) as learning:
        assert learning.step().seq == 16


def test_a_learner_that_waits_writes_nothing(store, monkeypatch):
    campaign = create(store)
    written, writing = [], store.writing
    with Learning(campaign) as learning:
        fill(campaign, range(3))
        learning.step()
        monkeypatch.setattr(store, "writing", lambda name: written.append(name) or writing(name))
        learning.step()
        assert written == []
        fill(campaign, [3])
        written.clear()
        learning.step()
        assert written == ["trial"]


def test_there_is_one_learner(store, store_url):
    campaign = create(store)
    with Learning(campaign):
        with (
            open_store(store_url) as other,
            pytest.raises(NotAllowedError, match="another process is the learner of trial"),
            Learning(Campaign(other, "trial")),
        ):
            pass
        other = create(store, name="other")
        with Learning(other):
            pass
    with Learning(campaign) as learning:
        assert learning.step() is None


def test_a_step_outside_the_context_holds_no_lock(store, store_url):
    campaign = create(store)
    learning = Learning(campaign)
    assert learning.step() is None
    with open_store(store_url) as other, Learning(Campaign(other, "trial"), wait=0.0) as second:
        assert second.step() is None
        assert learning.step() is None


def test_a_decision_that_came_between_wins(store):
    """The learner fits while somebody rolls back: it sees that at its next step."""
    campaign = create(store)
    fill(campaign, range(10))
    with Learning(campaign) as learning:
        propose_really = campaign.propose

        def too_late(*values, **named):
            campaign.propose = propose_really
            propose(campaign, seq=5, seed=7)
            return propose_really(*values, **named)

        campaign.propose = too_late
        assert learning.step() is None
        assert campaign.version == 2
        fill(campaign, range(10, 20))
        following = learning.step()
    assert (following.version, following.seq) == (3, 10)


def test_stages_that_share_and_one_hot_features(store):
    campaign = create(
        store,
        task=Task(dim=4, horizon=2, episodes=30, stages="shared", one_hot=True, end_reward=0.25),
        schedule=rs.UniformGrid(batches=3),
    )
    learner = campaign.protocol.learner()
    rng = np.random.default_rng(5)
    with Learning(campaign) as learning:
        for k in range(30):
            steps = int(rng.integers(1, 3))
            episode = rs.Episode(
                features=rng.integers(4, size=steps),
                rewards=rng.random(steps),
                next_features=[[0, 1, 2, 3]] * (steps - 1),
            )
            campaign.record(f"p{k}", episode)
            assert learner.observe(episode) == (learning.step() is not None)
    assert campaign.version == 3
    assert folded(campaign).learner.snapshot() == learner.snapshot()


def test_a_protocol_makes_the_learner_it_says():
    made = protocol(schedule=SCHEDULES["spread"]).learner()
    task = Task(dim=3, horizon=2, episodes=60)
    assert made.snapshot() == rs.Learner(task, SCHEDULES["spread"]).snapshot()


# Corrections


GRIDS = {
    "uniform": rs.UniformGrid(batches=4),
    "geometric": rs.rules.GeometricGrid(batches=4),
    "episodes": rs.rules.EpisodeGrid(dates=(1, 11, 50, 80)),
    "growth": rs.DeterminantGrowth(eta=2.0),
    "spread": rs.SpreadBudget(switches=5),
}


@mostly_in_files("grid", GRIDS, "growth")
def test_no_date_comes_again_after_a_withdrawal(store, grid):
    campaign = create(store, episodes=90, schedule=GRIDS[grid], budget=20)
    fill(campaign, range(30))
    before = len(learn(campaign))
    assert before > 0
    for name in ("p0", "p3", "p9", "p12"):
        campaign.withdraw(name, by="ana", reason="consent")
        assert learn(campaign) == []
    campaign.correct(report(5, rewards=[0.25, 0.5]), by="ana", reason="typing error")
    assert learn(campaign) == []
    lose_caches(store)
    assert learn(campaign) == []
    assert campaign.state.spent == before
    fill(campaign, range(30, 60))
    learn(campaign)
    assert verify(campaign).problems == []


@pytest.mark.parametrize("often", [True, False])
def test_the_schedule_is_not_asked_at_a_correction(tmp_path, often):
    """A correction may move a determinant: whether a learner runs then must not matter."""
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, schedule=rs.DeterminantGrowth(eta=3.0))
        for k in range(12):
            campaign.record(report(k, actions=[0, 0]))
        learn(campaign)
        spent = campaign.state.spent
        with Learning(campaign) as learning:
            for k in range(8):
                campaign.correct(report(k, actions=[1, 2]), by="ana", reason="misread")
                if often:
                    assert [learning.step(), learning.step()] == [None, None]
        campaign.record(report(12, actions=[0, 0]))
        (candidate,) = learn(campaign)
        assert (candidate.seq, campaign.state.spent) == (21, spent + 1)
        assert verify(campaign).problems == []


def counting(monkeypatch):
    """Count the bodies that are decoded, by learning and by verifying."""
    calls, read = [], bodies._read_alike

    def count(some, start):
        calls.extend(some)
        return read(some, start)

    monkeypatch.setattr(bodies, "_read_alike", count)
    return calls


def test_corrections_cost_what_was_corrected(tmp_path, monkeypatch):
    rows, corrections = 500, 20
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, episodes=600, batches=3)
        list(campaign.record_all(report(k) for k in range(rows)))
        for k in range(corrections):
            told = report(20 * k, rewards=[0.25, 0.5])
            campaign.correct(told, by="ana", reason="typing error")
        calls = counting(monkeypatch)
        assert len(learn(campaign)) == 2
        # A block is read again when a policy is due, and the evidence of two candidates reads rows.
        assert rows <= len(calls) <= 3.6 * rows + 4 * corrections
        calls.clear()
        assert verify(campaign).problems == []
        assert rows <= len(calls) <= 4.6 * rows + 6 * corrections
        calls.clear()
        for k in range(5):
            campaign.withdraw(f"p{k}", by="ana", reason="consent")
            learn(campaign)
        assert len(calls) <= 4 * rows  # each learner goes on from the last snapshot


# Caches


def damage(store, table, **values):
    with store.writing("trial") as connection:
        connection.execute(table.update().where(table.c.campaign == "trial").values(**values))


def snapshot_of(store, name="trial"):
    with store.reading() as connection:
        asked = sa.select(snapshots).where(snapshots.c.campaign == name)
        return dict(connection.execute(asked).one()._mapping)


DAMAGES = {
    "bytes": lambda kept, other: {"data": kept["data"][:-40] + bytes(40)},
    "one bit": lambda kept, other: {"data": bytes([kept["data"][0] ^ 1]) + kept["data"][1:]},
    "nothing": lambda kept, other: {"data": b""},
    "another campaign's": lambda kept, other: {k: v for k, v in other.items() if k != "campaign"},
    "another campaign's bytes": lambda kept, other: {"data": other["data"]},
    "another row": lambda kept, other: {"seq": kept["seq"] + 1},
    "a row that is not there": lambda kept, other: {"seq": 10**6, "entries": 10**6},
    "no entries": lambda kept, other: {"entries": 0},
}


def test_a_large_snapshot_is_written_in_parts_between_which_others_write(store, monkeypatch):
    """Killed between two parts, the next learner folds the log again and keeps a whole snapshot."""
    monkeypatch.setattr("rareswitch.campaigns.learning.learning.PART", 1000)
    campaign = create(store)
    fill(campaign, range(15))
    learn(campaign)

    def parts():
        with store.reading() as connection:
            of = sa.select(snapshots.c.part, snapshots.c.data).order_by(snapshots.c.part)
            return [(part, len(data)) for part, data in connection.execute(of)]

    count = len(parts())
    assert count > 2
    assert parts()[:-1] == [(part, 1000) for part in range(count - 1)]
    with Learning(campaign) as resumed:
        assert resumed.step() is None
        assert resumed._kept == 10  # from the snapshot
    fill(campaign, range(15, 25))
    pauses = []

    def pause(_):
        pauses.append(campaign.record(report(25 + len(pauses))).seq)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("rareswitch.campaigns.learning.learning.time.sleep", pause)
    with pytest.raises(KeyboardInterrupt):
        learn(campaign)
    assert pauses == [26, 27]
    monkeypatch.undo()
    with Learning(campaign) as resumed:
        assert resumed.step().seq == 20
        assert resumed._kept == 20
    assert [part for part, _ in parts()] == [0]
    assert verify(campaign).problems == []


@mostly_in_files("what", DAMAGES, "one bit", "another row")
def test_a_damaged_snapshot_puts_no_policy_in_force(store, what):
    campaign = create(store)
    fill(campaign, range(15))
    other = create(store, name="other")
    for k in range(15):
        other.record(report(100 + k))
    assert (len(learn(campaign)), len(learn(other))) == (1, 1)
    change = DAMAGES[what](snapshot_of(store), snapshot_of(store, "other"))
    damage(store, snapshots, **change)
    fill(campaign, range(15, 25))
    assert verify(campaign).problems == []
    (candidate,) = learn(campaign)
    learner = campaign.protocol.learner()
    for k in range(20):
        learner.observe(report(k).episode)
    assert (candidate.seq, candidate.digest) == (20, learner.policy.digest)
    assert campaign.policy().to_bytes() == learner.policy.to_bytes()
    kept = snapshot_of(store)
    assert (kept["seq"], kept["entries"]) == (20, 4)
    with Learning(campaign) as resumed:
        assert resumed.step() is None
        assert resumed._kept == 20  # from the snapshot
    assert verify(campaign).problems == []


@mostly_in_files(
    "state",
    [
        "",
        "{",
        "[]",
        "null",
        '{"triggers": 5}',
        '{"triggers": [{}]}',
        '{"entries": "x"}',
        '{"entries": 1e400}',
        "[" * 9999,
    ],
    "{",
)
def test_damaged_progress_is_made_again(store, state):
    campaign = create(store)
    fill(campaign, range(5))
    learn(campaign)
    before = status(campaign)
    damage(store, progress, state=state)
    assert status(campaign).triggers == ()
    assert verify(campaign).problems == []
    learn(campaign)
    assert status(campaign) == before


@pytest.mark.parametrize("ran", [False, True])
def test_a_learner_that_ran_during_a_stop_passes_over_no_row_that_is_due(tmp_path, ran):
    """A reopened campaign is asked about the rows since its last candidate, whoever ran when."""
    with open_store(tmp_path / "s.db", create=True) as store:
        campaign = create(store, schedule=rs.EveryEpisode(), stopping=(DataQuality(most=0.1),))
        fill(campaign, range(3))
        for number in count():
            if campaign.state.stopped:
                break
            with suppress(RefusedError):
                campaign.record({"id": f"x{number}", "features": [[1, 0, 0]], "rewards": [2]})
        with Learning(campaign) as learning:
            if ran:
                assert learning.step() is None
            reopening = campaign.reopen(by="ana", reason="a wrong file").number
            campaign.approve(reopening, by="ben", reason="seen")
            if ran:
                campaign.withdraw("p0", by="ana", reason="consent")  # no row at which it is asked
            assert learning.step().seq == 1
        with Learning(campaign) as other:
            assert other.step().seq == 2
        assert verify(Campaign(store, campaign.name)).problems == []
