"""Whether data speak against shared stages, on worlds that depend on the stage and on others."""

from dataclasses import replace

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.evaluation import Sharing, check_sharing

STATES, ACTIONS, HORIZON = 4, 2, 5
TASK = rs.Task(dim=STATES * ACTIONS, horizon=HORIZON, one_hot=True)


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


def checked(log, **changes):
    return check_sharing(log, replace(TASK, **changes))


@pytest.mark.parametrize("seed", range(5))
def test_stages_that_differ_are_told_from_those_that_do_not(seed):
    differ = checked(log_of(world(seed, dependent=True), 400, seed))
    alike = checked(log_of(world(seed, dependent=False), 400, seed))
    assert differ.against
    assert differ.own < differ.shared
    assert not alike.against


def test_with_few_data_sharing_predicts_better_where_stages_are_alike():
    found = checked(log_of(world(0, dependent=False), 20, 0))
    assert found.shared < found.own
    assert found.low > 0.0
    assert str(found).startswith("sharing predicts better (errors on unseen steps: shared ")


def test_positions_and_rows_give_the_same():
    log = log_of(world(1, dependent=True), 30, 1, ends=0.2)
    eye = np.eye(STATES * ACTIONS)
    rows = [
        rs.Episode(
            features=eye[one.features],
            rewards=one.rewards,
            next_features=[eye[state] for state in one.next_features],
        )
        for one in log
    ]
    by_rows = checked(rows, one_hot=False, end_reward=0.5)
    by_place = checked(log, end_reward=0.5)
    for name in ("own", "shared", "low", "high"):
        assert getattr(by_rows, name) == pytest.approx(getattr(by_place, name), rel=1e-8)


def test_what_an_end_is_worth_counts():
    log = log_of(world(2, dependent=False), 40, 2, ends=0.3)
    assert checked(log, end_reward=1.0).shared != checked(log).shared


def test_it_is_the_same_every_time_and_in_words():
    log = log_of(world(3, dependent=True), 200, 3)
    assert checked(log) == checked(log)
    assert str(checked(log)).endswith('try stages="own"')
    open_ = Sharing(own=1.0, shared=1.0, low=-0.1, high=0.1)
    assert not open_.against
    assert str(open_).startswith("the data do not tell")


@pytest.mark.parametrize(
    ("log", "changes", "said"),
    [
        ([1, 2, 3, 4], {}, "log must be a list of Episodes"),
        ((), {}, "log must have at least 4 episodes; got 0"),
        (None, {"horizon": 1}, "horizon must be at least 2"),
    ],
)
def test_what_cannot_be_checked_is_refused(log, changes, said):
    if log is None:
        log = log_of(world(0, dependent=False), 4, 0)
    with pytest.raises((TypeError, ValueError), match=said):
        checked(log, **changes)


def test_a_task_is_asked_for():
    with pytest.raises(TypeError, match="task must be a Task; got 8"):
        check_sharing(log_of(world(0, dependent=False), 4, 0), STATES * ACTIONS)
