import sys

import pytest

import rareswitch as rs
from oracles import Asked, Starts
from rareswitch.core.grids import MinimaxGrid
from rareswitch.core.rules import EXPLORATIONS, RULES
from rareswitch.named import complete, find, make_exploration, make_schedule, parse, written

TASK = rs.Task(dim=3, horizon=2, episodes=100, feature_norm=2.0)


@pytest.mark.parametrize("table", [RULES, EXPLORATIONS], ids=["rules", "explorations"])
def test_every_name_of_the_table_finds_its_class(table):
    for row in table:
        assert find(row.name, table) is row.kind


def test_ones_own_is_found_in_a_module(tmp_path, monkeypatch):
    assert find("oracles:Starts") is Starts
    (tmp_path / "my_rules_here.py").write_text("class Mine:\n    def due(self, clock): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert find("my_rules_here:Mine").__name__ == "Mine"


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("yearly", ValueError, "kind must be one of every-episode, .*, or module:Class; got 'year"),
        ("bonus", ValueError, "kind must be one of every-episode"),
        ("nowhere:Mine", ValueError, "kind 'nowhere:Mine' cannot be imported .*nowhere"),
        ("oracles:Mine", ValueError, "kind 'oracles:Mine' cannot be imported .*Mine"),
        (":Mine", ValueError, "kind ':Mine' cannot be imported"),
        (".oracles:Mine", ValueError, "kind '.oracles:Mine' cannot be imported"),
        ("oracles:walk", ValueError, "kind 'oracles:walk' must be a class; it is <function"),
        (3, TypeError, "kind must be a name; got 3"),
        (None, TypeError, "kind must be a name; got None"),
    ],
)
def test_what_is_nowhere_is_said(name, error, message):
    with pytest.raises(error, match=message):
        find(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every-episode", ("every-episode", {})),
        ("uniform-grid,batches=50", ("uniform-grid", {"batches": 50})),
        ("uniform-grid,batches=5,spread=last", ("uniform-grid", {"batches": 5, "spread": "last"})),
        ('uniform-grid,spread="last"', ("uniform-grid", {"spread": "last"})),
        ("determinant-growth,eta=2.5", ("determinant-growth", {"eta": 2.5})),
        ("episode-grid,starts=[1,5,9]", ("episode-grid", {"starts": [1, 5, 9]})),
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


def test_arguments_are_completed_by_their_defaults_and_by_nothing_the_task_settles():
    assert complete("every-episode", {}) == {}
    assert complete("uniform-grid", {"batches": 5}) == {"batches": 5, "spread": "last"}
    assert complete("uniform-grid", {"switches": 5}) == {"switches": 5}
    assert complete("adaptive-budget", {"switches": 5}) == {"switches": 5}
    perturbed = {"sigma": 0.1, "draws": 10, "estimate": False}
    assert complete("perturbation", {"sigma": 0.1}, EXPLORATIONS) == perturbed
    assert complete("bonus", {}, EXPLORATIONS) == {"beta": 1.0, "members": 1, "estimate": False}
    mixture = {"members": 8, "scale": 0.5, "estimate": True}
    assert complete("ensemble", {"members": 8}, EXPLORATIONS) == mixture


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("uniform-grid", {"eta": 2}, "uniform-grid has no argument 'eta'; it takes .*switches"),
        ("every-episode", {"eta": 2}, "every-episode has no argument 'eta'"),
        ("uniform-grid", {}, "uniform-grid needs batches or switches"),
        ("capped", {"switches": 3}, "capped needs schedule"),
        ("minimax-grid", {"switches": 3}, "minimax-grid has no argument 'switches'"),
        (
            "uniform-grid",
            {"switches": 3, "batches": 4},
            "uniform-grid with switches settles batches itself; give one of them",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_said(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        complete(kind, arguments)


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        ("every-episode", {}, rs.EveryEpisode()),
        ("uniform-grid", {"batches": 4}, rs.UniformGrid(episodes=100, batches=4)),
        ("uniform-grid", {"batches": 4, "episodes": 50}, rs.UniformGrid(episodes=50, batches=4)),
        ("minimax-grid", {"batches": 4}, MinimaxGrid(episodes=100, batches=4)),
        ("determinant-growth", {"eta": 3}, rs.DeterminantGrowth(eta=3.0)),
        ("total-growth", {"eta": 3}, rs.TotalGrowth(3.0)),
        ("episode-grid", {"starts": [1, 5]}, rs.EpisodeGrid(starts=(1, 5))),
        (
            "adaptive-budget",
            {"switches": 4},
            rs.AdaptiveBudget(switches=4, episodes=100, dim=3, feature_norm=2.0),
        ),
        (
            "capped",
            {"switches": 2, "schedule": {"kind": "uniform-grid", "switches": 4}},
            rs.Capped(rs.UniformGrid(episodes=100, batches=5), 2),
        ),
    ],
)
def test_the_task_settles_what_is_not_said(kind, arguments, expected):
    assert make_schedule(kind, arguments, TASK) == expected


@pytest.mark.parametrize("row", RULES, ids=lambda row: row.name)
def test_any_rule_that_can_keep_a_budget_is_asked_for_it(row):
    if not hasattr(row.kind, "for_budget"):
        return
    expected = row.kind.for_budget(TASK, switches=99, ridge=0.5)
    assert make_schedule(row.name, {"switches": 99}, TASK, ridge=0.5) == expected


def test_ones_own_rule_takes_its_arguments_and_what_the_task_settles():
    own = make_schedule("oracles:Starts", {"starts": [3, 4]}, TASK)
    assert isinstance(own, Starts)
    assert own.starts == (3, 4)
    with pytest.raises(ValueError, match="oracles:Starts needs starts"):
        make_schedule("oracles:Starts", {}, TASK)
    with pytest.raises(TypeError, match="schedule must have a method due"):
        make_schedule("fractions:Fraction", {}, TASK)


def test_explorations_are_made_by_name():
    assert make_exploration("bonus", {"beta": 2}) == rs.Bonus(2.0)
    assert make_exploration("perturbation", {"sigma": 1, "draws": 3}) == rs.Perturbation(1.0, 3)
    with pytest.raises(ValueError, match="kind must be one of bonus, perturbation"):
        make_exploration("every-episode", {})


SAID = {
    "every-episode": rs.EveryEpisode(),
    "uniform-grid,batches=5": rs.UniformGrid(episodes=100, batches=5),
    'uniform-grid,batches=5,spread="balanced"': rs.UniformGrid(
        episodes=100, batches=5, spread="balanced"
    ),
    "determinant-growth,eta=2.5": rs.DeterminantGrowth(eta=2.5),
    "total-growth,log_eta=0.1": rs.TotalGrowth(log_eta=0.1),
    "adaptive-budget,switches=4": rs.AdaptiveBudget.for_budget(TASK, switches=4),
    "geometric-grid,batches=4": rs.GeometricGrid(episodes=100, batches=4),
    "episode-grid,starts=[1,5,9]": rs.EpisodeGrid(starts=(1, 5, 9)),
}


@pytest.mark.parametrize(("text", "rule"), SAID.items())
def test_what_is_written_makes_an_equal_rule(text, rule):
    assert written(rule) == text
    assert make_schedule(*parse(text), TASK) == rule


@pytest.mark.parametrize("exploration", [rs.Bonus(1 / 3), rs.Bonus(), rs.Perturbation(0.1, 3)])
def test_what_is_written_makes_an_equal_exploration(exploration):
    assert make_exploration(*parse(written(exploration))) == exploration


def test_a_rule_around_another_cannot_be_written_in_one_word():
    for rule in (rs.Capped(rs.EveryEpisode(), 3), rs.Capped(Asked(rs.EveryEpisode()), 3)):
        with pytest.raises(ValueError, match="capped cannot be written in one word; use Python or"):
            written(rule)


def test_truth_may_be_written_as_in_python_or_as_in_json():
    for text in ("bonus,estimate=True", "bonus,estimate=true"):
        assert make_exploration(*parse(text)) == rs.Bonus(estimate=True)
