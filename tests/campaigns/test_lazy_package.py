"""The package of campaigns loads its names when they are first used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from rareswitch import campaigns

SOURCE = ast.parse(Path(campaigns.__file__).read_text("utf-8"))
CHECKED = next(node.body for node in SOURCE.body if isinstance(node, ast.If))
STATED = {
    alias.name: node.module
    for node in CHECKED
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}


def run(source):
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", STATED)
def test_a_name_is_the_object_that_type_checkers_see(name):
    assert getattr(campaigns, name) is getattr(import_module(STATED[name]), name)


def test_verbs_are_the_functions_that_type_checkers_see():
    names = {name: getattr(campaigns, name) for name in STATED}
    stated = [node for node in CHECKED if isinstance(node, ast.Assign)]
    exec(compile(ast.Module(stated, []), "stated", "exec"), names)
    verbs = {name for name in names if name not in STATED and name != "__builtins__"}
    assert verbs >= {"act", "init", "import_reports", "list", "open", "head"}
    for verb in verbs:
        assert getattr(campaigns, verb) == names[verb], verb
    assert set(campaigns.__all__) <= {*STATED, *verbs}
    left_out = {"list", "open", "list_campaigns", "list_episodes", "open_episodes", "heads"}
    assert {*STATED, *verbs} - set(campaigns.__all__) == left_out


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'rareswitch.campaigns' has no attribute 'nothing'"):
        campaigns.nothing  # noqa: B018


@pytest.mark.parametrize("name", ["status", "protocol"])
def test_a_module_of_the_same_name_does_not_hide_a_verb(name):
    source = (
        f"import rareswitch.campaigns.{name}; from rareswitch import campaigns; "
        f"import rareswitch.campaigns.campaign; print(type(campaigns.{name}).__name__)"
    )
    assert run(source) == "function"


def test_the_package_alone_loads_nothing():
    source = (
        "import rareswitch.campaigns, sys; "
        "print([name for name in sys.modules if name.startswith('rareswitch.')])"
    )
    assert run(source) == "['rareswitch.campaigns']"


def test_a_star_import_shadows_no_built_in_function():
    assert run("from rareswitch.campaigns import *; print(open is __builtins__.open, status)")[
        :24
    ] == ("True <function status at")
