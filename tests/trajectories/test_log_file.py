import sys

import pytest

import rareswitch as rs
from rareswitch.features import OneHot
from rareswitch.trajectories import (
    Rewards,
    Trajectory,
    episode_of,
    episodes_of,
    read_log,
    write_log,
)

ONE = Trajectory(observations=[0, 1], actions=[0], rewards=[0.1], terminated=True, key="a")


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".parquet"])
def test_the_suffix_says_the_format(tmp_path, suffix):
    path = tmp_path / f"log{suffix}"
    assert write_log(str(path), [ONE, ONE]) == 2
    assert list(read_log(str(path))) == [ONE, ONE]
    assert (path.read_bytes()[:4] == b"PAR1") == (suffix == ".parquet")


def test_errors_come_when_a_log_is_opened_and_not_at_its_first_episode(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*absent\.jsonl"):
        read_log(tmp_path / "absent.jsonl")
    with pytest.raises(ValueError, match=r"path must end with one of \.jsonl, .*csv; got log.txt"):
        read_log("log.txt")
    with pytest.raises(ValueError, match=r"path must end with one of \.jsonl, .*; got log.csv"):
        write_log("log.csv", [ONE])
    with pytest.raises(TypeError, match="path must be a path or a text; got 7"):
        write_log(7, [ONE])
    for wrong in (7, ONE):
        with pytest.raises(TypeError, match="log must be a file, a table of steps or a list"):
            read_log(wrong)


def test_trajectories_are_returned_as_they_are():
    assert list(read_log([ONE, ONE])) == [ONE, ONE]
    with pytest.raises(TypeError, match="log must be Trajectories; got 7"):
        list(read_log([ONE, 7]))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_log_that_is_there_is_not_written_over(tmp_path, suffix):
    path = tmp_path / f"log{suffix}"
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="path must be the path of a new log"):
        write_log(path, [ONE])
    assert path.read_bytes() == b"precious"


def test_parquet_is_written_once(tmp_path):
    with pytest.raises(ValueError, match="append must be False for Parquet"):
        write_log(tmp_path / "log.parquet", [ONE], append=True)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("wrong", [ONE, 7, [7]], ids=["one", "a number", "a list of numbers"])
def test_what_is_no_list_of_trajectories_is_named(tmp_path, suffix, wrong):
    with pytest.raises(TypeError, match="trajectories must be"):
        write_log(tmp_path / f"log{suffix}", wrong)


def test_lines_need_no_library_and_parquet_says_which(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    write_log(path, [ONE])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("rareswitch.support.extras.find_spec", lambda name: None)
    write_log(tmp_path / "log.jsonl", [ONE])
    assert list(read_log(tmp_path / "log.jsonl")) == [ONE]
    for call in (lambda: next(read_log(path)), lambda: write_log(tmp_path / "b.parquet", [ONE])):
        with pytest.raises(ImportError, match=r"pyarrow must be installed: .*\.\[logs\]"):
            call()


def test_episodes_of_a_log_warm_a_learner_up(tmp_path):
    path = tmp_path / "log.jsonl"
    long = Trajectory(
        observations=[0, 1, 0, 1], actions=[0, 1, 0], rewards=[0, 5, 10], terminated=True
    )
    write_log(path, [ONE, long])
    table, rewards = OneHot(states=2, actions=2), Rewards(0.0, 10.0)
    found = list(episodes_of(path, table, rewards, horizon=2))
    assert found == [episode_of(one, table, rewards, 2) for one in (ONE, long)]
    learner = rs.Learner(
        rs.Task(dim=4, horizon=2, one_hot=True), rs.EveryEpisode(), warm_start=found
    )
    assert learner.episodes == 0
