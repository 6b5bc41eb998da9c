import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, Starts
from rareswitch.testing import check_features, check_schedule

GROWTH = rs.DeterminantGrowth(eta=2.0)


class SumGrowth:
    persistent = True

    def due(self, clock):
        return clock.growth.sum() > 1.5


class Weekly:
    def due(self, clock):
        return clock.episode % 7 == 1

    def upcoming(self, episode):
        return episode + 7 - (episode - 1) % 7


@pytest.mark.parametrize(
    "schedule",
    [
        rs.EveryEpisode(),
        rs.UniformGrid(episodes=200, batches=11),
        GROWTH,
        SumGrowth(),
        Weekly(),
        Asked(GROWTH),
        Starts([3, 50]),
        Starts([]),
    ],
)
def test_good_schedules_pass(schedule):
    assert check_schedule(schedule) is None


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
    persistent = True


class PersistentWindow:
    persistent = True

    def due(self, clock):
        return 0.7 < clock.growth.max() < 0.9


class NamesDatesTooLate(Weekly):
    def upcoming(self, episode):
        return super().upcoming(episode) + 1


class NamesDatesItIsNotDueAt(Weekly):
    def upcoming(self, episode):
        return episode + 1


class NamesNoDates(Weekly):
    def upcoming(self, episode):
        return None


class NamesOnlyTomorrow:
    def due(self, clock):
        return clock.episode % 5 == 1

    def upcoming(self, episode):
        return episode + 1 if (episode + 1) % 5 == 1 else None


class NamesThePast(Weekly):
    def upcoming(self, episode):
        return 0


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (AnswersWithANumber(), "AnswersWithANumber.due must return a bool; it returned 0"),
        (AnswersNothing(), "must return a bool; it returned None"),
        (AnswersWithAnArray(), "must return a bool; it returned array"),
        (Counts(), r"Counts.due must be a pure function of the clock.*before episode \d+"),
        (WritesTheLogdet(), "must not change its clock; it did before episode 2"),
        (WritesTheDeployedLogdet(), "must not change its clock; it did before episode 2"),
        (PersistentGrid([5]), "says it is persistent, but was due before episode 5"),
        (PersistentWindow(), "says it is persistent"),
        (NamesDatesTooLate(), r"NamesDatesTooLate.upcoming\(1\) = 9, but .* 8 the rule is due"),
        (NamesDatesItIsNotDueAt(), r"upcoming\(1\) = 2, but before episode 2 the rule is not due"),
        (NamesNoDates(), r"upcoming\(1\) = None, but before episode 8 the rule is due"),
        (NamesOnlyTomorrow(), r"upcoming\(1\) = None, but before episode 6 the rule is due"),
        (NamesThePast(), r"upcoming\(1\) must be a later episode or None; got 0"),
    ],
)
def test_a_schedule_that_breaks_its_promise_is_named(schedule, message):
    with pytest.raises(AssertionError, match=message):
        check_schedule(schedule)


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
        (wandering(), "features of 0 must be the same every time"),
        (reused(), "features of 0 must be the same every time"),
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
        (Positions((2, 3), actions=3), "must have 3 rows"),
        (Positions(np.eye(2), one_hot=False, dim=3), "must have d = 3"),
        (Positions(np.eye(2), one_hot=False, dim=2, norm=0.5), "longer than 0.5"),
    ],
)
def test_what_a_map_says_of_itself_must_hold(features, said):
    with pytest.raises(AssertionError, match=said):
        check_features(features, [0])


def test_the_dimension_asked_for_must_be_the_one_that_the_map_says():
    with pytest.raises(AssertionError, match="they say that it is 4"):
        check_features(Positions(), [0], dim=5)


def test_features_must_have_the_dimension_asked_for():
    with pytest.raises(AssertionError, match="features of 0 must have d = 5; got 4"):
        check_features(one_hot, range(4), dim=5)


def test_some_state_is_needed():
    with pytest.raises(AssertionError, match="states must hold at least one state"):
        check_features(one_hot, [])
