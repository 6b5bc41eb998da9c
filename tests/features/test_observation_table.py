"""A table of observations: known places, hashed places, bytes, and learning with it."""

import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from repeating_worlds import Catch, DeepSea, Grid

from rareswitch.features import (
    ActionBlocks,
    Masked,
    ObservationTable,
    OneHot,
    default_features,
    features_from_bytes,
)
from rareswitch.features.default import HASHED, LEAST_PLAYED
from rareswitch.features.observation_table import observation_key
from rareswitch.features.spaces import Numbers, space_of
from rareswitch.gym import setting_of, train

PAIRS = Numbers(shape=(2,))
MET = [[0, 1], [1, 0], [0, 1], [3, 4]]


def table(hashed=5):
    return ObservationTable.met(PAIRS, MET, hashed=hashed)


def test_known_observations_have_the_places_in_which_they_came():
    found = table()
    assert [found.index(one) for one in MET] == [0, 1, 0, 2]
    assert (found.count, found.size, found.steps) == (8, 8, 4)
    assert found.words == "3 observations met in 4 steps and 5 hashed places"
    np.testing.assert_array_equal(found.flat([3, 4]), np.eye(8)[2])


@given(st.lists(st.floats(-9.0, 9.0), min_size=2, max_size=2), st.integers(1, 7))
def test_others_have_a_hashed_place(observation, hashed):
    found = table(hashed)
    place = found.index(observation)
    assert place == found.index(tuple(observation)) == found.index(np.array(observation))
    known = [list(map(float, one)) for one in MET]
    assert (place < 3) == (observation in known)
    assert place < 3 + hashed


def test_hashed_places_are_shared_evenly():
    found = table(hashed=10)
    counts = np.bincount([found.index([9, i]) - 3 for i in range(2000)], minlength=10)
    assert counts.min() > 140  # five standard deviations below 200 are 133


def test_the_type_of_a_number_does_not_matter():
    for kind in (np.float32, np.float64, np.int8, np.uint8, bool):
        assert table().index(np.array([0, 1], kind)) == 0
    assert table().index([-0.0, 1.0]) == 0


def test_a_key_is_the_same_in_every_process_and_version():
    # Tables are kept in files: the key must not change, on any machine, ever.
    assert observation_key(PAIRS, [0.5, 2.0]) == 7444165730729951821
    code = (
        "from rareswitch.features.observation_table import observation_key as key\n"
        "from rareswitch.features.spaces import Numbers\n"
        "import sys; print(key(Numbers(shape=(2,)), [0.5, 2.0]), 'gymnasium' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.split() == ["7444165730729951821", "False"]


def test_observations_of_several_parts_have_keys_too():
    space = spaces.Dict(x=spaces.Box(-1.0, 1.0, (2,)), gear=spaces.Discrete(3))
    one, other = ({"x": [0.5, 0.0], "gear": gear} for gear in (1, 2))
    found = ObservationTable.met(space, [one, other], hashed=1)
    assert (found.index(one), found.index(other), found.index(one | {"gear": 0})) == (0, 1, 2)
    with pytest.raises(ValueError, match=r"state\['gear'\] must be from 0 to 2; got 3"):
        found.index(one | {"gear": 3})


def test_a_map_of_it_survives_its_bytes_and_can_be_masked():
    features = OneHot(states=8, actions=2, space=table())
    assert features.name == (
        "one-hot of 3 observations met in 4 steps and 5 hashed places × 2 actions"
    )
    read = features_from_bytes(features.to_bytes())
    assert read == features
    assert read.name == features.name
    for state in (*MET, [7, 7]):
        np.testing.assert_array_equal(read(state), features(state))
    masked = Masked(features, [[True, False], *[[True, True]] * 7])
    assert masked.feasible([0, 1]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"known": [1, 1]}, "known must be different keys"),
        ({"known": []}, "the number of known must be from 1"),
        ({"known": [-1, 2]}, "known must be at least 0"),
        ({"hashed": 0}, "hashed must be from 1"),
        ({"steps": 1}, "steps must be at least 2"),
    ],
)
def test_arguments_are_checked(arguments, message):
    given_ = {"space": PAIRS, "known": [1, 2], "hashed": 3, "steps": 9}
    with pytest.raises(ValueError, match=message):
        ObservationTable(**given_ | arguments)


def played(world, steps=600, seed=0):
    rng = np.random.default_rng(seed)
    found = [world.reset(seed=seed)[0]]
    for _ in range(steps):
        shown, _, ended, cut, _ = world.step(int(rng.integers(world.action_space.n)))
        found.append(shown)
        if ended or cut:
            found.append(world.reset()[0])
    return found


def test_observations_that_repeat_get_a_table_by_default():
    world = Catch()
    seen = played(world)
    features = default_features(world.observation_space, world.action_space, seen)
    assert isinstance(features.space, ObservationTable)
    assert len({features.index(one) for one in seen}) == len(features.space.known)
    assert features.dim == 3 * (len(features.space.known) + HASHED)


def test_a_picture_that_repeats_is_served_too():
    frames = [np.full((84, 84, 3), i % 7, np.uint8) for i in range(LEAST_PLAYED)]
    space = spaces.Box(0, 255, (84, 84, 3), np.uint8)
    assert len(default_features(space, 2, frames).space.known) == 7


def test_repeating_inside_an_episode_is_not_enough():
    world = Grid(crates=3, steps=50)  # crates stand elsewhere in every episode
    features = default_features(world.observation_space, 3, played(world))
    assert isinstance(features, ActionBlocks)


def test_little_play_shows_nothing():
    space = spaces.Box(0.0, 1.0, (2,))
    few = [[0.0, i % 2] for i in range(LEAST_PLAYED - 1)]
    assert isinstance(default_features(space, 2, few), ActionBlocks)
    assert isinstance(default_features(space, 2, [*few, [0.0, 1.0]]), OneHot)


def test_a_setting_says_what_the_table_is():
    setting = setting_of(DeepSea(5), horizon=5, rewards=(-1.0, 1.0))
    assert "observations met in" in setting.reasons["features"]
    assert f"{HASHED:,} hashed places × 2 actions" in setting.reasons["features"]


class BinaryCatch(Catch):
    observation_space = spaces.MultiBinary([10, 5])  # 2⁵⁰ states


def test_more_states_than_a_table_holds_may_repeat():
    setting = setting_of(BinaryCatch(), horizon=9, rewards=(-1.0, 1.0))
    assert isinstance(setting.features.space, ObservationTable)


def test_a_board_is_learnt_by_its_table():
    training = train(Catch(), episodes=150, switches=8, rewards=(-1.0, 1.0), horizon=9)
    assert training.totals[-50:].mean() > 0.6  # cosines: below 0.3
    world, agent = Catch(), training.agent
    shown, _ = world.reset(seed=5)
    copy = type(agent).from_bytes(agent.to_bytes())
    assert copy.begin().act(shown) == agent.begin().act(shown)


def test_space_of_takes_a_table_as_it_is():
    assert space_of(found := table()) is found
