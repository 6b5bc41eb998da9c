"""Experiments as objects: arms, worlds, rounds and episodes.

A spec is a table from TOML or from the manifest of a folder of results. It is read once: an arm
then holds its rule, its recipe and its world. The canonical form of a spec is JSON with every
default filled in, and its digest is the SHA-256 of this JSON: two specs with the same meaning have
the same digest.
"""

import hashlib
import inspect
import json
import re
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from rareswitch.core.exploration import is_paper_bonus
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.experiments.algorithms import ALGORITHMS, KINDS, Algorithm, Scheduled
from rareswitch.experiments.worlds import (
    Simulated,
    World,
    build_world,
    check_keys,
    check_type,
    read_world,
)
from rareswitch.rules import words
from rareswitch.rules.table import EXPLORATIONS, Row
from rareswitch.support.arguments import flag, short_repr, whole
from rareswitch.support.imports import load_module

ARM_KEYS = (
    "name", "label", "schedule", "world", "exploration", "beta", "ridge", "ties", "initial_state",
    "measure_radius",
)  # fmt: skip
PACKAGE = str(Path(__file__).parents[1])
Words = dict[str, Any]


class Unloaded:
    """A user's rule or exploration in results: reading results imports no code."""

    beta, members, draws, estimate, perturbations = 0.0, 1, 0, False, None


@dataclass(frozen=True, kw_only=True, eq=False)
class Arm:
    """One algorithm with its settings on one world.

    `rule` is a schedule, a `ForBudget` that makes a schedule for a task, or an algorithm, and
    `schedule` is its table. `measure_radius` also measures, at every fit, the smallest β for which
    the concentration lemma holds. Users' code may also be in `folders`, and is imported only from
    modules in `allow`. An arm is pickled as its table: another process imports the code by name.
    """

    name: str
    label: str
    family: Row  # the class, name and label of the rule
    rule: Any
    schedule: Words
    recipe: Recipe
    exploration: Words
    world: World
    initial_state: int | str
    measure_radius: bool
    folders: tuple[str, ...]
    allow: tuple[str, ...]

    @cached_property
    def words(self) -> Words:
        """The table of the arm, every default filled in."""
        keys = ("name", "label", "schedule", "exploration", "initial_state", "measure_radius")
        recipe = {"ridge": self.recipe.ridge, "ties": self.recipe.ties}
        return {key: getattr(self, key) for key in keys} | recipe | {"world": self.world.words()}

    @cached_property
    def setting(self) -> str:
        """The canonical form of all settings that determine the arm's numbers."""
        return canonical_json({k: v for k, v in self.words.items() if k not in ("name", "label")})

    @cached_property
    def own_names(self) -> tuple[str, ...]:
        """The names module:name of the user's own code."""
        world = self.world.own_names() if isinstance(self.world, Simulated) else []
        return (*words.own_kinds(self.schedule), *words.own_kinds(self.exploration), *world)

    @property
    def simulated(self) -> bool:
        """Whether its world is simulated; then its returns are measured, else its regret."""
        return isinstance(self.world, Simulated)

    @property
    def scheduled(self) -> bool:
        """Whether it plays LSVI under a switching rule."""
        return self.family not in ALGORITHMS

    @property
    def learns(self) -> bool:
        return getattr(self.family.cls, "learns", True)

    @property
    def dated(self) -> bool:
        """Whether it has a rule of the package whose dates are fixed in advance."""
        return self.family in KINDS and hasattr(self.family.cls, "upcoming")

    @property
    def has_paper_bonus(self) -> bool:
        """Whether it explores by the paper's bonus: one member, declared noise and ridge."""
        return self.scheduled and is_paper_bonus(self.recipe.exploration)

    @property
    def members(self) -> int:
        """The number of members of its policies; 1 without mixtures."""
        return self.recipe.exploration.members if self.scheduled else 1

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers among the arguments of its rule, such as batches."""
        return {key: value for key, value in self.schedule.items() if type(value) in (int, float)}

    def task(self, *, episodes: int, seed: int) -> Task:
        """Return the task of the arm in its first round."""
        if isinstance(self.world, Simulated):
            return self.simulator(episodes).task
        return build_world(self.world, (seed, 0)).task(episodes=episodes)

    def simulator(self, episodes: int) -> Any:
        """Return the simulator of a simulated world; it has a `task`."""
        assert isinstance(self.world, Simulated)
        return self.world.simulator(episodes=episodes, folders=self.folders, allow=self.allow)

    def algorithm(self, task: Task) -> Algorithm:
        """Return the algorithm that the arm plays in a task."""
        rule = self.rule
        if not self.scheduled:
            return rule
        if isinstance(rule, words.ForBudget):
            rule = rule.rule(task, self.recipe.ridge)
        return Scheduled(schedule=rule, recipe=self.recipe, measure_radius=self.measure_radius)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arm) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.setting)

    def __reduce__(self) -> tuple[Any, ...]:
        unloaded = any(isinstance(x, Unloaded) for x in (self.rule, self.recipe.exploration))
        return read_arm, (self.words, self.folders, self.allow, not unloaded)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A named set of arms; in each round all arms have the same worlds and the same noise."""

    name: str
    title: str
    about: str = ""
    figure: str = "regret"
    rounds: int
    episodes: int
    seed: int = 0
    arms: tuple[Arm, ...]

    def __post_init__(self) -> None:
        _check_name(self.name, "a-z, 0-9 and -", r"[a-z0-9][a-z0-9-]*")
        if self.name == "pieces":
            raise ValueError("name must not be 'pieces', the folder of finished pieces")
        _check_formula("title", check_type("title", self.title, str))
        check_type("about", self.about, str)
        whole("rounds", self.rounds, least=1, most=100_000)
        whole("episodes", self.episodes, least=1)
        whole("seed", self.seed, least=0)
        if not self.arms:
            raise ValueError("arms must not be empty")
        if len({arm.simulated for arm in self.arms}) > 1:
            raise ValueError(
                "arms must be all on known worlds, which measure regret, or all on simulated "
                "worlds, which measure returns"
            )
        names = [arm.name for arm in self.arms]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"arms must have different names; {', '.join(twice)} comes twice")

    @property
    def measure(self) -> str:
        """The measure of arms: "regret", or "return" in simulated worlds."""
        return "return" if self.arms[0].simulated else "regret"

    @cached_property
    def words(self) -> Words:
        """The table of the experiment, every default filled in."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return parts | {"arms": [arm.words for arm in self.arms]}

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(canonical_json(self.words).encode()).hexdigest()


class ArmError(RuntimeError):
    """An error in a user's rule or world; the message names the place."""


def read_experiment(
    table: Mapping[str, Any],
    folders: Sequence[str] = (),
    allow: Collection[str] = (),
    import_code: bool = True,
) -> Experiment:
    """Return the experiment of a table; errors name the arm and the key.

    Users' code may also be in `folders`, and `allow` must have its module; without `import_code` it
    is not imported.
    """
    keys = [part.name for part in fields(Experiment)]
    check_keys("an experiment", table, keys, ("name", "title", "rounds", "episodes", "arms"))
    arms = []
    for arm in table["arms"]:
        try:
            arms.append(read_arm(arm, folders, allow, import_code))
        except (TypeError, ValueError, OverflowError, ArmError) as error:
            raise ValueError(f"arm {arm.get('name')!r}: {error}") from None
    return Experiment(**{**table, "arms": tuple(arms)})


def read_arm(
    table: Mapping[str, Any],
    folders: Sequence[str] = (),
    allow: Collection[str] = (),
    import_code: bool = True,
) -> Arm:
    """Return the arm of a table.

    `beta = b` is short for the exploration { kind = "bonus", beta = b }; without both, the arm
    deploys the mixture without tuning.
    """
    check_keys("an arm", table, ARM_KEYS, ("name", "schedule", "world"))
    if "beta" in table and "exploration" in table:
        raise ValueError(
            "beta and exploration exclude each other; beta = b is short for "
            'exploration = { kind = "bonus", beta = b }'
        )
    bonus = {"kind": "bonus", "beta": table["beta"]} if "beta" in table else {"kind": "ensemble"}
    chosen = table.get("exploration", bonus)
    code = (folders, allow, import_code)
    explores, explored, _ = _read_choice("exploration", chosen, EXPLORATIONS, *code)
    rule, schedule, family = _read_choice("schedule", table["schedule"], KINDS, *code)
    recipe = {key: table[key] for key in ("ridge", "ties") if key in table}
    start = table.get("initial_state", 0)
    if start != "uniform" and (not isinstance(start, int) or isinstance(start, bool)):
        raise ValueError(f'initial_state must be a state or "uniform"; got {short_repr(start)}')
    arm = Arm(
        name=_check_name(table["name"], "a-z, 0-9, '.', '+' and -", r"[a-z0-9][a-z0-9.+-]*"),
        label=check_type("label", table.get("label", table["name"]), str),
        family=family,
        rule=rule,
        schedule=schedule,
        recipe=Recipe(exploration=explores, **recipe),
        exploration=explored,
        world=read_world(table["world"]),
        initial_state=start,
        measure_radius=flag("measure_radius", table.get("measure_radius", False)),
        folders=tuple(folders),
        allow=tuple(allow),
    )
    _check_formula("label", arm.label)
    if not arm.label or arm.label.startswith("_"):  # matplotlib leaves such labels out of legends
        raise ValueError(f"label must not be empty or begin with _; got {arm.label!r}")
    try:
        canonical_json(arm.words)
    except (TypeError, ValueError) as error:
        raise ValueError(f"values must be numbers, texts, lists or tables ({error})") from None
    return arm


def explain_error(
    error: Exception, names: Sequence[str], folders: Sequence[str], allow: Collection[str]
) -> str:
    """Return an error as a message; for users' code, with its name, file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    try:
        files = {file: name for name in names for file in own_files(name, folders, allow)}
    except Exception:  # the module itself fails when it is imported
        outside = [f.filename for f in frames if f.filename[0] != "<" and PACKAGE not in f.filename]
        files = dict.fromkeys(outside, names[0])
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    for frame in reversed(frames):
        if frame.filename in files:
            place = f"{frame.filename}, line {frame.lineno}, in {frame.name}: {frame.line}"
            return f"{files[frame.filename]} raised {said}\n  {place}"
    return str(error) if isinstance(error, ValueError) else said


def own_files(name: str, folders: Sequence[str], allow: Collection[str]) -> set[str]:
    """Return the files of the module and of the class that module:name names."""
    module = load_module(name, allow=allow, folders=folders)
    named = getattr(module, name.partition(":")[2], module)
    return {inspect.getfile(module), inspect.getfile(named if inspect.isclass(named) else module)}


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys; 2 and 2.0 are the same number."""
    return json.dumps(_shorten(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shorten(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_shorten(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read_choice(
    key: str,
    choice: Any,
    table: tuple[Row, ...],
    folders: Sequence[str],
    allow: Collection[str],
    import_code: bool = True,
) -> tuple[Any, Words, Row]:
    """Return the object of a table {kind, arguments}, its words, and its row of the table."""
    if not isinstance(choice, Mapping) or not isinstance(kind := choice.get("kind"), str):
        raise ValueError(f"{key} must be a table with a kind, a name; got {short_repr(choice)}")
    if not import_code and any(words.own_kinds(choice)):
        known = (row for row in table if row.name == kind)
        own = Row(Unloaded, kind, kind.partition(":")[2])
        return Unloaded(), dict(choice), next(known, own)
    arguments = {name: value for name, value in choice.items() if name != "kind"}
    try:
        cls = words.find_class(kind, table, folders, allow)
        made = words.read_rule(kind, arguments, table, folders, allow)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{key}: {error}") from None
    except Exception as error:  # of the constructor of a user's own class
        names = list(words.own_kinds(choice))
        raise ArmError(explain_error(error, names, folders, allow)) from None
    row = next((r for r in table if r.cls is cls), Row(cls, kind, cls.__name__))
    said: Words
    if isinstance(made, words.ForBudget):
        said = dict(arguments)
    elif row in table:
        said = words.describe(made)
    else:  # the attributes of a user's own class need not be its arguments
        bound = inspect.signature(cls).bind(**arguments)
        bound.apply_defaults()
        said = dict(bound.arguments)
    if isinstance(inner := arguments.get("schedule"), Mapping):
        said["schedule"] = _read_choice(key, inner, table, folders, allow)[1]
    return made, {**said, "kind": row.name}, row


def _check_name(name: Any, allowed: str, pattern: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        raise ValueError(
            f"name must consist of {allowed}, and begin with a letter or a digit; got "
            f"{short_repr(name)}"
        )
    if len(name) > 100:
        raise ValueError(f"name must have at most 100 characters; got {len(name)}")
    return name


def _check_formula(key: str, text: str) -> None:
    """Raise ValueError for a formula that matplotlib cannot draw."""
    from matplotlib.cbook import is_math_text
    from matplotlib.mathtext import MathTextParser

    try:
        if is_math_text(text):
            MathTextParser("path").parse(text)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{key} holds a formula that cannot be drawn ({reason})") from None
