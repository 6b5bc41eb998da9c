"""The least expected regret against a dynamic programme that knows nothing of its proof."""

from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch import theory


def fall(right, policy):
    """Return the stage, counted from 1, of the first wrong action; None without one."""
    return next(
        (h for h, pair in enumerate(zip(right, policy, strict=True), 1) if len({*pair}) > 1), None
    )


def best_by_enumeration(horizon, lengths, members, actions=2):
    """Minimise over every choice of a policy for every episode, at most M in a batch.

    The state of the programme is the set of right actions that agree with everything seen.
    """
    policies = tuple(product(range(actions), repeat=horizon))

    @cache
    def least(batch, possible):
        if batch == len(lengths):
            return Fraction(0)
        return min(
            expected(batch, possible, chosen)
            for chosen in combinations_with_replacement(policies, lengths[batch])
            if len({*chosen}) <= members
        )

    def expected(batch, possible, chosen):
        total, seen = Fraction(0), {}
        for right in possible:
            falls = tuple(fall(right, policy) for policy in chosen)
            total += sum(horizon - h for h in falls if h)
            seen.setdefault(falls, []).append(right)
        total += sum(len(left) * least(batch + 1, tuple(left)) for left in seen.values())
        return total / len(possible)

    return least(0, policies)


SMALL = [
    # horizon, lengths, members
    (1, (2,), 1),
    (2, (3, 1), 1),
    (3, (1,), 1),
    (3, (1, 1), 1),
    (3, (2, 1, 3), 1),
    (4, (1, 1, 1), 1),
    (4, (1, 2, 1), 1),
    (3, (2, 2), 2),
    (3, (3, 1, 2), 2),
    (3, (3, 2), 3),
    (3, (2, 3), 9),
    (4, (2, 2), 2),
    (4, (2, 1, 2), 2),
    (4, (3, 1), 3),
]


@pytest.mark.parametrize(("horizon", "lengths", "members"), SMALL)
def test_no_learner_does_better_and_one_does_as_well(horizon, lengths, members):
    found = theory.least_expected_regret(horizon=horizon, lengths=lengths, members=members)
    assert found == best_by_enumeration(horizon, lengths, members)


def one_policy(horizon, lengths):
    """Return ½ Σ_i ℓ_i Σ_h (H−h)·P(Bin(h−1, ½) = i−1), the formula for one policy."""
    return sum(
        length * Fraction(comb(h - 1, i), 2**h) * (horizon - h)
        for i, length in enumerate(lengths)
        for h in range(1, horizon)
    )


@pytest.mark.parametrize("horizon", [1, 2, 5, 9, 16])
@pytest.mark.parametrize("lengths", [(), (3,), (5, 1, 8), (1,) * 7, (2, 4) * 9])
def test_one_policy_for_each_batch_has_a_formula(horizon, lengths):
    found = theory.least_expected_regret(horizon=horizon, lengths=lengths)
    assert found == pytest.approx(float(one_policy(horizon, lengths)), rel=1e-12)


@pytest.mark.parametrize("horizon", [1, 2, 3, 6, 8, 16, 40])
@pytest.mark.parametrize("more", [0, 1, 30])
def test_with_enough_equal_batches_it_is_half_of_the_adaptive_adversary(horizon, more):
    batches = max(1, horizon - 1 + more)
    found = theory.least_expected_regret(horizon=horizon, lengths=[7] * batches)
    assert found == pytest.approx(7 * horizon * (horizon - 1) / 4, rel=1e-12)
    sizes = {"states": 1, "horizon": horizon, "episodes": 7 * 50, "batches": 50}
    assert found == pytest.approx(theory.lower_bound(**sizes, uniform=True) / 2, rel=1e-12)


@pytest.mark.parametrize(("horizon", "batches", "actions"), [(2, 2, 3), (3, 4, 3), (2, 3, 4)])
def test_with_more_actions_one_policy_pays_for_every_wrong_one(horizon, batches, actions):
    found = best_by_enumeration(horizon, (1,) * batches, 1, actions)
    assert found == Fraction((actions - 1) * horizon * (horizon - 1), 4)


@pytest.mark.parametrize("horizon", [2, 4, 9, 17, 33])
@pytest.mark.parametrize("members", [1, 2, 3, 8, 21, 64, 10**6])
@pytest.mark.parametrize("length", [1, 5, 64])
def test_the_closed_bounds_enclose_it(horizon, members, length):
    batches = [length] * (horizon - 1)
    found = theory.least_expected_regret(horizon=horizon, lengths=batches, members=members)
    c, a = log2(min(members, length)) + 2, horizon - 2
    assert found >= length * a * (a + c) / (2 * c) - 1e-9
    sure = int(c) - 1  # stages settled for certain
    a = horizon - 1
    assert found <= length * (a * (a + sure) / (2 * sure) + sure / 8) + 1e-9


@given(st.integers(2, 14), st.data())
def test_on_any_grid_one_policy_loses_an_eighth_of_h_squared(horizon, data):
    chosen = max(1, round(horizon / 4))
    lengths = data.draw(st.lists(st.integers(1, 1000), min_size=chosen, max_size=chosen + 9))
    longest = np.sort(np.argsort(-np.array(lengths), kind="stable")[:chosen])
    found = theory.least_expected_regret(horizon=horizon, lengths=np.array(lengths)[longest])
    assert found >= (horizon**2 - 4) * sum(lengths) / (8 * len(lengths)) - 1e-9


def test_more_members_never_lose_and_beyond_the_longest_batch_change_nothing():
    values = [
        theory.least_expected_regret(horizon=30, lengths=[20, 3, 50] * 4, members=m)
        for m in (1, 2, 3, 7, 20, 50, 51, 10**6)
    ]
    assert all(np.diff(values) <= 0)
    assert values[4] > values[5] == values[6] == values[7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon must be from 1 to 10000; got 0"),
        ({"members": 0}, "members must be at least 1; got 0"),
        ({"lengths": [3, 0]}, "lengths must be at least 1; got 0"),
        ({"lengths": 3}, "lengths must be a list of batch lengths"),
    ],
)
def test_a_bad_argument_of_the_least_regret_is_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        theory.least_expected_regret(**{"horizon": 3, "lengths": [2, 2], "members": 1} | change)
