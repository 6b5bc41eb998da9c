"""Fresh episodes of a frozen policy: their returns, the mean and its interval."""

import numpy as np
import pytest
from gym_worlds import Walk, blocks, learner_for, seed_of, table

from rareswitch.gym import Rewards, WorldError, evaluate, play
from rareswitch.support.streams import Stream


def learnt(features=None, **changes):
    features = features or table()
    learner = learner_for(features, **changes)
    world = Walk() if features.one_hot else Walk("array")
    list(play(learner, world, features, episodes=15))
    return learner


def by_hand(policy, world, features, episodes, seed=0):
    totals = []
    for k in range(1, episodes + 1):
        member, total = policy.draw(k), 0.0
        observation, _ = world.reset(seed=seed_of(k, seed, Stream.EVALUATION))
        for h in range(policy.horizon):
            action = member.act(h, features(observation, h))
            observation, reward, terminated, truncated, _ = world.step(action)
            total += reward
            if terminated or truncated:
                break
        totals.append(total)
    return totals


@pytest.mark.parametrize("kind", ["table", "rows"])
def test_returns_are_those_of_a_loop_written_by_hand(kind):
    features = table() if kind == "table" else blocks()
    shown = "number" if kind == "table" else "array"
    policy = learnt(features).policy
    found = evaluate(policy, Walk(shown), features, episodes=30, seed=4)
    assert found.totals.tolist() == by_hand(policy, Walk(shown), features, 30, seed=4)
    assert found.mean == pytest.approx(found.totals.mean())
    assert found.low <= found.mean <= found.high


def test_learning_and_evaluation_are_seeded_apart():
    learner = learner_for(table(), switches=0, episodes=99)
    policy = learner.policy
    played = [game.total for game in play(learner, Walk(), table(), episodes=20)]
    assert evaluate(policy, Walk(), table(), episodes=20).totals.tolist() != played


def test_the_same_seed_gives_the_same_and_nothing_is_learnt():
    learner = learnt()
    before = learner.snapshot()
    found = [evaluate(learner.policy, Walk(), table(), episodes=20, seed=s) for s in (1, 1, 2)]
    np.testing.assert_array_equal(found[0].totals, found[1].totals)
    assert (found[0].low, found[0].high) == (found[1].low, found[1].high)
    assert (found[0].totals != found[2].totals).any()
    assert learner.snapshot() == before


def test_more_episodes_narrow_the_interval():
    policy = learnt().policy
    few, many = (evaluate(policy, Walk(), table(), episodes=n) for n in (20, 500))
    assert many.high - many.low < few.high - few.low
    np.testing.assert_array_equal(many.totals[:20], few.totals)


def test_progress_is_told_after_each_episode():
    told = []
    evaluate(learnt().policy, Walk(), table(), episodes=5, progress=told.append)
    assert told == [1, 2, 3, 4, 5]


def test_it_shows_mean_and_interval():
    found = evaluate(learnt().policy, Walk(), table(), episodes=8)
    assert str(found) == f"{found.mean:.4g} [{found.low:.4g}, {found.high:.4g}]"
    assert repr(found) == f"Evaluation({found}, 8 episodes)"


def test_returns_are_in_the_environments_own_rewards():
    class Costs(Walk):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, -2.0, *rest

    policy = learnt().policy
    found = evaluate(policy, Costs(ends=False), table(), episodes=3, rewards=Rewards(-2.0, 0.0))
    assert found.totals.tolist() == [-10.0] * 3
    with pytest.raises(WorldError, match=r"got -2.0: give the range .* \(episode 1, step 0\)"):
        evaluate(policy, Costs(), table(), episodes=3)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"policy": "policy"}, TypeError, "policy must be a Policy; got 'policy'"),
        ({"episodes": 1}, ValueError, "episodes must be at least 2; got 1"),
        ({"world": 3}, TypeError, "world must have Gymnasium's reset and step"),
        ({"features": table().dense()}, ValueError, "one_hot = True, as the policy has; got 18"),
    ],
)
def test_what_does_not_fit_is_refused(changes, error, message):
    given = {"policy": learnt().policy, "world": Walk(), "features": table()} | changes
    with pytest.raises(error, match=message):
        evaluate(**given)
