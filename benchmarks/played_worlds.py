"""The worlds of `worlds.py`: from Gymnasium, from applications, from the study, and others.

A world is made for a round; all other settings are `train`'s defaults.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import blackjack_model
import gymnasium
import numpy as np
import outside_worlds
import study_worlds
from exact_returns import ExactReturns

from rareswitch.features import Custom, Masked, OneHot
from rareswitch.gym import FiniteModel, setting_of
from rareswitch.sim import FiniteMDP, worlds
from rareswitch.support.arguments import Floats

STAY = 20  # steps in intensive care
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


class Place(NamedTuple):
    """An environment, the arguments of `train`, and the exact model if known.

    `states` are the observations of the exact model, in order. `best` is the best known return
    without an exact model.
    """

    env: Any
    options: dict[str, Any]
    exact: ExactReturns | None = None
    states: Sequence[Any] = ()
    best: float = np.nan


class World(NamedTuple):
    """A function that makes the place of a round, and the numbers of episodes and rounds."""

    place: Callable[[int], Place]
    episodes: int
    rounds: int


def by_name(name: str, seed: int, horizon: int | None = None, **arguments: Any) -> Place:
    """Return an environment of Gymnasium, exact if it has a model and a known horizon."""
    env = gymnasium.make(name, **arguments)
    model = FiniteModel.of(env)
    if model is None:
        return Place(env, {"horizon": horizon})
    horizon = setting_of(env, horizon=horizon).horizon
    exact = ExactReturns.of_model(model, horizon)
    return Place(env, {"horizon": horizon}, exact, range(len(exact.initial)))


def blackjack(seed: int) -> Place:
    exact = ExactReturns.of_model(blackjack_model.model(), horizon=8)
    return Place(gymnasium.make("Blackjack-v1"), {"horizon": 8}, exact, blackjack_model.STATES)


class Finite(gymnasium.Env[Any, Any]):
    """A known world as an environment that shows its state; stages are steps."""

    def __init__(self, mdp: FiniteMDP, initial: Floats) -> None:
        states, actions, _ = mdp.features.shape
        self.observation_space = gymnasium.spaces.Discrete(states)
        self.action_space = gymnasium.spaces.Discrete(actions)
        self._mdp, self._initial = mdp, initial

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._state, self._stage = (
            int(self.np_random.choice(len(self._initial), p=self._initial)),
            0,
        )
        return self._state, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        at = self._stage, self._state, action
        after = np.count_nonzero(self._mdp.thresholds[at] <= self.np_random.random())
        self._state, self._stage = int(after), self._stage + 1
        return self._state, float(self._mdp.rewards[at]), False, False, {}


def studied(build: Callable[..., FiniteMDP], seed: int, start: int = 0) -> Place:
    """Return a world of the study with a table, or its own features if they are no table."""
    mdp = build(seed=(2027, seed))
    states, actions, dim = mdp.features.shape
    initial = np.eye(states)[start]
    options: dict[str, Any] = {"horizon": mdp.horizon, "rewards": (0.0, 1.0)}
    if dim != states * actions:
        options["features"] = Custom(
            lambda state: mdp.features[state],
            actions=actions,
            dim=dim,
            norm=mdp.feature_norm * (1.0 + 1e-9),
        )
    exact = ExactReturns.of_mdp(mdp, initial)
    return Place(Finite(mdp, initial), options, exact, range(states))


def sepsis(seed: int, *, table: bool) -> Place:
    """Return ICU-Sepsis over 20 steps, with a table or with 100 numbers of the next states."""
    sys.path.insert(0, str(EXAMPLES))
    import sepsis as example

    env = gymnasium.make("Sepsis/ICU-Sepsis-v2")
    told = env.unwrapped.dynamics
    admissible = example.admissible_treatments(told)
    features: Any = Masked(OneHot(states=716, actions=25), admissible)
    if not table:
        rows = example.follows(told["tx_mat"], 100)
        features = example.table("follows", rows, admissible)
    goes_on = told["tx_mat"].copy()
    goes_on[:, :, example.DIED :] = 0.0
    exact = ExactReturns(
        horizon=STAY,
        goes_on=goes_on[None],
        rewards=told["tx_mat"][None, :, :, example.SURVIVED],
        initial=told["d_0"],
        feasible=admissible,
    )
    options = {"horizon": STAY, "rewards": (0.0, 1.0), "features": features}
    return Place(env, options, exact, range(716))


def recommender(seed: int) -> Place:
    sys.path.insert(0, str(EXAMPLES))
    import recommender_world  # noqa: F401, it registers the environment

    return Place(gymnasium.make("Recommender-v0", catalogue=seed), {"features": "linear"})


def outside(build: Callable[[int], outside_worlds.Outside], seed: int) -> Place:
    """Return a world of other authors, with all defaults."""
    env = build(seed)
    return Place(env, {}, best=env.best)


tabular = partial(worlds.tabular, states=6, actions=4, horizon=6)
hard = partial(worlds.hard_to_learn, d=8, horizon=6)
lower_bound = partial(worlds.lower_bound_family, states=4, horizon=6)
WORLDS = {
    "FrozenLake 4×4, 0.8": World(
        partial(by_name, "FrozenLake-v1", horizon=12, success_rate=0.8), 2000, 6
    ),
    "FrozenLake 4×4": World(partial(by_name, "FrozenLake-v1"), 1500, 4),
    "FrozenLake 8×8": World(partial(by_name, "FrozenLake8x8-v1"), 1500, 3),
    "CliffWalking": World(partial(by_name, "CliffWalking-v1"), 400, 5),
    "Taxi": World(partial(by_name, "Taxi-v4"), 400, 3),
    "Blackjack": World(blackjack, 4000, 4),
    "CartPole": World(partial(by_name, "CartPole-v1"), 100, 3),
    "MountainCar": World(partial(by_name, "MountainCar-v0"), 100, 3),
    "Acrobot": World(partial(by_name, "Acrobot-v1"), 100, 3),
    "ICU-Sepsis, table": World(partial(sepsis, table=True), 600, 3),
    "ICU-Sepsis, 100 numbers": World(partial(sepsis, table=False), 1000, 3),
    "recommender": World(recommender, 1000, 4),
    "RiverSwim": World(partial(studied, worlds.river_swim), 1000, 8),
    "chain": World(partial(studied, study_worlds.deep_chain), 1000, 8),
    "deterministic": World(partial(studied, study_worlds.deterministic), 1000, 8),
    "ten arms": World(partial(studied, study_worlds.bandit), 500, 8),
    "hard instance, stages differ": World(partial(studied, hard), 1000, 5),
    "random linear, stages differ": World(partial(studied, study_worlds.random_linear), 1000, 5),
    "random tabular, stages differ": World(partial(studied, tabular), 1000, 5),
    "lower bound, stages differ": World(partial(studied, lower_bound, start=1), 1000, 5),
}
# Worlds of other authors.
OUTSIDE = {
    name: World(partial(outside, build), episodes, rounds)
    for name, build, episodes, rounds in (
        ("deep sea", outside_worlds.DeepSea, 1000, 4),
        ("catch", outside_worlds.Catch, 500, 4),
        ("discounting chain", outside_worlds.DiscountingChain, 200, 3),
        ("six arms", outside_worlds.SixArms, 1000, 4),
        ("grid with traps", outside_worlds.TrapGrid, 1000, 4),
        ("combination lock", outside_worlds.CombinationLock, 1000, 4),
        ("inventory", outside_worlds.Inventory, 200, 3),
        ("tumour", outside_worlds.Tumour, 200, 3),
    )
}
WORLDS |= OUTSIDE
