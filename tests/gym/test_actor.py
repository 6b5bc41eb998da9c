"""What members do is looked up where states repeat, and is what the policy itself says."""

import numpy as np
import pytest
from gym_worlds import blocks, learner_for, table
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch.gym.episode import Offer, Offers
from rareswitch.gym.rollout import PolicyActor as Actor
from rareswitch.gym.rollout import Seen


def offer_of(positions):
    rows = np.array(positions)
    return Offer(rows, None, rows.tobytes())


def policy_of(dim=12, members=5, horizon=3, seed=0):
    rng = np.random.default_rng(seed)
    shape = (members, horizon, dim)
    return rs.Policy(
        weights=rng.integers(0, 3, shape) / 4,  # with many ties
        directions=rng.normal(size=shape),
        allocation=1,
        one_hot=True,
    )


STATES = st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=4, unique=True), min_size=1)


@given(st.lists(st.tuples(st.integers(0, 2), STATES.map(lambda s: s[0])), max_size=30))
def test_choices_are_those_of_the_policy_in_whatever_order_states_come(asked):
    policy, seen = policy_of(), Seen()
    for version in (1, 2):  # the second finds states seen by the first
        actor = Actor(policy, version, seen)
        for h, state in asked:
            choices = actor.choices(h, offer_of(state))
            np.testing.assert_array_equal(choices, policy.choices(h, np.array(state)))


class Counted:
    """A policy that counts the states it is asked for."""

    def __init__(self, policy):
        self.policy, self.asked = policy, []
        self.one_hot, self.horizon = policy.one_hot, policy.horizon

    def choices(self, h, rows):
        self.asked.append((h, len(rows)))
        return self.policy.choices(h, rows)


def test_states_seen_before_are_asked_for_together_and_once():
    seen, policy = Seen(), Counted(policy_of())
    states = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
    first = Actor(policy, 1, seen)
    for state in states:
        first.choices(0, offer_of(state))
    assert policy.asked == [(0, 1), (0, 2), (0, 3), (0, 1)]
    policy.asked.clear()
    second = Actor(policy, 2, seen)
    for h in (0, 1, 0, 1):
        for state in states:
            second.choices(h, offer_of(state))
    assert policy.asked == [(0, 3), (0, 1), (1, 3), (1, 1)]


def test_of_many_states_each_is_asked_for_by_itself(monkeypatch):
    monkeypatch.setattr("rareswitch.gym.rollout.MOST_ROWS", 6)
    seen, policy = Seen(), Counted(policy_of())
    actor = Actor(policy, 1, seen)
    states = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    for _ in range(2):
        for state in states:
            found = actor.choices(1, offer_of(state))
            np.testing.assert_array_equal(found, policy.policy.choices(1, np.array(state)))
    assert policy.asked == [(1, 1), (1, 2), (1, 1), (1, 1)]


def test_rows_of_floats_are_asked_for_every_time():
    features = blocks()
    policy = learner_for(features).policy
    actor = Actor(policy, 1, Seen())
    for state in ([1.0, 0.0], [4.0, 2.0]):
        offer = Offers(features).after(state, 0, {})
        assert offer.key is None
        np.testing.assert_array_equal(actor.choices(2, offer), policy.choices(2, features(state)))


def test_a_single_policy_has_one_choice():
    policy = policy_of(members=4).member(2)
    choices = Actor(policy, 1, Seen()).choices(0, Offers(table()).after(1, 0, {}))
    assert choices.tolist() == [policy.act(0, table()(1))]


@pytest.mark.parametrize("h", [-4, 3])
def test_a_stage_that_is_none_is_an_error(h):
    with pytest.raises(IndexError):
        Actor(policy_of(), 1, Seen()).choices(h, offer_of([0, 1]))
