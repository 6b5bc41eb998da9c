import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.trajectories import Rewards

ENDS = st.floats(-1e6, 1e6)
RANGES = st.tuples(ENDS, ENDS).map(sorted).filter(lambda ends: max(map(abs, ends)) > 1e-6)


@given(RANGES, st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9))
def test_scaling_is_undone_in_what_is_shown(ends, places):
    low, high = ends
    rewards = Rewards(low, high)
    given = low + (high - low) * np.array(places)
    scaled = rewards.scaled_all(given.clip(low, high))
    assert scaled.min() >= 0.0
    assert scaled.max() <= 1.0
    width = rewards.high - rewards.low
    total = float(scaled.sum()) * width + len(scaled) * rewards.low
    assert total == pytest.approx(given.sum(), abs=1e-8 * width * len(scaled))


@given(RANGES, st.integers(1, 9), st.integers(0, 9))
def test_stages_that_are_not_played_add_nothing(ends, played, left):
    rewards = Rewards(*ends)
    scaled = rewards.scaled(ends[1]) * played
    width = rewards.high - rewards.low
    alone = scaled * width + played * rewards.low
    padded = (scaled + left * rewards.end) * width + (played + left) * rewards.low
    assert padded == pytest.approx(alone, abs=1e-9 * width * (played + left))


@pytest.mark.parametrize(
    ("ends", "widened", "end"),
    [
        ((0.0, 1.0), (0.0, 1.0), 0.0),
        ((-1.0, 20.0), (-1.0, 20.0), 1 / 21),
        ((-100.0, -1.0), (-100.0, 0.0), 1.0),
        ((1.0, 5.0), (0.0, 5.0), 0.0),
        ((-1, -1), (-1.0, 0.0), 1.0),
        ((2, 2), (0.0, 2.0), 0.0),
    ],
)
def test_the_range_is_widened_to_hold_0(ends, widened, end):
    rewards = Rewards(*ends)
    assert (rewards.low, rewards.high) == widened
    assert rewards.end == pytest.approx(end)
    assert rewards.scaled(0.0) == pytest.approx(end)


def test_rounding_is_forgiven_and_more_is_not():
    rewards = Rewards(-2.0, 2.0)
    assert rewards.scaled(2.0 + 1e-9) == 1.0
    assert rewards.scaled(-2.0 - 1e-9) == 0.0
    for wrong in (2.0 + 1e-7, -2.0 - 1e-7):
        with pytest.raises(
            ValueError, match=r"reward must be from -2 to 2; got .*: give the range"
        ):
            rewards.scaled(wrong)
    with pytest.raises(ValueError, match=r"reward must be from -2 to 2; got 3.0"):
        rewards.scaled_all(np.array([0.0, 3.0]))


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ((1.0, -1.0), "^low must be at most high; got low = 1 and high = -1$"),
        ((0.0, 0.0), "^low and high must not both be 0: a range needs a width$"),
        ((np.nan, 1.0), "low must be a finite number"),
        ((0.0, np.inf), "high must be a finite number"),
        ((-1e308, 1e308), "high - low must be a finite number"),
        ((0.0, 1e-310), "high - low must be .* at least 1e-300"),
        (("a", 1.0), "low must be a finite number; got 'a'"),
    ],
)
def test_what_is_no_range_is_named(ends, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Rewards(*ends)


def test_a_reward_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="reward must be a finite number; got nan"):
        Rewards().scaled(float("nan"))
    with pytest.raises(ValueError, match="rewards must be finite"):
        Rewards().scaled_all(np.array([np.nan]))
