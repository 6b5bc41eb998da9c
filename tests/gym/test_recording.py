"""The files that a training writes while it plays, and what is left of them after a crash."""

import errno

import pytest

import rareswitch as rs
from rareswitch.features import OneHot
from rareswitch.gym import Rewards, Setting, Training, run
from rareswitch.gym.run import Recording, RunFolder
from rareswitch.trajectories import read_log

TABLE = OneHot(states=1, actions=2)
SETTING = Setting(features=TABLE, horizon=1, rewards=Rewards())


class Door:
    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, float(action), True, False, {}


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.begin({}, SETTING)
    return folder


@pytest.fixture
def hurried(monkeypatch):
    """Keep the state after every episode."""
    monkeypatch.setattr(run, "SECONDS", -1.0)
    monkeypatch.setattr(run, "TIMES", 0.0)


def new_learner():
    """Return a learner with new policies before episodes 6, 11, 16, 21 and 26."""
    return SETTING.learner(rs.UniformGrid(batches=6), episodes=30)


def training_in(folder, learner=None, **options):
    return Training(SETTING, learner or new_learner(), Door(), folder=folder, **options)


def test_every_episode_is_in_the_log_as_soon_as_it_is_played(folder):
    def look(game):
        log = list(read_log(folder.log))
        assert len(log) == game.number
        assert log[-1] == game.trajectory
        assert not folder.state.exists()

    training = training_in(folder)
    assert not training.run(7, callback=lambda game: look(game) or game.number == 5)
    assert training.run(7)
    assert folder.state.read_bytes() == training.learner.snapshot()


def test_every_deployed_policy_is_there_before_it_acts(folder):
    training = training_in(folder)

    def look(game):
        assert folder.versions() == list(range(1, len(training.learner.ledger) + 1))

    training.run(12, callback=look)
    digests = [folder.policy(version).digest for version in (1, 2, 3)]
    assert digests == [deployment.digest for deployment in training.learner.ledger]


def test_policies_need_not_be_kept(folder):
    training = training_in(folder, policies=False)
    training.run(12)
    assert folder.versions() == []
    assert folder.learner().policy.digest == training.learner.policy.digest
    assert training.best is None


@pytest.mark.usefixtures("hurried")
def test_the_state_is_kept_from_time_to_time(folder):
    kept = []
    training_in(folder).run(
        4, callback=lambda game: kept.append(game.number > 1 and folder.learner().episodes)
    )
    assert kept == [False, 1, 2, 3]


def test_what_comes_after_the_last_state_is_dropped_and_played_again(folder, tmp_path):
    whole = RunFolder(tmp_path / "whole")
    whole.begin({}, SETTING)
    training_in(whole).run(30)
    training = training_in(folder)
    training.run(8)
    state = folder.state.read_bytes()
    training.run(17)
    folder.state.write_bytes(state)  # as if killed now, with two policies and nine lines more
    with open(folder.log, "ab") as log:
        log.write(b'{"observations":[0')
    again = training_in(folder, folder.learner())
    again.resume()
    assert len(again.totals) == 8
    Recording(folder, again.learner).close(again.learner)
    assert folder.versions() == [1, 2]
    assert len(list(read_log(folder.log))) == 8
    again.run(30)
    for name in ("log.jsonl", "learner.bin", *(f"policies/{v:03d}.bin" for v in range(1, 7))):
        assert (folder.path / name).read_bytes() == (whole.path / name).read_bytes(), name


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["callback", "write", "step"])
def test_an_error_or_ctrl_c_anywhere_loses_no_whole_episode(folder, monkeypatch, error, where):
    training, calls = training_in(folder), []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) == 5:
            raise error("the bridge is down")

    if where == "write":
        monkeypatch.setattr(Recording, "write", fail)
    if where == "step":
        monkeypatch.setattr(training.world, "step", lambda a: fail() or (0, 0.5, True, False, {}))
    with pytest.raises(error, match="bridge"):
        training.run(9, callback=fail if where == "callback" else lambda game: None)
    kept = folder.learner().episodes
    assert kept == training.learner.episodes == len(training.totals) == 4
    if where != "write":  # which wrote nothing here
        assert [one.key for one in folder.episodes(4)] == [1, 2, 3, 4]
        assert len(list(read_log(folder.log))) == 4


class Full:
    """A file on a disk that has room for three lines, and a little more."""

    def __init__(self, log):
        self.log, self.lines = log, 0

    def write(self, line):
        self.lines += 1
        return self.log.write(line if self.lines <= 3 else line[:10])

    def __getattr__(self, name):
        return getattr(self.log, name)


@pytest.mark.usefixtures("hurried")
def test_a_full_disk_is_told_and_the_last_state_stays(folder, monkeypatch):
    begin = Recording.__init__

    def full(self, *arguments, **options):
        begin(self, *arguments, **options)
        self._log = Full(self._log)

    monkeypatch.setattr(Recording, "__init__", full)
    with pytest.raises(OSError, match="No space left") as caught:
        training_in(folder).run(9)
    assert caught.value.errno == errno.ENOSPC
    assert folder.learner().episodes == 3
    assert [one.key for one in folder.episodes(3)] == [1, 2, 3]


def test_a_folder_in_use_is_refused_and_free_again_afterwards(folder):
    learner = new_learner()
    recording = Recording(folder, learner)
    with pytest.raises(ValueError, match=r"must not be in use; another process writes to .*run"):
        Recording(folder, new_learner())
    recording.close(learner)
    Recording(folder, learner).close(learner)
