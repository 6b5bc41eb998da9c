from itertools import product

import numpy as np
import pytest

from rareswitch import worlds
from rareswitch.sim import FiniteLinearMDP

READINGS = ["completed", "padded", "compact"]
DELTA = 0.35


def hidden(world, reading, d):
    """Return the actions (A, n) and γ (H, n) that the printed features and measures hold."""
    width = d - 3 if reading == "compact" else d - 2
    return -world.features[0, :, :width], world.mu[:, 0, :width]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("d", [4, 7, 13])
def test_the_hard_instance_has_the_printed_dynamics_in_every_reading(reading, d):
    world = worlds.hard_to_learn(d=d, horizon=5, delta=DELTA, seed=d, reading=reading)
    A = 2 ** (d - 3)
    dim = d - 1 if reading == "compact" else d
    assert world.features.shape == (2, A, dim)
    assert world.mu.shape == (5, 2, dim)
    assert world.theta.shape == (5, dim)
    actions, gamma = hidden(world, reading, d)
    choices = {tuple(a) for a in product((-1.0, 1.0), repeat=d - 3)}
    assert {tuple(a[: d - 3]) for a in actions} == choices
    size = DELTA / (d - 3 if reading == "compact" else d - 2)
    if reading == "completed":
        assert (actions[:, -1] == 1.0).all()
        np.testing.assert_allclose(np.abs(gamma), size)
    else:
        np.testing.assert_allclose(np.abs(gamma[:, : d - 3]), size)
    if reading == "padded":
        assert not actions[:, -1].any()
        assert not gamma[:, -1].any()
    np.testing.assert_array_equal(world.features[0, :, -2:], [[1 - DELTA, DELTA]] * A)
    np.testing.assert_array_equal(world.features[1, 0, -2:], [DELTA, 1 - DELTA])
    assert not world.features[1, :, :-2].any()
    up = DELTA + gamma @ actions.T  # (H, A)
    np.testing.assert_allclose(world.transitions[:, 0, :, 1], up, atol=1e-12)
    np.testing.assert_allclose(world.transitions[:, 0, :, 0], 1 - up, atol=1e-12)
    np.testing.assert_allclose(world.transitions[:, 1, :, 0], DELTA, atol=1e-12)
    np.testing.assert_allclose(world.transitions[:, 1, :, 1], 1 - DELTA, atol=1e-12)
    assert (world.rewards[:, 0] == 0.0).all()
    assert (world.rewards[:, 1] == 1.0).all()


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("delta", [0.05, 0.2, 0.35, 0.4])
def test_the_normalized_hard_instance_obeys_the_definition_with_the_same_dynamics(reading, delta):
    arguments = {"d": 8, "horizon": 4, "delta": delta, "seed": 3, "reading": reading}
    printed = worlds.hard_to_learn(**arguments)
    world = worlds.hard_to_learn(**arguments, normalized=True)
    np.testing.assert_allclose(world.transitions, printed.transitions, atol=1e-12)
    np.testing.assert_allclose(world.rewards, printed.rewards, atol=1e-12)
    assert world.feature_norm == pytest.approx(1.0, abs=1e-12)
    assert (np.linalg.norm(world.theta, axis=1) <= np.sqrt(world.dim) + 1e-12).all()
    assert (np.linalg.norm(world.mu.sum(axis=1), axis=1) <= np.sqrt(world.dim) + 1e-12).all()
    assert world.violations == ()
    assert printed.feature_norm > 2.0
    assert any("φ" in sentence for sentence in printed.violations)


@pytest.mark.parametrize("delta", [0.0, 0.5, -0.1, 0.9, 1.0])
def test_delta_outside_its_range_is_refused(delta):
    with pytest.raises(ValueError, match=f"delta must be above 0 and below 0.5.*got {delta}"):
        worlds.hard_to_learn(d=5, delta=delta)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"d": 3}, ValueError, "d must be from 4 to 20; got 3"),
        ({"d": 21}, ValueError, "d must be from 4 to 20; got 21"),
        ({"horizon": 0}, ValueError, "horizon must be from 1 to 1000000; got 0"),
        ({"reading": "printed"}, ValueError, "reading must be one of 'completed', 'padded'"),
        ({"delta": np.nan}, ValueError, "delta must be a finite number; got nan"),
        ({"delta": "0.3"}, TypeError, "delta must be a finite number"),
        ({"delta": 0.49, "normalized": True}, ValueError, "delta must be further below 0.5"),
    ],
)
def test_a_bad_hard_instance_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        worlds.hard_to_learn(**({"d": 5} | arguments))


def test_hidden_signs_are_drawn_for_every_round_and_stage():
    gammas = []
    for round_ in range(20):
        world = worlds.hard_to_learn(d=13, horizon=10, seed=(7, round_))
        gammas.append(np.sign(hidden(world, "completed", 13)[1]).ravel())
    assert len({tuple(g) for g in gammas}) == 20
    signs = np.concatenate(gammas)
    # Hoeffding: a fair coin strays further than this with probability 1e-9.
    assert abs(signs.mean()) < np.sqrt(2 * np.log(2e9) / signs.size)


MAKERS = {
    "hard": lambda seed: worlds.hard_to_learn(d=9, horizon=4, seed=seed),
    "lower": lambda seed: worlds.lower_bound_family(states=4, horizon=5, seed=seed),
    "random": lambda seed: worlds.random_linear(states=4, actions=3, d=3, horizon=2, seed=seed),
    "tabular": lambda seed: worlds.tabular(states=3, actions=2, horizon=2, seed=seed),
    "misspecified": lambda seed: worlds.misspecified(
        worlds.hard_to_learn(d=6, horizon=2, seed=1), zeta=0.3, seed=seed
    ),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_same_seed_gives_the_same_world_and_another_round_another(make):
    first, again, other = make((2, 0)), make((2, 0)), make((2, 1))
    assert (first.transitions == again.transitions).all()
    assert (first.rewards == again.rewards).all()
    assert (first.features == again.features).all()
    assert (first.transitions != other.transitions).any()
    assert (make(2).transitions == first.transitions).all()


@pytest.mark.parametrize("zeta", [0.0, 0.1, 0.4])
def test_misspecification_mixes_state_zero_with_one_target_for_each_action(zeta):
    mdp = worlds.hard_to_learn(d=9, horizon=4, seed=4)
    world = worlds.misspecified(mdp, zeta=zeta, seed=5)
    assert not isinstance(world, FiniteLinearMDP)
    assert (world.transitions[:, 1] == mdp.transitions[:, 1]).all()
    assert (world.rewards == mdp.rewards).all()
    assert (world.features == mdp.features).all()
    if not zeta:
        assert (world.transitions == mdp.transitions).all()
        return
    P, Q = mdp.transitions[:, 0], world.transitions[:, 0]  # (H, A, S)
    target = (Q[0] - P[0]).argmax(axis=-1)  # the only state that gains
    assert set(target) == {0, 1}
    gained = np.take_along_axis(P, target[None, :, None], axis=-1)[..., 0]
    f = (np.take_along_axis(Q, target[None, :, None], axis=-1)[..., 0] - gained) / (1 - gained)
    np.testing.assert_allclose(f, np.tile(f[0], (4, 1)), atol=1e-12)
    assert (f[0] >= 0.0).all()
    assert (f[0] <= zeta + 1e-12).all()
    mixed = (1 - f)[..., None] * P + f[..., None] * (np.arange(2) == target[:, None])
    np.testing.assert_allclose(Q, mixed, atol=1e-12)
    # Hoeffding for the mean of 64 uniforms on [0, ζ], with probability 1e-9.
    assert abs(f[0].mean() - zeta / 2) < zeta * np.sqrt(np.log(2e9) / (2 * f[0].size))


@pytest.mark.parametrize("zeta", [-0.1, 1.0, np.nan])
def test_a_bad_zeta_is_refused(zeta):
    mdp = worlds.tabular(states=2, actions=2, horizon=1)
    with pytest.raises(ValueError, match="zeta must be a finite number at least 0 and below 1"):
        worlds.misspecified(mdp, zeta=zeta)


def test_misspecification_keeps_the_feasible_actions():
    mdp = worlds.tabular(states=2, actions=2, horizon=1)
    feasible = np.array([[True, False], [True, True]])
    barred = FiniteLinearMDP(mdp.features, mdp.mu, mdp.theta, feasible=feasible)
    assert (worlds.misspecified(barred, zeta=0.2).feasible == feasible).all()


@pytest.mark.parametrize("normalized", [False, True])
def test_in_the_lower_bound_family_only_the_right_action_stays(normalized):
    right = np.array([[0, 1, 1], [1, 1, 0]])
    world = worlds.lower_bound_family(
        states=3, horizon=2, right_actions=right, normalized=normalized
    )
    assert world.features.shape == (4, 2, 7)
    expected = np.zeros((2, 4, 2, 4))
    expected[:, 0, :, 0] = 1.0
    for h, j, action in product(range(2), range(3), range(2)):
        expected[h, j + 1, action, j + 1 if action == right[h, j] else 0] = 1.0
    assert (world.transitions == expected).all()
    assert (world.rewards[:, 0] == 0.0).all()
    assert (world.rewards[:, 1:] == 1.0).all()
    assert world.optimal_values()[0].tolist() == [0.0, 2.0, 2.0, 2.0]
    wrong_second = np.column_stack([np.zeros(2, int), right])
    wrong_second[0, 2] ^= 1
    assert world.policy_values(wrong_second)[0].tolist() == [0.0, 2.0, 1.0, 2.0]
    if normalized:
        assert world.feature_norm == pytest.approx(1.0, abs=1e-12)
        assert world.violations == ()
    else:
        assert world.feature_norm == pytest.approx(np.sqrt(2.0))


@pytest.mark.parametrize(
    "right", [np.zeros((3, 2), int), np.full((2, 3), 2), np.full((2, 3), -1), np.zeros(6, int)]
)
def test_bad_right_actions_are_refused(right):
    with pytest.raises(ValueError, match=r"right_actions must be 0 or 1 with shape \(2, 3\)"):
        worlds.lower_bound_family(states=3, horizon=2, right_actions=right)


def test_random_worlds_are_linear_mdps_within_the_definition():
    world = worlds.random_linear(states=6, actions=4, d=3, horizon=5, seed=6)
    assert world.features.shape == (6, 4, 3)
    assert world.horizon == 5
    assert world.violations == ()
    assert world.feature_norm <= 1.0


def test_tabular_features_are_one_hot():
    world = worlds.tabular(states=3, actions=2, horizon=2, seed=7)
    assert (world.features.reshape(6, 6) == np.eye(6)).all()
    assert world.dim == 6
    assert (world.transitions > 0).all()
    np.testing.assert_allclose(world.rewards, world.theta.reshape(2, 3, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: worlds.lower_bound_family(states=0, horizon=2),
            "states must be at least 1; got 0",
        ),
        (
            lambda: worlds.lower_bound_family(states=1, horizon=0),
            "horizon must be at least 1; got 0",
        ),
        (lambda: worlds.tabular(states=0, actions=1, horizon=1), "states must be at least 1"),
        (lambda: worlds.tabular(states=1, actions=0, horizon=1), "actions must be at least 1"),
        (lambda: worlds.tabular(states=1, actions=1, horizon=0), "horizon must be at least 1"),
        (
            lambda: worlds.random_linear(states=1, actions=1, d=0, horizon=1),
            "d must be at least 1; got 0",
        ),
    ],
)
def test_sizes_below_one_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_random_worlds_of_one_features_seed_share_features_and_nothing_else():
    sizes = {"states": 4, "actions": 3, "d": 3, "horizon": 2}
    one, other = (worlds.random_linear(**sizes, seed=s, features_seed=7) for s in (0, 1))
    np.testing.assert_array_equal(one.features, other.features)
    assert not np.allclose(one.transitions, other.transitions)
    assert not np.allclose(one.rewards, other.rewards)
    assert not np.allclose(one.features, worlds.random_linear(**sizes).features)
