"""Rules and explorations as text: read names and arguments, and write text or Python code.

A rule has its name in the table, or module:Class for your own rule, whose module must be in
`allow`. On the command line its arguments follow the name, `uniform-grid,batches=50`; in TOML and
JSON they are the keys of a table, {kind = "uniform-grid", batches = 50}. `switches=50` works for
every kind of rule with `for_budget` and makes the rule for this budget. A rule inside another has
slashes instead of commas: `capped,schedule=uniform-grid/batches=50,switches=9`. `first=200` and
`apart=50` make any rule wait (`rules.Waiting`).
"""

import inspect
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from rareswitch.core.clock import Schedule, checked_schedule
from rareswitch.core.exploration import Exploration
from rareswitch.core.task import Task
from rareswitch.rules.table import EXPLORATIONS, RULES, Row, row_of
from rareswitch.rules.waiting import Waiting
from rareswitch.support.arguments import did_you_mean, short_repr, whole
from rareswitch.support.imports import has_method, load_object

INNER = "/"  # separates the arguments of a rule inside another on the command line
PYTHON_WORDS = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class ForBudget:
    """A kind of rule and a budget; a task determines the rule.

    It may also be a rule around such a rule, for example a cap: `arguments` then have the inner
    `ForBudget` as schedule.
    """

    cls: type[Any]
    arguments: Mapping[str, Any]

    def rule(self, task: Task, ridge: float = 1.0) -> Schedule:
        """Return the rule that keeps the budget in this task."""
        made: Schedule
        if isinstance(inner := self.arguments.get("schedule"), ForBudget):
            made = self.cls(**dict(self.arguments) | {"schedule": inner.rule(task, ridge)})
        else:
            made = self.cls.for_budget(task, **self.arguments, ridge=ridge)
        return made


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Parse the name and the arguments of a rule from the command line.

    >>> parse("determinant-growth,eta=2")
    ('determinant-growth', {'eta': 2})
    """
    name, *parts = re.split(r",(?![^\[]*\])", text)  # at commas outside lists
    arguments: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier() or key in arguments:
            raise ValueError(
                f"{text!r} must be a name and its arguments, as in uniform-grid,batches=50; "
                f"{part!r} is not key=value"
            )
        try:
            arguments[key] = json.loads(value)
        except ValueError:
            arguments[key] = PYTHON_WORDS.get(value, value)
    return name, arguments


def find_class(
    name: str,
    table: tuple[Row, ...] = RULES,
    folders: Sequence[str] = (),
    allow: Collection[str] = (),
) -> type[Any]:
    """Return the class with this name in the table, or module:Class if `allow` has the module.

    A user's class must have the method of a schedule (`due`) or of an exploration
    (`perturbations`). Its constructor may set all other parts; they are checked afterwards.

    >>> find_class("uniform-grid").__name__
    'UniformGrid'
    """
    if not isinstance(name, str):
        raise TypeError(f"kind must be a name; got {name!r}")
    for row in table:
        if row.name == name:
            return row.cls
    if ":" not in name:
        names = ", ".join(row.name for row in table)
        meant = did_you_mean(name, [row.name for row in table])
        raise ValueError(f"kind must be one of {names}, or module:Class; got {name!r}{meant}")
    try:
        found = load_object(name, allow=allow, folders=folders)
    except ValueError as error:
        raise type(error)(f"kind {error}") from None
    method = "perturbations" if table is EXPLORATIONS else "due"
    if not isinstance(found, type) or not has_method(found, method):
        raise ValueError(
            f"kind {name!r} must be a class with a method {method}; it is {short_repr(found)}"
        )
    return found


def read_rule(
    kind: str,
    arguments: Mapping[str, Any],
    table: tuple[Row, ...] = RULES,
    folders: Sequence[str] = (),
    allow: Collection[str] = (),
) -> Any:
    """Return the rule of a kind with these arguments, or a `ForBudget` for a budget of switches.

    `first` and `apart` put the rule inside one that waits.

    >>> read_rule("uniform-grid", {"batches": 5})
    UniformGrid(batches=5, spread='last')
    >>> read_rule("uniform-grid", {"switches": 4}).rule(Task(dim=2, horizon=3, episodes=100))
    UniformGrid(batches=5, spread='last')
    """
    code = folders, allow
    cls = find_class(kind, table, *code)
    known = inspect.signature(cls).parameters
    waits = {name: arguments[name] for name in ("first", "apart") if name in arguments}
    if waits and table is RULES and not waits.keys() & known.keys():
        rest = {name: value for name, value in arguments.items() if name not in waits}
        return read_rule("waiting", {"schedule": {"kind": kind, **rest}, **waits}, table, *code)
    keeps_budgets = hasattr(cls, "for_budget") and "switches" not in known
    allowed = [*known, *(["switches"] if keeps_budgets else [])]
    if unknown := [name for name in arguments if name not in allowed]:
        takes = [*allowed, *(["first", "apart"] if table is RULES and "first" not in known else [])]
        meant = did_you_mean(unknown[0], takes)
        raise ValueError(
            f"{kind} has no argument {unknown[0]!r}; it takes {', '.join(takes)}{meant}"
        )
    if keeps_budgets and "switches" in arguments:
        if more := [name for name in arguments if name != "switches"]:
            raise ValueError(f"{kind} takes switches or {more[0]}, not both")
        return ForBudget(cls, {"switches": whole("switches", arguments["switches"], least=0)})
    required = [name for name, one in known.items() if one.default is inspect.Parameter.empty]
    if needed := [name for name in required if name not in arguments]:
        instead = " or switches" if keeps_budgets else ""
        raise ValueError(f"{kind} needs {needed[0]}{instead}")
    given = dict(arguments)
    if isinstance(inner := given.get("schedule"), str):
        name, its_own = parse(inner.replace(INNER, ","))
        inner = {"kind": name, **its_own}
    if isinstance(inner, Mapping):
        rest = {name: value for name, value in inner.items() if name != "kind"}
        given["schedule"] = made = read_rule(inner.get("kind", ""), rest, table, *code)
        if isinstance(made, ForBudget):
            return ForBudget(cls, given)
    return cls(**given)


def make_schedule(
    kind: str,
    arguments: Mapping[str, Any],
    task: Task,
    *,
    ridge: float = 1.0,
    folders: Sequence[str] = (),
    allow: Collection[str] = (),
) -> Schedule:
    """Return the rule of that kind, checked against the task.

    >>> make_schedule("uniform-grid", {"switches": 4}, Task(dim=2, horizon=3, episodes=100))
    UniformGrid(batches=5, spread='last')
    """
    rule = read_rule(kind, arguments, folders=folders, allow=allow)
    if isinstance(rule, ForBudget):
        rule = rule.rule(task, ridge)
    schedule: Schedule = checked_schedule(rule, task)
    return schedule


def make_exploration(
    kind: str, arguments: Mapping[str, Any], *, allow: Collection[str] = ()
) -> Exploration:
    """Return the exploration of that kind.

    >>> make_exploration("perturbation", {"scale": 0.1})
    Perturbation(scale=0.1, draws=10, estimate=False)
    """
    explores: Exploration = read_rule(kind, arguments, EXPLORATIONS, allow=allow)
    return explores


def own_kinds(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the kinds module:Class of a table {kind, arguments} and of tables within it.

    >>> list(own_kinds({"kind": "capped", "schedule": {"kind": "my_rules:Weekly"}}))
    ['my_rules:Weekly']
    """
    for key, value in table.items():
        if key == "kind" and isinstance(value, str) and ":" in value:
            yield value
        elif isinstance(value, Mapping):
            yield from own_kinds(value)


def describe(thing: Any) -> dict[str, Any]:
    """Return {"kind": name, arguments} of a rule or exploration, for JSON.

    The arguments are the fields of a dataclass, or the attributes of any other object.

    >>> from rareswitch.rules.budget import Capped
    >>> from rareswitch.rules.paper import UniformGrid
    >>> describe(Capped(UniformGrid(batches=3), switches=1))["schedule"]["kind"]
    'uniform-grid'
    """
    return _describe(thing, ())


def _describe(thing: Any, around: tuple[Any, ...]) -> dict[str, Any]:
    """Describe an object; `around` are the objects that contain it."""
    if isinstance(thing, ForBudget):
        return {"kind": row_of(thing.cls).name} | {
            name: describe(value) if isinstance(value, ForBudget) else _json_value(value)
            for name, value in thing.arguments.items()
        }
    words: dict[str, Any] = {"kind": row_of(thing).name}
    if any(thing is one for one in around):
        return words  # a reference cycle
    state = {n: _json_value(value, (*around, thing)) for n, value in _state(thing).items()}
    return words | state | words  # an attribute named kind must not replace the class


def rebuild(words: Any) -> Any:
    """Return the object of a description, or raise ValueError if its class is not in the table."""
    if not isinstance(words, dict) or not isinstance(words.get("kind"), str):
        raise ValueError(f"a rule must be described by its kind and arguments; got {words!r}")
    arguments = {name: value for name, value in words.items() if name != "kind"}
    for row in (*RULES, *EXPLORATIONS):
        if row.name == words["kind"]:
            nested = {k: rebuild(v) if isinstance(v, dict) else v for k, v in arguments.items()}
            return row.cls(**nested)
    raise ValueError(f"kind must be a rule or an exploration of the package; got {words['kind']!r}")


def to_words(thing: Any) -> str:
    """Return the text of a rule or exploration for the command line, without default arguments.

    >>> from rareswitch.rules.paper import UniformGrid
    >>> to_words(UniformGrid(batches=5))
    'uniform-grid,batches=5'
    """
    words = describe(thing)
    defaults = {
        name: one.default for name, one in inspect.signature(type(thing)).parameters.items()
    }
    said = {
        name: value
        for name, value in words.items()
        if name != "kind" and value != defaults.get(name, MISSING)
    }
    if isinstance(thing, Waiting):
        waits = [f"{name}={said[name]}" for name in ("first", "apart") if name in said]
        return ",".join([to_words(thing.schedule), *waits])
    parts = {k: json.dumps(value, separators=(",", ":")) for k, value in said.items()}
    if "schedule" in said:
        inner = to_words(thing.schedule)
        if INNER in inner or row_of(thing.schedule) not in RULES:
            raise ValueError(f"{words['kind']} cannot be written in one word; use Python or TOML")
        parts["schedule"] = inner.replace(",", INNER)
    return ",".join([words["kind"], *(f"{k}={value}" for k, value in parts.items())])


def to_python(thing: Any) -> str:
    """Return Python code that makes a rule or an exploration, with rareswitch imported as rs.

    >>> from rareswitch.rules.paper import DeterminantGrowth
    >>> to_python(DeterminantGrowth(eta=2.0))
    'rs.DeterminantGrowth(eta=2.0)'
    """
    cls = type(thing)
    if is_dataclass(thing):
        said = ", ".join(f"{key}={to_python(value)}" for key, value in _changed(thing).items())
        return f"{_home(cls)}{cls.__name__}({said})"
    text = repr(thing)
    return f"{cls.__name__}(…)" if text.startswith("<") else text  # unknown arguments


def imports_of(thing: Any) -> set[str]:
    """Return the import lines that the code of `to_python` needs in addition to rs."""
    parts = _state(thing).values() if is_dataclass(thing) else ()
    lines = {line for part in parts for line in imports_of(part)}
    cls = type(thing)
    if not _home(cls) and cls.__module__ not in ("builtins", "__main__"):
        lines.add(f"from {cls.__module__} import {cls.__name__}")
    return lines


def _home(cls: type[Any]) -> str:
    """Return the prefix of a class of the package, "rs." or "rs.rules.", or an empty string."""
    import rareswitch

    if getattr(rareswitch, cls.__name__, None) is cls:
        return "rs."
    return "rs.rules." if any(row.cls is cls for row in (*RULES, *EXPLORATIONS)) else ""


def _state(thing: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, or the attributes of any other object."""
    if is_dataclass(thing) and not isinstance(thing, type):
        return {field.name: getattr(thing, field.name) for field in fields(thing)}
    slots = [name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ())]
    return getattr(thing, "__dict__", {}) | {
        n: getattr(thing, n) for n in slots if hasattr(thing, n)
    }


def _changed(thing: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    return {
        field.name: getattr(thing, field.name)
        for field in fields(thing)
        if _json_value(getattr(thing, field.name)) != _json_value(field.default)
    }


def _json_value(part: Any, around: tuple[Any, ...] = ()) -> Any:
    """Return a value for JSON: the argument itself, its description, or its repr.

    It contains no address and does not depend on the order of a set.
    """
    if isinstance(part, tuple | list):
        return [_json_value(value, around) for value in part]
    if isinstance(part, set | frozenset):
        return sorted((_json_value(value, around) for value in part), key=repr)
    if isinstance(part, dict):
        return {str(key): _json_value(value, around) for key, value in part.items()}
    if isinstance(part, np.ndarray | np.generic):
        return _json_value(part.tolist())
    if part is None or isinstance(part, bool | int | str):
        return part
    if isinstance(part, float):
        return part if math.isfinite(part) else repr(part)
    if callable(part) and hasattr(part, "__qualname__"):
        return f"{part.__module__}:{part.__qualname__}"
    if is_dataclass(part) or " at 0x" in repr(part):
        return _describe(part, around)
    return repr(part)
