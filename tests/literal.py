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


def estimates(features, targets, cap):
    """Return level, noise², spread² and ridge of a regression.

    The equations are those of docs/theory/mixtures.md. Everything is dense and from the raw data:
    features (n, d), targets (n,).
    """
    n, d = features.shape
    level = (cap / 2 + targets.sum()) / (1 + n)
    typical = np.trace(features.T @ features) / n if features.any() else 1.0
    gram, ridge = features.T @ features, typical
    for _ in range(3):
        inverse = np.linalg.inv(gram + ridge * np.eye(d))
        w = inverse @ (features.T @ (targets - level))
        determined = sum(g / (g + ridge) for g in np.linalg.eigvalsh(gram))
        residuals = targets - level - features @ w
        spread = (cap**2 / 4 + typical * (w @ w)) / (1 + determined)
        noise = (spread + residuals @ residuals) / (1 + n - determined)
        ridge = typical * noise / spread
    return level, noise, spread, ridge


def symmetric_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(np.sqrt(values)) @ vectors.T


def estimated_q(episodes, *, horizon, dim, drawn=None, beta=0.0, clip=True):
    """Return Q as a function (h, rows) of a fit that estimates, from the raw episodes.

    `drawn` (H, J, d) perturb the estimates of every stage; the largest counts.
    """
    stages = [None] * horizon

    def q_values(h, rows):
        level, weights, covariance = stages[h]
        rows = np.asarray(rows, float)
        values = np.array([[row @ w for w in weights] for row in rows]).max(axis=1) + level
        values += beta * np.sqrt([row @ covariance @ row for row in rows])
        return np.clip(values, 0.0, horizon - h) if clip else values

    for h in range(horizon - 1, -1, -1):
        features, targets = [], []
        for episode in (e for e in episodes if len(e) > h):
            target = episode.rewards[h]
            if h + 1 < horizon and h < len(episode.next_features):
                target += q_values(h + 1, episode.next_features[h]).max()
            features.append(episode.features[h])
            targets.append(target)
        features, targets = np.array(features).reshape(-1, dim), np.array(targets)
        level, noise, _, ridge = estimates(features, targets, horizon - h)
        inverse = np.linalg.inv(features.T @ features + ridge * np.eye(dim))
        w = inverse @ features.T @ (targets - level)
        root = np.sqrt(noise) * symmetric_root(inverse)
        vectors = np.zeros((1, dim)) if drawn is None else drawn[h]
        stages[h] = level, [w + root @ z for z in vectors], noise * inverse
    return q_values
