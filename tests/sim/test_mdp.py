from itertools import product

import numpy as np
import pytest

import rareswitch as rs
from oracles import masked_world
from rareswitch.sim import FiniteLinearMDP, FiniteMDP


def tiny(seed=0, *, horizon=2, states=2, actions=3):
    """Return the parts of a random MDP whose features say nothing about its dynamics."""
    rng = np.random.default_rng(seed)
    return {
        "features": rng.random((states, actions, 2)),
        "transitions": rng.dirichlet(np.ones(states), (horizon, states, actions)),
        "rewards": rng.random((horizon, states, actions)),
    }


def value_by_paths(world, table, h, s):
    """Return V^π_h(s) by summing over every path, from the definition."""
    total = 0.0
    for path in product(range(world.states), repeat=world.horizon - h):
        chance, gain, here = 1.0, 0.0, s
        for stage, there in enumerate(path, start=h):
            action = table[stage][here]
            gain += world.rewards[stage, here, action]
            chance *= world.transitions[stage, here, action, there]
            here = there
        total += chance * gain
    return total


def all_policies(world):
    options = [np.flatnonzero(allowed) for allowed in world.feasible]
    for choice in product(*(options * world.horizon)):
        yield np.array(choice).reshape(world.horizon, world.states)


WORLDS = {
    "free": FiniteMDP(**tiny(1)),
    "barred": FiniteMDP(**tiny(2), feasible=np.array([[True, False, True], [False, False, True]])),
    "three states": FiniteMDP(**tiny(3, states=3, actions=2)),
    "one stage": FiniteMDP(**tiny(4, horizon=1)),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_optimal_values_are_the_best_of_every_policy(world):
    values = np.array([world.policy_values(table) for table in all_policies(world)])
    optimal = world.optimal_values()
    assert optimal.shape == (world.horizon + 1, world.states)
    np.testing.assert_allclose(optimal, values.max(axis=0), atol=1e-12)
    assert not optimal[-1].any()


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_policy_values_are_sums_over_paths(world):
    rng = np.random.default_rng(5)
    tables = list(all_policies(world))
    for pick in rng.integers(0, len(tables), 5):
        table = tables[pick]
        found = world.policy_values(table)
        for h in range(world.horizon):
            for s in range(world.states):
                assert found[h, s] == pytest.approx(value_by_paths(world, table, h, s), abs=1e-12)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_optimal_actions_are_feasible_and_attain_the_optimum(world):
    table = world.optimal_actions()
    assert world.feasible[np.arange(world.states), table].all()
    np.testing.assert_allclose(world.policy_values(table), world.optimal_values(), atol=1e-12)


def test_the_lowest_of_equal_actions_is_optimal():
    parts = tiny(6)
    world = FiniteMDP(
        features=parts["features"],
        transitions=np.full((2, 2, 3, 2), 0.5),
        rewards=np.full((2, 2, 3), 0.5),
        feasible=np.array([[False, True, True], [True, True, True]]),
    )
    assert world.optimal_actions().tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_random_values_are_the_mean_over_every_policy(world):
    values = [world.policy_values(table) for table in all_policies(world)]
    np.testing.assert_allclose(world.random_values(), np.mean(values, axis=0), atol=1e-12)


def test_an_infeasible_action_is_never_optimal_however_good():
    parts = tiny(7)
    parts["rewards"][:, :, 0] = 1.0
    feasible = np.array([[False, True, True], [False, True, False]])
    world = FiniteMDP(**parts, feasible=feasible)
    assert (world.optimal_actions() > 0).all()
    assert world.optimal_values()[0].max() < 2.0
    assert (world.optimal_values()[0] < FiniteMDP(**parts).optimal_values()[0]).all()


@pytest.mark.parametrize(
    ("part", "place", "value", "message"),
    [
        ("transitions", (1, 0, 2), [0.7, 0.2], r"sum to 1.*\(1, 0, 2\) they sum to 0\.9$"),
        ("transitions", (0, 1, 1), [1.5, -0.5], r"transitions must be at least 0; got -0\.5 at "),
        ("rewards", (1, 1, 2), 1.25, r"rewards must be in \[0, 1\]; got 1\.25 at \(1, 1, 2\), off"),
        ("rewards", (0, 1, 0), -0.5, r"rewards must be in \[0, 1\]; got -0\.5 at .* off by 0\.5"),
        ("rewards", (0, 1, 0), np.nan, r"rewards must be finite; got nan at index \(0, 1, 0\)"),
        ("features", (1, 2, 0), np.inf, r"features must be finite; got inf at index \(1, 2, 0\)"),
        ("transitions", (0, 0, 0), np.nan, "transitions must be finite; got nan"),
    ],
)
def test_a_world_out_of_range_is_refused_with_place_and_amount(part, place, value, message):
    parts = tiny(8)
    parts[part][place] = value
    with pytest.raises(ValueError, match=message):
        FiniteMDP(**parts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.ones((2, 3))}, r"features must have shape \(S, A, d\); got \(2, 3\)"),
        ({"transitions": np.ones((2, 3, 2))}, r"transitions must have shape \(H, 2, 3, 2\)"),
        ({"rewards": np.ones((3, 2, 3))}, r"rewards must have shape \(2, 2, 3\); got \(3, 2, 3\)"),
        ({"feasible": np.ones((3, 2), bool)}, r"feasible must have shape \(2, 3\); got \(3, 2\)"),
        (
            {"feasible": np.array([[True, True, True], [False, False, False]])},
            "feasible must allow an action in every state; state 1 has none",
        ),
    ],
)
def test_a_world_of_the_wrong_shape_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        FiniteMDP(**(tiny(9) | change))


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((2, 3), int), r"actions must be whole numbers of shape \(H, S\) = \(2, 2\)"),
        (np.zeros((2, 2)), "actions must be whole numbers.*float64"),
        (np.full((2, 2), 3), "actions must be from 0 to 2; got 3"),
        (np.full((2, 2), -1), "actions must be from 0 to 2; got -1"),
        (np.array([[0, 2], [0, 1]]), "action 1 is not in state 1"),
    ],
)
def test_a_bad_policy_is_refused(actions, message):
    with pytest.raises(ValueError, match=message):
        WORLDS["barred"].policy_values(actions)


def test_sizes_and_the_feature_norm_count_feasible_pairs_only():
    features = np.array([[[3.0, 4.0], [1.0, 0.0]], [[0.0, 2.0], [30.0, 0.0]]])
    parts = {"transitions": np.full((4, 2, 2, 2), 0.5), "rewards": np.zeros((4, 2, 2))}
    world = FiniteMDP(features=features, **parts)
    assert (world.horizon, world.states, world.dim) == (4, 2, 2)
    assert world.feature_norm == 30.0
    barred = FiniteMDP(features=features, **parts, feasible=[[True, True], [True, False]])
    assert barred.feature_norm == 5.0


def test_a_world_holds_read_only_copies():
    parts = tiny(10)
    feasible = np.ones((2, 3), bool)
    world = FiniteMDP(**parts, feasible=feasible)
    before = world.optimal_values()
    for array in (*parts.values(), feasible):
        array[:] = 0
    assert (world.optimal_values() == before).all()
    for array in (world.features, world.transitions, world.rewards, world.feasible):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_the_catalogue_leaves_infeasible_actions_out():
    world = masked_world(11)
    ends = [*world.space.starts[1:], len(world.space.rows)]
    for s, (start, end) in enumerate(zip(world.space.starts, ends, strict=True)):
        assert world.space.actions[start:end].tolist() == np.flatnonzero(world.feasible[s]).tolist()


@pytest.mark.parametrize("mask", [[["no", "no"]] * 2, np.full((2, 2), np.nan), np.ones((2, 2))])
def test_only_truth_values_say_what_is_feasible(mask):
    world = rs.worlds.tabular(states=2, actions=2, horizon=1)
    arrays = {name: getattr(world, name) for name in ("features", "transitions", "rewards")}
    with pytest.raises(TypeError, match="feasible must be an array of True and False"):
        FiniteMDP(**arrays, feasible=mask)


LINEAR = {
    "hard": rs.worlds.hard_to_learn(d=6, horizon=4, seed=1),
    "random": rs.worlds.random_linear(states=5, actions=3, d=4, horizon=3, seed=2),
    "lower": rs.worlds.lower_bound_family(states=3, horizon=4, seed=3),
    "masked": masked_world(4),
}


@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_transitions_and_rewards_are_linear_in_the_features(world):
    P = np.einsum("sad,htd->hsat", world.features, world.mu)
    r = np.einsum("sad,hd->hsa", world.features, world.theta)
    np.testing.assert_allclose(world.transitions[:, world.feasible], P[:, world.feasible])
    np.testing.assert_allclose(world.rewards[:, world.feasible], r[:, world.feasible], atol=1e-12)


@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
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
