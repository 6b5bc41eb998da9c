"""`rareswitch compare`: what the log of a training says about two of its policies."""

import json
import os
from dataclasses import replace

import pytest

from cli.terminal import call, refused
from rareswitch.agent import Agent
from rareswitch.cli.compare import ESTIMATORS
from rareswitch.evaluation import Method, compare, estimators, evaluate
from rareswitch.features import OneHot
from rareswitch.gym.run import RunFolder
from rareswitch.trajectories import read_log, write_log

TABLE = OneHot(states=5, actions=2)
WALK = (
    "train", "cli.walk:Walk", "--episodes", 200, "--switches", 3, "--horizon", 6, "--rewards", 0, 1,
    "--evaluate", 0,
)  # fmt: skip


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    here = tmp_path_factory.mktemp("compared")
    before = os.getcwd()
    os.chdir(here)
    try:
        for options in ((), ("--seed", 1), ("--no-policies",)):
            out = "walk" + "".join(map(str, options))
            assert call(*WALK, *options, "--out", out).exit_code == 0
        own = ("--features", "cli.walk:rows", "--out", "own")
        assert call(*WALK, *own).exit_code == 0
    finally:
        os.chdir(before)
    return here


@pytest.fixture(autouse=True)
def here(trainings, monkeypatch):
    monkeypatch.chdir(trainings)
    return trainings


def compared(*options):
    result = call("compare", *options, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def judged(log, candidate, in_force=None, **method):
    folder = RunFolder(log.parent)
    return compare(
        folder.policy(candidate),
        read_log(log),
        against=None if in_force is None else folder.policy(in_force),
        against_name=None if in_force is None else f"version {in_force}",
        features=TABLE,
        method=Method(stages="shared", **method),
    )


def test_two_versions_are_compared_on_episodes_that_none_was_fitted_on(here):
    data = compared("walk", "--version", 3, "--against", 2)
    fresh = [one for one in read_log("walk/log.jsonl") if one.version >= 3]
    write_log(here / "fresh.jsonl", fresh)
    (here / "fresh.jsonl").rename(here / "walk" / "fresh.jsonl")
    found = judged(here / "walk" / "fresh.jsonl", 3, 2)
    assert (data["version"], data["against"], data["episodes"]) == (3, 2, len(fresh))
    assert data["gain"] == found.gain.to_dict()
    assert data["candidate"] == found.candidate.value.to_dict()
    assert data["in_force"] == found.against.value.to_dict()
    assert data["logged"] == found.logged.to_dict()
    assert data["verdict"] == found.verdict
    assert data["warnings"] == list(found.warnings)
    (here / "walk" / "fresh.jsonl").unlink()
    turned = compared("walk", "--version", 2, "--against", 3)
    assert turned["episodes"] == data["episodes"]
    assert turned["gain"]["value"] == pytest.approx(-data["gain"]["value"])


def test_without_another_version_the_log_is_the_yardstick(here):
    data = compared("walk", "--log", "walk--seed1/log.jsonl", "--version", 3)
    folder = RunFolder(here / "walk")
    log = read_log(here / "walk--seed1" / "log.jsonl")
    found = compare(folder.policy(3), log, features=TABLE, method=Method(stages="shared"))
    assert (data["against"], data["in_force"]) == (None, None)
    assert data["gain"] == found.gain.to_dict()
    assert data["effective_episodes"] == found.candidate.weights.effective[-1]
    assert data["largest_possible_weight"] == found.candidate.weights.possible


def test_there_is_no_verdict_on_the_episodes_of_a_fit(here):
    data = compared("walk")
    found = judged(here / "walk" / "log.jsonl", None)
    assert (data["version"], data["against"], data["episodes"]) == (None, None, 200)
    assert data["gain"] == {"value": found.gain.value, "low": None, "high": None}
    assert data["candidate"] == {"value": found.candidate.value.value, "low": None, "high": None}
    assert data["verdict"] == "no verdict: the candidate was fitted on these episodes"
    assert data["in_sample"]
    assert "fitted on these episodes" in data["warnings"][0]
    assert compared("walk", "--log", "walk/log.jsonl") == data
    other = compared("walk", "--log", "walk--seed1/log.jsonl")
    assert not other["in_sample"]
    assert not any("fitted on these" in warning for warning in other["warnings"])
    assert other["logged"] != data["logged"]


def test_the_log_beside_an_agent_gives_no_verdict_in_python(here):
    agent, log = Agent.load("walk/agent.bin"), "walk/log.jsonl"
    found = compare(agent, log)
    assert found.in_sample
    assert "[–]" in str(found.gain)
    assert found.warnings[0].startswith("the candidate was fitted on these episodes")
    assert not evaluate(agent, log).value.known
    assert not compare(agent, "walk--seed1/log.jsonl").in_sample
    assert not compare(agent, log, in_sample=False).in_sample
    assert not compare(RunFolder(here / "walk").policy(3), log, features=TABLE).in_sample


def test_the_estimators_are_those_of_the_library(here):
    assert ESTIMATORS == estimators.ESTIMATORS
    options = ("--estimator", "self-normalised", "--seed", 3)
    data = compared("walk", "--log", "walk/log.jsonl", "--version", 4, *options)
    found = judged(here / "walk" / "log.jsonl", 4, 3, estimator="self-normalised", seed=3)
    assert data["candidate"] == found.candidate.value.to_dict()
    assert data["propensities"] == "logged"


def test_propensities_are_fitted_on_demand(here):
    path = here / "bare.jsonl"
    write_log(path, [replace(one, propensities=None) for one in read_log("walk/log.jsonl")])
    words = "log must have propensities; trajectory 0 has none"
    assert words in " ".join(refused("compare", "walk", "--log", path).split())
    data = compared("walk", "--log", path, "--fit-propensities")
    assert data["propensities"] == "fitted"
    assert data["warnings"][0].startswith("PROPENSITIES ARE FITTED")
    assert (
        "FITTED PROPENSITIES" in call("compare", "walk", "--log", path, "--fit-propensities").stdout
    )
    path.unlink()


def test_a_table_with_other_names_has_its_columns_named(here):
    path = here / "walk.csv"
    rows = ["walker,place,turn,gain,over,propensity"]
    for n, one in enumerate(read_log("walk/log.jsonl")):
        last = len(one.actions) - 1
        rows += [
            f"{n},{one.observations[t]},{one.actions[t]},{one.rewards[t]},"
            f"{int(t == last)},{one.propensities[t]}"
            for t in range(last + 1)
        ]
    path.write_text("\n".join(rows) + "\n")
    told = " ".join(refused("compare", "walk", "--log", path).split())
    assert "--columns episode=… --columns observation=…" in told
    names = ["episode=walker", "observation=place", "action=turn", "reward=gain", "terminated=over"]
    options = [word for name in names for word in ("--columns", name)]
    data = compared("walk", "--version", 3, "--log", path, *options)
    assert data["episodes"] == 200
    assert data["propensities"] == "logged"
    path.unlink()


def test_features_that_are_code_are_found_again():
    assert compared("own", "--version", 2, "--allow", "cli.walk")["version"] == 2


def test_it_is_printed_for_people():
    lines = call("compare", "walk").stdout.splitlines()
    names = ["verdict", "recommended", "the log", "evidence"]
    assert [line[:16].strip() for line in lines[:4]] == names
    both = call("compare", "walk", "--against", 4).stdout.splitlines()
    assert both[2].startswith("version 4       return ")
    same = call("compare", "walk", "--version", 4, "--against", 4).stdout
    assert "no difference: the candidate is version 4" in same
    assert lines[4].startswith("note            the candidate was fitted on these episodes")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("absent",), "absent"),
        (("walk/policies",), "walk/policies must be the folder of a training"),
        (("walk/agent.bin",), "for the file of an agent, call rareswitch.evaluation.compare"),
        (("walk", "--version", 9), "version must be stored in walk, which has 1 to 4; got 9"),
        (("walk", "--against", 9), "version must be stored in walk, which has 1 to 4; got 9"),
        (("walk--no-policies", "--against", 1), "version must be stored in walk--no-policies"),
        (("walk", "--log", "walk/agent.bin"), "path must end with one of .jsonl"),
        (("walk", "--estimator", "guess"), "--estimator"),
        (("walk", "--columns", "action=turn"), "--columns needs a --log with a row for each step"),
        (("walk", "--log", "x.csv", "--columns", "action"), "--columns must be PART=COLUMN or"),
        (("walk", "--log", "x.csv", "--columns", "a=b", "--columns", "a=c"), "once for each part"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_compared_is_refused_by_name(options, word):
    assert word in " ".join(refused("compare", *options).split())
