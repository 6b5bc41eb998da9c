"""A candidate beside the policy in force: its change and its gain."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import unit_rows
from rareswitch.core.candidate import Candidate
from rareswitch.core.clock import Ledger

HORIZON = 3


def mixture(rng, members, dim=4):
    return rs.Policy(weights=rng.normal(size=(members, HORIZON, dim)), allocation=1, clip=False)


def candidate(policy, in_force, paths, *, episode=31, episodes=100):
    task = rs.Task(dim=policy.dim, horizon=policy.horizon, episodes=episodes)
    ledger = Ledger().deploy(episode=1, logdet=np.zeros(1), trace=np.ones(1))
    clock = ledger.clock(task, episode=episode, logdet=np.zeros(1))
    return Candidate(clock=clock, policy=policy, in_force=in_force, paths=paths)


@given(seed=st.integers(0, 10**6))
def test_change_and_gain_are_what_their_definitions_say(seed):
    rng = np.random.default_rng(seed)
    new, old = mixture(rng, 5), mixture(rng, 3)
    paths = [
        tuple(unit_rows(rng, int(rng.integers(1, 4)), 4) for _ in range(rng.integers(1, 4)))
        for _ in range(6)
    ]
    changes, gains = [], []
    for path in paths:
        differs, earns = [], 0.0
        for h, rows in enumerate(path):
            moved = new.propensities(h, rows) - old.propensities(h, rows)
            differs.append(np.abs(moved).sum() / 2)
            earns += moved @ new.q_values(h, rows).mean(axis=0)
        changes.append(max(differs))
        gains.append(earns)
    found = candidate(new, old, paths)
    assert found.change == pytest.approx(np.mean(changes), abs=1e-12)
    assert found.gain.mean == pytest.approx(np.mean(gains), abs=1e-12)
    assert found.gain.error == pytest.approx(np.std(gains, ddof=1) / math.sqrt(6), abs=1e-12)


@given(seed=st.integers(0, 10**6))
def test_the_gain_is_the_difference_of_the_values_where_q_is_exact(seed):
    """The lemma of the module, in a world without chance, on all paths that may be played."""
    rng = np.random.default_rng(seed)
    states, actions = 4, 3
    moves = rng.integers(0, states, (HORIZON, states, actions))
    rewards = rng.random((HORIZON, states, actions))

    def valued(table):
        """Return Q (H, S, A) and V (H+1, S) of a table (H, S)."""
        q_values, values = np.zeros((HORIZON, states, actions)), np.zeros((HORIZON + 1, states))
        for h in reversed(range(HORIZON)):
            q_values[h] = rewards[h] + values[h + 1][moves[h]]
            values[h] = q_values[h][np.arange(states), table[h]]
        return q_values, values

    # The candidate is greedy for its own value after one improvement, so its Q is exact.
    table = rng.integers(0, actions, (HORIZON, states))
    for _ in range(HORIZON + 1):
        table = valued(table)[0].argmax(axis=-1)
    new = rs.Policy(weights=valued(table)[0].reshape(HORIZON, -1), one_hot=True)
    before = rng.integers(0, actions, (HORIZON, states))
    old = rs.Policy(weights=np.eye(actions)[before].reshape(HORIZON, -1), one_hot=True)
    offers = np.arange(states * actions).reshape(states, actions)
    path, state = [], 0
    for h in range(HORIZON):
        path.append(offers[state])
        state = moves[h, state, before[h, state]]
    gain = valued(table)[1][0, 0] - valued(before)[1][0, 0]
    found = candidate(new, old, [tuple(path)])
    assert found.gain.mean == pytest.approx(gain, abs=1e-12)
    assert found.gain.error == math.inf


def test_equal_policies_change_nothing_and_gain_nothing():
    rng = np.random.default_rng(0)
    policy = mixture(rng, 4)
    found = candidate(policy, policy, [(unit_rows(rng, 3, 4),)] * 3)
    assert (found.change, found.gain) == (0.0, (0.0, 0.0))


def test_the_episodes_left_are_those_that_a_new_policy_could_play():
    policy = mixture(np.random.default_rng(0), 2)
    assert candidate(policy, policy, [], episode=31, episodes=100).episodes_left == 70
    assert candidate(policy, policy, [], episodes=None).episodes_left is None


def test_without_episodes_there_is_nothing_to_compare():
    policy = mixture(np.random.default_rng(0), 2)
    with pytest.raises(ValueError, match="candidate must have episodes of the policy in force"):
        _ = candidate(policy, policy, []).change
