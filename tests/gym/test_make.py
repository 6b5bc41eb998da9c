"""Environments by name: Gymnasium's, those a module registers, and classes of one's own."""

import re
import sys

import gymnasium
import pytest

from rareswitch.gym.setting import made
from rareswitch.support.imports import ForbiddenImportError

OURS = ["own_doors"]

OWN = '''
import gymnasium
from gymnasium.spaces import Discrete


class Door(gymnasium.Env):
    """A class of one's own."""

    observation_space, action_space = Discrete(1), Discrete(2)

    def __init__(self, prize=1.0):
        self.prize = prize

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, self.prize * action, True, False, {}


def door_with(prize):
    return Door(prize)


gymnasium.register("OwnDoor-v0", entry_point=Door)
NUMBER = 3
'''


@pytest.fixture
def own_doors(tmp_path, monkeypatch):
    (tmp_path / "own_doors.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_doors", None)
    gymnasium.registry.pop("OwnDoor-v0", None)


def test_an_environment_of_gymnasium_is_made_with_its_arguments():
    world = made("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False})
    assert world.observation_space.n == 64
    assert world.spec.max_episode_steps == 200 or world.spec.max_episode_steps == 100


@pytest.mark.usefixtures("own_doors")
def test_a_class_or_function_of_ones_own_is_called_with_its_arguments():
    assert made("own_doors:Door", allow=OURS).prize == 1.0
    assert made("own_doors:Door", {"prize": 0.5}, allow=OURS).prize == 0.5
    assert made("own_doors:door_with", {"prize": 0.25}, allow=OURS).prize == 0.25


@pytest.mark.usefixtures("own_doors")
def test_a_module_may_register_the_name():
    world = made("own_doors:OwnDoor-v0", {"prize": 0.5}, allow=OURS)
    assert world.unwrapped.prize == 0.5


@pytest.mark.usefixtures("own_doors")
@pytest.mark.parametrize("name", ["own_doors:NUMBER", "own_doors:Missing", "own_doors:"])
def test_what_makes_no_environment_is_refused(name):
    with pytest.raises(ValueError, match="world must be an environment registered with Gymnasium"):
        made(name, allow=OURS)


def test_the_path_of_a_log_is_told_from_the_name_of_an_environment(tmp_path):
    (tmp_path / "shifts.csv").write_text("action\n0\n")
    with pytest.raises(ValueError, match="to learn from a log, call rareswitch"):
        made(str(tmp_path / "shifts.csv"))


@pytest.mark.usefixtures("own_doors")
def test_a_misspelt_class_is_named_with_its_module_and_a_suggestion():
    told = "module own_doors has no class Dor; did you mean Door?"
    with pytest.raises(ValueError, match=re.escape(told)):
        made("own_doors:Dor", allow=OURS)


@pytest.mark.usefixtures("own_doors")
@pytest.mark.parametrize("name", ["own_doors:Door", "own_doors:OwnDoor-v0", "own_doors:", "os:x"])
@pytest.mark.parametrize("arguments", [{}, {"allow": ["own_doors", "os"]}])
def test_a_module_that_nobody_allowed_is_not_imported(name, arguments):
    with pytest.raises(ForbiddenImportError, match=f"'{name}' names code of the module .* --allow"):
        made(name, arguments)
    assert "own_doors" not in sys.modules


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("subprocess:Popen", {"args": ["touch", "ran"]}),
        ("os:system", {"command": "touch ran"}),
        (
            "rareswitch.gym.setting:made",
            {"name": "os:system", "arguments": {"command": "touch ran"}, "allow": ["os"]},
        ),
    ],
)
def test_an_allowed_object_that_makes_no_world_is_not_called(
    tmp_path, monkeypatch, name, arguments
):
    monkeypatch.chdir(tmp_path)
    allow = ["subprocess", "os", "rareswitch"]
    with pytest.raises(ValueError, match=f"'{name}' must be a function of your own, or a class wi"):
        made(name, arguments, allow=allow)
    assert not (tmp_path / "ran").exists()


def test_a_world_is_named_by_a_text():
    with pytest.raises(
        TypeError, match=r"world must be the name of an environment; got \['os:x'\]"
    ):
        made(["os:x"])


@pytest.mark.parametrize("name", ["NoSuchWorld-v0", "FrozenLake-v999", "not a name"])
def test_unknown_names_are_refused_with_what_is_allowed(name):
    with pytest.raises(ValueError, match="registered with Gymnasium, or module:Class; "):
        made(name)


def test_a_module_that_is_not_there_is_said():
    with pytest.raises(ValueError, match="'no_such_module' cannot be imported"):
        made("no_such_module:World", allow=["no_such_module"])


def test_without_gymnasium_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("rareswitch.support.extras.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"gymnasium.*pip install '\.\[gym\]'"):
        made("FrozenLake-v1")
