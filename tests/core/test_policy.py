import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import ragged_learning
from rareswitch.core import codec
from rareswitch.core.policy import TIE_TOLERANCE


def make(seed=0, *, horizon=3, dim=2, **changes):
    rng = np.random.default_rng(seed)
    arguments = {
        "weights": rng.standard_normal((horizon, dim)),
        "whitener": rng.standard_normal((horizon, dim, dim)),
        "beta": 0.1,
        "directions": rng.standard_normal((horizon, dim)),
        "version": 4,
    }
    return rs.Policy(**(arguments | changes))


def plain(values, directions=None, **changes):
    """Return a policy of one stage, and rows to which it gives these values."""
    policy = rs.Policy(
        weights=[[1.0, 0.0]],
        whitener=np.zeros((1, 2, 2)),
        beta=0.0,
        directions=directions,
        **changes,
    )
    return policy, np.column_stack([values, np.zeros(len(values))])


PACKED = make().to_bytes()


def test_q_values_are_the_clipped_mean_and_bonus():
    policy = make(horizon=4, dim=3)
    rows = np.random.default_rng(1).standard_normal((50, 3)) * 20
    for h in range(4):
        inverse = policy.whitener[h].T @ policy.whitener[h]
        bonus = 0.1 * np.sqrt(np.einsum("ad,de,ae->a", rows, inverse, rows))
        raw = rows @ policy.weights[h] + bonus
        found = policy.q_values(h, rows)
        np.testing.assert_allclose(found, np.clip(raw, 0.0, 4 - h), atol=1e-12)
        assert found.min() == 0.0
        assert found.max() == 4 - h
        unclipped = dataclasses.replace(policy, clip=False)
        np.testing.assert_allclose(unclipped.q_values(h, rows), raw, atol=1e-12)
        assert policy.value(h, rows) == found.max()


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        ([0.1, 0.5, 0.3], 1),
        ([0.5, 0.5, 0.5], 0),
        ([0.5 - 0.9 * TIE_TOLERANCE, 0.5], 0),
        ([0.5 - 1.1 * TIE_TOLERANCE, 0.5], 1),
        ([0.4, 2.0, 3.0, 1.5], 1),
        ([-3.0, -2.0, -1.0], 0),
    ],
)
def test_without_directions_the_lowest_tied_index_wins(values, chosen):
    policy, rows = plain(values)
    assert policy.act(0, rows) == chosen


def test_among_tied_actions_the_one_furthest_along_the_direction_wins_then_the_lowest_index():
    policy, rows = plain([0.5, 0.5, 0.5 - 0.5e-9, 0.4, 0.5], directions=[[0.0, 1.0]])
    rows[:, 1] = 1.0, 3.0, 5.0, 7.0, 5.0
    assert policy.act(0, rows) == 2
    rows[2, 0] = 0.5 - 2e-9
    assert policy.act(0, rows) == 4
    assert policy.act(0, rows[::-1]) == 0
    opposite = dataclasses.replace(policy, directions=[[0.0, -1.0]])
    assert opposite.act(0, rows) == 0


def test_projections_closer_than_the_tolerance_leave_it_to_the_lowest_index():
    policy, rows = plain([0.5, 0.5], directions=[[0.0, 1.0]])
    rows[:, 1] = 1.0 - 0.9 * TIE_TOLERANCE, 1.0
    assert policy.act(0, rows) == 0
    rows[0, 1] = 1.0 - 1.1 * TIE_TOLERANCE
    assert policy.act(0, rows) == 1


def test_values_above_the_cap_and_below_zero_are_tied():
    policy, rows = plain([5.0, 1.0, 0.9, 7.0], directions=[[0.0, 1.0]])
    rows[:, 1] = 1.0, 4.0, 9.0, 2.0
    assert policy.act(0, rows) == 1
    rows[:, 0] *= -1.0
    assert policy.act(0, rows) == 2
    unclipped = dataclasses.replace(policy, clip=False)
    assert unclipped.act(0, rows) == 2
    rows[:, 0] *= -1.0
    assert unclipped.act(0, rows) == 3


def test_each_stage_has_its_own_weights_whitener_and_direction():
    policy = rs.Policy(
        weights=[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
        whitener=np.stack([np.zeros((2, 2)), np.diag([0.0, 1.0]), np.zeros((2, 2))]),
        beta=0.5,
        directions=[[0.0, 0.0], [0.0, 0.0], [-1.0, 0.0]],
    )
    rows = np.array([[0.2, 0.1], [0.3, 0.0], [0.1, 0.8]])
    assert [policy.act(h, rows) for h in range(3)] == [1, 2, 2]
    np.testing.assert_allclose(policy.q_values(1, rows), [0.05, 0.0, 0.4])


def test_the_feasible_set_may_differ_at_every_call():
    policy = make()
    rows = np.random.default_rng(2).standard_normal((9, 2))
    values = policy.q_values(0, rows)
    for chosen in ([3], [5, 1], [8, 7, 6, 0], range(9)):
        subset = list(chosen)
        np.testing.assert_allclose(policy.q_values(0, rows[subset]), values[subset], rtol=1e-14)
        assert 0 <= policy.act(0, rows[subset]) < len(subset)


@pytest.mark.parametrize(
    ("h", "features", "error", "message"),
    [
        (3, np.eye(2), ValueError, "h must be from 0 to 2; got 3"),
        (-1, np.eye(2), ValueError, "h must be from 0 to 2; got -1"),
        (1.0, np.eye(2), TypeError, "h must be a whole number"),
        (0, np.eye(3), ValueError, r"features must have shape \(A, 2\); got \(3, 3\)"),
        (0, [1.0, 0.0], ValueError, r"features must have shape \(A, 2\); got \(2,\)"),
        (0, np.zeros((0, 2)), ValueError, "features must have at least one row.*empty feasible"),
        (0, [[np.nan, 0.0]], ValueError, "features must be finite; got nan"),
        (0, [[0.0, np.inf]], ValueError, "features must be finite; got inf"),
    ],
)
def test_a_bad_question_is_refused(h, features, error, message):
    policy = make()
    for ask in (policy.q_values, policy.act, policy.value):
        with pytest.raises(error, match=message):
            ask(h, features)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": -1.0}, "beta must be a finite number at least 0; got -1.0"),
        ({"beta": np.inf}, "beta must be a finite number at least 0; got inf"),
        ({"version": -1}, "version must be at least 0; got -1"),
        ({"weights": np.zeros(3)}, r"weights must have shape \(H, d\)"),
        ({"whitener": np.zeros((3, 2))}, r"whitener must have shape \(3, 2, 2\)"),
        ({"directions": np.zeros((2, 2))}, r"directions must have shape \(3, 2\)"),
        ({"weights": np.full((3, 2), np.nan)}, "weights must be finite"),
    ],
)
def test_a_bad_policy_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_a_policy_is_frozen():
    policy = make()
    for array in (policy.weights, policy.whitener, policy.directions):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.beta = 2.0


def test_a_policy_does_not_share_the_arrays_it_was_given():
    weights, whitener = np.ones((1, 2)), np.ones((1, 2, 2))
    policy = rs.Policy(weights=weights, whitener=whitener, beta=1.0)
    before = policy.to_bytes()
    weights[:], whitener[:] = 7.0, 7.0
    assert policy.to_bytes() == before


def test_nothing_that_a_learner_does_later_changes_its_policy():
    learner = rs.Learner(dim=3, horizon=2, schedule=rs.EveryEpisode())
    ragged_learning(learner, seed=1, start=0, stop=3)
    policy = learner.policy
    before = policy.to_bytes()
    ragged_learning(learner, seed=1, start=3, stop=20)
    assert learner.policy is not policy
    assert policy.to_bytes() == before


@pytest.mark.parametrize("changes", [{}, {"directions": None}, {"clip": False}, {"version": 0}])
def test_bytes_survive_exactly(changes):
    policy = make(**changes)
    copy = rs.Policy.from_bytes(policy.to_bytes())
    assert copy.to_bytes() == policy.to_bytes()
    assert copy.digest == policy.digest == hashlib.sha256(policy.to_bytes()).hexdigest()
    assert copy.weights.tobytes() == policy.weights.tobytes()
    assert copy.whitener.tobytes() == policy.whitener.tobytes()
    assert (copy.beta, copy.clip, copy.version) == (policy.beta, policy.clip, policy.version)
    assert (copy.directions is None) == (policy.directions is None)
    rows = np.random.default_rng(3).standard_normal((20, 2))
    for h in range(3):
        assert copy.act(h, rows) == policy.act(h, rows)
        assert (copy.q_values(h, rows) == policy.q_values(h, rows)).all()


def test_policies_that_differ_have_different_digests():
    digests = {
        make(**changes).digest
        for changes in ({}, {"beta": 0.2}, {"clip": False}, {"version": 5}, {"directions": None})
    }
    assert len(digests) == 5


@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_bytes_altered_anywhere_are_refused(position, change):
    altered = bytearray(PACKED)
    altered[position] ^= change
    with pytest.raises(ValueError, match="data must be"):
        rs.Policy.from_bytes(bytes(altered))


@given(st.integers(0, len(PACKED) - 1))
def test_truncated_bytes_are_refused(length):
    with pytest.raises(ValueError, match="data must be"):
        rs.Policy.from_bytes(PACKED[:length])


def test_other_bytes_are_refused():
    learner = rs.Learner(dim=2, horizon=1, schedule=rs.EveryEpisode())
    with pytest.raises(ValueError, match="data must hold a policy; got a learner"):
        rs.Policy.from_bytes(learner.snapshot())
    with pytest.raises(ValueError, match="bytes of a rareswitch policy; got something else"):
        rs.Policy.from_bytes(b"not a policy")
    with pytest.raises(TypeError, match="data must be bytes; got str"):
        rs.Policy.from_bytes("text")


def test_a_policy_of_another_format_is_refused(monkeypatch):
    monkeypatch.setattr(codec, "FORMAT", 99)
    newer = make().to_bytes()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="format 1; got format 99"):
        rs.Policy.from_bytes(newer)
