"""Baselines transcribed from their papers, slow on purpose: loops, dictionaries, raw histories.

A transcription is a function (world, K, settings) → (policy, learn). `policy()` returns actions
(H, S) and, for each stage, the probability of a uniformly random action; `learn(k, path, actions)`
returns whether a policy is deployed before episode k + 1.
"""

from itertools import pairwise
from math import ceil, log, sqrt

import numpy as np

import rareswitch as rs
from rareswitch.sim import FiniteMDP
from rareswitch.sim.run import initial_states, noise_of
from rareswitch.support.streams import Stream, generator


def masked_tabular(seed, *, states=3, actions=3, horizon=3):
    """Return a tabular world in which every state but the first bars an action."""
    world = rs.worlds.tabular(states=states, actions=actions, horizon=horizon, seed=seed)
    feasible = np.ones((states, actions), bool)
    feasible[np.arange(1, states), np.arange(1, states) % actions] = False
    return FiniteMDP(
        features=world.features,
        transitions=world.transitions,
        rewards=world.rewards,
        feasible=feasible,
    )


def nonlinear(seed, *, states=2, actions=3, dim=2, horizon=3):
    """Return a world whose rewards are not linear in its features: estimates leave their range."""
    rng = np.random.default_rng(seed)
    return FiniteMDP(
        features=rng.normal(size=(states, actions, dim)) * rng.uniform(0.2, 2.0, (actions, 1)),
        transitions=rng.dirichlet(np.ones(states), (horizon, states, actions)),
        rewards=1.0 - 0.2 * rng.random((horizon, states, actions)),
    )


TABULAR = {
    "tabular": rs.worlds.tabular(states=3, actions=3, horizon=3, seed=1),
    "masked": masked_tabular(2),
    "one-stage": rs.worlds.tabular(states=2, actions=4, horizon=1, seed=3),
}
LINEAR = {
    "hard": rs.worlds.hard_to_learn(d=5, horizon=3, seed=1),
    "linear": rs.worlds.random_linear(states=3, actions=3, d=2, horizon=2, seed=2),
    "lower-bound": rs.worlds.lower_bound_family(states=2, horizon=3, seed=1),
    "masked": masked_tabular(2, states=2, actions=2),
    "nonlinear": nonlinear(1),
}


class Menus:
    """The feasible actions of each state, and the best of them: the lowest among equals."""

    def __init__(self, world):
        self.menus = [[a for a in range(len(row)) if row[a]] for row in world.feasible]
        self.H, self.S = world.horizon, world.states

    def best(self, q, tolerance=1e-9):
        """Return actions (H, S) for values q[h, s, a]."""
        chosen = np.zeros((self.H, self.S), int)
        for h in range(self.H):
            for s, menu in enumerate(self.menus):
                top = max(q[h, s, a] for a in menu)
                chosen[h, s] = next(a for a in menu if q[h, s, a] >= top - tolerance)
        return chosen


def ucb2(world, K, scale):
    """Q-learning with UCB2-Hoeffding exploration (Bai et al. 2019, Algorithm 2), by dictionaries.

    Q̃ and V start at H; a visit t moves Q̃ by (H+1)/(H+t) towards r + V(s') + c·√(H³ι/t); V is
    min(H, max Q̃); the policy's Q copies Q̃ at a visit count of the triggering sequence.
    """
    H, S, A = world.rewards.shape
    table = Menus(world)
    eta = 1 / (2 * H * (H + 1))
    r_star = ceil(log(10 * H * H) / log(1 + eta))
    triggers = set(range(1, ceil((1 + eta) ** r_star) + 1))
    triggers |= {ceil((1 + eta) ** r) for r in range(r_star + 1, r_star + 2000)}
    iota = log(S * A * K * H)
    follow = {(h, s, a): float(H) for h in range(H) for s in range(S) for a in range(A)}
    running, visits = dict(follow), dict.fromkeys(follow, 0)
    value = {(h, s): float(H) if h < H else 0.0 for h in range(H + 1) for s in range(S)}

    def learn(k, path, actions):
        triggered = False
        for h, (s, a) in enumerate(zip(path[:-1], actions, strict=True)):
            visits[h, s, a] += 1
            t = visits[h, s, a]
            rate, bonus = (H + 1) / (H + t), scale * sqrt(H**3 * iota / t)
            target = world.rewards[h, s, a] + value[h + 1, path[h + 1]] + bonus
            running[h, s, a] = running[h, s, a] + rate * (target - running[h, s, a])
            value[h, s] = min(float(H), max(running[h, s, b] for b in table.menus[s]))
            if t in triggers:
                triggered = True
                for b in table.menus[s]:
                    follow[h, s, b] = running[h, s, b]
        return triggered

    return (lambda: (table.best(follow, 0.0), [0.0] * H)), learn


def mvp(world, K, scale):
    """Optimistic value iteration with Bernstein bonuses, anew when a visit count doubles.

    The bonus is √(Var(V)·cι/n) + H·cι/n with the empirical variance of the next value, Q is
    clipped at the steps to go, and an unseen pair is worth all of them.
    """
    H, S, A = world.rewards.shape
    table = Menus(world)
    iota = scale * log(S * A * K * H)
    seen = {}
    q = {(h, s, a): float(H - h) for h in range(H) for s in range(S) for a in range(A)}

    def learn(k, path, actions):
        doubled = False
        for h, (s, a) in enumerate(zip(path[:-1], actions, strict=True)):
            nexts = seen.setdefault((h, s, a), [])
            nexts.append(path[h + 1])
            doubled |= len(nexts) in {2**i for i in range(40)}
        if doubled:
            value = [0.0] * S
            for h in reversed(range(H)):
                for s in range(S):
                    for a in table.menus[s]:
                        if nexts := seen.get((h, s, a)):
                            n = len(nexts)
                            mean = sum(value[x] for x in nexts) / n
                            spread = max(sum(value[x] ** 2 for x in nexts) / n - mean**2, 0.0)
                            bonus = sqrt(spread * iota / n) + H * iota / n
                            q[h, s, a] = min(world.rewards[h, s, a] + mean + bonus, H - h)
                value = [max(q[h, s, a] for a in table.menus[s]) for s in range(S)]
        return doubled

    return (lambda: (table.best(q, 0.0), [0.0] * H)), learn


def eqo(world, K, scale):
    """EQO (Lee and Oh 2025, Algorithm 1): N, r̂ and P̂ from the history, the bonus c/N.

    Q = min(r̂ + c/N + P̂V, H) where N > 0, else H; a new policy before every episode.
    """
    H, S, _ = world.rewards.shape
    table = Menus(world)
    history = []

    def learn(k, path, actions):
        history.append((list(path), list(actions)))
        return True

    def policy():
        q = {}
        value = [0.0] * S
        for h in reversed(range(H)):
            for s in range(S):
                for a in table.menus[s]:
                    nexts = [p[h + 1] for p, acts in history if p[h] == s and acts[h] == a]
                    n = len(nexts)
                    q[h, s, a] = float(H)
                    if n:
                        reward = sum(world.rewards[h, s, a] for _ in nexts) / n
                        ahead = sum(nexts.count(x) / n * value[x] for x in range(S))
                        q[h, s, a] = min(reward + scale / n + ahead, H)
            value = [max(q[h, s, a] for a in table.menus[s]) for s in range(S)]
        return table.best(q), [0.0] * H

    return policy, learn


def psrl(world, K, seed, prior=1.0, batches=None):
    """Posterior sampling with independent Dirichlet priors, drawn pair by pair.

    Each probability vector is a vector of gamma variables over its sum; the reward of an unseen
    pair is uniform. The history is that of the batch's start.
    """
    H, S, A = world.rewards.shape
    table = Menus(world)
    rng = generator(seed, Stream.PERTURBATION)
    starts = {i * (K // batches) + 1 for i in range(batches)} if batches else set(range(1, K + 1))
    history, at_start = [], []

    def learn(k, path, actions):
        history.append((list(path), list(actions)))
        if k + 1 in starts:
            at_start[:] = history
        return k + 1 in starts

    def policy():
        chance, seen = {}, set()
        for h, s, a in np.ndindex(H, S, A):
            nexts = [p[h + 1] for p, acts in at_start if p[h] == s and acts[h] == a]
            drawn = [rng.standard_gamma(prior + nexts.count(x)) for x in range(S)]
            chance[h, s, a] = [x / sum(drawn) for x in drawn]
            if nexts:
                seen.add((h, s, a))
        q, value = {}, [0.0] * S
        guesses = {pair: rng.random() for pair in np.ndindex(H, S, A)}
        for h in reversed(range(H)):
            for s in range(S):
                for a in table.menus[s]:
                    pair = (h, s, a)
                    reward = world.rewards[pair] if pair in seen else guesses[pair]
                    q[pair] = reward + sum(p * v for p, v in zip(chance[pair], value, strict=True))
            value = [max(q[h, s, a] for a in table.menus[s]) for s in range(S)]
        return table.best(q), [0.0] * H

    return policy, learn


def lsvi_ucb_plus_plus(world, K, scale, inflation, monotone=True):
    """LSVI-UCB++ (He et al. 2023, Algorithm 1), with σ̄ ≥ √H as Tan et al. 2024 correct it."""
    features, rewards = world.features, world.rewards
    H, S, A = rewards.shape
    d = features.shape[2]
    menus = Menus(world)
    ridge, delta = 1 / H**2, 0.05
    beta = H * sqrt(d * ridge) + sqrt(d * log(1 + d * H * K / (delta * ridge)) ** 2)
    bar = H * sqrt(d * ridge) + sqrt(d**3 * H**2 * log(d * H * K / (delta * ridge)) ** 2)
    tilde = H**2 * sqrt(d * ridge) + sqrt(d**3 * H**4 * log(d * H * K / (delta * ridge)) ** 2)
    beta, bar, tilde = scale * beta, scale * bar, scale * tilde
    Q, check = np.full((H + 1, S, A), float(H)), np.zeros((H + 1, S, A))  # line 2
    Q[H] = 0.0
    steps = [[] for _ in range(H)]  # (σ̄, φ, s') of every episode
    last = [ridge * np.eye(d) for _ in range(H)]

    def gram(h):
        return ridge * np.eye(d) + sum(
            (np.outer(f, f) / sigma**2 for sigma, f, _ in steps[h]), np.zeros((d, d))
        )

    def best(values, s):
        return max(values[s, a] for a in menus.menus[s])

    def regress(h, of_state):
        target = np.zeros(d)
        for sigma, f, s_next in steps[h]:
            target += f * of_state(s_next) / sigma**2
        return np.linalg.inv(gram(h)) @ target

    def learn(k, path, actions):
        weighed = []
        for h in range(H):  # lines 18 to 22, with Σ_k, Q_k and Q̌_k
            f = features[path[h], actions[h]]
            norm = sqrt(f @ np.linalg.inv(gram(h)) @ f)
            w_hat = regress(h, lambda s, h=h: best(Q[h + 1], s))
            w_check = regress(h, lambda s, h=h: best(check[h + 1], s))
            w_tilde = regress(h, lambda s, h=h: best(Q[h + 1], s) ** 2)
            variance = min(max(w_tilde @ f, 0.0), H**2) - min(max(w_hat @ f, 0.0), H) ** 2
            E = min(tilde * norm, H**2) + min(2 * H * bar * norm, H**2)
            D = min(4 * d**3 * H**2 * (w_hat @ f - w_check @ f + 2 * bar * norm), d**3 * H**3)
            sigma = sqrt(max(variance + inflation * (E + D) + H, 0.0))
            least = inflation * 2 * d**3 * H**2 * sqrt(norm)
            weighed.append((max(sigma, sqrt(H), least), f, path[h + 1]))
        for h in range(H):
            steps[h].append(weighed[h])
        doubled = any(
            np.linalg.slogdet(gram(h))[1] >= log(2) + np.linalg.slogdet(last[h])[1]
            for h in range(H)
        )  # line 8
        if doubled:
            for h in reversed(range(H)):
                inverse = np.linalg.inv(gram(h))
                w_hat = regress(h, lambda s, h=h: best(Q[h + 1], s))  # line 6
                w_check = regress(h, lambda s, h=h: best(check[h + 1], s))  # line 7
                for s, a in np.ndindex(S, A):
                    f = features[s, a]
                    norm = sqrt(f @ inverse @ f)
                    high = rewards[h, s, a] + w_hat @ f + beta * norm
                    low = rewards[h, s, a] + w_check @ f - bar * norm
                    Q[h, s, a] = min(high, Q[h, s, a] if monotone else H, H)  # line 9
                    check[h, s, a] = max(low, check[h, s, a] if monotone else 0, 0)  # line 10
                last[h] = gram(h)  # line 11
        return doubled

    learn.state = lambda: (Q[:H], check[:H], [np.linalg.slogdet(gram(h))[1] for h in range(H)])
    return (lambda: (menus.best(Q), [0.0] * H)), learn


def least_squares(world, history, ridge):
    """Return Q[h, s, a] of LSVI without a bonus, from the raw history."""
    features, H, S = world.features, world.horizon, world.states
    menus = Menus(world)
    q, value = {}, [0.0] * S
    for h in reversed(range(H)):
        gram, target = ridge * np.eye(world.dim), np.zeros(world.dim)
        for path, actions in history:
            f = features[path[h], actions[h]]
            gram += np.outer(f, f)
            target += f * (world.rewards[h, path[h], actions[h]] + value[path[h + 1]])
        w = np.linalg.inv(gram) @ target
        for s in range(S):
            for a in menus.menus[s]:
                q[h, s, a] = min(max(features[s, a] @ w, 0.0), H - h)
        value = [max(q[h, s, a] for a in menus.menus[s]) for s in range(S)]
    return q


def epsilon_greedy(world, K, epsilon, ridge=1.0, batches=None):
    """LSVI before every batch; a step is uniformly random with probability ε."""
    starts = {i * (K // batches) + 1 for i in range(batches)} if batches else set(range(1, K + 1))
    history = []

    def learn(k, path, actions):
        history.append((list(path), list(actions)))
        return k + 1 in starts

    def policy():
        return Menus(world).best(least_squares(world, history, ridge)), [epsilon] * world.horizon

    return policy, learn


def explore_then_commit(world, K, explore, ridge=1.0):
    """Random for a share of the episodes, then the greedy policy of all of them."""
    history, first = [], max(1, round(explore * K))

    def learn(k, path, actions):
        history.append((list(path), list(actions)))
        return k == first

    def policy():
        best = Menus(world).best(least_squares(world, history[:first], ridge))
        return best, [float(not history)] * world.horizon

    return policy, learn


def layer_by_layer(world, K, batches, scale, accuracy):
    """Huang et al. 2022, Algorithm 1, with N = ⌊K/B⌋ and the last batch as long as is left."""
    features, H, S = world.features, world.horizon, world.states
    d = world.dim
    menus = Menus(world)
    eps = accuracy * H
    beta = scale * d * H * sqrt(log(d * H / (0.05 * eps)))
    starts = [i * (K // batches) + 1 for i in range(batches)]
    deployments, current = [], []  # the episodes of each deployment, and of this one
    state = {"layer": 1, "final": False}

    def inverse_gram(h, past):
        gram = np.eye(d)
        for episodes in past:
            for path, actions in episodes:
                f = features[path[h], actions[h]]
                gram += np.outer(f, f)
        return np.linalg.inv(gram)

    def policy():
        q = {(h, s, a): 0.0 for h in range(H) for s in range(S) for a in menus.menus[s]}
        value = [0.0] * S  # V_{h_k + 1}
        for h in reversed(range(state["layer"])):
            inverse, target = inverse_gram(h, deployments), np.zeros(d)
            for episodes in deployments:
                for path, actions in episodes:
                    target += features[path[h], actions[h]] * value[path[h + 1]]
            w = inverse @ target
            for s in range(S):
                for a in menus.menus[s]:
                    f = features[s, a]
                    u = min(beta * sqrt(f @ inverse @ f), H)
                    q[h, s, a] = min(w @ f + world.rewards[h, s, a] + u, H)
            value = [max(q[h, s, a] for a in menus.menus[s]) for s in range(S)]
        state["q"] = q
        return menus.best(q), [float(h >= state["layer"]) for h in range(H)]

    def learn(k, path, actions):
        current.append((list(path), list(actions)))
        if state["final"] or k + 1 not in starts:
            return False
        total = 0.0
        for played, taken in current:
            for h in range(state["layer"]):
                f = features[played[h], taken[h]]
                total += sqrt(f @ inverse_gram(h, deployments) @ f)
        deployments.append(list(current))
        small = 2 * beta / len(current) * total < eps * state["layer"] / (2 * H)
        current.clear()
        if small and state["layer"] == H:
            state["final"] = True
        elif small:
            state["layer"] += 1
        return not state["final"]

    return policy, learn


def chances(world, actions, random):
    """Return the probabilities (H, S, A) of a policy."""
    H, S, A = world.rewards.shape
    out = np.zeros((H, S, A))
    for h, s in np.ndindex(H, S):
        menu = np.flatnonzero(world.feasible[s])
        out[h, s, menu] += random[h] / len(menu)
        out[h, s, actions[h][s]] += 1 - random[h]
    return out


def literally(world, made, *, K, seed, initial_state=0, redraw=False):
    """Play episode by episode, recomputing the policy every time; return all that a run holds."""
    policy, learn = made
    noise = noise_of(None, K, world.horizon, seed)
    picks = generator(seed, Stream.TIES).random((world.horizon, K))
    initial = initial_states(initial_state, world.states, K, seed)
    optimal = world.optimal_values()[0]
    states, all_actions, tables, regret = [], [], [], []
    learnt = [True]
    for k in range(K):
        if learnt[k] or redraw:
            table, random = policy()
        tables.append(chances(world, table, random))
        path, actions = [int(initial[k])], []
        for h in range(world.horizon):
            menu = np.flatnonzero(world.feasible[path[-1]])
            if picks[h, k] < random[h]:
                actions.append(int(menu[int(picks[h, k] / random[h] * len(menu))]))
            else:
                actions.append(int(table[h][path[-1]]))
            chance = np.cumsum(world.transitions[h, path[-1], actions[-1]])[:-1]
            path.append(int((chance <= noise[k, h]).sum()))
        value = [0.0] * world.states
        for h in reversed(range(world.horizon)):
            value = [
                sum(
                    tables[-1][h, s, a]
                    * (world.rewards[h, s, a] + world.transitions[h, s, a] @ value)
                    for a in range(len(world.feasible[s]))
                )
                for s in range(world.states)
            ]
        regret.append(optimal[path[0]] - value[path[0]])
        learnt.append(bool(learn(k + 1, path, actions)))
        states.append(path)
        all_actions.append(actions)
    changes = [int((np.abs(a - b) > 1e-12).any(axis=-1).sum()) for a, b in pairwise(tables)]
    return {
        "states": np.array(states),
        "actions": np.array(all_actions),
        "regret": np.array(regret),
        "deployment_episodes": [k + 1 for k in range(K) if learnt[k]],
        "switch_episodes": [k + 2 for k, change in enumerate(changes) if change],
        "local_switches": sum(changes),
    }


def assert_same(run, expected, *, switches=True):
    """Compare a run with a literal one, in all that it holds."""
    np.testing.assert_array_equal(run.states, expected["states"])
    np.testing.assert_array_equal(run.actions, expected["actions"])
    np.testing.assert_allclose(run.regret, expected["regret"], atol=1e-9)
    assert list(run.deployment_episodes) == expected["deployment_episodes"]
    if switches:
        assert list(run.switch_episodes) == expected["switch_episodes"]
        assert run.local_switches == expected["local_switches"]
    assert run.local_switches >= run.switches
    assert run.policy is None
    assert len(run.fitted_values) == run.deployments
    assert np.isnan(run.fitted_values).all()
