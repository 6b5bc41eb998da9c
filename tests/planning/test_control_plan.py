"""A plan with a control, a floor, a burn-in and rules that wait."""

import json

import pytest
from click.testing import CliRunner

import rareswitch as rs
from rareswitch.cli import main
from rareswitch.planning.paste import Paste
from rareswitch.sim.outcome import world_simulator

WORLD = rs.worlds.tabular(states=2, actions=2, horizon=2, seed=0)
TASK = WORLD.task(episodes=80)
CONTROL = rs.Control(1, share=0.25)


def made(**changes):
    given = {"switches": 3, "simulator": world_simulator(lambda seed: WORLD), "rounds": 2}
    return rs.plan(TASK, **given | changes)


def test_every_option_has_the_control_and_waits():
    found = made(control=CONTROL, floor=0.1, burn_in=True, first=20, apart=10)
    for option in found.options:
        assert (option.recipe.control, option.recipe.floor) == (CONTROL, 0.1)
        assert option.recipe.burn_in
        rule = option.candidate.schedule
        assert (rule.first, rule.apart) == (20, 10)
        assert option.bound is None  # the theorems are about learned policies alone
        assert option.by_role.keys() == {"learned", "control", "floor"}
        shares = [part["share"] for part in option.by_role.values()]
        assert sum(shares) == pytest.approx(1.0)
        total = sum(part["share"] * part["regret"] for part in option.by_role.values())
        assert total == pytest.approx(option.regret.mean)
    plain = found.to_dict()
    assert plain["control"] == {"plays": 1, "share": 0.25}
    assert (plain["floor"], plain["burn_in"]) == (0.1, True)
    namespace = {}
    exec(found.code, namespace)
    learner = namespace["learner"]
    assert learner.recipe.control == CONTROL
    assert learner.schedule == found.recommended.candidate.schedule


def test_a_plan_without_them_is_as_before():
    found = made()
    assert not {"control", "floor", "burn_in"} & found.to_dict().keys()
    assert all("by_role" not in option for option in found.to_dict()["options"])
    assert found.recommended.by_role is None


def test_a_recipe_excludes_them():
    with pytest.raises(TypeError, match="recipe excludes control, floor and burn_in"):
        made(recipe=rs.Recipe(), floor=0.1)
    with pytest.raises(ValueError, match="first must be below the 80 episodes"):
        made(first=80)


def test_without_a_simulator_the_spread_budget_waits():
    found = rs.plan(TASK, switches=3, first=20, control=CONTROL)
    assert found.recommended.candidate.schedule == rs.rules.Waiting(
        rs.SpreadBudget(switches=3), first=20
    )


def test_the_command_that_plays_it():
    recipe = rs.Recipe(control=CONTROL, floor=0.1, burn_in=True)
    paste = Paste(schedule=rs.rules.Waiting(rs.SpreadBudget(switches=3), first=9), recipe=recipe)
    assert paste.options() == [
        "--schedule", "spread-budget,switches=3,first=9", "--exploration", "ensemble",
        "--control", "1,share=0.25", "--floor", "0.1", "--burn-in",
    ]  # fmt: skip
    usual = rs.Recipe(control=rs.Control(rs.Policy(weights=[[1.0]]), share=0.2))
    assert Paste(schedule=rs.EveryEpisode(), recipe=usual).options() is None


def test_learn_prints_the_regret_of_each_role(tmp_path):
    command = ["learn", "--instance", "tabular", "--states", "2", "--actions", "2"]
    command += ["--horizon", "2", "--episodes", "80", "--out", str(tmp_path / "out.npz")]
    control = [*command, "--control", "1,share=0.25", "--floor", "0.1", "--json"]
    told = json.loads(CliRunner().invoke(main, control).stdout)
    assert told["by_role"].keys() == {"learned", "control", "floor"}
    total = sum(part["episodes"] * part["average_regret"] for part in told["by_role"].values())
    assert total == pytest.approx(told["total_regret"])
    for wrong, match in (
        (["--control", "1"], "a control needs a share"),
        (["--control", "nofile,share=0.1"], "--control nofile,share=0.1"),
        (["--control", "0,share=2"], "share must be"),
        (["--floor", "2"], "floor must be"),
    ):
        found = CliRunner().invoke(main, [*command[:-1], str(tmp_path / "new.npz"), *wrong])
        assert found.exit_code == 2
        assert match in found.output


def test_learn_takes_a_policy_as_control(tmp_path):
    usual = rs.Policy(weights=[[1.0, 0.0, 0.0, 0.0]] * 2)
    (tmp_path / "usual.policy").write_bytes(usual.to_bytes())
    command = ["learn", "--instance", "tabular", "--states", "2", "--actions", "2"]
    command += ["--horizon", "2", "--episodes", "40", "--out", str(tmp_path / "out.npz"), "--json"]
    control = ["--control", f"{tmp_path / 'usual.policy'},share=0.5"]
    found = CliRunner().invoke(main, [*command, *control])
    assert found.exit_code == 0, found.output
    assert "control" in json.loads(found.stdout)["by_role"]
