"""`rareswitch evaluate`: play a saved policy in an environment."""

import json
import os
import signal

import gymnasium
import pytest

import rareswitch as rs
from cli.terminal import call, output_of_all, refused, started
from cli.test_train_command import LAKE, WALK
from rareswitch.features import OneHot
from rareswitch.gym import Agent, FiniteModel, evaluate

TABLE = OneHot(states=16, actions=4)
OWN = ("walk", "--allow", "cli.walk")


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    """Return a folder with trainings: of the lake, and of a walk whose features are code."""
    here = tmp_path_factory.mktemp("trainings")
    before = os.getcwd()
    os.chdir(here)
    try:
        assert call("train", *LAKE, "--out", "lake").exit_code == 0
        assert call("train", *WALK, "--features", "cli.walk:rows", "--out", "walk").exit_code == 0
    finally:
        os.chdir(before)
    return here


@pytest.fixture(autouse=True)
def here(trainings, monkeypatch):
    monkeypatch.chdir(trainings)
    return trainings


def evaluated(*options):
    """Return the JSON of an evaluation."""
    result = call("evaluate", *options, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def saved(here, version=None):
    summary = json.loads((here / "lake" / "summary.json").read_text())
    if version is None:
        return summary["recommended"]["digest"]
    return rs.Policy.from_bytes((here / f"lake/policies/{version:03d}.bin").read_bytes())


def test_the_recommended_policy_is_played_in_the_world_it_was_trained_in(here):
    data = evaluated("lake", "--episodes", 50, "--seed", 5)
    assert (data["env_id"], data["version"], data["members"]) == ("FrozenLake-v1", None, 1)
    assert data["digest"] == saved(here)
    summary = json.loads((here / "lake" / "summary.json").read_text())
    assert data["exact"] == summary["recommended"]["exact"]
    assert (data["optimum"], data["random"]) == (summary["optimum"], summary["random"])
    assert data["fresh"]["episodes"] == 50


def test_the_same_seed_plays_the_same_episodes_and_another_others(here):
    summary = json.loads((here / "walk" / "summary.json").read_text())
    assert evaluated(*OWN, "--episodes", 20)["fresh"] == summary["recommended"]["fresh"]
    first, again, other = (
        evaluated(*OWN, "--version", 1, "--episodes", 60, "--seed", seed)["fresh"]
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first["mean"] != other["mean"]


def test_a_deployed_version_is_a_mixture_whose_members_are_drawn(here):
    data = evaluated("lake", "--version", 3, "--episodes", 40)
    policy, lake = saved(here, version=3), gymnasium.make("FrozenLake-v1")
    assert (data["version"], data["members"], data["digest"]) == (3, 32, policy.digest)
    assert (
        data["fresh"]["mean"]
        == evaluate(Agent(policy=policy, features=TABLE), lake, episodes=40).mean
    )
    assert data["exact"] == FiniteModel.of(lake).policy_return(policy, TABLE)


def test_it_is_printed_for_people():
    result = call("evaluate", "lake", "--episodes", 20, "--version", 2)
    assert result.exit_code == 0
    policy, environment, fresh, exact = result.stdout.splitlines()
    assert policy.startswith("policy          version 2, a mixture of 32 members, ")
    assert environment == "environment     FrozenLake-v1"
    assert fresh.startswith("version 2       return 0")
    assert fresh.endswith("on 20 fresh episodes")
    assert exact.startswith("exactly         0")


def test_the_steps_of_an_episode_may_be_given():
    """The end that pays is two steps away."""
    means = {
        steps: evaluated(*OWN, "--episodes", 40, "--steps", steps)["fresh"]["mean"]
        for steps in (1, 10, 50)
    }
    assert means[1] == 0.0 < min(means[10], means[50])
    assert means[10] == evaluated(*OWN, "--episodes", 40)["fresh"]["mean"]
    assert evaluated("lake", "--episodes", 5, "--steps", 100)["exact"] is None


def test_another_environment_may_be_named_and_arguments_given(here):
    dry = evaluated("lake", "--env-arg", "is_slippery=false", "--episodes", 5)
    assert (dry["optimum"], dry["env_args"]) == (1.0, {"is_slippery": False})
    options = ("--env-arg", "is_slippery=false", "--episodes", 5)
    alone = evaluated("lake/agent.bin", "FrozenLake-v1", *options)
    assert alone == dry


def test_features_that_are_code_are_found_again(here, monkeypatch):
    data = evaluated(*OWN, "--episodes", 30)
    policy = rs.Policy.from_bytes((here / "walk" / "policy.bin").read_bytes())
    assert data["digest"] == policy.digest
    assert data["exact"] is None
    assert evaluated(*OWN, "--version", 1, "--episodes", 30)["members"] == 32
    monkeypatch.setattr("cli.walk.rows", lambda place: [[1.0, 0, 0, 0], [0, 0, 1.0, place]])
    assert "features must be those of the training in walk" in refused("evaluate", *OWN)


def test_typing_the_environment_allows_its_module():
    typed = evaluated("walk", "cli.walk:Walk", "--episodes", 20)
    assert typed["fresh"] == evaluated(*OWN, "--episodes", 20)["fresh"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("absent",), "absent"),
        (("lake", "--version", 9), "version must be stored in lake, which has 1 to 4; got 9"),
        (("lake", "--version", 0), "--version"),
        (("lake", "--episodes", 1), "--episodes"),
        (("lake/agent.bin",), "ENV_ID must be given for a file"),
        (("lake/agent.bin", "FrozenLake-v1", "--version", 1), "--version needs a folder"),
        (("lake/policies/001.bin", "FrozenLake-v1"), "got a policy"),
        (("lake/settings.json", "FrozenLake-v1"), "data must be the bytes of a rareswitch agent"),
        (("lake/policies",), "lake/policies must be the folder of a training"),
        (("lake", "CartPole-v1"), "features must have a row for each of 2 actions"),
        (("lake", "FrozenLak-v1"), "Did you mean: `FrozenLake`?"),
        (("lake", "--env-arg", "depth=3"), "ENV_ID FrozenLake-v1: "),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_played_is_refused_by_name(options, word):
    assert word in " ".join(refused("evaluate", *options).split())


def test_a_state_that_the_features_do_not_know_is_told_with_its_step():
    options = ("--env-arg", "map_name=8x8", "--episodes", 50)
    result = call("evaluate", "lake", "FrozenLake-v1", *options)
    assert result.exit_code == 1
    assert "state must be from 0 to 15; got" in result.stderr
    assert "Traceback" not in result.stderr


def test_ctrl_c_ends_it(here):
    with started("evaluate", "lake", "--episodes", 10_000_000, cwd=here) as process:
        assert process.stderr.readline().startswith("fresh episodes: ")
        process.send_signal(signal.SIGINT)
        out, err = output_of_all(process)
    assert process.returncode == 130
    assert "interrupted: no result is kept" in err
    assert out == ""
