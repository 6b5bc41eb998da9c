import numpy as np
import pytest

import rareswitch as rs

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
