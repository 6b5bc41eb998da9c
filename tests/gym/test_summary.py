"""What came of a training, in plain values."""

import json

import gymnasium
import pytest

import rareswitch as rs
from rareswitch.gym import evaluate, train
from rareswitch.gym.known import known_returns
from rareswitch.gym.summary import interval_of, summarised


@pytest.fixture(scope="module")
def lake():
    return gymnasium.make("FrozenLake-v1")


@pytest.fixture(scope="module")
def training(lake):
    return train(lake, episodes=60, switches=3, horizon=10)


def test_a_summary_is_plain_and_says_what_was_met(training):
    summary = summarised(training, episodes=60)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["episodes"] == 60
    assert (summary["switches"], summary["deployment_limit"]) == (3, 3)
    assert summary["return"] == training.totals.mean()
    assert [v["version"] for v in summary["versions"]] == [1, 2, 3, 4]
    earned = sum(v["mean"] * v["episodes"] for v in summary["versions"])
    assert earned == pytest.approx(training.totals.sum())
    digest = training.agent.policy.digest
    assert summary["recommended"] == {"digest": digest, "exact": None, "fresh": None}
    assert [summary[name] for name in ("optimum", "random", "regret")] == [None] * 3
    assert summary["warnings"] == list(training.learner.health().warnings)


def test_what_is_known_and_what_is_fresh_stand_beside_it(training, lake):
    agent = training.agent
    known = known_returns(agent.policy, lake, agent.features)
    fresh = evaluate(agent.policy, lake, agent.features, episodes=30)
    summary = summarised(training, episodes=60, known=known, fresh=fresh)
    assert summary["recommended"]["exact"] == known.policy
    assert summary["recommended"]["fresh"] == interval_of(fresh)
    assert interval_of(fresh) == {
        "episodes": 30,
        "mean": fresh.mean,
        "low": fresh.low,
        "high": fresh.high,
    }
    assert (summary["optimum"], summary["random"]) == (known.optimum, known.random)
    assert summary["regret"] == pytest.approx(60 * known.optimum - training.totals.sum())


def test_a_rule_that_promises_nothing_has_no_limit(lake):
    class Tenth:
        def due(self, clock):
            return clock.episode % 10 == 0

    def summary_with(rule):
        training = train(lake, episodes=30, horizon=5, schedule=rule)
        return summarised(training, episodes=30)

    assert summary_with(Tenth())["deployment_limit"] is None
    limited = summary_with(rs.UniformGrid(batches=3))
    assert limited["deployment_limit"] == limited["switches"] == 2


def test_the_limit_counts_with_the_ridge_of_the_recipe(lake):
    rule = rs.DeterminantGrowth(eta=2.0)
    for ridge in (0.1, 1.0, 10.0):
        recipe = rs.Recipe.paper(beta=1.0, ridge=ridge)
        training = train(lake, episodes=30, horizon=5, schedule=rule, recipe=recipe)
        limit = summarised(training, episodes=30)["deployment_limit"]
        assert limit == rule.deployment_limit(training.learner.task, ridge)
