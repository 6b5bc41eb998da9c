import numpy as np
import pytest

from rareswitch.support import bootstrap


def weights(rounds, seed=0):
    return bootstrap.resamples(rounds, np.random.default_rng(seed))


def test_the_running_average_is_total_regret_over_episodes():
    regret = np.random.default_rng(0).random((2, 3, 40))
    average = bootstrap.running_average(regret)
    assert average.shape == regret.shape
    for k in (1, 7, 40):
        np.testing.assert_allclose(average[..., k - 1], regret[..., :k].mean(axis=-1))


def test_the_band_of_equally_spaced_runs_is_known():
    values = np.arange(11.0)[:, None] * [1.0, 10.0]
    low, high = bootstrap.run_band(np.random.default_rng(0).permutation(values))
    np.testing.assert_allclose(low, [2.0, 20.0])
    np.testing.assert_allclose(high, [8.0, 80.0])


def test_a_resample_is_as_many_rounds_drawn_with_replacement():
    rounds = 7
    drawn = weights(rounds) * rounds
    assert drawn.shape == (bootstrap.RESAMPLES, rounds)
    np.testing.assert_allclose(drawn, np.round(drawn))
    np.testing.assert_allclose(drawn.sum(axis=1), rounds)
    # Counts are binomial(7, 1/7): mean 1, variance 6/7; five standard errors over the resamples.
    error = 5 * np.sqrt(6 / 7 / bootstrap.RESAMPLES)
    assert np.abs(drawn.mean(axis=0) - 1.0).max() < error


def test_the_same_seed_gives_the_same_resamples_and_another_seed_others():
    np.testing.assert_array_equal(weights(9, seed=3), weights(9, seed=3))
    assert (weights(9, seed=3) != weights(9, seed=4)).any()


def test_the_interval_is_the_middle_95_percent():
    low, high = bootstrap.interval(
        np.random.default_rng(0).permutation(np.linspace(0.0, 1.0, 1001))
    )
    np.testing.assert_allclose([low, high], [0.025, 0.975])


def test_the_width_of_the_mean_interval_is_that_of_the_standard_error():
    values = np.random.default_rng(1).standard_normal(200)
    low, high = bootstrap.mean_interval(values, weights(200))
    # The bootstrap distribution is normal with the sample's standard error. An end is its 2.5%
    # quantile, estimated from 2000 resamples: five times √(pq/n)/density ≈ 0.3 standard errors.
    error = values.std() / np.sqrt(200)
    tolerance = 5 * np.sqrt(0.025 * 0.975 / bootstrap.RESAMPLES) / 0.0584 * error
    assert abs(low - (values.mean() - 1.96 * error)) < tolerance
    assert abs(high - (values.mean() + 1.96 * error)) < tolerance


def test_the_mean_interval_covers_the_true_mean_as_often_as_it_should():
    rounds, repeats = 50, 2000
    values = 3.0 + np.random.default_rng(2).standard_normal((rounds, repeats))
    low, high = bootstrap.mean_interval(values, weights(rounds))
    assert low.shape == high.shape == (repeats,)
    covered = np.mean((low <= 3.0) & (high >= 3.0))
    # P(|t₄₉| ≤ 1.96·√(49/50)) = 0.942, four standard errors of a fraction either way.
    assert abs(covered - 0.942) < 4 * np.sqrt(0.942 * 0.058 / repeats)


def test_the_interval_of_equal_rounds_is_a_point():
    low, high = bootstrap.mean_interval(np.full((6, 2), 0.25), weights(6))
    np.testing.assert_allclose([low, high], 0.25)


def test_the_ratio_is_of_means_and_paired():
    rng = np.random.default_rng(3)
    baseline = 1.0 + rng.random(40)
    np.testing.assert_allclose(bootstrap.ratio_interval(2 * baseline, baseline, weights(40)), 2.0)
    values = rng.permutation(2 * baseline)
    ratio, low, high = bootstrap.ratio_interval(values, baseline, weights(40))
    assert ratio == pytest.approx(values.sum() / baseline.sum())
    assert low < ratio < high
    # The delta method: Var ≈ Var(values − ratio·baseline)/(n·mean²); ends within 15%.
    error = (values - ratio * baseline).std() / np.sqrt(40) / baseline.mean()
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)


def test_differences_are_paired_by_round():
    rng = np.random.default_rng(4)
    baseline = 10.0 * rng.random(30)
    shifted = bootstrap.difference_interval(baseline + 0.5, baseline, weights(30))
    np.testing.assert_allclose(shifted, 0.5)
    values = rng.random(30)
    mean, low, high = bootstrap.difference_interval(values, baseline, weights(30))
    assert mean == pytest.approx(values.mean() - baseline.mean())
    expected = bootstrap.mean_interval(values - baseline, weights(30))
    np.testing.assert_allclose((low, high), expected)


@pytest.mark.parametrize("power", [-0.5, 0.0, 1.25])
def test_the_slope_of_a_power_law_is_its_exponent(power):
    episodes = np.array([10, 20, 50, 70, 400])
    curves = np.array([[1.0], [3.0]]) * episodes**power
    np.testing.assert_allclose(bootstrap.slope(curves, episodes), power, atol=1e-12)
    result = bootstrap.slope_interval(curves, episodes, weights(2))
    np.testing.assert_allclose(result, power, atol=1e-12)


def test_the_slope_is_that_of_least_squares():
    rng = np.random.default_rng(5)
    episodes = np.arange(1, 60)
    curve = np.exp(rng.standard_normal(59))
    expected = np.polyfit(np.log(episodes), np.log(curve), 1)[0]
    assert bootstrap.slope(curve, episodes) == pytest.approx(expected)


def test_the_slope_interval_is_of_the_mean_curve_and_spans_its_rounds():
    episodes = np.arange(10, 100)
    curves = np.stack([episodes**-0.3] * 5 + [episodes**-0.7] * 5)
    value, low, high = bootstrap.slope_interval(curves, episodes, weights(10))
    assert value == pytest.approx(float(bootstrap.slope(curves.mean(axis=0), episodes)))
    assert -0.7 < low < value < high < -0.3


def test_sign_flips_agree_with_all_signs_of_a_few_rounds():
    rng = np.random.default_rng(0)
    differences = rng.standard_normal((4, 8)) + np.array([0.0, 0.5, 1.0, 3.0])[:, None]
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 8)).reshape(8, -1).T  # all 256
    exact = (np.abs(signs @ differences.T) >= np.abs(differences.sum(axis=1)) - 1e-9).mean(axis=0)
    found = bootstrap.sign_flip_p(differences, np.random.default_rng(1))
    # Five standard errors of a share over the draws.
    error = 5 * np.sqrt(exact * (1 - exact) / bootstrap.SIGN_FLIPS) + 1 / bootstrap.SIGN_FLIPS
    assert (np.abs(found - exact) < error).all()


def test_no_difference_has_the_largest_p_value():
    assert bootstrap.sign_flip_p(np.zeros((1, 5)), np.random.default_rng(0)).tolist() == [1.0]


@pytest.mark.parametrize("seed", range(5))
def test_holm_rejects_step_by_step(seed):
    p = np.random.default_rng(seed).random(7) ** 3
    adjusted = bootstrap.holm(p)
    for level in (0.01, 0.05, 0.2):
        rejected = set()
        for step, i in enumerate(np.argsort(p)):  # Holm 1979, as it is printed
            if p[i] > level / (len(p) - step):
                break
            rejected.add(int(i))
        assert set(np.flatnonzero(adjusted <= level).tolist()) == rejected
