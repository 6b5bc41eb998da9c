"""Least squares value iteration (LSVI) without a bonus on every stage.

ε-greedy and explore-then-commit fit the greedy policy of LSVI, without a bonus. Layer by layer is
Algorithm 1 of Huang et al. 2022: a deployment explores one stage, with a bonus up to that stage.
"""

from collections.abc import Callable

import numpy as np

from rareswitch.core.gram import Gram
from rareswitch.sim.baselines.play import Table, play, starts_of
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.run import Run
from rareswitch.support.arguments import Floats, Ints, positive_ridge, real, whole
from rareswitch.support.streams import Seed

FAILURE_PROBABILITY = 0.05  # δ of Huang et al., who leave it open


def epsilon_greedy(
    world: FiniteMDP,
    *,
    episodes: int,
    epsilon: float = 0.1,
    ridge: float = 1.0,
    batches: int | None = None,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play LSVI without a bonus; each step is uniformly random with probability ε.

    The policy is fitted before every batch of a uniform grid, or before every episode. Regret is
    V*₁ − V₁ of the policy ε·uniform + (1−ε)·greedy at every stage.
    """
    K = whole("episodes", episodes, least=1)
    share = real("epsilon", epsilon, least=0.0, most=1.0)
    sums = Sums(checked_world(world), positive_ridge(ridge))
    starts = set(starts_of(world, K, batches))

    def policy() -> Table:
        return Table.greedy(sums.fit(), random=share)

    def learn(k: int, path: Ints, actions: Ints) -> bool:
        sums.add(path, actions)
        return k + 1 in starts

    return play(world, policy, learn, episodes=K, seed=seed, initial_state=initial_state)


def explore_then_commit(
    world: FiniteMDP,
    *,
    episodes: int,
    explore: float = 0.1,
    ridge: float = 1.0,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play uniformly at random, then the greedy policy of LSVI: two deployments, one switch.

    `explore` is the share of random episodes, rounded, at least one episode.
    """
    K = whole("episodes", episodes, least=1)
    first = max(1, round(real("explore", explore, least=0.0, most=1.0) * K))
    sums = Sums(checked_world(world), positive_ridge(ridge))

    def policy() -> Table:
        return Table.greedy(sums.fit(), random=0.0 if sums.episodes else 1.0)

    def learn(k: int, path: Ints, actions: Ints) -> bool:
        if k <= first:
            sums.add(path, actions)
        return k == first

    return play(world, policy, learn, episodes=K, seed=seed, initial_state=initial_state)


def layer_by_layer(
    world: FiniteMDP,
    *,
    episodes: int,
    batches: int,
    scale: float = 0.003,
    accuracy: float = 1.0,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play the deployment-efficient algorithm of Huang et al. 2022 (their Algorithm 1).

    Deployment k explores stages up to h_k by optimistic values that end there, and plays later
    stages uniformly at random. The next deployment explores h_k + 1 once the bonuses of a batch are
    small: (2β/N)·Σ‖φ‖_{Λ⁻¹} < ε·h_k/(2H). After stage H the policy is final. `batches` is their
    number of deployments, `accuracy` their ε/H and `scale` their c_β: β = c_β·d·H·√log(dH/(δε)).
    """
    K = whole("episodes", episodes, least=1)
    c = real("scale", scale, least=0.0, most=1e100)
    H = checked_world(world).horizon
    target = real("accuracy", accuracy, above=0.0, most=1.0) * H
    beta = c * world.dim * H * np.sqrt(np.log(world.dim * H / (FAILURE_PROBABILITY * target)))
    sums = Sums(world, 1.0, rewards_known=True)
    starts = set(starts_of(world, K, whole("batches", batches, least=1, most=K)))
    layer, final, length, met = 1, False, 0, 0.0
    whitener = sums.gram.whitener  # of the batch's start

    def policy() -> Table:
        nonlocal whitener
        whitener = sums.gram.whitener
        q_values = sums.fit(layer, lambda norms: np.minimum(beta * norms, H), cap=float(H))
        table = Table.greedy(q_values)
        table.random[layer:] = 1.0
        return table

    def learn(k: int, path: Ints, actions: Ints) -> bool:
        nonlocal layer, final, length, met
        features = sums.add(path, actions)[:layer]
        whitened = np.matvec(whitener[:layer], features)
        met += float(np.sqrt(np.vecdot(whitened, whitened)).sum())
        length += 1
        if final or k + 1 not in starts:
            return False
        if 2.0 * beta * met / length < target * layer / (2 * H):
            final = layer == H
            layer = min(layer + 1, H)
        length, met = 0, 0.0
        return not final

    return play(world, policy, learn, episodes=K, seed=seed, initial_state=initial_state)


class Sums:
    """Sums over the steps of each stage, for regressions on a finite world.

    With S states the target of a regression is Σ r·φ + Σ_s F_s·V(s), F_s the sum of the features
    that led to s.
    """

    def __init__(self, world: FiniteMDP, ridge: float, *, rewards_known: bool = False) -> None:
        H, S, _ = world.rewards.shape
        self.world, self.space, self.episodes = world, world.space, 0
        self.gram = Gram.of_ridge((H,), world.dim, ridge)
        self.reward_sums = np.zeros((H, world.dim))
        self.next_sums = np.zeros((H, S, world.dim))
        self.states = np.repeat(np.arange(S), self.space.lengths)  # of each row
        self.rewards = np.zeros((H, len(self.states)))  # of each row, if known
        self._known = rewards_known
        if rewards_known:
            self.rewards = world.rewards[:, self.states, self.space.actions]

    def add(self, path: Ints, actions: Ints) -> Floats:
        """Add an episode; return its features (H, d)."""
        stage = np.arange(len(actions))
        features = self.world.features[path[:-1], actions]
        self.gram = self.gram.add(features)[0]
        if not self._known:
            self.reward_sums += self.world.rewards[stage, path[:-1], actions, None] * features
        self.next_sums[stage, path[1:]] += features
        self.episodes += 1
        return features

    def fit(
        self,
        stages: int | None = None,
        bonus: Callable[[Floats], Floats] | None = None,
        cap: float | None = None,
    ) -> Floats:
        """Return Q (H, S, A) of a backward pass from stage `stages`, by default H.

        Q is clipped to [0, H−h], or to at most `cap`. `bonus` is a function of ‖φ‖_{Λ⁻¹}.
        """
        H, S, A = self.world.rewards.shape
        last = H if stages is None else stages
        q_values = np.full((H, S, A), -np.inf)
        q_values[:, self.states, self.space.actions] = 0.0
        value = np.zeros(S)
        for h in reversed(range(last)):
            whitener = self.gram.whitener[h]
            target = self.reward_sums[h] + value @ self.next_sums[h]
            weights = whitener @ target @ whitener
            rows = self.rewards[h] + self.space.rows @ weights
            if bonus is not None:
                rows += bonus(np.sqrt(np.square(whitener @ self.space.columns).sum(axis=0)))
            rows = np.clip(rows, 0.0, H - h) if cap is None else np.minimum(rows, cap)
            q_values[h, self.states, self.space.actions] = rows
            value = np.maximum.reduceat(rows, self.space.starts)
        return q_values
