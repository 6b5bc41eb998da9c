"""What may import what: the core knows NumPy and a few pure modules, and siblings do not meet."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "rareswitch"
PURE = {
    "abc",
    "bisect",
    "collections",
    "contextlib",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "itertools",
    "json",
    "math",
    "numbers",
    "threading",
    "typing",
}


def imported(path):
    """Return the dotted names of the modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def modules(room):
    found = sorted((SOURCE / room).rglob("*.py"))
    assert found
    return [pytest.param(path, id=str(path.relative_to(SOURCE))) for path in found]


@pytest.mark.parametrize("path", modules("core"))
def test_the_core_knows_only_numpy_and_pure_modules(path):
    for name in imported(path):
        package = name.split(".")[0]
        inside = name == "rareswitch.core" or name.startswith("rareswitch.core.")
        assert inside or package == "numpy" or package in PURE, name


@pytest.mark.parametrize("path", [*modules("core"), *modules("sim")])
def test_core_and_sim_ask_neither_the_clock_nor_a_global_generator(path):
    calls = {
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    }
    allowed = {"Generator", "PCG64", "Philox", "SeedSequence"}
    drawn = {call.split(".")[2] for call in calls if call.startswith("np.random.")}
    assert drawn <= allowed
    assert not imported(path) & {"random", "time", "datetime", "logging"}


SIBLINGS = ("experiments", "planning")


@pytest.mark.parametrize("room", SIBLINGS)
def test_siblings_do_not_import_each_other(room):
    (other,) = set(SIBLINGS) - {room}
    for parameters in modules(room):
        (path,) = parameters.values
        for name in imported(path):
            assert f"rareswitch.{other}" != name
            assert not name.startswith(f"rareswitch.{other}."), path


def test_every_module_of_the_core_has_its_test():
    tests = Path(__file__).parent / "core"
    missing = [
        path.stem
        for path in (SOURCE / "core").glob("*.py")
        if path.stem != "__init__" and not (tests / f"test_{path.stem}.py").exists()
    ]
    assert missing == []
