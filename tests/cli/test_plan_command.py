import json
import shlex
import sys

import numpy as np
import pytest

import rareswitch as rs
from cli.terminal import call, refused
from rareswitch.cli.plan import plan as command

BARE = ("plan", "--episodes", 100, "--horizon", 3)
SIZES = (*BARE, "--dim", 2)
SMALL = ("plan", "--episodes", 40, "--instance", "hard", "--d", 5, "--horizon", 3, "--rounds", 2)
OWN = """
import rareswitch as rs

def play(schedule, optimism, seeds):
    return [rs.Outcome(regret=5.0 + abs(optimism.beta - 3), switches=2) for _ in seeds]

def short(schedule, optimism, seeds):
    return []
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # --simulator puts the folder there
    return tmp_path


@pytest.fixture
def own(here, monkeypatch):
    """Return the name of a module in this folder with simulators."""
    name = "simulators_of_my_own"
    (here / f"{name}.py").write_text(OWN)
    yield name
    sys.modules.pop(name, None)


def planned(*options):
    """Return the JSON of a plan."""
    result = call(*options, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_a_dimension_is_enough_for_what_is_guaranteed(here):
    result = call(*SIZES, "--switches", 20)
    assert result.exit_code == 0
    made = rs.plan(episodes=100, horizon=3, dim=2, switches=20)
    for option in made.options:
        assert option.name in result.stdout
    assert "vacuous" in result.stdout
    assert "avg regret" not in result.stdout
    assert f"Take {made.recommended.name}: {made.reason}" in result.stdout
    assert result.stdout.rstrip().endswith(made.code)
    assert list(here.iterdir()) == []


def test_the_json_is_the_plan():
    data = planned(*SIZES, "--switches", 20, "--feature-norm", 2, "--ridge", 0.5, "--beta", 0.3)
    made = rs.plan(
        episodes=100, horizon=3, dim=2, switches=20, feature_norm=2.0, ridge=0.5, beta=0.3
    )
    assert data == json.loads(json.dumps(made.to_dict()))


@pytest.mark.parametrize("request_", [("--switches", 7), ("--price", 0.5), ("--target", 5)])
def test_an_instance_is_simulated(request_):
    data = planned(*SMALL, *request_, "--beta", 1, "--seed", 3)

    def world(seed):
        return rs.instances.hard_to_learn(d=5, horizon=3, seed=seed)

    made = rs.plan(
        episodes=40,
        horizon=3,
        dim=5,
        feature_norm=world(3).feature_norm,
        beta=1.0,
        rounds=2,
        seed=3,
        simulator=rs.world_simulator(world, episodes=40),
        **{request_[0].removeprefix("--"): request_[1]},
    )
    assert data == json.loads(json.dumps(made.to_dict()))
    assert data["sizes"]["feature_norm"] == pytest.approx(world(3).feature_norm)


def test_without_beta_it_is_swept_and_shown():
    result = call(*SMALL, "--switches", 7)
    assert result.exit_code == 0
    assert "← chosen" in result.stdout
    assert "A third of it multiplies regret by" in result.stdout
    assert "swept on the simulator" in result.stdout
    data = planned(*SMALL, "--switches", 7)
    assert data["beta"] == data["beta_sweep"]["chosen"]
    assert len(data["beta_sweep"]["betas"]) >= 6


def test_prices_have_a_column():
    result = call(*SMALL, "--price", 1, "--beta", 1)
    assert "best for prices" in result.stdout
    assert " to inf" in result.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--instance", "misspecified", "--zeta", 0.2),
        ("--instance", "lower-bound", "--d", 2),
        ("--instance", "random-linear", "--states", 3, "--actions", 2, "--d", 3),
        ("--instance", "tabular", "--states", 2, "--actions", 2),
    ],
    ids=lambda options: options[1],
)
def test_every_instance_can_be_planned_for(options):
    data = planned(*SMALL, *options, "--switches", 7, "--beta", 1)
    assert all(option["regret"]["mean"] >= 0.0 for option in data["options"])


def test_the_guarantee_holds_for_the_worlds_of_all_rounds():
    options = ("--instance", "random-linear", "--states", 3, "--actions", 2, "--d", 3)
    data = planned(*SMALL, *options, "--switches", 7, "--beta", 1, "--rounds", 4, "--seed", 2)
    norms = [
        rs.instances.random_linear(states=3, actions=2, d=3, horizon=3, seed=(2, r)).feature_norm
        for r in range(4)
    ]
    assert data["sizes"]["feature_norm"] == pytest.approx(max(norms))


def test_a_simulator_of_ones_own_comes_from_the_folder(own):
    data = planned(*SIZES, "--switches", 20, "--rounds", 3, "--simulator", f"{own}:play")
    assert data["beta"] == 3.0
    assert [option["regret"]["mean"] for option in data["options"]] == pytest.approx([0.05] * 5)
    assert data["beta_sweep"]["loss_low"] == pytest.approx(7 / 5)
    assert data["beta_sweep"]["loss_high"] == pytest.approx(11 / 5)


def test_a_log_is_replayed(here):
    log = np.random.default_rng(0).random((60, 3, 2))
    np.save(here / "log.npy", log)
    data = planned(*SIZES, "--switches", 20, "--log", "log.npy")
    made = rs.plan(episodes=100, horizon=3, dim=2, switches=20, log=log)
    assert [o["replayed_switches"] for o in data["options"]] == [o.replayed for o in made.options]
    shown = call(*SIZES, "--switches", 20, "--log", "log.npy").stdout
    assert "on the log" in shown
    assert "on the log" not in call(*SIZES, "--switches", 20).stdout


def test_out_takes_the_plan_and_its_picture(here):
    data = planned(*SMALL, "--switches", 7, "--beta", 1, "--out", "a/b")
    folder = here / "a" / "b"
    assert json.loads((folder / "plan.json").read_text(encoding="utf-8")) == data
    assert {path.name for path in folder.iterdir()} == {
        "plan.json",
        "figure.png",
        "figure.pdf",
        "figure.svg",
    }


def test_without_a_simulation_there_is_no_picture(here):
    result = call(*SIZES, "--switches", 7, "--out", "plan")
    assert result.stdout.endswith("written to plan\n")
    assert [path.name for path in (here / "plan").iterdir()] == ["plan.json"]


def test_the_same_seed_prints_the_same():
    outputs = [call(*SMALL, "--price", 1, "--seed", seed, "--json").stdout for seed in (1, 1, 2)]
    assert outputs[0] == outputs[1] != outputs[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*BARE, "--switches", 5), "--dim must be given"),
        ((*SIZES, "--switches", 100), "switches must be from 0 to 99"),
        ((*SIZES, "--switches", -1), "switches must be from 0 to 99"),
        ((*SIZES, "--switches", "few"), "--switches"),
        (SIZES, "exactly one of switches, target and price"),
        ((*SIZES, "--switches", 5, "--price", 1), "exactly one of switches, target and price"),
        ((*SIZES, "--target", 1), "target needs a simulator"),
        ((*SIZES, "--price", -1), "price must be"),
        ((*SIZES, "--switches", 5, "--ridge", 0), "ridge must be"),
        ((*SIZES, "--switches", 5, "--beta", -1), "beta must be"),
        ((*SIZES, "--switches", 5, "--feature-norm", -1), "feature_norm must be"),
        ((*SIZES, "--switches", 5, "--horizon", 0), "horizon must be"),
        ((*SIZES, "--switches", 5, "--rounds", 1), "--rounds"),
        ((*SIZES, "--switches", 5, "--seed", -1), "--seed"),
        ((*BARE, "--switches", 5, "--dim", 0), "--dim"),
        (("plan", "--dim", 2, "--switches", 5), "--episodes"),
        ((*SIZES, "--switches", 5, "--log", "none.npy"), "--log"),
        ((*SIZES, "--switches", 5, "--simulator", "no_such_module:play"), "--simulator must be"),
        ((*SIZES, "--switches", 5, "--simulator", "json:play"), "--simulator must be"),
        ((*SIZES, "--switches", 5, "--simulator", "json"), "--simulator must be"),
        ((*SIZES, "--switches", 5, "--simulator", ":play"), "--simulator must be"),
        ((*SIZES, "--switches", 5, "--instance", "maze"), "--instance"),
        ((*SMALL, "--switches", 5, "--d", 3), "d must be from 4"),
        ((*SMALL, "--target", 0, "--beta", 1), "target must be at least"),
    ],
)
def test_what_cannot_be_planned_names_the_option(options, message):
    assert message in refused(*options)


def test_a_simulator_that_drops_rounds_is_told(own):
    said = refused(*SIZES, "--switches", 5, "--simulator", f"{own}:short")
    assert "one outcome for each of 20 seeds; got 0" in said


@pytest.mark.parametrize("shape", [(4, 3), (4,)])
def test_a_log_of_another_shape_is_refused(here, shape):
    np.save(here / "log.npy", np.ones(shape))
    assert "must have shape" in refused(*SIZES, "--switches", 5, "--log", "log.npy")


def test_a_log_that_is_not_an_array_file_is_refused(here):
    (here / "log.npy").write_text("0.1 0.2")
    assert "--log log.npy is not a .npy file" in refused(
        *SIZES, "--switches", 5, "--log", "log.npy"
    )


def examples():
    lines = (line.strip() for line in command.help.splitlines())
    return [shlex.split(line)[1:] for line in lines if line.startswith("rareswitch plan")]


@pytest.mark.parametrize("words", examples(), ids=" ".join)
def test_the_examples_of_the_help_run(words):
    smaller = ["--rounds", "2"]
    if "--instance" in words:
        smaller += ["--episodes", "60", "--d", "5"]
    if "--target" in words:
        smaller += ["--target", "1"]  # what fewer episodes can reach
    result = call(*words, *smaller)
    assert result.exit_code == 0, result.output
    assert "\nTake " in result.stdout


def test_the_help_has_an_example_of_each_request():
    used = {word for words in examples() for word in words}
    assert {"--switches", "--price", "--target", "--instance", "--dim"} <= used
