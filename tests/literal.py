"""Algorithms 1 and 2 transcribed line by line: everything recomputed from the raw history.

An oracle for the tests, slow on purpose and independent of the library: it uses only the world's
arrays, an explicit inverse of every Gram matrix and log-determinants by `slogdet`.
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Literal:
    states: np.ndarray
    actions: np.ndarray
    deployment_episodes: list[int]
    regret: np.ndarray
    q_values: list[np.ndarray]  # (H, S, A) of each deployment


def lowest(values, tolerance=1e-9):
    return int(np.flatnonzero(values >= values.max() - tolerance)[0])


def play(world, *, episodes, noise, beta, ridge=1.0, batches=None, eta=None, initial_state=0):
    """Run LSVI-UCB-Batch if batches is given, else LSVI-UCB-RareSwitch with eta."""
    features, P, r = world.features, world.transitions, world.rewards
    H, S, A, _ = P.shape
    d = features.shape[2]
    optimal = world.optimal_values()
    grid = {i * (episodes // batches) + 1 for i in range(batches)} if batches else set()
    seen = [[] for _ in range(H)]  # (φ, r, s') of every episode, by stage
    log_det_deployed = [d * np.log(ridge)] * H
    out = Literal(
        np.zeros((episodes, H + 1), int), np.zeros((episodes, H), int), [], np.zeros(episodes), []
    )
    for k in range(1, episodes + 1):
        gram = [
            ridge * np.eye(d) + sum((np.outer(f, f) for f, _, _ in seen[h]), np.zeros((d, d)))
            for h in range(H)
        ]
        log_det = [np.linalg.slogdet(gram[h])[1] for h in range(H)]
        if batches:
            due = k in grid
        else:
            grown = [log_det[h] - log_det_deployed[h] > np.log(eta) + 1e-10 for h in range(H)]
            due = k == 1 or any(grown)
        if due:
            log_det_deployed = log_det
            Q = np.zeros((H + 1, S, A))
            for h in range(H - 1, -1, -1):
                inverse = np.linalg.inv(gram[h])
                target = np.zeros(d)
                for f, reward, s_next in seen[h]:
                    target += f * (reward + Q[h + 1, s_next].max())
                w = inverse @ target
                for s in range(S):
                    for a in range(A):
                        f = features[s, a]
                        bonus = beta * np.sqrt(f @ inverse @ f)
                        Q[h, s, a] = max(0.0, min(f @ w + bonus, H - h))
            policy = np.array([[lowest(Q[h, s]) for s in range(S)] for h in range(H)])
            out.deployment_episodes.append(k)
            out.q_values.append(Q[:H])
        value = np.zeros(S)
        for h in range(H - 1, -1, -1):
            value = np.array(
                [r[h, s, policy[h, s]] + P[h, s, policy[h, s]] @ value for s in range(S)]
            )
        s = initial_state
        out.regret[k - 1] = optimal[0, s] - value[s]
        for h in range(H):
            a = policy[h, s]
            s_next = int((np.cumsum(P[h, s, a])[:-1] <= noise[k - 1, h]).sum())
            seen[h].append((features[s, a], r[h, s, a], s_next))
            out.states[k - 1, h], out.actions[k - 1, h] = s, a
            s = s_next
        out.states[k - 1, H] = s
    return out
