"""A mixture redrawn at every step: one member is the plain mixture, many are independent steps."""

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.sim.baselines import redrawn_mixture

WORLD = rs.worlds.tabular(states=3, actions=2, horizon=4, seed=1)


@pytest.mark.parametrize("batches", [1, 4])
def test_one_member_redrawn_is_that_member(batches):
    run = redrawn_mixture(WORLD, episodes=40, batches=batches, members=1, seed=3)
    recipe = rs.Recipe(exploration=rs.Ensemble(members=1))
    plain = rs.simulate(WORLD, rs.UniformGrid(batches=batches), recipe, episodes=40, seed=3)
    np.testing.assert_array_equal(run.actions, plain.actions)
    np.testing.assert_allclose(run.regret, plain.regret, atol=1e-12)
    np.testing.assert_array_equal(run.deployment_episodes, plain.deployment_episodes)


def test_steps_are_drawn_by_the_propensities_and_independently():
    K = 4000
    lone = rs.worlds.tabular(
        states=1, actions=2, horizon=2, seed=0
    )  # one state: every step is seen
    run = redrawn_mixture(lone, episodes=K, batches=1, members=8, seed=0)
    recipe = rs.Recipe(exploration=rs.Ensemble(members=8), seed=0)
    policy = rs.Learner(lone.task(episodes=K), rs.UniformGrid(batches=1), recipe).policy
    shares = [policy.propensities(h, lone.features[0])[1] for h in range(2)]
    first, second = run.actions.T
    assert all(0.0 < share < 1.0 for share in shares)
    for taken, share in ((first, shares[0]), (second, shares[1])):
        assert abs(taken.mean() - share) < 5 * np.sqrt(share * (1 - share) / K)
    # One member for the whole episode would have a share of members that take action 1 twice.
    both = shares[0] * shares[1]
    assert abs((first & second).mean() - both) < 5 * np.sqrt(both * (1 - both) / K)
    members = policy.choices(0, lone.features[0]) & policy.choices(1, lone.features[0])
    assert abs(members.mean() - both) > 10 * np.sqrt(both * (1 - both) / K)


def test_infeasible_actions_are_never_taken():
    feasible = np.array([[True, False], [False, True], [True, True]])
    world = rs.worlds.tabular(states=3, actions=2, horizon=3, seed=2)
    masked = type(world).__mro__[1](
        features=world.features,
        transitions=world.transitions,
        rewards=world.rewards,
        feasible=feasible,
    )
    run = redrawn_mixture(masked, episodes=30, batches=3, members=4, seed=0)
    assert feasible[run.states[:, :-1], run.actions].all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"members": 0}, "members must be"),
        ({"batches": 0}, "batches must be"),
        ({"episodes": 0}, "episodes"),
    ],
)
def test_impossible_settings_are_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        redrawn_mixture(WORLD, **{"episodes": 10, "batches": 2} | arguments)
