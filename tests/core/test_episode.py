import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import position_episode, ragged_episode

TWO = np.eye(2)


@pytest.mark.parametrize(
    ("part", "value", "error", "message"),
    [
        ("features", [[1.0, np.nan], [0.0, 1.0]], ValueError, r"features must be finite; got nan"),
        ("features", [[1.0, np.inf], [0.0, 1.0]], ValueError, r"features must be finite; got inf"),
        ("features", [1.0, 2.0], ValueError, r"features must have shape \(n, d\); got \(2,\)"),
        ("features", np.zeros((0, 2)), ValueError, "features must have at least one step"),
        ("features", [["a", "b"]], TypeError, "features must be an array of real numbers"),
        ("features", TWO.astype(complex), TypeError, "features must be .*got complex128"),
        ("features", np.ma.array(TWO, mask=TWO), TypeError, "features must be .*a masked array"),
        ("features", TWO.astype("M8[s]"), TypeError, "features must be .*got datetime64"),
        ("features", TWO.astype(object), TypeError, "features must be .*got object"),
        ("rewards", ["0", "1"], TypeError, "rewards must be an array of real numbers; got <U1"),
        ("rewards", [0.5], ValueError, r"rewards must have shape \(2,\); got \(1,\)"),
        ("rewards", [0.5, 0.5, 0.5], ValueError, r"rewards must have shape \(2,\); got \(3,\)"),
        ("rewards", [0.5, np.nan], ValueError, r"rewards must be finite; got nan at index \(1,\)"),
        ("rewards", [-np.inf, 0.5], ValueError, r"rewards must be finite; got -inf"),
        ("rewards", [0.5, 1.5], ValueError, r"rewards must lie in \[0, 1\]; got 1\.5 at step 1"),
        ("rewards", [-0.1, 1.0], ValueError, r"rewards must lie in \[0, 1\]; got -0\.1 at step 0"),
        ("next_features", [], ValueError, "next_features must have 1 entries.*or 2.*got 0"),
        ("next_features", 3, TypeError, "next_features must be a list of arrays; got"),
        ("next_features", [TWO] * 3, ValueError, "next_features must have 1 entries.*got 3"),
        (
            "next_features",
            [np.zeros((0, 2))],
            ValueError,
            r"next_features\[0\].*empty feasible set",
        ),
        ("next_features", [[1.0, 0.0]], ValueError, r"next_features\[0\] must have shape \(A, 2\)"),
        ("next_features", [np.eye(3)], ValueError, r"next_features\[0\].*\(A, 2\); got \(3, 3\)"),
        ("next_features", [TWO, TWO * np.nan], ValueError, r"next_features\[1\] must be finite"),
    ],
)
def test_a_bad_episode_is_refused_by_name_and_value(part, value, error, message):
    parts = {"features": TWO, "rewards": [0.0, 1.0], "next_features": [TWO]}
    with pytest.raises(error, match=message):
        rs.Episode(**(parts | {part: value}))


def test_an_episode_holds_read_only_copies():
    features, rewards, menu = np.eye(2), np.array([0.0, 1.0]), np.eye(2)
    menus = [menu]
    episode = rs.Episode(features=features, rewards=rewards, next_features=menus)
    features[:], rewards[:], menu[:] = 9.0, 0.5, 9.0
    menus.append(menu)
    assert (episode.features == np.eye(2)).all()
    assert episode.rewards.tolist() == [0.0, 1.0]
    assert len(episode.next_features) == 1
    assert (episode.next_features[0] == np.eye(2)).all()
    for array in (episode.features, episode.rewards, episode.next_features[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0.0
    assert len(episode) == 2


def test_episodes_compare_and_tell_their_size():
    parts = {"features": TWO, "rewards": [0.0, 1.0], "next_features": [TWO]}
    episode, same = rs.Episode(**parts), rs.Episode(**parts)
    assert repr(episode) == "Episode(2 steps, d=2)"
    assert episode == same
    assert (episode != same) is False
    assert len({episode, same}) == 1
    for change in (
        {"features": 2 * TWO},
        {"rewards": [0.0, 0.5]},
        {"next_features": [2 * TWO]},
        {"next_features": [TWO[:1]]},
        {"next_features": [TWO, TWO]},
        {"features": TWO[:1], "rewards": [0.0], "next_features": []},
    ):
        other = rs.Episode(**parts | change)
        assert episode != other
        assert (episode == other) is False
    for other in ("episode", None, TWO):
        assert (episode == other) is False


def test_numbers_of_any_width_are_converted_once():
    parts = {"rewards": np.array([0, 1], np.int32), "next_features": [np.eye(2, dtype=np.int8)]}
    narrow = rs.Episode(features=np.eye(2, dtype=np.float32), **parts)
    assert narrow == rs.Episode(features=TWO, rewards=[0.0, 1.0], next_features=[TWO])
    assert narrow.features.dtype == narrow.rewards.dtype == np.float64


# One-hot features by their positions.


@pytest.mark.parametrize(
    ("part", "value", "error", "message"),
    [
        ("features", [0, -1], ValueError, "features must be positions from 0 to .*; got -1"),
        (
            "features",
            np.array([0, 2**63 + 5], np.uint64),
            ValueError,
            "features must be positions from 0 to .*; got 9223372036854775813",
        ),
        ("features", [0.0, 1.0], ValueError, r"features must have shape \(n, d\); got \(2,\)"),
        (
            "features",
            [True, False],
            TypeError,
            "features must be an array of real numbers; got bool",
        ),
        ("features", [[0, 1], [2]], TypeError, "features must be an array of numbers"),
        (
            "features",
            np.ma.array([0, 1], mask=[0, 1]),
            TypeError,
            "features must be the positions of ones.*; got a masked array",
        ),
        ("features", np.zeros(0, int), ValueError, "features must have at least one step"),
        ("features", np.eye(4)[:2], ValueError, r"next_features\[0\] must have shape \(A, 4\)"),
        (
            "next_features",
            [np.eye(3)],
            TypeError,
            r"next_features\[0\] must be the positions of ones, whole .*float64 of shape \(3, 3\)",
        ),
        (
            "next_features",
            [[0, 2], [0.0, 1.0]],
            TypeError,
            r"next_features\[1\] must be the positions .*float64 of shape \(2,\)",
        ),
        ("next_features", [[True]], TypeError, r"next_features\[0\] must be the positions .*bool"),
        ("next_features", [[[0, 1]]], TypeError, r"next_features\[0\] .*int64 of shape \(1, 2\)"),
        ("next_features", [3], TypeError, r"next_features\[0\] .*int64 of shape \(\)"),
        ("next_features", [[]], ValueError, r"next_features\[0\].*empty feasible set"),
        (
            "next_features",
            [np.arange(2), np.zeros(0, int)],
            ValueError,
            r"next_features\[1\].*empty feasible set",
        ),
        ("next_features", [[2, -7]], ValueError, "next_features.* from 0 to .*; got -7"),
        ("next_features", [np.array([2, -7])], ValueError, "next_features.* from 0 to .*; got -7"),
        (
            "next_features",
            [np.ma.array([0, 1], mask=[0, 1])],
            TypeError,
            "next_features.* must be the positions of ones.*; got a masked array",
        ),
    ],
)
def test_bad_positions_are_refused_by_name_and_value(part, value, error, message):
    parts = {"features": [0, 3], "rewards": [0.0, 1.0], "next_features": [[2, 3]]}
    with pytest.raises(error, match=message):
        rs.Episode(**(parts | {part: value}))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.uint64, ">i4"])
def test_positions_of_any_width_are_converted_once(dtype):
    narrow = rs.Episode(
        features=np.array([0, 7], dtype),
        rewards=[0.0, 1.0],
        next_features=[np.array([2, 3], dtype), np.array([9], dtype)],
    )
    same = rs.Episode(features=[0, 7], rewards=[0.0, 1.0], next_features=[(2, 3), [9]])
    assert narrow == same
    assert hash(narrow) == hash(same)
    for array in (narrow.features, *narrow.next_features):
        assert array.dtype == np.int64
    assert (narrow.one_hot, narrow.dim, len(narrow)) == (True, 10, 2)
    assert repr(narrow) == "Episode(2 steps, one-hot)"
    assert narrow != rs.Episode(features=[0, 7], rewards=[0.0, 1.0], next_features=[[3, 2], [9]])


def test_an_episode_holds_read_only_copies_of_positions():
    features, menu = np.array([0, 3]), np.array([2, 3])
    for menus in ([menu], [menu.copy(), [1, 2]]):  # all arrays, or some of them
        episode = rs.Episode(features=features, rewards=[0.0, 1.0], next_features=menus)
        kept = [episode.features.copy(), episode.next_features[0].copy()]
        features[:], menu[:] = 1, 1
        for array, was in zip((episode.features, episode.next_features[0]), kept, strict=True):
            assert (array == was).all()
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0
            owner = array if array.base is None else array.base
            assert not owner.flags.writeable
        features[:], menu[:] = (0, 3), (2, 3)


def test_rows_of_whole_numbers_are_rows():
    rows = rs.Episode(features=[[0, 1]], rewards=[1.0], next_features=[[[1, 0], [0, 1]]])
    assert (rows.one_hot, rows.dim) == (False, 2)
    assert rows.features.dtype == np.float64
    assert rows != rs.Episode(features=[1], rewards=[1.0], next_features=[[0, 1]])


def test_truths_are_no_positions():
    wrong = np.array([True, False])
    whole, rewards = np.array([1, 0]), np.zeros(2)
    with pytest.raises(TypeError, match="features must be an array of real numbers; got bool: con"):
        rs.Episode(features=wrong, rewards=rewards, next_features=[whole])
    with pytest.raises(TypeError, match=r"next_features\[0\] must be the positions of ones"):
        rs.Episode(features=whole, rewards=rewards, next_features=[wrong])


@pytest.mark.parametrize("part", ["features", "rewards", "next_features"])
def test_a_masked_array_is_refused_wherever_it_is(part):
    told = {"features": TWO, "rewards": np.zeros(2), "next_features": [TWO]}
    masked = np.ma.array(told[part][0] if part == "next_features" else told[part])
    told[part] = [masked] if part == "next_features" else masked
    with pytest.raises(TypeError, match=f"{part}.* must be an array of real numbers; got a masked"):
        rs.Episode(**told)


@pytest.mark.parametrize("steps", [2, 40])
@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
def test_one_bad_reward_of_many_is_refused(steps, bad):
    rewards = np.full(steps, 0.5)
    rewards[1] = bad
    with pytest.raises(ValueError, match="rewards must"):
        rs.Episode(
            features=np.ones((steps, 1)), rewards=rewards, next_features=[TWO[:, :1]] * steps
        )


@pytest.mark.parametrize("part", ["features", "rewards", "next_features"])
@pytest.mark.parametrize("kind", [np.array, np.ndarray.tolist], ids=["array", "list"])
def test_truths_are_no_numbers_wherever_they_are(part, kind):
    told = {"features": TWO, "rewards": np.zeros(2), "next_features": [TWO]}
    truths = kind(told[part][0] > 0.5 if part == "next_features" else told[part] > 0.5)
    told[part] = [truths] if part == "next_features" else truths
    with pytest.raises(
        TypeError,
        match=f"{part}.* must be an array of real numbers; got bool: convert True and False to 1",
    ):
        rs.Episode(**told)


@pytest.mark.parametrize("features", [np.eye(2), np.array([0, 1])], ids=["rows", "positions"])
@pytest.mark.parametrize("others", [np.array, np.ndarray.tolist], ids=["arrays", "lists"])
def test_a_view_made_before_an_array_was_set_read_only_cannot_change_an_episode(features, others):
    arrays = [features.copy(), np.array([0.25, 0.5]), features.copy()]
    views = [array[:] for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    given = [*arrays[:2], others(arrays[2])]  # all arrays, or one that must be converted
    episode = rs.Episode(features=given[0], rewards=given[1], next_features=[given[2]])
    twin = rs.Episode(features=features, rewards=[0.25, 0.5], next_features=[features])
    before = pickle.dumps(episode)
    for view in views:
        view[:] = 0
    assert episode == twin
    assert pickle.dumps(episode) == before


@pytest.mark.parametrize("one_hot", [True, False])
@given(st.integers(0, 10**6))
def test_an_episode_of_trusted_arrays_is_that_episode_and_copies_nothing(one_hot, seed):
    rng = np.random.default_rng(seed)
    old = (
        position_episode(rng, horizon=4, states=3, actions=3)
        if one_hot
        else ragged_episode(rng, horizon=4, dim=3)
    )
    lengths = [len(rows) for rows in old.next_features]
    assert len(old.next_rows) == sum(lengths)
    new = rs.Episode.trusted(old.features, old.rewards, old.next_rows, lengths)
    assert (new, hash(new), repr(new), new.dim) == (old, hash(old), repr(old), old.dim)
    assert new.features is old.features
    assert new.next_rows is old.next_rows
    for rows, same in zip(new.next_features, old.next_features, strict=True):
        assert np.shares_memory(rows, same)
        assert (rows.dtype, rows.shape, rows.tobytes()) == (same.dtype, same.shape, same.tobytes())
        assert not rows.flags.writeable


@pytest.mark.parametrize("again", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_of_an_episode_is_read_only_too(again):
    for old in (
        ragged_episode(np.random.default_rng(1), horizon=4, dim=3, steps=4),
        rs.Episode(features=[1, 2], rewards=[0.0, 1.0], next_features=[[3, 4]]),
    ):
        new = again(old)
        assert new == old
        for array in (new.features, new.rewards, new.next_rows, *new.next_features):
            assert not array.flags.writeable


@pytest.mark.parametrize("features", [np.eye(2)[:1], np.array([1])], ids=["rows", "positions"])
def test_such_a_view_cannot_change_an_episode_of_one_step_either(features):
    array, rewards = features.copy(), np.array([0.5])
    views = array[:], rewards[:]
    array.flags.writeable = rewards.flags.writeable = False
    episode = rs.Episode(features=array, rewards=rewards, next_features=[])
    for view in views:
        view[:] = 0
    assert episode == rs.Episode(features=features, rewards=[0.5], next_features=[])


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_no_older_view_writes_into_an_episode(kind):
    rows = np.eye(3) if kind is np.float64 else np.arange(3)
    rewards = np.array([0.5])
    views = rows[:], rewards[:]
    rows.flags.writeable = rewards.flags.writeable = False
    following = rows[1:]
    for made in (
        rs.Episode(features=rows[:1], rewards=rewards, next_features=[following]),
        rs.Episode(features=rows[:1], rewards=rewards, next_features=iter([following])),
        rs.Episode(features=rows[:1].tolist(), rewards=rewards, next_features=[following]),
    ):
        for part in (made.features, made.rewards, made.next_rows):
            assert not any(np.shares_memory(part, view) for view in views)
            assert not part.flags.writeable


@given(st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_an_episode_of_offers_is_that_of_the_rows_taken(one_hot, cut_off, seed):
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 6))
    offers = [
        rng.integers(0, 9, size) if one_hot else rng.random((size, 3))
        for size in rng.integers(1, 5, steps + cut_off).tolist()
    ]
    places = [int(rng.integers(len(rows))) for rows in offers[:steps]]
    rewards = rng.random(steps)
    wanted = rs.Episode(
        features=np.array([rows[i] for rows, i in zip(offers, places, strict=False)]),
        rewards=rewards,
        next_features=offers[1:],
        first_features=offers[0],
    )
    found = rs.Episode.of_offers(offers, places, rewards.copy())
    assert found == wanted
    assert (found.first_features == offers[0]).all()
    assert found.lengths == wanted.lengths
    offers[0][...] = 0  # copies, and read-only
    assert found == wanted
    for array in (found.features, found.rewards, found.next_rows, found.first_features):
        assert not array.flags.writeable


@pytest.mark.parametrize(
    ("offers", "places", "rewards", "message"),
    [
        ([TWO], [0], [1.5], "rewards must lie in"),
        ([TWO], [0], [0.5, 0.5], "rewards must have shape"),
        ([TWO * np.nan], [0], [0.5], "features must be finite"),
        ([TWO] * 3, [0], [0.5], "next_features must have 0 entries"),
        ([TWO, TWO[:0], TWO], [0, 0], [0.5, 0.5], "next_features"),
    ],
)
def test_bad_offers_are_refused_by_name(offers, places, rewards, message):
    with pytest.raises((ValueError, IndexError), match=message):
        rs.Episode.of_offers(offers, places, np.array(rewards))
