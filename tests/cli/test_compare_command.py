"""`rareswitch compare`: what the log of a training says about two of its policies."""

import json
import os

import pytest

from cli.terminal import call, refused
from rareswitch.cli.compare import ESTIMATORS
from rareswitch.evaluation import Method, compare, estimators
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


def judged(log, candidate, in_force, **method):
    folder = RunFolder(log.parent)
    method = Method(stages="shared", **method)
    return compare(
        folder.policy(candidate), folder.policy(in_force), read_log(log), TABLE, method=method
    )


def test_a_version_is_judged_against_the_one_before_by_episodes_that_neither_knew(here):
    data = compared("walk", "--version", 3)
    fresh = [one for one in read_log("walk/log.jsonl") if one.version >= 3]
    write_log(here / "fresh.jsonl", fresh)
    (here / "fresh.jsonl").rename(here / "walk" / "fresh.jsonl")
    found = judged(here / "walk" / "fresh.jsonl", 3, 2)
    assert (data["version"], data["against"], data["episodes"]) == (3, 2, len(fresh))
    assert data["gain"] == found.gain._asdict()
    assert data["candidate"] == found.candidate.value._asdict()
    assert data["in_force"] == found.in_force.value._asdict()
    assert data["logged"] == found.logged._asdict()
    assert data["verdict"] == found.verdict
    assert data["warnings"] == list(found.warnings)
    (here / "walk" / "fresh.jsonl").unlink()
    turned = compared("walk", "--version", 2, "--against", 3)
    assert turned["episodes"] == data["episodes"]
    assert turned["gain"]["value"] == pytest.approx(-data["gain"]["value"])


def test_the_recommended_policy_is_said_to_know_the_log(here):
    data = compared("walk")
    assert (data["version"], data["against"], data["episodes"]) == (None, 4, 200)
    assert data["gain"] == judged(here / "walk" / "log.jsonl", None, 4).gain._asdict()
    assert "fitted on these very episodes" in data["warnings"][0]
    other = compared("walk", "--log", "walk--seed1/log.jsonl")
    assert not any("very episodes" in warning for warning in other["warnings"])
    assert other["logged"] != data["logged"]


def test_the_estimators_are_those_of_the_library(here):
    assert ESTIMATORS == estimators.ESTIMATORS
    options = ("--estimator", "self-normalised", "--seed", 3)
    data = compared("walk", "--log", "walk/log.jsonl", "--version", 4, *options)
    found = judged(here / "walk" / "log.jsonl", 4, 3, estimator="self-normalised", seed=3)
    assert data["candidate"] == found.candidate.value._asdict()


def test_features_that_are_code_are_found_again():
    assert compared("own", "--version", 2, "--allow", "cli.walk")["against"] == 1


def test_it_is_printed_for_people():
    lines = call("compare", "walk").stdout.splitlines()
    assert [line[:16].strip() for line in lines[:4]] == [
        "verdict",
        "recommended",
        "version 4",
        "the log",
    ]
    assert lines[4].startswith("note            the recommended policy was fitted on these very")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("absent",), "absent"),
        (("walk/policies",), "walk/policies must be the folder of a training"),
        (("walk", "--version", 1), "--against must be given for version 1"),
        (("walk", "--version", 9), "version must be one that walk keeps, 1 to 4; got 9"),
        (("walk", "--against", 9), "version must be one that walk keeps, 1 to 4; got 9"),
        (("walk--no-policies",), "walk--no-policies must keep policies to be compared"),
        (("walk", "--log", "walk/agent.bin"), "path must end with one of .jsonl"),
        (("walk", "--estimator", "guess"), "--estimator"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_compared_is_refused_by_name(options, word):
    assert word in " ".join(refused("compare", *options).split())
