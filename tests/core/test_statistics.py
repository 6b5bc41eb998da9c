"""Sums of the same steps are the same in memory, in partitions and in the runs of a simulation."""

import numpy as np
import pytest

from oracles import ESTIMATING, episode_of, masked_world, ragged_episode
from rareswitch.core.history import History
from rareswitch.core.log import LocalPartitions, LogPartition, LogStatistics
from rareswitch.core.lsvi import fit
from rareswitch.core.recipe import Recipe
from rareswitch.core.stage import Stage
from rareswitch.sim.tally import Tally

H, D = 3, 4


def a_stage(rng, *leading):
    """Return any Q of the stage after, with members or none."""
    return Stage(
        weights=rng.standard_normal((*leading, D)),
        levels=rng.random(leading),
        whitener=None,
        beta=0.0,
        offsets=None,
        cap=2.0,
    )


@pytest.mark.parametrize("members", [(), (5,)], ids=["one", "members"])
def test_the_sums_of_targets_are_those_of_the_raw_episodes(members):
    rng = np.random.default_rng(4)
    log = [ragged_episode(rng, horizon=H, dim=D) for _ in range(25)]
    history = History.from_log(log, dim=D, horizon=H)
    parts = [LogPartition.from_episodes(part, horizon=H) for part in (log[:9], log[9:])]
    for statistics in (history, LogStatistics(LocalPartitions(parts))):
        for h in range(H - 1):
            following = a_stage(rng, *members)
            sums = statistics.next_value_sums(h, following)
            assert sums.shape == (*members, D + 3)
            there = [e for e in log if len(e) > h]
            steps = np.array([[*e.features[h], 1.0, e.rewards[h]] for e in there])
            np.testing.assert_allclose(statistics.step_sums[h], steps.sum(axis=0), atol=1e-12)
            by_reward = steps[:, -1] @ steps
            np.testing.assert_allclose(statistics.reward_sums[h], by_reward, atol=1e-12)
            for m in np.ndindex(members):
                one = following._replace(
                    weights=following.weights[m], levels=np.asarray(following.levels[m])
                )
                goes_on = [len(e.next_features) > h for e in there]
                values = np.array(
                    [
                        one.q_values(e.next_features[h]).max() if more else 0.0
                        for e, more in zip(there, goes_on, strict=True)
                    ]
                )
                wanted = [*(values @ steps), values @ values]
                np.testing.assert_allclose(sums[m], wanted, atol=1e-12)
                squares = by_reward[-1] + 2 * sums[m][D + 1] + sums[m][D + 2]
                targets = steps[:, -1] + values
                np.testing.assert_allclose(squares, targets @ targets, rtol=1e-12)


@pytest.mark.parametrize("exploration", ESTIMATING, ids=repr)
def test_a_history_a_partitioned_log_and_a_tally_agree(exploration):
    world, rng = masked_world(3, d=D, horizon=H), np.random.default_rng(5)
    count = 30
    states = rng.integers(0, world.states, (count, H + 1))
    chance = rng.random((count, H, world.features.shape[1]))
    actions = (chance * world.feasible[states[:, :-1]]).argmax(axis=-1)
    log = [episode_of(world, *episode) for episode in zip(states, actions, strict=True)]
    history = History.from_log(log, dim=D, horizon=H)
    parts = [LogPartition.from_episodes(part, horizon=H) for part in (log[:7], log[7:])]
    partitioned = LogStatistics(LocalPartitions(parts))
    tally = Tally(world.space, runs=1, horizon=H, ridge=1.0, exploration=exploration)
    for path, taken in zip(states, actions, strict=True):
        features = world.features[path[:-1], taken]
        rewards = world.rewards[np.arange(H), path[:-1], taken]
        tally.absorb(features[None], rewards[None], path[None, 1:])
    for name in ("step_sums", "reward_sums"):
        np.testing.assert_allclose(getattr(partitioned, name), getattr(history, name), atol=1e-9)
        np.testing.assert_allclose(getattr(tally, name)[0], getattr(history, name), atol=1e-9)
    recipe = Recipe(exploration=exploration, seed=2)
    drawn = recipe.perturbations(3, H, D)
    tally.fit(perturbations=None if drawn is None else drawn[None], clip=True, directions=None)
    policies = [fit(each, recipe, version=3) for each in (history, partitioned)]
    for h in range(H):
        for s in range(world.states):
            rows = world.features[s][world.feasible[s]]
            found = [
                np.array([policy.member(m).q_values(h, rows) for m in range(policy.members)])
                for policy in policies
            ]
            np.testing.assert_allclose(*found, atol=1e-9)
            best = found[0].max(axis=1)
            np.testing.assert_allclose(tally.values[h, 0, :, s], best, atol=1e-9)


@pytest.mark.parametrize("exploration", ESTIMATING, ids=repr)
def test_where_stages_share_all_three_agree_too(exploration):
    world, rng, count = masked_world(3, d=D, horizon=H), np.random.default_rng(6), 20
    states = rng.integers(0, world.states, (count, H + 1))
    chance = rng.random((count, H, world.features.shape[1]))
    actions = (chance * world.feasible[states[:, :-1]]).argmax(axis=-1)
    log = [episode_of(world, *episode) for episode in zip(states, actions, strict=True)]
    history = History.from_log(log, dim=D, horizon=H, stages="shared")
    parts = [LogPartition.from_episodes(part, horizon=H) for part in (log[:7], log[7:])]
    partitioned = LogStatistics(LocalPartitions(parts), stages="shared")
    sizes = {"runs": 1, "horizon": H, "ridge": 1.0, "exploration": exploration}
    tally = Tally(world.space, stages="shared", **sizes)
    for path, taken in zip(states, actions, strict=True):
        rewards = world.rewards[np.arange(H), path[:-1], taken]
        features = world.features[path[:-1], taken]
        tally.absorb(features[None], rewards[None], path[None, 1:])
    steps = [
        np.array([[*e.features[h], 1.0, e.rewards[h]] for e in log for h in range(last)])
        for last in (H - 1, H)
    ]
    for statistics in (history, partitioned):
        for pool in (0, 1):
            found, wanted = statistics.step_sums[pool], steps[pool].sum(axis=0)
            np.testing.assert_allclose(found, wanted, atol=1e-11)
            wanted = steps[pool][:, -1] @ steps[pool]
            np.testing.assert_allclose(statistics.reward_sums[pool], wanted, atol=1e-11)
    np.testing.assert_allclose(tally.step_sums[0], history.step_sums, atol=1e-11)
    np.testing.assert_allclose(tally.reward_sums[0], history.reward_sums, atol=1e-11)
    policy = fit(history, Recipe(exploration=exploration), version=2)
    other = fit(partitioned, Recipe(exploration=exploration), version=2)
    np.testing.assert_allclose(other.weights, policy.weights, atol=1e-9)
