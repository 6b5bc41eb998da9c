"""LSVI-UCB++ (He, Zhao, Zhou and Gu 2023, Algorithm 1): regressions weighted by variances.

Line numbers are those of the paper's Algorithm 1. V and V̌ are the optimistic and the pessimistic
value, Σ_h = λI + Σ σ̄⁻²φφᵀ with λ = 1/H², ŵ, w̌ and w̃ the weighted regressions of V, V̌ and V² at
the next state. The paper gives its radii up to a constant, which is 1 here:

    β = H√(dλ) + √d·log(1 + dHK/(δλ))
    β̄ = H√(dλ) + √(d³H²)·log(dHK/(δλ))
    β̃ = H²√(dλ) + √(d³H⁴)·log(dHK/(δλ))

Line 21 is printed with σ̄ ≥ H; the proofs need σ̄ ≥ √H (Tan, Fan and Wei 2024, Algorithm 4), which
is used here.
"""

import numpy as np

from rareswitch.core.gram import Gram
from rareswitch.sim.baselines.play import Table, play
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.run import Run
from rareswitch.support.arguments import Floats, Ints, flag, real, whole
from rareswitch.support.streams import Seed

FAILURE_PROBABILITY = 0.05  # δ


def lsvi_ucb_plus_plus(
    world: FiniteMDP,
    *,
    episodes: int,
    scale: float = 0.01,
    inflation: float = 0.0,
    monotone: bool = True,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play LSVI-UCB++, which plans when the determinant of some stage has doubled.

    `scale` multiplies the three radii, and `inflation` what is added to the estimated variance of a
    step: E and D of equation 4.1, and the last term of line 21. The published algorithm has both at
    1. With `monotone=False` lines 9 and 10 ignore earlier values.
    """
    K = whole("episodes", episodes, least=1)
    c = real("scale", scale, least=0.0, most=1e100)
    more = real("inflation", inflation, least=0.0, most=1e100)
    keep = flag("monotone", monotone)
    H, S, A = checked_world(world).rewards.shape
    d, space = world.dim, world.space
    states = np.repeat(np.arange(S), space.lengths)  # of each row
    rewards = world.rewards[:, states, space.actions]  # known, as in the paper
    beta, beta_bar, beta_tilde = c * _radii(d, H, K)
    stage = np.arange(H)
    gram = Gram.of_ridge((H,), d, 1.0 / H**2)
    deployed = gram.logdet
    next_sums = np.zeros((H, S, d))  # Σ σ̄⁻²φ by next state
    high, low = np.full((H, len(states)), float(H)), np.zeros((H, len(states)))  # Q and Q̌
    values = np.zeros((3, H + 1, S))  # V, V̌ and V²
    values[0, :H], values[2, :H] = H, H**2

    def plan() -> None:  # lines 5 to 17
        for h in reversed(range(H)):
            whitener = gram.whitener[h]
            regressed = values[:2, h + 1] @ next_sums[h] @ whitener.T @ whitener  # ŵ and w̌
            norms = np.sqrt(np.square(whitener @ space.columns).sum(axis=0))
            mean, least = rewards[h] + regressed @ space.columns
            high[h] = np.minimum(mean + beta * norms, high[h] if keep else H)
            low[h] = np.maximum(least - beta_bar * norms, low[h] if keep else 0.0)
            values[0, h] = np.maximum.reduceat(high[h], space.starts)
            values[1, h] = np.maximum.reduceat(low[h], space.starts)
        values[2] = values[0] ** 2

    def learn(k: int, path: Ints, actions: Ints) -> bool:
        nonlocal gram, deployed
        features = world.features[path[:-1], actions]
        whitened = np.matvec(gram.whitener, features)
        norm = np.sqrt(np.vecdot(whitened, whitened))
        direction = np.vecmat(whitened, gram.whitener)  # Σ⁻¹φ
        along = np.matvec(next_sums, direction)  # (H, S)
        mean, least, square = np.vecdot(values[:, 1:], along)  # ŵᵀφ, w̌ᵀφ and w̃ᵀφ
        variance = np.clip(square, 0.0, H**2) - np.clip(mean, 0.0, H) ** 2
        spread = np.minimum(beta_tilde * norm, H**2) + np.minimum(2 * H * beta_bar * norm, H**2)
        gap = 4 * d**3 * H**2 * (mean - least + 2 * beta_bar * norm)
        added = spread + np.minimum(gap, d**3 * H**3)  # E + D
        sigma = np.sqrt(np.maximum(variance + more * added + H, H))  # (4.1), and at least √H
        sigma = np.maximum(sigma, more * 2 * d**3 * H**2 * np.sqrt(norm))[:, None]  # line 21
        gram = gram.add(features / sigma)[0]
        next_sums[stage, path[1:]] += features / sigma**2
        doubled = bool((gram.logdet - deployed >= np.log(2.0)).any())  # line 8
        if doubled:
            plan()
            deployed = gram.logdet
        return doubled

    def policy() -> Table:
        q_values = np.full((H, S, A), -np.inf)
        q_values[:, states, space.actions] = high
        return Table.greedy(q_values)

    return play(world, policy, learn, episodes=K, seed=seed, initial_state=initial_state)


def _radii(d: int, H: int, K: int) -> Floats:
    """Return β, β̄ and β̃ of Theorem 5.1, with constants 1 and λ = 1/H²."""
    odds = d * H * K * H**2 / FAILURE_PROBABILITY
    fine, coarse = np.log1p(odds), np.log(odds)
    root = np.sqrt(d)
    return np.array(
        [
            root + root * fine,
            root + root**3 * H * coarse,
            H * root + root**3 * H**2 * coarse,
        ]
    )
