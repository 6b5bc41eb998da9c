"""An experiment is data: a world, arms that learn on it, and how often and how long.

Specs are TOML files, checked on reading. A list anywhere in an arm stands for one arm for each of
its values. The canonical form of a spec is JSON with every default filled in; its digest is the
SHA-256 of that.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rareswitch.core.budget import AdaptiveBudget, TotalGrowth
from rareswitch.core.grids import EpisodeGrid
from rareswitch.core.optimism import Perturbation
from rareswitch.core.schedule import DeterminantGrowth, EveryEpisode, Schedule, UniformGrid
from rareswitch.core.streams import Seed
from rareswitch.sim import instances
from rareswitch.sim.linear_mdp import FiniteLinearMDP
from rareswitch.sim.mdp import FiniteMDP

PAPER = (
    "figure1", "figure2", "figure3", "lower-bound", "pareto", "switches", "beta", "readings",
    "bounds", "budget", "optimism", "tabular",
)  # fmt: skip

Identifier = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$")]
Figure = Literal[
    "regret",
    "regret-log",
    "final",
    "pareto",
    "switches",
    "beta",
    "lower-bound",
    "bounds",
    "budget",
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def canonical(self) -> str:
        """Return the spec as JSON, every default filled in, keys in order."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.canonical().encode()).hexdigest()


class HardToLearn(_Model):
    """The paper's Example 1, and with zeta above 0 its misspecified variant."""

    kind: Literal["hard-to-learn"]
    d: int = 13
    horizon: int = 10
    delta: float = 0.35
    reading: Literal["completed", "padded", "compact"] = "completed"
    normalized: bool = False
    zeta: float = 0.0

    def build(self, seed: Seed) -> FiniteMDP:
        world = instances.hard_to_learn(
            d=self.d,
            horizon=self.horizon,
            delta=self.delta,
            seed=seed,
            reading=self.reading,
            normalized=self.normalized,
        )
        return instances.misspecified(world, zeta=self.zeta, seed=seed) if self.zeta else world


class RandomLinear(_Model):
    kind: Literal["random-linear"]
    states: int
    actions: int
    d: int
    horizon: int

    def build(self, seed: Seed) -> FiniteMDP:
        return instances.random_linear(seed=seed, **self.model_dump(exclude={"kind"}))


class Tabular(_Model):
    kind: Literal["tabular"]
    states: int
    actions: int
    horizon: int

    def build(self, seed: Seed) -> FiniteMDP:
        return instances.tabular(seed=seed, **self.model_dump(exclude={"kind"}))


class Adversary(_Model):
    """Theorem 3's family with the adversary that settles it during play; for grids only."""

    kind: Literal["adversary"]
    states: Annotated[int, Field(ge=1)]
    horizon: Annotated[int, Field(ge=1)]
    normalized: bool = False

    def build(self, seed: Seed) -> FiniteMDP:
        return instances.lower_bound(
            states=self.states, horizon=self.horizon, seed=seed, normalized=self.normalized
        )


World = Annotated[HardToLearn | RandomLinear | Tabular | Adversary, Field(discriminator="kind")]


class EveryEpisodeSpec(_Model):
    kind: Literal["every-episode"]

    def build(self, episodes: int, world: FiniteMDP, ridge: float) -> Schedule:
        return EveryEpisode()


class UniformGridSpec(_Model):
    kind: Literal["uniform-grid"]
    batches: int
    spread: Literal["last", "balanced"] = "last"

    def build(self, episodes: int, world: FiniteMDP, ridge: float) -> UniformGrid:
        return UniformGrid(episodes=episodes, batches=self.batches, spread=self.spread)


class DeterminantGrowthSpec(_Model):
    kind: Literal["determinant-growth"]
    eta: float

    def build(self, episodes: int, world: FiniteMDP, ridge: float) -> Schedule:
        return DeterminantGrowth(eta=self.eta)


class BudgetSpec(_Model):
    """The rule of that name that guarantees at most so many switches on the arm's world."""

    kind: Literal["budget"]
    rule: Literal["adaptive", "total-growth", "any-stage", "uniform-grid", "geometric-grid"]
    switches: Annotated[int, Field(ge=0)]

    def build(self, episodes: int, world: FiniteMDP, ridge: float) -> Schedule:
        sizes = world.sizes(episodes=episodes, ridge=ridge)
        if self.rule == "adaptive":
            del sizes["horizon"]
            return AdaptiveBudget(switches=self.switches, **sizes)
        if self.rule == "total-growth":
            return TotalGrowth.for_budget(switches=self.switches, **sizes)
        if self.rule == "any-stage":
            return DeterminantGrowth.for_budget(switches=self.switches, **sizes)
        batches = self.switches + 1
        if self.rule == "uniform-grid":
            return UniformGrid(episodes=episodes, batches=batches)
        return EpisodeGrid.geometric(episodes=episodes, batches=batches)


class AnchorSpec(_Model):
    """A tabular algorithm of its own, not a schedule for LSVI-UCB; for tabular worlds."""

    kind: Literal["ucb2-hoeffding", "mvp"]
    scale: Annotated[float, Field(ge=0.0)] = 0.1


class RandomPolicySpec(_Model):
    """No learning: the uniformly random policy."""

    kind: Literal["random-policy"]


ScheduleSpec = Annotated[
    EveryEpisodeSpec
    | UniformGridSpec
    | DeterminantGrowthSpec
    | BudgetSpec
    | AnchorSpec
    | RandomPolicySpec,
    Field(discriminator="kind"),
]


class PerturbationSpec(_Model):
    sigma: Annotated[float, Field(ge=0.0)]
    draws: Annotated[int, Field(ge=1)] = 10

    def build(self) -> Perturbation:
        return Perturbation(self.sigma, self.draws)


class Arm(_Model):
    """One algorithm with its parameters on one world.

    `perturbation` takes the place of the bonus with radius β. `measure_radius` also measures, at
    every fit, the smallest β for which the concentration lemma would have held.
    """

    name: Identifier
    label: str
    schedule: ScheduleSpec
    world: World
    beta: Annotated[float, Field(ge=0.0)] = 1.0
    ridge: Annotated[float, Field(gt=0.0)] = 1.0
    ties: Literal["direction", "lowest"] = "direction"
    initial_state: int | Literal["uniform"] = 0
    perturbation: PerturbationSpec | None = None
    measure_radius: bool = False

    def setting(self) -> str:
        """Return the canonical form of all that determines the arm's numbers, names apart."""
        parts = self.model_dump(mode="json", exclude={"name", "label"})
        return json.dumps(parts, sort_keys=True, separators=(",", ":"))


class Experiment(_Model):
    """A named set of arms, compared round by round on the same worlds with the same noise."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str
    about: str = ""
    figure: Figure = "regret"
    rounds: Annotated[int, Field(ge=1)]
    episodes: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)] = 0
    arms: Annotated[tuple[Arm, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _buildable(self) -> "Experiment":
        if self.name == "pieces":
            raise ValueError("name must not be 'pieces', the folder of finished pieces")
        names = [arm.name for arm in self.arms]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"arms must have different names; {', '.join(twice)} comes twice")
        for arm in self.arms:
            try:
                world = arm.world.build(self.seed)
                if not isinstance(arm.schedule, RandomPolicySpec | AnchorSpec):
                    arm.schedule.build(self.episodes, world, arm.ridge)
                states = world.states
                if isinstance(arm.schedule, AnchorSpec) and not isinstance(arm.world, Tabular):
                    raise ValueError(f"schedule kind {arm.schedule.kind} needs a tabular world")
                if isinstance(arm.initial_state, int) and not 0 <= arm.initial_state < states:
                    raise ValueError(f"initial_state must be from 0 to {states - 1}")
                if arm.measure_radius and not isinstance(world, FiniteLinearMDP):
                    raise ValueError("measure_radius needs a linear world; here zeta is above 0")
                self._check_drawable(arm)
                if isinstance(arm.world, Adversary):
                    if arm.perturbation or arm.initial_state or arm.measure_radius:
                        raise ValueError(
                            "the adversary chooses initial states and plays against a bonus: no "
                            "perturbation, initial_state or measure_radius"
                        )
                    need = arm.world.states * arm.world.horizon
                    if not isinstance(arm.schedule, UniformGridSpec):
                        raise ValueError("the adversary plays against schedule kind uniform-grid")
                    if arm.schedule.batches < need:
                        raise ValueError(f"batches must be at least states·horizon = {need}")
            except (TypeError, ValueError) as error:
                raise ValueError(f"arm {arm.name!r}: {error}") from None
        return self

    def _check_drawable(self, arm: Arm) -> None:
        """Some figures have a place for some arms only."""
        allowed: dict[str, tuple[type[Any], ...]] = {
            "bounds": (UniformGridSpec, DeterminantGrowthSpec),
            "lower-bound": (UniformGridSpec,),
            "budget": (BudgetSpec,),
            "beta": (EveryEpisodeSpec, UniformGridSpec, DeterminantGrowthSpec),
        }
        if not isinstance(arm.schedule, allowed.get(self.figure, (object,))):
            raise ValueError(f"figure {self.figure!r} has no place for kind {arm.schedule.kind!r}")
        if self.figure == "lower-bound" and not isinstance(arm.world, Adversary):
            raise ValueError("figure 'lower-bound' needs worlds of kind 'adversary'")


def load_spec(path: Path, overrides: dict[str, int | None] | None = None) -> Experiment:
    """Return the experiment of a TOML file; every error names the file and the key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    return parse_spec(text, source=str(path), overrides=overrides)


def parse_spec(
    text: str, *, source: str, overrides: dict[str, int | None] | None = None
) -> Experiment:
    """Return the experiment of TOML text, with some top-level keys replaced."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{source}: is not TOML ({error})") from None
    raw |= {key: value for key, value in (overrides or {}).items() if value is not None}
    try:
        expanded = json.dumps(_expanded(raw))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source}: {error}") from None
    try:
        return Experiment.model_validate_json(expanded, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the experiment"
        given = "" if first["type"] in ("missing", "value_error") else f"; got {first['input']!r}"
        message = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{source}: {key}: {message}{given}") from None


def paper_specs() -> dict[str, str]:
    """Return the TOML text of each experiment that comes with the package, by name."""
    folder = Path(__file__).parent / "paper"
    return {name: (folder / f"{name}.toml").read_text(encoding="utf-8") for name in PAPER}


def _expanded(raw: dict[str, Any]) -> dict[str, Any]:
    """Give every arm the experiment's world and defaults, and spell out its lists."""
    shared = {key: _table(key, raw.pop(key, {})) for key in ("world", "defaults")}
    arms: list[dict[str, Any]] = []
    if not isinstance(raw.get("arms", []), list):
        raise TypeError(f"arms: must be a list of tables; got {raw['arms']!r}")
    for arm in raw.get("arms", []):
        merged = {**shared["defaults"], **_table("arms", arm)}
        merged["world"] = {**shared["world"], **_table("arms.world", arm.get("world", {}))}
        _table("arms.schedule", merged.get("schedule", {}))
        arms.extend(_one_for_each_value(merged))
    return {**raw, "arms": arms}


def _one_for_each_value(arm: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the arm once for each combination of its list values, named by its templates."""
    flat = {
        (section, key): value
        for section in ("schedule", "world")
        for key, value in arm.get(section, {}).items()
    }
    flat |= {("", key): value for key, value in arm.items() if key not in ("schedule", "world")}
    lists = {place: value for place, value in flat.items() if isinstance(value, list)}
    if empty := [key for (_, key), value in lists.items() if not value]:
        raise ValueError(f"arms: {empty[0]} must list at least one value; got none")
    for values in product(*lists.values()):
        chosen = flat | dict(zip(lists, values, strict=True))
        one: dict[str, Any] = {"schedule": {}, "world": {}}
        for (section, key), value in chosen.items():
            (one[section] if section else one)[key] = value
        words = {key: value for (_, key), value in chosen.items()}
        try:
            one["name"] = str(one.get("name", "")).format(**words)
            one["label"] = str(one.get("label", one["name"])).format(**words)
        except (KeyError, ValueError, IndexError) as error:
            given = one.get("name")
            raise ValueError(f"arms: name {given!r} cannot be filled in ({error!r})") from None
        yield one


def _table(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{key}: must be a table; got {value!r}")
    return value
