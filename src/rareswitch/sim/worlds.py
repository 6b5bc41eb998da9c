"""The worlds of the paper, two general families, and classic exploration worlds.

The same seed gives the same world to every algorithm.
"""

import numpy as np

from rareswitch.sim.classics import combination_lock, deep_sea, frozen_lake, river_swim
from rareswitch.sim.mdp import FiniteLinearMDP, FiniteMDP, checked_world
from rareswitch.support.arguments import Floats, Ints, flag, one_of, real, require_memory, whole
from rareswitch.support.streams import Seed, Stream, generator

__all__ = [
    "combination_lock",
    "deep_sea",
    "frozen_lake",
    "hard_to_learn",
    "lower_bound_family",
    "misspecified",
    "random_linear",
    "river_swim",
    "tabular",
]
READINGS = ("completed", "padded", "compact")


def hard_to_learn(
    *,
    d: int = 13,
    horizon: int = 10,
    delta: float = 0.35,
    seed: Seed = 0,
    reading: str = "completed",
    normalized: bool = False,
) -> FiniteLinearMDP:
    """Return Example 1: two states, 2^{d−3} actions, reward 1 in state 1.

    From state 0 action a reaches state 1 with probability δ + ⟨a, γ_h⟩; γ_h is hidden, with
    uniform signs. The printed dimensions disagree, so there are three readings: `completed` (every
    action completed by a constant 1; γ_h has d−2 entries), `padded` (γ_h cut to d−3 entries, φ
    padded with a zero) and `compact` (γ_h with d−3 entries of size δ/(d−3), φ in R^{d−1}).
    `normalized` rescales coordinates so that the norms of Definition 2 hold; P and r stay the same.
    """
    d = whole("d", d, least=4, most=20)
    horizon = whole("horizon", horizon, least=1, most=10**6)
    one_of("reading", reading, READINGS)
    normalized = flag("normalized", normalized)
    delta = real("delta", delta)
    if not 0.0 < delta < 0.5:
        raise ValueError(
            f"delta must be above 0 and below 0.5 (at 0.5 θ is singular and P(1|0, a) reaches 1); "
            f"got {delta}"
        )
    bits = np.arange(2 ** (d - 3))[:, None] >> np.arange(d - 4, -1, -1) & 1
    actions = 2.0 * bits - 1.0  # (A, d−3), all of {±1}^{d−3}
    if reading == "completed":
        actions = np.column_stack([actions, np.ones(len(actions))])
    signs = 2.0 * generator(seed, Stream.INSTANCE).integers(0, 2, (horizon, d - 2)) - 1.0
    block = actions.shape[1]
    gamma = signs[:, :block] * delta / (block if reading == "compact" else d - 2)
    if reading == "padded":
        actions, gamma = (np.column_stack([a, np.zeros(len(a))]) for a in (actions, gamma))
    width = actions.shape[1]
    dim = width + 2

    features = np.zeros((2, len(actions), dim))
    features[0, :, :width] = -actions
    features[0, :, width:] = 1.0 - delta, delta
    features[1, :, width:] = delta, 1.0 - delta
    mu = np.zeros((horizon, 2, dim))
    mu[:, 0, :width], mu[:, 1, :width] = gamma, -gamma
    mu[:, 0, width], mu[:, 1, width + 1] = 1.0, 1.0
    theta = np.zeros((horizon, dim))
    theta[:, width:] = np.array([-delta, 1.0 - delta]) / (1.0 - 2.0 * delta)

    if normalized:
        last_square = max((theta[0] ** 2).sum(), 2.0) / dim  # c²: both ‖θ‖ and ‖μ(S)‖ within √d
        rest = 1.0 - last_square * (delta**2 + (1.0 - delta) ** 2)
        if rest <= 0.0:
            raise ValueError(
                f"delta must be further below 0.5 for a normalized instance; got {delta}"
            )
        scale = np.full(dim, np.sqrt(last_square))
        scale[:width] = np.sqrt(rest / block)  # α
        features, mu, theta = features * scale, mu / scale, theta / scale
    return FiniteLinearMDP(features, mu, theta)


def misspecified(world: FiniteMDP, *, zeta: float, seed: Seed = 0) -> FiniteMDP:
    """Return the world with state 0 corrupted: P(·|0,a) ← (1−f(a))·P(·|0,a) + f(a)·1{· = g(a)}.

    f(a) is uniform on [0, ζ] and g(a) uniform over states, drawn once for each action.
    """
    checked_world(world)
    zeta = abs(real("zeta", zeta, least=0.0, below=1.0))  # −0 is 0
    rng = generator(seed, Stream.CORRUPTION)
    actions = world.features.shape[1]
    f: Floats = rng.uniform(0.0, zeta, (actions,))
    g = rng.integers(0, world.states, actions)
    transitions = world.transitions.copy()
    transitions[:, 0] *= 1.0 - f[:, None]
    transitions[:, 0, np.arange(actions), g] += f
    return FiniteMDP(
        features=world.features,
        transitions=transitions,
        rewards=world.rewards,
        feasible=world.feasible,
    )


def lower_bound_family(
    *,
    states: int,
    horizon: int,
    seed: Seed = 0,
    right_actions: Ints | None = None,
    normalized: bool = False,
) -> FiniteLinearMDP:
    """Return a member of Theorem 3's family: the right action keeps x_j, the other falls to x_0.

    `states` is the number d of rewarding states x_1 … x_d (state 0 is x_0, absorbing, with reward
    0); features are in R^{2d+1}. `right_actions` (H, d) holds the index of b_{h,j}, by default
    drawn at random. `normalized` gives ‖φ‖ ≤ 1 instead of √2, with the same P and r.
    """
    d = whole("states", states, least=1)
    horizon = whole("horizon", horizon, least=1)
    normalized = flag("normalized", normalized)
    _require_room(states=d + 1, actions=2, horizon=horizon)
    if right_actions is None:
        right_actions = generator(seed, Stream.INSTANCE).integers(0, 2, (horizon, d))
    given = np.asarray(right_actions)
    if (
        given.dtype.kind not in "iu"
        or given.shape != (horizon, d)
        or not np.isin(given, (0, 1)).all()
    ):
        raise ValueError(f"right_actions must be 0 or 1 with shape {(horizon, d)}")
    dim = 2 * d + 1
    block = np.eye(2 * d).reshape(d, 2, 2 * d)  # one coordinate for each (x_j, action)
    features = np.zeros((d + 1, 2, dim))
    features[:, :, 0] = 1.0
    features[1:, :, 1:] = block
    right = block[np.arange(d), given]  # (H, d, 2d)
    mu = np.zeros((horizon, d + 1, dim))
    mu[:, 0, 0] = 1.0
    mu[:, 0, 1:] = -right.sum(axis=1)
    mu[:, 1:, 1:] = right
    theta = np.ones((horizon, dim))
    theta[:, 0] = 0.0
    if normalized:
        scale = np.full(dim, np.sqrt(2 * d / dim))
        scale[0] = np.sqrt(1 / dim)
        features, mu, theta = features * scale, mu / scale, theta / scale
    return FiniteLinearMDP(features, mu, theta)


def random_linear(
    *,
    states: int,
    actions: int,
    d: int,
    horizon: int,
    seed: Seed = 0,
    features_seed: int | None = None,
) -> FiniteLinearMDP:
    """Return a random linear MDP with features, and each coordinate's measure, on the simplex.

    Worlds with one `features_seed` have the same features for any `seed`, so their runs can step
    together.
    """
    states = whole("states", states, least=1)
    actions = whole("actions", actions, least=1)
    d = whole("d", d, least=1)
    horizon = whole("horizon", horizon, least=1)
    _require_room(states=states, actions=actions, horizon=horizon)
    rng = generator(seed, Stream.INSTANCE)
    own = rng if features_seed is None else generator(features_seed, Stream.FEATURES)
    features = own.dirichlet(np.ones(d), (states, actions))
    mu = rng.dirichlet(np.ones(states), (horizon, d)).transpose(0, 2, 1)
    return FiniteLinearMDP(features, mu, rng.random((horizon, d)))


def tabular(*, states: int, actions: int, horizon: int, seed: Seed = 0) -> FiniteLinearMDP:
    """Return a random tabular MDP as a linear one: one-hot features, d = S·A."""
    states = whole("states", states, least=1)
    actions = whole("actions", actions, least=1)
    horizon = whole("horizon", horizon, least=1)
    _require_room(states=states, actions=actions, horizon=horizon)
    d = states * actions
    rng = generator(seed, Stream.INSTANCE)
    features = np.eye(d).reshape(states, actions, d)
    mu = rng.dirichlet(np.ones(states), (horizon, d)).transpose(0, 2, 1)
    return FiniteLinearMDP(features, mu, rng.random((horizon, d)))


def _require_room(*, states: int, actions: int, horizon: int) -> None:
    """Check the memory of four arrays of transitions: μ, P, the thresholds and a copy."""
    sizes = f"transitions of {states} states, {actions} actions and {horizon} stages"
    require_memory(4 * 8.0 * horizon * states**2 * actions, sizes)
