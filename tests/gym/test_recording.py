"""What is written while a learner plays, and what is left of it after a crash."""

import errno

import pytest

import rareswitch as rs
from rareswitch.features import OneHot
from rareswitch.gym import Rewards, Setting, play, recording
from rareswitch.gym.recording import Recording
from rareswitch.gym.run_folder import RunFolder
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
    monkeypatch.setattr(recording, "SECONDS", -1.0)
    monkeypatch.setattr(recording, "TIMES", 0.0)


def new_learner():
    """Return a learner with new policies before episodes 6, 11, 16, 21 and 26."""
    return SETTING.learner(rs.UniformGrid(batches=6), episodes=30)


def record(folder, learner, until, *, after=lambda number: None, **options):
    """Record episodes up to this one, doing something after each."""
    with Recording(folder, learner, **options) as kept:
        for game in play(learner, Door(), TABLE, episodes=until):
            kept.keep(game)
            after(game.number)


def test_every_episode_is_in_the_log_as_soon_as_it_is_kept(folder):
    learner = new_learner()
    with Recording(folder, learner) as kept:
        for game in play(learner, Door(), TABLE, episodes=7):
            kept.keep(game)
            log = list(read_log(folder.log))
            assert len(log) == game.number
            assert log[-1] == game.trajectory
        assert not folder.state.exists()
        assert kept.kept == 0
    assert kept.kept == 7
    assert folder.state.read_bytes() == learner.snapshot()


def test_every_deployed_policy_is_there_before_it_acts(folder):
    learner = new_learner()
    with Recording(folder, learner) as kept:
        assert folder.versions() == [1]
        for game in play(learner, Door(), TABLE, episodes=12):
            kept.keep(game)
            assert folder.versions() == list(range(1, len(learner.ledger) + 1))
    digests = [folder.policy(version).digest for version in (1, 2, 3)]
    assert digests == [deployment.digest for deployment in learner.ledger]


def test_policies_need_not_be_kept(folder):
    learner = new_learner()
    record(folder, learner, 12, policies=False)
    assert folder.versions() == []
    assert folder.learner().policy.digest == learner.policy.digest


def test_the_state_is_kept_from_time_to_time(folder, hurried):
    learner = new_learner()
    with Recording(folder, learner) as kept:
        for game in play(learner, Door(), TABLE, episodes=3):
            kept.keep(game)
            assert kept.kept == folder.learner().episodes == game.number


def test_what_comes_after_the_last_state_is_dropped_and_played_again(folder, tmp_path):
    whole = RunFolder(tmp_path / "whole")
    whole.begin({}, SETTING)
    record(whole, new_learner(), 30)
    learner = new_learner()
    record(folder, learner, 8)
    state = folder.state.read_bytes()
    record(folder, learner, 17)
    folder.state.write_bytes(state)  # as if killed now, with two policies and nine lines more
    with open(folder.log, "ab") as log:
        log.write(b'{"observations":[0')
    again = folder.learner()
    with Recording(folder, again):
        assert folder.versions() == [1, 2]
        assert len(list(read_log(folder.log))) == 8
    record(folder, again, 30)
    for name in ("log.jsonl", "learner.bin", *(f"policies/{v:03d}.bin" for v in range(1, 7))):
        assert (folder.path / name).read_bytes() == (whole.path / name).read_bytes(), name


def test_an_error_on_the_way_loses_nothing(folder):
    def stopped(number):
        if number == 5:
            raise RuntimeError("the bridge is down")

    with pytest.raises(RuntimeError, match="bridge"):
        record(folder, new_learner(), 9, after=stopped)
    assert folder.learner().episodes == 5


def test_an_episode_that_is_not_in_the_log_is_not_in_the_state(folder):
    learner = new_learner()
    with Recording(folder, learner) as kept:
        for game in play(learner, Door(), TABLE, episodes=3):
            kept.keep(game)
        kept.keep_state()
        for game in play(learner, Door(), TABLE, episodes=6):
            if game.number < 6:
                kept.keep(game)
    assert learner.episodes == 6
    assert folder.learner().episodes == kept.kept == 3


class Full:
    """A file on a disk that has room for three lines, and a little more."""

    def __init__(self, log):
        self.log, self.lines = log, 0

    def write(self, line):
        self.lines += 1
        return self.log.write(line if self.lines <= 3 else line[:10])

    def __getattr__(self, name):
        return getattr(self.log, name)


def test_a_full_disk_is_told_and_the_last_state_stays(folder, hurried):
    learner = new_learner()
    kept = Recording(folder, learner)
    kept._log = Full(kept._log)

    def play_on():
        with kept:
            for game in play(learner, Door(), TABLE, episodes=9):
                kept.keep(game)

    with pytest.raises(OSError, match="No space left") as caught:
        play_on()
    assert caught.value.errno == errno.ENOSPC
    assert folder.learner().episodes == 3
    assert [one.key for one in folder.episodes(3)] == [1, 2, 3]


def test_a_folder_in_use_is_refused_and_free_again_afterwards(folder):
    learner = new_learner()
    with (
        Recording(folder, learner),
        pytest.raises(ValueError, match=r"must not be in use; .*run is, by another process"),
    ):
        Recording(folder, new_learner())
    with Recording(folder, learner):
        pass
