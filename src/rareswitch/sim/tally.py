"""The statistics of many runs on one finite space, for one backward pass of all runs together.

With S states the target of Alg. 1, line 8 is Σ r_τφ_τ + Σ_s F_s V(s), F_s the sum of the features
that led to s, so a fit needs R·H·(S+1)·d numbers for any number of episodes. Every fit values
the whole catalogue, for every member of a mixture. With the declared ridge, the squared bonus
β²·φᵀΛ⁻¹φ of each of its N rows is updated at cost O(N·d) instead of O(N·d²) a fit.
"""

from typing import Self

import numpy as np

from rareswitch.core.exploration import Bonus
from rareswitch.core.gram import Gram
from rareswitch.core.lsvi import QFunction, backward, clip_values
from rareswitch.core.policy import TIE_TOLERANCE, regressor_of
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Pools
from rareswitch.sim.mdp import FiniteSpace
from rareswitch.support.arguments import Bools, Floats, Ints

# Bonuses are updated by subtraction. To bound cancellation they are recomputed after 2, 4, 8, …
# fits, because they fall fastest at first, and after every 128 fits.
RECOMPUTE_EVERY = 128
# The number of values whose ties are broken at a time: 8 MB.
AT_ONCE = 2**20


class Tally:
    """Λ (R, H, d, d) and sums over steps: Σ(φ, 1, r), Σ r·(φ, 1, r) and, by next state, Σ(φ, 1, r).

    Sums by next state are kept for each stage and pooled by a fit. The columns (1, r) are kept only
    for fits that estimate, or with `moments`. After a fit, `values` (H, R, M, S) are the values of
    every state for each of the M members with values of its own.
    """

    one_hot = False

    def __init__(
        self,
        space: FiniteSpace,
        *,
        runs: int,
        pools: Pools,
        recipe: Recipe,
        moments: bool = False,
    ) -> None:
        dim, rows = space.columns.shape
        horizon, exploration = pools.horizon, recipe.exploration
        self.space, self.pools, self.recipe, self.ridge = space, pools, recipe, recipe.ridge
        self.dim = dim
        self.gram = Gram.of_ridge((runs, pools.count), dim, recipe.ridge)
        self._moments = exploration.estimate or moments
        width = dim + 2 if self._moments else dim
        self.step_sums, self.reward_sums = np.zeros((2, runs, pools.count, width))
        self._next_sums = np.zeros((runs, horizon, space.states, width))
        self._here = np.ogrid[:runs, :horizon]
        self._pooled: Floats | None = None  # during a fit
        self._fits = 0
        _keep_freed_memory()
        members = exploration.members if exploration.draws else 1
        # Stage by stage, in the order of the pass. Q and the change of the bonuses are never needed
        # at the same time, so they share memory and stay cached.
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
        if self._beta and not exploration.estimate and not pools.shared:
            self._squared_bonuses = self._beta**2 * self._compute_norms()

    @property
    def whitener(self) -> Floats:
        return self.gram.whitener

    def absorb(self, features: Floats, rewards: Floats, next_states: Ints) -> None:
        """Add one episode of each run: features (R, H, d), rewards and next states (R, H)."""
        if self.pools.shared:
            self.gram = self.gram.add_block(self.pools.spread(features[:, :, None, :]))
        else:
            self._grow(features)
        steps = self._steps(features, rewards)
        if self._moments:
            self.step_sums += self.pools.sum_stages(steps)
        self.reward_sums += self.pools.sum_stages(rewards[..., None] * steps)
        self._next_sums[*self._here, next_states] += steps

    def absorb_moves(self, moves: Floats, features: Floats, rewards: Floats) -> None:
        """Add any number of episodes played under one policy for each run.

        `moves` (R, H, C, S) counts moves from cells to states; a cell is a pair of a member and a
        state. `features` (R, H, C, d) and `rewards` (R, H, C) belong to the action of each cell.
        """
        visits = moves.sum(axis=-1)
        if self.pools.shared:
            spread = self.pools.spread(features * np.sqrt(visits)[..., None])
            self.gram = self.gram.add_block(spread)
        else:
            for cell in np.flatnonzero(visits.any(axis=(0, 1))):
                self._grow(features[:, :, cell], visits[:, :, cell])
        steps = self._steps(features, rewards)
        if self._moments:
            self.step_sums += self.pools.sum_stages(np.vecmat(visits, steps))
        self.reward_sums += self.pools.sum_stages(np.vecmat(visits * rewards, steps))
        self._next_sums += moves.mT @ steps

    def next_value_sums(self, h: int, following: QFunction, pool: int | None = None) -> Floats:
        self._evaluate(h + 1, following)
        sums = self._pool_sums(self.pools.index(h) if pool is None else pool)
        values = self.values[h + 1]
        found = values @ sums  # (R, M, d) or (R, M, d+2)
        if self._moments:
            squares = np.square(values) @ sums[..., -2:-1]
            found = np.concatenate([found, squares], axis=-1)
        return found if following.weights.ndim == found.ndim else found[:, 0]

    def fold(self) -> Self:
        return self

    def choose(self) -> Bools:
        """Return whether the next fit of each run learns from shared stages (R,)."""
        return np.full(len(self.step_sums), self.pools.shared)

    def greedy(self) -> "Tally":
        """Return a tally without exploration that reads the same sums and never changes them."""
        recipe = Recipe(exploration=Bonus(0.0, estimate=True), ridge=self.ridge)
        greedy = Tally(self.space, runs=len(self.step_sums), pools=self.pools, recipe=recipe)
        greedy.gram, greedy._next_sums = self.gram, self._next_sums
        greedy.step_sums, greedy.reward_sums = self.step_sums, self.reward_sums
        return greedy

    def fit(
        self, perturbations: Floats | None, directions: Floats | None
    ) -> tuple[tuple[QFunction, ...], Ints]:
        """Return Q_h of every stage, and every member's greedy row (R, H, M, S) in every state.

        `perturbations` is (R, M, H, J, d) and `directions` (R, H, d) or (R, M, H, d).
        """
        self._fits += 1
        doubled = self._fits > 1 and self._fits & (self._fits - 1) == 0
        if self._squared_bonuses is not None and (doubled or self._fits % RECOMPUTE_EVERY == 0):
            self._squared_bonuses[:] = self._beta**2 * self._compute_norms()
        self._pooled = None
        clip, regressor = self.recipe.clip, regressor_of(self, self.recipe)
        stages = backward(self, regressor, beta=self._beta, perturbations=perturbations, clip=clip)
        self._evaluate(0, stages[0])
        # Q stays unclipped: rows above the cap tie at the cap, and all rows tie if the best is 0.
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
        if members != q_values.shape[2]:  # members with the same values differ in their ties
            q_values = np.broadcast_to(q_values, (horizon, runs, members, rows))
            top = np.broadcast_to(top, (horizon, runs, members, top.shape[-1]))
        chosen = np.empty((horizon, runs, members, top.shape[-1]), np.int64)
        # All stages at once, or as many as fit in the cache.
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

    def _pool_sums(self, pool: int) -> Floats:
        """Return Σ(φ, 1, r) by next state over a pool, (R, S, d+2) or (R, S, d)."""
        if not self.pools.shared:
            return self._next_sums[:, pool]
        if self._pooled is None:
            self._pooled = self._next_sums[:, :-1].sum(axis=1)
        return self._pooled

    def squared_norms(self) -> Floats:
        """Return φᵀΛ⁻¹φ of each row of the catalogue (H, R, N)."""
        if self._squared_bonuses is not None:
            return self._squared_bonuses / self._beta**2
        return self._compute_norms()

    def _evaluate(self, h: int, stage: QFunction) -> None:
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
            clip_values(self.values[h], stage.cap)

    def _steps(self, features: Floats, rewards: Floats) -> Floats:
        """Return (φ, 1, r) of steps, or only φ without moments."""
        if not self._moments:
            return features
        rewards = rewards[..., None]
        return np.concatenate([features, np.ones_like(rewards), rewards], axis=-1)

    def _grow(self, features: Floats, counts: Floats | None = None) -> None:
        if counts is not None:
            features = features * np.sqrt(counts)[..., None]
        self.gram, direction, root = self.gram.add(features)
        if self._squared_bonuses is not None:
            lost = root[..., None] * direction
            np.matmul(lost, self._scaled, out=self._change.swapaxes(0, 1))
            self._squared_bonuses -= np.multiply(self._change, self._change, out=self._change)

    def _compute_norms(self) -> Floats:
        norms = np.empty(self._change.shape)
        pools = [self.pools.index(h) for h in range(self.pools.horizon)]
        for run, whitener in enumerate(self.whitener):  # one run at a time stays in the cache
            whitened = whitener[pools] @ self.space.columns
            np.square(whitened, out=whitened).sum(axis=-2, out=norms[:, run])
        return norms


def best_rows(values: Floats, top: Floats, space: FiniteSpace, directions: Floats | None) -> Ints:
    """Return the greedy row (M, S) of each state under M vectors of values.

    `values` is (M, N), one for each row of the space, and attains `top` (M, S) in each state. Rows
    with a value of at least top − TIE_TOLERANCE are tied. The tied row whose feature lies furthest
    along the vector's direction (M, d) wins, then the lowest index; without directions, the lowest
    index wins.
    """
    count, size = values.shape
    tied = np.flatnonzero(values >= np.repeat(top - TIE_TOLERANCE, space.lengths, axis=1))
    segments = (np.arange(count)[:, None] * size + space.starts).ravel()
    first = np.searchsorted(tied, segments)  # where each segment's ties begin
    if directions is not None and tied.size > segments.size:
        vector, row = np.divmod(tied, size)
        crowded = np.bincount(vector, minlength=count) > space.states
        along = np.zeros(tied.size)
        among = crowded[vector]
        position = np.cumsum(crowded) - 1
        products = np.vecmat(directions[crowded], space.columns)
        along[among] = products[position[vector[among]], row[among]]
        furthest = np.maximum.reduceat(along, first) - TIE_TOLERANCE
        tied = tied[along >= np.repeat(furthest, np.append(first[1:], tied.size) - first)]
        first = np.searchsorted(tied, segments)
    best: Ints = (tied[first] % size).reshape(top.shape)
    return best


def _keep_freed_memory() -> None:
    """Free a block of 24 MB, so that glibc keeps freed memory instead of mapping it in each fit.

    glibc keeps freed memory up to twice the largest block freed before.
    """
    np.empty(3 * 2**20)
