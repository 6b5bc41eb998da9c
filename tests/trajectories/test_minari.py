"""Datasets that Minari itself wrote, here and without a network."""

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer

from rareswitch.trajectories import from_minari, read_log, write_log

pytestmark = pytest.mark.filterwarnings("ignore:.*env.* None:UserWarning")

spaces = gymnasium.spaces


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def dataset(observations, space, *, actions=(0, 1, 0), action_space=None, infos=None):
    """Return a dataset of two episodes of three steps, the first ended and the second cut off."""
    return created(
        [
            EpisodeBuffer(
                observations=observations,
                actions=np.array(actions),
                rewards=[0.5, -1.0, 2.0],
                terminations=[False, False, ended],
                truncations=[False, False, not ended],
                infos=infos,
            )
            for ended in (True, False)
        ],
        observation_space=space,
        action_space=action_space or spaces.Discrete(2),
    )


def created(buffers, **spaces):
    return minari.create_dataset_from_buffers(
        "test/data-v0", buffers, data_format="arrow", algorithm_name="none", author="nobody",
        author_email="nobody@example.org", code_permalink="https://example.org",
        description="for a test", **spaces,
    )  # fmt: skip


def test_episodes_of_a_dataset_become_trajectories(tmp_path):
    shown = np.arange(8, dtype=np.float32).reshape(4, 2) / 8
    first, second = from_minari(dataset(shown, spaces.Box(0.0, 1.0, (2,))))
    np.testing.assert_array_equal(first.observations, shown)
    assert first.observations.dtype == np.float64
    assert (first.actions.tolist(), first.rewards.tolist()) == ([0, 1, 0], [0.5, -1.0, 2.0])
    assert (first.terminated, second.terminated) == (True, False)
    assert (first.key, second.key) == (0, 1)
    for name in ("log.jsonl", "log.parquet"):
        write_log(tmp_path / name, [first, second])
        assert list(read_log(tmp_path / name)) == [first, second]


def test_observations_of_several_parts_come_one_after_the_other():
    space = spaces.Dict({"at": spaces.Discrete(9), "seen": spaces.Tuple([spaces.Box(0, 1, (2,))])})
    stacked = {"at": np.arange(4), "seen": (np.full((4, 2), 0.5, np.float32),)}
    first, _ = from_minari(dataset(stacked, space))
    assert [part["at"] for part in first.observations] == [0, 1, 2, 3]
    np.testing.assert_array_equal(first.observations[2]["seen"][0], [0.5, 0.5])


def test_actions_are_counted_from_0():
    space = spaces.Discrete(2, start=5)
    shifted = dataset(np.arange(4), spaces.Discrete(4), actions=[5, 6, 5], action_space=space)
    assert next(from_minari(shifted)).actions.tolist() == [0, 1, 0]


def test_actions_that_are_not_discrete_are_refused():
    forces = {"actions": np.zeros((3, 1), np.float32), "action_space": spaces.Box(0, 1, (1,))}
    pushed = dataset(np.arange(4), spaces.Discrete(4), **forces)
    with pytest.raises(ValueError, match="episode 0 of the dataset: actions must be a list of"):
        next(from_minari(pushed))


def test_infos_tell_propensities_and_masks():
    infos = {
        "p": np.array([[1.0], [0.5], [0.25], [1.0]]),
        "action_mask": np.array([[1, 0], [1, 1], [1, 1], [0, 1]], np.int8),
    }
    told = dataset(np.arange(4), spaces.Discrete(4), infos=infos)
    first = next(from_minari(told, propensity="p", mask="action_mask"))
    assert first.propensities.tolist() == [0.5, 0.25, 1.0]
    assert first.masks.tolist() == [[True, False], [True, True], [True, True], [False, True]]
    assert next(from_minari(told)).propensities is None
    with pytest.raises(ValueError, match=r"infos must hold 'q'; got .*p"):
        next(from_minari(told, propensity="q"))


def test_episodes_of_a_real_environment_are_what_was_played():
    world = gymnasium.make("CartPole-v1")
    rng, buffers = np.random.default_rng(0), []
    for episode in range(3):
        shown, taken, earned, ended = [world.reset(seed=episode)[0]], [], [], []
        while not any(ended):
            taken.append(int(rng.integers(2)))
            observation, reward, terminated, _, _ = world.step(taken[-1])
            shown.append(observation)
            earned.append(float(reward))
            ended.append(terminated)
        buffers.append(
            EpisodeBuffer(
                observations=np.array(shown),
                actions=np.array(taken),
                rewards=earned,
                terminations=ended,
                truncations=[False] * len(ended),
            )
        )
    read = from_minari(created(buffers, env=world))
    for buffer, trajectory in zip(buffers, read, strict=True):
        np.testing.assert_array_equal(trajectory.observations, buffer.observations)
        assert trajectory.actions.tolist() == buffer.actions.tolist()
        assert (trajectory.total, trajectory.terminated) == (len(buffer.rewards), True)
    world.close()


def test_what_is_no_dataset_is_named():
    with pytest.raises(TypeError, match="dataset must be a Minari dataset; got 'name'"):
        next(from_minari("name"))
