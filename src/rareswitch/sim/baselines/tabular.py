"""Three optimistic algorithms for tabular worlds.

UCB2-Hoeffding (Bai et al. 2019) is Q-learning with few local switches: its policy is updated only
at visit counts that grow geometrically. MVP (Zhang et al. 2021) is optimistic value iteration with
Bernstein bonuses and few global switches: it plans when a visit count doubles. EQO (Lee and Oh
2025) is value iteration before every episode with the bonus c/n. The papers state MVP and EQO for
dynamics that do not depend on the stage; here they count visits for each stage.

`scale` is the constant of the bonus; the published constants are far too large in practice.
"""

import numpy as np

from rareswitch.sim.baselines.play import Table, play
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.run import Run
from rareswitch.support.arguments import Floats, Ints, real, whole
from rareswitch.support.streams import Seed


def ucb2_hoeffding(
    world: FiniteMDP,
    *,
    episodes: int,
    scale: float = 0.1,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play Q-learning with UCB2-Hoeffding exploration (their Algorithm 2)."""
    K = whole("episodes", episodes, least=1)
    c = real("scale", scale, least=0.0, most=1e100)
    H, S, A = checked_world(world).rewards.shape
    step = 1.0 / (2 * H * (H + 1))
    triggers = _ucb2_triggers(step, int(np.ceil(np.log(10 * H**2) / np.log1p(step))), K)
    log_term = np.log(S * A * K * H)
    running = np.full((H, S, A), float(H))  # Q̃
    running[:, ~world.feasible] = -np.inf
    deployed = running.copy()  # Q, which the policy follows
    values = np.full((H + 1, S), float(H))
    values[H] = 0.0
    visits = np.zeros((H, S, A), np.int64)

    def learn(k: int, path: Ints, actions: Ints) -> bool:
        changed = False
        for h in range(H):
            s, a = path[h], actions[h]
            visits[h, s, a] += 1
            t = int(visits[h, s, a])
            rate = (H + 1) / (H + t)
            bonus = c * np.sqrt(H**3 * log_term / t)
            target = world.rewards[h, s, a] + values[h + 1, path[h + 1]] + bonus
            running[h, s, a] += rate * (target - running[h, s, a])
            values[h, s] = min(float(H), running[h, s].max())
            if t in triggers:
                deployed[h, s] = running[h, s]
                changed = True
        return changed

    def policy() -> Table:
        return Table(deployed.argmax(axis=-1), np.zeros(H))

    return play(world, policy, learn, episodes=K, seed=seed, initial_state=initial_state)


def mvp(
    world: FiniteMDP,
    *,
    episodes: int,
    scale: float = 0.1,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play the monotonic value propagation algorithm, planning when a visit count doubles.

    Each plan uses all data. Pairs without a visit have the value H − h.
    """
    K = whole("episodes", episodes, least=1)
    c = real("scale", scale, least=0.0, most=1e100)
    H, S, A = checked_world(world).rewards.shape
    log_term = np.log(S * A * K * H)
    moves = np.zeros((H, S, A, S))
    q_values = np.broadcast_to(np.arange(H, 0.0, -1.0)[:, None, None], (H, S, A)).copy()
    q_values[:, ~world.feasible] = -np.inf

    def learn(k: int, path: Ints, actions: Ints) -> bool:
        stage = np.arange(H)
        moves[stage, path[:-1], actions, path[1:]] += 1.0
        counts = moves[stage, path[:-1], actions].sum(axis=-1).astype(np.int64)
        doubled = bool(((counts & (counts - 1)) == 0).any())  # some count is a power of two
        if doubled:
            _plan(moves, world, q_values, c * log_term)
        return doubled

    def policy() -> Table:
        return Table(q_values.argmax(axis=-1), np.zeros(H))

    return play(world, policy, learn, episodes=K, seed=seed, initial_state=initial_state)


def eqo(
    world: FiniteMDP,
    *,
    episodes: int,
    scale: float = 0.1,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play exploration via quasi-optimism (Lee and Oh 2025, Algorithm 1): the bonus is scale/n.

    Values are at most H, and pairs without a visit have the value H.
    """
    K = whole("episodes", episodes, least=1)
    c = real("scale", scale, least=0.0, most=1e100)
    H, S, A = checked_world(world).rewards.shape
    moves, counts = np.zeros((H, S, A, S)), np.zeros((H, S, A))
    stage = np.arange(H)

    def learn(k: int, path: Ints, actions: Ints) -> bool:
        moves[stage, path[:-1], actions, path[1:]] += 1.0
        counts[stage, path[:-1], actions] += 1.0
        return True

    def policy() -> Table:
        seen = np.maximum(counts, 1.0)
        paid = world.rewards + c / seen  # r̂ + b: a reward is known after one visit
        q_values = np.empty((H, S, A))
        value = np.zeros(S)
        for h in reversed(range(H)):
            estimate = np.minimum(paid[h] + moves[h] @ value / seen[h], H)
            estimate[counts[h] == 0.0] = H
            estimate[~world.feasible] = -np.inf
            q_values[h] = estimate
            value = estimate.max(axis=1)
        return Table.greedy(q_values)

    return play(world, policy, learn, episodes=K, seed=seed, initial_state=initial_state)


def _plan(moves: Floats, world: FiniteMDP, q_values: Floats, log_term: float) -> None:
    """Run optimistic value iteration with the empirical variance of the next value, in place."""
    H, S, _, _ = moves.shape
    value = np.zeros(S)
    for h in reversed(range(H)):
        counts = np.maximum(moves[h].sum(axis=-1), 1.0)  # (S, A)
        chance = moves[h] / counts[..., None]
        mean = chance @ value
        variance = np.maximum(chance @ value**2 - mean**2, 0.0)
        bonus = np.sqrt(variance * log_term / counts) + H * log_term / counts
        optimistic = np.minimum(world.rewards[h] + mean + bonus, H - h)
        seen = moves[h].any(axis=-1)
        q_values[h] = np.where(world.feasible, np.where(seen, optimistic, H - h), -np.inf)
        value = q_values[h].max(axis=1)


def _ucb2_triggers(step: float, first: int, most: int) -> set[int]:
    """Return {1, …, τ(r*)} ∪ {τ(r*+1), …} up to `most`, with τ(r) = ⌈(1+η)^r⌉."""
    start = int(np.ceil((1 + step) ** first))
    triggers = set(range(1, min(start, most) + 1))
    r = first + 1
    while (tau := int(np.ceil((1 + step) ** r))) <= most:
        triggers.add(tau)
        r += 1
    return triggers
