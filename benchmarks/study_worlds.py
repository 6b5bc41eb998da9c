"""The finite worlds of `nothing_to_tune.py`: seven from the package, and others."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rareswitch.sim import FiniteMDP, worlds
from rareswitch.support.arguments import Floats
from rareswitch.support.streams import Seed


class World(NamedTuple):
    """A function that makes a round's world, K, B, and the initial state."""

    build: Callable[..., FiniteMDP]
    episodes: int
    batches: int
    start: int | str = 0


def stationary(chances: Floats, rewards: Floats, horizon: int, features: Any = None) -> FiniteMDP:
    """Return the world of P (S, A, S) and r (S, A), by default with a coordinate for each pair."""
    states, actions, _ = chances.shape
    features = np.eye(states * actions) if features is None else features
    return FiniteMDP(
        features=features.reshape(states, actions, -1),
        transitions=np.broadcast_to(chances, (horizon, *chances.shape)),
        rewards=np.broadcast_to(rewards, (horizon, *rewards.shape)),
    )


def poor_river(seed: Seed) -> FiniteMDP:
    """Return RiverSwim with rewards in twentieths."""
    river = worlds.river_swim()
    return FiniteMDP(
        features=river.features, transitions=river.transitions, rewards=river.rewards / 20.0
    )


def deep_chain(seed: Seed) -> FiniteMDP:
    """Return a chain that pays only for eight right actions in a row: one policy in 256."""
    right = np.random.default_rng(seed).integers(0, 2, 8)
    chances, rewards = np.zeros((8, 2, 8)), np.full((8, 2), 0.01)
    for state, action in enumerate(right):
        chances[state, action, min(state + 1, 7)] = chances[state, 1 - action, 0] = 1.0
        rewards[state, action] = float(state == 7)
    return stationary(chances, rewards, horizon=8)


def deterministic(seed: Seed) -> FiniteMDP:
    rng = np.random.default_rng(seed)
    return stationary(np.eye(10)[rng.integers(0, 10, (10, 4))], rng.random((10, 4)), horizon=8)


def six_arms(seed: Seed) -> FiniteMDP:
    """Return SixArms (Strehl and Littman 2008): arms that are harder to reach pay more."""
    reached, paid = (1.0, 0.15, 0.1, 0.05, 0.03, 0.01), (50, 133, 300, 800, 1660, 6000)
    chances, rewards = np.zeros((7, 6, 7)), np.zeros((7, 6))
    chances[1:, :, 0] = 1.0
    for arm, stay in enumerate((4, 1, 2, 3, 0, 5)):
        chances[0, arm, arm + 1], chances[0, arm, 0] = reached[arm], 1.0 - reached[arm]
        chances[arm + 1, stay] = np.eye(7)[arm + 1]
        rewards[arm + 1, stay] = paid[arm] / 6000.0
    return stationary(chances, rewards, horizon=100)


def trap_grid(seed: Seed) -> FiniteMDP:
    """Return a slippery grid of 4×4 with three traps: the start pays a tenth, the far corner 1."""
    moves, paths = ((0, 1), (1, 0), (0, -1), (-1, 0)), [2, 3, 5, 6, 7, 8, 9, 10, 12, 13]
    traps = np.random.default_rng(seed).choice(paths, 3, replace=False)
    chances, rewards = np.zeros((16, 4, 16)), np.zeros((16, 4))
    for state, action in np.ndindex(16, 4):
        for turn, chance in ((0, 0.9), (1, 0.05), (-1, 0.05)):
            place = np.add(divmod(state, 4), moves[(action + turn) % 4]).clip(0, 3)
            chances[state, action, place @ (4, 1)] += chance
    chances[traps], rewards[0], rewards[15] = np.eye(16)[traps, None], 0.1, 1.0
    return stationary(chances, rewards, horizon=12)


def deep_sea(seed: Seed) -> FiniteMDP:
    """Return DeepSea (Osband et al. 2019) of six rows: only the way straight right pays."""
    rows, right = 6, np.random.default_rng(seed).integers(0, 2, (6, 6))
    end = rows * rows
    chances, rewards = np.zeros((end + 1, 2, end + 1)), np.zeros((end + 1, 2))
    chances[end, :, end] = 1.0
    for row, column, action in np.ndindex(rows, rows, 2):
        goes = action == right[row, column]
        to = min(column + 1, rows - 1) if goes else max(column - 1, 0)
        state = row * rows + column
        chances[state, action, end if row == rows - 1 else (row + 1) * rows + to] = 1.0
        rewards[state, action] = float(state == end - 1) if goes else 0.01 / rows
    return stationary(chances, rewards, horizon=rows)


def loop(seed: Seed) -> FiniteMDP:
    """Return Loop (Strens 2000): an easy circle pays a half, a circle of right actions pays 1."""
    chances, rewards = np.zeros((9, 2, 9)), np.zeros((9, 2))
    chances[0, 0, 1] = chances[0, 1, 5] = 1.0
    for state in (1, 2, 3):
        chances[state, :, state + 1] = chances[state + 4, 1, state + 5] = 1.0
        chances[state + 4, 0, 0] = 1.0
    chances[4, :, 0] = chances[8, :, 0] = 1.0
    rewards[4], rewards[8] = 0.5, 1.0
    return stationary(chances, rewards, horizon=30)


def six_doors(seed: Seed) -> FiniteMDP:
    """Return six rooms: one of three handles opens a door half the time; turning back pays."""
    right = np.random.default_rng(seed).integers(0, 3, 6)
    chances, rewards = np.zeros((7, 4, 7)), np.zeros((7, 4))
    for room in range(6):
        chances[room, :3, max(room - 1, 0)] = chances[room, 3, 0] = 1.0
        chances[room, right[room]] = (np.eye(7)[room] + np.eye(7)[room + 1]) / 2.0
        rewards[room, 3] = 0.05
    chances[6, :, 6], rewards[6] = 1.0, 1.0
    return stationary(chances, rewards, horizon=15)


def two_prizes(seed: Seed) -> FiniteMDP:
    """Return a slippery line of twelve: its near end pays a fifth, its far end 1."""
    chances, rewards = np.zeros((12, 3, 12)), np.zeros((12, 3))
    for state, action in np.ndindex(12, 3):
        for step, chance in ((action - 1, 0.85), (1 - action, 0.15)):
            chances[state, action, min(max(state + step, 0), 11)] += chance
    rewards[0], rewards[11] = 0.2, 1.0
    return stationary(chances, rewards, horizon=16)


def bandit(seed: Seed) -> FiniteMDP:
    """Return ten arms with constant rewards, so one try of each is enough."""
    means = np.random.default_rng(seed).uniform(0.2, 0.8, (2, 10))
    return stationary(np.full((2, 10, 2), (0.0, 1.0)), means, horizon=1)  # state 1: the end


def recommender(seed: Seed) -> FiniteMDP:
    """Return 40 users who like similar items and are moved by them; values are not linear."""
    rng, users = np.random.default_rng(seed), np.random.default_rng(0).standard_normal((40, 5))
    items, quality = rng.standard_normal((8, 5)), rng.normal(-1.0, 0.5, 8)
    users, items = (at / np.linalg.norm(at, axis=1, keepdims=True) for at in (users, items))
    moved = users[:, None] + rng.choice((-0.35, 0.35), 8)[:, None] * items
    near = np.exp(12.0 * (moved / np.linalg.norm(moved, axis=2, keepdims=True)) @ users.T)
    rewards = 1.0 / (1.0 + np.exp(-3.0 * users @ items.T - quality))
    features = np.einsum("ab,sk->sabk", np.eye(8), np.column_stack([users, np.ones(40)]))
    return stationary(near / near.sum(axis=2, keepdims=True), rewards, 10, features)


def misspecified(seed: Seed) -> FiniteMDP:
    hard = worlds.hard_to_learn(d=10, horizon=10, seed=seed)
    return worlds.misspecified(hard, zeta=0.2, seed=seed)


random_linear = partial(worlds.random_linear, states=20, actions=10, d=8, horizon=8)
WORLDS = {
    "hard-13": World(partial(worlds.hard_to_learn, d=13, horizon=10), 2500, 10),
    "hard-8": World(partial(worlds.hard_to_learn, d=8, horizon=6), 1000, 10),
    "hard-10": World(partial(worlds.hard_to_learn, d=10, horizon=20), 2000, 10),
    "misspecified": World(misspecified, 2000, 10),
    "random-linear": World(random_linear, 1000, 10),
    "tabular": World(partial(worlds.tabular, states=6, actions=4, horizon=6), 1000, 10),
    "lower-bound": World(
        partial(worlds.lower_bound_family, states=4, horizon=6), 1000, 20, start=1
    ),
    "lake": World(worlds.frozen_lake, 3000, 30),
    "river": World(worlds.river_swim, 2000, 20),
    "river, paid in twentieths": World(poor_river, 2000, 20),
    "chain": World(deep_chain, 1000, 15),
    "deterministic": World(deterministic, 1000, 10),
    "bandit": World(bandit, 500, 8),
    "recommender": World(recommender, 2000, 20, start="uniform"),
}
# Worlds in which a learner may settle too early; the last four were added after the others.
STICKY = {
    "six arms": World(six_arms, 600, 15),
    "trap grid": World(trap_grid, 1000, 15),
    "deep sea": World(deep_sea, 600, 12),
    "loop": World(loop, 500, 12),
    "six doors": World(six_doors, 1000, 20),
    "two prizes": World(two_prizes, 1000, 20, start=4),
}
