"""Fresh episodes of a frozen policy: their returns, the mean and its interval."""

import numpy as np
import pytest
from gym_worlds import Walk, blocks, learner_for, seed_of, table

from rareswitch.gym import Agent, WorldError, evaluate, play
from rareswitch.support.streams import Stream


def learnt(features=None, **changes):
    features = features or table()
    learner = learner_for(features, **changes)
    world = Walk() if features.one_hot else Walk("array")
    list(play(learner, world, features, episodes=15))
    return learner


def agent_of(policy, features=None):
    return Agent(policy=policy, features=features or table())


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
    found = evaluate(agent_of(policy, features), Walk(shown), episodes=30, seed=4)
    assert found.totals.tolist() == by_hand(policy, Walk(shown), features, 30, seed=4)
    assert found.mean == pytest.approx(found.totals.mean())
    assert found.low <= found.mean <= found.high


def test_learning_and_evaluation_are_seeded_apart():
    learner = learner_for(table(), switches=0, episodes=99)
    policy = learner.policy
    played = [game.total for game in play(learner, Walk(), table(), episodes=20)]
    assert evaluate(agent_of(policy), Walk(), episodes=20).totals.tolist() != played


def test_the_same_seed_gives_the_same_and_nothing_is_learnt():
    learner = learnt()
    before = learner.snapshot()
    found = [evaluate(agent_of(learner.policy), Walk(), episodes=20, seed=s) for s in (1, 1, 2)]
    np.testing.assert_array_equal(found[0].totals, found[1].totals)
    assert (found[0].low, found[0].high) == (found[1].low, found[1].high)
    assert (found[0].totals != found[2].totals).any()
    assert learner.snapshot() == before


def test_more_episodes_narrow_the_interval():
    policy = learnt().policy
    few, many = (evaluate(agent_of(policy), Walk(), episodes=n) for n in (20, 500))
    assert many.high - many.low < few.high - few.low
    np.testing.assert_array_equal(many.totals[:20], few.totals)


def test_progress_is_told_after_each_episode():
    told = []
    evaluate(agent_of(learnt().policy), Walk(), episodes=5, progress=told.append)
    assert told == [1, 2, 3, 4, 5]


def test_progress_stops_it():
    found = evaluate(agent_of(learnt().policy), Walk(), episodes=9, progress=lambda done: done == 4)
    assert len(found.totals) == 4


def test_it_shows_mean_and_interval_or_a_dash():
    agent = agent_of(learnt().policy)
    found, few = (evaluate(agent, Walk(), episodes=n) for n in (20, 19))
    assert str(found) == f"{found.mean:.4g} [{found.low:.4g}, {found.high:.4g}]"
    assert repr(found) == f"Returns({found}, 20 episodes)"
    assert (few.low, few.high, str(few)) == (None, None, f"{few.mean:.4g} [–]")


class Costs(Walk):
    paid = -2.0

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, self.paid, *rest


def test_returns_are_in_the_environments_own_rewards_of_any_size():
    agent, world = agent_of(learnt().policy), Costs(ends=False)
    assert evaluate(agent, world, episodes=3).totals.tolist() == [-10.0] * 3
    world.paid = float("inf")
    with pytest.raises(WorldError, match=r"a finite number; got inf \(episode 1, step 0\)"):
        evaluate(agent, world, episodes=3)


def test_more_steps_than_the_horizon_are_played_at_the_first_stage():
    agent, world = agent_of(learnt().policy), Costs(ends=False)
    assert evaluate(agent, world, episodes=2, steps=12).totals.tolist() == [-24.0] * 2
    assert evaluate(agent, world, episodes=2, steps=3).totals.tolist() == [-6.0] * 2


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"agent": "policy"}, TypeError, "agent must be an Agent; got 'policy'"),
        ({"episodes": 0}, ValueError, "episodes must be at least 1; got 0"),
        ({"steps": 0}, ValueError, "steps must be at least 1; got 0"),
        ({"world": 3}, TypeError, "world must have Gymnasium's reset and step"),
    ],
)
def test_what_does_not_fit_is_refused(changes, error, message):
    given = {"agent": agent_of(learnt().policy), "world": Walk()} | changes
    with pytest.raises(error, match=message):
        evaluate(**given)
