"""Distinct next states, the canonical bytes of a state, and sums that keep what rounding takes."""

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
from oracles import unit_rows
from rareswitch.core.lsvi import QFunction
from rareswitch.core.policy import fit
from rareswitch.core.recipe import Recipe
from rareswitch.statistics import history_of
from rareswitch.statistics import next_states as module
from rareswitch.statistics.next_states import NextStates, add_in_turn, row_sets

FIRST = QFunction(
    weights=np.array([1.0, 0.0, 0.0]),
    levels=None,
    whitener=np.eye(3),
    beta=0.0,
    offsets=None,
    cap=None,
)


def step(feature, reward=0.0):
    """Return (φ, 1, r)."""
    return np.array([*feature, 1.0, reward])


def met(states, new, rows):
    """Return the states with a step that led to the state with these rows."""
    return states.add(new[None], row_sets(rows, [len(rows)]))


def contents(states):
    return {name: array.tobytes() for name, array in states.to_arrays().items()}


def menus(rng, count):
    return [unit_rows(rng, int(rng.integers(1, 5)), 3) for _ in range(count)]


def absorbed(steps):
    states = NextStates.none(3)
    for feature, rows in steps:
        states = met(states, step(feature, abs(feature[0])), rows)
    return states


@given(st.integers(0, 10**6))
def test_a_state_is_the_set_of_its_rows(seed):
    rng = np.random.default_rng(seed)
    rows = unit_rows(rng, 4, 3)
    rows[1, 2] = 0.0
    signed = rows.copy()
    signed[1, 2] = -0.0
    forms = [
        rows,
        rows[::-1].copy(),
        rng.permutation(rows),
        np.vstack([rows, rows[2:]]),
        signed,
        rng.permutation(np.vstack([signed, rows])),
    ]
    order = rng.permutation(len(forms))
    states = absorbed((np.ones(3), forms[i]) for i in order)
    assert len(states) == 1
    arrays = states.to_arrays()
    assert arrays["lengths"].tolist() == [4]
    assert arrays["sums"].tolist() == [[6.0, 6.0, 6.0, 6.0, 6.0]]
    assert not np.signbit(arrays["rows"][arrays["rows"] == 0.0]).any()
    again = absorbed((np.ones(3), forms[i]) for i in order[::-1])
    assert contents(again) == contents(states)
    assert len(met(states, step(np.ones(3)), rows[:3])) == 2  # fewer actions: another state
    assert len(states) == 1


def test_different_states_are_kept_in_the_order_they_came():
    rng = np.random.default_rng(1)
    rows, features = menus(rng, 300), unit_rows(rng, 300, 3)
    states = absorbed(zip(features, rows, strict=True))
    arrays = states.to_arrays()
    assert arrays["lengths"].tolist() == [len(each) for each in rows]
    assert (arrays["sums"] == [step(each, abs(each[0])) for each in features]).all()
    ends = np.cumsum(arrays["lengths"])
    for kept, given_ in zip(np.split(arrays["rows"], ends[:-1]), rows, strict=True):
        assert sorted(kept.tolist()) == sorted(given_.tolist())


@given(st.integers(0, 10**6), st.lists(st.integers(0, 5), max_size=12), st.integers(0, 5))
def test_states_stay_as_they_were_whatever_is_made_of_them(seed, path, last):
    rng = np.random.default_rng(seed)
    rows, new = menus(rng, 6), step(unit_rows(rng, 1, 3)[0], 0.3)
    states = absorbed((unit_rows(rng, 1, 3)[0], rng.permutation(rows[i])) for i in path)
    before, made = contents(states), []
    for form in (rows[last], rows[last][::-1].copy(), np.vstack([rows[last]] * 2)):
        made.append(met(states, new, form))
        assert contents(states) == before
    assert contents(made[0]) == contents(made[1]) == contents(made[2])
    assert len(made[0]) == len({*path, last})


def test_value_sums_weigh_each_state_by_the_steps_that_led_there(monkeypatch):
    rng = np.random.default_rng(2)
    rows, features = menus(rng, 40), unit_rows(rng, 80, 3)
    states = absorbed(zip(features, rows * 2, strict=True))
    values = np.array([each[:, 0].max() for each in rows * 2])
    found = states.value_sums(FIRST, 0.0)
    steps = [step(each, abs(each[0])) for each in features]
    np.testing.assert_allclose(found, [*(values @ steps), values @ values], atol=1e-13)
    two = FIRST._replace(weights=np.array([[[1.0, 0.0, 0.0]], [[0.0, -2.0, 0.0]]]))
    by_member = states.value_sums(two, 0.0)
    assert by_member.shape == (2, 1, 6)
    np.testing.assert_allclose(by_member[0, 0], found, atol=1e-13)
    other = np.array([(-2.0 * each[:, 1]).max() for each in rows * 2])
    np.testing.assert_allclose(by_member[1, 0], [*(other @ steps), other @ other], atol=1e-12)
    monkeypatch.setattr(module, "BLOCK_ROWS", 7)
    np.testing.assert_allclose(states.value_sums(FIRST, 0.0), found, atol=1e-13)
    np.testing.assert_allclose(states.value_sums(two, 0.0), by_member, atol=1e-12)
    assert NextStates.none(3).value_sums(FIRST, 0.0).tolist() == [0.0] * 6
    assert NextStates.none(3).value_sums(two, 0.0).tolist() == np.zeros((2, 1, 6)).tolist()


def test_the_end_of_an_episode_is_worth_what_is_said():
    rng = np.random.default_rng(5)
    rows, features = menus(rng, 6), unit_rows(rng, 10, 3)
    none = np.zeros((0, 3))
    states = absorbed(zip(features, [*rows, *[none] * 4], strict=True))
    steps = np.array([step(each, abs(each[0])) for each in features])
    for ended in (0.0, 0.4, 3.0):
        values = np.array([*(each[:, 0].max() for each in rows), *[ended] * 4])
        wanted = [*(values @ steps), values @ values]
        np.testing.assert_allclose(states.value_sums(FIRST, ended), wanted, atol=1e-13)
        two = FIRST._replace(weights=np.array([[1.0, 0.0, 0.0]] * 2))
        np.testing.assert_allclose(states.value_sums(two, ended), [wanted] * 2, atol=1e-13)
    assert len(states) == 6  # the end is no state
    only = absorbed([(features[0], none), (features[1], none)])
    assert (len(only), len(only.rows)) == (0, 0)
    wanted = [*(0.5 * (step(features[0], abs(features[0][0])) + step(features[1]))), 0.5]
    wanted[4] += 0.5 * abs(features[1][0])
    np.testing.assert_allclose(only.value_sums(FIRST, 0.5), wanted, atol=1e-13)


def test_ends_are_summed_without_loss():
    none = np.zeros((0, 3))
    states = absorbed((feature * np.ones(3), none) for feature in (1e16, 1.0, -1e16))
    assert states.value_sums(FIRST, 1.0)[:4].tolist() == [1.0, 1.0, 1.0, 3.0]
    before = contents(states)
    assert contents(met(states, step(np.ones(3), 0.5), none)) != before
    assert contents(states) == before


@given(st.integers(0, 10**6))
def test_steps_that_were_tried_leave_no_trace_later(seed):
    rng = np.random.default_rng(seed)
    rows, new = menus(rng, 4), step(unit_rows(rng, 1, 3)[0], 0.3)
    states = untouched = NextStates.none(3)
    path = [rng.permutation(rows[i]) for i in rng.integers(0, 4, 12)]
    for form in path[:2]:
        states, untouched = met(states, new, form), met(untouched, new, form)
    tried = states
    for form in path[2:]:  # some are new, and met again with their rows in another order
        tried = met(tried, new, form)
    for form in rng.permutation(len(path)):
        assert contents(states) == contents(untouched)
        states, untouched = met(states, new, path[form]), met(untouched, new, path[form])
    assert contents(states) == contents(untouched)
    assert len(tried) == len({row_sets(form, [len(form)])[0] for form in path})


@given(st.integers(0, 10**6), st.lists(st.integers(0, 4), max_size=20), st.data())
def test_in_whatever_parts_steps_come_the_bytes_are_the_same(seed, path, data):
    rng = np.random.default_rng(seed)
    rows = [*menus(rng, 4), np.zeros((0, 3))]  # the last is the end of an episode
    steps = np.array(
        [
            step(*part)
            for part in zip(unit_rows(rng, len(path), 3), rng.random(len(path)), strict=True)
        ]
    )
    forms = [rng.permutation(rows[i]) for i in path]
    one_by_one = in_parts = NextStates.none(3)
    for new, form in zip(steps, forms, strict=True):
        one_by_one = met(one_by_one, new, form)
    start = 0
    while start < len(path):
        end = start + data.draw(st.integers(1, 9))
        some = forms[start:end]
        sets = row_sets(np.concatenate(some), [len(form) for form in some])
        in_parts = in_parts.add(steps[start:end], sets)
        start = end
    assert contents(in_parts) == contents(one_by_one)


def test_what_sums_lose_to_rounding_counts():
    rows = np.ones((1, 3))
    states = absorbed((feature * np.ones(3), rows) for feature in (1e16, 1.0, -1e16))
    assert states.value_sums(FIRST, 0.0)[:4].tolist() == [1.0, 1.0, 1.0, 3.0]


def test_states_survive_their_arrays_and_know_those_they_meet_again():
    rng = np.random.default_rng(3)
    rows, features = menus(rng, 9), unit_rows(rng, 18, 3)
    states = absorbed(zip(features, rows * 2, strict=True))
    NextStates.from_arrays(**NextStates.none(3).to_arrays())  # none at all
    copy = NextStates.from_arrays(**states.to_arrays())
    assert contents(copy) == contents(states)
    both = []
    for each in (states, copy):
        longer = met(each, step(features[0], 0.5), rows[4][::-1].copy())
        both.append(met(longer, step(features[1]), 2 * rows[4]))
    assert contents(both[0]) == contents(both[1])
    assert contents(copy) == contents(states)
    assert (len(copy), len(both[1])) == (9, 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [0, 3]}, "at least one row"),
        ({"lengths": [-1, 4]}, "at least one row"),
        ({"lengths": [2, 2]}, "add up to the number of rows"),
        ({"lengths": [2**62, 2**62]}, "at least one row"),
        ({"rows": np.ones((3, 3))}, "distinct sets of distinct rows"),
        ({"lengths": [1, 2], "rows": np.ones((3, 3))}, "distinct sets of distinct rows"),
        ({"lengths": [1, 1], "rows": np.ones((2, 3))}, "distinct sets of distinct rows"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change, message):
    arrays = {
        "sums": np.ones((2, 5)),
        "lost": np.zeros((2, 5)),
        "lengths": np.array([2, 1]),
        "rows": np.eye(3),
        "ended": np.zeros((2, 5)),
    } | {name: np.array(value) for name, value in change.items()}
    with pytest.raises(ValueError, match=message):
        NextStates.from_arrays(**arrays)


def literal_sets(rows, lengths):
    ends = np.cumsum(lengths)
    states = (rows[end - length : end] for end, length in zip(ends, lengths, strict=True))
    return [b"".join(sorted({(row + 0.0).tobytes() for row in state})) for state in states]


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 4), max_size=8) | st.lists(st.sampled_from([0, 3]), max_size=8),
    st.integers(1, 3),
    st.sampled_from([1, 2, 1000]),
)
def test_a_state_is_the_sorted_set_of_its_rows_however_many_there_are(seed, lengths, dim, values):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(values)[rng.integers(values, size=(sum(lengths), dim))]
    rows = np.where(rng.random(rows.shape) < 0.3, rng.choice([0.0, -0.0], rows.shape), rows)
    found = []
    for many in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MANY", many)
            found.append(row_sets(rows, lengths))
    assert found[0] == found[1] == literal_sets(rows, lengths)


def test_many_states_are_as_few():
    rows = np.random.default_rng(0).standard_normal((400, 5))
    lengths = [4, 0] * 100
    assert row_sets(rows, lengths) == literal_sets(rows, lengths)


UNIT_ROUNDOFF = 2.0**-53
GREEDY = Recipe(exploration=rs.Bonus(0.0), ties="lowest", clip=False)


# Compensated sums against exact arithmetic, alone and in what a learner recommends.


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60))
def test_total_and_lost_are_the_sum_to_one_rounding_of_what_was_lost(values):
    total, lost = add_in_turn(np.zeros(1), np.zeros(1), np.array(values)[:, None])
    exact = sum(map(Fraction, values))
    error = abs(Fraction(total[0]) + Fraction(lost[0]) - exact)
    # What is lost in one addition is at most half an ulp of the largest sum.
    assert error <= len(values) ** 2 * Fraction(math.ulp(math.ulp(60e9)))


def test_what_cancels_is_kept():
    addends = np.array([[1e16], [1.0], [-1e16], [1e-20]])
    total, lost = add_in_turn(np.zeros(1), np.zeros(1), addends)
    assert total + lost == 1.0 + 1e-20


@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([1.0, 1e16]))
def test_adding_in_turn_is_adding_one_by_one(seed, count, spread):
    rng = np.random.default_rng(seed)
    addends = rng.standard_normal((count, 2, 3)) * spread ** rng.random((count, 2, 3))
    total, lost = rng.standard_normal((2, 2, 3))
    found = add_in_turn(total, lost, addends)
    for addend in addends:
        total, lost = add_in_turn(total, lost, addend[None])
    assert [each.tobytes() for each in found] == [total.tobytes(), lost.tobytes()]


def test_only_the_sums_of_the_state_that_was_reached_grow():
    one, other, third = np.eye(3)[:1], np.eye(3)[1:2], np.eye(3)[2:]
    states = NextStates.none(3)
    for rows, number in ((one, 0.0), (other, 0.1), (third, 0.0), (one, 1e16), (other, 1e16)):
        states = met(states, step(np.full(3, number)), rows)
    states = met(states, step(np.ones(3)), one)
    assert states.sums[:, 0].tolist() == [1e16, 1e16, 0.0]
    assert states.lost[:, 0].tolist() == [1.0, 0.1, 0.0]
    assert states.sums[:, 3].tolist() == [3.0, 2.0, 1.0]
    assert not states.lost[:, 3:].any()
    together = NextStates.none(3).add(np.zeros((3, 5)), row_sets(np.eye(3), [1, 1, 1]))
    both = np.array([step(np.full(3, number)) for number in (1e16, 0.1, 0.3)])
    together = together.add(both, row_sets(np.vstack([one, other, one]), [1, 1, 1]))
    assert together.sums[:, 0].tolist() == [1e16, 0.1, 0.0]
    assert together.lost[:, 0].tolist() == [0.3, 0.0, 0.0]


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


def recommended(log, *, dim, ridge, feature_norm=1.0):
    history = history_of(rs.Task(dim=dim, horizon=1, feature_norm=feature_norm), ridge, log)
    return fit(history, replace(GREEDY, ridge=ridge), version=0).weights[0], history.whitener[0]


def test_one_feature_a_hundred_thousand_times_says_nothing_of_other_directions():
    count, ridge = 100_000, 1e-6
    feature = np.array([0.1, 0.7, 0.3, 0.64])  # no component is a sum of few powers of two
    found, whitener = recommended(
        repeat(single_step(feature, 1.0), count), dim=4, ridge=ridge, feature_norm=1.1
    )
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
    steps = map(single_step, features, rewards)
    found, _ = recommended(steps, dim=3, ridge=1.0, feature_norm=longest)
    steps = zip(features.tolist(), rewards.tolist(), repeat(1))
    # ‖W‖ ≤ 1 is rounded in each of K = 40 steps, and ‖b‖ ≈ L.
    tolerance = math.sqrt(40) * UNIT_ROUNDOFF * longest
    assert np.abs(found - exact_weights(list(steps), ridge=1.0)).max() < tolerance
