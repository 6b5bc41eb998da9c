import numpy as np

from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.features import OneHot
from rareswitch.trajectories import Trajectory


def rows(state):
    return np.eye(2) * (state + 1.0)


def told(observations, actions, rewards, terminated, **more):
    more = {"propensities": [0.5] * len(actions)} | more
    return Trajectory(
        observations=observations, actions=actions, rewards=rewards, terminated=terminated, **more
    )


ENDED = told([0, 1, 0], [1, 0], [1.0, 2.0], True)
CUT = told([0, 2], [0], [4.0], False, propensities=[0.25])
LONG = told([0, 1, 1, 1], [1, 1, 1], [0.0, 1.0, 2.0], True)


def test_episodes_are_laid_out_stage_by_stage():
    logged = LoggedEpisodes.of([ENDED, CUT, LONG], rows, 3)
    assert (len(logged), logged.horizon, logged.dim) == (3, 3, 2)
    np.testing.assert_array_equal(logged.rewards, [[1, 2, 0], [4, 0, 0], [0, 1, 2]])
    np.testing.assert_array_equal(
        logged.likelihood, [[0.5, 0.25, 0.25], [0.25] * 3, [0.5, 0.25, 0.125]]
    )
    first, second, third = logged.stages
    assert (first.state.tolist(), first.taken.tolist()) == ([0, 0, 0], [1, 0, 1])
    # The state after a cut is seen and nothing is taken there; after an end there is none.
    assert (second.state.tolist(), second.taken.tolist()) == ([0, 1, 0], [0, -1, 1])
    assert (third.state.tolist(), third.taken.tolist()) == ([-1, -1, 0], [-1, -1, 1])
    assert second.played.tolist() == [True, False, True]
    np.testing.assert_array_equal(second.rows, [[2, 0], [0, 2], [3, 0], [0, 3]])
    assert second.starts.tolist() == [0, 2]
    np.testing.assert_array_equal(second.taken_rows(second.played), [[2, 0], [0, 2]])


def test_states_are_the_same_where_their_rows_are():
    masks = [[[True, True], [True, True]], [[True, False], [True, True]]]
    log = [told([s, 0], [0], [0.0], False, masks=mask) for s in (0, 1, 0) for mask in masks]
    (stage,) = LoggedEpisodes.of(log, OneHot(states=2, actions=2), 1).stages
    assert stage.state.tolist() == [0, 1, 2, 3, 0, 1]
    assert (stage.rows.tolist(), stage.starts.tolist()) == ([0, 1, 0, 2, 3, 2], [0, 2, 3, 5])


def test_a_stage_that_nobody_reached_is_empty():
    *_, last = LoggedEpisodes.of([ENDED, ENDED], rows, 5).stages
    assert (len(last.starts), last.state.tolist()) == (0, [-1, -1])


def test_with_probabilities_a_state_is_known_by_them_too():
    log = [told([s, 0], [0], [0.0], True) for s in (0, 1, 2, 0)]
    chances = {0: [0.5, 0.5], 1: [1.0, 0.0], 2: [0.5, 0.5]}
    (stage,) = LoggedEpisodes.of(log, None, 1, lambda state, h: chances[state]).stages
    assert stage.state.tolist() == [0, 1, 0, 0]
    assert stage.rows.tolist() == [0, 1, 0, 1]  # the numbers of the actions
    assert stage.chances.tolist() == [0.5, 0.5, 1.0, 0.0]
