"""What may import what: rooms depend one way, files too, and the inner rooms know only NumPy."""

import ast
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import rareswitch as rs

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "rareswitch"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
# From the top down, the rooms of each layer: they import what is below, and not each other.
LAYERS = [layer.split(" | ") for layer in CONTRACTS["contracts"][0]["layers"]]
INNER = ("core", "statistics", "rules", "learning", "sim")
PURE = {
    "abc",
    "bisect",
    "collections",
    "contextlib",
    "dataclasses",
    "difflib",
    "enum",
    "functools",
    "copy",
    "hashlib",
    "inspect",
    "itertools",
    "json",
    "math",
    "numbers",
    "re",
    "typing",
}
# Files that are there for a library, or for the machine.
LIBRARIES = {
    "statistics/partitions.py": {"os", "pathlib"},
    "support/archive.py": {
        "glob", "os", "pathlib", "platform", "secrets", "tokenize", "zipfile", "zlib",
    },
    "support/arguments.py": {"os"},
    "support/drawing.py": {"io", "matplotlib", "pathlib"},
    "support/extras.py": {"importlib"},
    "support/streams.py": {"threading"},
    "support/imports.py": {"importlib", "pathlib", "sys"},
    "support/pages.py": {"jinja2", "markupsafe", "pathlib"},
}  # fmt: skip
FILES = {
    ".".join(("rareswitch", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sorted(SOURCE.rglob("*.py"))
}


def imported(path):
    """Return the dotted names of the modules that a file imports, anywhere in it."""
    return set(chain.from_iterable(map(named, ast.walk(ast.parse(path.read_text("utf-8"))))))


def named(node):
    """Return the dotted names that a statement imports: modules, and what is in them."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        assert not node.level, f"a relative import: {ast.unparse(node)}"
        return {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return set()


def at_module_level(nodes):
    """Yield the import statements that run when a module is imported."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from at_module_level(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_module_level(ast.iter_child_nodes(node))


def needed(path):
    """Return the files of the package that a file imports when it is imported itself."""
    found = set()
    for node in at_module_level(ast.parse(path.read_text("utf-8")).body):
        inside = {name for name in named(node) if name in FILES}
        if isinstance(node, ast.ImportFrom) and len(inside) > len(node.names):
            inside.discard(node.module)  # modules of a package, and nothing of the package itself
        found |= inside
    return found


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def modules(*rooms):
    found = [path for path in FILES.values() if room_of(path) in rooms]
    assert len(found) >= len(rooms)
    return [pytest.param(path, id=str(path.relative_to(SOURCE))) for path in found]


def rooms_below(room):
    """Return the rooms that a room may import."""
    (level,) = [level for level, rooms in enumerate(LAYERS) if room in rooms]
    return {room, *chain.from_iterable(LAYERS[level + 1 :])}


def test_every_room_has_its_layer():
    rooms = list(chain.from_iterable(LAYERS))
    assert sorted(rooms) == sorted({room_of(path) for path in FILES.values()} - {"__init__"})
    assert LAYERS[-4:] == [["learning"], ["rules", "statistics"], ["core"], ["support"]]
    assert LAYERS[:3] == [["__main__"], ["cli"], ["service"]]
    assert LAYERS[3] == ["experiments", "planning", "gym", "campaigns"]


@pytest.mark.parametrize("path", modules(*chain.from_iterable(LAYERS)))
def test_a_file_imports_its_own_room_and_those_below(path):
    below = rooms_below(room_of(path))
    for name in imported(path):
        package, _, rest = name.partition(".")
        if package == "rareswitch" and rest != "__version__":
            # A public name, as in `from rareswitch import Learner`, would hide its room.
            assert not rest or rest.split(".")[0] in below, name


def test_no_two_files_import_each_other():
    needs = {name: needed(path) for name, path in FILES.items()}
    mutual = {f"{one} and {other}" for one in needs for other in needs[one] if one in needs[other]}
    assert mutual == set()
    try:
        assert len(list(TopologicalSorter(needs).static_order())) == len(FILES)
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1]))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import rareswitch.core.task", {"rareswitch.core.task"}),
        ("from rareswitch.core import task", {"rareswitch.core.task"}),
        ("from rareswitch.core.task import Task", {"rareswitch.core.task"}),
        ("from rareswitch.sim import Run, mdp", {"rareswitch.sim", "rareswitch.sim.mdp"}),
        ("def f():\n    from rareswitch.core import task", set()),
        ("class C:\n    from rareswitch.core import task", {"rareswitch.core.task"}),
        ("if TYPE_CHECKING:\n    from rareswitch.core import task", set()),
        ("try:\n    import rareswitch.core.task\nfinally:\n    pass", {"rareswitch.core.task"}),
        ("import numpy.linalg", set()),
    ],
)  # fmt: skip
def test_what_is_found_is_what_runs_when_a_module_is_imported(tmp_path, source, found):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert needed(path) == found


@pytest.mark.parametrize("path", modules("support", *INNER))
def test_inner_rooms_know_only_numpy_and_pure_modules(path):
    allowed = PURE | LIBRARIES.get(path.relative_to(SOURCE).as_posix(), set())
    outside = {name.split(".")[0] for name in imported(path)} - {"numpy", "rareswitch"}
    assert outside <= allowed
    assert LIBRARIES.get(path.relative_to(SOURCE).as_posix(), set()) <= outside


@pytest.mark.parametrize("path", modules("support", *INNER))
def test_inner_rooms_ask_neither_the_clock_nor_a_global_generator(path):
    calls = {
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    }
    allowed = {"Generator", "PCG64", "Philox", "SeedSequence"}
    drawn = {call.split(".")[2] for call in calls if call.startswith("np.random.")}
    assert drawn <= allowed
    assert not imported(path) & {"random", "time", "datetime", "logging"}


@pytest.mark.parametrize("room", INNER)
def test_every_module_of_an_inner_room_has_its_test(room):
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / room).glob("test_*.py")}
    missing = [
        path.stem
        for path in (SOURCE / room).glob("*.py")
        if path.stem != "__init__"
        and not tests & {path.stem, f"{room}_{path.stem}", f"{path.stem}_{room}"}
    ]
    assert missing == []


def test_a_switch_a_draw_and_an_action_visit_at_most_twelve_files():
    arms, visited = np.eye(2), set()
    task, rule = rs.Task(dim=2, horizon=2), rs.DeterminantGrowth(eta=1.5)
    learner = rs.Learner(task, rule, rs.Recipe.paper(beta=1.0))
    episode = rs.Episode(features=arms, rewards=[0.5, 1.0], next_features=[arms])

    def visit(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(SOURCE) and room_of(path) != "support":
            visited.add(path.relative_to(SOURCE).as_posix())

    profiling = sys.getprofile()
    sys.setprofile(visit)
    try:
        switched = learner.observe(episode)
        action = learner.policy.draw("ada").act(0, arms)
    finally:
        sys.setprofile(profiling)
    assert switched
    assert action in (0, 1)
    assert {"core/lsvi.py", "core/policy.py", "learning/learner.py", "rules/paper.py"} <= visited
    assert len(visited) <= 12, sorted(visited)
