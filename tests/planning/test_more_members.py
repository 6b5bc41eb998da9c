"""A plan for a long horizon also tries more members, and takes them only if they pay."""

import re

import pytest

import rareswitch as rs
from rareswitch.sim.outcome import Outcome

LONG = {"dim": 3, "horizon": 12, "episodes": 2000}


class ByMembers:
    """Regret that depends on the members and the round; single policies lose most."""

    def __init__(self, regret, deployments=10):
        self.regret, self.deployments, self.played = regret, deployments, []

    def __call__(self, task, schedule, recipe, seeds):
        members = recipe.exploration.members
        self.played.append(members)
        lost = self.regret.get(members, 500.0)
        lost = lost if callable(lost) else lambda r, level=lost: level
        return [Outcome(regret=lost(r), deployments=self.deployments, switches=1) for _, r in seeds]


def plan(simulator=None, request=None, **changes):
    return rs.plan(
        rs.Task(**LONG | changes), simulator=simulator, rounds=6, **request or {"switches": 9}
    )


@pytest.mark.parametrize("request_", [{"switches": 9}, {"price": 1.0}, {"target": 0.2}])
def test_members_that_pay_become_the_recommended_option(request_):
    simulator = ByMembers({32: 100.0, 128: 70.0})
    made = plan(simulator, request_)
    assert made.exploration == rs.Ensemble(members=128)
    assert made.recommended is made.options[-1]
    assert "(mixture of 128), at most" in made.recommended.name
    assert [o.exploration.members for o in made.options].count(128) == 1
    looked = made.recommended.candidate.deployment_limit > 0  # once more with looks at candidates
    assert simulator.played.count(128) == 1 + looked
    assert made.exploration_source == "no tuning"
    assert "exploration=rs.Ensemble(members=128)" in made.code
    if "price" in request_:
        assert made.recommended.prices is not None


@pytest.mark.parametrize("level", [100.0, 130.0, lambda r: 60.0 if r % 2 else 138.0])
def test_members_that_do_not_pay_measurably_are_named_and_not_taken(level):
    made = plan(ByMembers({32: 100.0, 128: level}))
    assert made.exploration == rs.Ensemble()
    assert {o.exploration.members for o in made.options} == {1, 32}
    said = r"\. [a-z-]+ \(mixture of 128\) has [^ ]+ \[[^ ]+, [^ ]+\], not measurably less\.$"
    assert re.search(said, made.reason)


@pytest.mark.parametrize(
    ("changes", "deployments", "members"),
    [
        ({}, 10, 128),
        ({}, 20, 100),  # 2000 episodes in 20 batches
        ({}, 32, None),  # 62 episodes are less than twice the default
        ({"horizon": 7}, 10, 64),
        ({"horizon": 6}, 10, None),
        ({"horizon": 400}, 10, 128),
    ],
)
def test_the_members_tried_grow_with_the_horizon_up_to_the_episodes_of_a_batch(
    changes, deployments, members
):
    simulator = ByMembers({32: 100.0}, deployments)
    plan(simulator, **changes)
    assert {m for m in simulator.played if m > 32} == ({members} if members else set())


def test_a_given_exploration_and_a_single_policy_are_left_as_they_are():
    simulator = ByMembers({32: 100.0})
    given = rs.Recipe(exploration=rs.Ensemble())
    rs.plan(rs.Task(**LONG), switches=9, recipe=given, simulator=simulator, rounds=2)
    assert set(simulator.played) == {32}
    simulator = ByMembers({1: 1.0})
    assert plan(simulator).exploration.members == 1
    assert set(simulator.played) == {1, 32}


def test_without_a_simulator_the_reason_names_the_members_to_try():
    assert plan().reason.endswith("would estimate it, and show whether 128 members are better.")
    assert plan().exploration == rs.Ensemble()
    assert plan(horizon=6).reason.endswith("a simulator would estimate it.")
