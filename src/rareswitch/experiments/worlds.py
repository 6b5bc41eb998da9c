"""The worlds of an experiment as data.

A known world builds the exact world of a round, and its sizes are known in advance. A simulated
world is a Gymnasium environment or a user's function: its optimum may be unknown, and each episode
records its return.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache, partial
from typing import Any, ClassVar

from rareswitch.core.task import Task
from rareswitch.rules.table import Row
from rareswitch.rules.words import read_rule
from rareswitch.sim import worlds
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.support.arguments import did_you_mean, one_of, short_repr, whole
from rareswitch.support.imports import allowed_modules, checked_maker, load_module, load_object
from rareswitch.support.streams import Seed

GYMNASIUM = "rareswitch.gym.simulator:world_simulator"
# The number of worlds that a process caches: those of 50 rounds.
MOST_WORLDS = 50
# Names that other people use for a key.
SYNONYMS = {"lambda": "ridge", "λ": "ridge", "β": "beta", "rule": "schedule", "type": "kind"}
# Names of worlds on the command line that a file does not have.
COMMAND_NAMES = {"hard": "hard-to-learn", "misspecified": "hard-to-learn"}

Make = Callable[..., FiniteMDP]
Sizes = tuple[int, int, int, int]  # states, actions, dim and horizon


def check_type(name: str, value: Any, cls: Any) -> Any:
    """Return the value if it is a text (str), a table (dict) or a list, or raise TypeError."""
    if not isinstance(value, cls):
        word = {str: "text", dict: "table", list: "list of tables"}[cls]
        raise TypeError(f"{name} must be a {word}; got {short_repr(value)}")
    return value


def check_keys(
    what: str, given: Collection[str], allowed: Collection[str], required: Collection[str] = ()
) -> None:
    """Raise ValueError for unknown and missing keys of a table, with a hint for misspelt keys.

    >>> check_keys("an arm", ["betta"], ["beta", "ridge"])
    Traceback (most recent call last):
    ValueError: betta is not a key of an arm; did you mean beta?
    """
    for key in given:
        if key not in allowed:
            near = SYNONYMS.get(key, "")
            hint = f"; did you mean {near}?" if near in allowed else did_you_mean(key, allowed)
            hint = hint or f"; its keys are {', '.join(allowed)}"
            raise ValueError(f"{key} is not a key of {what}{hint}")
    for key in required:
        if key not in given:
            raise ValueError(f"{key} must be given; it is a required key of {what}")


class Table:
    """A table of a spec as a frozen dataclass; whole numbers and texts are checked.

    The functions that make a world check the rest.
    """

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for part in fields(self):  # type: ignore[arg-type]
            value = getattr(self, part.name)
            if part.type is int:
                whole(part.name, value, least=1)
            elif part.type in (str, dict):
                check_type(part.name, value, part.type)

    def words(self) -> dict[str, Any]:
        """Return the table with every default filled in, for JSON."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]


def _hard_to_learn(*, zeta: float, seed: Seed, **settings: Any) -> FiniteMDP:
    world = worlds.hard_to_learn(seed=seed, **settings)
    return worlds.misspecified(world, zeta=zeta, seed=seed) if zeta else world


@dataclass(frozen=True, kw_only=True)
class HardToLearn(Table):
    """The paper's Example 1; with zeta above 0, its misspecified variant."""

    kind: ClassVar[str] = "hard-to-learn"
    make: ClassVar[Make] = staticmethod(_hard_to_learn)

    d: int = 13
    horizon: int = 10
    delta: float = 0.35
    reading: str = "completed"
    normalized: bool = False
    zeta: float = 0.0

    @property
    def sizes(self) -> Sizes:
        return 2, 2 ** min(max(self.d - 3, 0), 17), self.d, self.horizon


@dataclass(frozen=True, kw_only=True)
class RandomLinear(Table):
    """Random features and measures; with features_seed, the same features in every round."""

    kind: ClassVar[str] = "random-linear"
    make: ClassVar[Make] = staticmethod(worlds.random_linear)

    states: int
    actions: int
    d: int
    horizon: int
    features_seed: int | None = None

    @property
    def sizes(self) -> Sizes:
        return self.states, self.actions, self.d, self.horizon


@dataclass(frozen=True, kw_only=True)
class Tabular(Table):
    """A random tabular world, with one-hot features."""

    kind: ClassVar[str] = "tabular"
    make: ClassVar[Make] = staticmethod(worlds.tabular)

    states: int
    actions: int
    horizon: int

    @property
    def sizes(self) -> Sizes:
        return self.states, self.actions, self.states * self.actions, self.horizon


@dataclass(frozen=True, kw_only=True)
class RiverSwim(Table):
    """RiverSwim pays a small reward downstream and 1 at the far end."""

    kind: ClassVar[str] = "river-swim"
    make: ClassVar[Make] = staticmethod(worlds.river_swim)

    states: int = 6
    horizon: int = 20

    @property
    def sizes(self) -> Sizes:
        return self.states, 2, 2 * self.states, self.horizon


@dataclass(frozen=True, kw_only=True)
class DeepSea(Table):
    """DeepSea pays its reward only after steps to the right throughout."""

    kind: ClassVar[str] = "deep-sea"
    make: ClassVar[Make] = staticmethod(worlds.deep_sea)

    size: int = 8

    @property
    def sizes(self) -> Sizes:
        return self.size, 2, 2 * self.size, self.size


@dataclass(frozen=True, kw_only=True)
class CombinationLock(Table):
    """A lock with one right action at every stage, and a reward after all of them."""

    kind: ClassVar[str] = "combination-lock"
    make: ClassVar[Make] = staticmethod(worlds.combination_lock)

    horizon: int = 6
    actions: int = 4

    @property
    def sizes(self) -> Sizes:
        return 2, self.actions, 2 * self.actions, self.horizon


@dataclass(frozen=True, kw_only=True)
class FrozenLake(Table):
    """FrozenLake with 4×4 cells and slippery steps."""

    kind: ClassVar[str] = "frozen-lake"
    make: ClassVar[Make] = staticmethod(worlds.frozen_lake)

    chance: float = 0.8
    horizon: int = 12

    @property
    def sizes(self) -> Sizes:
        return 16, 4, 64, self.horizon


@dataclass(frozen=True, kw_only=True)
class LowerBoundFamily(Table):
    """Theorem 3's family with right actions drawn at random for each round."""

    kind: ClassVar[str] = "lower-bound-family"
    make: ClassVar[Make] = staticmethod(worlds.lower_bound_family)

    states: int
    horizon: int
    normalized: bool = False

    @property
    def sizes(self) -> Sizes:
        return self.states + 1, 2, 2 * self.states + 1, self.horizon


class ObliviousAdversary(LowerBoundFamily):
    """Theorem 3's family; the adversary chooses the initial state of each batch of a grid."""

    kind: ClassVar[str] = "oblivious-adversary"


class Adversary(ObliviousAdversary):
    """Theorem 3's family; the adversary also chooses the right actions during play."""

    kind: ClassVar[str] = "adversary"


KNOWN = (
    HardToLearn, RandomLinear, Tabular, RiverSwim, DeepSea, CombinationLock, FrozenLake,
    LowerBoundFamily, Adversary, ObliviousAdversary,
)  # fmt: skip
Known = (
    HardToLearn
    | RandomLinear
    | Tabular
    | RiverSwim
    | DeepSea
    | CombinationLock
    | FrozenLake
    | LowerBoundFamily
)


@lru_cache(maxsize=MOST_WORLDS)
def build_world(world: Known, seed: Seed) -> FiniteMDP:
    """Return the world of a seed, built once in a process for all arms that play on it."""
    return world.make(seed=seed, **asdict(world))


@dataclass(frozen=True, kw_only=True)
class Simulated(Table):
    """A user's function, module:function; the other keys of the table are arguments.

    The function is called with `episodes` and those arguments, and returns a simulator with the
    attribute `task`. Code is imported only from modules that a person allowed.
    """

    kind: str  # type: ignore[misc]
    arguments: dict = field(default_factory=dict)  # type: ignore[type-arg]

    def words(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.arguments}

    def maker_arguments(self) -> dict[str, Any]:
        """Return the arguments of the function that makes the simulator."""
        return self.arguments

    def own_names(self) -> list[str]:
        """Return the names module:name of users' code."""
        return [self.kind]

    def simulator(
        self, *, episodes: int, folders: Sequence[str] = (), allow: Collection[str] = ()
    ) -> Any:
        """Return the simulator, made once in a process; its code may lie in one of `folders`."""
        for name in self.own_names():
            try:
                load_module(name, allow=allow, folders=folders)
            except ValueError as error:
                raise type(error)(f"world {error}") from None
        arguments = self.maker_arguments() | {"episodes": episodes}
        return _simulator(self.kind, json.dumps(arguments, sort_keys=True), allowed_modules(allow))


@dataclass(frozen=True, kw_only=True)
class Gymnasium(Simulated):
    """An environment of Gymnasium; `rareswitch train` chooses the same values for missing keys."""

    kind: ClassVar[str] = "gymnasium"  # type: ignore[misc]

    env: str
    features: str = "default"
    horizon: int | None = None
    rewards: dict[str, float] | None = None  # low and high, of a step
    stages: str = "shared"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("stages", self.stages, ("own", "shared"))
        if self.rewards is not None:
            ends = ("low", "high")
            check_keys("rewards", check_type("rewards", self.rewards, dict), ends, ends)

    words = Table.words

    def maker_arguments(self) -> dict[str, Any]:
        arguments = asdict(self)
        if self.rewards is not None:
            arguments["rewards"] = [self.rewards["low"], self.rewards["high"]]
        # Experiments record returns, so regret is not computed.
        return arguments | {"world": arguments.pop("env"), "exact": False}

    def own_names(self) -> list[str]:
        return [text.partition(",")[0] for text in (self.env, self.features) if ":" in text]


World = Known | Simulated
KINDS = tuple(Row(cls, cls.kind, "") for cls in (*KNOWN, Gymnasium))


def is_simulated(kind: Any) -> bool:
    """Return whether worlds of that kind are simulated."""
    return isinstance(kind, str) and (":" in kind or kind == Gymnasium.kind)


def read_world(table: Mapping[str, Any]) -> World:
    """Return the world of a table.

    >>> read_world({"kind": "tabular", "states": 3, "actions": 2, "horizon": 4})
    Tabular(states=3, actions=2, horizon=4)
    """
    arguments = dict(check_type("world", table, dict))
    kind = arguments.pop("kind", None)
    if isinstance(kind, str) and ":" in kind:
        return Simulated(kind=kind, arguments=arguments)
    if kind not in (names := [row.name for row in KINDS]):
        meant = COMMAND_NAMES.get(kind, kind) if isinstance(kind, str) else kind
        raise ValueError(
            f"world kind must be one of {', '.join(names)}, or module:function; got {kind!r}"
            f"{did_you_mean(meant, names)}"
        )
    return read_rule(kind, arguments, KINDS)


@lru_cache(maxsize=4)
def _simulator(kind: str, arguments: str, allow: frozenset[str]) -> Any:
    """Return the simulator of a kind of worlds, made with arguments in JSON."""
    try:
        if kind == Gymnasium.kind:
            make = partial(load_object(GYMNASIUM, allow=["rareswitch"]), allow=allow)
        else:
            make = checked_maker(kind, load_object(kind, allow=allow), ("__call__",))
    except ValueError as error:
        raise ValueError(f"world kind {error}") from None
    try:
        made = make(**json.loads(arguments))
    except ImportError as error:
        raise ValueError(f"world cannot be made: {error}") from None
    if not callable(made) or not isinstance(getattr(made, "task", None), Task):
        raise TypeError(
            f"world kind {kind!r} must return a simulator, a function with a Task as its "
            f"attribute task; got {short_repr(made)}"
        )
    return made
