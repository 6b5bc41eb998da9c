"""The analysis of a study: counted again by hand, shown, exported and proven."""

import csv
import json
import re
import shutil
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import rareswitch as rs
from rareswitch.campaigns import (
    AnalysisTerms,
    Approval,
    Campaign,
    Circumstances,
    ControlFutility,
    ControlHarm,
    ControlSuperiority,
    DataQuality,
    FiniteWorld,
    Futility,
    Harm,
    Intake,
    Learning,
    NotAllowedError,
    Protocol,
    Report,
    Subgroups,
    analyse,
    export,
    interim,
    open_store,
    status,
    verify,
)
from rareswitch.campaigns.action_comparison import Choices, compare_actions
from rareswitch.campaigns.proof.export.trial_sections import comparison_sections
from rareswitch.cli import main
from rareswitch.cli.campaign_look import analysis_lines
from rareswitch.core.control import Control
from rareswitch.core.task import Task

ROWS = np.hstack([np.eye(3), np.eye(3)]) / np.sqrt(2.0)
ACTIONS = ("usual care", "low", "high")


def protocol(*, episodes=120, share=0.3, floor=0.2, missing="reported", horizon=1, **changes):
    settings = {
        "name": "study",
        "task": Task(dim=6, horizon=horizon, episodes=episodes),
        "actions": ACTIONS,
        "schedule": rs.UniformGrid(batches=3),
        "budget": 2,
        "recipe": rs.Recipe(control=Control(0, share=share), floor=floor, seed=3),
        "intake": Intake(assigned=True),
        "analysis": AnalysisTerms(
            missing=missing, events=("nausea",), subgroups=Subgroups(names=("mild", "severe"))
        ),
    }
    return Protocol(**settings | changes)


def play(campaign, numbers, chances=(0.3, 0.5, 0.7), *, missing=(), deviating=(), dropped=None):
    """Let participants arrive, act and report; a few never report, a few get another action."""
    with Learning(campaign) as learning:
        for number in numbers:
            name = f"p{number}"
            given = campaign.assign(name)
            player = campaign.policy(given.version).player(given.member, given.key)
            action = player.act(0, ROWS)
            if number in missing:
                continue
            if number in deviating:
                action = (action + 1) % 3
            rng = np.random.default_rng([number, 5])
            reward = float(rng.random() < chances[action])
            episode = rs.Episode(features=[ROWS[action]], rewards=[reward], next_features=[])
            campaign.record(
                Report(
                    id=name,
                    episode=episode,
                    first_features=ROWS,
                    actions=[action],
                    subgroup="severe" if number % 3 == 0 else "mild",
                    events={"nausea": 2} if number % 10 == 0 else {},
                )
            )
            if campaign.state.stopped:
                return
            while learning.step() is not None:
                pass


@pytest.fixture
def store(request, tmp_path):
    """Open a fresh store, or for a test that asks for the study a copy of the store with it."""
    file = tmp_path / "store.db"
    if "study" in request.fixturenames:
        shutil.copyfile(request.getfixturevalue("whole_study"), file)
    with open_store(file, create=True) as opened:
        yield opened


MISSING, DEVIATING = (7, 33, 60, 61, 90), (12, 45, 70)


@pytest.fixture(scope="module")
def whole_study(tmp_path_factory):
    """Return the file of a study that has ended; `study` copies it."""
    file = tmp_path_factory.mktemp("study") / "store.db"
    with open_store(file, create=True) as opened:
        campaign = Campaign.create(opened, protocol(), by="ana")
        play(campaign, range(120), missing=MISSING, deviating=DEVIATING)
        campaign.withdraw("p5", by="ana", reason="consent withdrawn")
        right = rs.Episode(features=[ROWS[0]], rewards=[1.0], next_features=[])
        campaign.correct(
            Report(id="p9", episode=right, subgroup="severe", events={}), by="ana", reason="typo"
        )
        campaign.stop(by="ana", reason="reports are in")
    return file


@pytest.fixture
def study(store):
    return Campaign(store, "study")


def outcomes_of(campaign):
    """Return version, role, return, subgroup and id of each episode, from the pages of the log."""
    found = {}
    for row in rs.campaigns.episodes(campaign, limit=1000):
        found[row["episode_id"]] = row
    versions = campaign.state.versions
    return [
        (
            row["version"],
            versions[row["version"] - 1].split.role(row["member"]),
            row["total"],
            row["report"].get("subgroup"),
            row,
        )
        for row in found.values()
        if not row["withdrawn"]
    ]


def by_hand(outcomes):
    """Return the difference of learned and control within versions, weighted by their episodes."""
    arms = defaultdict(lambda: {"learned": [], "control": []})
    for version, role, total, *_ in outcomes:
        if role != "floor":
            arms[version][role].append(total)
    used = [one for one in arms.values() if one["learned"] and one["control"]]
    sizes = np.array([len(one["learned"]) + len(one["control"]) for one in used])
    differences = [np.mean(one["learned"]) - np.mean(one["control"]) for one in used]
    return float(np.average(differences, weights=sizes))


def test_the_difference_is_that_of_a_count_by_hand(study):
    found, outcomes = analyse(study), outcomes_of(study)
    assert len(found.versions) == 3
    assert found.combined["difference"] == pytest.approx(by_hand(outcomes), abs=1e-9)
    row = found.combined
    assert row["difference"] == pytest.approx(row["mean_return"] - row["control_mean_return"])
    assert row["low"] < row["difference"] < row["high"]
    assert row["any_time_low"] < row["low"]
    assert row["any_time_high"] > row["high"]
    for one in found.versions:
        mine = [outcome for outcome in outcomes if outcome[0] == one["name"]]
        assert one["difference"] == pytest.approx(by_hand(mine), abs=1e-9)
    for one in found.subgroups:
        mine = [outcome for outcome in outcomes if outcome[3] == one["name"]]
        assert one["difference"] == pytest.approx(by_hand(mine), abs=1e-9)
        assert one["confidence"] == pytest.approx(0.975)  # two subgroups together have 95%
    assert [one["name"] for one in found.subgroups] == ["mild", "severe"]


def test_roles_and_events_are_counted(study):
    found, outcomes = analyse(study), outcomes_of(study)
    for role, counts in found.roles.items():
        mine = [total for _, which, total, *_ in outcomes if which == role]
        assert counts["episodes"] == len(mine)
        assert counts["mean_return"] == pytest.approx(np.mean(mine))
    assert sum(one["not_reported"] for one in found.roles.values()) == len(MISSING)
    assert sum(one["withdrawn"] for one in found.roles.values()) == 1
    assert {one.role for one in found.events} == {"learned", "control", "floor"}
    told = [row["report"]["events"] for *_, row in outcomes]
    assert sum(one.events for one in found.events) == sum(one.get("nausea", 0) for one in told)
    assert sum(one.told for one in found.events) == len(outcomes)
    assert sum(one.episodes for one in found.events) == sum("nausea" in one for one in told)


def test_returns_and_harm_are_counted_by_subgroup_and_treatment_given(study, store):
    """A participant who got another action than assigned counts for the action that was given."""
    found, rows = analyse(study), [row for *_, row in outcomes_of(study)]
    cells = [(subgroup, action) for subgroup in ("mild", "severe") for action in ACTIONS]
    unknown = ("severe", None)  # the correction of p9 does not tell the action
    assert [(one["subgroup"], one["action"]) for one in found.treatments] == [*cells, unknown]
    given = defaultdict(list)
    for row in rows:
        report = row["report"]
        action = ACTIONS[report["actions"][0]] if "actions" in report else None
        given[report["subgroup"], action].append(report)
    for one in found.treatments:
        mine = given[one["subgroup"], one["action"]]
        assert one["episodes"] == one["told"] == len(mine)
        assert one["mean_return"] == pytest.approx(np.mean([sum(r["rewards"]) for r in mine]))
        assert one["events"] == {"nausea": sum("nausea" in r["events"] for r in mine)}
    result = CliRunner().invoke(main, ["campaign", "analyse", "--store", store.url])
    row = found.treatments[-2]
    start = f"severe    {row['action']}"
    (line,) = [line for line in result.output.splitlines() if line.startswith(start)]
    assert line.split()[-2:] == [str(row["told"]), str(row["events"]["nausea"])]
    assert "Subgroups and treatments" in interim(study, closed=True)
    assert "Subgroups and treatments" not in interim(study)


def test_a_position_among_a_part_of_the_actions_names_no_treatment(store):
    campaign = Campaign.create(store, protocol(intake=Intake()), by="ana")
    episode = rs.Episode(features=[ROWS[2]], rewards=[1.0], next_features=[])
    told = {"episode": episode, "actions": [1], "first_features": ROWS[1:]}
    campaign.record(Report(id="p0", **told))
    campaign.record(Report(id="p1", **told | {"actions": [2], "first_features": ROWS}))
    counts = {one["action"]: one["episodes"] for one in analyse(campaign).treatments}
    assert counts == {"usual care": 0, "low": 0, "high": 1, None: 1}


def test_missing_outcomes_count_as_the_protocol_says(store):
    worst = {}
    for way in ("reported", "zero", "worst"):
        plan = protocol(missing=way, episodes=60, name=f"study-{way}")
        campaign = Campaign.create(store, plan, by="ana")
        play(campaign, range(60), missing=range(0, 60, 5))
        running = analyse(campaign)  # nobody knows yet which outcomes are missing
        assert running.combined["missing"] == "reported"
        assert not running.others
        assert running.combined["low"] is None
        campaign.stop(by="ana", reason="reports are in")
        found = analyse(campaign)
        assert found.combined["missing"] == way
        assert {one["missing"] for one in found.others} == {"reported", "zero", "worst"} - {way}
        worst[way] = found.combined
        if way == "reported":
            outcomes = outcomes_of(campaign)
            unreported = rs.campaigns.open(campaign, limit=100)
            assert len(unreported) == 12
            roles = {
                row["episode_id"]: campaign.state.role(row["version"], row["member"])
                for row in unreported
            }
    for way, counts in (("zero", (0.0, 0.0)), ("worst", (0.0, 1.0))):
        imputed = [
            (
                row["version"],
                roles[row["episode_id"]],
                counts[roles[row["episode_id"]] == "control"],
            )
            for row in unreported
        ]
        assert worst[way]["difference"] == pytest.approx(by_hand([*outcomes, *imputed]), abs=1e-9)
    assert worst["worst"]["difference"] < worst["zero"]["difference"]


def test_actions_are_weighted_by_their_probabilities_as_assigned(study):
    found = analyse(study)
    assert found.reference == "usual care"
    assert [one["name"] for one in found.actions] == ["low", "high"]
    versions, values, taken, chances = [], [], [], []
    for version, _, total, _, row in outcomes_of(study):
        if row["report"].get("actions") is None:
            continue  # the correction does not tell
        policy, name = study.policy(version), row["episode_id"]
        given = study.assign(name)
        versions.append(version)
        values.append(total)
        # Whatever was given: the assigned action counts.
        taken.append(policy.player(given.member, given.key).act(0, ROWS))
        chances.append(policy.propensities(0, ROWS))
    assert sum(bool(row["deviations"]) for *_, row in outcomes_of(study)) == len(DEVIATING)
    versions, values, taken, chances = map(np.array, (versions, values, taken, chances))
    for place, one in ((1, found.actions[0]), (2, found.actions[1])):
        weighted, errors, squares, degrees = [], [], np.zeros(2), np.zeros(2)
        for version in (1, 2, 3):
            mine = versions == version
            e = chances[mine, place] / (chances[mine, place] + chances[mine, 0])
            parts = []
            for k, (which, weight) in enumerate(((place, 1 - e), (0, e))):
                got = taken[mine] == which
                x, w = values[mine][got], weight[got]
                mean, total = np.average(x, weights=w), w.sum()
                parts.append((mean, (w**2).sum() / total**2))
                squares[k] += (w**2 * (x - mean) ** 2).sum()
                # Var(x_i − mean) for returns of variance 1, with the weights of the sum.
                part = np.eye(len(w)) - w / total
                degrees[k] += w**2 @ (part**2).sum(axis=1)
            weighted.append((parts[0][0] - parts[1][0], mine.sum()))
            errors.append([parts[0][1], parts[1][1]])
        spread = np.maximum(squares / degrees, squares.sum() / degrees.sum())
        s = np.sqrt(np.array(errors) @ spread)
        differences, sizes = np.array(weighted).T
        weights = np.sqrt(sizes) / s
        assert one["difference"] == pytest.approx((weights * differences).sum() / weights.sum())
        assert one["standard_error"] == pytest.approx(np.sqrt(sizes.sum()) / weights.sum())
        assert one["episodes"] == (taken == place).sum()
        assert one["low"] < one["difference"] < one["high"]


def test_the_difference_of_actions_is_unbiased_where_a_plain_comparison_is_not():
    """A learner gives the action to those who fare well anyway; it does nothing by itself."""
    rng = np.random.default_rng(3)
    plain, weighted, hits = [], [], 0
    for _ in range(300):
        severe = rng.random(600) < 0.5
        chances = np.where(severe[:, None], [0.8, 0.2], [0.2, 0.8])
        taken = (rng.random(600) < chances[:, 1]).astype(int)
        values = (rng.random(600) < np.where(severe, 0.3, 0.7)).astype(float)
        versions = np.repeat([1, 2], 300)
        if rng.random() < 0.5:  # the second version prefers the action that did better
            better = values[:300][taken[:300] == 1].mean() > values[:300][taken[:300] == 0].mean()
            chances[300:] = [0.1, 0.9] if better else [0.9, 0.1]
            taken[300:] = rng.random(300) < chances[300:, 1]
        plain.append(values[taken == 1].mean() - values[taken == 0].mean())
        found, *_ = compare_actions(Choices(versions, values, taken, chances), 1, 0, 0.95)
        weighted.append(found.value)
        hits += found.low <= 0.0 <= found.high
    assert np.mean(plain) > 0.15
    assert abs(np.mean(weighted)) < 4 * np.std(weighted) / np.sqrt(300)
    assert hits / 300 >= 0.94 - 4 * np.sqrt(0.94 * 0.06 / 300)


def test_an_action_that_nobody_may_get_is_not_compared(store):
    plan = protocol(episodes=30, floor=0.0)
    campaign = Campaign.create(store, plan, by="ana")
    play(campaign, range(30))
    found = analyse(campaign)
    policies = [campaign.policy(v.version) for v in campaign.state.versions]
    never = [a for a in (1, 2) if not any(p.propensities(0, ROWS)[a] for p in policies)]
    for one in found.actions:
        if ACTIONS.index(one["name"]) in never:
            assert one["difference"] is one["low"] is None


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda c: None, "the study has not ended"),
        (lambda c: c.stop(by="ana", reason="no money"), "ana ended the study before its planned"),
        (lambda c: play(c, range(20, 40)), None),
    ],
)
def test_the_interval_at_the_end_needs_the_planned_end(store, end, why):
    campaign = Campaign.create(store, protocol(episodes=40), by="ana")
    play(campaign, range(20))
    end(campaign)
    found = analyse(campaign)
    if why is None:
        assert found.not_at_the_end is None
        assert "at the end" in found.claim or "not shown" in found.claim
    else:
        assert found.not_at_the_end.startswith(why)
        assert found.claim.startswith("Nothing is concluded at the end")


def test_an_amended_length_is_no_planned_end(store):
    campaign = Campaign.create(store, protocol(episodes=40), by="ana")
    campaign.amend({"episodes": 30}, by="ana", reason="slow")
    play(campaign, range(30))
    assert campaign.state.stopped
    assert analyse(campaign).not_at_the_end.startswith("an amendment changed the number")


def test_who_signs_an_amendment_reads_the_conclusion_that_it_costs(store, tmp_path):
    rule = ControlSuperiority(margin=0.3, confidence=0.999)
    two = Approval(by="second-person")
    plan = protocol(episodes=40, stopping=(rule, ControlHarm()), approval=two)
    campaign = Campaign.create(store, plan, by="ana")
    lost = "The study can no longer claim superiority"
    harmful = {"stopping": [plan.plain["stopping"][0]]}
    weaker = {"stopping": [{"rule": rule.name, "margin": 0.2}, {"rule": "control-harm"}]}
    for changes, said in (
        ({"episodes": 30}, f"this changes the number of episodes. {lost} at the planned end. "),
        (weaker, f"this changes the rule control-superiority. {lost} by it. The interval valid"),
        ({"stopping": []}, "The rule control-superiority is removed. This changes the rule contr"),
        ({"episodes": 30, "stopping": []}, "the planned end. This changes the rule contr"),
        (harmful, "the rule control-harm is removed."),
        ({"budget": {"deployments": 1}}, None),
    ):
        entry = campaign.amend(changes, by="ana", reason="slow")
        cost = status(campaign).amendment["cost"]
        assert (cost is None) if said is None else said in cost
        shown = CliRunner().invoke(main, ["campaign", "status", "--store", store.url]).output
        assert (f"cost: {cost}\n" in shown) is (said is not None)
        campaign.reject(entry.number, by="ben", reason="no")
    export(campaign, tmp_path / "out", by="ana", reason="final")
    text = (tmp_path / "out" / "report.html").read_text()
    assert text.count("proposed, rejected: ") == 6
    changed = {"budget": {"deployments": 1}}
    alone = Campaign.create(store, replace(plan, name="alone", approval=Approval()), by="ana")
    alone.amend(changed, by="ana", reason="less")
    export(alone, tmp_path / "alone", by="ana", reason="final")
    assert "proposed, " not in (tmp_path / "alone" / "report.html").read_text()
    (tmp_path / "kept.toml").write_text('[[stopping]]\nrule = "control-superiority"\n')
    command = ["campaign", "amend", str(tmp_path / "kept.toml"), "--campaign", "alone"]
    done = CliRunner().invoke(
        main, [*command, "--by", "ana", "--reason", "x", "--store", store.url]
    )
    assert "cost: the rule control-harm is removed. This changes the rule contr" in done.output


def test_a_conclusion_tells_the_rows_recorded_since_the_end(store):
    campaign = Campaign.create(store, protocol(episodes=40, missing="zero"), by="ana")
    play(campaign, range(40), missing=(11,))
    campaign.stop(by="ana", reason="reports are in")
    before = analyse(campaign)
    assert "Since the end" not in before.claim
    low, high = before.combined["low"], before.combined["high"]
    name = rs.campaigns.episodes(campaign, limit=100)[0]["episode_id"]
    campaign.withdraw(name, by="ana", reason="consent")
    told = "Since the end, 1 correction or withdrawal was recorded; before, the difference was "
    known = f"{before.combined['difference']:.4g}, from {low:.4g} to {high:.4g}."
    assert analyse(campaign).claim.endswith(told + known)
    right = rs.Episode(features=[ROWS[0]], rewards=[1.0], next_features=[])
    campaign.record(Report(id="p11", episode=right, first_features=ROWS, actions=[0]))
    two = "Since the end, 1 report and 1 correction or withdrawal were recorded; before, "
    assert f"{two}the difference was {known}" in analyse(campaign).claim


def test_roles_that_can_be_chosen_prove_nothing(store):
    campaign = Campaign.create(store, protocol(episodes=40, intake=Intake()), by="ana")
    play(campaign, range(40), (0.0, 1.0, 1.0))
    found = analyse(campaign)
    assert found.not_at_the_end.startswith("episodes need not be assigned")
    assert found.claim.startswith("Nothing is concluded")


def test_an_amended_rule_claims_nothing(store):
    strict = ControlSuperiority(margin=0.3, confidence=0.999)
    plan = protocol(episodes=60, share=0.5, floor=0.0, stopping=(strict,))
    campaign = Campaign.create(store, plan, by="ana")
    play(campaign, range(50), (0.0, 0.2, 0.2))
    lax = {"rule": "control-superiority", "margin": -0.9, "confidence": 0.5}
    campaign.amend({"stopping": [lax]}, by="ana", reason="it looks good")
    assert campaign.state.stopped.payload["rule"] == "control-superiority"
    found = analyse(campaign)
    assert found.claim == "Nothing is concluded: an amendment changed the rule control-superiority."
    assert found.error == (
        "Superiority cannot be claimed, since an amendment changed the rule control-superiority."
    )


def test_withdrawn_episodes_count_as_missing(store):
    plan = protocol(episodes=60, share=0.5, floor=0.0, missing="worst")
    campaign = Campaign.create(store, plan, by="ana")
    play(campaign, range(60), (0.5, 0.5, 0.5))
    before = analyse(campaign).combined
    failures = [
        row["episode_id"]
        for row in rs.campaigns.episodes(campaign, limit=100)
        if row["total"] == 0.0 and campaign.state.role(row["version"], row["member"]) == "learned"
    ]
    for name in failures:
        campaign.withdraw(name, by="ana", reason="consent")
    after = analyse(campaign)
    assert after.combined["difference"] == pytest.approx(before["difference"])
    assert after.roles["learned"]["withdrawn"] == len(failures)


def test_a_control_that_is_a_policy_has_no_table_of_actions(store):
    always = rs.Policy(weights=[[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    recipe = rs.Recipe(control=Control(always, share=0.3), floor=0.2)
    campaign = Campaign.create(store, protocol(episodes=30, recipe=recipe), by="ana")
    play(campaign, range(30))
    found = analyse(campaign)
    assert found.reference is None
    assert found.actions == ()
    assert found.combined["control_episodes"] > 0


def test_one_rule_of_a_kind_may_claim():
    with pytest.raises(ValueError, match="must have one rule control-superiority; got 2"):
        protocol(stopping=(ControlSuperiority(), ControlSuperiority(margin=-0.5)))


def calibration(claims, rounds=400, confidence=0.8):
    """Return the report of a simulation that calibrated a rule."""
    error = {"value": claims / rounds, "low": 0.0125, "high": 0.045, "rounds": rounds}
    one = {"confidence": {"value": confidence}, "asked": 0.025, "error": error}
    return json.dumps({"calibration": [one]}).encode()


def test_a_calibrated_rule_names_the_rounds_and_the_interval_of_its_simulation(store):
    rule, report = ControlSuperiority(confidence=0.8, calibrated=0.025), calibration(claims=10)
    plan = protocol(stopping=(rule,)).with_simulation(report)
    assert Protocol.from_toml(plan.to_toml()) == plan
    found = analyse(Campaign.create(store, plan, by="ana", simulation=report))
    assert (
        "probability about 0.05: 0.025 at the looks of control-superiority, by the" in found.error
    )
    assert "(10 of 400 rounds, 95% interval 0.0125 to 0.045); the bound alone gua" in found.error
    assert "guarantees 0.2, and about 0.025 at the end." in found.error
    assert "calibrated" not in protocol(stopping=(ControlSuperiority(),)).plain["stopping"][0]


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (None, "calibrated control-superiority to confidence 0.8 with error 0.025; got no report"),
        (b"<html>", "got another report: run `rareswitch plan --calibrate 0.025`"),
        (calibration(claims=10, confidence=0.7), "got another report"),
        (calibration(claims=4), "it has 4 of 400: run .* with about 200 --rounds"),
    ],
)
def test_a_rule_without_enough_simulated_claims_is_not_locked(store, tmp_path, report, why):
    plan = protocol(stopping=(ControlSuperiority(confidence=0.8, calibrated=0.025),))
    plan = plan if report is None else plan.with_simulation(report)
    with pytest.raises(NotAllowedError, match=why):
        Campaign.create(store, plan, by="ana", simulation=report)
    (tmp_path / "p.toml").write_text(plan.to_toml())
    validate = ["campaign", "protocol", "validate", str(tmp_path / "p.toml")]
    if report is not None:
        told = CliRunner().invoke(main, validate)
        assert "the simulation is not checked: it is not beside" in told.output
        (tmp_path / "characteristics.json").write_bytes(report)
    told = CliRunner().invoke(main, validate)
    assert told.exit_code == 2
    assert re.search(why, " ".join(told.output.split()))


def test_after_a_person_ended_a_study_the_error_is_that_of_the_looks(store):
    rule, ended = (
        ControlSuperiority(confidence=0.99),
        "since ana ended the study before its planned",
    )
    plan = protocol(episodes=40, stopping=(rule,))
    campaign = Campaign.create(store, plan, by="ana")
    play(campaign, range(20))
    assert "probability at most about 0.035: at most 0.01 at the looks" in analyse(campaign).error
    campaign.stop(by="ana", reason="no money")
    error = analyse(campaign).error
    assert "is claimed with probability at most 0.01, all of it at the looks of" in error
    assert f"all versions together. Nothing can be claimed at the end, {ended} end." in error
    without = Campaign.create(store, replace(plan, name="other", stopping=()), by="ana")
    without.stop(by="ana", reason="no money")
    assert analyse(without).error == f"Superiority cannot be claimed, {ended} end."


def test_a_claim_at_a_look_is_from_reported_outcomes_alone(store):
    rule = ControlSuperiority(confidence=0.9)
    plan = protocol(episodes=600, share=0.5, floor=0.0, stopping=(rule,), missing="worst")
    campaign = Campaign.create(store, plan, by="ana")
    play(campaign, range(600), (0.0, 1.0, 1.0), missing=range(0, 600, 2))
    claim = analyse(campaign).claim
    assert "at a look, with 0.9 confidence, from reported outcomes alone: learned" in claim
    assert "With missing outcomes as the worst, as the protocol counts them, it is from " in claim
    strata = {one["missing"]: one for one in analyse(campaign).rows}
    assert strata["worst"]["difference"] < 0.0
    assert claim.endswith("without a report). This does not support the claim.")
    sure = replace(plan, name="few", stopping=(ControlSuperiority(confidence=0.9999),))
    few = Campaign.create(store, sure, by="ana")
    play(few, range(600), (0.0, 1.0, 1.0), missing=[5])
    assert analyse(few).claim.endswith("(1 assigned episode without a report).")


@pytest.mark.parametrize("missing", ["zero", "worst", "reported"])
def test_who_plans_looks_reads_what_they_count(tmp_path, missing):
    (tmp_path / "p.toml").write_text(
        protocol(missing=missing, stopping=(ControlSuperiority(),)).to_toml()
    )
    told = CliRunner().invoke(main, ["campaign", "protocol", "validate", str(tmp_path / "p.toml")])
    note = f'note: missing = "{missing}" covers a claim at the end only; control-superiority compar'
    assert (note in told.output) is (missing != "reported")


def test_a_stop_by_returns_is_not_told_in_the_open(store):
    rule = ControlSuperiority(confidence=0.9)
    plan = protocol(episodes=600, share=0.5, floor=0.0, stopping=(rule,))
    campaign = Campaign.create(store, plan, by="ana")
    play(campaign, range(600), (0.0, 1.0, 1.0))
    reason = campaign.state.stopped.reason.partition(": ")[2]
    assert reason in interim(campaign, closed=True)
    page = interim(campaign)
    assert "by the rule control-superiority" in page
    assert reason not in page
    assert "learned members return" not in page


def test_a_study_without_a_control_has_nothing_to_compare(store):
    campaign = Campaign.create(store, protocol(recipe=rs.Recipe(floor=0.1)), by="ana")
    with pytest.raises(NotAllowedError, match="has no control to compare with"):
        analyse(campaign)
    assert status(campaign).difference is None


@pytest.mark.parametrize(
    ("rule", "chances", "words"),
    [
        (ControlSuperiority(confidence=0.9), (0.0, 1.0, 1.0), "return at least"),
        (ControlHarm(confidence=0.9), (1.0, 0.0, 0.0), "less than the control"),
        (ControlFutility(target=0.5, after=30), (1.0, 0.0, 0.0), "0.5 is the target"),
    ],
)
def test_the_engine_stops_a_study_that_shows_it_and_proves_it(store, rule, chances, words):
    plan = protocol(episodes=600, share=0.5, floor=0.0, stopping=(rule,))
    # Members that never learn take an action by chance: no reward can tell them apart.
    campaign = Campaign.create(store, plan, by="ana")
    play(campaign, range(600), chances)
    entry = campaign.state.stopped
    assert entry is not None, "no rule was reached"
    assert (entry.actor, entry.payload["rule"]) == ("engine", rule.name)
    assert words in entry.reason
    assert verify(campaign).ok
    found = analyse(campaign)
    if isinstance(rule, ControlSuperiority):
        assert found.claim.startswith("Superiority over the control was shown at a look")
        assert entry.payload["value"] > 0.0
    else:
        assert (
            found.not_at_the_end == f"the rule {rule.name} ended the study before its planned end"
        )


def test_a_rule_waits_for_its_episodes(store):
    rule = ControlSuperiority(confidence=0.9, after=60)
    campaign = Campaign.create(store, protocol(episodes=60, stopping=(rule,)), by="ana")
    play(campaign, range(60), (0.0, 1.0, 1.0))
    assert campaign.state.stopped.payload["rule"] == "episodes"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ControlSuperiority(margin=2.0), "margin must be at most 1"),
        (lambda: ControlSuperiority(after=9999), "after must be at most 120"),
        (lambda: ControlFutility(target=0.1, after=9999), "after must be at most 120"),
        (lambda: ControlHarm(margin=-0.1), "margin must be a finite number at least 0"),
        (lambda: ControlHarm(confidence=1.0), "confidence must be"),
        (lambda: ControlFutility(target=-0.1, after=5), "target must be"),
    ],
)
def test_rules_are_checked(make, why):
    with pytest.raises(ValueError, match=why):
        protocol(stopping=(make(),))


@pytest.mark.parametrize(
    "recipe", [rs.Recipe(), rs.Recipe(control=Control(0, share=0.9), floor=0.1)]
)
def test_a_rule_against_a_control_needs_one(recipe):
    with pytest.raises(ValueError, match="control-harm needs a control"):
        protocol(recipe=recipe, stopping=(ControlHarm(),))


def test_a_margin_below_nothing_asks_for_non_inferiority(store):
    rule = ControlSuperiority(margin=-0.5, confidence=0.9)
    campaign = Campaign.create(store, protocol(episodes=600, share=0.5, stopping=(rule,)), by="a")
    play(campaign, range(600), (0.5, 0.5, 0.5))
    assert campaign.state.stopped.payload["rule"] == rule.name
    assert -0.5 < campaign.state.stopped.payload["value"] < 0.0
    assert "return at most" in campaign.state.stopped.reason
    found = analyse(campaign)
    assert found.claim.startswith("Non-inferiority by 0.5 was shown at a look, with 0.9 confidence")
    assert "non-inferiority is claimed" in found.error


def test_status_tells_the_difference(study):
    found, whole = status(study), analyse(study)
    assert found.difference == whole.combined
    assert [one.difference for one in found.versions] == list(whole.versions)


def test_the_command_prints_the_conclusion(study, store):
    result = CliRunner().invoke(main, ["campaign", "analyse", "--store", store.url])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    words = " ".join(result.output.split())
    assert analyse(study).claim in words
    assert analyse(study).error in words
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("with missing as 0") for line in lines)
    assert any(line.startswith("subgroup severe") for line in lines)
    assert any(line.startswith("action high") for line in lines)
    told = CliRunner().invoke(main, ["campaign", "analyse", "--store", store.url, "--json"])
    assert json.loads(told.output)["combined"] == analyse(study).combined
    shown = CliRunner().invoke(main, ["campaign", "status", "--store", store.url])
    assert "\ncontrol        learned 0." in shown.output


def test_the_export_has_the_analysis_and_the_verifier_makes_it_again(study, run_verifier, tmp_path):
    folder = tmp_path / "out"
    export(study, folder, by="ana", reason="final")
    found = analyse(study)
    assert json.loads((folder / "analysis.json").read_text()) == json.loads(json.dumps(found.plain))
    with open(folder / "analysis.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["comparison"] for row in rows] == [row["comparison"] for row in found.rows]
    assert float(rows[0]["difference"]) == found.combined["difference"]
    assert "nausea" in (folder / "events.csv").read_text()
    for page in ("appendix.md", "report.html"):
        text = (folder / page).read_text()
        assert "Learned policies against the concurrent control" in text
        assert found.claim.split(":")[0] in text
    assert "any_time_low" in (folder / "data-dictionary.md").read_text().replace("\\", "")
    assert run_verifier(folder).returncode == 0
    for name, old, new in (
        ("analysis.json", '"difference": ', '"difference": 1'),
        ("analysis.csv", "all versions,,reported,", "all versions,,reported,1"),
    ):
        path = folder / name
        was = path.read_text()
        assert old in was
        path.write_text(was.replace(old, new, 1))
        manifest = folder / "manifest.json"
        kept = manifest.read_text()
        listed = json.loads(kept)
        import hashlib

        listed["files"][name] = hashlib.sha256(path.read_bytes()).hexdigest()
        manifest.write_text(json.dumps(listed, indent=2, ensure_ascii=False))
        done = run_verifier(folder)
        assert done.returncode == 1
        assert f"{name} is not the file that the record gives" in done.stdout
        path.write_text(was)
        manifest.write_text(kept)


def test_the_open_report_shows_no_return_and_the_closed_report_does(study):
    open_, closed = interim(study), interim(study, closed=True)
    assert "open interim report" in open_
    found = analyse(study)
    means = {f"{row['mean_return']:.4g}" for row in found.rows if row["mean_return"] is not None}
    means |= {f"{one.mean:.4g}" for one in status(study).versions}
    shown = [mean for mean in means if mean in open_]
    assert not shown
    assert all(mean in closed for mean in means)
    hidden = "Learned policies against", "Evidence shown", "Outcomes of each", "Stopping rules at"
    for heading in hidden:
        assert heading not in open_
        assert heading in closed
    # Adverse events are pooled for everybody, and by role for the committee.
    assert "Adverse events, all roles together" in open_
    assert "<td>learned</td>" not in open_
    assert "<td>learned</td>" in closed


def test_the_interim_command_writes_one_page(study, store, tmp_path):
    for options, kind in (([], "open"), (["--closed"], "closed")):
        file = tmp_path / f"{kind}.html"
        given = ["campaign", "interim", str(file), *options, "--store", store.url]
        result = CliRunner().invoke(main, given)
        assert result.exit_code == 0, result.output
        assert f"{kind} interim report</title>" in file.read_text()


def test_the_principles_are_answered_from_the_record(study):
    page = interim(study, closed=True)
    for principle in (
        "Adequacy within the development programme",
        "Adequacy of trial planning",
        "Limiting the chances of erroneous conclusions",
        "Reliability of estimation",
        "Maintenance of trial integrity",
    ):
        assert principle in page
    assert "probability at most about 0.025, all of it at the end." in page
    assert "corrections and withdrawals: 2" in page
    assert "Every version has a concurrent control" in page


def test_the_first_version_has_neither_a_control_nor_an_approval(store):
    two = Approval(by="second-person")
    recipe = rs.Recipe(control=Control(0, share=0.3), floor=0.1, burn_in=True)
    campaign = Campaign.create(store, protocol(approval=two, recipe=recipe), by="ana")
    page = interim(campaign, closed=True)
    assert "Every version after the burn-in has a concurrent control" in page
    assert "Every version after the first, except a rollback, and every amendment is appr" in page


def test_reports_for_unblinded_readers_begin_with_the_conclusion(study, tmp_path):
    export(study, tmp_path / "out", by="ana", reason="final")
    claim = analyse(study).claim
    appendix = (tmp_path / "out" / "appendix.md").read_text().replace("\\", "")
    assert f"## Summary\n\n|  |  |\n| --- | --- |\n| Conclusion | {claim} |" in appendix
    assert f'<table class="pairs">\n<tr><td>Conclusion</td><td class="long">{claim}' in interim(
        study, closed=True
    )
    assert "Conclusion" not in interim(study)


def looks_of(campaign):
    """Return the rows of the stopping rules in a closed report: each cell by its column."""
    _, after = interim(campaign, closed=True).split("Stopping rules at this look</h2>"[:-5], 2)[1:]
    table = after[after.index("<table>") : after.index("</table>")]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("</tr>")[:-1]]
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}


def test_a_look_says_which_end_of_which_interval_each_value_is(store):
    rules = (
        ControlSuperiority(confidence=0.999), ControlHarm(), ControlFutility(target=0.1, after=1),
        Harm(below=0.1), Futility(target=0.1, after=1), DataQuality(most=0.5),
    )  # fmt: skip
    campaign = Campaign.create(store, protocol(stopping=rules, share=0.3), by="ana")
    names = {"harm", "futility", "data-quality", "episodes"}
    assert looks_of(campaign).keys() == names - {"futility"}  # nobody has played
    rare = Campaign.create(store, protocol(name="rare", stopping=rules, share=0.01), by="ana")
    play(rare, range(5))
    assert analyse(rare).roles.keys() <= {"learned", "floor"}
    assert looks_of(rare).keys() == names  # the control has not played
    play(campaign, range(30))
    found = looks_of(campaign)
    assert found.keys() == {rule.name for rule in rules} | {"episodes"}
    assert {name: one["the value is"] for name, one in found.items()} == {
        "control-superiority": "lower end, difference of all versions",
        "control-harm": "upper end, difference of the version",
        "control-futility": "upper end, difference of all versions",
        "harm": "upper end, mean return of the version",
        "futility": "upper end, mean return of the version",
        "data-quality": "lower end, share of reports refused",
        "episodes": "episodes recorded",
    }
    row = analyse(campaign).combined
    assert float(found["control-superiority"]["value"]) < row["difference"]
    assert float(found["control-futility"]["value"]) > row["difference"]


def test_two_persons_approve_and_the_study_is_compared(store):
    plan = protocol(episodes=60, approval=Approval(by="second-person"))
    campaign = Campaign.create(store, plan, by="ana")
    play(campaign, range(40))
    waiting = campaign.state.waiting
    campaign.approve(waiting.number, by="ben", reason="reviewed")
    play(campaign, range(40, 60))
    assert len(analyse(campaign).versions) == 2
    assert verify(campaign).ok


def test_the_reports_of_a_rehearsal_say_so(study, tmp_path):
    world = rs.worlds.tabular(states=2, actions=3, horizon=1, seed=1)
    recipe = rs.Recipe(control=Control(0, share=0.3))
    plan = protocol(task=world.task(episodes=20), recipe=recipe, analysis=None)
    with open_store(f"sqlite:///{tmp_path / 'rehearsal.db'}", create=True) as store:
        rs.campaigns.simulate(plan, FiniteWorld(world), store, circumstances=Circumstances.calm())
        rehearsed = Campaign(store, "study", rehearsal=True)
        for page in (interim(rehearsed), interim(rehearsed, closed=True)):
            assert "Rehearsal of campaign study" in page
            assert "nobody was treated" in page
    assert "ehears" not in interim(study)


def test_the_printed_analysis_names_its_dashes_its_tables_and_the_first_treatment(study):
    found = analyse(study)
    text = "\n".join(analysis_lines(found))
    assert "by treatment given, plain counts:" in text
    empty = found.subgroups[0] | {"difference": None, "episodes": 0, "control_episodes": 0}
    several = replace(found, horizon=2, actions=(), subgroups=(empty,))
    text = "\n".join(analysis_lines(several))
    assert "plain counts (by first treatment; harm of later treatments is not separated):" in text
    assert "those of subgroups hold together.\n" in text
    assert "those of actions" not in text
    assert "difference -: no version has outcomes of both sides in this row" in text
    (section,) = [one for one in comparison_sections(several) if "treatments" in one.heading]
    assert "harm of later actions is not separated" in section.blocks[0]
    none = "\n".join(analysis_lines(replace(found, actions=(), subgroups=())))
    assert "hold together" not in none


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("reported", "In the comparison at the end it is left out"),
        ("zero", "In the comparison at the end it counts as 0 (missing"),
        ("worst", "it counts as 0 for learned members and as the largest return for the control"),
    ],
)
def test_the_appendix_says_how_an_unreported_episode_counts(store, tmp_path, missing, said):
    campaign = Campaign.create(store, protocol(name=f"count-{missing}", missing=missing), by="ana")
    play(campaign, range(8), missing=(3,))
    export(campaign, tmp_path / "out", by="ana", reason="a look")
    text = (tmp_path / "out" / "appendix.md").read_text().replace("\\", "")
    assert "No fit uses an episode that was never reported." in text
    assert said in text
    assert "Nothing replaces" not in text
