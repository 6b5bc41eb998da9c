"""A campaign with a control, a floor, a burn-in and a rule that waits, from protocol to proof."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow.parquet
import pytest

import rareswitch as rs
from forgery import Forgery
from rareswitch.campaigns import (
    Approval,
    Campaign,
    Circumstances,
    FiniteWorld,
    Intake,
    Learning,
    Protocol,
    RefusedError,
    Report,
    export,
    open_store,
    packed_features,
    simulate,
    verifier,
    verify,
)
from rareswitch.campaigns.store.rows import rows_of
from rareswitch.core.control import Control
from rareswitch.core.task import Task
from rareswitch.features import OneHot
from small_export import ROWS, opened
from two_proofs import of_folder

ACTIONS = ("usual care", "low dose", "high dose")
CHANCES = (0.2, 0.5, 0.8)
FIRST, APART = 25, 10


def protocol_of(**changes):
    recipe = {
        "exploration": rs.Ensemble(members=4),
        "control": Control(0, share=0.25),
        "floor": 0.15,
        "burn_in": True,
    } | changes.pop("recipe", {})
    given = {
        "name": "controlled",
        "task": Task(dim=3, horizon=2, episodes=120),
        "actions": ACTIONS,
        "schedule": rs.rules.Waiting(rs.SpreadBudget(switches=4), first=FIRST, apart=APART),
        "budget": 4,
        "recipe": rs.Recipe(**recipe),
        "intake": Intake(assigned=True, concealed=True),
    }
    return Protocol(**given | changes)


def played(campaign, number, *, deviates=False):
    """Assign an episode, let its player act, and return the assignment and the report."""
    given = campaign.assign(f"p{number}")
    player = campaign.policy(given.version).player(given.member, given.key)
    assert player.role == given.role
    taken = np.array([player.act(h, ROWS) for h in range(2)])
    if deviates:
        taken[1] = (taken[1] + 1) % 3
    rng = np.random.default_rng([7, number])
    episode = rs.Episode(
        features=ROWS[taken],
        rewards=(rng.random(2) < np.array(CHANCES)[taken]).astype(float),
        next_features=[ROWS],
    )
    report = Report(id=f"p{number}", episode=episode, first_features=ROWS, actions=taken)
    return given, report


def run(campaign, episodes, *, delay=0):
    """Play episodes, report each so many later, and learn; return roles and assignments."""
    given, waiting = {}, []
    with Learning(campaign) as learning:
        for number in range(episodes):
            told, report = played(campaign, number, deviates=number % 30 == 29)
            given[report.id] = told
            waiting.append(report)
            if len(waiting) > delay:
                found = campaign.record(waiting.pop(0))
                assert found.deviations == int(int(found.seq - 1) % 30 == 29)
            while learning.step() is not None:
                pass
        for report in waiting:
            campaign.record(report)
    return given


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("controlled")
    campaign = opened(folder / "store.db", protocol_of())
    given = run(campaign, 120)
    summary = export(campaign, folder / "out", by="ana", reason="final")
    yield campaign, given, summary.folder
    campaign.store.close()


def test_every_version_splits_its_episodes(done):
    campaign, given, _ = done
    versions = campaign.state.versions
    assert [version.shares for version in versions[:2]] == [
        {"control": 0.0, "controls": 0, "floor": 1.0},
        {"control": 0.25, "controls": 1, "floor": 0.15},
    ]
    assert {one.role for one in given.values() if one.version == 1} == {"floor"}
    later = [one.role for one in given.values() if one.version > 1]
    assert set(later) == {"learned", "control", "floor"}
    for one in given.values():
        policy = campaign.policy(one.version)
        assert policy.allocate(one.key) == one.member
        assert policy.split == versions[one.version - 1].split


def test_the_rule_waits_for_reported_episodes(done):
    campaign, _, _ = done
    since = [version.seq for version in campaign.state.versions]
    assert len(since) == 5
    assert since[1] >= FIRST
    assert all(b - a >= APART for a, b in pairwise(since[1:]))


def test_late_outcomes_do_not_end_the_wait(tmp_path):
    campaign = opened(tmp_path / "store.db", protocol_of())
    run(campaign, 60, delay=20)
    second = campaign.state.versions[1]
    assert second.seq >= FIRST
    begun = [entry for entry in campaign.entries if entry.kind == "deployed"][1]
    assert begun.payload["reached"]["assignments"][0] >= FIRST + 20
    assert not verify(campaign).problems
    campaign.store.close()


def test_the_record_is_proven_in_the_store_and_in_the_files(done, tmp_path):
    campaign, _, folder = done
    found = verify(Campaign(campaign.store, campaign.name))
    assert found.ok, found.problems
    assert of_folder(folder) == {}
    file = tmp_path / "verify_export.py"
    file.write_bytes(verifier())
    command = [sys.executable, "-I", str(file), str(folder)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_export_tells_roles_and_probabilities(done):
    campaign, given, folder = done
    rows = pyarrow.parquet.read_table(folder / "episodes.parquet").to_pylist()
    assert len(rows) == 120
    for row in rows:
        assert row["role"] == given[row["episode_id"]].role
        policy = campaign.policy(row["version"])
        steps = [(ROWS, place) for place in row["actions"]]
        if row["deviations"]:
            continue
        assert np.prod(row["propensities"]) == pytest.approx(policy.likelihood(steps), rel=1e-12)
        assert min(row["propensities"]) > 0.0
    report = (folder / "report.html").read_text()
    for words in ("action usual care", "uniformly at random among the actions", "Burn-in"):
        assert words in report


@pytest.mark.parametrize(
    "change",
    [
        {"control": 0.3, "controls": 1, "floor": 0.15},
        {"control": 0.25, "controls": 2, "floor": 0.15},
        {"control": 0.25, "controls": 1, "floor": 0.9},
        {"control": 0.25, "controls": 1},
        {"control": "0.25", "controls": 1, "floor": 0.15},
        None,
    ],
)
def test_other_shares_in_the_ledger_are_named(done, tmp_path, change):
    forgery = Forgery(done[2], tmp_path / "forged")
    for kind in ("candidate", "deployed"):
        entry = forgery.entries(kind)[-1]
        if change is None:
            del entry["payload"]["shares"]
        else:
            entry["payload"]["shares"] = change
    forgery.cover_up()
    problems = of_folder(forgery.folder)
    # Salts are random: if no episode would get another player, the policy's bytes tell.
    assert {"assignments", "rules", "artifacts"} & problems.keys(), problems


def test_a_rollback_keeps_the_shares(tmp_path):
    campaign = opened(tmp_path / "store.db", protocol_of())
    run(campaign, 60)
    campaign.rollback(1, by="eve", reason="harm suspected")
    last = campaign.state.in_force
    assert last.shares == campaign.state.versions[0].shares
    assert campaign.assign("after").role == "floor"
    assert not verify(campaign).problems
    campaign.store.close()


def test_act_names_the_treatment_of_every_role(tmp_path):
    terms, data = packed_features(OneHot(states=2, actions=3), ["severity"])
    task = Task(dim=6, horizon=1, episodes=60, one_hot=True)
    store = open_store(tmp_path / "store.db", create=True)
    protocol = protocol_of(
        task=task, features=terms, schedule=rs.SpreadBudget(switches=2), budget=2
    )
    campaign = Campaign.create(store, protocol, by="ana", features=data)
    for number in range(60):
        done = campaign.act(f"p{number}", {"severity": number % 2})
        given = campaign.assign(f"p{number}")
        policy, rows = campaign.policy(given.version), np.arange(3) + 3 * (number % 2)
        player = policy.player(given.member, given.key)
        assert done.place == player.act(0, rows)
        assert done.probability == pytest.approx(policy.propensities(0, rows)[done.place])
        if given.role == "control":
            assert done.action == "usual care"
    store.close()


def test_too_few_actions_for_the_control_are_refused(tmp_path):
    protocol = protocol_of(recipe={"control": Control(2, share=0.2)}, intake=Intake())
    campaign = opened(tmp_path / "store.db", protocol)
    two = ROWS[:2]
    episode = rs.Episode(features=two[[0, 1]], rewards=[1.0, 0.0], next_features=[two])
    with pytest.raises(RefusedError, match="at least 3 actions must be offered"):
        campaign.record(Report(id="p0", episode=episode, first_features=two, actions=[0, 1]))
    campaign.store.close()


# Protocols


def test_a_control_is_named_in_a_protocol():
    protocol = protocol_of()
    text = protocol.to_toml()
    assert 'plays = "usual care"' in text
    again = Protocol.from_toml(text)
    assert again == protocol
    assert again.digest == protocol.digest
    placed = Protocol.from_toml(text.replace('plays = "usual care"', "plays = 0"))
    assert placed == protocol


def test_a_control_may_be_a_policy():
    usual = rs.Policy(weights=[[1.0, 0.0, 0.0]] * 2)
    protocol = protocol_of(recipe={"control": Control(usual, share=0.25)})
    again = Protocol.from_toml(protocol.to_toml())
    assert again == protocol
    assert again.recipe.control.digest == usual.digest
    assert again.learner().recipe.control.share == 0.25


def test_protocols_without_shares_keep_their_text():
    plain = protocol_of(recipe={"control": None, "floor": 0.0, "burn_in": False})
    assert set(plain.plain["recipe"]) == {"exploration", "ridge", "ties", "clip", "seed"}


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('plays = "usual care"', 'plays = "none"', r"\[recipe\] control.plays must be the name or"),
        ('plays = "usual care"', "plays = 7", r"^\[recipe\] control must be"),
        ("share = 0.25", "share = 2.0", r"^\[recipe\] control.share must be"),
        ("share = 0.25", "share = 0.95", "floor must be at most 1 minus"),
        ("share = 0.25", "", r"^\[recipe\] control must have plays and share"),
        ("floor = 0.15", "floor = -1.0", "floor must be"),
        ("burn_in = true", "burn_in = 1", "burn_in must be"),
        ("first = 25", "first = 200", "first must be below the 120 episodes"),
        ("switches = 4", "switches = 40", r"^\[budget\] deployments must be at least 40"),
    ],
)
def test_impossible_terms_are_refused(old, new, match):
    text = protocol_of().to_toml()
    assert text.count(old) == 1
    with pytest.raises((TypeError, ValueError), match=match):
        Protocol.from_toml(text.replace(old, new))


def test_a_rule_that_lacks_learned_members_names_the_shares():
    text = protocol_of(recipe={"floor": 0.0}).to_toml().replace("share = 0.25", "share = 1.0")
    text += '[[stopping]]\nrule = "control-harm"\n'
    why = r"^\[\[stopping\]\] rule control-harm needs .* got share 1 and floor 0$"
    with pytest.raises(ValueError, match=why):
        Protocol.from_toml(text)


def test_a_rehearsal_plays_the_control_and_counts_its_regret(tmp_path):
    world = rs.worlds.tabular(states=2, actions=3, horizon=2, seed=1)
    task = world.task(episodes=80)
    protocol = protocol_of(
        task=task, schedule=rs.SpreadBudget(switches=3), budget=3, intake=Intake()
    )
    store = open_store(tmp_path / "store.db", create=True)
    calm = Circumstances.calm()
    found = simulate(protocol, FiniteWorld(world, seed=3), store, circumstances=calm, seed=1)
    campaign = Campaign(store, protocol.name)
    assert verify(campaign).ok
    assert found.regret == pytest.approx(_regret(campaign, world))
    store.close()


def _regret(campaign, world):
    """Return the regret of all assigned episodes, each by its player's exact value."""
    with campaign.store.reading() as connection:
        rows = list(rows_of(connection, "assignments", campaign.name))
    best, total = world.optimal_values()[0, 0], 0.0
    for row in rows:
        alone, value = campaign.policy(row.version).alone(row.member), np.zeros(world.states)
        for h in reversed(range(world.horizon)):
            q_values = world.rewards[h] + world.transitions[h] @ value
            chances = [alone.propensities(h, world.features[s]) for s in range(world.states)]
            value = (np.array(chances) * q_values).sum(axis=1)
        total += best - value[0]
    return total


def test_shares_are_compared_with_the_policy_s_bytes(tmp_path):
    campaign = opened(tmp_path / "store.db", protocol_of())
    run(campaign, FIRST)
    assert campaign.state.in_force.version == 2  # nothing was assigned to it
    export(campaign, tmp_path / "out", by="ana", reason="interim")
    campaign.store.close()
    forgery = Forgery(tmp_path / "out", tmp_path / "forged")
    for kind in ("candidate", "deployed"):
        forgery.entries(kind)[-1]["payload"]["shares"]["floor"] = 0.2
    forgery.cover_up()
    problems = of_folder(forgery.folder)
    assert "its policy has other members" in problems["artifacts"][0]


def test_a_second_person_approves_a_version_with_a_control(tmp_path):
    agreed = protocol_of(approval=Approval(by="second-person"))
    with open_store(tmp_path / "signed.db", create=True) as store:
        campaign = Campaign.create(store, agreed, by="ana", reason="as agreed")
        run(campaign, 40)
        waiting = campaign.state.waiting
        version = campaign.approve(waiting.number, by="ben", reason="reviewed")
        assert version.split == campaign.policy(2).split
        assert version.shares == {"control": 0.25, "controls": 1, "floor": 0.15}
        assert not verify(campaign).problems
