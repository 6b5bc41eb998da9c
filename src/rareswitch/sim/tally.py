"""The statistics of many runs on one finite space, for the backward pass of all of them at once.

With S states the target of Alg. 1, line 8 is Σ r_τφ_τ + Σ_s F_s V(s), F_s the sum of the features
that led to s, so a fit needs R·H·(S+1)·d numbers whatever the number of episodes. Every fit values
the whole catalogue, so the squared bonus β²·φᵀΛ⁻¹φ of each of its N rows is kept current at O(N·d)
an update instead of O(N·d²) a fit.
"""

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.gram import Gram
from rareswitch.core.lsvi import backward
from rareswitch.core.policy import TIE_TOLERANCE, Stage, clipped
from rareswitch.sim.space import FiniteSpace
from rareswitch.sim.ties import best_rows

# The bonuses, kept by subtraction, are computed anew to bound cancellation: after so many fits, and
# before that after 2, 4, 8, …, since they fall fastest at first.
RECOMPUTE_EVERY = 128


class Tally:
    """Λ (R, H, d, d), Σrφ (R, H, d) and Σφ for each next state (R, H, S, d), of R runs.

    After a fit, `values` (R, H, S) are the optimistic values of every state.
    """

    def __init__(
        self, space: FiniteSpace, *, runs: int, horizon: int, ridge: float, beta: float
    ) -> None:
        dim, rows = space.columns.shape
        self.space, self.beta, self.ridge = space, beta, ridge
        self.gram = Gram((runs, horizon), dim, ridge)
        self.reward_sums: Floats = np.zeros((runs, horizon, dim))
        self._feature_sums = np.zeros((runs, horizon, space.states, dim))
        self._here = np.ogrid[:runs, :horizon]
        self._fits = 0
        # glibc keeps freed memory only up to twice the largest block it was ever given back.
        # Without one of 24 MB, every fit would have its scratch arrays mapped in anew.
        np.empty(3 * 2**20)
        # Stage by stage, as the pass goes; and one piece of memory for Q and for the change of the
        # bonuses, which never meet, so that more of it stays cached.
        self._q_values = self._change = np.empty((horizon, runs, rows))
        self._bonus = np.empty((runs, rows))
        self.values: Floats = np.zeros((runs, horizon, space.states))
        self._scaled = beta * space.columns
        self._squared_bonuses: Floats | None = None
        if beta:
            self._squared_bonuses = beta**2 * self._norms_anew()

    @property
    def whitener(self) -> Floats:
        return self.gram.whitener

    def absorb(self, features: Floats, rewards: Floats, next_states: Ints) -> None:
        """Add one episode of each run: features (R, H, d), rewards and next states (R, H)."""
        self._grow(features)
        self.reward_sums += rewards[..., None] * features
        self._feature_sums[*self._here, next_states] += features

    def absorb_moves(self, moves: Floats, features: Floats, rewards: Floats) -> None:
        """Add any number of episodes played under one policy for each run.

        `moves` (R, H, S, S) counts moves from state to state; `features` (R, H, S, d) and `rewards`
        (R, H, S) are those of the action that the policy takes in each state.
        """
        visits = moves.sum(axis=-1)
        for s in np.flatnonzero(visits.any(axis=(0, 1))):
            self._grow(features[:, :, s], visits[:, :, s])
        self.reward_sums += np.vecmat(visits * rewards, features)
        self._feature_sums += moves.mT @ features

    def next_value_sums(self, h: int, following: Stage) -> Floats:
        self._evaluate(h + 1, following)
        return np.vecmat(self.values[:, h + 1], self._feature_sums[:, h])

    def fit(
        self, *, offsets: Floats | None, clip: bool, directions: Floats | None
    ) -> tuple[Floats, Ints]:
        """Return the weights (R, H, d) and the greedy row (R, H, S) of every state.

        `offsets` is (R, H, M, d) and `directions` (R, H, d), as for a policy.
        """
        self._fits += 1
        doubled = self._fits > 1 and self._fits & (self._fits - 1) == 0
        if self._squared_bonuses is not None and (doubled or self._fits % RECOMPUTE_EVERY == 0):
            self._squared_bonuses[:] = self.beta**2 * self._norms_anew()
        weights = backward(self, beta=self.beta, offsets=offsets, clip=clip)
        runs, horizon, dim = weights.shape
        first = Stage(
            weights=weights[:, 0],
            whitener=self.whitener[:, 0],
            beta=self.beta,
            offsets=None if offsets is None else offsets[:, 0],
            cap=float(horizon) if clip else None,
        )
        self._evaluate(0, first)
        # Kept unclipped: above the cap a row is tied with it, and where the best is 0 all are.
        top = np.where(self.values > TIE_TOLERANCE, self.values, -np.inf) if clip else self.values
        choices = best_rows(
            self._q_values.reshape(horizon * runs, -1),
            top.swapaxes(0, 1).reshape(horizon * runs, -1),
            self.space,
            None if directions is None else directions.swapaxes(0, 1).reshape(horizon * runs, dim),
        )
        return weights, np.ascontiguousarray(choices.reshape(horizon, runs, -1).swapaxes(0, 1))

    def squared_norms(self) -> Floats:
        """Return φᵀΛ⁻¹φ of each row of the catalogue (H, R, N)."""
        if self._squared_bonuses is not None:
            return self._squared_bonuses / self.beta**2
        return self._norms_anew()

    def _evaluate(self, h: int, stage: Stage) -> None:
        """Fill in Q_h of the catalogue, before the clip, and the value of every state."""
        q_values, columns = self._q_values[h], self.space.columns
        np.vecmat(stage.weights, columns, out=q_values)
        if self._squared_bonuses is not None:
            bonus = np.maximum(self._squared_bonuses[h], 0.0, out=self._bonus)  # rounding
            q_values += np.sqrt(bonus, out=bonus)
        if stage.offsets is not None:
            q_values += (stage.offsets @ columns).max(axis=1)
        np.maximum.reduceat(q_values, self.space.starts, axis=1, out=self.values[:, h])
        if stage.cap is not None:
            clipped(self.values[:, h], stage.cap)

    def _grow(self, features: Floats, counts: Floats | None = None) -> None:
        lost = self.gram.absorb(features, counts)
        if self._squared_bonuses is not None:
            np.matmul(lost, self._scaled, out=self._change.swapaxes(0, 1))
            self._squared_bonuses -= np.multiply(self._change, self._change, out=self._change)

    def _norms_anew(self) -> Floats:
        norms = np.empty_like(self._change)
        for run, whitener in enumerate(self.whitener):  # one at a time, within the cache
            whitened = whitener @ self.space.columns
            np.square(whitened, out=whitened).sum(axis=-2, out=norms[:, run])
        return norms
