"""Two tabular algorithms with few switches, as baselines on one-hot worlds.

UCB2-Hoeffding (Bai et al. 2019) is Q-learning whose policy follows its estimates only at visit
counts that grow geometrically: few local switches. MVP (Zhang et al. 2021) is optimistic value
iteration with Bernstein bonuses, run anew whenever a visit count doubles: few global switches. It
is stated for dynamics that do not depend on the stage; here it counts for each stage.

Both take the constant of their bonus as `scale`; the published constants are far too large in
practice, as β is for LSVI-UCB.
"""

from collections.abc import Callable

import numpy as np

from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.run import Run, initial_states, noise_of
from rareswitch.support.arguments import Floats, Ints, real, require_memory, whole
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

    def learn(path: Ints, actions: Ints) -> bool:
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

    return _play(world, K, seed, initial_state, lambda: deployed.argmax(axis=-1), learn)


def mvp(
    world: FiniteMDP,
    *,
    episodes: int,
    scale: float = 0.1,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play the monotonic value propagation algorithm, planning when a visit count doubles."""
    K = whole("episodes", episodes, least=1)
    c = real("scale", scale, least=0.0, most=1e100)
    H, S, A = checked_world(world).rewards.shape
    log_term = np.log(S * A * K * H)
    moves = np.zeros((H, S, A, S))
    q_values = np.broadcast_to(np.arange(H, 0.0, -1.0)[:, None, None], (H, S, A)).copy()
    q_values[:, ~world.feasible] = -np.inf

    def learn(path: Ints, actions: Ints) -> bool:
        stage = np.arange(H)
        moves[stage, path[:-1], actions, path[1:]] += 1.0
        counts = moves[stage, path[:-1], actions].sum(axis=-1).astype(np.int64)
        doubled = bool(((counts & (counts - 1)) == 0).any())  # some count is a power of two
        if doubled:
            _plan(moves, world, q_values, c * log_term)
        return doubled

    return _play(world, K, seed, initial_state, lambda: q_values.argmax(axis=-1), learn)


def _plan(moves: Floats, world: FiniteMDP, q_values: Floats, log_term: float) -> None:
    """Optimistic value iteration with the empirical variance of the next value, in place."""
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


def _play(
    world: FiniteMDP,
    episodes: int,
    seed: Seed,
    initial_state: int | str | Ints,
    greedy: Callable[[], Ints],
    learn: Callable[[Ints, Ints], bool],
) -> Run:
    """Play episode by episode; `learn` returns whether the policy may have changed."""
    H, S, _ = world.rewards.shape
    require_memory(64.0 * H * episodes, f"{episodes} episodes")
    noise = noise_of(None, episodes, H, seed)
    initial = initial_states(initial_state, S, episodes, seed)
    best = world.optimal_values()[0]
    regret = np.zeros(episodes)
    states = np.zeros((episodes, H + 1), np.int64)
    actions = np.zeros((episodes, H), np.int64)
    policy = greedy()
    gap = np.maximum(best - world.policy_values(policy)[0], 0.0)
    deployments, switches, local = [1], [], 0
    for k in range(episodes):
        path = states[k]
        path[0] = initial[k]
        for h in range(H):
            actions[k, h] = policy[h, path[h]]
            path[h + 1] = (world.thresholds[h, path[h], actions[k, h]] <= noise[k, h]).sum()
        regret[k] = gap[path[0]]
        if learn(path, actions[k]) and k + 1 < episodes:
            deployments.append(k + 2)
            new = greedy()
            if changes := int((new != policy).sum()):
                switches.append(k + 2)
                local += changes
                policy = new
                gap = np.maximum(best - world.policy_values(policy)[0], 0.0)
    return Run(
        regret=regret,
        states=states,
        actions=actions,
        members=np.zeros(episodes, np.int64),
        deployment_episodes=np.array(deployments, np.int64),
        switch_episodes=np.array(switches, np.int64),
        fitted_values=np.full(len(deployments), np.nan),
        local_switches=local,
        policy=None,
    )
