"""Propensities that are fitted to a log without any."""

from dataclasses import replace

import numpy as np
import pytest

from rareswitch.evaluation import Method, compare, evaluate
from rareswitch.evaluation.propensities import fitted_propensities, logistic_probabilities
from rareswitch.trajectories import Trajectory


def logistic(x, slope=2.0):
    return 1.0 / (1.0 + np.exp(-slope * x))


def played(rng, episodes, *, states=None):
    """Return a log of two steps whose action 1 earns the state, taken the more often the larger."""
    log = []
    for _ in range(episodes):
        seen = rng.normal(size=3) if states is None else rng.choice(states, 3)
        up = logistic(seen[:2])
        actions = (rng.random(2) < up).astype(int)
        log.append(
            Trajectory(
                observations=seen if states is None else (seen * 2 + 4).astype(int),
                actions=actions,
                rewards=actions * seen[:2] + rng.normal(0.0, 0.1, 2),
                terminated=True,
                propensities=np.where(actions, up, 1.0 - up),
            )
        )
    return log


def without(log):
    return [replace(each, propensities=None) for each in log]


@pytest.mark.parametrize("states", [None, np.array([-1.0, 0.0, 0.5])], ids=["regression", "counts"])
def test_they_are_close_to_those_of_the_policy_that_played(states):
    log = played(np.random.default_rng(0), 3000, states=states)
    fitted = fitted_propensities(without(log))
    for known, found in zip(log, fitted, strict=True):
        np.testing.assert_allclose(found.propensities, known.propensities, atol=0.05)


def test_estimates_hold_the_truth():
    """A candidate that always takes action 1 earns 0; fifty logs, by both models."""
    held = 0
    for seed in range(50):
        states = None if seed % 2 else np.array([-1.0, 0.0, 1.0])
        log = without(played(np.random.default_rng(seed), 250, states=states))
        found = evaluate(
            lambda state, stage: [0.0, 1.0], log, propensities="fitted",
            method=Method(estimator="per-decision"),
        )  # fmt: skip
        held += found.value.low <= 0.0 <= found.value.high
    # At 93%, fewer than 41 of 50 hold with probability 0.005.
    assert held >= 41, held


def test_the_result_is_loudly_marked():
    log = without(played(np.random.default_rng(1), 400))
    found = compare(lambda state, stage: [1.0, 0.0], log, propensities="fitted")
    assert found.candidate.propensities == "fitted"
    assert found.verdict.startswith("loss ")
    assert found.verdict.endswith("] BY FITTED PROPENSITIES")
    assert found.candidate.evidence.endswith(", FITTED PROPENSITIES")
    assert found.warnings[0].startswith("PROPENSITIES ARE FITTED, not logged: ")
    assert "FITTED PROPENSITIES" in repr(found)
    with pytest.raises(ValueError, match='propensities="fitted" estimates them'):
        compare(lambda state, stage: [1.0, 0.0], log)
    with pytest.raises(ValueError, match="propensities must be one of 'logged', 'fitted'"):
        compare(lambda state, stage: [1.0, 0.0], log, propensities="guessed")


def test_only_feasible_actions_have_a_probability():
    masks = np.array([[True, True, False], [True, True, True]])
    told = {"rewards": [0.0], "terminated": True, "masks": masks}
    seen = np.random.default_rng(0).normal(size=(200, 2))
    log = [Trajectory(observations=x, actions=[k % 2], **told) for k, x in enumerate(seen)]
    for each in fitted_propensities(log):
        assert each.propensities[0] == pytest.approx(0.5, abs=0.1)
    rows, offered = np.ones((4, 1)), np.array([[True, False], [True, True]] * 2)
    found = logistic_probabilities(rows, np.array([0, 1, 0, 1]), offered)
    np.testing.assert_array_equal(found[::2], [[1.0, 0.0]] * 2)


def test_states_are_counted_apart_where_the_offer_differs():
    masks = [np.array([[True, False], [True, True]]), np.ones((2, 2), bool)]
    told = {"observations": [0, 0], "rewards": [0.0], "terminated": True}
    log = [Trajectory(actions=[0], masks=masks[0], **told) for _ in range(30)]
    log += [Trajectory(actions=[k % 2], masks=masks[1], **told) for k in range(30)]
    found = [each.propensities[0] for each in fitted_propensities(log)]
    assert found == [1.0] * 30 + [0.5] * 30


def test_actions_that_can_be_told_without_error_are_nearly_certain():
    rows = np.column_stack([np.ones(100), np.linspace(-1, 1, 100)])
    actions = (rows[:, 1] > 0).astype(int)
    found = logistic_probabilities(rows, actions, np.ones((100, 2), bool))
    assert np.isfinite(found).all()
    assert (found[np.arange(100), actions] > 0.5).all()
    assert 0.99 < found.max() < 0.999  # a ridge of 1, and no more certain


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        (np.random.default_rng(0).random((2, 9)), "10 steps for each; got 20 coefficients and 40"),
        (["a", "b"], "needs frequent states or observations of numbers; got 'a"),
    ],
)
def test_too_little_is_refused(observations, message):
    told = {"rewards": [0.0], "terminated": True}
    rng, log = np.random.default_rng(0), []
    for k in range(40):
        texts = [f"{each}{k}" for each in observations]
        seen = texts if isinstance(observations, list) else observations + rng.random((2, 9))
        log.append(Trajectory(observations=seen, actions=[k % 2], **told))
    with pytest.raises(ValueError, match=message):
        fitted_propensities(log)
