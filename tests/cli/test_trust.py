"""Data is never code: no command runs what a file names, unless a person allowed its module."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from cli.terminal import call, refused
from experiments.miniature import EVERY, WORLD, toml

# A module that leaves a mark where it is imported.
TRAP = """
from pathlib import Path
from cli.walk import Fifth, Walk, rows

Path("ran").touch()
"""
TOUCH = {"args": ["touch", "ran"]}
LAKE = ("train", "FrozenLake-v1", "--episodes", 20, "--horizon", 5, "--evaluate", 0)
GYM = """
[world]
kind = "gymnasium"
env = "FrozenLake-v1"
horizon = 5
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of a training, to copy from."""
    folder = tmp_path_factory.mktemp("trained") / "lake"
    assert call(*LAKE, "--out", folder).exit_code == 0
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Stand in a folder with a trap, a module that is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_trap.py").write_text(TRAP)
    yield tmp_path
    sys.modules.pop("my_trap", None)


def not_allowed(module, *command):
    """Check that a command refuses code of a module, says what to do, and runs nothing."""
    message = " ".join(refused(*command).split())
    assert f"names code of the module {module}, which is not allowed" in message
    assert f"--allow {module} " in message
    assert not Path("ran").exists()
    assert "my_trap" not in sys.modules


def train(trained, **changes):
    """Copy the folder of a training and change its settings, as a stranger could."""
    shutil.copytree(trained, "theirs")
    path = Path("theirs/settings.json")
    data = json.loads(path.read_bytes())
    data["settings"] |= changes
    path.write_text(json.dumps(data))
    return path


HOSTILE = [
    ("subprocess", {"env_id": "subprocess:Popen", "env_args": TOUCH}),
    ("my_trap", {"env_id": "my_trap:Walk"}),
    ("my_trap", {"env_id": "my_trap:Registered-v0", "env_args": {"allow": ["my_trap"]}}),
]


@pytest.mark.parametrize(("module", "changes"), HOSTILE)
def test_the_folder_of_a_training_runs_no_environment(trained, module, changes):
    train(trained, **changes)
    not_allowed(module, "evaluate", "theirs", "--episodes", 2)
    not_allowed(module, "evaluate", "theirs", "--episodes", 2, "--allow", "my", "--allow", "sub")


@pytest.mark.parametrize(
    "command", [("evaluate", "theirs", "--episodes", 2), ("compare", "theirs")]
)
@pytest.mark.parametrize(
    ("module", "changes"),
    [
        *HOSTILE,
        ("my_trap", {"features": "my_trap:rows"}),
        ("subprocess", {"features": 'subprocess:Popen,args=["touch","ran"]'}),
    ],
)
def test_nor_features_where_these_are_code(trained, command, module, changes):
    train(trained, **changes)
    agent = Path("theirs/agent.bin")  # without it, features are made again from the settings
    Path("theirs/policy.bin").write_bytes(Path("theirs/policies/001.bin").read_bytes())
    agent.unlink()
    not_allowed(module, *command)


def test_an_environment_that_is_none_is_not_called_even_if_it_is_allowed(trained):
    train(trained, env_id="subprocess:Popen", env_args=TOUCH)
    message = refused("evaluate", "theirs", "--episodes", 2, "--allow", "subprocess")
    assert "'subprocess:Popen' must be a function of your own, or a class with reset" in message
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "changes", [{"env_id": 3}, {"env_id": ["os:x"]}, {"env_args": [1]}, {"features": None}]
)
def test_settings_of_another_type_are_refused(trained, changes):
    train(trained, **changes)
    (name,) = changes
    assert f"its settings.json has no {name}" in " ".join(refused("evaluate", "theirs").split())


def test_going_on_with_a_training_runs_what_was_typed_and_nothing_else(trained):
    path = train(trained, env_id="my_trap:Walk")
    message = refused(*LAKE, "--out", "theirs")
    assert "folder must have the same settings" in message
    data = json.loads(path.read_bytes())
    path.write_text(json.dumps(data | {"settings": data["settings"] | {"env_id": LAKE[1]}}))
    assert call(*LAKE, "--out", "theirs").exit_code == 0
    assert not Path("ran").exists()


def test_the_module_of_a_typed_environment_is_allowed_and_the_file_needs_a_word():
    options = ("--episodes", 20, "--horizon", 5, "--rewards", 0, 1, "--evaluate", 0)
    mine = ("train", "my_trap:Walk", *options, "--features", "my_trap:rows", "--out", "mine")
    for _ in range(2):  # the second goes on from there
        assert call(*mine, "--schedule", "my_trap:Fifth").exit_code == 0
    sys.modules.pop("my_trap")
    Path("ran").unlink()
    not_allowed("my_trap", "evaluate", "mine", "--episodes", 2)
    not_allowed("my_trap", "compare", "mine")
    assert call("evaluate", "mine", "--episodes", 2, "--allow", "my_trap").exit_code == 0
    assert call("compare", "mine", "--version", 2, "--allow", "my_trap").exit_code == 0


OWN_RULE = EVERY.replace('"every-episode"', '"my_trap:Fifth"')
HOSTILE_SPECS = {
    "rule": ("subprocess", {"arms": EVERY.replace(
        '"every-episode"', '"subprocess:Popen", args = [["touch", "ran"]]')}),
    "own rule": ("my_trap", {"arms": OWN_RULE}),
    "capped rule": ("my_trap", {"arms": EVERY.replace(
        '"every-episode"', '"capped", switches = 1, schedule = { kind = "my_trap:Fifth" }')}),
    "exploration": ("subprocess", {"arms": EVERY + (
        'exploration = { kind = "subprocess:Popen", args = [["touch", "ran"]] }')}),
    "world": ("subprocess", {"world": WORLD.replace(
        'kind = "hard-to-learn"', 'kind = "subprocess:Popen"\nargs = [["touch", "ran"]]')}),
    "our own function": ("rareswitch", {"world": """
[world]
kind = "rareswitch.gym.simulator:world_simulator"
world = "my_trap:Walk"
allow = [["my_trap"]]
"""}),
    "environment": ("my_trap", {"world": GYM.replace("FrozenLake-v1", "my_trap:Walk")}),
    "features": ("my_trap", {"world": GYM + 'features = "my_trap:rows"'}),
}  # fmt: skip


def write_spec(here, changes):
    """Write the experiment of a stranger."""
    figure = "return" if "world" in changes else "regret"
    (here / "their.toml").write_text(toml(**{"arms": EVERY, "figure": figure} | changes))


@pytest.mark.parametrize("name", HOSTILE_SPECS)
def test_an_experiment_runs_no_code(here, name):
    module, changes = HOSTILE_SPECS[name]
    write_spec(here, changes)
    named = "rareswitch.gym.simulator" if module == "rareswitch" else module
    not_allowed(named, "run", "their.toml")
    not_allowed(named, "run", "their.toml", "--allow", "cli", "--allow", "my")
    assert not Path("results").exists()


@pytest.mark.parametrize("name", ["rule", "exploration", "world", "our own function"])
def test_code_that_is_something_else_is_not_called_even_if_it_is_allowed(here, name):
    module, changes = HOSTILE_SPECS[name]
    write_spec(here, changes)
    message = refused("run", "their.toml", "--allow", module)
    assert "must be a" in message
    assert not Path("ran").exists()
    assert not Path("results").exists()


def test_an_experiment_may_name_code_that_a_person_allowed_and_its_results_are_drawn_without(here):
    (here / "mine.toml").write_text(toml(arms=EVERY + OWN_RULE.replace("lsvi-ucb", "own")))
    result = call("run", "mine.toml", "--allow", "my_trap", "--workers", 1, "--rounds", 1)
    assert result.exit_code == 0, result.output
    sys.modules.pop("my_trap")
    Path("ran").unlink()
    assert call("plot", "results/mini").exit_code == 0
    assert not Path("ran").exists()


def test_a_file_in_the_folder_takes_the_place_of_no_library(here):
    for name in ("colorsys", "numpy", "json"):
        (here / f"{name}.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    sys.modules.pop("colorsys", None)
    message = refused("learn", "--dim", 5, "--episodes", 5, "--schedule", "colorsys:rgb_to_hls")
    assert "must be a class with a method due; it is <function rgb_to_hls" in message
    assert not Path("ran").exists()
