"""LSVI-UCB++ (He, Zhao, Zhou and Gu 2023, Algorithm 1): regressions weighted by variances.

Line numbers are those of the paper's Algorithm 1. V and V̌ are the optimistic and the pessimistic
value, Σ_h = λI + Σ σ̄⁻²φφᵀ with λ = 1/H², ŵ, w̌ and w̃ the weighted regressions of V, V̌ and V² at
the next state. The paper states its radii up to a constant, which is 1 here:

    β = H√(dλ) + √d·log(1 + dHK/(δλ))
    β̄ = H√(dλ) + √(d³H²)·log(dHK/(δλ))
    β̃ = H²√(dλ) + √(d³H⁴)·log(dHK/(δλ))

Line 21 prints σ̄ ≥ H; this module uses σ̄ ≥ √H, as the proofs need (Tan, Fan and Wei 2024,
Algorithm 4).
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

    `scale` multiplies the three radii. `inflation` multiplies the additions to the estimated
    variance of a step: E and D of equation 4.1, and the last term of line 21. Both are 1 in the
    published algorithm. With `monotone=False` lines 9 and 10 ignore earlier values.
    """
    K = whole("episodes", episodes, least=1)
    learner = Weighted(
        checked_world(world),
        _radii(world.dim, world.horizon, K) * real("scale", scale, least=0.0, most=1e100),
        real("inflation", inflation, least=0.0, most=1e100),
        monotone=flag("monotone", monotone),
    )
    return play(
        world,
        learner.policy,
        learner.learn,
        episodes=K,
        seed=seed,
        initial_state=initial_state,
    )


class Weighted:
    """The state of LSVI-UCB++: Σ_h, the sums Σ σ̄⁻²φ by next state, and Q and Q̌ of every row."""

    def __init__(
        self, world: FiniteMDP, radii: Floats, inflation: float, *, monotone: bool = True
    ) -> None:
        self.world, self.space = world, world.space
        H, S, _ = world.rewards.shape
        self.beta, self.beta_bar, self.beta_tilde = radii
        self.inflation, self.monotone = inflation, monotone
        self.states = np.repeat(np.arange(S), self.space.lengths)  # of each row
        self.rewards = world.rewards[:, self.states, self.space.actions]  # known, as in the paper
        self.gram = Gram.of_ridge((H,), world.dim, 1.0 / H**2)
        self.deployed = self.gram.logdet
        self.next_sums = np.zeros((H, S, world.dim))
        self.high, self.low = np.full_like(self.rewards, H), np.zeros_like(self.rewards)
        self.values = np.zeros((3, H + 1, S))  # V, V̌ and V²
        self.values[0, :H], self.values[2, :H] = H, H**2

    def policy(self) -> Table:
        """Return the greedy policy of Q (line 19)."""
        q_values = np.full(self.world.rewards.shape, -np.inf)
        q_values[:, self.states, self.space.actions] = self.high
        return Table.greedy(q_values)

    def learn(self, k: int, path: Ints, actions: Ints) -> bool:
        """Weigh and add an episode; plan if the determinant of some stage has doubled (line 8)."""
        features = self.world.features[path[:-1], actions]
        sigma = self.deviations(features)[:, None]
        self.gram = self.gram.add(features / sigma)[0]  # line 22
        self.next_sums[np.arange(len(actions)), path[1:]] += features / sigma**2
        doubled = bool((self.gram.logdet - self.deployed >= np.log(2.0)).any())
        if doubled:
            self.plan()
        return doubled

    def deviations(self, features: Floats) -> Floats:
        """Return σ̄ (H,) of the steps of an episode, features (H, d) (equation 4.1, line 21)."""
        H, d = features.shape
        whitened = np.matvec(self.gram.whitener, features)
        norm = np.sqrt(np.vecdot(whitened, whitened))
        direction = np.vecmat(whitened, self.gram.whitener)  # Σ⁻¹φ
        along = np.matvec(self.next_sums, direction)  # (H, S)
        mean, least, square = np.vecdot(self.values[:, 1:], along)  # ŵᵀφ, w̌ᵀφ and w̃ᵀφ
        variance = np.clip(square, 0.0, H**2) - np.clip(mean, 0.0, H) ** 2
        added = np.minimum(self.beta_tilde * norm, H**2)
        added += np.minimum(2 * H * self.beta_bar * norm, H**2)  # E
        gap = 4 * d**3 * H**2 * (mean - least + 2 * self.beta_bar * norm)
        added += np.minimum(gap, d**3 * H**3)  # D
        sigma = np.sqrt(np.maximum(variance + self.inflation * added + H, H))  # at least √H
        return np.maximum(sigma, self.inflation * 2 * d**3 * H**2 * np.sqrt(norm))

    def plan(self) -> None:
        """Compute Q and Q̌ from the last stage to the first (lines 5 to 17)."""
        H, columns = len(self.high), self.space.columns
        for h in reversed(range(H)):
            whitener = self.gram.whitener[h]
            sums = self.values[:2, h + 1] @ self.next_sums[h]
            regressed = sums @ whitener.T @ whitener  # ŵ and w̌
            norms = np.sqrt(np.square(whitener @ columns).sum(axis=0))
            mean, least = self.rewards[h] + regressed @ columns
            above, below = (self.high[h], self.low[h]) if self.monotone else (H, 0.0)
            self.high[h] = np.minimum(mean + self.beta * norms, above)
            self.low[h] = np.maximum(least - self.beta_bar * norms, below)
            self.values[0, h] = np.maximum.reduceat(self.high[h], self.space.starts)
            self.values[1, h] = np.maximum.reduceat(self.low[h], self.space.starts)
        self.values[2] = self.values[0] ** 2
        self.deployed = self.gram.logdet


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
