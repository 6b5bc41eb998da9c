"""What is agreed before the first episode, and never changes without a reason on record."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any

from rareswitch.campaigns.record.canonical import canonical, digest_of
from rareswitch.campaigns.record.names import checked_digest, checked_name
from rareswitch.campaigns.stopping.rules import StoppingRule, plain_rule, rule_of
from rareswitch.campaigns.terms import Approval, FeatureName, Intake
from rareswitch.core.clock import Schedule, checked_schedule
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task, planned_episodes
from rareswitch.learning.learner import Learner
from rareswitch.learning.snapshot import describe_recipe
from rareswitch.rules.words import describe, make_exploration, make_schedule
from rareswitch.statistics import History, history_of
from rareswitch.support.arguments import set_fields, short_repr, whole

FORMAT = 1
RECIPE_KEYS = tuple(part.name for part in fields(Recipe))
TASK_KEYS = (*(part.name for part in fields(Task)), "actions")
# What an amendment may change: nothing that statistics of recorded episodes depend on.
AMENDABLE = ("episodes", "schedule", "budget", "approval", "intake", "stopping")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Task, recipe, schedule and budget, who approves, what is taken and what ends it.

    `budget` is the most deployments after the first; rollbacks are counted apart. `simulation` is
    the digest of the report of a simulation that was made beforehand.

    >>> from rareswitch import UniformGrid
    >>> protocol = Protocol(
    ...     name="doors",
    ...     task=Task(dim=2, horizon=1, episodes=30),
    ...     schedule=UniformGrid(batches=3),
    ...     budget=2,
    ... )
    >>> Protocol.from_plain(protocol.plain) == protocol, protocol.digest[:12]
    (True, '...')
    """

    name: str
    task: Task
    schedule: Schedule
    budget: int
    recipe: Recipe = field(default_factory=Recipe)
    actions: tuple[str, ...] = ()
    features: FeatureName | None = None
    approval: Approval = field(default_factory=Approval)
    intake: Intake = field(default_factory=Intake)
    stopping: tuple[StoppingRule, ...] = ()
    simulation: str = ""

    def __post_init__(self) -> None:
        checked_name("name", self.name)
        if not isinstance(self.task, Task) or not isinstance(self.recipe, Recipe):
            raise TypeError(
                f"task and recipe must be a Task and a Recipe; got {short_repr(self.task)} and "
                f"{short_repr(self.recipe)}"
            )
        planned_episodes(self.task, "a campaign")
        if not all(isinstance(name, str) and name for name in self.actions):
            raise TypeError(f"actions must be names; got {short_repr(self.actions)}")
        if self.simulation:
            checked_digest("simulation", self.simulation)
        set_fields(
            self,
            schedule=checked_schedule(self.schedule, self.task),
            budget=whole("budget", self.budget, least=0),
            actions=tuple(self.actions),
            stopping=tuple(self.stopping),
        )
        self.learner()  # refuses what does not fit together

    def learner(self) -> Learner:
        """Return a learner that has seen nothing, with version 1 in force."""
        return Learner(self.task, self.schedule, self.recipe)

    @property
    def episodes(self) -> int:
        """The number of planned episodes, which a campaign always has."""
        return planned_episodes(self.task, "a campaign")

    @cached_property
    def no_data(self) -> History:
        """The history of no episode, which knows what an episode of this task must be."""
        return history_of(self.task, self.recipe.ridge)

    @cached_property
    def plain(self) -> dict[str, Any]:
        """All of it as plain values, the tables of a TOML file."""
        tables: dict[str, Any] = {
            "format": FORMAT,
            "name": self.name,
            "task": asdict(self.task) | ({"actions": list(self.actions)} if self.actions else {}),
            "recipe": describe_recipe(self.recipe),
            "schedule": describe(self.schedule),
            "budget": {"deployments": self.budget},
            "approval": vars(self.approval),
            "intake": vars(self.intake),
        }
        if self.features is not None:
            tables["features"] = vars(self.features)
        if self.stopping:
            tables["stopping"] = [plain_rule(rule) for rule in self.stopping]
        if self.simulation:
            tables["simulation"] = {"digest": self.simulation}
        return tables

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text of `plain`."""
        return digest_of(canonical(self.plain))

    def to_toml(self) -> str:
        """Return what `from_toml` reads; what is None is left out.

        >>> from rareswitch import EveryEpisode
        >>> task = Task(dim=2, horizon=1, episodes=30)
        >>> protocol = Protocol(name="doors", task=task, schedule=EveryEpisode(), budget=29)
        >>> print(protocol.to_toml()[:25])
        format = 1
        name = "doors"
        >>> Protocol.from_toml(protocol.to_toml()) == protocol
        True
        """
        import tomli_w

        return tomli_w.dumps(_without_none(self.plain))

    @classmethod
    def from_toml(cls, text: str) -> "Protocol":
        """Read a protocol; an error names the table and the key."""
        try:
            plain = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"a protocol must be TOML; {error}") from None
        return cls.from_plain(plain)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Protocol":
        """Read what `plain` returned, or the tables of a TOML file, where much may be left out."""
        tables = _known(plain, "", TABLES)
        if whole("format", tables.get("format", FORMAT), least=1) != FORMAT:
            raise ValueError(f"format must be {FORMAT}; got {tables['format']}")
        for needed in ("name", "task", "schedule", "budget"):
            if needed not in tables:
                raise ValueError(f"a protocol needs {needed}; it has {', '.join(tables) or 'none'}")
        given = {name: _known(tables.get(name, {}), name, keys) for name, keys in KEYS.items()}
        with _reading("task"):
            sizes = {key: given["task"].pop(key) for key in TASK_SIZES if key in given["task"]}
            if missing := [key for key in ("dim", "horizon", "episodes") if key not in sizes]:
                raise ValueError(f"needs {missing[0]}")
            task = Task(**sizes)
        with _reading("recipe"):
            recipe = _recipe(given["recipe"])
        schedule = _table(tables["schedule"], "schedule")
        with _reading("schedule"):
            kind = schedule.pop("kind", None)
            made = make_schedule(kind, schedule, task, ridge=recipe.ridge)
        with _reading("budget"):
            if "deployments" not in given["budget"]:
                raise ValueError("needs deployments, the most after the first")
            budget = whole("deployments", given["budget"]["deployments"], least=0)
        parts: dict[str, Any] = {}
        for name, part in (("approval", Approval), ("intake", Intake)):
            with _reading(name):
                parts[name] = part(**given[name])
        if "features" in tables:
            with _reading("features"):
                parts["features"] = FeatureName(**{"name": None} | given["features"])
        stopping = tables.get("stopping", [])
        if not isinstance(stopping, list):
            raise TypeError(
                f"stopping must be a list of tables, [[stopping]]; got {short_repr(stopping)}"
            )
        rules = []
        for number, rule in enumerate(stopping, start=1):
            with _reading(f"stopping, number {number}"):
                rules.append(rule_of(_table(rule, "stopping")))
        if "actions" in given["task"] and not isinstance(given["task"]["actions"], list):
            raise TypeError(f"[task] actions must be a list; got {given['task']['actions']!r}")
        with _reading("task"):
            return cls(
                name=tables["name"],
                task=task,
                recipe=recipe,
                schedule=made,
                budget=budget,
                stopping=tuple(rules),
                simulation=given["simulation"].get("digest", ""),
                actions=tuple(given["task"].get("actions", ())),
                **parts,
            )

    def amended(self, changes: Mapping[str, Any]) -> "Protocol":
        """Return the next revision: the tables given replace those that they name.

        `episodes` stands for [task] episodes. What recorded episodes were counted by cannot be
        amended.

        >>> from rareswitch import UniformGrid
        >>> first = Protocol(
        ...     name="doors", task=Task(dim=2, horizon=1, episodes=30),
        ...     schedule=UniformGrid(batches=3), budget=2,
        ... )
        >>> first.amended({"budget": {"deployments": 4}, "episodes": 60}).schedule
        UniformGrid(batches=3, spread='last')
        """
        if unknown := [name for name in changes if name not in AMENDABLE]:
            raise ValueError(
                f"an amendment may change {', '.join(AMENDABLE)} only; got {unknown[0]}"
            )
        if not changes:
            raise ValueError("an amendment must change something; got nothing")
        tables = dict(self.plain)
        given = dict(changes)
        if "episodes" in given:
            tables["task"] = tables["task"] | {"episodes": given.pop("episodes")}
        amended = Protocol.from_plain(tables | given)
        if amended == self:
            raise ValueError("an amendment must change something; this one is the same protocol")
        return amended

    def with_simulation(self, report: bytes) -> "Protocol":
        """Return the protocol with the digest of a simulation's report."""
        return replace(self, simulation=digest_of(report))


TABLES = (
    "format", "name", "task", "recipe", "schedule", "budget", "approval", "intake", "features",
    "stopping", "simulation",
)  # fmt: skip
TASK_SIZES = tuple(part.name for part in fields(Task))
KEYS = {
    "task": TASK_KEYS,
    "recipe": RECIPE_KEYS,
    "budget": ("deployments",),
    "approval": tuple(part.name for part in fields(Approval)),
    "intake": tuple(part.name for part in fields(Intake)),
    "features": tuple(part.name for part in fields(FeatureName)),
    "simulation": ("digest",),
}


@lru_cache(maxsize=64)
def protocol_of(text: str) -> Protocol:
    """Return the protocol of a canonical text: a ledger is read more often than it is amended."""
    return Protocol.from_plain(json.loads(text))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name or 'a protocol'} must be a table; got {short_repr(value)}")
    return dict(value)


def _known(value: Any, name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a table, if all its keys are known."""
    table = _table(value, name)
    if unknown := [key for key in table if key not in keys]:
        where = f"[{name}]" if name else "a protocol"
        raise ValueError(f"{where} has no key {unknown[0]!r}; it takes {', '.join(keys)}")
    return table


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Let an error about a key say in which table it is."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"[{name}] {error}") from None


def _recipe(table: dict[str, Any]) -> Recipe:
    exploration = _table(table.pop("exploration", {"kind": "ensemble"}), "exploration")
    kind = exploration.pop("kind", None)
    if isinstance(seed := table.get("seed"), list):
        table["seed"] = tuple(seed)
    return Recipe(exploration=make_exploration(kind, exploration), **table)
