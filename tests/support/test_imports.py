"""Modules of the user's own are found, and nothing else changes."""

import functools
import importlib
import os
import subprocess
import sys
from contextlib import suppress

import pytest

from rareswitch.support.imports import (
    ForbiddenImportError,
    checked_maker,
    load_module,
    load_object,
)

OWN = (
    "own_rules_here", "own_rules_beside", "own_rules_nowhere", "own_rules_broken", "math",
    "collections", "no",
)  # fmt: skip


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
    assert load_object("own_rules_here:answer", allow=OWN) == 42
    assert load_object("own_rules_beside:answer", allow=OWN, folders=[str(folder)]) == 43
    assert load_object("math:inf", allow=OWN) == float("inf")
    assert load_module("own_rules_here", allow=OWN).answer == 42
    assert load_module("own_rules_here:anything", allow=OWN).answer == 42
    assert load_object("collections.abc:Sequence", allow=OWN).__name__ == "Sequence"


@pytest.mark.parametrize("name", ["own_rules_here:answer", "own_rules_here:absent", "math:inf"])
@pytest.mark.parametrize("allow", [(), ["own_rules"], ["own_rules_here.answer"], [""], ["mat"]])
def test_a_module_that_nobody_allowed_is_not_imported(folder, name, allow):
    message = f"^{name!r} names code of the module .* --allow "
    with pytest.raises(ForbiddenImportError, match=message):
        load_object(name, allow=allow)
    assert "own_rules_here" not in sys.modules


def test_a_package_allows_its_modules_and_a_module_no_package(folder):
    (folder / "own_pack").mkdir()
    (folder / "own_pack" / "rules.py").write_text("answer = 44\n")
    name, folders = "own_pack.rules:answer", [str(folder)]
    assert load_object(name, allow=["own_pack"], folders=folders) == 44
    assert load_object(name, allow=["own_pack.rules"], folders=folders) == 44
    with pytest.raises(ForbiddenImportError):
        load_module("own_pack", allow=["own_pack.rules"], folders=folders)


@pytest.mark.parametrize("allow", ["math", "m", [3], b"math"])
def test_permission_is_a_collection_of_names(allow):
    with pytest.raises(TypeError, match="allow must be a collection of module names; got "):
        load_object("math:inf", allow=allow)


def test_no_file_takes_the_place_of_a_library(folder):
    for place in (folder, folder.parent / "here"):
        (place / "colorsys.py").write_text("ONE_THIRD = 'a file in the folder'\n")
    sys.modules.pop("colorsys", None)
    assert load_object("colorsys:ONE_THIRD", allow=["colorsys"], folders=[str(folder)]) == 1 / 3


class Door:
    """A world, by its methods."""

    def reset(self): ...
    def step(self): ...


@pytest.mark.parametrize("found", [Door, lambda: 3, functools.partial(print), functools.cache(len)])
def test_a_function_or_a_class_with_the_methods_makes_objects(found):
    assert checked_maker("a:b", found, ("reset", "step")) is found


@pytest.mark.parametrize("found", [subprocess.Popen, os.system, load_object, 3, None, Door()])
def test_nothing_else_makes_objects(found):
    with pytest.raises(ValueError, match="'a:b' must be a function of your own, or a class with "):
        checked_maker("a:b", found, ("reset", "step"))


@pytest.mark.parametrize(
    "name", ["own_rules_here:answer", "own_rules_here:absent", "own_rules_beside:answer", "no:x"]
)
def test_the_search_path_is_the_same_afterwards(folder, name):
    path, before = sys.path, list(sys.path)
    with suppress(ValueError):
        load_object(name, allow=OWN)
    assert sys.path is path
    assert sys.path == before


def test_the_search_path_is_the_same_after_a_module_that_raises(folder):
    before = list(sys.path)
    (folder / "own_rules_broken.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load_module("own_rules_broken", allow=OWN, folders=[str(folder)])
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_rules_here:absent", r"'own_rules_here:absent' cannot be imported \(.*'absent'"),
        ("own_rules_nowhere:x", r"'own_rules_nowhere' cannot be imported \(No module named"),
        (":x", r"'' cannot be imported \(a module is named as in Python\)"),
        (".relative:x", r"'\.relative' cannot be imported \("),
    ],
)
def test_what_is_not_there_is_an_error_that_names_it(folder, name, message):
    with pytest.raises(ValueError, match=message):
        load_object(name, allow=OWN)
