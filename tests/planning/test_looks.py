"""A plan also tries its mixture with a look at every candidate, and takes it only if it saves."""

import json

import pytest

import rareswitch as rs
from rareswitch.campaigns import Protocol
from rareswitch.cli.plan_protocol import protocol_of_plan
from rareswitch.core.episode import NoOffersError
from rareswitch.rules import Worthwhile
from rareswitch.sim.outcome import Outcome

TASK = rs.Task(dim=2, horizon=3, episodes=100)


class Looks:
    """Mixtures lose 50, or `lost` if they look at candidates, and then make `made` deployments.

    Rules that may deploy less than ten times lose more.
    """

    def __init__(self, lost=50.0, made=4, error=None):
        self.lost, self.made, self.error, self.looked = lost, made, error, []

    def __call__(self, task, schedule, recipe, seeds):
        looks = isinstance(schedule, Worthwhile)
        if looks:
            self.looked.append(schedule)
            if self.error is not None:
                raise self.error
        limit = schedule.deployment_limit(task, 1.0)
        good = recipe.exploration.members > 1 and limit >= 10
        lost = self.lost if looks else 50.0 if good else 190.0
        lost = lost if callable(lost) else lambda r, level=lost: level
        made = self.made if looks else min(10, limit)
        made = made if callable(made) else lambda r, level=made: level
        return [Outcome(regret=lost(r), deployments=made(r) + 1, switches=0) for _, r in seeds]


def plan(simulator, **request):
    return rs.plan(TASK, simulator=simulator, rounds=6, **request or {"switches": 10})


def test_a_look_that_saves_deployments_at_equal_regret_is_recommended():
    simulator = Looks(lost=51.0)
    made = plan(simulator)
    rule = made.recommended.candidate.schedule
    assert simulator.looked == [rule]
    assert made.recommended is made.options[-1]
    name = made.recommended.name
    assert name.startswith("worthwhile ")
    assert name.endswith(" (mixture), at most 10")
    assert made.recommended.candidate.guaranteed
    chosen = "the rule inside was chosen because it has the least simulated regret, 0.5 [0.5, 0.5]"
    assert made.reason.startswith(chosen)
    assert made.reason.endswith("it makes 4 [4, 4] instead of 10, with 0.51 [0.51, 0.51].")
    assert f"{type(rule).__name__}(schedule=rs." in made.code
    assert "--schedule worthwhile,schedule=" in made.command
    plain = json.loads(json.dumps(made.to_dict()))
    assert plain["recommended"] == name
    assert plain["options"][-1]["deployments"]["mean"] == 4.0
    assert plain["options"][-1]["schedule"]["kind"] == "worthwhile"


@pytest.mark.parametrize("request_", [{"price": 5.0}, {"target": 0.6}])
def test_a_price_or_a_target_weighs_what_is_saved(request_):
    simulator = Looks(made=1)
    made = plan(simulator, **request_)
    assert isinstance(made.recommended.candidate.schedule, Worthwhile)
    if "price" in request_:
        assert made.recommended.prices[0] <= 5.0 <= made.recommended.prices[1]


@pytest.mark.parametrize(
    "other",
    [
        {"lost": 56.0},  # 12% more
        {"lost": lambda r: 40.0 if r % 2 else 64.0},  # perhaps more
        {"made": 10},
        {"made": lambda r: 4 if r % 2 else 16},
    ],
)
def test_a_look_that_may_lose_or_that_saves_nothing_is_no_option(other):
    simulator = Looks(**other)
    made = plan(simulator)
    assert len(simulator.looked) == 1
    assert not any(isinstance(o.candidate.schedule, Worthwhile) for o in made.options)
    assert "worthwhile" not in made.reason


def test_a_simulator_whose_episodes_do_not_tell_the_offers_is_no_error():
    refused = NoOffersError("episode must have first_features for a rule that looks at candidates")
    assert not isinstance(plan(Looks(error=refused)).recommended.candidate.schedule, Worthwhile)
    with pytest.raises(ValueError, match="another"):
        plan(Looks(error=ValueError("another")))


def test_nothing_is_tried_where_nothing_can_be_saved():
    for arguments in (
        {"randomise": False}, {"switches": 0}, {"recipe": rs.Recipe()},
    ):  # fmt: skip
        simulator = Looks()
        rs.plan(TASK, simulator=simulator, rounds=2, **{"switches": 10} | arguments)
        assert simulator.looked == []


def test_the_protocol_of_the_plan_has_the_rule_and_its_budget():
    made = plan(Looks())
    report = json.dumps(made.to_dict()).encode()
    protocol = protocol_of_plan(made, name="trial", budget=None, report=report)
    assert protocol.budget == 10
    assert protocol.schedule == made.recommended.candidate.schedule
    again = Protocol.from_toml(protocol.to_toml())
    assert again == protocol
    again.check_artifacts({"simulation": report})
