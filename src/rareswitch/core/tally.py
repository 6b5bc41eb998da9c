"""Finite spaces: the catalogue of feature rows, and the sufficient statistics of many runs.

With S states the target of Alg. 1, line 8 is Σ r_τφ_τ + Σ_s F_s V(s), F_s the sum of the features
that led to s, so a fit needs R·H·(S+1)·d numbers whatever the number of episodes.
"""

import numpy as np

from rareswitch.core.arguments import Bools, Floats, Ints


class FiniteSpace:
    """The distinct feature rows of each state, end to end.

    `features` is (S, A, d); `feasible` (S, A) marks the actions that each state allows. Rows
    (N, d) of state s begin at `starts[s]`, and row n stands for the action `actions[n]`, the
    lowest of those that share its features. `columns` is the transpose, laid out for products.
    """

    def __init__(self, features: Floats, feasible: Bools) -> None:
        rows, actions, lengths = [], [], []
        for state_features, allowed in zip(features, feasible, strict=True):
            candidates = np.flatnonzero(allowed)
            _, first = np.unique(state_features[candidates], axis=0, return_index=True)
            kept = candidates[np.sort(first)]
            rows.append(state_features[kept])
            actions.append(kept)
            lengths.append(len(kept))
        self.states = len(lengths)
        self.rows: Floats = np.concatenate(rows)
        self.columns: Floats = np.ascontiguousarray(self.rows.T)
        self.actions: Ints = np.concatenate(actions)
        self.starts: Ints = np.cumsum([0, *lengths[:-1]])


class Tally:
    """Σ rφ (R, H, d) and Σφ for each next state (R, H, S, d), of R runs that share a space."""

    def __init__(self, space: FiniteSpace, runs: int, horizon: int) -> None:
        dim = space.rows.shape[1]
        self.space = space
        self.reward_sums: Floats = np.zeros((runs, horizon, dim))
        self.feature_sums: Floats = np.zeros((runs, horizon, space.states, dim))
        self._here = np.ogrid[:runs, :horizon]

    def absorb(self, features: Floats, rewards: Floats, next_states: Ints) -> None:
        """Add one episode of each run: features (R, H, d), rewards and next states (R, H)."""
        self.reward_sums += rewards[..., None] * features
        self.feature_sums[*self._here, next_states] += features

    def absorb_moves(self, moves: Floats, features: Floats, rewards: Floats) -> None:
        """Add any number of episodes played under one policy for each run.

        `moves` (R, H, S, S) counts moves from state to state; `features` (R, H, S, d) and `rewards`
        (R, H, S) are those of the action that the policy takes in each state.
        """
        self.reward_sums += np.vecmat(moves.sum(axis=-1) * rewards, features)
        self.feature_sums += moves.mT @ features
