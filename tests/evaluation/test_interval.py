import numpy as np
import pytest

from rareswitch.evaluation import interval
from rareswitch.evaluation.interval import (
    LEAST_EPISODES,
    Interval,
    Resampling,
    interval_of,
)
from rareswitch.support.bootstrap import RESAMPLES, resamples


def rng():
    return np.random.default_rng(0)


def test_means_are_those_of_resampled_episodes():
    columns = np.random.default_rng(1).random((50, 3))
    np.testing.assert_allclose(Resampling(50, rng()).means(columns), resamples(50, rng()) @ columns)


@pytest.mark.parametrize("episodes", [100, 137, 1000])
def test_of_many_episodes_groups_are_drawn_and_the_spread_stays(monkeypatch, episodes):
    monkeypatch.setattr(interval, "MOST_GROUPS", 60)
    columns = np.random.default_rng(2).normal(5.0, 1.0, (episodes, 4))
    means = Resampling(episodes, rng()).means(columns)
    assert means.shape == (RESAMPLES, 4)
    error = columns.std(axis=0) / np.sqrt(episodes)
    assert (np.abs(means.mean(axis=0) - columns.mean(axis=0)) < 0.3 * error).all()
    # Sixty groups tell their spread to 1/√120.
    np.testing.assert_allclose(means.std(axis=0), error, rtol=4 / np.sqrt(120))


def test_groups_of_unequal_size_leave_a_mean_of_equal_values_as_it_is(monkeypatch):
    monkeypatch.setattr(interval, "MOST_GROUPS", 10)
    means = Resampling(100, rng()).means(np.full((100, 1), 7.0))
    np.testing.assert_allclose(means, 7.0)


def test_the_interval_is_around_the_value():
    found = interval_of(0.5, np.linspace(0.0, 1.0, 1001))
    assert found == pytest.approx((0.5, 0.025, 0.975))
    assert str(Interval(-1234.5, -2000.0, 0.0)) == "-1.23e+03 [-2e+03, 0]"


def test_the_ends_of_too_few_episodes_are_a_dash():
    resampled = np.linspace(0.0, 1.0, 1001)
    few = interval_of(0.5, resampled, LEAST_EPISODES - 1)
    enough = interval_of(0.5, resampled, LEAST_EPISODES)
    assert (few.known, enough.known) == (False, True)
    assert (str(few), str(-few), str(enough)) == ("0.5 [–]", "-0.5 [–]", "0.5 [0.025, 0.975]")
    assert few.to_dict() == {"value": 0.5, "low": None, "high": None}
    assert list((-enough).to_dict().values()) == pytest.approx([-0.5, -0.975, -0.025])


LAWS = {
    "rare": (0.1, lambda rng, n: rng.binomial(1, 0.1, n)),
    "frequent": (0.74, lambda rng, n: rng.binomial(1, 0.74, n)),
    "normal": (0.0, lambda rng, n: rng.normal(0.0, 1.0, n)),
    "skew": (1.0, lambda rng, n: rng.exponential(1.0, n)),
}


@pytest.mark.parametrize("law", LAWS)
def test_intervals_that_are_shown_hold_the_mean_nine_times_in_ten(law):
    mean, draw = LAWS[law]
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        returns = draw(rng, LEAST_EPISODES).astype(float)[:, None]
        low, high = interval_of(0.0, Resampling(LEAST_EPISODES, rng).means(returns)[:, 0])[1:]
        held += low <= mean <= high
    # At 91%, the least of the four, fewer than 169 of 200 hold with probability 0.002.
    assert held >= 169, held
