import numpy as np
import pytest

import rareswitch as rs
from oracles import masked_world
from rareswitch.sim import FiniteLinearMDP

WORLDS = {
    "hard": rs.instances.hard_to_learn(d=6, horizon=4, seed=1),
    "random": rs.instances.random_linear(states=5, actions=3, d=4, horizon=3, seed=2),
    "lower": rs.instances.lower_bound(states=3, horizon=4, seed=3),
    "masked": masked_world(4),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_transitions_and_rewards_are_linear_in_the_features(world):
    P = np.einsum("sad,htd->hsat", world.features, world.mu)
    r = np.einsum("sad,hd->hsa", world.features, world.theta)
    np.testing.assert_allclose(world.transitions[:, world.feasible], P[:, world.feasible])
    np.testing.assert_allclose(world.rewards[:, world.feasible], r[:, world.feasible], atol=1e-12)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_the_weights_of_a_policy_reproduce_its_q_values(world):
    rng = np.random.default_rng(5)
    chance = rng.random((world.horizon, *world.feasible.shape)) * world.feasible
    table = chance.argmax(axis=-1)
    weights = world.policy_weights(table)
    values = world.policy_values(table)
    assert weights.shape == (world.horizon, world.dim)
    for h in range(world.horizon):
        q_values = world.rewards[h] + world.transitions[h] @ values[h + 1]
        found = world.features @ weights[h]
        np.testing.assert_allclose(found[world.feasible], q_values[world.feasible], atol=1e-12)


def parts():
    return {
        "features": np.eye(2).reshape(1, 2, 2),
        "mu": np.ones((3, 1, 2)),
        "theta": np.full((3, 2), 0.5),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"theta": np.full((3, 2), 1.5)}, r"rewards must be in \[0, 1\]; got 1\.5 .*off by 0\.5"),
        ({"mu": np.full((3, 1, 2), 0.5)}, r"transitions must sum to 1.*\(0, 0, 0\).* sum to 0\.5"),
        ({"mu": np.full((3, 1, 2), -1.0)}, r"transitions must be at least 0; got -1 at \(0, 0, 0,"),
        ({"mu": np.ones((3, 2, 2))}, r"mu must have shape \(H, 1, 2\); got \(3, 2, 2\)"),
        ({"theta": np.ones((2, 2))}, r"theta must have shape \(3, 2\); got \(2, 2\)"),
        ({"features": np.eye(2)}, r"features must have shape \(S, A, d\)"),
        ({"theta": np.full((3, 2), np.nan)}, "theta must be finite; got nan"),
    ],
)
def test_a_world_that_is_no_mdp_is_refused(change, message):
    arguments = parts() | change
    with pytest.raises(ValueError, match=message):
        FiniteLinearMDP(**arguments)


def test_norms_beyond_the_definition_are_reported_not_refused():
    assert FiniteLinearMDP(**parts()).violations == ()
    scaled = parts()
    scaled["features"] = scaled["features"] * np.array([2.0, 0.25])
    scaled["mu"] = scaled["mu"] / np.array([2.0, 0.25])
    scaled["theta"] = scaled["theta"] / np.array([2.0, 0.25])
    scaled["theta"][2, 1] = 0.4
    world = FiniteLinearMDP(**scaled)
    assert world.feature_norm == 2.0
    phi, mu, theta = world.violations
    assert phi == "‖φ(s,a)‖ = 2 at (s, a) = (0, 0) exceeds 1 by 1"
    assert mu == "‖μ_h(S)‖ = 4.031 at h = 0 exceeds 1.414 by 2.62"
    assert theta == "‖θ_h‖ = 2.016 at h = 0 exceeds 1.414 by 0.601"


def test_a_pair_that_can_never_be_played_need_not_be_valid():
    features = np.array([[[1.0, 0.0], [7.0, -3.0]]])
    arguments = parts() | {"features": features}
    with pytest.raises(ValueError, match="must"):
        FiniteLinearMDP(**arguments)
    world = FiniteLinearMDP(**arguments, feasible=np.array([[True, False]]))
    assert world.optimal_values()[0] == pytest.approx(1.5)
    assert world.feature_norm == 1.0
    assert world.violations == ()


def test_probabilities_that_miss_zero_or_one_by_rounding_are_set_to_it():
    arguments = {
        "features": np.array([[[1.0]], [[1.0]]]),
        "mu": np.array([[[1.0 - 1e-12], [1e-12]]]),
        "theta": np.array([[-1e-13]]),
    }
    world = FiniteLinearMDP(**arguments)
    assert world.transitions[0, 0, 0].tolist() == [1.0, 0.0]
    assert world.rewards[0, 0, 0] == 0.0


def test_a_feasible_mask_of_the_wrong_shape_is_named():
    features = np.eye(2).reshape(1, 2, 2)
    with pytest.raises(ValueError, match="feasible must have shape"):
        FiniteLinearMDP(
            features, np.ones((3, 1, 2)), np.full((3, 2), 0.5), feasible=np.ones((2, 2), bool)
        )
