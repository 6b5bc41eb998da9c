"""Compensated sums against exact arithmetic, alone and in what a learner recommends."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import repeat

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import ragged_learning, unit_rows
from rareswitch.core import sums
from rareswitch.core.history import History
from rareswitch.core.lsvi import fit
from rareswitch.core.recipe import Recipe

UNIT_ROUNDOFF = 2.0**-53
GREEDY = Recipe(exploration=rs.Bonus(0.0), ties="lowest", clip=False)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60))
def test_total_and_lost_are_the_sum_to_one_rounding_of_what_was_lost(values):
    total, lost = sums.zeros(1)
    for value in values:
        sums.add(total, lost, np.array([value]))
    exact = sum(map(Fraction, values))
    error = abs(Fraction(total[0]) + Fraction(lost[0]) - exact)
    # What is lost in one addition is at most half an ulp of the largest sum.
    assert error <= len(values) ** 2 * Fraction(math.ulp(math.ulp(60e9)))


def test_what_cancels_is_kept():
    total, lost = sums.zeros(1)
    for value in (1e16, 1.0, -1e16, 1e-20):
        sums.add(total, lost, np.array([value]))
    assert total + lost == 1.0 + 1e-20


def test_only_the_place_asked_for_grows():
    total, lost = sums.zeros(3, 2)
    sums.add(total, lost, np.array([0.1, 0.2]), 1)
    sums.add(total, lost, np.array([[1e16, 1.0], [1.0, 1e16]]), ([0, 1], slice(None)))
    sums.add(total, lost, np.array([1.0, 1.0]), 0)
    assert total.tolist() == [[1e16, 2.0], [1.1, 1e16], [0.0, 0.0]]
    assert lost[0].tolist() == [1.0, 0.0]
    assert lost[1, 1] == 0.2
    assert not lost[2].any()


def exact_weights(steps, *, ridge):
    """Return (λI + Σnφφᵀ)⁻¹·Σnrφ of steps (φ, r, n), in exact arithmetic until the end."""
    rows = [([Fraction(x) for x in feature], Fraction(r), n) for feature, r, n in steps]
    dims = range(len(rows[0][0]))
    gram = [[sum(n * f[i] * f[j] for f, _, n in rows) for j in dims] for i in dims]
    target = [sum(n * r * f[i] for f, r, n in rows) for i in dims]
    with mpmath.workdps(80):
        matrix = mpmath.matrix([[mpmath.mpf(x.numerator) / x.denominator for x in g] for g in gram])
        matrix += mpmath.mpf(ridge) * mpmath.eye(len(dims))
        column = mpmath.matrix([mpmath.mpf(x.numerator) / x.denominator for x in target])
        return np.array([float(x) for x in mpmath.lu_solve(matrix, column)])


def single_step(feature, reward):
    return rs.Episode(features=[feature], rewards=[reward], next_features=[])


def recommended(log, *, dim, ridge):
    history = History.from_log(log, dim=dim, horizon=1, ridge=ridge)
    return fit(history, replace(GREEDY, ridge=ridge), version=0).weights[0], history.whitener[0]


def test_one_feature_a_hundred_thousand_times_says_nothing_of_other_directions():
    count, ridge = 100_000, 1e-6
    feature = np.array([0.1, 0.7, 0.3, 0.64])  # no component is a sum of few powers of two
    found, whitener = recommended(repeat(single_step(feature, 1.0), count), dim=4, ridge=ridge)
    exact = exact_weights([(feature.tolist(), 1, count)], ridge=ridge)
    # W is rounded in every step, by u·‖W‖ = u/√λ, so after K it is off by √K·u/√λ. It is applied
    # twice, to a target of ‖b‖ ≤ ‖Λ‖.
    tolerance = math.sqrt(count) * UNIT_ROUNDOFF * (count * feature @ feature) / ridge
    assert np.abs(found - exact).max() < tolerance < 4e-3
    # Added plainly, Σrφ turns away from φ, and Λ⁻¹ magnifies that by 1/λ.
    plain = np.add.accumulate(np.tile(feature, (count, 1)), axis=0)[-1]
    assert np.abs(whitener.T @ (whitener @ plain) - exact).max() > 5 * tolerance


@pytest.mark.parametrize("longest", [1e3, 1e6])
def test_a_feature_at_the_largest_norm_leaves_room_for_unit_features(longest):
    rng = np.random.default_rng(1)
    features = unit_rows(rng, 40, 3)
    features[7] = longest * (1 - 1e-12) * np.array([0.36, 0.48, 0.8])
    rewards = rng.integers(0, 2, 40).astype(float)
    rewards[7] = 1.0
    found, _ = recommended(map(single_step, features, rewards), dim=3, ridge=1.0)
    steps = zip(features.tolist(), rewards.tolist(), repeat(1))
    # ‖W‖ ≤ 1 is rounded in each of K = 40 steps, and ‖b‖ ≈ L.
    tolerance = math.sqrt(40) * UNIT_ROUNDOFF * longest
    assert np.abs(found - exact_weights(list(steps), ridge=1.0)).max() < tolerance


@pytest.mark.parametrize("longest", [1e6 * (1 + 1e-8), 1e100, 1e155, 1.7e308])
def test_a_longer_feature_is_refused_before_anything_changes(longest):
    learner = rs.Learner(dim=2, horizon=2, schedule=rs.EveryEpisode())
    ragged_learning(learner, seed=1, start=0, stop=4)
    before = learner.snapshot()
    short, long = np.eye(2), np.array([[longest, 0.0]])
    for features, following in ((np.vstack([short[:1], long]), short), (short, long)):
        episode = rs.Episode(features=features, rewards=[0, 1], next_features=[following])
        for take in (learner.observe, learner.absorb):
            with pytest.raises(
                ValueError, match=r"no longer than feature_norm = 1e\+06; got ‖φ‖ = 1"
            ):
                take(episode)
            assert learner.snapshot() == before


def test_a_feature_of_exactly_the_norm_is_taken():
    learner = rs.Learner(dim=2, horizon=1, schedule=rs.EveryEpisode(), feature_norm=5.0)
    learner.observe(single_step([3.0, 4.0], 1.0))
    with pytest.raises(ValueError, match="no longer than feature_norm = 5; got"):
        learner.observe(single_step([3.0, 4.0000001], 1.0))
    assert learner.episodes == 1
