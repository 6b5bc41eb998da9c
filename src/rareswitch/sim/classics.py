"""Classic exploration worlds, with one coordinate for every pair (s, a) and rewards in [0, 1].

`rareswitch.worlds` exports them with the worlds of the paper.
"""

import numpy as np

from rareswitch.sim.mdp import FiniteMDP
from rareswitch.support.arguments import Floats, real, whole
from rareswitch.support.streams import Seed, Stream, generator

# The map of Gymnasium's FrozenLake-v1, row by row: holes, and the goal in the last corner.
LAKE_SIDE, LAKE_HOLES, LAKE_GOAL = 4, (5, 7, 11, 12), 15
LAKE_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up
# Giving up pays this reward at once, so greedy learners give up.
DISTRACTION = 0.1


def river_swim(*, states: int = 6, horizon: int = 20, seed: Seed = 0) -> FiniteMDP:
    """Return RiverSwim (Strehl and Littman 2008), which pays 0.005 downstream and 1 upstream.

    Action 0 swims downstream and always succeeds. Action 1 swims upstream: it succeeds with
    probability 0.35 and slips back with 0.05, at the ends with 0.6 and 0.4.
    """
    S = whole("states", states, least=2)
    chances, rewards = np.zeros((S, 2, S)), np.zeros((S, 2))
    for state in range(S):
        chances[state, 0, max(state - 1, 0)] = 1.0
        if 0 < state < S - 1:
            chances[state, 1, state - 1 : state + 2] = 0.05, 0.6, 0.35
    chances[0, 1, :2] = chances[-1, 1, -2:] = 0.4, 0.6
    rewards[0, 0], rewards[-1, 1] = 0.005, 1.0
    horizon = whole("horizon", horizon, least=1)
    return _one_hot(np.broadcast_to(chances, (horizon, S, 2, S)), rewards)


def deep_sea(*, size: int = 8, seed: Seed = 0) -> FiniteMDP:
    """Return DeepSea (Osband et al. 2019): only `size` steps to the right reach the reward 1.

    The row is the stage, and the column is the state. The seed draws the action that goes right in
    each cell. A step to the left pays 0.01/size; in the original a step to the right costs as much.
    """
    N = whole("size", size, least=2)
    right = generator(seed, Stream.INSTANCE).integers(0, 2, (N, N))
    chances, rewards = np.zeros((N, N, 2, N)), np.zeros((N, N, 2))
    for row, column in np.ndindex(N, N):
        action = right[row, column]
        chances[row, column, action, min(column + 1, N - 1)] = 1.0
        chances[row, column, 1 - action, max(column - 1, 0)] = 1.0
        rewards[row, column, 1 - action] = 0.01 / N
    rewards[-1, -1, right[-1, -1]] = 1.0
    return _one_hot(chances, rewards)


def combination_lock(*, horizon: int = 6, actions: int = 4, seed: Seed = 0) -> FiniteMDP:
    """Return a combination lock: one action is right at every stage, and all of them pay 1.

    The first wrong action pays 0.1 and leads to state 1, which is absorbing and pays 0.
    """
    H, A = whole("horizon", horizon, least=1), whole("actions", actions, least=2)
    right = generator(seed, Stream.INSTANCE).integers(0, A, H)
    chances, rewards = np.zeros((H, 2, A, 2)), np.zeros((H, 2, A))
    chances[..., 1] = 1.0
    chances[np.arange(H), 0, right] = 1.0, 0.0
    rewards[:, 0] = DISTRACTION
    rewards[np.arange(H), 0, right] = 0.0
    rewards[-1, 0, right[-1]] = 1.0
    return _one_hot(chances, rewards)


def frozen_lake(*, chance: float = 0.8, horizon: int = 12, seed: Seed = 0) -> FiniteMDP:
    """Return Gymnasium's FrozenLake 4×4: a step slips to either side with probability 1 − `chance`.

    The goal pays 1 once and holes pay 0. Both are absorbing.
    """
    chance = real("chance", chance, above=0.0, most=1.0)
    horizon = whole("horizon", horizon, least=1)
    S, ends = LAKE_SIDE**2, (*LAKE_HOLES, LAKE_GOAL)
    aside = (1.0 - chance) / 2.0
    chances = np.zeros((S, 4, S))
    for state, action in np.ndindex(S, 4):
        for turn, share in ((0, chance), (1, aside), (-1, aside)):
            row, column = np.add(divmod(state, LAKE_SIDE), LAKE_MOVES[(action + turn) % 4])
            row, column = np.clip((row, column), 0, LAKE_SIDE - 1)
            chances[state, action, row * LAKE_SIDE + column] += share
    rewards = chances[:, :, LAKE_GOAL].copy()
    chances[ends, :], rewards[ends, :] = np.eye(S)[ends, None], 0.0
    return _one_hot(np.broadcast_to(chances, (horizon, S, 4, S)), rewards)


def _one_hot(transitions: Floats, rewards: Floats) -> FiniteMDP:
    """Return the world of P (H, S, A, S) and r (H, S, A), or (S, A) for all stages."""
    _, states, actions, _ = transitions.shape
    return FiniteMDP(
        features=np.eye(states * actions).reshape(states, actions, -1),
        transitions=transitions,
        rewards=np.broadcast_to(rewards, transitions.shape[:-1]),
    )
