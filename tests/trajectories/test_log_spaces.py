import numpy as np
import pytest

from rareswitch.features import default_features
from rareswitch.trajectories import Trajectory, spaces_seen
from rareswitch.trajectories.spaces import Box, Dict, Discrete, Tuple


def log(observations, **more):
    return [
        Trajectory(
            observations=observations, actions=[0, 2], rewards=[0, 1], terminated=True, **more
        )
    ]


@pytest.mark.parametrize(
    ("observations", "space"),
    [
        ([0, 3, 1], Discrete(4)),
        ([-1, 3, 1], Box(())),
        ([0.5, 3.0, 1.0], Box(())),
        (np.zeros((3, 2)), Box((2,))),
        ([(1, 0.5)] * 3, Tuple((Discrete(2), Box(())))),
        ([{"a": 0, "b": [1.0, 2.0]}] * 3, Dict({"a": Discrete(1), "b": Box((2,))})),
    ],
)
def test_a_log_shows_its_spaces(observations, space):
    seen = spaces_seen(log(observations))
    assert (seen.observation_space, seen.action_space) == (space, Discrete(3))
    assert len(seen.sample) == 3


def test_masks_show_actions_that_nobody_took():
    assert spaces_seen(log([0, 1, 0], masks=np.ones((3, 5), bool))).action_space == Discrete(5)


def test_a_long_log_gives_a_sample(monkeypatch):
    monkeypatch.setattr("rareswitch.trajectories.spaces.SAMPLE", 10)
    assert len(spaces_seen(log([0, 1, 0]) * 100).sample) == 10


@pytest.mark.parametrize(
    ("observations", "name"),
    [
        ([0, 3, 1], "one-hot of 4 states × 3 actions"),
        (np.random.default_rng(0).normal(5.0, 2.0, (3, 2)), "3 actions"),
        (
            [{"a": 0, "b": [1.0, 2.0]}, {"a": 1, "b": [2.0, 2.0]}, {"a": 1, "b": [1.0, 0.0]}],
            "3 act",
        ),
    ],
)
def test_default_features_need_no_environment(observations, name):
    one = log(observations)
    features = default_features(*spaces_seen(one))
    assert name in features.name
    assert features.actions == 3
    assert len(features(one[0].observations[0])) == 3


def test_texts_need_features_and_empty_logs_are_refused():
    seen = spaces_seen(log(["a", "b", "c"]))
    assert seen.action_space.n == 3
    with pytest.raises(TypeError, match=r"got Text\(\): write a function from an observation"):
        default_features(*seen)
    with pytest.raises(ValueError, match="log must not be empty"):
        spaces_seen([])
