from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import episode_of, ragged_episode, reference_q, unit_rows
from rareswitch.core import codec
from rareswitch.core.history import History
from rareswitch.core.lsvi import fit
from rareswitch.core.recipe import Recipe
from rareswitch.core.undo import take_back

TWO = np.eye(2)


def learner(**changes):
    arguments = {"dim": 2, "horizon": 2, "schedule": rs.EveryEpisode(), "beta": 0.4}
    return rs.Learner(**(arguments | {"ties": "lowest"} | changes))


def test_arrays_changed_after_observe_change_nothing():
    features, rewards, menu = np.eye(2), np.array([0.0, 1.0]), np.eye(2)
    touched, untouched = learner(), learner()
    touched.observe(rs.Episode(features=features, rewards=rewards, next_features=[menu]))
    untouched.observe(rs.Episode(features=TWO, rewards=[0.0, 1.0], next_features=[TWO]))
    features[:], rewards[:], menu[:] = 0.3, 0.3, 0.3
    touched.observe(rs.Episode(features=TWO, rewards=[1.0, 1.0], next_features=[TWO]))
    untouched.observe(rs.Episode(features=TWO, rewards=[1.0, 1.0], next_features=[TWO]))
    assert touched.snapshot() == untouched.snapshot()


def test_after_an_early_end_nothing_is_worth_anything():
    ended = learner(dim=1)
    ended.observe(rs.Episode(features=[[1.0]], rewards=[0.5], next_features=[]))
    assert ended.policy.weights[:, 0] == pytest.approx([0.5 / 2, 0.0])
    assert ended.policy.whitener[1, 0, 0] == 1.0  # stage 1 was not reached


def test_an_episode_cut_off_is_worth_its_last_next_state():
    cut = learner(dim=1)
    cut.observe(rs.Episode(features=[[1.0]], rewards=[0.5], next_features=[[[1.0], [0.2]]]))
    # V_1 = 0.4·‖1‖ under Λ_1 = 1, so w_0 = (0.5 + 0.4)/2
    assert cut.policy.weights[:, 0] == pytest.approx([0.9 / 2, 0.0])


def test_after_the_horizon_a_next_state_is_ignored():
    complete, overlong = learner(), learner()
    parts = {"features": TWO, "rewards": [0.2, 0.7]}
    complete.observe(rs.Episode(**parts, next_features=[TWO]))
    overlong.observe(rs.Episode(**parts, next_features=[TWO, 5 * TWO]))
    assert complete.snapshot() == overlong.snapshot()


@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.sampled_from([0.05, 1.0, 3.0]))
def test_any_ragged_history_gives_the_values_of_the_raw_regression(seed, horizon, clip, ridge):
    rng = np.random.default_rng(seed)
    dim, beta = 3, 0.6
    episodes = [ragged_episode(rng, horizon=horizon, dim=dim) for _ in range(12)]
    fed = learner(dim=dim, horizon=horizon, beta=beta, ridge=ridge, clip=clip)
    for episode in episodes:
        fed.observe(episode)
    expected = reference_q(episodes, horizon=horizon, dim=dim, beta=beta, ridge=ridge, clip=clip)
    for h in range(horizon):
        rows = unit_rows(rng, 6, dim)
        np.testing.assert_allclose(fed.policy.q_values(h, rows), expected(h, rows), atol=1e-9)


def test_next_states_are_those_of_the_episodes():
    world = rs.instances.tabular(states=3, actions=2, horizon=4, seed=0)
    rng = np.random.default_rng(0)
    history = empty(dim=world.dim, horizon=4)
    for _ in range(200):
        history.absorb(episode_of(world, rng.integers(0, 3, 5), rng.integers(0, 2, 4)))
    arrays = history.to_arrays()
    for h in range(world.horizon - 1):
        assert arrays[f"next_states/{h}/rows"].shape == (3 * 2, world.dim)
        sums = arrays[f"next_states/{h}/sums"]
        assert sums[:, : world.dim].sum() == sums[:, world.dim].sum() == 200
        assert sums[:, -1].sum() == pytest.approx(history.step_sums[h, -1])
    assert history.episodes == 200


def empty(**changes):
    return History(**{"dim": 3, "horizon": 2, "ridge": 1.0, "feature_norm": 1e6} | changes)


def contents(history):
    """Return all that a history holds, as bytes."""
    return {name: array.tobytes() for name, array in history.to_arrays().items()}


def test_a_log_folded_is_episodes_absorbed_one_by_one():
    rng = np.random.default_rng(3)
    log = [ragged_episode(rng, horizon=3, dim=2) for _ in range(30)]
    one_by_one = empty(dim=2, horizon=3, ridge=0.3)
    for episode in log:
        one_by_one.absorb(episode)
    folded = History.from_log(iter(log), dim=2, horizon=3, ridge=0.3)
    assert contents(folded) == contents(one_by_one)
    assert folded.episodes == 30


@given(st.data(), st.integers(0, 10**6), st.sampled_from([0.1, 1.0]))
def test_neither_the_order_of_episodes_nor_who_acted_matters(data, seed, ridge):
    rng = np.random.default_rng(seed)
    log = [ragged_episode(rng, horizon=3, dim=3) for _ in range(12)]
    # Some states are met several times, with their actions in another order.
    log += [
        replace(e, next_features=[rng.permutation(rows) for rows in e.next_features])
        for e in log[:5]
    ]
    order = data.draw(st.permutations(range(len(log))))
    recipe = Recipe(exploration=rs.Bonus(0.4), ridge=ridge)
    histories = [
        History.from_log(each, dim=3, horizon=3, ridge=ridge)
        for each in (log, [log[i] for i in order])
    ]
    policies = [fit(history, recipe, version=3) for history in histories]
    np.testing.assert_allclose(policies[0].weights, policies[1].weights, atol=1e-9)
    np.testing.assert_allclose(
        histories[0].gram.logdet, histories[1].gram.logdet, rtol=0, atol=1e-12
    )
    rows = unit_rows(rng, 9, 3)
    for h in range(3):
        found = [policy.q_values(h, rows) for policy in policies]
        np.testing.assert_allclose(*found, atol=1e-9)
    counts = [history.to_arrays()["next_states/0/lengths"] for history in histories]
    assert sorted(counts[0]) == sorted(counts[1])


@given(st.integers(0, 10**6), st.integers(0, 8))
def test_an_episode_taken_back_leaves_every_byte_as_it_was(seed, count):
    rng = np.random.default_rng(seed)
    log = [ragged_episode(rng, horizon=3, dim=2) for _ in range(count)]
    history = History.from_log(log, dim=2, horizon=3)
    before = contents(history)
    new = ragged_episode(rng, horizon=3, dim=2)
    for episode in (new, *log[:2], new):
        undo = []
        history.absorb(episode, undo)
        take_back(undo)
        assert contents(history) == before
        assert history.episodes == count
    history.absorb(new)
    assert contents(history) == contents(History.from_log([*log, new], dim=2, horizon=3))


def test_a_history_survives_its_arrays():
    rng = np.random.default_rng(3)
    history = empty(dim=2, horizon=3)
    for _ in range(20):
        history.absorb(ragged_episode(rng, horizon=3, dim=2))
    copy = empty(dim=2, horizon=3)
    packed = codec.pack("history", {}, history.to_arrays())
    copy.fill(codec.unpack("history", packed), episodes=20)
    assert copy.episodes == 20
    for episode in (ragged_episode(rng, horizon=3, dim=2) for _ in range(3)):
        assert contents(copy) == contents(history)
        history.absorb(episode)
        copy.absorb(episode)
    assert contents(copy) == contents(history)
