"""Exact values are those of brute force: of simulation, of trees, of value iteration by hand."""

import gymnasium
import numpy as np
import pytest
from gym_worlds import learner_for, masked_table, seed_of
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch.features import Masked, OneHot, WithStage
from rareswitch.gym import Agent, FiniteModel, evaluate, play

LAKE = OneHot(states=16, actions=4)


def lake(**arguments):
    return gymnasium.make("FrozenLake-v1", **arguments)


def model_of(seed, states=4, actions=3, outcomes=3, masked=False):
    """Return a random model; outcomes may lead to the same state, end, or never happen."""
    rng = np.random.default_rng(seed)
    shape = (states, actions, outcomes)
    probabilities = rng.dirichlet(np.ones(outcomes), (states, actions))
    probabilities[..., -1] *= rng.integers(0, 2, shape[:2])
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    feasible = None
    if masked:
        feasible = rng.random((states, actions)) < 0.6
        feasible[np.arange(states), rng.integers(actions, size=states)] = True
    return FiniteModel(
        probabilities=probabilities,
        next_states=rng.integers(states, size=shape),
        rewards=rng.normal(size=shape),
        ended=rng.random(shape) < 0.3,
        initial=rng.dirichlet(np.ones(states)),
        feasible=feasible,
    )


def tree(model, horizon, shares):
    """Return the expected return, outcome by outcome; `shares(h, s, below)` gives weights (A,).

    `below` are the values of the actions.
    """

    def value(h, s):
        if h == horizon:
            return 0.0
        below = np.zeros(model.rewards.shape[1])
        for a, k in np.ndindex(*model.rewards.shape[1:]):
            p, ended = model.probabilities[s, a, k], model.ended[s, a, k]
            later = 0.0 if ended or not p else value(h + 1, int(model.next_states[s, a, k]))
            below[a] += p * (model.rewards[s, a, k] + later)
        return float(shares(h, s, below) @ below)

    return sum(p * value(0, s) for s, p in enumerate(model.initial))


def may(model, s):
    count = model.rewards.shape[1]
    return np.ones(count, bool) if model.feasible is None else model.feasible[s]


MASKED = pytest.mark.parametrize("masked", [False, True], ids=["all feasible", "masked"])


@MASKED
@given(seed=st.integers(0, 10**6), horizon=st.integers(1, 3))
def test_optimum_and_random_play_are_those_of_the_tree(masked, seed, horizon):
    model = model_of(seed, states=3, actions=2, masked=masked)

    def best(h, s, below):
        return np.eye(len(below))[np.where(may(model, s), below, -np.inf).argmax()]

    def uniform(h, s, below):
        return may(model, s) / may(model, s).sum()

    assert model.optimal_return(horizon) == pytest.approx(tree(model, horizon, best), abs=1e-12)
    assert model.random_return(horizon) == pytest.approx(tree(model, horizon, uniform), abs=1e-12)
    assert model.optimal_return(horizon) >= model.random_return(horizon) - 1e-12


@MASKED
@given(seed=st.integers(0, 10**6), members=st.integers(1, 4))
def test_a_policy_earns_what_the_tree_says_and_a_mixture_the_mean_of_its_members(
    masked, seed, members
):
    model, horizon = model_of(seed, states=3, actions=2, masked=masked), 3
    rng = np.random.default_rng(seed)
    features = OneHot(states=3, actions=2)
    weights = rng.normal(size=(members, horizon, features.dim))
    single = members == 1
    policy = rs.Policy(
        weights=weights[0] if single else weights,
        allocation=None if single else 3,
        one_hot=True,
        clip=False,
    )
    earned = []
    for m in range(members):

        def chosen(h, s, below, m=m):
            allowed = np.flatnonzero(may(model, s))
            return np.eye(2)[allowed[policy.member(m).act(h, features(s)[allowed])]]

        alone = model.policy_return(policy.member(m), features)
        assert alone == pytest.approx(tree(model, horizon, chosen), abs=1e-12)
        earned.append(alone)
    assert model.policy_return(policy, features) == pytest.approx(np.mean(earned), abs=1e-12)
    assert max(earned) <= model.optimal_return(horizon) + 1e-9


def test_rows_and_positions_are_the_same_policy():
    model, rng = model_of(5), np.random.default_rng(0)
    features = OneHot(states=4, actions=3)
    weights = rng.normal(size=(3, 2, features.dim))
    found = [
        model.policy_return(
            rs.Policy(weights=weights, allocation=1, clip=False, one_hot=map_.one_hot), map_
        )
        for map_ in (features, features.dense())
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-12)


def test_stages_and_masks_of_the_features_are_heeded():
    model, rng = model_of(8), np.random.default_rng(1)
    table = OneHot(states=4, actions=3)
    staged = WithStage(table, horizon=3)
    by_stage = rng.normal(size=(3, table.dim))
    spread = np.zeros((3, staged.dim))
    for h in range(3):
        spread[h, [int(i) for s in range(4) for i in staged(s, h)]] = by_stage[h]
    plain = rs.Policy(weights=by_stage, one_hot=True, clip=False)
    known = rs.Policy(weights=spread, one_hot=True, clip=False)
    wanted = model.policy_return(plain, table)
    assert model.policy_return(known, staged) == pytest.approx(wanted, abs=1e-12)
    only_last = Masked(table, np.tile([False, False, True], (4, 1)))

    def last(h, s, below):
        return np.array([0.0, 0.0, 1.0])

    found = model.policy_return(plain, only_last)
    assert found == pytest.approx(tree(model, 3, last), abs=1e-12)


def test_many_states_are_asked_for_in_turns():
    states = 700
    model = model_of(2, states=states, actions=2, outcomes=2, masked=True)
    features = OneHot(states=states, actions=2)
    policy = rs.Policy(
        weights=np.random.default_rng(3).normal(size=(2, features.dim)), one_hot=True, clip=False
    )
    value = np.zeros(states)
    for h in (1, 0):
        later = np.where(model.ended, 0.0, value[model.next_states])
        below = (model.probabilities * (model.rewards + later)).sum(axis=-1)
        allowed = [np.flatnonzero(may(model, s)) for s in range(states)]
        own = [a[policy.act(h, features(s)[a])] for s, a in enumerate(allowed)]
        value = below[np.arange(states), own]
    found = model.policy_return(policy, features)
    assert found == pytest.approx(model.initial @ value, abs=1e-12)


# Gymnasium's own worlds.


def value_iteration(world, horizon):
    """Return the optimum of a toy world, straight from what it tells."""
    told = world.unwrapped.P
    value = dict.fromkeys(told, 0.0)
    for _ in range(horizon):
        value = {
            s: max(
                sum(p * (r + (0.0 if done else value[t])) for p, t, r, done in told[s][a])
                for a in told[s]
            )
            for s in told
        }
    start = world.unwrapped.initial_state_distrib
    return sum(p * value[s] for s, p in enumerate(start))


@pytest.mark.parametrize(
    ("name", "arguments", "horizon"),
    [
        ("FrozenLake-v1", {}, 100),
        ("FrozenLake-v1", {}, 1),
        ("FrozenLake-v1", {"map_name": "8x8"}, 50),
        ("FrozenLake-v1", {"is_slippery": False}, 6),
        ("CliffWalking-v1", {}, 20),
    ],
)
def test_the_optimum_is_that_of_value_iteration(name, arguments, horizon):
    world = gymnasium.make(name, **arguments)
    model = FiniteModel.of(world)
    assert model.optimal_return(horizon) == pytest.approx(value_iteration(world, horizon))
    assert model.feasible is None


def test_known_optima():
    assert FiniteModel.of(lake()).optimal_return(100) == pytest.approx(0.74, abs=0.005)
    assert FiniteModel.of(lake(is_slippery=False)).optimal_return(6) == 1.0
    assert FiniteModel.of(lake(is_slippery=False)).optimal_return(5) == 0.0
    cliff = FiniteModel.of(gymnasium.make("CliffWalking-v1"))
    assert (cliff.optimal_return(13), cliff.reward_range) == (-13.0, (-100.0, -1.0))


def test_simulation_earns_what_the_model_says():
    world, horizon = lake(), 20
    learner = learner_for(LAKE, horizon=horizon, episodes=300)
    list(play(learner, world, LAKE, episodes=300))
    model = FiniteModel.of(world)
    for policy in (learner.policy, learner.recommend()):
        exact = model.policy_return(policy, LAKE)
        fresh = evaluate(Agent(policy=policy, features=LAKE), world, episodes=4000)
        error = np.sqrt(exact * (1.0 - exact) / 4000)  # returns are 0 or 1
        assert abs(fresh.mean - exact) < 4.0 * error + 1e-9
    rng, total = np.random.default_rng(0), 0.0
    for k in range(3000):
        world.reset(seed=seed_of(k, 1))
        for _ in range(horizon):
            _, reward, done, _, _ = world.step(int(rng.integers(4)))
            total += reward
            if done:
                break
    random = model.random_return(horizon)
    assert abs(total / 3000 - random) < 4.0 * np.sqrt(random / 3000)


def test_masks_that_a_world_tells_are_those_of_its_model():
    world = gymnasium.make("Taxi-v4")
    model = FiniteModel.of(world)
    inner = world.unwrapped
    for state in (0, 1, 123, 499):
        assert model.feasible[state].tolist() == inner.action_mask(state).astype(bool).tolist()
    everything = FiniteModel(
        probabilities=model.probabilities,
        next_states=model.next_states,
        rewards=model.rewards,
        ended=model.ended,
        initial=model.initial,
    )
    # What the masks leave out does nothing but lose time, so the optimum is the same.
    assert model.optimal_return(30) == pytest.approx(everything.optimal_return(30))
    assert model.random_return(30) > everything.random_return(30)


def test_a_world_that_tells_nothing_has_no_model():
    assert FiniteModel.of(gymnasium.make("CartPole-v1")) is None
    assert FiniteModel.of(object()) is None


def test_a_horizon_must_be_one():
    model = FiniteModel.of(lake())
    with pytest.raises(ValueError, match="horizon must be at least 1; got 0"):
        model.optimal_return(0)
    with pytest.raises(TypeError, match=r"horizon must be a whole number.*; got 2.5"):
        model.random_return(2.5)


def test_rewards_that_never_come_are_not_in_the_range():
    model = model_of(1)
    rewards, probabilities = model.rewards.copy(), model.probabilities.copy()
    rewards[0, 0, 0], probabilities[0, 0] = 99.0, [0.0, 0.5, 0.5]
    changed = FiniteModel(
        probabilities=probabilities,
        next_states=model.next_states,
        rewards=rewards,
        ended=model.ended,
        initial=model.initial,
    )
    possible = rewards[probabilities > 0.0]
    assert changed.reward_range == (possible.min(), possible.max())
    assert changed.reward_range[1] < 99.0


def test_a_masked_table_is_valued_with_its_masks():
    """The features of the walk allow two or three actions; the model alone would allow all."""
    features = masked_table()
    model = model_of(4, states=6, actions=3)
    weights = np.tile(np.arange(features.dim, dtype=float), (2, 1))  # the last feasible is best
    policy = rs.Policy(weights=weights, one_hot=True, clip=False)

    def last(h, s, below):
        return np.eye(3)[np.flatnonzero(features.feasible(s))[-1]]

    assert model.policy_return(policy, features) == pytest.approx(tree(model, 2, last), abs=1e-12)
