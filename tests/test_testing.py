from dataclasses import dataclass

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, Starts
from rareswitch.planning.options import candidates_for
from rareswitch.testing import check_features, check_schedule, refuse_faulty_rule

GROWTH = rs.DeterminantGrowth(eta=2.0)
LIMITED = [
    rs.Task(dim=1, horizon=1, episodes=300),
    rs.Task(dim=2, horizon=3, episodes=300, feature_norm=0.1),
    rs.Task(dim=2, horizon=4, episodes=300, feature_norm=5.0, stages="shared"),
    rs.Task(dim=10**6, horizon=2, episodes=300, one_hot=True),
]


class SumGrowth:
    stays_due = True

    def due(self, clock):
        return clock.growth.sum() > 1.5


class Weekly:
    def due(self, clock):
        return clock.episode % 7 == 1

    def upcoming(self, task, episode):
        return episode + 7 - (episode - 1) % 7


class Watching(rs.rules.Rule):
    """A rule of triggers, one of which is a date."""

    def triggers(self, clock):
        growth = rs.rules.Trigger.of_growth("growth", float(clock.growth.max()), 1.0)
        return growth, rs.rules.Trigger.of_date(clock, clock.deployed_at + 30)


class WatchesNothing(Watching):
    def triggers(self, clock):
        return ()


@pytest.mark.parametrize(
    "schedule",
    [
        rs.EveryEpisode(),
        rs.UniformGrid(batches=11),
        GROWTH,
        SumGrowth(),
        Weekly(),
        Asked(GROWTH),
        Starts([3, 50]),
        Starts([]),
        Watching(),
        WatchesNothing(),
        rs.SpreadBudget(switches=9),
        rs.rules.Capped(SumGrowth(), 3),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_good_schedules_pass(schedule, seed):
    assert check_schedule(schedule, seed=seed) is None
    assert check_schedule(schedule, rs.Task(dim=3, horizon=1, episodes=60), seed=seed) is None
    shared = rs.Task(dim=3, horizon=4, episodes=60, feature_norm=2.0, stages="shared")
    assert check_schedule(schedule, shared, seed=seed) is None


class Recording:
    """A rule that keeps its clocks, and may end with its task."""

    stays_due = True

    def __init__(self):
        self.clocks = []

    def due(self, clock):
        self.clocks.append(clock)
        last = clock.task.episodes
        return clock.growth.max() > 0.5 and (last is None or clock.episode <= last)


@pytest.mark.parametrize(
    "task",
    [
        None,
        rs.Task(dim=2, horizon=3, episodes=50, stages="shared"),
        rs.Task(dim=2, horizon=3),
        rs.Task(dim=5, horizon=1, episodes=1),
    ],
    ids=repr,
)
def test_a_schedule_sees_the_clocks_of_a_learner(task):
    rule = Recording()
    assert check_schedule(rule, task) is None
    shown = rs.Task(dim=2, horizon=3, episodes=200) if task is None else task
    assert all(clock.task == shown for clock in rule.clocks)
    asked = sorted({clock.episode for clock in rule.clocks})
    assert asked == list(range(2, (shown.episodes or 200) + 1))
    for clock in rule.clocks:
        assert clock.logdet.shape == clock.logdet_deployed.shape == (shown.pools.count,)
        assert clock.trace_deployed.shape == (shown.pools.count,)
        assert 1 <= clock.deployed_at < clock.episode
        assert (clock.growth >= 0.0).all()
        most = shown.dim + (clock.deployed_at - 1) * shown.pools.steps
        assert (clock.trace_deployed >= shown.dim).all()
        assert (clock.trace_deployed <= most).all()
        possible = shown.dim * np.log(clock.trace_deployed / shown.dim)
        assert (clock.logdet_deployed <= possible + 1e-9).all()
    if len(asked) > 20:
        assert max(clock.deployments for clock in rule.clocks) > 2


@pytest.mark.parametrize(
    ("rule", "task", "error", "message"),
    [
        (rs.UniformGrid(batches=9), rs.Task(dim=2, horizon=3), ValueError, "must have episodes"),
        (
            rs.UniformGrid(batches=9),
            rs.Task(dim=2, horizon=3, episodes=5),
            ValueError,
            "batches must be from 1 to 5; got 9",
        ),
        (GROWTH, {"dim": 2}, TypeError, "task must be a Task"),
        (GROWTH, rs.Task(dim=2, horizon=3, episodes=10**9), ValueError, "episodes must be from 1"),
    ],
)
def test_a_schedule_is_checked_on_a_task_that_it_can_serve(rule, task, error, message):
    with pytest.raises(error, match=message):
        check_schedule(rule, task)


class AnswersWithANumber:
    def due(self, clock):
        return int(clock.episode == 3)


class AnswersNothing:
    def due(self, clock):
        pass


class AnswersWithAnArray:
    def due(self, clock):
        return clock.growth > 1.0


class Counts:
    def __init__(self):
        self.asked = 0

    def due(self, clock):
        self.asked += 1
        return self.asked % 3 == 0


class WritesTheLogdet:
    def due(self, clock):
        clock.logdet[0] += 1.0
        return False


class WritesTheDeployedLogdet:
    def due(self, clock):
        clock.logdet_deployed[:] = clock.logdet
        return False


class PersistentGrid(Starts):
    stays_due = True


class PersistentWindow:
    stays_due = True

    def due(self, clock):
        return 0.7 < clock.growth.max() < 0.9


class NamesDatesTooLate(Weekly):
    def upcoming(self, task, episode):
        return super().upcoming(task, episode) + 1


class NamesDatesItIsNotDueAt(Weekly):
    def upcoming(self, task, episode):
        return episode + 1


class NamesNoDates(Weekly):
    def upcoming(self, task, episode):
        return None


class NamesOnlyTomorrow:
    def due(self, clock):
        return clock.episode % 5 == 1

    def upcoming(self, task, episode):
        return episode + 1 if (episode + 1) % 5 == 1 else None


class NamesThePast(Weekly):
    def upcoming(self, task, episode):
        return 0


class SaysNothingIsReached(Watching):
    def due(self, clock):
        return False


class IsDueBeforeItsTriggers(Watching):
    def due(self, clock):
        return super().due(clock) or clock.episode == 17


class WritesInItsTriggers(Watching):
    def triggers(self, clock):
        clock.trace_deployed[:] += 1.0
        return ()

    def due(self, clock):
        return False


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (AnswersWithANumber(), "AnswersWithANumber.due must return a bool; it returned 0"),
        (AnswersNothing(), "must return a bool; it returned None"),
        (AnswersWithAnArray(), "must return a bool; it returned array"),
        (Counts(), r"Counts.due must be a pure function of the clock.*before episode \d+"),
        (WritesTheLogdet(), "must not change its clock; it did before episode 2"),
        (WritesTheDeployedLogdet(), "must not change its clock; it did before episode 2"),
        (
            PersistentGrid([5]),
            "PersistentGrid has stays_due = True, but it was due before episode 5 and, without a "
            "switch, not before episode 6",
        ),
        (PersistentWindow(), "PersistentWindow has stays_due = True"),
        (
            NamesDatesTooLate(),
            r"NamesDatesTooLate.upcoming\(task, 1\) returned 9, but .* 8 the rule is due",
        ),
        (
            NamesDatesItIsNotDueAt(),
            r"upcoming\(task, 1\) returned 2, but before episode 2 the rule is not due",
        ),
        (
            NamesNoDates(),
            r"upcoming\(task, 1\) returned None, but before episode 8 the rule is due",
        ),
        (
            NamesOnlyTomorrow(),
            r"upcoming\(task, 1\) returned None, but before episode 6 the rule is due",
        ),
        (
            NamesThePast(),
            r"upcoming\(task, 1\) must return a later episode or None; it returned 0",
        ),
        (
            SaysNothingIsReached(),
            r"due must be True exactly when a trigger is reached; before episode \d+ it is False, "
            r"and [12] of 2 triggers are reached",
        ),
        (
            IsDueBeforeItsTriggers(),
            "before episode 17 it is True, and 0 of 2 triggers are reached",
        ),
        (WritesInItsTriggers(), "must not change its clock; it did before episode 2"),
    ],
)
def test_a_schedule_that_breaks_its_promise_is_named(schedule, message):
    with pytest.raises(AssertionError, match=message):
        check_schedule(schedule)


@dataclass(frozen=True)
class Promises(Weekly):
    limit: float

    def deployment_limit(self, task, ridge):
        return self.limit / ridge


@pytest.mark.parametrize("around", [lambda rule: rule, lambda rule: rs.rules.Capped(rule, 100)])
def test_a_rule_must_not_deploy_more_often_than_its_limit(around):
    task = rs.Task(dim=2, horizon=3, episodes=30)
    assert check_schedule(around(Promises(4)), task) is None
    told = r"deployment_limit\(task, 1.0\) returned 3, but deployment 4 after .* before episode 29"
    with pytest.raises(AssertionError, match=told):
        check_schedule(around(Promises(3)), task)
    assert check_schedule(around(Promises(3)), task, most=28) is None
    with pytest.raises(ValueError, match=told):
        refuse_faulty_rule(Promises(3), task)
    assert check_schedule(Promises(3), rs.Task(dim=2, horizon=3)) is None


@pytest.mark.parametrize("task", LIMITED, ids=repr)
def test_every_rule_with_a_limit_keeps_it_on_the_paths_of_the_check(task):
    rules = [one.schedule for b in (1, 3, 20, 100) for one in candidates_for(b, task)]
    for rule in [*rules, GROWTH, rs.DeterminantGrowth(eta=1.05), rs.rules.TotalGrowth(eta=1.5)]:
        assert check_schedule(rule, task) is None


def test_most_ends_the_check_early():
    assert check_schedule(PersistentGrid([50]), most=49) is None
    long = rs.Task(dim=2, horizon=3, episodes=10**9)
    assert check_schedule(GROWTH, long, most=20) is None
    with pytest.raises(ValueError, match="most must be"):
        check_schedule(GROWTH, most=0)


class Raises:
    def due(self, clock):
        raise ValueError("no calendar")


@pytest.mark.parametrize(
    "around", [lambda rule: rule, lambda rule: rs.rules.Capped(rule, switches=3)]
)
def test_a_rule_outside_the_package_is_refused_if_it_is_faulty(around):
    task = rs.Task(dim=2, horizon=3, episodes=60)
    with pytest.raises(ValueError, match="has stays_due = True, but it was due before episode 5"):
        refuse_faulty_rule(PersistentGrid([5]), task)
    for rule in (Weekly(), GROWTH, Raises()):
        assert refuse_faulty_rule(around(rule), task) is None


@pytest.mark.parametrize("rule", [AnswersWithANumber(), AnswersNothing(), AnswersWithAnArray()])
def test_a_learner_and_a_simulation_name_a_rule_that_does_not_answer_with_a_bool(rule):
    told = rf"schedule: {type(rule).__name__}.due must return a bool; it returned .* episode 2"
    world = rs.worlds.hard_to_learn(d=5, horizon=2, delta=0.3, seed=0)
    with pytest.raises(TypeError, match=told):
        rs.simulate(world, rule, episodes=5)
    with pytest.raises(TypeError, match=told):
        rs.simulate(world, rs.rules.Capped(rule, switches=2), episodes=5)
    learner = rs.Learner(world.task(episodes=5), rule)
    with pytest.raises(TypeError, match=told.replace("episode 2", "episode 1")):
        learner.due  # noqa: B018


def one_hot(state):
    return np.eye(4)[: state + 1] / 2.0


def test_good_features_pass_and_give_their_norm():
    assert check_features(one_hot, range(4)) == 0.5
    assert check_features(one_hot, range(4), dim=4) == 0.5
    assert check_features(lambda s: [[3.0 * s, 4.0 * s]], iter([0, 1, 2])) == 10.0


def wandering():
    rng = np.random.default_rng(0)
    return lambda state: rng.random((2, 3))


def reused():
    buffer = np.zeros((1, 2))

    def features(state):
        buffer[:] += 1.0
        return buffer

    return features


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (lambda s: np.zeros((0, 3)), "features of 0 must have a row for some feasible action"),
        (lambda s: np.full((2, 3), np.nan), "features of 0 must be finite"),
        (lambda s: np.full((2, 3), np.inf if s == 2 else 0.0), "features of 2 must be finite"),
        (lambda s: np.ones((2, 3 + s)), "features of 1 must have d = 3; got 4"),
        (lambda s: np.ones(3), r"features of 0 must be \(A, d\); got shape \(3,\)"),
        (wandering(), "features of 0 must be the same at every call"),
        (reused(), "features of 0 must be the same at every call"),
        (lambda s: np.eye(2) > 0.5, "features of 0 must be real numbers; got bool"),
        (lambda s: np.eye(2) * 1j, "features of 0 must be real numbers; got complex128"),
        (lambda s: np.eye(2).astype(str), "features of 0 must be real numbers; got <U"),
    ],
)
def test_a_feature_map_that_breaks_the_contract_is_named(features, message):
    with pytest.raises(AssertionError, match=message):
        check_features(features, range(4))


class Positions:
    dim, actions, one_hot, norm = 4, 2, True, 1.0

    def __init__(self, rows=(2, 3), **said):
        self.rows = rows
        vars(self).update(said)

    def __call__(self, state):
        return np.array(self.rows)


def test_positions_of_one_hot_features_pass():
    assert check_features(Positions(), [0, 1]) == 1.0


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (Positions((2.0, 3.0)), "must be positions, whole numbers"),
        (Positions(((2, 3),)), "must be positions, whole numbers"),
        (Positions((2, 4)), "from 0 to d−1"),
        (Positions((-1, 3)), "from 0 to d−1"),
        (Positions((2, 3), actions=3), "must have 3 rows, the attribute actions; got 2"),
        (Positions(np.eye(2), one_hot=False, dim=3), "must have d = 3"),
        (
            Positions(np.eye(2), one_hot=False, dim=2, norm=0.5),
            "longer than 0.5, the attribute norm; got 1",
        ),
    ],
)
def test_what_a_map_says_of_itself_must_hold(features, said):
    with pytest.raises(AssertionError, match=said):
        check_features(features, [0])


def test_the_dimension_asked_for_must_be_the_one_that_the_map_says():
    with pytest.raises(AssertionError, match="must have d = 5; their attribute dim is 4"):
        check_features(Positions(), [0], dim=5)


def test_features_must_have_the_dimension_asked_for():
    with pytest.raises(AssertionError, match="features of 0 must have d = 5; got 4"):
        check_features(one_hot, range(4), dim=5)


def test_some_state_is_needed():
    with pytest.raises(AssertionError, match="states must not be empty"):
        check_features(one_hot, [])


def test_rows_must_be_in_the_blocks_that_a_map_says():
    class Arms:
        blocks, off = 2, 0.0

        def __call__(self, state):
            return [[1.0, 2.0, 0.0, self.off], [0.0, 0.0, 1.0, 2.0]]

    arms = Arms()
    assert check_features(arms, [0]) == pytest.approx(5**0.5)
    arms.off = 0.1
    with pytest.raises(AssertionError, match=r"in only one of 2 blocks, .* got a row with 2"):
        check_features(arms, [0])
    arms.blocks = 3
    with pytest.raises(AssertionError, match="must have d divided by 3 blocks; got d = 4"):
        check_features(arms, [0])
