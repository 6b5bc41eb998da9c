"""The protocol: the terms agreed before the first episode; only recorded amendments change it."""

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.rulebook.approval import Approval
from rareswitch.campaigns.rulebook.calibration import uncalibrated
from rareswitch.campaigns.rulebook.names import checked_digest, checked_name, checked_names
from rareswitch.campaigns.rulebook.rows import canonical, digest_of, without_none
from rareswitch.campaigns.rulebook.stopping import (
    AGAINST_CONTROL,
    StoppingRule,
    plain_rule,
    rule_of,
)
from rareswitch.campaigns.rulebook.terms import (
    AMENDABLE,
    AnalysisTerms,
    FeatureTerms,
    Intake,
)
from rareswitch.core.clock import Schedule, checked_schedule
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task, planned_episodes
from rareswitch.learning.learner import Learner
from rareswitch.learning.snapshot import describe_recipe, rebuild_control
from rareswitch.rules.words import describe, make_exploration, make_schedule
from rareswitch.support.arguments import flag, set_fields, short_repr, whole

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Task, recipe, schedule and budget, approval, intake, stopping rules and analysis.

    `budget` is the largest number of deployments after the first; rollbacks do not count.
    `simulation` is the digest of the report of an earlier simulation. `public` lets everybody see
    the campaign's status, without outcomes by version.

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
    features: FeatureTerms | None = None
    approval: Approval = field(default_factory=Approval)
    intake: Intake = field(default_factory=Intake)
    stopping: tuple[StoppingRule, ...] = ()
    simulation: str = ""
    analysis: AnalysisTerms | None = None
    public: bool = False

    def __post_init__(self) -> None:
        checked_name("name", self.name)
        if not isinstance(self.task, Task) or not isinstance(self.recipe, Recipe):
            raise TypeError(
                f"task and recipe must be a Task and a Recipe; got {short_repr(self.task)} and "
                f"{short_repr(self.recipe)}"
            )
        planned_episodes(self.task, "a campaign")
        actions = checked_names("actions", self.actions)
        if self.features is not None and self.features.columns and not actions:
            raise ValueError("actions must be named if [features] has columns; got none")
        if self.simulation:
            checked_digest("simulation", self.simulation)
        if self.analysis is not None:
            if not isinstance(self.analysis, AnalysisTerms):
                raise TypeError(f"analysis must be AnalysisTerms; got {short_repr(self.analysis)}")
            self.analysis.check_columns(_columns(self.features))
        set_fields(
            self,
            schedule=checked_schedule(self.schedule, self.task),
            budget=whole("budget", self.budget, least=0),
            actions=actions,
            stopping=tuple(self.stopping),
            public=flag("public", self.public),
        )
        self._check_possible()
        control = self.recipe.control
        if self.actions and control is not None and control.action is not None:
            whole("control", control.action, least=0, most=len(self.actions) - 1)
        self.learner()  # raises if the recipe does not fit the task

    def _check_possible(self) -> None:
        """Refuse terms that can never be met, or that contradict each other."""
        control, floor = self.recipe.control, self.recipe.floor
        for rule in self.stopping:
            if isinstance(rule, AGAINST_CONTROL) and (
                control is None or control.share + floor >= 1.0
            ):
                shares = "" if control is None else f"share {control.share:g} and floor {floor:g}"
                raise ValueError(
                    f"stopping rule {rule.name} needs a control, [recipe] control, that leaves a "
                    f"share to learned members; got {shares or 'no control'}"
                )
            try:
                rule.check(self.task.horizon, self.episodes)
            except ValueError as error:
                raise ValueError(f"stopping rule {rule.name}: {error}") from None
        names = [rule.name for rule in self.stopping if isinstance(rule, AGAINST_CONTROL)]
        if again := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"stopping must have one rule {again[0]}; got {len(again)}")
        inner: Any = self.schedule
        while not hasattr(inner, "switches") and hasattr(inner, "schedule"):
            inner = inner.schedule  # the budget of an inner rule
        switches = getattr(inner, "switches", None)
        if isinstance(switches, int) and switches > self.budget:
            raise ValueError(
                f"budget must be at least {switches}, the switches that the schedule may make; got "
                f"{self.budget}"
            )

    def check_artifacts(self, artifacts: Mapping[str, bytes]) -> None:
        """Refuse a simulation or a feature map whose digest differs from the protocol's."""
        columns = self.features.columns if self.features is not None else ()
        wanted = {
            "simulation": self.simulation,
            "features": self.features.digest if self.features and columns else "",
        }
        for kind, digest in wanted.items():
            given = digest_of(artifacts[kind]) if kind in artifacts else ""
            if given != digest:
                raise NotAllowedError(
                    f"{kind} must be the file with the protocol's digest, {digest or 'none'}; got "
                    f"{given or 'none'}"
                )
        if (why := uncalibrated(self.stopping, artifacts.get("simulation"))) is not None:
            raise NotAllowedError(why)
        if "simulation" in artifacts:
            self._check_simulation(artifacts["simulation"])

    def _check_simulation(self, report: bytes) -> None:
        """Refuse a plan's report that recommends another schedule."""
        try:
            plan = json.loads(report)
            if isinstance(plan.get("designs"), dict):
                return self._check_designs(plan["designs"])
            options = {option["name"]: option["schedule"] for option in plan["options"]}
            planned = options[plan["recommended"]]
        except (ValueError, LookupError, TypeError, AttributeError):
            return  # the report of another program
        if planned not in (schedule := describe(self.schedule), None):
            raise NotAllowedError(
                f"simulation must be of the protocol's schedule, {schedule}; its plan recommends "
                f"{planned}"
            )

    def _check_designs(self, designs: Mapping[str, Any]) -> None:
        """Refuse operating characteristics of other designs.

        The campaign's name and the seed may differ: the characteristics are means over seeds.
        """
        ours = _design_of(self.plain)
        if all(_design_of(one["protocol"]) != ours for one in designs.values()):
            raise NotAllowedError(
                "simulation must have this protocol among its designs; all of them differ from it: "
                f"{', '.join(designs)}"
            )

    def learner(self) -> Learner:
        """Return a learner without data, with version 1 in force."""
        return Learner(self.task, self.schedule, self.recipe)

    @property
    def episodes(self) -> int:
        """The number of planned episodes."""
        return planned_episodes(self.task, "a campaign")

    @cached_property
    def plain(self) -> dict[str, Any]:
        """The protocol as plain values: the tables of a TOML file."""
        tables: dict[str, Any] = {
            "format": FORMAT,
            "name": self.name,
            "task": self.task.plain | ({"actions": list(self.actions)} if self.actions else {}),
            "recipe": self._plain_recipe(),
            "schedule": describe(self.schedule),
            "budget": {"deployments": self.budget},
            "approval": self.approval.plain,
            "intake": _without_empty(vars(self.intake), "concealed"),
        }
        if self.features is not None:
            tables["features"] = _without_empty(vars(self.features), "columns")
        if self.stopping:
            tables["stopping"] = [plain_rule(rule) for rule in self.stopping]
        if self.simulation:
            tables["simulation"] = {"digest": self.simulation}
        if self.analysis is not None:
            tables["analysis"] = self.analysis.plain
        if self.public:
            tables["access"] = {"public": True}
        return tables

    def _plain_recipe(self) -> dict[str, Any]:
        """Return the recipe as plain values; a control that is a named action is its name."""
        plain, control = describe_recipe(self.recipe), self.recipe.control
        if self.actions and control is not None and control.action is not None:
            plain["control"]["plays"] = self.actions[control.action]
        return plain

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text of `plain`."""
        return digest_of(canonical(self.plain))

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of the user's own rules, inner rules and exploration."""
        tables = (self.plain["schedule"], self.plain["recipe"]["exploration"])
        return tuple(sorted({name for table in tables for name in _own_modules(table)}))

    def to_toml(self) -> str:
        """Return the text that `from_toml` reads; None values are left out.

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

        return tomli_w.dumps(without_none(self.plain))

    @classmethod
    def from_toml(cls, text: str, *, allow: Collection[str] = ()) -> "Protocol":
        """Read a protocol; an error names the table and the key.

        A rule or exploration of your own, module:Class, needs its module in `allow`.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be the TOML text of a protocol; got {short_repr(text)}")
        try:
            plain = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"a protocol must be TOML; {error}") from None
        return cls.from_plain(plain, allow=allow)

    @classmethod
    def from_plain(
        cls,
        plain: Mapping[str, Any],
        *,
        allow: Collection[str] = (),
        recipe: Recipe | None = None,
        schedule: Schedule | None = None,
    ) -> "Protocol":
        """Read the value of `plain`, or the tables of a TOML file, where defaults may be left out.

        A rule or exploration of your own, module:Class, needs its module in `allow`. A given
        `recipe` or `schedule` replaces its table.
        """
        tables = _known(plain, "", TABLES)
        if whole("format", tables.get("format", FORMAT), least=1) != FORMAT:
            raise ValueError(f"format must be {FORMAT}; got {tables['format']}")
        for needed in ("name", "task", "schedule", "budget"):
            if needed not in tables:
                raise ValueError(f"a protocol needs {needed}; it has {', '.join(tables) or 'none'}")
        given = {name: _known(tables.get(name, {}), name, keys) for name, keys in KEYS.items()}
        parts: dict[str, Any] = {}
        with _reading("task"):
            _check_needed(given["task"], "dim", "horizon", "episodes")
            task = task_of(given["task"])
        with _reading("recipe"):
            recipe = recipe or _recipe(given["recipe"], allow, given["task"].get("actions", ()))
        with _reading("schedule"):
            rule = _table(tables["schedule"], "schedule")
            schedule = schedule or _schedule(rule, task, recipe.ridge, allow)
        with _reading("budget"):
            _check_needed(given["budget"], "deployments")
            parts["budget"] = whole("deployments", given["budget"]["deployments"], least=0)
        for name in ("approval", "intake", "features"):
            if name in tables:
                with _reading(name):
                    parts[name] = PARTS[name](**given[name])
        if "analysis" in tables:
            with _reading("analysis"):
                parts["analysis"] = analysis = AnalysisTerms.of(given["analysis"])
                analysis.check_columns(_columns(parts.get("features")))
        if not isinstance(stopping := tables.get("stopping", []), list):
            raise TypeError(
                f"stopping must be a list of tables, [[stopping]]; got {short_repr(stopping)}"
            )
        rules = []
        for number, table in enumerate(stopping, start=1):
            with _reading(f"stopping, number {number}"):
                rules.append(rule_of(_table(table, "stopping")))
        with _reading("access"):
            parts["public"] = flag("public", given["access"].get("public", False))
        with _reading("task", others=PLACES):
            return cls(
                name=tables["name"],
                task=task,
                recipe=recipe,
                schedule=schedule,
                stopping=tuple(rules),
                simulation=given["simulation"].get("digest", ""),
                actions=given["task"].get("actions", ()),
                **parts,
            )

    def amended(self, changes: Mapping[str, Any], *, allow: Collection[str] = ()) -> "Protocol":
        """Return the next revision: each table in `changes` replaces the table of that name.

        `episodes` stands for [task] episodes. Terms that recorded episodes depend on cannot be
        amended. A new schedule of your own, module:Class, needs its module in `allow`.

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
        tables = self.plain | dict(changes)
        if "episodes" in changes:
            tables["task"] = tables["task"] | {"episodes": tables.pop("episodes")}
        # The present schedule is kept, so only new code needs `allow`.
        kept = None if "schedule" in changes else self.schedule
        return Protocol.from_plain(tables, allow=allow, recipe=self.recipe, schedule=kept)

    def with_simulation(self, report: bytes) -> "Protocol":
        """Return the protocol with the digest of a simulation's report."""
        return replace(self, simulation=digest_of(report))


TABLES = (
    "format", "name", "task", "recipe", "schedule", "budget", "approval", "intake", "features",
    "stopping", "simulation", "analysis", "access",
)  # fmt: skip
PARTS = {
    "recipe": Recipe, "approval": Approval, "intake": Intake, "features": FeatureTerms,
    "analysis": AnalysisTerms,
}  # fmt: skip
# The places of arguments of a protocol that are not in [task].
PLACES = {
    "name": "name", "budget": "[budget] deployments", "stopping": "[[stopping]]",
    "control": "[recipe] control", "schedule": "[schedule]", "simulation": "[simulation] digest",
}  # fmt: skip
TASK_SIZES = tuple(part.name for part in fields(Task))
KEYS = {name: tuple(part.name for part in fields(kind)) for name, kind in PARTS.items()}
KEYS |= {
    "task": (*TASK_SIZES, "actions"), "budget": ("deployments",), "simulation": ("digest",),
    "access": ("public",),
}  # fmt: skip


def _design_of(plain: Mapping[str, Any]) -> str:
    kept = {
        key: value for key, value in plain.items() if key not in ("name", "simulation", "access")
    }
    kept["recipe"] = {key: value for key, value in plain["recipe"].items() if key != "seed"}
    return canonical(without_none(kept))


def task_of(table: Mapping[str, Any]) -> Task:
    """Return the task of the table [task] of a locked protocol."""
    return Task(**{name: value for name, value in table.items() if name in TASK_SIZES})


def recipe_of(plain: Mapping[str, Any], allow: Collection[str] = ()) -> Recipe:
    """Return the recipe of a locked protocol; code of your own needs its module in `allow`."""
    return _recipe(dict(plain["recipe"]), allow, plain["task"].get("actions", ()))


def schedule_of(plain: Mapping[str, Any], allow: Collection[str] = ()) -> Schedule:
    """Return the schedule of a locked protocol; code of your own needs its module in `allow`."""
    task, ridge = task_of(plain["task"]), plain["recipe"]["ridge"]
    return _schedule(dict(plain["schedule"]), task, ridge, allow)


def _schedule(rule: dict[str, Any], task: Task, ridge: float, allow: Collection[str]) -> Schedule:
    return make_schedule(rule.pop("kind", None), rule, task, ridge=ridge, allow=allow)


def _own_modules(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _own_modules(value)
        elif key == "kind" and ":" in str(value):
            yield value.partition(":")[0]


def _without_empty(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table without a key that is not set, so old protocols keep their digest."""
    kept = {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}
    if not kept[name]:
        del kept[name]
    return kept


def _columns(features: FeatureTerms | None) -> tuple[str, ...]:
    return () if features is None else features.columns


def _check_needed(table: Mapping[str, Any], *keys: str) -> None:
    if missing := [key for key in keys if key not in table]:
        raise ValueError(f"needs {missing[0]}")


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
def _reading(name: str, others: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Add the table's name to an error about one of its keys.

    `others` gives the place of keys that are in other tables.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        key, space, rest = str(error).partition(" ")
        place = others.get(key, f"[{name}] {key}")
        raise type(error)(f"{place}{space}{rest}") from None


def _recipe(table: dict[str, Any], allow: Collection[str], actions: Any) -> Recipe:
    exploration = _table(table.pop("exploration", {"kind": "ensemble"}), "exploration")
    kind = exploration.pop("kind", None)
    if isinstance(seed := table.get("seed"), list):
        table["seed"] = tuple(seed)
    if "control" in table:
        control = _table(table["control"], "control")
        if isinstance(actions, list | tuple) and control.get("plays") in actions:
            control["plays"] = actions.index(control["plays"])
        try:
            table["control"] = rebuild_control(control)
        except (TypeError, ValueError) as error:
            inner = "" if str(error).startswith("control ") else "control."
            raise type(error)(f"{inner}{error}") from None
    return Recipe(exploration=make_exploration(kind, exploration, allow=allow), **table)
