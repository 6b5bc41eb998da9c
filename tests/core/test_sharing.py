"""The choice between own and shared stages, on worlds that depend on the stage and on others."""

from dataclasses import replace

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.core.estimation import EstimatedRegression, estimate_stage
from rareswitch.core.lsvi import backward
from rareswitch.core.policy import fit
from rareswitch.core.sharing import Sharing, compare_stages
from rareswitch.statistics import history_of

STATES, ACTIONS, HORIZON = 4, 2, 5
TASK = rs.Task(dim=STATES * ACTIONS, horizon=HORIZON, one_hot=True, stages="auto")


def world(seed, *, dependent):
    """Moves and rewards of every stage, the same at all of them or not."""
    rng = np.random.default_rng(seed)
    stages = HORIZON if dependent else 1
    moves = rng.dirichlet(np.full(STATES, 0.3), (stages, STATES, ACTIONS))
    rewards = rng.random((stages, STATES, ACTIONS))
    places = np.arange(HORIZON) % stages
    return moves[places], rewards[places]


def log_of(made, episodes, seed, *, ends=0.0):
    """Random play, one-hot by position; an episode ends after a step with probability `ends`."""
    moves, rewards = made
    rng = np.random.default_rng([seed, 1])
    log = []
    for _ in range(episodes):
        state, taken, earned, following = 0, [], [], []
        for h in range(HORIZON):
            action = rng.integers(ACTIONS)
            taken.append(state * ACTIONS + action)
            earned.append(float(rng.random() < rewards[h, state, action]))
            state = rng.choice(STATES, p=moves[h, state, action])
            following.append(np.arange(ACTIONS) + state * ACTIONS)
            if rng.random() < ends:
                following.pop()
                break
        log.append(rs.Episode(features=np.array(taken), rewards=earned, next_features=following))
    return log


def rows_of(log):
    """Return the episodes with rows of features in place of positions."""
    eye = np.eye(STATES * ACTIONS)
    return [
        rs.Episode(
            features=eye[one.features],
            rewards=one.rewards,
            next_features=[eye[state] for state in one.next_features],
        )
        for one in log
    ]


def compared(log, **changes):
    history = history_of(replace(TASK, **changes), log=log).fold()
    return compare_stages(history.own, history.shared)


@pytest.mark.parametrize("seed", range(5))
def test_stages_that_differ_are_told_from_those_that_do_not(seed):
    differ = compared(log_of(world(seed, dependent=True), 400, seed))
    alike = compared(log_of(world(seed, dependent=False), 400, seed))
    assert (differ.better, alike.better) == ("own", "shared")


def test_with_few_data_sharing_predicts_better_where_stages_are_alike():
    found = compared(log_of(world(0, dependent=False), 20, 0))
    assert found.shared < 0.95 * found.own


def test_without_data_stages_share():
    assert compared([]) == Sharing(own=0.0, shared=0.0)
    assert Sharing(own=0.0, shared=0.0).better == "shared"


def test_rounding_does_not_decide():
    assert Sharing(own=1.0, shared=1.0 + 1e-12).better == "shared"
    assert Sharing(own=1.0, shared=1.0 + 1e-6).better == "own"


def test_positions_and_rows_give_the_same():
    log = log_of(world(1, dependent=True), 30, 1, ends=0.2)
    by_rows = compared(rows_of(log), one_hot=False, end_reward=0.5)
    by_place = compared(log, end_reward=0.5)
    for name in ("own", "shared"):
        assert getattr(by_rows, name) == pytest.approx(getattr(by_place, name), rel=1e-8)


def test_an_end_has_the_same_value_for_both_kinds():
    """Stages are alike, so the value of an end must not tell them apart."""
    log = log_of(world(2, dependent=False), 400, 2, ends=0.3)
    assert compared(log, end_reward=1.0).better == "shared"
    assert compared(log, end_reward=1.0) != compared(log)


def test_errors_are_those_of_the_steps_written_out():
    log = rows_of(log_of(world(4, dependent=True), 25, 4, ends=0.1))
    task = replace(TASK, one_hot=False, end_reward=0.25)
    history = history_of(task, log=log).fold()
    middle = HORIZON // 2
    greedy = EstimatedRegression(history.shared, perturbed=False)
    following = backward(history.shared, greedy, beta=0.0)[middle]
    steps = [([], []) for _ in range(HORIZON - 1)]
    for episode in log:
        for h in range(min(len(episode), HORIZON - 1)):
            value = 0.25 * (HORIZON - middle)
            if h < len(episode.next_features):
                value = following.q_values(episode.next_features[h]).max()
            steps[h][0].append(episode.features[h])
            steps[h][1].append(episode.rewards[h] + value)

    def error(rows, targets):
        rows, targets = np.array(rows), np.array(targets)
        eigenvalues, basis = np.linalg.eigh(rows.T @ rows)
        found = estimate_stage(
            eigenvalues=np.where(eigenvalues > 1e-9, eigenvalues, 0.0),
            steps=np.array(float(len(rows))),
            features=basis.T @ rows.sum(axis=0),
            products=basis.T @ (targets @ rows),
            total=targets.sum(),
            squares=np.square(targets).sum(),
            cap=float(HORIZON - middle + 1),
        )
        return (len(rows) + found.determined) * found.noise**2

    count = sum(len(targets) for _, targets in steps)
    everything = [[one for stage in steps for one in stage[i]] for i in range(2)]
    found = compare_stages(history.own, history.shared)
    assert found.own == pytest.approx(sum(error(*stage) for stage in steps) / count, rel=1e-9)
    assert found.shared == pytest.approx(error(*everything) / count, rel=1e-9)


def test_the_error_is_the_error_on_unseen_steps():
    """120 steps determine 8 directions: the expected error is met within its standard error."""
    rng, dim, steps, told, met = np.random.default_rng(0), 8, 120, [], []
    for _ in range(60):
        weights = rng.normal(0.0, 0.6, dim)
        seen, unseen = rng.normal(0.0, 1.0, (2, steps, dim)) / np.sqrt(dim)
        targets, later = (rows @ weights + rng.normal(0.0, 0.4, steps) for rows in (seen, unseen))
        eigenvalues, basis = np.linalg.eigh(seen.T @ seen)
        found = estimate_stage(
            eigenvalues=eigenvalues,
            steps=np.array(float(steps)),
            features=basis.T @ seen.sum(axis=0),
            products=basis.T @ (targets @ seen),
            total=targets.sum(),
            squares=np.square(targets).sum(),
            cap=1.0,
        )
        told.append((1.0 + found.determined / steps) * found.noise**2)
        met.append(np.mean((later - found.level - unseen @ (basis @ found.weights)) ** 2))
    error = np.std(np.subtract(told, met), ddof=1) / np.sqrt(len(told))
    assert abs(np.mean(told) - np.mean(met)) < 3.0 * error
    assert error < 0.02 * np.mean(met)


@pytest.mark.parametrize("dependent", [True, False])
@pytest.mark.parametrize("one_hot", [True, False])
def test_a_fit_is_that_of_the_kind_that_it_chose_and_says_so(dependent, one_hot):
    log = log_of(world(0, dependent=dependent), 200, 0)
    log = log if one_hot else rows_of(log)
    recipe, chosen = rs.Recipe(exploration=rs.Ensemble(3)), "own" if dependent else "shared"
    auto = fit(history_of(replace(TASK, one_hot=one_hot), log=log), recipe, 2)
    alone = fit(history_of(replace(TASK, one_hot=one_hot, stages=chosen), log=log), recipe, 2)
    assert (auto.stages, alone.stages) == (chosen, None)
    assert auto.weights.tobytes() == alone.weights.tobytes()
    assert auto.levels.tobytes() == alone.levels.tobytes()
    again = rs.Policy.from_bytes(auto.to_bytes())
    assert (again.stages, again.digest) == (chosen, auto.digest)
    assert auto.member(1).stages == chosen


def test_a_policy_has_own_or_shared_stages():
    with pytest.raises(ValueError, match="stages must be "):
        rs.Policy(weights=np.ones((3, 2)), stages="auto")


def test_it_says_which_predicts_better():
    log = log_of(world(3, dependent=True), 200, 3)
    assert compared(log) == compared(log)
    assert str(compared(log)).startswith("own: errors on unseen steps are 0.")
    assert "with shared ones 0." in str(compared(log))
