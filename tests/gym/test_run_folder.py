"""The folder of a training: what it holds, and whose it is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import rareswitch as rs
from rareswitch.features import Custom, OneHot
from rareswitch.gym import Agent, Rewards, Setting
from rareswitch.gym.run import Recording, RunFolder, described
from rareswitch.trajectories import Trajectory, write_log

SETTINGS = {"env_id": "Door", "episodes": 30, "rewards": (0.0, 1.0)}
TABLE = OneHot(states=2, actions=2)
SETTING = Setting(features=TABLE, horizon=3, rewards=Rewards(), reasons={"horizon": "as given"})
ONE = rs.Policy(weights=[[0.2, 0.5, 0.1, 0.9]] * 3, one_hot=True)
OTHER = rs.Policy(weights=[[0.5, 0.2, 0.1, 0.9]] * 3, one_hot=True)


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def episode(number):
    return Trajectory(
        observations=[0, 1], actions=[1], rewards=[0.5], terminated=True, version=1, key=number
    )


def test_a_new_folder_is_nobodys_and_is_made_when_it_is_begun(folder):
    folder.check(SETTINGS)
    assert not folder.path.exists()
    assert (folder.settings, folder.summary, folder.learner(), folder.agent()) == (None,) * 4
    assert folder.versions() == []
    folder.begin(SETTINGS, SETTING)
    assert folder.settings == {"env_id": "Door", "episodes": 30, "rewards": [0.0, 1.0]}
    assert folder.picked == described(SETTING)
    assert folder.picked["reasons"] == {"horizon": "as given"}
    folder.check(SETTINGS)


def test_other_settings_are_refused_with_those_that_it_has(folder):
    folder.begin(SETTINGS, SETTING)
    with pytest.raises(ValueError, match=r"same settings; .* has episodes = 30: choose another"):
        folder.check(SETTINGS | {"episodes": 31})
    with pytest.raises(ValueError, match="has seed = null"):
        folder.check(SETTINGS | {"seed": 0})
    with pytest.raises(ValueError, match='has env_id = "Door", episodes = 30, rewards'):
        folder.check({})


def begun(folder, episodes=0):
    """Begin a training in the folder, and end it after this number of episodes."""
    folder.begin(SETTINGS, SETTING)
    recording = Recording(folder, learner := SETTING.learner(rs.EveryEpisode(), episodes=30))
    for number in range(1, episodes + 1):
        learner.observe(rs.Episode(features=[1], rewards=[0.5], next_features=[]))
        recording.write(episode(number))
    return recording, learner


def test_a_training_without_an_episode_leaves_its_folder_to_other_settings(folder):
    recording, learner = begun(folder)
    for ended in (False, True):  # while it plays its first episode, the folder is not free
        if ended:
            recording.close(learner)
            folder.check(SETTINGS | {"episodes": 31})
        else:
            with pytest.raises(ValueError, match="same settings"):
                folder.check(SETTINGS | {"episodes": 31})
    assert list(folder.path.iterdir()) == []
    folder.begin(SETTINGS | {"episodes": 31}, replace(SETTING, horizon=4))
    assert folder.settings["episodes"] == 31


def test_an_episode_or_a_file_of_others_keeps_the_folder(folder):
    recording, learner = begun(folder, episodes=1)
    recording.close(learner)
    before = sorted(folder.path.rglob("*"))
    with pytest.raises(ValueError, match="same settings"):
        folder.check(SETTINGS | {"episodes": 31})
    folder.log.write_bytes(b"")
    (folder.path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="same settings"):
        folder.check(SETTINGS | {"episodes": 31})
    assert sorted(folder.path.rglob("*")) == sorted([*before, folder.path / "notes.txt"])


def test_a_wider_range_of_rewards_is_accepted_and_written_down(folder):
    folder.begin(SETTINGS, SETTING)
    with pytest.raises(ValueError, match="has rewards"):
        folder.check(SETTINGS | {"rewards": [0.0, 0.5]})
    wider = SETTINGS | {"rewards": [-1.0, 5.0]}
    folder.check(wider)
    for _ in range(2):  # the same range is written once
        folder.begin(wider, SETTING, episodes=7)
    assert folder.widened == [[7, -1.0, 5.0]]
    folder.check(SETTINGS)
    folder.begin(SETTINGS, SETTING, episodes=9)
    assert folder.widened == [[7, -1.0, 5.0]]
    assert folder.settings["rewards"] == [0.0, 1.0]


def test_other_picks_are_refused_and_nothing_is_overwritten(folder):
    folder.begin(SETTINGS, SETTING)
    before = (folder.path / "settings.json").read_bytes()
    folder.begin(SETTINGS, SETTING)
    other = Setting(features=TABLE, horizon=4, rewards=Rewards())
    with pytest.raises(ValueError, match=r"must not change .* at the start they had horizon = 3"):
        folder.begin(SETTINGS, other)
    assert (folder.path / "settings.json").read_bytes() == before


def test_a_name_of_the_features_in_other_words_is_accepted(folder):
    folder.begin(SETTINGS, SETTING)
    stored = json.loads((folder.path / "settings.json").read_text())
    stored["picked"]["features"] = "a table"
    (folder.path / "settings.json").write_text(json.dumps(stored))
    folder.begin(SETTINGS, SETTING)
    assert folder.picked["features"] == "a table"


def test_reasons_in_other_words_are_accepted(folder):
    folder.begin(SETTINGS, SETTING)
    folder.begin(SETTINGS, replace(SETTING, reasons={"horizon": "given by the caller"}))
    assert folder.picked["reasons"] == {"horizon": "as given"}


def test_what_is_not_a_training_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("words")
    with pytest.raises(ValueError, match="is a file"):
        RunFolder(file).check(SETTINGS)
    with pytest.raises(ValueError, match="holds other files"):
        RunFolder(tmp_path).check(SETTINGS)
    for damaged in ("", "[]", '{"settings": 3}', "{"):
        (tmp_path / "settings.json").write_text(damaged)
        assert RunFolder(tmp_path).settings is None
        with pytest.raises(ValueError, match="holds other files"):
            RunFolder(tmp_path).check(SETTINGS)
    with pytest.raises(ValueError, match="must have a name"):
        RunFolder(Path("/")).check(SETTINGS)


def test_a_learner_is_kept_and_restored(folder):
    folder.begin(SETTINGS, SETTING)
    learner = SETTING.learner(rs.UniformGrid(batches=3), episodes=30)
    for _ in range(12):
        learner.observe(rs.Episode(features=[1], rewards=[0.5], next_features=[]))
    folder.state.write_bytes(learner.snapshot())
    assert folder.learner().snapshot() == learner.snapshot()
    rule = rs.UniformGrid(batches=4)
    with pytest.raises(ValueError, match=r"learner\.bin: schedule must equal the stored schedule"):
        folder.learner(schedule=rule)
    folder.state.write_bytes(b"rareswitch")
    with pytest.raises(ValueError, match=r"learner\.bin: data must be"):
        folder.learner()


def test_the_episodes_that_a_learner_knows_must_be_there_in_order(folder):
    folder.begin(SETTINGS, SETTING)
    assert list(folder.episodes(0)) == []
    write_log(folder.log, [episode(k) for k in (1, 2, 3)])
    assert [one.key for one in folder.episodes(2)] == [1, 2]
    assert list(folder.episodes(3)) == [episode(1), episode(2), episode(3)]
    with open(folder.log, "ab") as log:
        log.write(b'{"observations":')
    assert len(list(folder.episodes(3))) == 3
    with pytest.raises(ValueError, match=r"log\.jsonl must hold the 4 episodes .*; got 3"):
        list(folder.episodes(4))
    folder.log.unlink()
    write_log(folder.log, [episode(1), episode(3)])
    with pytest.raises(ValueError, match=r"log\.jsonl, line 2: must be episode 2; got 3"):
        list(folder.episodes(2))


def test_deployed_policies_are_found_by_their_versions(folder):
    folder.begin(SETTINGS, SETTING)
    with pytest.raises(ValueError, match="which has none; got 1"):
        folder.policy(1)
    folder.write_policy(1, ONE)
    folder.write_policy(2, OTHER)
    assert folder.policy_file(2).name == "002.bin"
    assert folder.versions() == [1, 2]
    assert folder.policy(1).digest == ONE.digest
    assert folder.policy(2).digest == OTHER.digest
    with pytest.raises(ValueError, match="which has 1 to 2; got 3"):
        folder.policy(3)


def test_an_agent_is_kept_with_its_features_or_as_a_policy_where_they_are_code(tmp_path):
    data, code = RunFolder(tmp_path / "data"), RunFolder(tmp_path / "code")
    for folder in (data, code):
        folder.begin(SETTINGS, SETTING)
        with pytest.raises(ValueError, match="must be finished to recommend a policy"):
            folder.policy()
    data.write_agent(Agent(policy=ONE, features=TABLE, rewards=Rewards(0.0, 2.0)))
    assert data.agent().rewards == Rewards(0.0, 2.0)
    assert data.agent().features == TABLE
    own = Custom(TABLE, actions=2, dim=4, one_hot=True)
    code.write_agent(Agent(policy=ONE, features=own))
    assert code.agent() is None
    assert data.policy().digest == code.policy().digest == ONE.digest


def test_the_summary_says_that_a_training_is_finished(folder):
    folder.begin(SETTINGS, SETTING)
    assert folder.summary is None
    folder.write_summary({"return": 0.5, "finished": False})
    assert folder.summary is None
    folder.write_summary({"return": 0.5, "notes": ["ε"], "finished": True})
    assert folder.summary == {"return": 0.5, "notes": ["ε"], "finished": True}
    assert json.loads((folder.path / "summary.json").read_text("utf-8")) == folder.summary
    (folder.path / "summary.json").write_text("{")
    with pytest.raises(ValueError, match=r"summary\.json cannot be read"):
        _ = folder.summary
