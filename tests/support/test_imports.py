"""Modules of the user's own are found, and nothing else changes."""

import importlib
import sys
from contextlib import suppress

import pytest

from rareswitch.support.imports import load_module, load_object


@pytest.fixture
def modules(monkeypatch):
    """Forget the modules that a test imports."""
    known = set(sys.modules)
    importlib.invalidate_caches()
    yield
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path, monkeypatch, modules):
    """Stand in a folder with a module of its own, and another folder beside it."""
    here, beside = tmp_path / "here", tmp_path / "beside"
    here.mkdir()
    beside.mkdir()
    (here / "own_rules_here.py").write_text("import own_helper_here\nanswer = 42\n")
    (here / "own_helper_here.py").write_text("")
    (beside / "own_rules_beside.py").write_text("answer = 43\n")
    monkeypatch.chdir(here)
    return beside


def test_a_module_lies_in_the_current_folder_or_in_a_given_one_or_is_installed(folder):
    assert load_object("own_rules_here:answer") == 42
    assert load_object("own_rules_beside:answer", [str(folder)]) == 43
    assert load_object("math:inf") == float("inf")
    assert load_module("own_rules_here").answer == 42
    assert load_object("collections.abc:Sequence").__name__ == "Sequence"


@pytest.mark.parametrize(
    "name", ["own_rules_here:answer", "own_rules_here:absent", "own_rules_beside:answer", "no:x"]
)
def test_the_search_path_is_the_same_afterwards(folder, name):
    path, before = sys.path, list(sys.path)
    with suppress(ValueError):
        load_object(name)
    assert sys.path is path
    assert sys.path == before


def test_the_search_path_is_the_same_after_a_module_that_raises(folder):
    before = list(sys.path)
    (folder / "own_rules_broken.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load_module("own_rules_broken", [str(folder)])
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_rules_here:absent", r"'own_rules_here:absent' cannot be imported \(.*'absent'"),
        ("own_rules_nowhere:x", r"'own_rules_nowhere' cannot be imported \(No module named"),
        (":x", r"'' cannot be imported \(Empty module name\)"),
        (".relative:x", r"'\.relative' cannot be imported \("),
    ],
)
def test_what_is_not_there_is_an_error_that_names_it(folder, name, message):
    with pytest.raises(ValueError, match=message):
        load_object(name)
