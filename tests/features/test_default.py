import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rareswitch.features import ActionBlocks, OneHot, default_features, features_from_bytes
from rareswitch.features.default import COSINES, MOST_NUMBERS


def observations(space, count=50, seed=0):
    space.seed(seed)
    return [space.sample() for _ in range(count)]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(16, start=1),
        spaces.MultiDiscrete([10, 10, 10]),
        spaces.MultiBinary(10),
        spaces.Tuple([spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2)]),
    ],
)
def test_what_can_be_counted_gets_a_table(space):
    assert default_features(space, spaces.Discrete(3)) == OneHot.of(space, 3)


MIXED = spaces.Dict(x=spaces.Box(-1, 1, (2, 2)), gear=spaces.Discrete(3))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.inf, (4,)),
        spaces.Box(0, 255, (3, 3), np.uint8),
        spaces.Box(0.0, 1.0, ()),
        MIXED,
        spaces.MultiDiscrete([100, 100, 100, 100]),
        spaces.MultiBinary(40),
    ],
)
def test_all_others_get_a_basis_for_each_action(space):
    sample = observations(space)
    features = default_features(space, spaces.Discrete(3), sample)
    assert isinstance(features, ActionBlocks)
    assert (features.actions, features.norm) == (3, 1.0)
    for state in sample:
        rows = features(state)
        assert np.isfinite(rows).all()
        assert np.linalg.norm(rows, axis=1).max() <= 1.0 + 1e-9
    assert features_from_bytes(features.to_bytes()) == features
    assert features == default_features(space, 3, sample)


def test_units_of_measurement_do_not_matter():
    space = spaces.Box(-np.inf, np.inf, (3,))
    sample = np.random.default_rng(0).normal(size=(100, 3))
    units = np.array([1e-6, 1.0, 1e6])
    plain = default_features(space, 2, sample)
    scaled = default_features(space, 2, sample * units)
    np.testing.assert_allclose(scaled(sample[0] * units), plain(sample[0]), atol=1e-9)


def test_far_from_the_sample_features_stay_bounded():
    space = spaces.Box(-np.inf, np.inf, (2,))
    sample = np.random.default_rng(0).normal(size=(100, 2))
    features = default_features(space, 2, sample)
    np.testing.assert_array_equal(features([1e9, -1e9]), features([1e12, -1e12]))


def test_bounds_of_the_space_count_more_than_what_random_play_saw():
    space = spaces.Box(np.array([-1.2, -0.07]), np.array([0.6, 0.07]), dtype=np.float64)
    narrow = [[-0.5 + 0.01 * i, 0.001 * i] for i in range(10)]
    wide = [[-1.2, -0.07], [0.6, 0.07]]
    assert default_features(space, 3, narrow) == default_features(space, 3, wide)
    assert not np.allclose(*(default_features(space, 3, narrow)([x, 0.0]) for x in (0.0, 0.6)))


def test_bounds_far_wider_than_the_sample_say_nothing():
    sample = np.random.default_rng(0).normal(size=(100, 2))
    far, none = (spaces.Box(-end, end, (2,), np.float64) for end in (1e9, np.inf))
    assert default_features(far, 2, sample) == default_features(none, 2, sample)


def test_a_number_that_never_changed_and_has_no_bounds_is_no_trouble():
    space = spaces.Box(-np.inf, np.inf, (2,))
    features = default_features(space, 2, [[5.0, 0.0], [5.0, 1.0]])
    assert np.isfinite(features([5.5, 0.5])).all()


@pytest.mark.parametrize(("numbers", "cosines"), [(1, 80), (4, COSINES), (200, 201)])
def test_every_number_has_a_cosine_of_its_own(numbers, cosines):
    space = spaces.Box(-1.0, 1.0, (numbers,))
    features = default_features(space, 2, observations(space))
    assert features.dim == 2 * cosines
    low, high = -np.ones(numbers), np.ones(numbers)
    for place in range(numbers):
        moved = low.copy()
        moved[place] = high[place]
        assert not np.allclose(features(moved), features(low))


def test_a_world_plays_on_its_features():
    world = gym.make("CartPole-v1")
    sample = observations(world.observation_space, 2)
    world.action_space.seed(0)
    state, _ = world.reset(seed=0)
    sample = [state]
    for _ in range(100):
        state, _, ended, *_ = world.step(world.action_space.sample())
        sample.append(state)
        if ended:
            state, _ = world.reset()
    features = default_features(world.observation_space, world.action_space, sample)
    assert features(state).shape == (2, features.dim)
    assert features.dim <= 300


@pytest.mark.parametrize("sample", [None, [], [np.zeros(4)]])
def test_a_basis_needs_a_sample(sample):
    with pytest.raises(ValueError, match="sample must hold at least two observations"):
        default_features(spaces.Box(-1, 1, (4,)), 2, sample)


def test_a_sample_must_be_of_the_space():
    with pytest.raises(ValueError, match=r"state must have shape \(4,\); got \(3,\)"):
        default_features(spaces.Box(-1, 1, (4,)), 2, np.zeros((5, 3)))
    with pytest.raises(ValueError, match="state must be finite; got nan at index 3"):
        default_features(spaces.Box(-1, 1, (4,)), 2, [np.zeros(4), [0, 0, 0, np.nan]])


@pytest.mark.parametrize("space", [spaces.Box(0, 255, (84, 84), np.uint8), spaces.Discrete(10**6)])
def test_what_is_too_large_is_refused_with_what_to_do(space):
    with pytest.raises(
        ValueError, match=rf"at most {MOST_NUMBERS} numbers, .*--features module:name"
    ):
        default_features(space, 2, observations(space, 2))


def test_other_spaces_are_refused():
    with pytest.raises(TypeError, match="observation_space must be a"):
        default_features(spaces.Text(4), 2)
    with pytest.raises(TypeError, match="action_space must be Discrete"):
        default_features(spaces.Discrete(4), spaces.Box(-1, 1, (1,)))
