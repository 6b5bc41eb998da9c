import numpy as np
import pytest

import rareswitch as rs
from rareswitch.sim import simulate_random
from rareswitch.sim.run import Record, Run, initial_states, noise_of
from rareswitch.support.streams import Stream, generator

WORLD = rs.worlds.random_linear(states=5, actions=3, d=4, horizon=3, seed=3)


def run_of(**changes):
    """Return a run of six episodes with fits before episodes 1, 3 and 6."""
    parts = {
        "regret": np.array([3.0, 2.0, 1.0, 1.0, 0.0, 0.5]),
        "states": np.array([[0, 1], [1, 1], [2, 0], [0, 0], [1, 0], [1, 2]]),
        "actions": np.zeros((6, 1), np.int64),
        "members": np.zeros(6, np.int64),
        "deployment_episodes": np.array([1, 3, 6]),
        "switch_episodes": np.array([6]),
        "fitted_values": np.array([2.0, 1.0, 0.7]),
        "local_switches": 2,
        "policy": None,
    }
    return Run(**parts | changes)


def test_the_share_of_optimistic_fits_compares_where_their_episodes_began():
    run = run_of()
    assert run.optimistic_share(np.array([2.0, 0.7, 1.1])) == 2 / 3
    assert run.optimistic_share(np.array([2.1, 0.8, 1.1])) == 0.0
    assert run.optimistic_share(np.array([1.0, 0.5, 1.0])) == 1.0
    assert run.optimistic_share(np.array([2.0 + 0.9e-9, 0.7, 1.0])) == 1.0  # up to rounding


def test_random_play_has_no_fits_and_so_no_share_of_optimistic_ones():
    run = simulate_random(WORLD, episodes=20, seed=4, initial_state="uniform")
    assert run.deployments == 0
    with np.errstate(all="raise"):  # and warnings are errors
        assert np.isnan(run.optimistic_share(WORLD.optimal_values()[0]))


def test_the_share_of_a_simulated_run_is_that_of_its_fits():
    optimal = WORLD.optimal_values()[0]
    run = rs.simulate(
        WORLD,
        rs.UniformGrid(batches=9),
        rs.Recipe.paper(beta=0.6),
        episodes=80,
        initial_state="uniform",
    )
    starts = run.states[run.deployment_episodes - 1, 0]
    pairs = zip(run.fitted_values, starts, strict=True)
    share = np.mean([value >= optimal[s] - 1e-9 for value, s in pairs])
    assert run.optimistic_share(optimal) == share
    assert 0.0 < share < 1.0


def test_a_run_counts_and_averages():
    run = run_of()
    assert (run.deployments, run.switches) == (3, 1)
    np.testing.assert_allclose(run.average_regret, [3.0, 2.5, 2.0, 1.75, 1.4, 1.25])
    assert repr(run) == "Run(6 episodes, regret 7.5, 3 deployments, 1 switches)"


def test_a_record_gives_runs_that_later_episodes_do_not_change():
    record = Record(runs=2, episodes=4, horizon=1)
    for k in (1, 3):
        record.deploy(
            np.array([0, 1]),
            np.array([k, k]),
            logdet=np.full((2, 1), float(k)),
            trace=np.ones((2, 1)),
            values=np.array([1.0, 2.0]) * k,
            changes=np.array([0, k - 1]),
        )
        for episode in (k, k + 1):
            record.play(
                np.array([0, 1]),
                np.array([episode, episode]),
                states=np.array([[0, episode], [1, episode]]),
                actions=np.array([[episode], [2 * episode]]),
                members=np.array([0, 1]),
                regret=np.array([0.5, float(episode)]),
            )
        if k == 1:
            early = record.run(1, 2, None)
    late = record.run(1, 4, None)
    assert early.regret.tolist() == [1.0, 2.0]
    assert late.regret.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert early.deployment_episodes.tolist() == [1]
    assert late.deployment_episodes.tolist() == [1, 3]
    assert early.fitted_values.tolist() == [2.0]
    assert late.fitted_values.tolist() == [2.0, 6.0]
    assert late.states.tolist() == [[1, 1], [1, 2], [1, 3], [1, 4]]
    assert late.actions.tolist() == [[2], [4], [6], [8]]
    assert (late.switch_episodes.tolist(), late.local_switches) == ([3], 2)
    assert record.run(0, 4, None).switches == 0
    assert [deployment.logdet.tolist() for deployment in record.ledgers[1]] == [[1.0], [3.0]]


def test_initial_states_are_given_listed_or_drawn_from_their_own_stream():
    assert initial_states(2, 5, 4, seed=0).tolist() == [2, 2, 2, 2]
    assert initial_states(np.array([0, 4, 1]), 5, 3, seed=0).tolist() == [0, 4, 1]
    drawn = initial_states("uniform", 5, 400, seed=(1, 2))
    np.testing.assert_array_equal(drawn, generator((1, 2), Stream.INITIAL).integers(0, 5, 400))
    assert set(drawn) == set(range(5))


def test_noise_is_given_or_drawn_from_its_own_stream():
    drawn = noise_of(None, 6, 3, seed=(1, 2))
    np.testing.assert_array_equal(drawn, generator((1, 2), Stream.NOISE).random((6, 3)))
    np.testing.assert_array_equal(noise_of(drawn, 6, 3, seed=9), drawn)
    with pytest.raises(ValueError, match=r"noise must have shape \(6, 2\)"):
        noise_of(drawn, 6, 2, seed=9)
