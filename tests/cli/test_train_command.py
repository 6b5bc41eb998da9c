"""`rareswitch train`: what it prints, what it writes, and what it refuses."""

import json
import re

import gymnasium
import numpy as np
import pytest

import rareswitch as rs
from cli.terminal import call, refused
from rareswitch.gym import FiniteModel, Rewards, evaluate, train
from rareswitch.gym.setting import made
from rareswitch.trajectories import read_log, write_log

LAKE = ("FrozenLake-v1", "--episodes", 60, "--horizon", 8, "--evaluate", 20)
WALK = ("cli.walk:Walk", "--episodes", 40, "--horizon", 10, "--rewards", 0, 1, "--evaluate", 20)
GRID = rs.UniformGrid(batches=4)
FILES = {"settings.json", "log.jsonl", "learner.bin", "policies", "picture.png", "summary.json"}
SUMMARY = {
    "episodes",
    "members",
    "switches",
    "deployment_limit",
    "return",
    "versions",
    "recommended",
    "optimum",
    "random",
    "best",
    "finished",
    "missed",
    "notes",
    "rewards",
    "sharing",
}


def save_points(figure, path):
    """Write what the lines of a picture show instead of drawing it."""
    lines = [line for axis in figure.axes for line in axis.get_lines()]
    shown = [(line.get_label(), line.get_xydata().tolist()) for line in lines]
    path.write_bytes(b"\x89PNG" + json.dumps(shown).encode())


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rareswitch.gym.picture.save_picture", save_points)
    return tmp_path


def trained(*options):
    """Return the JSON of a training."""
    result = call("train", *options, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def contents(folder):
    """Return all files below a folder by their names, with their bytes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_train_says_what_was_picked_and_why_and_what_came_of_it(here):
    result = call("train", *LAKE)
    assert result.exit_code == 0, result.output
    picked, table, end = result.stdout.split("\n\n")
    assert "features        one-hot of 16 states × 4 actions, by the observation space" in picked
    assert "horizon         8: as given" in picked
    assert "rewards         0 to 1: by the environment's model" in picked
    assert "stages          auto: " in picked
    header, *versions, told = table.splitlines()
    assert header == "version  from episode  episodes  return [95%]"
    assert told == "[–] no interval: fewer than 20 episodes"
    assert [int(row.split()[0]) for row in versions] == [1, 2, 3, 4]
    assert sum(int(row.split()[2]) for row in versions) == 60
    assert "switches        3 of at most 3, to mixtures of 32 members\n" in end
    for word in ("while learning", "recommended", "exactly", "below optimum", "folder"):
        assert re.search(rf"^{word}  +\S", end, re.MULTILINE)
    (folder,) = here.iterdir()
    assert folder.name.startswith("rareswitch-train-FrozenLake-v1-")
    assert end.endswith(f"folder          {folder.name}\n")
    assert {path.name for path in folder.iterdir()} == FILES | {"agent.bin"}


def test_a_budget_that_the_episodes_cut_is_noted(here):
    few = ("train", "FrozenLake-v1", "--episodes", 6, "--horizon", 8, "--evaluate", 0)
    said = call(*few, "--switches", 50, "--out", "cut")
    assert "note: --switches 50 is more than 6 episodes allow: at most 5 policies" in said.stderr
    assert "switches        5 of at most 5" in said.stdout
    assert "best version    none: no version has 20 episodes" in said.stdout
    assert "note: --switches" not in call(*few, "--switches", 5, "--out", "kept").stderr


def test_the_numbers_are_those_of_the_library(here):
    data = trained(*LAKE, "--seed", 3, "--switches", 4, "--out", "lake")
    world = gymnasium.make("FrozenLake-v1")
    training = train(world, episodes=60, switches=4, horizon=8, seed=3)
    agent = training.agent
    fresh = evaluate(agent, world, episodes=20, seed=3)
    model = FiniteModel.of(world)
    assert set(data) == SUMMARY | {"settings", "picked", "folder"}
    assert (data["episodes"], data["switches"], data["deployment_limit"]) == (60, 4, 4)
    assert data["return"] == training.totals.mean()
    assert [v["mean"] for v in data["versions"]] == [c.mean for c in training.cohorts()]
    assert data["recommended"]["digest"] == agent.policy.digest
    assert data["recommended"]["exact"] == model.policy_return(agent.policy, agent.features)
    assert data["recommended"]["fresh"]["mean"] == fresh.mean
    assert (data["optimum"], data["random"]) == (model.optimal_return(8), model.random_return(8))
    assert data["missed"] == pytest.approx(60 * data["optimum"] - training.totals.sum())
    folder = here / "lake"
    assert json.loads((folder / "summary.json").read_text()) == {k: data[k] for k in SUMMARY}
    assert (folder / "learner.bin").read_bytes() == training.learner.snapshot()
    assert (folder / "agent.bin").read_bytes() == agent.to_bytes()
    deployed = [
        rs.Policy.from_bytes(path.read_bytes()).digest
        for path in sorted((folder / "policies").iterdir())
    ]
    assert deployed == [deployment.digest for deployment in training.learner.ledger]
    log = list(read_log(folder / "log.jsonl"))
    assert [episode.key for episode in log] == list(range(1, 61))
    assert [episode.total for episode in log] == training.totals.tolist()
    assert [episode.version for episode in log] == training.versions.tolist()
    assert all(episode.propensities is not None for episode in log)
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_finished_folder_is_shown_and_not_computed_again(here, monkeypatch):
    first = call("train", *LAKE)
    (folder,) = here.iterdir()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.setattr("rareswitch.gym.setting.made", None)
    again = call("train", *LAKE)
    assert again.exit_code == 0
    assert "is finished" in again.stdout
    for line in first.stdout.splitlines():
        assert line in again.stdout
    assert trained(*LAKE)["episodes"] == 60
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_the_same_settings_give_the_same_bytes_and_others_another_folder(here):
    trained(*LAKE, "--out", "one")
    trained(*LAKE, "--out", "two/inside")
    assert contents(here / "one") == contents(here / "two" / "inside")
    folders = {
        trained(*LAKE, *options)["folder"]
        for options in ((), ("--seed", 1), ("--evaluate", 0), ("--env-arg", "is_slippery=false"))
    }
    assert len(folders) == 4


@pytest.mark.parametrize(
    "options",
    [
        ("--seed", 1),
        ("--switches", 2),
        ("--no-policies",),
        ("--env-arg", "is_slippery=false"),
        ("--features", "one-hot"),
        ("--episodes", 61),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_other_settings_in_the_same_folder_are_refused(here, options):
    trained(*LAKE, "--out", "lake")
    before = contents(here / "lake")
    message = refused("train", *LAKE, *options, "--out", "lake")
    assert "folder must have the same settings; lake has" in message
    name = options[0].removeprefix("--no-").removeprefix("--").replace("-", "_")
    assert f"has {name}" in " ".join(message.split())
    assert contents(here / "lake") == before


def test_a_folder_of_the_command_is_one_of_train_and_the_reverse(here):
    given = {"episodes": 60, "horizon": 8, "fresh": 20}
    trained(*LAKE, "--out", "lake")
    train("FrozenLake-v1", **given, folder="other")
    assert contents(here / "lake") == contents(here / "other")
    train("FrozenLake-v1", **given, folder="lake")
    trained(*LAKE, "--out", "other")
    assert contents(here / "lake") == contents(here / "other")


def test_what_is_not_a_training_is_never_written_to(here):
    thesis = here / "thesis"
    thesis.mkdir()
    (thesis / "chapter.txt").write_text("words")
    assert "holds other files" in refused("train", *LAKE, "--out", thesis)
    (thesis / "settings.json").write_text("{}")
    assert "holds other files" in refused("train", *LAKE, "--out", thesis)
    assert set(contents(thesis)) == {"chapter.txt", "settings.json"}
    (here / "empty").mkdir()
    assert trained(*LAKE, "--out", "empty")["folder"] == "empty"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--episodes", 0), "--episodes"),
        (("--switches", -1), "--switches"),
        (("--switches", 3, "--schedule", "every-episode"), "exclude each other"),
        (("--schedule", "never"), "--schedule never: kind must be one of every-episode"),
        (("--schedule", "uniform-grid,batches=0"), "batches must be"),
        (("--exploration", "guess"), "--exploration guess: kind must be one of bonus"),
        (("--exploration", "bonus", "--beta", 1), "exclude each other"),
        (("--beta", "inf"), "not a finite number"),
        (("--beta", -1), "beta must be"),
        (("--features", "wavelets"), "features must be one of default, one-hot, linear"),
        (("--features", "one-hot,size=3"), "one-hot has no argument 'size'; it takes none"),
        (("--features", "fourier,degree=3"), "fourier has no argument 'degree'; it takes order"),
        (("--features", "no_such:rows"), "cannot be imported"),
        (("--features", "cli.walk:rows,a=1"), "features with arguments must name a class"),
        (
            ("--features", "cli.walk:PLACES"),
            "must be a function of your own, or a class with __call__; it is 5",
        ),
        (("--features", "cli.walk:Table"), "features must have a row for each of 4 actions"),
        (("--horizon", 0), "--horizon"),
        (("--stages", "both"), "--stages"),
        (("--rewards", 1, 0), "low must be at most high"),
        (("--rewards", 1), "--rewards"),
        (("--env-arg", "is_slippery"), "--env-arg must be NAME=VALUE"),
        (("--env-arg", "a=1", "--env-arg", "a=2"), "each name once"),
        (("--env-arg", "slip=1"), "ENV_ID FrozenLake-v1: "),
        (("--env-arg", "is_slippery=False"), "the value is JSON; write false"),
        (("--warm-start", "absent.jsonl"), "--warm-start"),
        (("--evaluate", -1), "--evaluate"),
        (("--seed", -1), "--seed"),
        (("--nonsense", 1), "--nonsense"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_bad_value_is_refused_by_name_and_nothing_is_written(here, options, word):
    assert word in " ".join(refused("train", *LAKE, *options).split())
    assert list(here.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("FrozenLak-v1", "Did you mean: `FrozenLake`?"),
        ("FrozenLake-v0", "FrozenLake-v1"),
        ("no_such_module:Env", "No module named 'no_such_module'"),
        ("cli.walk:Run-v0", "Run"),
        ("cli.walk:PLACES", "PLACES"),
    ],
)
def test_an_unknown_environment_is_named_with_what_there_is(here, name, word):
    message = refused("train", name, "--episodes", 10)
    assert f"ENV_ID {name}: " in message
    assert word in " ".join(message.split())
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", ["cli.walk:Walk", "cli.walk:Walk-v0"])
def test_an_environment_of_your_own_is_named_by_its_module(name):
    data = trained(name, *WALK[1:], "--env-arg", "pause=0.0")
    training = train(made(name, allow=["cli.walk"]), episodes=40, horizon=10, rewards=(0.0, 1.0))
    assert data["recommended"]["digest"] == training.agent.policy.digest
    assert data["optimum"] is None
    assert data["missed"] is None


def test_features_of_your_own_are_code_and_the_policy_is_kept_without_them(here):
    data = trained(*WALK, "--features", "cli.walk:rows", "--out", "walk")
    names = {path.name for path in (here / "walk").iterdir()}
    assert names == FILES | {"policy.bin"}
    assert data["picked"]["reasons"]["features"].startswith("rows divided by L = 4.1")
    saved = rs.Policy.from_bytes((here / "walk" / "policy.bin").read_bytes())
    assert saved.digest == data["recommended"]["digest"]


@pytest.mark.parametrize(
    ("text", "dim"),
    [("cli.walk:Table", 10), ("cli.walk:Table,states=7", 14), ("one-hot", 10), ("linear", 12)],
)
def test_features_are_named_by_a_word_or_a_module(text, dim):
    data = trained(*WALK, "--features", text)
    assert data["picked"]["dim"] == dim


@pytest.mark.parametrize(
    ("options", "learner"),
    [
        (("--schedule", "uniform-grid,batches=4"), {"schedule": GRID}),
        (("--beta", 0.5), {"recipe": rs.Recipe.paper(0.5)}),
        (
            ("--exploration", "ensemble,members=4"),
            {"recipe": rs.Recipe(exploration=rs.Ensemble(members=4))},
        ),
        (("--stages", "own"), {"stages": "own"}),
        (("--rewards", -1, 2), {"rewards": Rewards(-1.0, 2.0)}),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_options_are_the_arguments_of_train(options, learner):
    data = trained(*WALK, *options)
    given = {"horizon": 10, "rewards": (0.0, 1.0)} | learner
    training = train("cli.walk:Walk", episodes=40, **given, allow=["cli.walk"])
    assert data["recommended"]["digest"] == training.agent.policy.digest
    assert data["members"] == training.learner.policy.members


def test_a_warm_start_is_learnt_from_before_the_first_episode(here):
    trained(*WALK, "--out", "before")
    data = trained(*WALK, "--warm-start", "before", "--seed", 1, "--out", "after")
    log = list(read_log("before/log.jsonl"))
    world = made("cli.walk:Walk", allow=["cli.walk"])
    training = train(world, episodes=40, horizon=10, rewards=(0.0, 1.0), warm_start=log, seed=1)
    assert data["recommended"]["digest"] == training.agent.policy.digest
    assert data["settings"]["warm_start"]["log"] == "before/log.jsonl"
    write_log("other.jsonl", log[:20])
    trained(*WALK, "--warm-start", "other.jsonl", "--out", "other")
    write_log("other.jsonl", log[20:], append=True)
    assert "same settings" in refused(
        "train", *WALK, "--warm-start", "other.jsonl", "--out", "other"
    )


def test_a_log_that_does_not_fit_is_refused_by_file_and_field(here):
    (here / "bad.jsonl").write_text('{"observations": [0, 1]}\n')
    message = refused("train", *WALK, "--warm-start", "bad.jsonl")
    assert "bad.jsonl, line 1: actions must be there" in message
    assert [path.name for path in here.iterdir()] == ["bad.jsonl"]


def test_what_is_not_wanted_is_left_out(here):
    data = trained(*LAKE, "--evaluate", 0, "--no-policies", "--out", "lake")
    assert data["recommended"]["fresh"] is None
    assert not (here / "lake" / "policies").exists()
    shown = call("train", *LAKE, "--evaluate", 0, "--no-policies", "--out", "lake").stdout
    assert "fresh episodes" not in shown
    assert "exactly" in shown


def test_of_very_many_versions_the_first_and_the_last_are_shown():
    shown = call("train", *LAKE, "--schedule", "every-episode", "--beta", 1).stdout
    rows = re.findall(r"^ +(\d+|…)  ", shown, re.MULTILINE)
    assert rows == [*map(str, range(1, 21)), "…", *map(str, range(41, 61))]
    assert "…  20 more" in shown


def test_rewards_that_are_not_finite_are_told_with_the_step_and_what_is_kept(here):
    trained(*WALK, "--env-arg", "trouble=late", "--out", "whole")
    (here / "late").write_text("nan")
    command = ("train", *WALK, "--env-arg", "trouble=late", "--out", "walk")
    for _ in range(2):  # it begins with the same episode, and fails again
        result = call(*command)
        assert result.exit_code == 1
        assert "Traceback" not in result.stderr
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        assert "reward must be a finite number; got nan" in line
    assert "(episode 39, step 0)" in line
    assert not (here / "walk" / "summary.json").exists()
    assert "38 of 40 episodes are kept in walk" in line
    assert len(list(read_log("walk/log.jsonl"))) == 38
    (here / "late").unlink()
    assert "continues after episode 38" in call(*command).stdout
    assert contents(here / "walk") == contents(here / "whole")


def test_a_reward_outside_the_range_widens_it_and_the_run_goes_on(here):
    (here / "late").write_text("7.0")
    command = ("train", *WALK, "--env-arg", "trouble=late")
    result = call(*command, "--out", "whole")
    assert result.exit_code == 0
    words = "reward 7 in episode 20 is outside 0 to 1: the range is 0 to 10 from there on"
    assert result.stderr.count(words) == 1
    assert words in " ".join(result.stdout.split())


def test_a_wider_range_may_be_given_when_a_training_goes_on(here):
    (here / "late").write_text("nan")
    command = ("train", *WALK[:5], "--rewards", 0, 1, *WALK[8:], "--env-arg", "trouble=late")
    assert call(*command, "--out", "walk").exit_code == 1
    (here / "late").unlink()
    assert "same settings" in refused(*command, "--rewards", 0, 0.5, "--out", "walk")
    result = call(*command, "--rewards", -1, 20, "--out", "walk")
    assert "continues after episode 19" in result.stdout
    summary = json.loads((here / "walk" / "summary.json").read_text())
    assert (summary["rewards"], summary["finished"]) == ([-1.0, 20.0], True)
    assert "is finished" in call(*command, "--out", "walk").stdout


def test_fresh_episodes_may_pay_more_but_not_what_is_no_number(here):
    options = (*WALK[:2], 12, *WALK[3:], "--env-arg", "trouble=late", "--out", "walk")
    (here / "late").write_text("nan")
    result = call("train", *options)
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert "(episode 8, step 0) of the fresh episodes; 12 of 12 episodes are kept" in line
    (here / "late").write_text("7.0")
    assert trained(*options)["recommended"]["fresh"]["mean"] > 1.0


def test_an_error_of_the_environment_is_raised_and_what_was_learnt_is_kept(here):
    trained(*WALK, "--env-arg", "trouble=late", "--out", "whole")
    (here / "late").write_text("raise")
    command = ("train", *WALK, "--env-arg", "trouble=late", "--out", "walk")
    with pytest.raises(RuntimeError, match="the bridge is down"):
        call(*command)
    assert len(list(read_log("walk/log.jsonl"))) == 19
    (here / "late").unlink()
    assert call(*command).exit_code == 0
    assert contents(here / "walk") == contents(here / "whole")


def test_a_rule_of_your_own_is_stopped_and_goes_on(here):
    options = (*WALK, "--schedule", "cli.walk:Fifth", "--env-arg", "trouble=late")
    whole = trained(*options, "--out", "whole")
    assert (whole["switches"], whole["deployment_limit"]) == (8, None)
    (here / "late").write_text("nan")
    assert call("train", *options, "--out", "walk").exit_code == 1
    (here / "late").unlink()
    assert trained(*options, "--out", "walk")["recommended"] == whole["recommended"]


def test_features_that_do_something_else_by_now_are_refused(here, monkeypatch):
    options = (*WALK, "--features", "cli.walk:rows", "--out", "walk")
    assert call("train", *options).exit_code == 0
    (here / "walk" / "summary.json").unlink()
    before = contents(here / "walk")
    monkeypatch.setattr("cli.walk.rows", lambda place: np.eye(4)[:2] * place)
    message = " ".join(refused("train", *options).split())
    assert (
        "features must not change after the start of walk; at the start they had features"
        in message
    )
    assert contents(here / "walk") == before


def test_a_damaged_state_is_told_by_its_name(here):
    (here / "late").write_text("nan")
    options = ("train", *WALK, "--env-arg", "trouble=late", "--out", "walk")
    call(*options)
    state = here / "walk" / "learner.bin"
    state.write_bytes(state.read_bytes()[:-1])
    assert "learner.bin: data must be an unaltered learner" in refused(*options)
