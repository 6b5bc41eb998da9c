"""The worlds of an experiment as data.

Those that are known exactly build the instance of a round, and know their sizes; others are
simulated.
"""

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Discriminator, Tag

from rareswitch.core.streams import Seed
from rareswitch.experiments.model import Model
from rareswitch.experiments.simulated import Gymnasium, Simulated
from rareswitch.sim import instances
from rareswitch.sim.mdp import FiniteMDP


class Sizes(NamedTuple):
    """How large a world is, known before it is built."""

    states: int
    actions: int
    dim: int
    horizon: int


class HardToLearn(Model):
    """The paper's Example 1, and with zeta above 0 its misspecified variant."""

    kind: Literal["hard-to-learn"]
    d: int = 13
    horizon: int = 10
    delta: float = 0.35
    reading: Literal["completed", "padded", "compact"] = "completed"
    normalized: bool = False
    zeta: float = 0.0

    @property
    def sizes(self) -> Sizes:
        return Sizes(2, 2 ** min(max(self.d - 3, 0), 17), self.d, self.horizon)

    def build(self, seed: Seed) -> FiniteMDP:
        world = instances.hard_to_learn(seed=seed, **self.model_dump(exclude={"kind", "zeta"}))
        return instances.misspecified(world, zeta=self.zeta, seed=seed) if self.zeta else world


class RandomLinear(Model):
    """Random features and measures; with features_seed, the same features in every round."""

    kind: Literal["random-linear"]
    states: int
    actions: int
    d: int
    horizon: int
    features_seed: int | None = None

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.states, self.actions, self.d, self.horizon)

    def build(self, seed: Seed) -> FiniteMDP:
        return instances.random_linear(seed=seed, **self.model_dump(exclude={"kind"}))


class Tabular(Model):
    kind: Literal["tabular"]
    states: int
    actions: int
    horizon: int

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.states, self.actions, self.states * self.actions, self.horizon)

    def build(self, seed: Seed) -> FiniteMDP:
        return instances.tabular(seed=seed, **self.model_dump(exclude={"kind"}))


class Adversary(Model):
    """Theorem 3's family with the adversary that settles it during play; for grids only."""

    kind: Literal["adversary"]
    states: int
    horizon: int
    normalized: bool = False

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.states + 1, 2, 2 * self.states + 1, self.horizon)

    def build(self, seed: Seed) -> FiniteMDP:
        return instances.lower_bound(seed=seed, **self.model_dump(exclude={"kind"}))


Known = HardToLearn | RandomLinear | Tabular | Adversary
KINDS = ("hard-to-learn", "random-linear", "tabular", "adversary", "gymnasium")
OWN = "module:function"


def _kind(world: Any) -> str | None:
    """Return the kind of world that data describe; None where that is none."""
    kind = world.get("kind") if isinstance(world, dict) else getattr(world, "kind", None)
    if kind in KINDS:
        return str(kind)
    return OWN if isinstance(kind, str) and ":" in kind else None


World = Annotated[
    Annotated[HardToLearn, Tag("hard-to-learn")]
    | Annotated[RandomLinear, Tag("random-linear")]
    | Annotated[Tabular, Tag("tabular")]
    | Annotated[Adversary, Tag("adversary")]
    | Annotated[Gymnasium, Tag("gymnasium")]
    | Annotated[Simulated, Tag(OWN)],
    Discriminator(
        _kind,
        custom_error_type="world_kind",
        custom_error_message=f"kind must be one of {', '.join(KINDS)}, or {OWN}",
    ),
]
