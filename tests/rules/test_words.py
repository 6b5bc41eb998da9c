"""Rules as text: found by name, read, made, described, written, and as Python code."""

import importlib
import json
import math
import sys
from dataclasses import dataclass, field, fields
from datetime import date

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, Starts
from rareswitch.core.clock import Schedule
from rareswitch.rules.grids import MinimaxGrid
from rareswitch.rules.table import EXPLORATIONS, RULES
from rareswitch.rules.words import (
    ForBudget,
    describe,
    find_class,
    imports_of,
    make_exploration,
    make_schedule,
    parse,
    read_rule,
    rebuild,
    to_python,
    to_words,
)
from rareswitch.support.imports import ForbiddenImportError

TASK = rs.Task(dim=3, horizon=2, episodes=100, feature_norm=2.0)


@pytest.mark.parametrize("table", [RULES, EXPLORATIONS], ids=["rules", "explorations"])
def test_every_name_of_the_table_finds_its_class(table):
    for row in table:
        assert find_class(row.name, table) is row.cls


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with a module of one's own, which is forgotten afterwards."""
    (tmp_path / "my_rules_here.py").write_text(
        "class Mine:\n    def __init__(self, wait=3):\n        self.wait = wait\n\n"
        "    def due(self, clock):\n        return clock.episode % self.wait == 0\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("my_rules_here", None)


def test_ones_own_is_found_in_a_module(here):
    assert find_class("oracles:Starts", allow=["oracles"]) is Starts
    before, mine = list(sys.path), {"allow": ["my_rules_here"]}
    assert find_class("my_rules_here:Mine", **mine).__name__ == "Mine"
    assert sys.path == before
    assert make_schedule("my_rules_here:Mine", {"wait": 2}, TASK, **mine).wait == 2
    with pytest.raises(ValueError, match="cannot be imported"):
        find_class("my_rules_here:Absent", **mine)
    assert sys.path == before


def test_ones_own_is_found_in_a_folder_that_is_named(here, monkeypatch):
    monkeypatch.chdir(here.parent)
    before, mine = list(sys.path), {"allow": ["my_rules_here"]}
    with pytest.raises(ValueError, match="kind 'my_rules_here' cannot be imported"):
        find_class("my_rules_here:Mine", **mine)
    mine["folders"] = [str(here)]
    assert find_class("my_rules_here:Mine", **mine).__name__ == "Mine"
    assert make_schedule("my_rules_here:Mine", {}, TASK, **mine).wait == 3
    capped = {"schedule": {"kind": "my_rules_here:Mine", "wait": 4}, "switches": 2}
    assert make_schedule("capped", capped, TASK, **mine).schedule.wait == 4
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("yearly", ValueError, "kind must be one of every-episode, .*, or module:Class; got 'year"),
        ("bonus", ValueError, "kind must be one of every-episode"),
        ("uniform_grid", ValueError, r"got 'uniform_grid'; did you mean uniform-grid\?"),
        ("nowhere:Mine", ValueError, "kind 'nowhere' cannot be imported .*nowhere"),
        ("oracles:Mine", ValueError, "kind 'oracles:Mine' cannot be imported .*Mine"),
        (":Mine", ValueError, "kind '' cannot be imported"),
        (".oracles:Mine", ValueError, "kind '.oracles' cannot be imported"),
        ("oracles:walk", ValueError, "kind 'oracles:walk' must be a class with .* it is <function"),
        ("fractions:Fraction", ValueError, "must be a class with a method due; it is <class 'fra"),
        (3, TypeError, "kind must be a name; got 3"),
        (None, TypeError, "kind must be a name; got None"),
    ],
)
def test_what_is_nowhere_is_said(name, error, message):
    with pytest.raises(error, match=message):
        find_class(name, allow=["nowhere", "oracles", "fractions"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every-episode", ("every-episode", {})),
        ("uniform-grid,batches=50", ("uniform-grid", {"batches": 50})),
        ("uniform-grid,batches=5,spread=last", ("uniform-grid", {"batches": 5, "spread": "last"})),
        ('uniform-grid,spread="last"', ("uniform-grid", {"spread": "last"})),
        ("determinant-growth,eta=2.5", ("determinant-growth", {"eta": 2.5})),
        ("episode-grid,dates=[1,5,9]", ("episode-grid", {"dates": [1, 5, 9]})),
        ("a.b:C,x=true,y=null", ("a.b:C", {"x": True, "y": None})),
        ("a:B,x=", ("a:B", {"x": ""})),
    ],
)
def test_a_rule_is_read_as_it_is_written(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["a,b", "a,=3", "a,1=2", "a,x=1,x=2", "a,", "a,x y=1"])
def test_what_is_no_argument_is_said(text):
    with pytest.raises(ValueError, match="must be a name and its arguments, as in uniform-grid,"):
        parse(text)


def test_a_rule_is_read_with_its_defaults_and_without_a_task():
    assert read_rule("every-episode", {}) == rs.EveryEpisode()
    assert read_rule("uniform-grid", {"batches": 5}) == rs.UniformGrid(batches=5, spread="last")
    assert read_rule("spread-budget", {"switches": 5}) == rs.SpreadBudget(switches=5)
    perturbed = rs.Perturbation(scale=0.1, draws=10, estimate=False)
    assert read_rule("perturbation", {"scale": 0.1}, EXPLORATIONS) == perturbed
    assert read_rule("bonus", {}, EXPLORATIONS) == rs.Bonus(1.0, members=1, estimate=False)
    mixture = rs.Ensemble(members=8, scale=0.5, estimate=True)
    assert read_rule("ensemble", {"members": 8}, EXPLORATIONS) == mixture


def test_a_rule_for_a_budget_waits_for_its_task():
    asked = read_rule("determinant-growth", {"switches": 7})
    assert asked == ForBudget(rs.DeterminantGrowth, {"switches": 7})
    assert asked.rule(TASK, 0.5) == rs.DeterminantGrowth.for_budget(TASK, switches=7, ridge=0.5)
    assert describe(asked) == {"kind": "determinant-growth", "switches": 7}
    assert read_rule("uniform-grid", {"switches": 7}).rule(TASK) == rs.UniformGrid(batches=8)
    # A budget is an argument of some rules themselves.
    assert read_rule("adaptive-budget", {"switches": 7}) == rs.rules.AdaptiveBudget(switches=7)
    for bad, error in ((-1, ValueError), (2.5, TypeError), ("7", TypeError), (True, TypeError)):
        with pytest.raises(error, match="switches must be"):
            read_rule("determinant-growth", {"switches": bad})


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("uniform-grid", {"eta": 2}, "uniform-grid has no argument 'eta'; it takes .*switches"),
        ("every-episode", {"eta": 2}, "every-episode has no argument 'eta'"),
        ("uniform-grid", {}, "uniform-grid needs batches or switches"),
        ("capped", {"switches": 3}, "capped needs schedule"),
        ("minimax-grid", {"switches": 3}, "minimax-grid has no argument 'switches'"),
        ("uniform-grid", {"batches": 4, "episodes": 50}, "uniform-grid has no argument 'episodes'"),
        ("spread-budget", {"switches": 4, "dim": 2}, "spread-budget has no argument 'dim'"),
        ("capped", {"schedule": {"kind": "yearly"}, "switches": 3}, "kind must be one of every-ep"),
        (
            "uniform-grid",
            {"switches": 3, "batches": 4},
            "uniform-grid takes switches or batches, not both",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_said(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        read_rule(kind, arguments)
    with pytest.raises(ValueError, match=message):
        make_schedule(kind, arguments, TASK)


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        ("every-episode", {}, rs.EveryEpisode()),
        ("uniform-grid", {"batches": 4}, rs.UniformGrid(batches=4)),
        ("minimax-grid", {"batches": 4}, MinimaxGrid(batches=4)),
        ("determinant-growth", {"eta": 3}, rs.DeterminantGrowth(eta=3.0)),
        ("total-growth", {"eta": 3}, rs.rules.TotalGrowth(eta=3.0)),
        ("episode-grid", {"dates": [1, 5]}, rs.rules.EpisodeGrid(dates=(1, 5))),
        (
            "adaptive-budget",
            {"switches": 4},
            rs.rules.AdaptiveBudget(switches=4),
        ),
        (
            "capped",
            {"switches": 2, "schedule": {"kind": "uniform-grid", "batches": 5}},
            rs.rules.Capped(rs.UniformGrid(batches=5), 2),
        ),
    ],
)
def test_a_rule_is_made_of_its_own_arguments(kind, arguments, expected):
    assert make_schedule(kind, arguments, TASK) == expected


@pytest.mark.parametrize("row", RULES, ids=lambda row: row.name)
def test_any_rule_that_can_keep_a_budget_is_asked_for_it(row):
    if not hasattr(row.cls, "for_budget"):
        return
    expected = row.cls.for_budget(TASK, switches=99, ridge=0.5)
    assert make_schedule(row.name, {"switches": 99}, TASK, ridge=0.5) == expected


def test_the_rule_must_serve_the_task():
    open_ended = rs.Task(dim=3, horizon=2)
    assert make_schedule("every-episode", {}, open_ended) == rs.EveryEpisode()
    for arguments in ({"batches": 5}, {"switches": 5}):
        with pytest.raises(ValueError, match="task must have episodes"):
            make_schedule("uniform-grid", arguments, open_ended)
    with pytest.raises(ValueError, match="batches must be from 1 to 100; got 101"):
        make_schedule("uniform-grid", {"batches": 101}, TASK)


def test_a_rule_for_a_budget_may_stand_inside_a_cap():
    inner = {"kind": "uniform-grid", "switches": 4}
    rule = make_schedule("capped", {"schedule": inner, "switches": 2}, TASK)
    assert rule == rs.rules.Capped(rs.UniformGrid(batches=5), 2)


def test_ones_own_rule_takes_its_arguments():
    own = make_schedule("oracles:Starts", {"starts": [3, 4]}, TASK, allow=["oracles"])
    assert isinstance(own, Starts)
    assert own.starts == (3, 4)
    with pytest.raises(ValueError, match="oracles:Starts needs starts"):
        make_schedule("oracles:Starts", {}, TASK, allow=["oracles"])


@pytest.mark.parametrize(
    ("kind", "arguments", "table"),
    [
        ("subprocess:Popen", {"args": ["touch", "ran"]}, RULES),
        ("subprocess:Popen", {"args": ["touch", "ran"]}, EXPLORATIONS),
        ("my_trap:Rule", {}, RULES),
        ("capped", {"switches": 1, "schedule": {"kind": "my_trap:Rule"}}, RULES),
    ],
)
def test_code_that_nobody_allowed_is_not_run(tmp_path, monkeypatch, kind, arguments, table):
    (tmp_path / "my_trap.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    name = arguments.get("schedule", {"kind": kind})["kind"]
    module = name.partition(":")[0]
    message = f"kind {name!r} names code of the module {module}, which is not allowed; .*--allow"
    for allow in ([], ["my_trap.Rule"], [f"{module}s"], ["my"]):
        with pytest.raises(ForbiddenImportError, match=message):
            read_rule(kind, arguments, table, allow=allow)
    assert not (tmp_path / "ran").exists()
    assert "my_trap" not in sys.modules


@pytest.mark.parametrize(("table", "method"), [(RULES, "due"), (EXPLORATIONS, "perturbations")])
def test_an_allowed_class_that_is_no_rule_is_not_made(tmp_path, monkeypatch, table, method):
    monkeypatch.chdir(tmp_path)
    arguments = {"args": ["touch", "ran"]}
    message = f"'subprocess:Popen' must be a class with a method {method}; it is <class 'subproc"
    with pytest.raises(ValueError, match=message):
        read_rule("subprocess:Popen", arguments, table, allow=["subprocess"])
    assert not (tmp_path / "ran").exists()


def test_explorations_are_made_by_name():
    assert make_exploration("bonus", {"beta": 2}) == rs.Bonus(2.0)
    assert make_exploration("perturbation", {"scale": 1, "draws": 3}) == rs.Perturbation(1.0, 3)
    with pytest.raises(ValueError, match="kind must be one of bonus, perturbation"):
        make_exploration("every-episode", {})


SAID = {
    "every-episode": rs.EveryEpisode(),
    "uniform-grid,batches=5": rs.UniformGrid(batches=5),
    'uniform-grid,batches=5,spread="balanced"': rs.UniformGrid(batches=5, spread="balanced"),
    "determinant-growth,eta=2.5": rs.DeterminantGrowth(eta=2.5),
    "total-growth,log_eta=0.1": rs.rules.TotalGrowth(log_eta=0.1),
    "adaptive-budget,switches=4": rs.rules.AdaptiveBudget(switches=4),
    "spread-budget,switches=4": rs.SpreadBudget(switches=4),
    "minimax-grid,batches=4": MinimaxGrid(batches=4),
    "geometric-grid,batches=4": rs.rules.GeometricGrid(batches=4),
    "episode-grid,dates=[1,5,9]": rs.rules.EpisodeGrid(dates=(1, 5, 9)),
}


@pytest.mark.parametrize(("text", "rule"), SAID.items())
def test_what_is_written_makes_an_equal_rule(text, rule):
    assert to_words(rule) == text
    assert make_schedule(*parse(text), TASK) == rule


@pytest.mark.parametrize("exploration", [rs.Bonus(1 / 3), rs.Bonus(), rs.Perturbation(0.1, 3)])
def test_what_is_written_makes_an_equal_exploration(exploration):
    assert make_exploration(*parse(to_words(exploration))) == exploration


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (rs.rules.Capped(rs.EveryEpisode(), 3), "capped,schedule=every-episode,switches=3"),
        (
            rs.rules.Worthwhile(rs.SpreadBudget(switches=9), price=2.5),
            "worthwhile,schedule=spread-budget/switches=9,price=2.5",
        ),
        (
            rs.rules.Capped(rs.rules.EpisodeGrid(dates=(1, 5, 9)), 2),
            "capped,schedule=episode-grid/dates=[1/5/9],switches=2",
        ),
    ],
)
def test_a_rule_around_another_has_slashes_inside(rule, text):
    assert to_words(rule) == text
    assert make_schedule(*parse(text), TASK) == rule


def test_a_rule_inside_may_be_asked_to_keep_a_budget():
    made = make_schedule(*parse("worthwhile,schedule=uniform-grid/switches=4,change=0.2"), TASK)
    assert made == rs.rules.Worthwhile(rs.UniformGrid(batches=5), change=0.2)


def test_a_rule_around_two_others_or_one_of_your_own_cannot_be_written_in_one_word():
    for inner in (
        rs.rules.Worthwhile(rs.SpreadBudget(switches=3)),
        Asked(rs.EveryEpisode()),
    ):
        with pytest.raises(ValueError, match="cannot be written in one word; use Python or"):
            to_words(rs.rules.Capped(inner, 3))


def test_truth_may_be_written_as_in_python_or_as_in_json():
    for text in ("bonus,estimate=True", "bonus,estimate=true"):
        assert make_exploration(*parse(text)) == rs.Bonus(estimate=True)


# Rules as plain values, for JSON.

NEVER = rs.rules.TotalGrowth.for_budget(rs.Task(dim=30, horizon=300, episodes=10**6), switches=1)
VALUES = [
    rs.EveryEpisode(),
    rs.UniformGrid(batches=4, spread="balanced"),
    rs.rules.EpisodeGrid(dates=(1, 2, 9, 14)),
    rs.rules.GeometricGrid(batches=6),
    MinimaxGrid(batches=6),
    rs.DeterminantGrowth(eta=2.5),
    rs.rules.TotalGrowth(eta=1.7),
    NEVER,
    rs.rules.AdaptiveBudget(switches=6),
    rs.SpreadBudget(switches=6),
    rs.rules.Capped(rs.DeterminantGrowth(eta=2.5), 3),
    rs.rules.Capped(rs.rules.Capped(rs.rules.EpisodeGrid(dates=(1, 3, 5, 8)), 9), 2),
    rs.rules.Capped(rs.rules.Capped(rs.rules.Capped(rs.rules.AdaptiveBudget(switches=6), 5), 4), 3),
    rs.Bonus(0.1),
    rs.Bonus(0.1, members=3, estimate=True),
    rs.Perturbation(0.3, draws=4),
    rs.Perturbation(0.3, draws=4, estimate=True),
    rs.Ensemble(),
    rs.Ensemble(members=7, scale=0.2, estimate=False),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values_survive_json_and_come_back_equal(value):
    text = json.dumps(describe(value), allow_nan=False)
    back = rebuild(json.loads(text))
    assert back == value
    assert type(back) is type(value)
    assert describe(back) == describe(value)


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
    starts = {"kind": "oracles:Starts", "starts": [3]}
    assert describe(Starts([3])) == starts
    assert describe(rs.rules.Capped(Starts([3]), 2))["schedule"] == starts
    told = describe(Own())
    assert told == describe(Own())
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["kind"].endswith(":Own")
    assert (told["limit"], told["weights"]) == ("inf", [[1.0, 2.0], [3.0, 4.0]])
    assert told["inner"] == told["names"][1] == starts
    assert told["day"] == "datetime.date(2020, 2, 3)"


class Bare:
    """A base with slots, one of which stays empty."""

    __slots__ = ("eta", "unset")


class Slotted(Bare):
    """A rule of one's own that is no dataclass, with attributes and slots."""

    def __init__(self, eta, wait):
        self.eta, self.wait = eta, wait

    def due(self, clock):
        return False


def always(clock):
    return True


class Calling:
    """A rule of one's own that calls a function."""

    def __init__(self, function):
        self.function = function

    def due(self, clock):
        return self.function(clock)


def test_the_attributes_of_ones_own_are_its_arguments():
    told = describe(Slotted(2.0, np.int64(3)))
    assert told == {"kind": f"{__name__}:Slotted", "eta": 2.0, "wait": 3}
    assert describe(Slotted(2.0, 3)) == told != describe(Slotted(2.0, 4))
    assert describe(Asked(Starts([3]))) != describe(Asked(Starts([4])))
    assert describe(Asked(rs.EveryEpisode()))["_rule"] == {"kind": "every-episode"}


def test_an_attribute_of_ones_own_does_not_take_the_place_of_its_class():
    rule = Calling(None)
    rule.kind = "every-episode"
    assert describe(rule)["kind"] == f"{__name__}:Calling"
    with pytest.raises(ValueError, match="must be a rule or an exploration"):
        rebuild(describe(rule))


def test_no_address_is_in_a_description():
    """An address differs in the next process, and so would the description."""
    for thing in (Calling(always), Calling(lambda clock: True), Calling(Starts([3]).due)):
        assert " at 0x" not in json.dumps(describe(thing))
    assert describe(Calling(always)) == describe(Calling(always))


def test_a_rule_that_holds_itself_can_be_described():
    rule = Slotted(2.0, 3)
    rule.me = rule
    assert describe(rule)["eta"] == 2.0


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (
            {"kind": "oracles:Starts"},
            "a rule or an exploration of the package; got 'oracles:Starts'",
        ),
        ({"kind": "yearly"}, "must be a rule or an exploration of the package; got 'yearly'"),
        ({"eta": 2.0}, "a rule must be described by its kind and arguments; got {'eta': 2.0}"),
        ({"kind": 3}, "a rule must be described by its kind"),
        ("every-episode", "a rule must be described by its kind"),
        (None, "a rule must be described by its kind"),
    ],
)
def test_what_describes_none_of_the_table_is_refused(plain, message):
    with pytest.raises(ValueError, match=message):
        rebuild(plain)


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (rs.Bonus(np.float32(0.5)), rs.Bonus(0.5)),
        (rs.Perturbation(np.int64(1), np.int64(3)), rs.Perturbation(1.0, 3)),
        (rs.Ensemble(np.int8(4), np.float32(0.5), np.False_), rs.Ensemble(4, 0.5, False)),
        (
            rs.rules.AdaptiveBudget(switches=np.int64(2)),
            rs.rules.AdaptiveBudget(switches=2),
        ),
        (rs.rules.Capped(rs.EveryEpisode(), np.int64(2)), rs.rules.Capped(rs.EveryEpisode(), 2)),
    ],
    ids=repr,
)
def test_numbers_of_numpy_are_stored_as_numbers(value, same):
    assert rebuild(json.loads(json.dumps(describe(value)))) == same


# Rules as Python code.


@dataclass(frozen=True)
class Patient:
    rule: Schedule
    wait: int = 10

    def due(self, clock):
        return False


class Hidden:
    def due(self, clock):
        return False


@pytest.mark.parametrize(
    "thing",
    [
        rs.EveryEpisode(),
        rs.rules.TotalGrowth(eta=2.0),
        rs.rules.Capped(rs.UniformGrid(batches=3), switches=1),
        rs.rules.Capped(MinimaxGrid(batches=3), switches=1),
        rs.rules.EpisodeGrid(dates=(1, 4)),
        Patient(rs.rules.Capped(Patient(rs.EveryEpisode(), wait=3), 2)),
        rs.Perturbation(0.5, draws=3),
        rs.SpreadBudget(switches=4),
        rs.rules.AdaptiveBudget(switches=4),
        rs.rules.GeometricGrid(batches=4),
        rs.Ensemble(members=7),
        rs.Bonus(),
    ],
    ids=repr,
)
def test_what_is_pasted_makes_the_thing_again(thing):
    scope = {}
    exec("\n".join(["import rareswitch as rs", *imports_of(thing)]), scope)
    assert eval(to_python(thing), scope) == thing


def test_only_what_rs_does_not_have_is_imported():
    assert imports_of(rs.rules.Capped(rs.EveryEpisode(), 3)) == set()
    assert to_python(rs.SpreadBudget(switches=4)) == "rs.SpreadBudget(switches=4)"
    capped = rs.rules.Capped(rs.UniformGrid(batches=3), 1)
    code = "rs.rules.Capped(schedule=rs.UniformGrid(batches=3), switches=1)"
    assert to_python(capped) == code
    assert imports_of(Hidden()) == {f"from {__name__} import Hidden"}


def test_arguments_that_are_not_known_are_left_to_be_filled_in():
    assert to_python(Hidden()) == "Hidden(…)"


class Wrapped:
    """A rule around another, with an argument of its own."""

    def __init__(self, schedule, extra=0):
        self.schedule, self.extra = schedule, extra

    def due(self, clock):
        return self.schedule.due(clock)


def test_a_rule_around_one_for_a_budget_keeps_its_own_arguments(monkeypatch):
    monkeypatch.setattr("rareswitch.rules.words.load_object", lambda name, **more: Wrapped)
    inner = {"kind": "uniform-grid", "switches": 4}
    made = make_schedule("mine:Wrapped", {"schedule": inner, "extra": 7}, TASK)
    assert (made.schedule, made.extra) == (rs.UniformGrid(batches=5), 7)
