"""LSVI-UCB-RareSwitch (Wang, Zhou, Gu 2021, Algorithm 2) on one page of plain NumPy.

Run it: `python examples/one_page.py`. It plays the paper's hard-to-learn instance and prints the
average regret and the number of deployed policies as it goes.
"""

from itertools import product

import numpy as np


def hard_instance(d, H, delta, signs):
    """Example 1: features φ (S, A, d), transitions P (H, S, A, S), rewards r (S, A)."""
    actions = np.array([(*a, 1) for a in product((-1, 1), repeat=d - 3)], float)
    gamma = signs * delta / (d - 2)  # (H, d−2), hidden from the learner
    phi = np.zeros((2, len(actions), d))
    phi[0] = np.column_stack([-actions, np.tile([1 - delta, delta], (len(actions), 1))])
    phi[1, :, -2:] = delta, 1 - delta
    mu = np.zeros((H, 2, d))
    mu[:, 0], mu[:, 1] = (
        np.column_stack([s * gamma, np.tile(e, (H, 1))]) for s, e in ((1, [1, 0]), (-1, [0, 1]))
    )
    P = np.einsum("sad,htd->hsat", phi, mu)
    r = np.array([np.zeros(len(actions)), np.ones(len(actions))])
    return phi, P, r


def optimal_value(P, r):
    """V*_1(s) by backward induction."""
    V = np.zeros(P.shape[1])
    for P_h in P[::-1]:
        V = (r + P_h @ V).max(axis=1)
    return V


def policy_value(P, r, policy):
    """V^π_1(s), so that regret is exact rather than sampled."""
    V, s = np.zeros(P.shape[1]), np.arange(P.shape[1])
    for P_h, a in zip(P[::-1], policy[::-1], strict=True):
        V = r[s, a] + P_h[s, a] @ V
    return V


def fit(phi, H, seen, beta, lam):
    """Algorithm 2, lines 8–13: one optimistic backward pass; return π (H, S) and log det Λ_h."""
    S, A, d = phi.shape
    Q = np.zeros((S, A))  # Q_{H+1} = 0
    policy, logdet = np.zeros((H, S), int), np.zeros(H)
    for h in range(H - 1, -1, -1):
        f = np.array([step[0] for step in seen[h]]).reshape(-1, d)
        reward = np.array([step[1] for step in seen[h]])
        s_next = np.array([step[2] for step in seen[h]], int)
        Lambda = lam * np.eye(d) + f.T @ f
        inverse = np.linalg.inv(Lambda)
        w = inverse @ (f.T @ (reward + Q.max(axis=1)[s_next]))
        bonus = beta * np.sqrt(np.einsum("sad,de,sae->sa", phi, inverse, phi))
        Q = np.clip(phi @ w + bonus, 0, H - h)
        best = Q.max(axis=1, keepdims=True)
        policy[h] = (best - 1e-9 <= Q).argmax(axis=1)  # the lowest index among equals
        logdet[h] = np.linalg.slogdet(Lambda)[1]
    return policy, logdet


def rare_switch(phi, P, r, *, K, eta, beta=1.0, lam=1.0, noise):
    """Algorithm 2: return each episode's regret, the episodes of deployments and all actions."""
    H, d = len(P), phi.shape[2]
    seen = [[] for _ in range(H)]
    inverse = np.tile(np.eye(d) / lam, (H, 1, 1))
    logdet = deployed = np.full(H, d * np.log(lam))
    best, regret, deployments, played = optimal_value(P, r), np.zeros(K), [], np.zeros((K, H), int)
    for k in range(K):
        if k == 0 or (logdet > deployed + np.log(eta) + 1e-10).any():  # line 7
            policy, deployed = fit(phi, H, seen, beta, lam)
            logdet = deployed.copy()
            value = policy_value(P, r, policy)
            deployments.append(k + 1)
        s = 0
        regret[k] = best[s] - value[s]
        for h in range(H):  # lines 18–20
            a = played[k, h] = policy[h, s]
            f = phi[s, a]
            s_next = int((P[h, s, a].cumsum()[:-1] <= noise[k, h]).sum())
            seen[h].append((f, r[s, a], s_next))
            u = inverse[h] @ f  # Sherman–Morrison and the determinant lemma
            inverse[h] -= np.outer(u, u) / (1 + f @ u)
            logdet[h] += np.log1p(f @ u)
            s = s_next
    return regret, deployments, played


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    d, H, K = 13, 10, 2500
    world = hard_instance(d, H, 0.35, rng.choice([-1, 1], (H, d - 2)))
    regret, deployments, _ = rare_switch(*world, K=K, eta=2.0, noise=rng.random((K, H)))
    for k in (100, 500, 1000, 2500):
        made = sum(first <= k for first in deployments)
        print(f"after {k:4} episodes: average regret {regret[:k].mean():.3f}, {made} policies")
