"""Where a simulator does not know regret, every word of a plan says so."""

import json

import pytest

import rareswitch as rs
from rareswitch.planning.picture import draw_plan
from rareswitch.sim.outcome import Outcome

TASK = rs.Task(episodes=40, horizon=3, dim=2)


def outcome(exploration, seed, *, measure="shortfall", returns=True):
    missing = 2.0 + abs(getattr(exploration, "beta", 1.0) - 1.0) + seed[1]
    return Outcome(
        regret=missing,
        measure=measure,
        deployments=3,
        switches=2,
        returns=[3.0 - missing / 40] * 40 if returns else None,
    )


def missing(task, schedule, recipe, seeds):
    return [outcome(recipe.exploration, seed) for seed in seeds]


def without_returns(task, schedule, recipe, seeds):
    return [outcome(recipe.exploration, seed, returns=False) for seed in seeds]


def in_part(task, schedule, recipe, seeds):
    return [outcome(recipe.exploration, seed, returns=seed[1] > 0) for seed in seeds]


def known(task, schedule, recipe, seeds):
    return [outcome(recipe.exploration, seed, measure="regret") for seed in seeds]


def planned(simulator=missing, **changes):
    return rs.plan(TASK, simulator=simulator, rounds=3, **{"switches": 5} | changes)


@pytest.mark.parametrize("request_", [{"switches": 5}, {"switches": None, "price": 0.1}])
def test_the_reason_names_what_was_measured(request_):
    assert "simulated shortfall" in planned(**request_).reason
    assert "regret" not in planned(**request_).reason
    assert "simulated regret" in planned(known, **request_).reason


def test_the_mean_return_is_that_of_the_rounds_with_its_interval():
    made = planned(recipe=rs.Recipe.paper(1.0))
    for option in made.options:
        assert option.mean_return.mean == pytest.approx(3.0 - 3.0 / 40)
        assert option.mean_return.low < option.mean_return.mean < option.mean_return.high
        assert option.regret.mean == pytest.approx(3.0 / 40)


@pytest.mark.parametrize("simulator", [without_returns, in_part])
def test_a_mean_return_is_told_only_if_all_rounds_tell_theirs(simulator):
    assert all(option.mean_return is None for option in planned(simulator).options)


def test_the_json_says_it_in_words_and_has_no_number_under_a_wrong_name():
    data = json.loads(json.dumps(planned().to_dict()))
    assert data["measure"] == "shortfall"
    assert data["measure_is"].startswith("the largest possible return minus the return")
    for option in data["options"]:
        assert option["regret"] is None
        assert option["shortfall"]["mean"] > 0.0
        assert option["mean_return"]["mean"] < 3.0
    assert "regret" not in data["beta_sweep"]
    assert [one["mean"] > 0.0 for one in data["beta_sweep"]["shortfall"]] == [True] * 6


def test_where_regret_is_known_the_json_says_that():
    data = planned(known).to_dict()
    assert data["measure"] == "regret"
    assert all(option["shortfall"] is None for option in data["options"])
    assert all(option["regret"]["mean"] > 0.0 for option in data["options"])
    assert "shortfall" not in data["beta_sweep"]


def test_without_a_simulator_nothing_was_measured():
    data = rs.plan(TASK, switches=5).to_dict()
    assert data["measure"] == "regret"
    assert all(option["regret"] is option["shortfall"] is None for option in data["options"])


@pytest.mark.parametrize(("simulator", "word"), [(missing, "shortfall"), (known, "regret")])
def test_the_picture_is_labelled_by_what_was_measured(simulator, word):
    figure = draw_plan(planned(simulator))
    assert {axis.get_ylabel() for axis in figure.axes} == {f"average {word} per episode"}
    assert figure.get_suptitle() == f"{word.capitalize()} against deployments, K = 40"


def by_round(task, schedule, recipe, seeds):
    return [
        *missing(task, schedule, recipe, seeds[:-1]),
        *known(task, schedule, recipe, seeds[-1:]),
    ]


class ByCall:
    def __init__(self):
        self.calls = 0

    def __call__(self, task, schedule, recipe, seeds):
        self.calls += 1
        return (missing if self.calls == 1 else known)(task, schedule, recipe, seeds)


@pytest.mark.parametrize("simulator", [by_round, ByCall()])
def test_what_cannot_be_compared_is_refused(simulator):
    with pytest.raises(ValueError, match="same measure in every round; got shortfall and regret"):
        planned(simulator)
