"""Estimates and intervals from played logs, against exact values."""

import numpy as np
import pytest
from listed_worlds import Player, exact_value, joined, mixture, small_world

import rareswitch as rs
from rareswitch.evaluation import Method, compare, evaluate
from rareswitch.evaluation.estimators import ESTIMATORS
from rareswitch.trajectories import Trajectory


def candidate_and_log(seed, *, world_seed=0, members=4, others=28, episodes=300, horizon=3, **more):
    """Return a world, a candidate, and a log of a mixture that can do all that it does."""
    world = small_world(world_seed, horizon=horizon, **more)
    rng = np.random.default_rng(seed)
    candidate = mixture(world, rng, members)
    player = Player(world, joined(candidate, mixture(world, rng, others)))
    return world, candidate, player, player.play(rng, episodes)


@pytest.mark.parametrize("d", [None, 4], ids=["tabular", "misspecified"])
def test_intervals_hold_the_truth_as_often_as_they_say(d):
    rounds, held = 100, dict.fromkeys(ESTIMATORS[:3], 0)
    for seed in range(rounds):
        world, candidate, player, log = candidate_and_log(
            seed, world_seed=seed % 6, d=d, episodes=150
        )
        truth = exact_value(world, candidate)
        for estimator in held:
            method = Method(estimator=estimator)
            value = evaluate(candidate, log, features=player.features, method=method).value
            held[estimator] += value.low <= truth <= value.high
    # Of 100 intervals at 95%, fewer than 86 hold the truth with probability 0.0002 and all of them
    # with 0.006; at 93%, which the bootstrap of few weighted returns comes to, 0.004 and 0.001.
    assert all(86 <= count <= 99 for count in held.values()), held


def test_the_model_takes_most_of_the_variance_away():
    errors = {estimator: [] for estimator in ESTIMATORS}
    for seed in range(30):
        world, candidate, player, log = candidate_and_log(
            seed, world_seed=seed % 4, episodes=150, ends=False
        )
        truth = exact_value(world, candidate)
        for estimator, found in errors.items():
            method = Method(estimator=estimator)
            value = evaluate(candidate, log, features=player.features, method=method).value
            found.append(value.value - truth)
            assert value.low <= value.value <= value.high
    spread = {name: np.std(found) for name, found in errors.items()}
    assert spread["doubly robust"] < spread["self-normalised"] < spread["per-decision"]
    assert spread["per-decision"] < spread["trajectory"]
    assert spread["doubly robust"] < 0.3 * spread["per-decision"]
    for name, found in errors.items():  # unbiased, or as good as: four standard errors
        assert abs(np.mean(found)) < 4 * spread[name] / np.sqrt(len(found)), name


def test_what_it_says_depends_on_the_seed_alone_and_a_log_is_read_once():
    _, candidate, player, log = candidate_and_log(0)
    once = evaluate(candidate, iter(log), features=player.features)
    again = evaluate(candidate, log, features=player.features)
    assert (once.value, once.warnings) == (again.value, again.warnings)
    other = evaluate(candidate, log, features=player.features, method=Method(seed=1))
    assert other.value != once.value
    assert once.warnings == ()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_least_probable_of_episodes_overflow_nowhere(estimator):
    horizon, rng = 200, np.random.default_rng(0)
    log = [
        Trajectory(
            observations=np.zeros(horizon + 1), actions=rng.integers(0, 2, horizon),
            rewards=np.ones(horizon), terminated=False, propensities=np.full(horizon, 0.01),
        )
        for _ in range(5)
    ]  # fmt: skip
    policy = rs.Policy(weights=np.zeros((horizon, 2)))
    found = evaluate(
        policy, log, features=lambda state: np.eye(2), method=Method(estimator=estimator)
    )
    assert np.isfinite(found.value).all()
    assert found.weights.largest == 0.0


def test_rewards_are_shown_as_the_environment_gave_them():
    _, candidate, player, log = candidate_and_log(0)
    dear = [
        Trajectory(
            observations=t.observations,
            actions=t.actions,
            rewards=-100.0 * t.rewards,
            terminated=t.terminated,
            propensities=t.propensities,
        )
        for t in log
    ]
    once = evaluate(candidate, log, features=player.features).value
    turned = evaluate(candidate, dear, features=player.features).value
    expected = (-100 * once.value, -100 * once.high, -100 * once.low)
    assert turned == pytest.approx(expected, rel=1e-9)


def test_what_a_log_cannot_say_is_said():
    world = small_world(0, horizon=6, actions=6, ends=False)
    rng = np.random.default_rng(0)
    player = Player(world, mixture(world, rng, 2))
    found = evaluate(mixture(world, rng, 1), player.play(rng, 50), features=player.features)
    few, untried, missing = found.warnings
    assert few.startswith("the log can judge stage 1 of 6; after stage 1 fewer than 20 ")
    assert untried.startswith("at ")
    assert missing.startswith("the mean weight for the policy is 0.00 and should be 1: ")
    assert str(found).splitlines() == [
        f"expected return {found.value}",
        f"the log         {found.logged}",
        found.evidence,
        *found.warnings,
    ]
    assert repr(found) == f"Estimate({found.value}, log {found.logged}, {found.evidence})"


@pytest.mark.parametrize(
    ("estimator", "words"),
    [("doubly robust", "counts as the model's value"), ("per-decision", "counts as 0")],
)
def test_episodes_cut_off_are_told(estimator, words):
    _, candidate, player, log = candidate_and_log(0)
    cut = [each.until(1) if i < 9 and len(each) > 1 else each for i, each in enumerate(log)]
    count = sum(len(one) != len(other) for one, other in zip(cut, log, strict=True))
    found = evaluate(candidate, cut, features=player.features, method=Method(estimator=estimator))
    assert found.warnings[-1].startswith(f"{count} episodes were cut off before stage 3: ")
    assert found.warnings[-1].endswith(words)


def test_a_model_bridges_what_was_cut_off():
    """Of episodes cut at random the model's values stand for the rest."""
    errors = {"doubly robust": [], "per-decision": []}
    for seed in range(12):
        world, candidate, player, log = candidate_and_log(seed, episodes=600)
        rng = np.random.default_rng(seed)
        cut = [each.until(2) if rng.random() < 0.4 else each for each in log]
        for estimator, found in errors.items():
            value = evaluate(
                candidate, cut, features=player.features, method=Method(estimator=estimator)
            )
            found.append(value.value.value - exact_value(world, candidate))
    assert abs(np.mean(errors["doubly robust"])) < 0.03
    assert np.mean(errors["per-decision"]) < -0.03


def test_what_is_no_policy_or_method_is_named():
    _, candidate, player, log = candidate_and_log(0, episodes=5)
    message = r"candidate must be an agent, a Policy, or a function .*; got 7"
    with pytest.raises(TypeError, match=message):
        evaluate(7, log, features=player.features)
    with pytest.raises(TypeError, match="method must be a Method; got 'per-decision'"):
        evaluate(candidate, log, features=player.features, method="per-decision")


@pytest.mark.parametrize("features", [np.eye(2), 3])
def test_features_must_be_a_map_or_a_function(features):
    _, candidate, _, log = candidate_and_log(0, episodes=4)
    message = "features must be a feature map, or a function from a state to rows; got "
    with pytest.raises(TypeError, match=message):
        evaluate(candidate, log, features=features)
    with pytest.raises(TypeError, match=message):
        compare(candidate, log, against=candidate, features=features)


def test_a_bare_policy_needs_features():
    _, candidate, _, log = candidate_and_log(0, episodes=4)
    with pytest.raises(TypeError, match="features must be given if candidate is a Policy"):
        compare(candidate, log)


def test_truths_are_no_features():
    _, candidate, player, log = candidate_and_log(0, episodes=4)
    with pytest.raises(TypeError, match=r"features must be .*; got bool"):
        evaluate(candidate, log, features=lambda state: np.asarray(player.features(state)) > 0)
