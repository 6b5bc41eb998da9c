import importlib
import json
import math
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, Starts, ragged_learning
from rareswitch.core.grids import MinimaxGrid
from rareswitch.core.rules import EXPLORATIONS, RULES, describe, rebuild, row_of

HOMES = ("schedule", "grids", "budget", "exploration")
NEVER = rs.TotalGrowth.for_budget(rs.Task(dim=30, horizon=300, episodes=10**6), switches=1)
VALUES = [
    rs.EveryEpisode(),
    rs.UniformGrid(episodes=25, batches=4, spread="balanced"),
    rs.EpisodeGrid(starts=(1, 2, 9, 14)),
    rs.GeometricGrid(episodes=25, batches=6),
    MinimaxGrid(episodes=25, batches=6),
    rs.DeterminantGrowth(eta=2.5),
    rs.TotalGrowth(1.7),
    NEVER,
    rs.AdaptiveBudget(switches=6, episodes=25, dim=3, feature_norm=1.1),
    rs.SpreadBudget(switches=6, episodes=25, dim=3, feature_norm=1.1),
    rs.Capped(rs.DeterminantGrowth(eta=2.5), 3),
    rs.Capped(rs.Capped(rs.EpisodeGrid(starts=(1, 3, 5, 8)), 9), 2),
    rs.Capped(rs.Capped(rs.Capped(rs.AdaptiveBudget(switches=6, episodes=25, dim=3), 5), 4), 3),
    rs.Bonus(0.1),
    rs.Bonus(0.1, members=3, estimate=True),
    rs.Perturbation(0.3, draws=4),
    rs.Perturbation(0.3, draws=4, estimate=True),
    rs.Ensemble(),
    rs.Ensemble(members=7, scale=0.2, estimate=False),
]
SCHEDULES = [value for value in VALUES if hasattr(value, "due")]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values_survive_json_and_come_back_equal(value):
    text = json.dumps(describe(value), allow_nan=False)
    back = rebuild(json.loads(text))
    assert back == value
    assert type(back) is type(value)
    assert describe(back) == describe(value)


def test_every_rule_and_exploration_of_the_package_has_a_row():
    modules = [importlib.import_module(f"rareswitch.core.{name}") for name in HOMES]
    public = {
        value
        for module in modules
        for name, value in vars(module).items()
        if is_dataclass(value) and not name.startswith("_") and value.__module__ == module.__name__
        if hasattr(value, "due") or hasattr(value, "perturbations")
    }
    rows = (*RULES, *EXPLORATIONS)
    assert public == {row.kind for row in rows} == {type(value) for value in VALUES}
    for part in ("name", "label", "colour"):
        assert len({getattr(row, part) for row in rows}) == len(rows)
    assert len({row.marker for row in RULES}) == len(RULES)
    perturbed = {"kind": "perturbation", "sigma": 0.3, "draws": 10, "estimate": False}
    assert describe(rs.Perturbation(0.3)) == perturbed
    mixture = {"kind": "ensemble", "members": 32, "scale": 0.5, "estimate": True}
    assert describe(rs.Ensemble()) == mixture


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_rule_is_found_by_itself_and_by_its_class(value):
    row = row_of(value)
    assert row == row_of(type(value))
    assert row.kind is type(value)
    assert describe(value)["kind"] == row.name


def test_every_argument_is_in_the_plain_value():
    for value in VALUES:
        assert describe(value).keys() == {"kind", *(field.name for field in fields(value))}


@dataclass(frozen=True)
class Own:
    """A rule of one's own, with arguments of every sort."""

    limit: float = math.inf
    weights: object = field(default_factory=lambda: np.array([[1.0, 2.0], [3.0, 4.0]]))
    inner: object = field(default_factory=lambda: Starts([3]))
    names: tuple = ("a", Starts([3]), np.float32(0.5))
    day: object = date(2020, 2, 3)

    def due(self, clock):
        return False


def test_ones_own_is_described_by_its_class_and_arguments():
    assert describe(Starts([3])) == {"kind": "oracles:Starts"}
    assert row_of(Starts([3])).label == "a rule of your own"
    assert describe(rs.Capped(Starts([3]), 2))["schedule"] == {"kind": "oracles:Starts"}
    told = describe(Own())
    assert told == describe(Own())
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["kind"].endswith(":Own")
    assert (told["limit"], told["weights"]) == ("inf", [[1.0, 2.0], [3.0, 4.0]])
    assert told["inner"] == told["names"][1] == {"kind": "oracles:Starts"}
    assert told["day"] == "datetime.date(2020, 2, 3)"


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"kind": "oracles:Starts"}, "'oracles:Starts' is none of the package's rules"),
        ({"kind": "yearly"}, "'yearly' is none of the package's rules and explorations"),
        ({"eta": 2.0}, "a rule must be described by its kind and arguments; got {'eta': 2.0}"),
        ({"kind": 3}, "a rule must be described by its kind"),
        ("every-episode", "a rule must be described by its kind"),
        (None, "a rule must be described by its kind"),
    ],
)
def test_what_describes_none_of_the_table_is_refused(plain, message):
    with pytest.raises(ValueError, match=message):
        rebuild(plain)


def make(schedule, **changes):
    arguments = {"dim": 3, "horizon": 3, "ridge": 0.5, "seed": (4, 2)} | changes
    return rs.Learner(schedule=schedule, **arguments)


@pytest.mark.parametrize(
    "exploration",
    [rs.Bonus(0.7), rs.Bonus(0.7, 3), rs.Perturbation(0.5, draws=3), rs.Ensemble(3)],
    ids=repr,
)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_restored_learner_goes_on_byte_for_byte(schedule, exploration):
    learner = make(schedule, exploration=exploration)
    copies = []
    for k in range(0, 28, 7):
        for each in copies:
            ragged_learning(each, seed=3, start=k, stop=k + 7)
        ragged_learning(learner, seed=3, start=k, stop=k + 7)
        stored = learner.snapshot()
        assert [each.snapshot() == stored for each in copies] == [True] * len(copies)
        copies.append(rs.Learner.restore(stored))
        assert (copies[-1].schedule, copies[-1].recipe.exploration) == (schedule, exploration)
        assert copies[-1].snapshot() == stored
    assert len(learner.ledger) > 1 or schedule == NEVER


def test_a_restored_learner_draws_the_perturbations_that_would_have_come_next():
    learner = make(rs.EveryEpisode(), exploration=rs.Perturbation(1.0, draws=2), ties="lowest")
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
    with pytest.raises(
        ValueError, match="schedule must be given: the snapshot holds oracles:Asked"
    ):
        rs.Learner.restore(stored)
    copy = rs.Learner.restore(stored, schedule=rule)
    assert copy.snapshot() == stored
    later = [ragged_learning(each, seed=2, start=6, stop=40) for each in (copy, named)]
    assert later[0] == later[1]
    assert len(copy.ledger) == len(named.ledger) == 5


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (rs.Bonus(np.float32(0.5)), rs.Bonus(0.5)),
        (rs.Perturbation(np.int64(1), np.int64(3)), rs.Perturbation(1.0, 3)),
        (rs.Ensemble(np.int8(4), np.float32(0.5), np.False_), rs.Ensemble(4, 0.5, False)),
        (
            rs.AdaptiveBudget(switches=np.int64(2), episodes=np.int32(9), dim=2),
            rs.AdaptiveBudget(switches=2, episodes=9, dim=2),
        ),
        (rs.Capped(rs.EveryEpisode(), np.int64(2)), rs.Capped(rs.EveryEpisode(), 2)),
    ],
    ids=repr,
)
def test_numbers_of_numpy_are_stored_as_numbers(value, same):
    assert rebuild(json.loads(json.dumps(describe(value)))) == same
