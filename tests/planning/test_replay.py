from dataclasses import replace

import numpy as np
import pytest

import rareswitch as rs
from oracles import Starts, in_rows, position_episode, ragged_episode, unit_rows
from rareswitch.core.clock import Clock
from rareswitch.planning.replay import replay, replay_all
from rareswitch.statistics.partitions import LogPartition

TASK = rs.Task(dim=4, horizon=3, episodes=40)
RULES = [
    rs.DeterminantGrowth(eta=1.5),
    rs.rules.TotalGrowth(eta=2.0),
    rs.rules.AdaptiveBudget(switches=9),
    rs.UniformGrid(batches=7),
    rs.rules.Capped(rs.EveryEpisode(), 5),
    rs.EveryEpisode(),
]


def log_of(features):
    """Return the episodes of features (n, H, d)."""
    steps = features.shape[1]
    return [
        rs.Episode(features=rows, rewards=np.zeros(steps), next_features=[rows] * (steps - 1))
        for rows in features
    ]


def ragged(count):
    rng = np.random.default_rng(1)
    return [ragged_episode(rng, horizon=3, dim=4) for _ in range(count)]


def test_a_replay_deploys_when_the_learner_would():
    log = ragged(40)
    for rule in RULES:
        learner = rs.Learner(TASK, rule, rs.Recipe(ridge=0.3))
        deployed = [k for k, episode in enumerate(log[:-1], start=2) if learner.observe(episode)]
        assert deployed
        assert replay(rule, log, TASK, ridge=0.3) == deployed


def test_a_log_is_any_episodes_and_is_read_once():
    log = ragged(40)
    wanted = [replay(rule, log, TASK) for rule in RULES]
    assert replay_all(RULES, iter(log), TASK) == wanted
    assert replay_all(RULES, LogPartition.from_episodes(log, horizon=3), TASK) == wanted


def test_a_replay_ends_with_the_task():
    assert replay(rs.EveryEpisode(), ragged(50), TASK) == list(range(2, 41))


def test_a_replay_shows_the_rule_true_clocks():
    task = rs.Task(dim=3, horizon=2, episodes=12, feature_norm=10.0)
    features = np.random.default_rng(2).standard_normal((12, 2, 3))

    class Spy:
        def __init__(self):
            self.clocks: list[Clock] = []

        def due(self, clock):
            self.clocks.append(clock)
            return clock.episode in (4, 9)

    spy = Spy()
    assert replay(spy, log_of(features), task, ridge=0.7) == [4, 9]
    assert [clock.episode for clock in spy.clocks] == list(range(2, 13))
    assert [clock.deployments for clock in spy.clocks] == [1] * 3 + [2] * 5 + [3] * 3
    for clock in spy.clocks:
        k = clock.episode
        deployed = max(start for start in (1, 4, 9) if start < k)
        assert clock.deployed_at == deployed

        def gram(h, before):
            rows = features[: before - 1, h]
            return 0.7 * np.eye(3) + rows.T @ rows

        now = [np.linalg.slogdet(gram(h, k))[1] for h in range(2)]
        then = [np.linalg.slogdet(gram(h, deployed))[1] for h in range(2)]
        np.testing.assert_allclose(clock.logdet, now, atol=1e-9)
        np.testing.assert_allclose(clock.logdet_deployed, then, atol=1e-9)
        traces = [np.trace(gram(h, deployed)) for h in range(2)]
        np.testing.assert_allclose(clock.trace_deployed, traces, rtol=1e-12)


def test_a_short_log_has_few_deployments():
    assert replay(rs.EveryEpisode(), [], TASK) == []
    assert replay(rs.EveryEpisode(), ragged(1), TASK) == []
    assert replay(Starts([2]), ragged(2), TASK) == [2]


@pytest.mark.parametrize(
    ("log", "error", "message"),
    [
        (np.ones((5, 3, 4)), TypeError, "log must be episodes, a list or a LogPartition"),
        ([*ragged(2), "x"], TypeError, "in number 3, episode must be an Episode; got str"),
        (7, TypeError, "log must be episodes, a list or a LogPartition; got 7"),
        (
            log_of(unit_rows(np.random.default_rng(0), 2, 3, 5)),
            ValueError,
            "in number 1, episode must have features of dimension 4; got 5",
        ),
        (
            [*ragged(1), *log_of(unit_rows(np.random.default_rng(0), 1, 6, 4))],
            ValueError,
            "in number 2, episode must have at most 3 steps; got 6",
        ),
        (
            log_of(np.full((1, 3, 4), 2.0)),
            ValueError,
            "in number 1, episode must have features no longer than feature_norm = 1; .* ‖φ‖ = 4",
        ),
    ],
)
def test_a_log_of_another_task_is_refused(log, error, message):
    with pytest.raises(error, match=message):
        replay(rs.EveryEpisode(), log, TASK)


def test_a_bad_ridge_is_refused():
    with pytest.raises(ValueError, match="ridge must be"):
        replay(rs.EveryEpisode(), [], TASK, ridge=0.0)


# Stages that share, and features by position.


@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("one_hot", [True, False])
def test_a_replay_deploys_when_a_learner_of_that_kind_would(stages, one_hot):
    rng = np.random.default_rng(4)
    by_position = [position_episode(rng, horizon=3, states=2, actions=2) for _ in range(40)]
    log = by_position if one_hot else [in_rows(episode, 4) for episode in by_position]
    task = replace(TASK, stages=stages, one_hot=one_hot)
    for rule in RULES:
        learner = rs.Learner(task, rule, rs.Recipe.paper(0.5, ridge=0.3))
        deployed = [k for k, episode in enumerate(log[:-1], start=2) if learner.observe(episode)]
        assert deployed
        assert replay(rule, log, task, ridge=0.3) == deployed


def test_a_replay_shows_how_many_steps_an_episode_adds():
    clocks = []

    class Spy:
        def due(self, clock):
            clocks.append(clock)
            return False

    task = replace(TASK, stages="shared")
    features = unit_rows(np.random.default_rng(2), 5, 3, 4)
    replay(Spy(), log_of(features), task, ridge=0.7)
    for clock in clocks:
        assert clock.task.pools.steps.tolist() == [2.0, 3.0]
        for pool, last in enumerate((2, 3)):
            rows = features[: clock.episode - 1, :last].reshape(-1, 4)
            logdet = np.linalg.slogdet(0.7 * np.eye(4) + rows.T @ rows)[1]
            assert clock.logdet[pool] == pytest.approx(logdet, abs=1e-10)


POSITIONS = rs.Episode(features=[1, 3], rewards=[0.0, 1.0], next_features=[[0, 1]])


@pytest.mark.parametrize(
    ("log", "changes", "message"),
    [
        ([*ragged(2), POSITIONS], {"one_hot": False}, "in number 3, .* must have rows of features"),
        ([POSITIONS, *ragged(1)], {}, "in number 2, episode must have positions of one-hot"),
        ([POSITIONS], {"dim": 3}, "in number 1, episode must have positions below dim = 3; got 3"),
        ([POSITIONS], {"horizon": 1}, "in number 1, episode must have at most 1 steps; got 2"),
        ([POSITIONS], {"feature_norm": 0.9}, "feature_norm must be at least 1, .* got 0.9"),
    ],
)
def test_a_log_of_positions_of_another_task_is_refused(log, changes, message):
    with pytest.raises(ValueError, match=message):
        replay(rs.EveryEpisode(), log, replace(TASK, **{"one_hot": True} | changes))


def test_fewer_positions_than_the_task_has_are_enough():
    assert replay(rs.EveryEpisode(), [POSITIONS] * 3, replace(TASK, dim=9, one_hot=True)) == [2, 3]
