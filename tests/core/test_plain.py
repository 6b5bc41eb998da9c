import json
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, Starts, ragged_learning
from rareswitch.core.plain import KINDS, from_plain, to_plain

NEVER = rs.TotalGrowth.for_budget(switches=1, dim=30, horizon=300, episodes=10**6)
VALUES = [
    rs.EveryEpisode(),
    rs.UniformGrid(episodes=25, batches=4, spread="balanced"),
    rs.EpisodeGrid(starts=(1, 2, 9, 14)),
    rs.EpisodeGrid.geometric(episodes=25, batches=6),
    rs.DeterminantGrowth(eta=2.5),
    rs.TotalGrowth(1.7),
    NEVER,
    rs.AdaptiveBudget(switches=6, episodes=25, dim=3, feature_norm=1.1, ridge=0.3),
    rs.Capped(rs.DeterminantGrowth(eta=2.5), 3),
    rs.Capped(rs.Capped(rs.EpisodeGrid(starts=(1, 3, 5, 8)), 9), 2),
    rs.Capped(rs.Capped(rs.Capped(rs.AdaptiveBudget(switches=6, episodes=25, dim=3), 5), 4), 3),
    rs.Bonus(0.1),
    rs.Perturbation(0.3, draws=4),
]
SCHEDULES = VALUES[:-2]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values_survive_json_and_come_back_equal(value):
    text = json.dumps(to_plain(value), allow_nan=False)
    back = from_plain(json.loads(text))
    assert back == value
    assert type(back) is type(value)
    assert to_plain(back) == to_plain(value)


def test_every_schedule_and_optimism_of_the_package_is_a_kind():
    public = {
        value
        for value in vars(rs).values()
        if isinstance(value, type) and is_dataclass(value) and hasattr(value, "due")
    }
    assert public | {rs.Bonus, rs.Perturbation} == set(KINDS.values())
    assert {type(value) for value in VALUES} == set(KINDS.values())
    assert to_plain(rs.Perturbation(0.3)) == {"kind": "Perturbation", "sigma": 0.3, "draws": 10}


def test_every_argument_is_in_the_plain_value():
    for value in VALUES:
        assert to_plain(value).keys() == {"kind", *(field.name for field in fields(value))}


def test_what_is_the_users_own_is_not_stored():
    class Mine(rs.EveryEpisode):
        pass

    for own in (Starts([3]), Mine(), Asked(rs.EveryEpisode())):
        assert to_plain(own) is None
        assert to_plain(rs.Capped(own, 3)) is None
        assert to_plain(rs.Capped(rs.Capped(own, 3), 3)) is None


def make(schedule, **changes):
    arguments = {"dim": 3, "horizon": 3, "ridge": 0.5, "seed": (4, 2)} | changes
    return rs.Learner(schedule=schedule, **arguments)


@pytest.mark.parametrize("optimism", [rs.Bonus(0.7), rs.Perturbation(0.5, draws=3)], ids=repr)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_restored_learner_goes_on_byte_for_byte(schedule, optimism):
    learner = make(schedule, optimism=optimism)
    copies = []
    for k in range(0, 28, 7):
        for each in copies:
            ragged_learning(each, seed=3, start=k, stop=k + 7)
        ragged_learning(learner, seed=3, start=k, stop=k + 7)
        stored = learner.snapshot()
        assert [each.snapshot() == stored for each in copies] == [True] * len(copies)
        copies.append(rs.Learner.restore(stored))
        assert (copies[-1].schedule, copies[-1].optimism) == (schedule, optimism)
        assert copies[-1].snapshot() == stored
    assert learner.versions > 1 or schedule == NEVER


def test_a_restored_learner_draws_the_perturbations_that_would_have_come_next():
    learner = make(rs.EveryEpisode(), optimism=rs.Perturbation(1.0, draws=2), ties="lowest")
    ragged_learning(learner, seed=1, start=0, stop=5)
    copy = rs.Learner.restore(learner.snapshot())
    before = learner.policy.offsets
    for each in (learner, copy):
        ragged_learning(each, seed=1, start=5, stop=6)
    np.testing.assert_array_equal(learner.policy.offsets, copy.policy.offsets)
    assert (learner.policy.offsets != before).all()


def test_a_cap_around_a_schedule_of_ones_own_must_be_given_again():
    rule = rs.Capped(Asked(rs.DeterminantGrowth(eta=1.8)), 4)
    own, named = make(rule), make(rs.Capped(rs.DeterminantGrowth(eta=1.8), 4))
    for each in (own, named):
        ragged_learning(each, seed=2, start=0, stop=6)
    stored = own.snapshot()
    with pytest.raises(ValueError, match="schedule must be given"):
        rs.Learner.restore(stored)
    copy = rs.Learner.restore(stored, rule)
    assert copy.snapshot() == stored
    later = [ragged_learning(each, seed=2, start=6, stop=40) for each in (copy, named)]
    assert later[0] == later[1]
    assert copy.versions == named.versions == 5


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (rs.Bonus(np.float32(0.5)), rs.Bonus(0.5)),
        (rs.Perturbation(np.int64(1), np.int64(3)), rs.Perturbation(1.0, 3)),
        (
            rs.AdaptiveBudget(switches=np.int64(2), episodes=np.int32(9), dim=2),
            rs.AdaptiveBudget(switches=2, episodes=9, dim=2),
        ),
        (rs.Capped(rs.EveryEpisode(), np.int64(2)), rs.Capped(rs.EveryEpisode(), 2)),
    ],
    ids=repr,
)
def test_numbers_of_numpy_are_stored_as_numbers(value, same):
    assert from_plain(json.loads(json.dumps(to_plain(value)))) == same
