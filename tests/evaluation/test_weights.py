import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rareswitch.evaluation.weights import Weights, described, weights_of

ALL = np.ones((4, 2, 3), bool)


def test_a_weight_is_a_ratio_of_probabilities():
    agrees = np.array([[[1, 1, 0, 0], [1, 0, 0, 0]]], bool)
    assert weights_of(agrees, np.array([[0.25, 0.125]])).tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize(
    ("last", "effective"),
    [([1, 1, 1, 1], 4.0), ([3, 3, 3, 3], 4.0), ([5, 0, 0, 0], 1.0), ([2, 2, 0, 0], 2.0),
     ([1, 2, 3, 4], 100 / 30), ([0, 0, 0, 0], 0.0)],
)  # fmt: skip
def test_the_effective_number_of_episodes(last, effective):
    weights = np.column_stack([np.ones(4), last])
    found = described(weights, ALL)
    assert found.effective.tolist() == pytest.approx([4.0, effective])
    assert (found.largest, found.mean) == (max(last), np.mean(last))
    assert found.error == pytest.approx(np.std(last) / 2)


@given(hnp.arrays(np.float64, (6, 3), elements=st.floats(0, 1e3).map(lambda x: round(x, 6))))
def test_it_is_never_more_than_there_are_episodes(weights):
    effective = described(weights, np.ones((6, 3, 1), bool)).effective
    assert (effective <= 6 + 1e-9).all()
    assert ((effective >= 1 - 1e-9) == weights.any(axis=0)).all()


def test_untried_is_what_no_episode_shows():
    agrees = np.zeros((5, 4, 2), bool)
    agrees[3, :, 0] = True  # one member is shown to the end
    agrees[1, :1, 1] = True  # the other in its first stage only
    assert described(np.ones((5, 4)), agrees).untried == pytest.approx(3 / 8)


def some(**change):
    known = {
        "episodes": 100, "effective": np.array([90.0, 60.0, 40.0]), "largest": 3.0, "mean": 1.0,
        "error": 0.1, "untried": 0.0,
    }  # fmt: skip
    return Weights(**known | change)


def test_there_is_nothing_to_say_where_weights_are_well():
    assert some().reach == 3
    assert some().warnings("the candidate") == ()
    assert some(mean=0.8, untried=0.04).warnings("the candidate") == ()
    assert some(mean=0.8).missing == 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"effective": np.array([90.0, 21.0, 7.0])},
            "of 100 episodes 7.0 count for the candidate; at least 20 do up to stage 2 of 3",
        ),
        ({"untried": 0.25}, "no episode of the log shows 25% of what the candidate does"),
        (
            {"mean": 0.5},
            "the weights for the candidate average 0.50 and not 1: 50% of what it does could not "
            "happen in the log",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(change, words):
    assert some(**change).warnings("the candidate") == (words,)


def test_the_reach_ends_at_the_first_stage_with_too_few():
    assert some(effective=np.array([5.0, 50.0, 50.0])).reach == 0
    assert some(effective=np.array([50.0, 5.0, 50.0])).reach == 1
