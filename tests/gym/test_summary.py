"""What came of a training, in plain values."""

import json
from itertools import accumulate, product

import gymnasium
import pytest

import rareswitch as rs
from cli.walk import Walk
from rareswitch.gym import FiniteModel, evaluate, train


@pytest.fixture(scope="module")
def lake():
    return gymnasium.make("FrozenLake-v1")


@pytest.fixture(scope="module")
def training(lake):
    return train(lake, episodes=60, switches=3, horizon=10)


def test_a_summary_is_plain_and_says_what_was_met(training):
    summary = training.summary
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["episodes"] == 60
    assert (summary["switches"], summary["deployment_limit"]) == (3, 3)
    assert summary["return"] == training.totals.mean()
    assert [v["version"] for v in summary["versions"]] == [1, 2, 3, 4]
    earned = sum(v["mean"] * v["episodes"] for v in summary["versions"])
    assert earned == pytest.approx(training.totals.sum())
    assert summary["recommended"]["digest"] == training.agent.policy.digest
    assert summary["recommended"]["fresh"] is None
    assert summary["best"] is None
    assert summary["notes"] == list(training.learner.health().warnings)


def test_the_exact_returns_and_the_fresh_ones_stand_beside_it(lake):
    training = train(lake, episodes=60, switches=3, horizon=10)
    fresh, agent = training.evaluate(30), training.agent
    summary, model = training.summary, FiniteModel.of(lake)
    assert summary["recommended"]["exact"] == model.policy_return(agent.policy, agent.features)
    assert summary["recommended"]["fresh"] == {
        "episodes": 30,
        "mean": fresh.mean,
        "low": fresh.low,
        "high": fresh.high,
    }
    assert summary["optimum"] == model.optimal_return(10)
    assert summary["random"] == model.random_return(10)
    assert summary["missed"] == pytest.approx(60 * summary["optimum"] - training.totals.sum())


def test_a_rule_that_promises_nothing_has_no_limit(lake):
    class Tenth:
        def due(self, clock):
            return clock.episode % 10 == 0

    def summary_with(rule):
        training = train(lake, episodes=30, horizon=5, schedule=rule)
        return training.summary

    assert summary_with(Tenth())["deployment_limit"] is None
    limited = summary_with(rs.UniformGrid(batches=3))
    assert limited["deployment_limit"] == limited["switches"] == 2


def test_the_limit_counts_with_the_ridge_of_the_recipe(lake):
    rule = rs.DeterminantGrowth(eta=2.0)
    for ridge in (0.1, 1.0, 10.0):
        recipe = rs.Recipe.paper(beta=1.0, ridge=ridge)
        training = train(lake, episodes=30, horizon=5, schedule=rule, recipe=recipe)
        limit = training.summary["deployment_limit"]
        assert limit == rule.deployment_limit(training.learner.task, ridge)


def test_without_a_model_random_play_is_measured_on_the_same_fresh_episodes():
    training = train(Walk(), episodes=30, switches=2, horizon=10, rewards=(0, 1))
    assert training.summary["random"] is None
    assert training.finish(fresh=400)
    summary, agent = training.summary, training.random_agent
    assert summary["random"] == evaluate(agent, Walk(), episodes=400).mean
    # The middle of five places: a fair walk ends at either end within ten steps, 94% of the time.
    chance = sum(1 for path in product((-1, 1), repeat=10) if first_end(path) == 2) / 2**10
    assert abs(summary["random"] - chance) < 5 * (chance * (1 - chance) / 400) ** 0.5
    assert summary["recommended"]["fresh"]["mean"] > summary["random"]


def first_end(path):
    """Return the first end, −2 or 2, that a walk from the middle reaches, or None."""
    return next((place for place in accumulate(path) if abs(place) == 2), None)
