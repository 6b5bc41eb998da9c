"""`rareswitch plan --env`: an environment stands behind the plan."""

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

import rareswitch as rs
from cli.terminal import call, output_of_all, refused, started, wait_until
from rareswitch.gym.simulator import world_simulator

LAKE = ("plan", "--env", "FrozenLake-v1", "--episodes", 30, "--horizon", 5, "--rounds", 2)
FEW = (*LAKE, "--switches", 3, "--beta", 1, "--workers", 1)
OWN = """
from small_worlds import Broken, Door


class Loud(Door):
    def step(self, action):
        return 0, 7.0, True, False, {}


def eye(state):
    return [[1.0, 0.0], [0.0, 1.0]]
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # the folder is put there
    return tmp_path


@pytest.fixture
def own(here):
    """Return the name of a module in this folder with environments and features."""
    name = "environments_of_my_own"
    (here / f"{name}.py").write_text(OWN)
    yield name
    sys.modules.pop(name, None)


def doors(own, cls="Door"):
    return (
        "plan", "--env", f"{own}:{cls}", "--episodes", 20, "--horizon", 1, "--switches", 3,
        "--beta", 1, "--rounds", 2, "--workers", 1,
    )  # fmt: skip


def planned(*options):
    """Return the JSON of a plan."""
    result = call(*options, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


@pytest.mark.parametrize("ridge", [1.0, 20.0])
def test_the_json_is_the_plan_on_the_simulator_of_the_environment(ridge):
    data = planned(*FEW, "--seed", 4, "--ridge", ridge)

    def made(played_with):
        simulator = world_simulator("FrozenLake-v1", episodes=30, horizon=5)
        recipe = rs.Recipe.paper(beta=1.0, ridge=played_with)
        asked = {"switches": 3, "recipe": recipe, "rounds": 2, "seed": 4}
        return rs.plan(simulator.task, simulator=simulator, **asked).to_dict()

    whole = made(ridge)
    for name in whole.keys() - {"code", "command"}:
        assert data[name] == whole[name]
    assert data["options"] != made(3.0)["options"]
    assert data["measure"] == "regret"
    assert data["picked"]["features"] == "one-hot of 16 states × 4 actions"
    assert data["picked"]["rewards"] == [0.0, 1.0]


def test_the_table_says_regret_and_the_mean_return_and_what_was_picked():
    text = call(*FEW).stdout
    assert "avg regret [95%]" in text
    assert "avg return [95%]" in text
    assert "shortfall" not in text
    assert "one-hot of 16 states × 4 actions, by the observation space" in text
    assert "least simulated regret" in text


def test_where_regret_is_not_known_everything_says_shortfall(own, here):
    options = (*doors(own), "--rewards", 0, 2, "--out", "plan")
    text = call(*options).stdout
    table = text.partition("Take ")[0]
    assert "avg shortfall [95%]" in table
    assert "avg regret" not in text
    assert "Shortfall is the largest possible return minus the return" in table
    assert "least simulated shortfall" in text
    data = json.loads(Path("plan/plan.json").read_text())
    assert data["measure"] == "shortfall"
    assert "regret is not known" in data["measure_is"]
    for option in data["options"]:
        assert option["regret"] is None
        total = option["shortfall"]["mean"] + option["mean_return"]["mean"]
        assert total == pytest.approx(2.0)  # the largest return of an episode
    assert "average shortfall per episode" in Path("plan/figure.svg").read_text()


def test_the_sweep_is_named_after_what_was_measured(own):
    options = ["plan", "--env", f"{own}:Door", "--episodes", 12, "--horizon", 1, "--switches", 1,
               "--no-randomise", "--rounds", 2, "--workers", 1, "--rewards", 0, 2]  # fmt: skip
    data = planned(*options)
    assert len(data["beta_sweep"]["shortfall"]) == len(data["beta_sweep"]["betas"])
    assert "regret" not in data["beta_sweep"]
    text = call(*options).stdout
    assert "β        avg shortfall [95%]" in text
    assert "multiplies shortfall by" in text


def test_workers_change_nothing():
    assert planned(*FEW) == planned(*LAKE, "--switches", 3, "--beta", 1, "--workers", 2)


def test_the_command_trains_with_the_recommended_rule():
    options = ("--env-arg", "is_slippery=false", "--rewards", -1, 1, "--stages", "own")
    data = planned(*FEW, *options)
    words = shlex.split(data["command"])
    assert words[:3] == ["rareswitch", "train", "FrozenLake-v1"]
    for option in ("--env-arg is_slippery=false", "--rewards -1.0 1.0", "--stages own",
                   "--horizon 5", "--episodes 30", "--beta 1.0"):  # fmt: skip
        assert option in data["command"]
    ran = call(*words[1:], "--json", "--evaluate", 0)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["switches"] <= 3


def test_without_a_way_to_say_it_there_is_no_command():
    assert planned(*FEW, "--ridge", 0.5)["command"] is None
    shown = call(*FEW, "--ridge", 0.5).stdout
    assert "rareswitch train" not in shown
    assert "rs.Recipe.paper(beta=1.0, ridge=0.5)," in shown


def test_the_code_learns_as_it_is_printed(capsys):
    code = planned(*FEW, "--env-arg", "is_slippery=false", "--rewards", -1, 1)["code"]
    exec(compile(code, "pasted", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 30
    assert lines[-1].startswith("Played(episode 30, version")
    text = call(*FEW, "--env-arg", "is_slippery=false", "--rewards", -1, 1).stdout
    assert code in text
    assert "world = made(\"FrozenLake-v1\", {'is_slippery': False})\n" in code


def test_features_of_your_own_may_be_named(own):
    data = planned(*doors(own), "--rewards", 0, 2, "--features", f"{own}:eye")
    assert data["task"]["dim"] == 2
    assert f"world = made(\"{own}:Door\", allow=('{own}',))\n" in data["code"]
    setting = next(line for line in data["code"].splitlines() if "setting_of(world" in line)
    assert f"features='{own}:eye'" in setting
    assert setting.endswith(f", allow=('{own}',))")
    exec(compile(data["code"], "pasted", "exec"), {})


def test_a_feature_norm_may_be_declared():
    assert planned(*FEW, "--feature-norm", 2)["task"]["feature_norm"] == 2.0


def test_a_world_that_breaks_its_word_is_told_in_one_line(own):
    result = call(*doors(own, "Loud"), "--rewards", 0, 2)
    assert result.exit_code == 1
    assert "reward must be from 0 to 2; got 7.0: give --rewards LOW HIGH" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_worlds_own_code_is_shown_where_it_was_raised(own, workers):
    result = call(*doors(own, "Broken")[:-1], workers, "--rewards", 0, 2)
    assert result.exit_code == 1
    assert "stuck and locked" in result.stderr
    assert "small_worlds.py" in result.stderr
    assert "raised by the simulator" in result.stderr


BARE = ("plan", "--episodes", 30, "--horizon", 3, "--dim", 2, "--switches", 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*BARE, "--features", "linear"), "--features needs --env"),
        ((*BARE, "--env-arg", "a=1"), "--env-arg needs --env"),
        ((*BARE, "--workers", 2), "--workers needs --env or --scenarios"),
        ((*BARE, "--rewards", 0, 1), "--rewards needs --env"),
        ((*BARE, "--stages", "own"), "--stages needs --env"),
        ((*FEW, "--instance", "hard"), "--env and --instance exclude each other"),
        ((*FEW, "--simulator", "a:b"), "--env and --simulator exclude each other"),
        ((*FEW, "--dim", 3), "--env and --dim exclude each other"),
        ((*FEW, "--features", "nothing"), "features must be one of default, one-hot"),
        ((*FEW, "--env-arg", "slippery"), "--env-arg must be NAME=VALUE"),
        ((*FEW[:1], "--env", "Nowhere-v3", *FEW[3:]), "Nowhere"),
        ((*FEW[:1], "--env", "no_module:World", *FEW[3:]), "no_module"),
    ],
)
def test_what_cannot_be_planned_for_an_environment_names_the_option(options, message):
    assert message in refused(*options)


def test_ctrl_c_leaves_no_process_behind(here):
    options = (*LAKE[:3], "--episodes", 3000, "--switches", 200, "--workers", 2, "--out", "plan")
    with started(*options, cwd=here) as process:
        wait_until((here / "plan").is_dir, process)
        wait_until(lambda: children(process.pid), process)
        os.killpg(process.pid, signal.SIGINT)
        out, err = output_of_all(process)
    assert process.returncode == 130
    assert out == ""
    assert "interrupted: no plan is kept" in err
    assert "Traceback" not in err


def children(pid):
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return tasks.exists() and len(tasks.read_text().split()) >= 2
