"""An experiment is data: a world, arms that learn on it, and how often and how long.

The canonical form of a spec is JSON with every default filled in; its digest is the SHA-256 of
that, so experiments that say the same have the same digest, however they were written.
"""

import hashlib
import json
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from rareswitch import named
from rareswitch.core.exploration import Exploration, is_plain
from rareswitch.core.rules import EXPLORATIONS, Row
from rareswitch.core.task import Task
from rareswitch.experiments.algorithms import (
    KINDS,
    Algorithm,
    family_of,
    make_algorithm,
)
from rareswitch.experiments.model import Model
from rareswitch.experiments.simulated import Simulated, TaskSimulator
from rareswitch.experiments.worlds import World

Figure = Literal[
    "regret",
    "regret-log",
    "return",
    "final",
    "pareto",
    "switches",
    "beta",
    "lower-bound",
    "bounds",
    "budget",
    "mixtures",
]


def _completed(choice: dict[str, Any], table: tuple[Row, ...]) -> dict[str, Any]:
    """Fill in the defaults of a named rule or exploration, and of one within it."""
    if not isinstance(kind := choice.get("kind"), str):
        raise ValueError(f"kind must be given, a name; got {kind!r}")
    arguments = {key: value for key, value in choice.items() if key != "kind"}
    filled = named.complete(kind, arguments, table)
    if isinstance(inner := filled.get("schedule"), dict):
        filled["schedule"] = _completed(inner, table)
    try:
        json.dumps(filled)
    except TypeError as error:
        raise ValueError(f"the arguments of {kind} must be plain values ({error})") from None
    return {"kind": kind, **filled}


def _drawable(text: str) -> str:
    """Refuse formulas that matplotlib cannot draw."""
    if "$" in text:
        from matplotlib.cbook import is_math_text
        from matplotlib.mathtext import MathTextParser

        if is_math_text(text):
            try:
                MathTextParser("path").parse(text)
            except ValueError as error:
                reason = " ".join(str(error).split())
                raise ValueError(f"is no formula that can be drawn ({reason})") from None
    return text


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$", max_length=100)]
Text = Annotated[str, AfterValidator(_drawable)]
Label = Annotated[Text, Field(pattern=r"^[^_]")]  # matplotlib leaves _labels out of legends
Rule = Annotated[dict[str, Any], AfterValidator(partial(_completed, table=KINDS))]
Explores = Annotated[dict[str, Any], AfterValidator(partial(_completed, table=EXPLORATIONS))]


class Arm(Model):
    """One algorithm with its parameters on one world.

    `schedule` and `exploration` are {kind, arguments}; `beta = b` is short for the exploration
    { kind = "bonus", beta = b }, and neither is the mixture that needs no tuning. `measure_radius`
    also measures, at every fit, the smallest β for which the concentration lemma would have held.
    """

    name: Name
    label: Label
    schedule: Rule
    world: World
    exploration: Explores = Field(
        default_factory=lambda: {"kind": "ensemble"}, validate_default=True
    )
    ridge: float = 1.0
    ties: Literal["direction", "lowest"] = "direction"
    initial_state: int | Literal["uniform"] = 0
    measure_radius: bool = False

    @model_validator(mode="before")
    @classmethod
    def _beta_is_a_bonus(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "beta" not in data:
            return data
        if "exploration" in data:
            raise ValueError(
                f"arm {data.get('name')!r}: beta and exploration exclude each other; beta = b is "
                'short for exploration = { kind = "bonus", beta = b }'
            )
        rest = {key: value for key, value in data.items() if key != "beta"}
        return rest | {"exploration": {"kind": "bonus", "beta": data["beta"]}}

    @property
    def simulated(self) -> bool:
        """Whether its world is only simulated, so that returns are recorded and not regret."""
        return isinstance(self.world, Simulated)

    @property
    def recorded(self) -> str:
        """What is recorded of every episode: regret, or returns."""
        return "returns" if self.simulated else "regret"

    @property
    def family(self) -> Row:
        """The name, label, colour and marker of what the arm plays."""
        return family_of(self.schedule["kind"])

    @property
    def learns(self) -> bool:
        return getattr(self.family.kind, "learns", True)

    @property
    def dated(self) -> bool:
        """Whether the dates of deployments are fixed in advance."""
        return hasattr(self.family.kind, "upcoming")

    @property
    def scheduled(self) -> bool:
        """Whether it plays LSVI under a switching rule, and no algorithm of its own."""
        return hasattr(self.family.kind, "due")

    @property
    def plain(self) -> bool:
        """Whether it explores by the paper's bonus, of one member and nothing estimated."""
        return self.scheduled and is_plain(self.explores())

    @property
    def members(self) -> int:
        """The members of what the arm deploys; 1 where that is no mixture."""
        return self.explores().members if self.scheduled else 1

    def explores(self) -> Exploration:
        """Return the exploration that the arm names."""
        arguments = {key: value for key, value in self.exploration.items() if key != "kind"}
        return named.make_exploration(self.exploration["kind"], arguments)

    def task(self, *, episodes: int, seed: int) -> Task:
        """Return the sizes of the arm's world with so many episodes."""
        if isinstance(self.world, Simulated):
            return self.simulator(episodes).task
        return self.world.build(seed).task(episodes=episodes)

    def simulator(self, episodes: int) -> TaskSimulator:
        """Return what plays rounds of so many episodes in a world that is only simulated."""
        assert isinstance(self.world, Simulated)
        return self.world.simulator(episodes=episodes, ridge=self.ridge, ties=self.ties)

    def algorithm(self, task: Task) -> Algorithm:
        """Return what the arm plays on a task."""
        return make_algorithm(
            self.schedule,
            task,
            exploration=self.explores(),
            ridge=self.ridge,
            ties=self.ties,
            measure_radius=self.measure_radius,
        )

    def setting(self) -> str:
        """Return the canonical form of all that determines the arm's numbers, names apart."""
        return _canonical(self.model_dump(mode="json", exclude={"name", "label"}))


class Experiment(Model):
    """A named set of arms, compared round by round on the same worlds with the same noise."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100)]
    title: Text
    about: str = ""
    figure: Figure = "regret"
    rounds: Annotated[int, Field(ge=1, le=100_000)]
    episodes: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)] = 0
    arms: Annotated[tuple[Arm, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _distinct(self) -> "Experiment":
        if self.name == "pieces":
            raise ValueError("name must not be 'pieces', the folder of finished pieces")
        names = [arm.name for arm in self.arms]
        if len({arm.simulated for arm in self.arms}) > 1:
            raise ValueError(
                "arms must be all on known worlds, where regret is measured, or all on simulated "
                "ones, where returns are"
            )
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"arms must have different names; {', '.join(twice)} comes twice")
        return self

    @property
    def measure(self) -> str:
        """What arms are compared by: "regret", or "return" in worlds that are only simulated."""
        return "return" if self.arms[0].simulated else "regret"

    def canonical(self) -> str:
        """Return the spec as JSON, every default filled in, keys in order."""
        return _canonical(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def _canonical(plain: dict[str, Any]) -> str:
    return json.dumps(_whole(plain), sort_keys=True, separators=(",", ":"))


def _whole(value: Any) -> Any:
    """Write whole numbers without a point: 2 and 2.0 say the same."""
    if isinstance(value, dict):
        return {key: _whole(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
