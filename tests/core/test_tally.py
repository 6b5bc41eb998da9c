import numpy as np

from rareswitch.core.tally import FiniteSpace, Tally


def test_a_space_lists_distinct_rows_by_state_under_their_lowest_feasible_action():
    a, b, c = np.eye(3)
    features = np.array([[b, a, b, a], [c, c, c, c], [a, b, c, a]])
    feasible = np.ones((3, 4), bool)
    feasible[0, 0] = feasible[2, 0] = False
    space = FiniteSpace(features, feasible)
    assert space.states == 3
    assert space.starts.tolist() == [0, 2, 3]
    assert space.actions.tolist() == [1, 2, 0, 1, 2, 3]
    assert (space.rows == [a, b, c, b, c, a]).all()
    assert (space.columns == space.rows.T).all()


def test_a_state_of_the_hard_instance_with_one_feature_has_one_row():
    features = np.zeros((2, 8, 3))
    features[0] = np.arange(24).reshape(8, 3)
    space = FiniteSpace(features, np.ones((2, 8), bool))
    assert len(space.rows) == 9
    assert space.actions[-1] == 0


def test_sums_are_those_of_the_raw_episodes():
    rng = np.random.default_rng(0)
    runs, horizon, states, d, episodes = 3, 4, 5, 2, 20
    space = FiniteSpace(rng.random((states, 3, d)), np.ones((states, 3), bool))
    tally = Tally(space, runs, horizon)
    features = rng.random((episodes, runs, horizon, d))
    rewards = rng.random((episodes, runs, horizon))
    following = rng.integers(0, states, (episodes, runs, horizon))
    for episode in zip(features, rewards, following, strict=True):
        tally.absorb(*episode)
    np.testing.assert_allclose(tally.reward_sums, np.einsum("krh,krhd->rhd", rewards, features))
    arrived = following[..., None] == np.arange(states)
    np.testing.assert_allclose(
        tally.feature_sums, np.einsum("krhs,krhd->rhsd", arrived, features), atol=1e-12
    )


def test_moves_counted_at_once_equal_episodes_one_by_one():
    rng = np.random.default_rng(1)
    runs, horizon, states, d, episodes = 2, 3, 4, 3, 30
    space = FiniteSpace(rng.random((states, 2, d)), np.ones((states, 2), bool))
    at_once, one_by_one = Tally(space, runs, horizon), Tally(space, runs, horizon)
    features = rng.random((runs, horizon, states, d))
    rewards = rng.random((runs, horizon, states))
    path = rng.integers(0, states, (episodes, runs, horizon + 1))
    moves = np.zeros((runs, horizon, states, states))
    run, stage = np.ogrid[:runs, :horizon]
    for states_now in path:
        here, there = states_now[:, :-1], states_now[:, 1:]
        one_by_one.absorb(features[run, stage, here], rewards[run, stage, here], there)
        np.add.at(moves, (run, stage, here, there), 1.0)
    at_once.absorb_moves(moves, features, rewards)
    np.testing.assert_allclose(at_once.reward_sums, one_by_one.reward_sums, atol=1e-12)
    np.testing.assert_allclose(at_once.feature_sums, one_by_one.feature_sums, atol=1e-12)
