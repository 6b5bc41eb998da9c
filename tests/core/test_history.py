import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import episode_of, ragged_episode, reference_q, unit_rows
from rareswitch.core.history import History

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


def test_equal_next_states_are_stored_once():
    world = rs.instances.tabular(states=3, actions=2, horizon=4, seed=0)
    rng = np.random.default_rng(0)
    history = History(world.horizon, world.dim)
    for _ in range(200):
        history.absorb(episode_of(world, rng.integers(0, 3, 5), rng.integers(0, 2, 4)))
    arrays = history.to_arrays()
    for h in range(world.horizon - 1):
        assert arrays[f"next_states/{h}/rows"].shape == (3 * 2, world.dim)
        assert arrays[f"next_states/{h}/lengths"].tolist() == [2, 2, 2]
        assert arrays[f"next_states/{h}/sums"].sum() == 200


def test_different_next_states_are_all_kept_in_order():
    rng = np.random.default_rng(1)
    history = History(2, 3)
    episodes = [ragged_episode(rng, horizon=2, dim=3, steps=2, cut_off=False) for _ in range(300)]
    for episode in episodes:
        history.absorb(episode)
    arrays = history.to_arrays()
    rows = np.concatenate([episode.next_features[0] for episode in episodes])
    assert (arrays["next_states/0/rows"] == rows).all()
    assert (arrays["next_states/0/sums"] == [episode.features[0] for episode in episodes]).all()


def test_values_do_not_depend_on_how_many_rows_are_evaluated_at_a_time(monkeypatch):
    rng = np.random.default_rng(2)
    history = History(2, 3)
    for _ in range(40):
        history.absorb(ragged_episode(rng, horizon=2, dim=3, steps=2))
    whole = history.next_value_sums(0, lambda rows: rows[:, 0])
    monkeypatch.setattr("rareswitch.core.history.BLOCK_ROWS", 7)
    np.testing.assert_allclose(history.next_value_sums(0, lambda rows: rows[:, 0]), whole)


def test_a_history_survives_its_arrays():
    rng = np.random.default_rng(3)
    history = History(3, 2)
    for _ in range(20):
        history.absorb(ragged_episode(rng, horizon=3, dim=2))
    copy = History.from_arrays(history.to_arrays())
    later = ragged_episode(rng, horizon=3, dim=2)
    history.absorb(later)
    copy.absorb(later)
    for name, array in history.to_arrays().items():
        assert copy.to_arrays()[name].tobytes() == array.tobytes()
