"""Finite spaces: the catalogue of feature rows that a simulation evaluates at every fit."""

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
        self.lengths: Ints = np.array(lengths)
        self.starts: Ints = np.cumsum([0, *lengths[:-1]])
