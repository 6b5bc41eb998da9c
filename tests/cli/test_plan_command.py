import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import rareswitch as rs
from cli.terminal import call, refused
from oracles import ragged_episode
from rareswitch.cli.plan import plan as command
from rareswitch.sim.outcome import world_simulator
from rareswitch.statistics.partitions import LogPartition, save_partition

STUDY = Path(__file__).parent.parent.parent / "examples" / "study"
BARE = ("plan", "--episodes", 100, "--horizon", 3)
SIZES = (*BARE, "--dim", 2)
TASK = rs.Task(episodes=100, horizon=3, dim=2)
SMALL = ("plan", "--episodes", 40, "--instance", "hard", "--dim", 5, "--horizon", 3, "--rounds", 2)
FREE = ("plan", "--episodes", 40, "--horizon", 3, "--rounds", 2)
OWN = """
from dataclasses import dataclass

from rareswitch.sim.outcome import Outcome


def play(task, schedule, recipe, seeds):
    regret = 5.0 + abs(recipe.exploration.beta - 3)
    if isinstance(schedule, EveryMonday):
        regret /= 2
    return [Outcome(regret=regret, deployments=4, switches=2) for _ in seeds]


def without_loss(task, schedule, recipe, seeds):
    regret = 0.0 if recipe.exploration.beta == 1 else 5.0
    return [Outcome(regret=regret, deployments=9, switches=2) for _ in seeds]


def short(task, schedule, recipe, seeds):
    return []


def broken(task, schedule, recipe, seeds):
    return int("a number")


@dataclass(frozen=True)
class EveryMonday:
    day: int = 0

    def due(self, clock):
        return clock.episode % 7 == self.day

    def deployment_limit(self, task, ridge):
        return task.episodes // 7 + 1


class Faulty:
    def due(self, clock):
        raise ValueError("out of order")
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # the folder is put there
    return tmp_path


@pytest.fixture
def own(here):
    """Return the name of a module in this folder with simulators and rules."""
    name = "things_of_my_own"
    (here / f"{name}.py").write_text(OWN)
    yield name
    sys.modules.pop(name, None)


def planned(*options):
    """Return the JSON of a plan."""
    result = call(*options, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(result.stdout, parse_constant=refuse)


def test_a_dimension_is_enough_for_what_is_guaranteed(here):
    result = call(*SIZES, "--switches", 20)
    assert result.exit_code == 0
    made = rs.plan(TASK, switches=20)
    for option in made.options:
        assert option.name in result.stdout
    assert "vacuous" in result.stdout
    assert "avg regret" not in result.stdout
    assert "count deployments after the first" in result.stdout
    assert f"Take {made.recommended.name}: {made.reason}" in result.stdout
    assert result.stdout.rstrip().endswith(made.code)
    assert result.stderr == ""
    assert list(here.iterdir()) == []


def test_the_json_is_the_plan():
    data = planned(*SIZES, "--switches", 20, "--feature-norm", 2, "--ridge", 0.5, "--beta", 0.3)
    task = rs.Task(episodes=100, horizon=3, dim=2, feature_norm=2.0)
    assert data == rs.plan(task, switches=20, recipe=rs.Recipe.paper(0.3, ridge=0.5)).to_dict()


@pytest.mark.parametrize("request_", [("--switches", 7), ("--price", 0.5), ("--target", 5)])
def test_an_instance_is_simulated(request_):
    data = planned(*SMALL, *request_, "--beta", 1, "--seed", 3)

    def world(seed):
        return rs.worlds.hard_to_learn(d=5, horizon=3, seed=seed)

    made = rs.plan(
        world(3).task(episodes=40),
        recipe=rs.Recipe.paper(beta=1.0),
        rounds=2,
        seed=3,
        simulator=world_simulator(world),
        **{request_[0].removeprefix("--"): request_[1]},
    )
    world_options = " --instance hard --dim 5 --horizon 3"
    assert data == made.to_dict() | {"command": made.command + world_options}
    assert data["task"]["feature_norm"] == pytest.approx(world(3).feature_norm)


def test_what_is_recommended_runs_as_printed():
    shown = call(*SMALL, "--switches", 7, "--beta", 1).stdout
    line = next(line for line in shown.splitlines() if line.startswith("rareswitch learn "))
    assert line == planned(*SMALL, "--switches", 7, "--beta", 1)["command"]
    ran = call(*shlex.split(line)[1:], "--json")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["deployments"] <= 8


@pytest.mark.parametrize("how", [(), ("--exploration", "ensemble,members=4,scale=1")])
def test_a_mixture_that_is_recommended_runs_as_printed_and_is_the_one_that_was_planned(how):
    options = (*SMALL, "--switches", 7, *how)
    shown, data = call(*options).stdout, planned(*options)
    assert f" (mixture{' of 4' if how else ''}), at most 7" in data["recommended"]
    line = next(line for line in shown.splitlines() if line.startswith("rareswitch learn "))
    assert line == data["command"]
    ran = call(*shlex.split(line)[1:], "--seed", 5, "--json")
    assert ran.exit_code == 0, ran.output
    scope = {}
    exec(data["code"], scope)
    learner, world = scope["learner"], rs.worlds.hard_to_learn(d=5, horizon=3, seed=5)
    run = rs.simulate(world, learner.schedule, learner.recipe, episodes=40, seed=5)
    played = json.loads(ran.stdout)
    assert played["members"] == learner.policy.members > 1
    assert played["policy_digest"] == run.policy.digest


def test_without_beta_it_is_swept_and_shown():
    options = (*SMALL, "--switches", 7, "--no-randomise")
    result = call(*options)
    assert result.exit_code == 0
    assert "← chosen" in result.stdout
    assert "A third of it multiplies regret by" in result.stdout
    assert "(estimates), at most 7 " in result.stdout
    assert result.stderr.startswith("18 simulations of 2 rounds each\n")
    data = planned(*options)
    chosen = [option["exploration"]["beta"] for option in data["options"]]
    assert chosen == [data["beta_sweep"]["chosen"]] * 6 + [1.0] * 6
    assert len(data["beta_sweep"]["betas"]) >= 6


def test_mixtures_are_judged_beside_single_policies():
    options = (*SMALL, "--switches", 7)
    result = call(*options)
    assert result.exit_code == 0
    assert result.stderr.startswith("24 simulations of 2 rounds each\n")
    assert result.stderr.endswith("note: intervals of fewer than 20 rounds are too narrow\n")
    rows = [line for line in result.stdout.splitlines() if ", at most 7 " in line]
    assert len(rows) == 18
    for row in rows:
        words = row.split("  ")
        if "(mixture)" in words[0] or "(estimates)" in words[0]:
            assert next(filter(None, words[1:])).strip() == "none"
    assert "← chosen" in result.stdout
    assert "Ensemble(members=32, scale=0.5, estimate=True) (no tuning)" in result.stdout
    assert "With the same budget the best single policy, " in result.stdout
    data = planned(*options)
    assert data["exploration"] == {
        "kind": "ensemble", "members": 32, "scale": 0.5, "estimate": True,
    }  # fmt: skip
    kinds = [option["exploration"]["kind"] for option in data["options"]]
    assert kinds == ["bonus"] * 12 + ["ensemble"] * 6


@pytest.mark.parametrize("request_", [("--switches", 20), ("--price", 2)])
def test_where_randomising_is_not_allowed_no_mixture_is_shown(request_):
    result = call(*SIZES, *request_, "--no-randomise")
    assert result.exit_code == 0
    assert "mixture" not in result.stdout
    data = planned(*SIZES, *request_, "--no-randomise")
    given = {request_[0].removeprefix("--"): request_[1]}
    assert data == rs.plan(TASK, **given, randomise=False).to_dict()
    assert all(option["exploration"]["kind"] == "bonus" for option in data["options"])
    assert planned(*SIZES, *request_, "--randomise") == planned(*SIZES, *request_)


def test_another_exploration_is_not_swept():
    options = (*SMALL, "--switches", 7, "--exploration", "perturbation,scale=0.2,draws=4")
    data = planned(*options)
    assert data["exploration"] == {
        "kind": "perturbation", "scale": 0.2, "draws": 4, "estimate": False,
    }  # fmt: skip
    assert data["beta_sweep"] is None
    assert "Perturbation(scale=0.2, draws=4, estimate=False) (given)" in call(*options).stdout


def test_prices_have_a_column():
    result = call(*SMALL, "--price", 1, "--beta", 1)
    assert "best for prices" in result.stdout
    assert " to inf" in result.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--instance", "misspecified", "--dim", 5, "--zeta", 0.2),
        ("--instance", "lower-bound", "--states", 2),
        ("--instance", "random-linear", "--states", 3, "--actions", 2, "--dim", 3),
        ("--instance", "tabular", "--states", 2, "--actions", 2),
    ],
    ids=lambda options: options[1],
)
def test_every_instance_can_be_planned_for(options):
    data = planned(*FREE, *options, "--switches", 7, "--beta", 1)
    assert all(option["regret"]["mean"] > 0.0 for option in data["options"])


@pytest.mark.parametrize(("horizon", "noted"), [(1, True), (2, False)])
def test_a_plan_of_one_step_in_an_instance_says_that_it_has_one_state(horizon, noted):
    sizes = ("--states", 2, "--actions", 2, "--horizon", horizon, "--episodes", 20)
    play = ("--instance", "tabular", *sizes, "--switches", 2, "--beta", 1, "--rounds", 2)
    result = call("plan", *play)
    assert result.exit_code == 0
    assert ("begin in one state" in result.stderr) is noted


def test_the_guarantee_holds_for_the_worlds_of_all_rounds():
    options = ("--instance", "random-linear", "--states", 3, "--actions", 2, "--dim", 3)
    data = planned(*SMALL, *options, "--switches", 7, "--beta", 1, "--rounds", 4, "--seed", 2)
    norms = [
        rs.worlds.random_linear(states=3, actions=2, d=3, horizon=3, seed=(2, r)).feature_norm
        for r in range(4)
    ]
    assert data["task"]["feature_norm"] == pytest.approx(max(norms))


def test_a_simulator_of_ones_own_comes_from_the_folder(own):
    data = planned(*SIZES, "--switches", 20, "--rounds", 3, "--simulator", f"{own}:play")
    assert data["exploration"] == {"kind": "bonus", "beta": 3.0, "members": 1, "estimate": False}
    regret = [0.05] * 6 + [0.07] * 6 + [0.08] * 6  # β = 3, 1 and, of a mixture, 0
    assert [option["regret"]["mean"] for option in data["options"]] == pytest.approx(regret)
    assert [option["deployments"]["mean"] for option in data["options"]] == [3.0] * 18
    assert [option["switches"]["mean"] for option in data["options"]] == [2.0] * 18
    assert data["beta_sweep"]["loss_low"] == pytest.approx(7 / 5)
    assert data["beta_sweep"]["loss_high"] == pytest.approx(11 / 5)


def test_what_has_no_end_is_null_in_json(own):
    options = (*SIZES, "--price", 1, "--rounds", 2, "--simulator", f"{own}:without_loss")
    data = planned(*options)
    assert data["beta_sweep"]["loss_high"] is None
    ranges = [o["cheapest_for_prices"] for o in data["options"] if o["cheapest_for_prices"]]
    assert any(high is None for _, high in ranges)


def test_a_rule_of_ones_own_is_a_candidate(own):
    rule = f"{own}:EveryMonday,day=3"
    options = (*SIZES, "--switches", 20, "--beta", 3, "--simulator", f"{own}:play")
    data = planned(*options, "--candidate", rule, "--candidate", "minimax-grid,batches=4")
    assert [option["name"] for option in data["options"][-2:]] == [
        f"{rule}, at most 15",
        "minimax-grid,batches=4, at most 3",
    ]
    assert data["recommended"] == f"{rule}, at most 15"
    assert f"from {own} import EveryMonday" in data["code"]
    assert f"--schedule {rule} " in data["command"]


def test_a_log_is_replayed(here):
    rng = np.random.default_rng(0)
    log = [ragged_episode(rng, horizon=3, dim=2) for _ in range(60)]
    save_partition(LogPartition.from_episodes(log, horizon=3), here / "log")
    data = planned(*SIZES, "--switches", 20, "--log", "log")
    made = rs.plan(TASK, switches=20, log=log)
    assert [o["replayed_deployments"] for o in data["options"]] == [
        o.replayed for o in made.options
    ]
    shown = call(*SIZES, "--switches", 20, "--log", "log").stdout
    assert "on the log" in shown
    assert "on the log" not in call(*SIZES, "--switches", 20).stdout


def test_out_takes_the_plan_and_its_picture(here):
    data = planned(*SMALL, "--switches", 7, "--beta", 1, "--out", "a/b")
    folder = here / "a" / "b"
    assert json.loads((folder / "plan.json").read_text(encoding="utf-8")) == data
    assert {path.name for path in folder.iterdir()} == {
        "plan.json",
        "protocol.toml",
        "figure.png",
        "figure.pdf",
        "figure.svg",
    }


def test_without_a_simulation_there_is_no_picture(here):
    result = call(*SIZES, "--switches", 7, "--out", "plan")
    assert result.stdout.endswith("written to plan\n")
    assert {path.name for path in (here / "plan").iterdir()} == {"plan.json", "protocol.toml"}


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_result_that_cannot_be_written_is_still_shown(here, how):
    (here / "plan" / "plan.json").mkdir(parents=True)
    result = call(*SIZES, "--switches", 7, "--out", "plan", *how)
    assert result.exit_code == 1
    assert "uniform-grid, at most 7" in result.stdout
    assert "written to" not in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: --out plan cannot be written")


def test_a_picture_needs_its_library(here, monkeypatch):
    monkeypatch.setattr("rareswitch.support.extras.find_spec", lambda name: None)
    result = call(*SMALL, "--switches", 7, "--out", "plan")
    assert result.exit_code == 1
    assert "pip install '.[experiments]'" in result.stderr
    assert call(*SIZES, "--switches", 7, "--out", "plan").exit_code == 0


def test_the_same_seed_prints_the_same():
    outputs = [call(*SMALL, "--price", 1, "--seed", seed, "--json").stdout for seed in (1, 1, 2)]
    assert outputs[0] == outputs[1] != outputs[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*BARE, "--switches", 5), "--dim must be given without --instance or --env"),
        (
            ("plan", "--episodes", 100, "--dim", 2, "--switches", 5),
            "--horizon must be given without --instance or --env",
        ),
        ((*SIZES, "--switches", 100), "switches must be from 0 to 99"),
        ((*SIZES, "--switches", -1), "switches must be from 0 to 99"),
        ((*SIZES, "--switches", "few"), "--switches"),
        (SIZES, "exactly one of switches, target and price"),
        ((*SIZES, "--switches", 5, "--price", 1), "exactly one of switches, target and price"),
        ((*SIZES, "--target", 1), "target needs a simulator"),
        ((*SIZES, "--price", -1), "price must be"),
        ((*SIZES, "--switches", 5, "--ridge", 0), "ridge must be"),
        ((*SIZES, "--switches", 5, "--beta", -1), "beta must be"),
        (
            (*SIZES, "--switches", 5, "--beta", 1, "--exploration", "bonus"),
            "--beta and --exploration exclude each other",
        ),
        ((*SIZES, "--switches", 5, "--exploration", "luck"), "--exploration luck: kind must be"),
        ((*SIZES, "--switches", 5, "--exploration", "ensemble,members=0"), "members must be"),
        ((*SIZES, "--switches", 5, "--candidate", "luck"), "--candidate luck: kind must be one of"),
        ((*SIZES, "--switches", 5, "--candidate", "no_such:Rule"), "--candidate no_such:Rule"),
        ((*SIZES, "--switches", 5, "--candidate", "uniform-grid"), "uniform-grid needs batches"),
        ((*SIZES, "--switches", 5, "--feature-norm", -1), "feature_norm must be"),
        ((*SIZES, "--switches", 5, "--horizon", 0), "--horizon"),
        ((*SIZES, "--switches", 5, "--rounds", 1), "--rounds"),
        ((*SIZES, "--switches", 5, "--seed", -1), "--seed"),
        ((*BARE, "--switches", 5, "--dim", 0), "--dim"),
        (("plan", "--dim", 2, "--switches", 5), "--episodes"),
        ((*SIZES, "--switches", 5, "--log", "none"), "--log"),
        ((*SIZES, "--switches", 5, "--log", "."), "--log: . must be a saved partition"),
        ((*SIZES, "--switches", 5, "--simulator", "no_such_module:play"), "--simulator must be"),
        ((*SIZES, "--switches", 5, "--simulator", "json:play"), "--simulator must be"),
        ((*SIZES, "--switches", 5, "--simulator", "json"), "--simulator must be"),
        ((*SIZES, "--switches", 5, "--simulator", ":play"), "--simulator must be"),
        ((*SIZES, "--switches", 5, "--instance", "maze"), "--instance"),
        ((*SMALL, "--switches", 5, "--dim", 3), "d must be from 4"),
        ((*FREE, "--instance", "tabular", "--switches", 5, "--dim", 3), "--dim of this tabular"),
        ((*SMALL, "--switches", 5, "--out", "/proc/none"), "--out /proc/none cannot be written"),
    ],
)
def test_what_cannot_be_planned_names_the_option(options, message):
    assert message in refused(*options)


def test_a_target_out_of_reach_is_refused():
    assert "target must be at least" in refused(*SMALL, "--target", 0, "--beta", 1)


def test_a_simulator_that_drops_rounds_is_told(own):
    said = refused(*SIZES, "--switches", 5, "--simulator", f"{own}:short")
    assert "one Outcome for each of 20 seeds; got 0" in said


@pytest.mark.parametrize(
    ("options", "place", "error"),
    [
        ((*SIZES, "--simulator", "{}:broken"), "in broken", "invalid literal for int()"),
        ((*SMALL, "--beta", "1", "--candidate", "{}:Faulty"), "in due", "ValueError: out of order"),
    ],
)
def test_what_code_of_ones_own_raises_is_shown_where_it_was_raised(own, options, place, error):
    result = call(*(str(word).format(own) for word in options), "--switches", 5)
    assert result.exit_code == 1
    assert f"{own}.py" in result.stderr
    assert place in result.stderr
    assert error in result.stderr
    assert "Usage:" not in result.stderr
    assert "cli/plan.py" not in result.stderr
    assert result.stdout == ""


def test_a_log_of_another_task_is_refused(here):
    rng = np.random.default_rng(0)
    log = [ragged_episode(rng, horizon=3, dim=5) for _ in range(4)]
    save_partition(LogPartition.from_episodes(log, horizon=3), here / "log")
    said = refused(*SIZES, "--switches", 5, "--log", "log")
    assert (
        "log must have episodes of the task; in number 1, episode must have features of dimension 2"
        in said
    )


def examples():
    lines = (line.strip() for line in command.help.splitlines())
    return [shlex.split(line)[1:] for line in lines if line.startswith("rareswitch plan")]


@pytest.mark.parametrize("words", examples(), ids=" ".join)
def test_the_examples_of_the_help_run(words, tmp_path, monkeypatch):
    monkeypatch.setattr("rareswitch.support.drawing.FORMATS", ("svg",))
    smaller = ["--rounds", "2"]
    if "--scenarios" in words:
        smaller += ["--workers", "1"]
        shutil.copytree(STUDY, tmp_path / "example")
        monkeypatch.chdir(tmp_path / "example")
    if "--instance" in words:
        smaller += ["--episodes", "60"]
    if "--env" in words:
        smaller += ["--episodes", "12", "--horizon", "2", "--workers", "1"]
    if "hard" in words:
        smaller += ["--dim", "5", "--horizon", "3"]
    if "--first" in words:
        smaller += ["--first", "20"]
    if "--target" in words:
        smaller += ["--target", "1"]  # what fewer episodes can reach
    result = call(*words, *smaller)
    assert result.exit_code == 0, result.output
    said = "superiority over the control" if "--scenarios" in words else "\nTake "
    assert said in result.stdout


def test_the_help_has_an_example_of_each_request():
    used = {word for words in examples() for word in words}
    assert {"--switches", "--price", "--target", "--instance", "--dim", "--no-randomise"} <= used
