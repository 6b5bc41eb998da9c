import numpy as np
import pytest
from listed_worlds import Player, mixture, small_world, tables_of

import rareswitch as rs
from rareswitch.evaluation.agreement import behaviour_in
from rareswitch.evaluation.fitted_q import RidgeDesign, fitted_values
from rareswitch.evaluation.grouped_rows import GroupedRows
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.features import OneHot
from rareswitch.trajectories import Trajectory


def transcribed(log, policy, features, training, *, ridge, shared):
    """Return Q̂ (N, H, M) and V̂ (N, H+1, M) by loops over steps, as the equations say."""
    horizon, members, dim = policy.horizon, policy.members, policy.dim
    q_values = np.zeros((len(log), horizon, members))
    values = np.zeros((len(log), horizon + 1, members))
    for m in range(members):
        member = policy.member(m)

        def worth(model, t, state, member=member):
            rows = features(state)
            return model[0] + rows[member.act(t, rows)] @ model[1]

        models = {}
        for h in reversed(range(horizon)):
            pairs = []
            for trajectory in (one for one, used in zip(log, training, strict=True) if used):
                for t, (a, r) in enumerate(
                    zip(trajectory.actions, trajectory.rewards, strict=True)
                ):
                    own = t == h
                    pooled = h == horizon - 1 or t < horizon - 1
                    if t >= horizon or not (pooled if shared else own):
                        continue
                    goes_on = t + 1 < len(trajectory) or not trajectory.terminated
                    if h + 1 < horizon and goes_on:
                        r = r + worth(models[h + 1], t + 1, trajectory.observations[t + 1])
                    pairs.append((features(trajectory.observations[t])[a], r))
            models[h] = (0.0, np.zeros(dim))
            if pairs:
                rows, targets = map(np.array, zip(*pairs, strict=True))
                level = targets.mean()
                gram = rows.T @ rows + ridge * np.eye(dim)
                models[h] = level, np.linalg.solve(gram, rows.T @ (targets - level))
        for i, trajectory in enumerate(log):
            for t in range(min(len(trajectory), horizon)):
                state, a = trajectory.observations[t], trajectory.actions[t]
                q_values[i, t, m] = models[t][0] + features(state)[a] @ models[t][1]
                values[i, t, m] = worth(models[t], t, state)
            last = len(trajectory)
            if last < horizon and not trajectory.terminated:
                values[i, last, m] = worth(models[last], last, trajectory.observations[last])
    return q_values, values


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("d", [None, 4], ids=["one-hot", "dense"])
@pytest.mark.parametrize("members", [1, 3])
def test_it_is_what_the_equations_say(members, d, shared):
    world = small_world(1, horizon=4, d=d)
    rng = np.random.default_rng(1)
    player, policy = Player(world, mixture(world, rng, 5)), mixture(world, rng, members)
    log = player.play(rng, 40)
    log = [each.until(int(cut)) for each, cut in zip(log, rng.integers(1, 6, 40), strict=True)]
    training = rng.random(40) < 0.7
    logged = player.lay_out(log)
    assert any(len(each) < 4 and not each.terminated for each in log)
    found = fitted_values(logged, behaviour_in(logged, policy), training, ridge=0.3, shared=shared)
    expected = transcribed(log, policy, player.features, training, ridge=0.3, shared=shared)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-9)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-9)


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_positions_and_rows_of_one_hot_features_give_the_same(shared):
    rng = np.random.default_rng(2)
    table = OneHot(states=3, actions=2)
    log = [
        Trajectory(
            observations=rng.integers(0, 3, n + 1),
            actions=rng.integers(0, 2, n),
            rewards=rng.random(n),
            terminated=bool(rng.random() < 0.5),
            propensities=np.ones(n),
        )
        for n in rng.integers(1, 5, 30)
    ]
    weights = rng.standard_normal((3, 4, 6))
    found = []
    for features in (table, table.dense()):
        policy = rs.Policy(weights=weights, allocation=0, one_hot=features.one_hot)
        logged = LoggedEpisodes.of(log, features, 4)
        found.append(
            fitted_values(
                logged, behaviour_in(logged, policy), np.ones(30, bool), ridge=0.5,
                shared=shared,
            )
        )  # fmt: skip
    for positions, rows in zip(*found, strict=True):
        np.testing.assert_allclose(positions, rows, atol=1e-10)


def test_with_many_episodes_it_finds_the_values_of_every_member():
    world = small_world(3)
    rng = np.random.default_rng(3)
    policy = mixture(world, rng, 4)
    player = Player(world, mixture(world, rng, 60))
    logged = player.lay_out(player.play(rng, 20_000))
    _, values = fitted_values(
        logged, behaviour_in(logged, policy), np.ones(20_000, bool), ridge=1e-3,
        shared=False,
    )  # fmt: skip
    exact = [world.policy_values(table)[0, 0] for table in tables_of(world, policy)]
    np.testing.assert_allclose(values[0, 0], exact, atol=0.03)


def test_where_nothing_was_seen_the_value_is_the_level():
    design = RidgeDesign(GroupedRows(np.array([[1.0, 0.0], [1.0, 0.0]])), dim=2, ridge=1.0)
    found = design.fit(np.array([[1.0], [3.0]]))
    np.testing.assert_allclose(found.of(GroupedRows(np.eye(2))), [[2.0], [2.0]])
    found = design.fit(np.array([[1.0, 0.0], [3.0, 0.0]]))
    np.testing.assert_allclose(found.of(GroupedRows(np.array([[0.0, 5.0]]))), [[2.0, 0.0]])


def test_without_any_step_it_is_0():
    design = RidgeDesign(GroupedRows(np.zeros((0, 2))), dim=2, ridge=1.0)
    assert design.fit(np.zeros((0, 3))).of(GroupedRows(np.eye(2))).tolist() == [[0.0] * 3] * 2
