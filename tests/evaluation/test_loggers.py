"""Logs that several policies wrote, weighted by all of them together."""

from dataclasses import replace

import numpy as np
import pytest
from listed_worlds import Player, exact_value, joined, mixture, small_world

import rareswitch as rs
from rareswitch.evaluation import Method, compare, evaluate
from rareswitch.trajectories import Trajectory

PER_DECISION = Method(estimator="per-decision")


def of_three(seed, episodes=60):
    """Return a candidate whose members are spread over three loggers, and their log."""
    world, rng = small_world(seed % 6, ends=False), np.random.default_rng(seed)
    own, log, loggers = [mixture(world, rng, 2) for _ in range(3)], [], {}
    for version, policy in enumerate(own, start=1):
        loggers[version] = joined(policy, mixture(world, rng, 6))
        played = Player(world, loggers[version]).play(rng, episodes)
        log += [replace(each, version=version) for each in played]
    return world, joined(*own), log, loggers


def test_weights_by_all_loggers_count_more_episodes_and_hold_the_truth():
    """Forty logs: less error, more effective episodes, and intervals that hold."""
    errors, effective, held = {}, {}, 0
    for seed in range(40):
        world, candidate, log, loggers = of_three(seed)
        truth = exact_value(world, candidate)
        for name, known in {"own": None, "all": loggers}.items():
            found = evaluate(
                candidate, log, features=world.features.__getitem__, loggers=known,
                method=PER_DECISION,
            )  # fmt: skip
            errors.setdefault(name, []).append(found.value.value - truth)
            effective.setdefault(name, []).append(found.weights.effective[-1])
            if name == "all":
                held += found.value.low <= truth <= found.value.high
                assert found.warnings == ()
    error = {name: np.sqrt(np.mean(np.square(each))) for name, each in errors.items()}
    assert error["all"] < 0.6 * error["own"]
    assert np.mean(effective["all"]) > 1.05 * np.mean(effective["own"])
    spread = np.std(errors["all"]) / np.sqrt(40)
    assert abs(np.mean(errors["all"])) < 4 * spread
    # At 92%, fewer than 32 of 40 hold with probability 0.004.
    assert held >= 32, held


def test_a_logger_that_was_fitted_on_the_log_makes_lucky_episodes_count_less():
    """Arms that all earn 1/2 on average; version 2 takes those that were lucky under version 1."""
    arms, estimates = np.eye(4), {"own": [], "all": []}
    first = rs.Policy(weights=arms[:, None], clip=False, allocation=0)
    for seed in range(100):
        rng, log = np.random.default_rng(seed), []
        loggers, means = {1: first}, np.zeros(4)
        for version in (1, 2):
            policy = loggers.setdefault(version, rs.Policy(weights=means[None], clip=False))
            for _ in range(60):
                arm = int(policy.member(int(rng.integers(policy.members))).act(0, arms))
                log.append(
                    Trajectory(
                        observations=[0, 0], actions=[arm], rewards=[rng.integers(2)],
                        terminated=True, version=version, propensities=[1 / policy.members],
                    )
                )  # fmt: skip
            earned = np.array([(each.actions[0], each.rewards[0]) for each in log])
            means = np.array([earned[earned[:, 0] == arm, 1].mean() for arm in range(4)])
        for name, known in {"own": None, "all": loggers}.items():
            found = evaluate(first, log[:60] if name == "own" else log, loggers=known,
                             features=lambda state: arms, method=PER_DECISION)  # fmt: skip
            estimates[name].append(found.value.value)
    error = {name: np.std(found) / 10.0 for name, found in estimates.items()}
    assert abs(np.mean(estimates["own"]) - 0.5) < 3.0 * error["own"]
    assert np.mean(estimates["all"]) + 3.0 * error["all"] < 0.5


def test_the_denominator_is_the_mean_of_all_loggers():
    """Two deterministic loggers, 1 of 4 episodes by the first: the candidate is the second."""
    left, right = (rs.Policy(weights=[row]) for row in ([1.0, 0.0], [0.0, 1.0]))
    rows = np.eye(2)
    told = {"observations": [0, 0], "terminated": True}
    log = [
        Trajectory(version=1, actions=[0], rewards=[5.0], **told),
        *[Trajectory(version=2, actions=[1], rewards=[float(k)], **told) for k in range(3)],
    ]
    both = {1: left, 2: right}
    found = evaluate(right, log, features=lambda state: rows, loggers=both, method=PER_DECISION)
    assert found.value.value == pytest.approx(1.0)  # the mean of 0, 1 and 2: weights 1/0.75
    assert found.weights.largest == pytest.approx(4 / 3)
    assert found.propensities == "balanced"
    assert found.evidence.endswith(", all loggers")
    # A logger that wrote no episode does not count.
    more = compare(right, log, features=lambda state: rows, loggers=both | {3: left},
                   method=PER_DECISION)  # fmt: skip
    assert more.candidate.value == found.value


def test_loggers_must_know_the_log():
    world, candidate, log, loggers = of_three(0, episodes=5)
    rows = world.features.__getitem__
    with pytest.raises(ValueError, match=r"every version in the log, 1, 2; trajectory 10 has ver"):
        evaluate(candidate, log, features=rows, loggers={1: loggers[1], 2: loggers[2]})
    with pytest.raises(ValueError, match="trajectory 0 has no version"):
        evaluate(candidate, [replace(log[0], version=None), *log], features=rows, loggers=loggers)
    other = [mixture(world, np.random.default_rng(9), 1)] * 3
    with pytest.raises(ValueError, match="has actions that no version takes"):
        evaluate(candidate, log, features=rows, loggers=dict(enumerate(other, start=1)))
    short = rs.Policy(weights=np.zeros((2, world.dim)))
    with pytest.raises(ValueError, match="loggers must have one horizon; got 2 and 3"):
        evaluate(candidate, log, features=rows, loggers={1: short, 2: short, 3: short})
    with pytest.raises(TypeError, match=r"loggers\[1\] must be an agent, a Policy"):
        evaluate(candidate, log, features=rows, loggers={1: 7})
