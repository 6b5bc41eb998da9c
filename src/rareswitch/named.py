"""From text to rules and explorations: by a name of the table, or module:Class for your own.

On the command line a rule is written with its arguments: `uniform-grid,batches=50`. What the task
settles (episodes, dim, horizon, feature_norm and the ridge) need not be said; `switches=50` asks
any rule that can keep a budget to keep that one.
"""

import importlib
import inspect
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from rareswitch.core.exploration import Exploration
from rareswitch.core.rules import EXPLORATIONS, RULES, Row, describe
from rareswitch.core.schedule import Schedule, checked_schedule
from rareswitch.core.task import Task

PYTHON_WORDS = {"True": True, "False": False, "None": None}
SETTLED = ("episodes", "dim", "horizon", "feature_norm", "ridge")


def find(name: str, table: tuple[Row, ...] = RULES) -> type[Any]:
    """Return the class that goes by a name, of the table or as module:Class.

    >>> find("uniform-grid").__name__
    'UniformGrid'
    """
    if not isinstance(name, str):
        raise TypeError(f"kind must be a name; got {name!r}")
    for row in table:
        if row.name == name:
            return row.kind
    module, colon, attribute = name.partition(":")
    if not colon:
        names = ", ".join(row.name for row in table)
        raise ValueError(f"kind must be one of {names}, or module:Class; got {name!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules in the current folder, as for python -m
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(f"kind {name!r} cannot be imported ({error})") from None
    if not isinstance(found, type):
        raise ValueError(f"kind {name!r} must be a class; it is {found!r}")
    return found


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of a rule as it is written on the command line.

    >>> parse("determinant-growth,eta=2")
    ('determinant-growth', {'eta': 2})
    """
    name, *parts = re.split(r",(?![^\[]*\])", text)  # at commas, but not those of a list
    arguments: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier() or key in arguments:
            raise ValueError(
                f"{text!r} must be a name and its arguments, as in uniform-grid,batches=50; "
                f"{part!r} is none"
            )
        try:
            arguments[key] = json.loads(value)
        except ValueError:
            arguments[key] = PYTHON_WORDS.get(value, value)
    return name, arguments


def complete(
    kind: str, arguments: Mapping[str, Any], table: tuple[Row, ...] = RULES
) -> dict[str, Any]:
    """Return the arguments with the defaults of all that were left out and no task settles."""
    cls = find(kind, table)
    known = _parameters(cls)
    keeps_budgets = hasattr(cls, "for_budget") and "switches" not in known
    allowed = [*known, *(["switches"] if keeps_budgets else [])]
    if unknown := [name for name in arguments if name not in allowed]:
        raise ValueError(f"{kind} has no argument {unknown[0]!r}; it takes {', '.join(allowed)}")
    if keeps_budgets and "switches" in arguments:
        if more := [name for name in arguments if name != "switches"]:
            raise ValueError(f"{kind} with switches settles {more[0]} itself; give one of them")
        return dict(arguments)
    defaults = {
        name: default
        for name, default in known.items()
        if default is not inspect.Parameter.empty and default is not None and name not in SETTLED
    }
    needed = [
        name
        for name, default in known.items()
        if default is inspect.Parameter.empty and name not in (*arguments, *SETTLED)
    ]
    if needed:
        instead = " or switches" if keeps_budgets else ""
        raise ValueError(f"{kind} needs {needed[0]}{instead}")
    return defaults | dict(arguments)


def make_schedule(
    kind: str, arguments: Mapping[str, Any], task: Task, *, ridge: float = 1.0
) -> Schedule:
    """Return the rule of that name for a task.

    >>> task = Task(dim=2, horizon=3, episodes=100)
    >>> make_schedule("uniform-grid", {"switches": 4}, task)
    UniformGrid(episodes=100, batches=5, spread='last')
    """
    cls = find(kind)
    given = complete(kind, arguments)
    known = _parameters(cls)
    if "switches" in given and "switches" not in known:
        return checked_schedule(cls.for_budget(task, switches=given["switches"], ridge=ridge))
    settled = vars(task) | {"ridge": ridge}
    if isinstance(inner := given.get("schedule"), Mapping):
        rest = {name: value for name, value in inner.items() if name != "kind"}
        given["schedule"] = make_schedule(inner.get("kind", ""), rest, task, ridge=ridge)
    return checked_schedule(
        cls(**{name: settled[name] for name in SETTLED if name in known} | given)
    )


def make_exploration(kind: str, arguments: Mapping[str, Any]) -> Exploration:
    """Return the exploration of that name.

    >>> make_exploration("perturbation", {"sigma": 0.1})
    Perturbation(sigma=0.1, draws=10, estimate=False)
    """
    explores: Exploration = find(kind, EXPLORATIONS)(**complete(kind, arguments, EXPLORATIONS))
    return explores


def written(thing: Any, settled: Mapping[str, Any] | None = None) -> str:
    """Return a rule or exploration as it is written on the command line.

    Left out is what the reader settles in the same way: `settled`, or else all that a task settles.

    >>> from rareswitch.core.schedule import UniformGrid
    >>> written(UniformGrid(episodes=100, batches=5))
    'uniform-grid,batches=5'
    """
    plain = describe(thing)
    known = _parameters(type(thing))
    said = {}
    for name, value in plain.items():
        if name in SETTLED:
            understood = settled is None or value == settled.get(name)
        else:
            understood = name == "kind" or value == known.get(name)
        if not understood:
            said[name] = value
    if "schedule" in said:
        raise ValueError(f"{plain['kind']} cannot be written in one word; use Python or TOML")
    parts = (f"{k}={json.dumps(value, separators=(',', ':'))}" for k, value in said.items())
    return ",".join([plain["kind"], *parts])


def _parameters(cls: type[Any]) -> dict[str, Any]:
    """Return the arguments of a class with their defaults."""
    return {name: p.default for name, p in inspect.signature(cls).parameters.items()}
