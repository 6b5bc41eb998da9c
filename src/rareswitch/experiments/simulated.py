"""Worlds that are only simulated: an environment, or a function of your own, by name.

Their optimum need not be known: what is recorded of an episode is its return. The function
module:name is called with `episodes`, `ridge`, `ties` and the keys of the world, and returns a
simulator: it has the `task` that rules are made for, and returns an `Outcome` for each seed when it
is called with a schedule, an exploration and seeds. `gymnasium` names the package's own.
"""

import importlib
import inspect
import json
import sys
from functools import lru_cache
from typing import Annotated, Any, Literal, Protocol

from pydantic import ConfigDict, Field

from rareswitch.core.arguments import shown
from rareswitch.core.task import Task
from rareswitch.experiments.model import Model
from rareswitch.outcome import Simulator

GYMNASIUM = "rareswitch.gym.simulator:world_simulator"


class TaskSimulator(Simulator, Protocol):
    """A simulator that knows the sizes of its task."""

    @property
    def task(self) -> Task: ...


class Simulated(Model):
    """A world of your own: module:function, and the function's arguments as further keys."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, Field(pattern=r"^[^:]+:[^:]+$")]

    def call(self) -> tuple[str, dict[str, Any]]:
        """Return the function that makes the simulator, as module:name, and its arguments."""
        return self.kind, self.model_dump(mode="json", exclude={"kind"})

    def own_names(self) -> list[str]:
        """Return what the world names as module:name of your own."""
        return [self.kind]

    def libraries(self) -> list[str]:
        """Return the libraries that numbers hang on, beside those of all worlds."""
        return []

    def simulator(self, *, episodes: int, ridge: float, ties: str) -> TaskSimulator:
        """Return the simulator, made once in a process for all that ask."""
        function, arguments = self.call()
        settings = {"episodes": episodes, "ridge": ridge, "ties": ties}
        return _simulator(function, json.dumps(arguments | settings, sort_keys=True))


class Range(Model):
    """The least and the largest reward of a step."""

    low: float
    high: float


class Gymnasium(Simulated):
    """An environment of Gymnasium; what is left out is picked as by `rareswitch train`."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["gymnasium"]
    env: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    features: str = "default"
    horizon: Annotated[int, Field(ge=1)] | None = None
    rewards: Range | None = None
    stages: Literal["shared", "own"] = "shared"

    def call(self) -> tuple[str, dict[str, Any]]:
        plain = self.model_dump(mode="json", exclude={"kind", "env", "rewards"})
        rewards = None if self.rewards is None else [self.rewards.low, self.rewards.high]
        # Returns are recorded: regret, where it could be known, need not be computed.
        return GYMNASIUM, plain | {"world": self.env, "rewards": rewards, "exact": False}

    def own_names(self) -> list[str]:
        return [text.partition(",")[0] for text in (self.env, self.features) if ":" in text]

    def libraries(self) -> list[str]:
        return ["gymnasium"]


def is_simulated(kind: Any) -> bool:
    """Return whether a world of that kind is only simulated."""
    return isinstance(kind, str) and (kind == "gymnasium" or ":" in kind)


def own_files(world: Simulated) -> set[str]:
    """Return the files of the modules of your own that a world names."""
    return {inspect.getfile(_module(name)) for name in world.own_names()}


@lru_cache(maxsize=4)
def _simulator(function: str, arguments: str) -> TaskSimulator:
    """Return what a function makes of arguments in JSON."""
    try:
        make = getattr(_module(function), function.partition(":")[2])
    except AttributeError as error:
        raise ValueError(f"world kind {function!r} cannot be imported ({error})") from None
    try:
        made: TaskSimulator = make(**json.loads(arguments))
    except ImportError as error:
        raise ValueError(f"world cannot be made: {error}") from None
    if not callable(made) or not isinstance(getattr(made, "task", None), Task):
        raise TypeError(
            f"world kind {function!r} must return a simulator, a function with a Task as its "
            f"attribute task; got {shown(made)}"
        )
    return made


def _module(name: str) -> Any:
    """Return the module of module:name, from the current folder or installed."""
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules in the current folder, as for python -m
    try:
        return importlib.import_module(name.partition(":")[0])
    except (ImportError, ValueError, TypeError) as error:
        raise ValueError(f"{name!r} cannot be imported ({error})") from None
