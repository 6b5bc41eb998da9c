import numpy as np
import pytest

from rareswitch.trajectories.observation import (
    observation_of,
    plain,
    same_observations,
    settled,
    settled_observations,
)


@pytest.mark.parametrize(
    ("given", "dtype", "shape"),
    [
        ([0, 1, 2], np.int64, (3,)),
        ([0, 1.5], np.float64, (2,)),
        ([True, False], np.bool, (2,)),
        ([np.int8(1), np.int8(2)], np.int64, (2,)),
        ([[1.0, 2.0], [3.0, 4.0]], np.float64, (2, 2)),
        ([np.zeros(3, np.float32)] * 2, np.float64, (2, 3)),
        (np.zeros((2, 3, 1), np.uint8), np.int64, (2, 3, 1)),
        (np.zeros((2, 3), np.float16), np.float64, (2, 3)),
        ((np.array(7), np.array(8)), np.int64, (2,)),
    ],
)
def test_numbers_of_one_shape_become_one_array(given, dtype, shape):
    kept = settled_observations(given)
    assert (kept.dtype, kept.shape) == (dtype, shape)
    np.testing.assert_array_equal(kept, np.array(given))
    assert not kept.flags.writeable


def test_anything_else_is_a_tuple_of_observations():
    assert settled_observations(["low", np.str_("high")]) == ("low", "high")
    assert settled_observations([(14, 10, 0), (20, 10, 1)]) == ((14, 10, 0), (20, 10, 1))
    ragged = settled_observations([[1, 2], [3]])
    assert [part.tolist() for part in ragged] == [[1, 2], [3]]
    (first, _) = settled_observations([{"at": np.float32(0.5), "seen": [1, 2]}] * 2)
    assert type(first["at"]) is float
    assert first["seen"].dtype == np.int64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0.0, np.nan], r"observations must be finite; got nan at index \(1,\)"),
        ([(1.0, 2), (np.inf, 2)], r"observations\[1\]\[0\] must be finite; got inf"),
        ([{"a": [0.0]}, {"a": [np.nan]}], r"observations\[1\]\['a'\] must be finite"),
        ([None, None], r"observations\[0\] must be a number, a text, .*; got object"),
        ([[1, None]], r"observations\[0\] must be a number"),
        ([1j], r"observations\[0\] must be .*; got complex128"),
        ([{"": 1}], "must have nonempty texts as keys"),
        ([{"(0)": 1}], r"not like '\(0\)'; got '\(0\)'"),
        ([{3: 1}], "must have nonempty texts as keys.*; got 3"),
        ([{}], r"observations\[0\] must not be empty; got {}"),
        ([()], r"observations\[0\] must not be empty"),
        ([np.zeros(0)], r"observations\[0\] must hold at least one number"),
        ([2**63, 0], r"observations\[0\] must fit in 64 bits"),
        ([-(2**63), 0], "observations must fit in 64 bits"),
        ([(2**70,)], r"observations\[0\]\[0\] must fit in 64 bits"),
        ([[[1], [2, 3]]], r"observations\[0\] must have parts of one shape, or be a tuple"),
        ("text", "observations must be a list or an array; got 'text'"),
        ({"a": 1}, "observations must be a list or an array"),
        (np.ma.array([1.0, 2.0]), "observations must be .*; got a masked array"),
        (np.array(["2020"], "M8[D]"), "must be a number, a text"),
        ([["a", "b"]], r"observations\[0\] must be .*; got an array of texts"),
    ],
)
def test_what_is_no_observation_is_named(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        settled_observations(given)


def test_plain_values_say_what_is_a_tuple():
    observation = settled("seen", (3, {"at": np.array([0.5, 1.0]), "parts": ("x", True)}))
    values = {"(0)": 3, "(1)": {"at": [0.5, 1.0], "parts": {"(0)": "x", "(1)": True}}}
    assert plain(observation) == values
    assert same_observations(settled("seen", observation_of(values)), observation)


def test_more_than_ten_parts_keep_their_order():
    many = tuple(range(12))
    assert observation_of(dict(sorted(plain(many).items()))) == many


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((1, "a"), (1, "a"), True),
        ((1, "a"), (1, "b"), False),
        ((1,), (1, 2), False),
        ((1,), {"(0)": 1}, False),
        ({"a": np.array([1.0])}, {"a": np.array([1.0])}, True),
        ({"a": np.array([1.0])}, {"a": np.array([2.0])}, False),
        ({"a": 1}, {"b": 1}, False),
        (np.array([1.0]), (1.0,), False),
        (np.array([1.0, 2.0]), np.array([1.0]), False),
    ],
)
def test_observations_are_equal_in_every_number_or_not(one, other, same):
    assert same_observations(one, other) is same
