"""The statistics of many runs on one finite space, for the backward pass of all of them at once.

With S states the target of Alg. 1, line 8 is Σ r_τφ_τ + Σ_s F_s V(s), F_s the sum of the features
that led to s, so a fit needs R·H·(S+1)·d numbers whatever the number of episodes. Every fit values
the whole catalogue, for every member of a mixture. With the declared ridge, the squared bonus
β²·φᵀΛ⁻¹φ of each of its N rows is kept current at O(N·d) an update instead of O(N·d²) a fit.
"""

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.exploration import Exploration
from rareswitch.core.gram import Gram
from rareswitch.core.lsvi import backward
from rareswitch.core.policy import TIE_TOLERANCE
from rareswitch.core.pools import Pools
from rareswitch.core.regression import regression_of
from rareswitch.core.stage import Stage, clipped
from rareswitch.sim.space import FiniteSpace
from rareswitch.sim.ties import best_rows

# The bonuses, kept by subtraction, are computed anew to bound cancellation: after so many fits, and
# before that after 2, 4, 8, …, since they fall fastest at first.
RECOMPUTE_EVERY = 128
# Values whose ties are broken in one go: 8 MB of them.
AT_ONCE = 2**20


class Tally:
    """Λ (R, H, d, d) and sums over steps: Σ(φ, 1, r), Σ r·(φ, 1, r) and, by next state, Σ(φ, 1, r).

    Those by next state are kept for each stage and pooled by a fit. What is beyond φ is kept only
    for fits that estimate. After a fit, `values` (H, R, M, S) are the values of every state to each
    of the M members whose values differ.
    """

    def __init__(
        self,
        space: FiniteSpace,
        *,
        runs: int,
        horizon: int,
        ridge: float,
        exploration: Exploration,
        stages: str = "own",
    ) -> None:
        dim, rows = space.columns.shape
        self.space, self.ridge, self.exploration = space, ridge, exploration
        self.pools = Pools(horizon, stages)
        self.gram = Gram((runs, self.pools.count), dim, ridge)
        width = dim + 2 if exploration.estimate else dim
        self.step_sums, self.reward_sums = np.zeros((2, runs, self.pools.count, width))
        self._next_sums = np.zeros((runs, horizon, space.states, width))
        self._here = np.ogrid[:runs, :horizon]
        self._pooled: Floats | None = None  # during a fit
        self._fits = 0
        # glibc keeps freed memory only up to twice the largest block it was ever given back.
        # Without one of 24 MB, every fit would have its scratch arrays mapped in anew.
        np.empty(3 * 2**20)
        members = exploration.members if exploration.draws else 1
        # Stage by stage, as the pass goes; and one piece of memory for Q and for the change of the
        # bonuses, which never meet, so that more of it stays cached.
        self._q_values = np.empty((horizon, runs, members, rows))
        self._change = self._q_values[:, :, 0]
        self._bonus = np.empty((runs, rows))
        self.values: Floats = np.zeros((horizon, runs, members, space.states))
        # The same memory with runs and members along one axis.
        self._flat = self._q_values.reshape(horizon, runs * members, rows)
        self._flat_values = self.values.reshape(horizon, runs * members, -1)
        self._beta = exploration.beta
        self._scaled = self._beta * space.columns
        self._squared_bonuses: Floats | None = None
        if self._beta and not exploration.estimate and not self.pools.shared:
            self._squared_bonuses = self._beta**2 * self._norms_anew()

    one_hot = False

    @property
    def whitener(self) -> Floats:
        return self.gram.whitener

    def absorb(self, features: Floats, rewards: Floats, next_states: Ints) -> None:
        """Add one episode of each run: features (R, H, d), rewards and next states (R, H)."""
        if self.pools.shared:
            self.gram.absorb_block(self.pools.pooled(features[:, :, None, :]))
        else:
            self._grow(features)
        steps = self._steps(features, rewards)
        if self.exploration.estimate:
            self.step_sums += self.pools.summed(steps)
        self.reward_sums += self.pools.summed(rewards[..., None] * steps)
        self._next_sums[*self._here, next_states] += steps

    def absorb_moves(self, moves: Floats, features: Floats, rewards: Floats) -> None:
        """Add any number of episodes played under one policy for each run.

        `moves` (R, H, C, S) counts moves from cells to states, a cell being a state to one of the
        policy's members; `features` (R, H, C, d) and `rewards` (R, H, C) are those of the action
        taken in each cell.
        """
        visits = moves.sum(axis=-1)
        if self.pools.shared:
            self.gram.absorb_block(self.pools.pooled(features * np.sqrt(visits)[..., None]))
        else:
            for cell in np.flatnonzero(visits.any(axis=(0, 1))):
                self._grow(features[:, :, cell], visits[:, :, cell])
        steps = self._steps(features, rewards)
        if self.exploration.estimate:
            self.step_sums += self.pools.summed(np.vecmat(visits, steps))
        self.reward_sums += self.pools.summed(np.vecmat(visits * rewards, steps))
        self._next_sums += moves.mT @ steps

    def next_value_sums(self, h: int, following: Stage) -> Floats:
        self._evaluate(h + 1, following)
        values, sums = self.values[h + 1], self._pool_sums(h)
        found = values @ sums  # (R, M, d) or (R, M, d+2)
        if self.exploration.estimate:
            squares = np.square(values) @ sums[..., -2:-1]
            found = np.concatenate([found, squares], axis=-1)
        return found if following.weights.ndim == found.ndim else found[:, 0]

    def fit(
        self, *, perturbations: Floats | None, clip: bool, directions: Floats | None
    ) -> tuple[tuple[Stage, ...], Ints]:
        """Return Q_h of every stage, and every member's greedy row (R, H, M, S) in every state.

        `perturbations` is (R, M, H, J, d) and `directions` (R, H, d) or (R, M, H, d).
        """
        self._fits += 1
        doubled = self._fits > 1 and self._fits & (self._fits - 1) == 0
        if self._squared_bonuses is not None and (doubled or self._fits % RECOMPUTE_EVERY == 0):
            self._squared_bonuses[:] = self._beta**2 * self._norms_anew()
        self._pooled = None
        regression = regression_of(self, self.exploration)
        stages = backward(self, regression, beta=self._beta, perturbations=perturbations, clip=clip)
        self._evaluate(0, stages[0])
        # Kept unclipped: above the cap a row is tied with it, and where the best is 0 all are.
        top = np.where(self.values > TIE_TOLERANCE, self.values, -np.inf) if clip else self.values
        return stages, self._choices(top, directions)

    def _choices(self, top: Floats, directions: Floats | None) -> Ints:
        """Return the greedy rows (R, H, M, S), given the values (H, R, M, S) that they attain."""
        q_values: Floats = self._q_values
        horizon, runs, members, rows = q_values.shape
        by_stage: Floats | None = None
        if directions is not None:
            by_member = directions if directions.ndim == 4 else directions[:, None]
            members = by_member.shape[1]
            by_stage = by_member.transpose(2, 0, 1, 3)
        if members != q_values.shape[2]:  # they have the same values, and differ by their ties
            q_values = np.broadcast_to(q_values, (horizon, runs, members, rows))
            top = np.broadcast_to(top, (horizon, runs, members, top.shape[-1]))
        chosen = np.empty((horizon, runs, members, top.shape[-1]), np.int64)
        # All stages at once, or, where members make them large, as many as stay in the cache.
        step = max(1, AT_ONCE // (runs * members * rows))
        for h in range(0, horizon, step):
            some = slice(h, h + step)
            chosen[some] = best_rows(
                q_values[some].reshape(-1, rows),
                top[some].reshape(-1, top.shape[-1]),
                self.space,
                None if by_stage is None else by_stage[some].reshape(-1, by_stage.shape[-1]),
            ).reshape(chosen[some].shape)
        return np.ascontiguousarray(chosen.swapaxes(0, 1))

    def _pool_sums(self, h: int) -> Floats:
        """Return Σ(φ, 1, r) by next state over stage h's pool, (R, S, d+2) or (R, S, d)."""
        if not self.pools.shared:
            return self._next_sums[:, h]
        if self._pooled is None:
            self._pooled = self._next_sums[:, :-1].sum(axis=1)
        return self._pooled

    def squared_norms(self) -> Floats:
        """Return φᵀΛ⁻¹φ of each row of the catalogue (H, R, N)."""
        if self._squared_bonuses is not None:
            return self._squared_bonuses / self._beta**2
        return self._norms_anew()

    def _evaluate(self, h: int, stage: Stage) -> None:
        """Fill in Q_h of the catalogue, before the clip, and the value of every state."""
        q_values, columns = self._q_values[h], self.space.columns
        runs, members, _ = q_values.shape
        np.matmul(stage.weights.reshape(runs, members, -1), columns, out=q_values)
        if stage.levels is not None:
            q_values += stage.levels.reshape(runs, -1, 1)
        if self._squared_bonuses is not None:
            bonus = np.maximum(self._squared_bonuses[h], 0.0, out=self._bonus)  # rounding
            q_values += np.sqrt(bonus, out=bonus)[:, None]
        elif stage.whitener is not None:
            whitened = stage.whitener @ columns
            norms = np.sqrt(np.square(whitened, out=whitened).sum(axis=-2))
            q_values += stage.beta * norms.reshape(runs, -1, norms.shape[-1])
        if stage.offsets is not None:
            q_values += (stage.offsets @ columns).max(axis=-2)
        np.maximum.reduceat(self._flat[h], self.space.starts, axis=1, out=self._flat_values[h])
        if stage.cap is not None:
            clipped(self.values[h], stage.cap)

    def _steps(self, features: Floats, rewards: Floats) -> Floats:
        """Return (φ, 1, r) of steps, or φ alone where nothing is estimated."""
        if not self.exploration.estimate:
            return features
        rewards = rewards[..., None]
        return np.concatenate([features, np.ones_like(rewards), rewards], axis=-1)

    def _grow(self, features: Floats, counts: Floats | None = None) -> None:
        lost = self.gram.absorb(features, counts)
        if self._squared_bonuses is not None:
            np.matmul(lost, self._scaled, out=self._change.swapaxes(0, 1))
            self._squared_bonuses -= np.multiply(self._change, self._change, out=self._change)

    def _norms_anew(self) -> Floats:
        norms = np.empty(self._change.shape)
        pools = [self.pools.of(h) for h in range(self.pools.horizon)]
        for run, whitener in enumerate(self.whitener):  # one at a time, within the cache
            whitened = whitener[pools] @ self.space.columns
            np.square(whitened, out=whitened).sum(axis=-2, out=norms[:, run])
        return norms
