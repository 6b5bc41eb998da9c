"""`rareswitch campaign simulate`: instances and environments, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import rareswitch as rs
from cli.terminal import call, refused
from observers import NAMES, TABLE
from rareswitch.campaigns import (
    Campaign,
    Circumstances,
    Protocol,
    open_store,
    packed_features,
    simulate,
)
from rareswitch.cli.campaign_environment import EnvironmentWorld, check_setting
from rareswitch.core.recipe import Recipe
from rareswitch.features import Dense, OneHot
from rareswitch.gym import play, setting_of

SIMULATE = ("campaign", "simulate")
TABULAR = ("--instance", "tabular", "--states", 2, "--actions", 2)
BY_HAND = (*TABULAR, "--missing", 0, "--no-auto-approve", "--json")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RARESWITCH_STORE", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def plan_of_small(tmp_path_factory):
    """Return the folder of a plan on a small table, to copy from."""
    folder = tmp_path_factory.mktemp("planned") / "small"
    arguments = ("plan", "--episodes", 40, *TABULAR, "--horizon", 2, "--switches", 3)
    done = call(*arguments, "--beta", 1, "--rounds", 2, "--out", folder)
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def small(here, plan_of_small):
    """Return the protocol of a small table, as a plan wrote it."""
    shutil.copytree(plan_of_small, here / "small")
    return "small/protocol.toml"


def lake(**more):
    world = gymnasium.make("FrozenLake-v1", **more)
    return world, setting_of(world, horizon=10)


def test_an_instance_is_played_as_in_python(here, small):
    options = ("--sites", 3, "--delay", 5, "--missing", 0.1, "--damaged", 0.2, "--seed", 7)
    done = call(*SIMULATE, small, *TABULAR, *options, "--json")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    found = json.loads(done.stdout)
    mdp = rs.worlds.tabular(states=2, actions=2, horizon=2, seed=7)
    with open_store(here / "python.db", create=True) as store:
        same = simulate(
            Protocol.from_toml((here / small).read_text(encoding="utf-8")),
            rs.campaigns.FiniteWorld(mdp, seed=7),
            store,
            circumstances=Circumstances(sites=3, delay=5.0, missing=0.1, damaged=0.2),
            simulation=(here / "small" / "plan.json").read_bytes(),
            seed=7,
        )
    assert found == json.loads(json.dumps(same.plain))
    assert found["problems"] == []
    with open_store(here / "rehearsal.db") as store:
        assert Campaign(store, "small").entries[-1].link == found["links"]["ledger"]


def test_people_read_what_json_says(here, small):
    shown = call(*SIMULATE, small, *TABULAR, "--overridden", 0.2, "--store", "sqlite:///a.db")
    assert shown.exit_code == 0, shown.output
    same = call(
        *SIMULATE, small, *TABULAR, "--overridden", 0.2, "--store", "sqlite:///b.db", "--json"
    )
    found = json.loads(same.stdout)
    lines = dict(line.split(maxsplit=1) for line in shown.stdout.splitlines() if line[0] != " ")
    assert lines["begun"].startswith("40 episodes; ")
    assert lines["recorded"].startswith(str(found["recorded"]))
    assert lines["overridden"].startswith(str(found["overridden"]))
    assert lines["deployments"].startswith(f"{found['deployments']} of at most 3")
    assert lines["ledger"] == f"link of the last entry: {found['links']['ledger']}"
    assert lines["regret"].startswith(f"{found['regret']:.1f}, ")
    proposed = json.loads(
        call("campaign", "candidates", "--store", "sqlite:///b.db", "--json").stdout
    )
    assert len(proposed) >= found["deployments"] > 0
    check = f"check: all {len(proposed)} candidates reproduced byte for byte\n"
    assert shown.stdout.endswith(check)


def test_a_rehearsal_with_problems_names_them_and_ends_with_status_1(here, small, monkeypatch):
    wrong = SimpleNamespace(problems=["replay: entry 3 differs"])
    monkeypatch.setattr("rareswitch.campaigns.rehearsal.simulate.verify", lambda campaign: wrong)
    done = call(*SIMULATE, small, *TABULAR, "--episodes", 3)
    assert done.exit_code == 1
    assert done.stdout.endswith("check: replay: entry 3 differs\n")
    assert "reproduced" not in done.stdout


def test_a_rehearsal_goes_to_no_store_of_a_trial(here, small, monkeypatch):
    monkeypatch.setenv("RARESWITCH_STORE", "sqlite:///trial.db")
    monkeypatch.setenv("RARESWITCH_ACTOR", "ana")
    assert call(*SIMULATE, small, *TABULAR, "--episodes", 3).exit_code == 0
    assert (here / "rehearsal.db").exists()
    assert not (here / "trial.db").exists()
    attached = ("--simulation", "small/plan.json")
    real = call("campaign", "init", small, *attached, "--store", "sqlite:///rehearsal.db")
    assert real.exit_code == 1
    assert "small is a rehearsal in sqlite:///rehearsal.db; use another store" in real.stderr
    rehearsal = ("--store", "sqlite:///rehearsal.db")
    assert "small, a rehearsal, running" in call("campaign", "status", *rehearsal).stdout
    (here / "one.json").write_text('{"id": "ada", "features": [[1, 0, 0, 0]], "rewards": [1]}')
    for verb in (
        ("assign", "ada"), ("record", "one.json"), ("import", "one.json"), ("learn",),
        ("propose", "--early", "--reason", "look"), ("withdraw", "ada", "--reason", "so"),
    ):  # fmt: skip
        done = call("campaign", *verb, *rehearsal)
        assert done.exit_code == 1, verb
        assert "small is a rehearsal: nobody is treated in it" in done.output


def test_a_rehearsal_is_exported_and_stopped_by_people(here, small):
    assert call(*SIMULATE, small, *TABULAR, "--episodes", 3).exit_code == 0
    signed = ("--by", "ana", "--reason", "practice", "--store", "sqlite:///rehearsal.db")
    assert call("campaign", "export", "final", *signed).exit_code == 0
    assert call("campaign", "stop", *signed).exit_code == 0


def test_a_protocol_with_columns_is_rehearsed_with_its_feature_map(here):
    terms, data = packed_features(Dense(TABLE), ("severity",))
    agreed = Protocol(
        name="raw",
        task=rs.Task(dim=TABLE.dim, horizon=2, episodes=20),
        schedule=rs.UniformGrid(batches=2),
        budget=1,
        actions=NAMES,
        features=terms,
    )
    (here / "raw.toml").write_text(agreed.to_toml())
    (here / "map.bin").write_bytes(data)
    world = ("--instance", "tabular", "--states", 5, "--actions", 3, "--corrected", 0)
    missing = call(*SIMULATE, "raw.toml", *world, "--withdrawn", 0)
    assert missing.exit_code == 1
    assert "features must be the file with the protocol's digest" in missing.stderr
    given = ("--withdrawn", 0, "--feature-map", "map.bin", "--json")
    done = call(*SIMULATE, "raw.toml", *world, *given)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["begun"] == 20


def test_where_a_protocol_names_signers_one_of_them_signs_and_stops(here, small):
    text = (here / small).read_text(encoding="utf-8")
    signers = 'by = "second-person"\nsigners = ["ana", "ben"]'
    (here / small).write_text(text.replace('by = "schedule"', signers))
    options = ("--missing", 0.1, "--signing", 2, "--rejected", 0.3, "--json")
    done = call(*SIMULATE, small, *TABULAR, *options)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["deployments"] > 0
    assert found["rejections"] > 0
    assert found["stopped"] == "all 40 episodes have begun, and no more reports are due"


def test_a_rehearsal_is_approved_by_hand_and_goes_on(here, small):
    text = (here / small).read_text(encoding="utf-8")
    (here / small).write_text(text.replace('by = "schedule"', 'by = "second-person"'))
    first = call(
        *SIMULATE, small, *TABULAR, "--missing", 0, "--episodes", 25, "--no-auto-approve", "--json"
    )
    waiting = json.loads(first.stdout)["waiting"]
    at = ("--by", "ben", "--reason", "looked at it", "--store", "sqlite:///rehearsal.db")
    signed = call("campaign", "approve", waiting, *at)
    assert signed.exit_code == 0, signed.output
    rest = json.loads(call(*SIMULATE, small, *BY_HAND).stdout)
    assert (rest["begun"], rest["deployments"]) == (15, 1)
    assert rest["stopped"] == "episodes: all 40 are recorded"


def test_a_rehearsal_goes_on_after_a_rollback_and_is_proven(here, small):
    first = json.loads(call(*SIMULATE, small, *TABULAR, "--episodes", 25, "--json").stdout)
    assert first["deployments"] > 0
    signed = ("--by", "ben", "--reason", "harm", "--store", "sqlite:///rehearsal.db")
    back = call("campaign", "rollback", 1, *signed)
    assert back.exit_code == 0, back.output
    rest = call(*SIMULATE, small, *TABULAR, "--episodes", 5)
    assert rest.exit_code == 0, rest.output
    assert "reproduced byte for byte" in rest.stdout
    more = json.loads(call(*SIMULATE, small, *TABULAR, "--episodes", 5, "--json").stdout)
    assert more["problems"] == []
    assert len(more["decision_delays"]) == more["deployments"]


def test_what_does_not_fit_is_refused_in_one_line(here, small):
    assert "--instance, --env or --simulator must name a world" in refused(*SIMULATE, small)
    assert "--env and --instance exclude each other" in refused(
        *SIMULATE, small, *TABULAR, "--env", "FrozenLake-v1"
    )
    assert "--horizon must be the protocol's, 2; got 3" in refused(
        *SIMULATE, small, *TABULAR, "--horizon", 3
    )
    assert "[task] dim is 4; that of --env is 64" in refused(
        *SIMULATE, small, "--env", "FrozenLake-v1"
    )
    call("campaign", "init", small, "--simulation", "small/plan.json", "--by", "ana")
    real = call(*SIMULATE, small, *TABULAR, "--store", "sqlite:///campaign.db")
    assert real.exit_code == 1
    assert "small is a campaign in sqlite:///campaign.db; use another store" in real.stderr
    (here / "small" / "plan.json").write_text("{}")
    other = call(*SIMULATE, small, *TABULAR, "--store", "sqlite:///other.db")
    assert other.exit_code == 1
    assert "simulation must be the file with the protocol's digest" in other.stderr


def test_an_environment_is_played_from_its_plan(here):
    sizes = ("--episodes", 40, "--env", "FrozenLake-v1", "--switches", 3, "--horizon", 10)
    planned = call("plan", *sizes, "--rounds", 2, "--workers", 1, "--beta", 1, "--out", "lake")
    assert planned.exit_code == 0, planned.output
    done = call(*SIMULATE, "lake/protocol.toml", "--env", "FrozenLake-v1", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["begun"] == 40
    assert found["deployments"] == 3
    assert found["regret"] > 0.0
    wrong = refused(*SIMULATE, "lake/protocol.toml", "--env", "FrozenLake-v1", "--rewards", -1, 1)
    assert "[task] end_reward is 0.0; that of --env is 0.5" in wrong
    other = refused(
        *SIMULATE,
        "lake/protocol.toml",
        "--env",
        "FrozenLake-v1",
        "--env-arg",
        "map_name=8x8",
    )
    assert "[task] dim is 64; that of --env is 256" in other


def test_blocks_are_those_of_the_environment_or_none():
    task = rs.Task(dim=12, horizon=2, episodes=9, blocks=3)
    setting = SimpleNamespace(task=lambda: task)
    for blocks in (1, 3):
        agreed = SimpleNamespace(task=replace(task, blocks=blocks), features=None)
        check_setting(setting, agreed)
    agreed = SimpleNamespace(task=replace(task, blocks=2), features=None)
    with pytest.raises(ValueError, match=r"\[task\] blocks is 2; that of --env is 3"):
        check_setting(setting, agreed)


def test_a_calm_campaign_in_an_environment_is_its_training(here):
    """One policy at a time and nothing goes wrong: the very episodes of `gym.play`."""
    world, setting = lake()
    schedule = rs.UniformGrid(batches=3)
    protocol = Protocol(
        name="lake",
        task=setting.task(30),
        schedule=schedule,
        budget=2,
        recipe=Recipe(exploration=rs.Bonus(1.0)),
    )
    with open_store(here / "lake.db", create=True) as store:
        done = simulate(
            protocol,
            EnvironmentWorld(world, setting, seed=4),
            store,
            circumstances=Circumstances.calm(),
        )
        digest = Campaign(store, "lake").policy().digest
    learner = setting.learner(schedule, rs.Recipe.paper(beta=1.0), episodes=30)
    games = list(play(learner, world, setting.features, episodes=30, seed=4))
    assert done.mean_return == pytest.approx(np.mean([game.total for game in games]))
    assert digest == learner.policy.digest


def test_only_what_is_feasible_is_offered_and_an_end_is_told_from_a_cut(here):
    class Corridor:
        """Three places; from the first only to the right; at the last it ends, or is cut off."""

        action_space = gymnasium.spaces.Discrete(2, start=5)
        observation_space = gymnasium.spaces.Discrete(3)

        def __init__(self, cut):
            self.cut = cut

        def reset(self, seed=None):
            self.at = 0
            return 0, {"action_mask": np.array([0, 1], np.int8)}

        def step(self, action):
            assert action in (5, 6)
            assert (self.at, action) != (0, 5)
            self.at = max(0, self.at + (1 if action == 6 else -1))
            over = self.at == 2
            return self.at, -1.0, over and not self.cut, over and self.cut, {}

    for cut in (False, True):
        world = Corridor(cut)
        setting = setting_of(
            world, features=OneHot(states=3, actions=2), horizon=6, rewards=(-2.0, 0.0)
        )
        played = EnvironmentWorld(world, setting)
        assert list(played.begin(1)) == [1]
        first = played.step(0)
        assert (first.reward, list(first.offered), first.over) == (0.5, [2, 3], False)
        last = played.step(1)
        assert last.over is True
        assert (last.offered is None) is not cut
        assert played.loss(rs.Policy(weights=np.zeros((6, 6)), one_hot=True)) is None


def test_a_rehearsal_that_had_ended_says_so(tmp_path):
    shutil.copytree(Path(__file__).parents[2] / "examples" / "study", tmp_path, dirs_exist_ok=True)
    protocol = (tmp_path / "protocol.toml").read_text().replace("episodes = 600", "episodes = 210")
    (tmp_path / "protocol.toml").write_text(protocol)
    given = ["campaign", "simulate", "protocol.toml", "--simulator", "world:trial"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert call(*given).exit_code == 0
        again = call(*given, "--seed", "2")
    assert again.exit_code == 0
    assert "begun           none: this rehearsal had ended; another --store" in again.stdout
