"""Linear fitted-Q evaluation: what each member of a policy would earn, regressed backwards.

Q̂_h = l_h + φᵀθ_h, with θ_h the ridge regression of r + V̂_{h+1}(s') − l_h on φ and l_h the mean of
these targets; V̂_h(s) = Q̂_h(s, π_h(s)). Members differ in π alone, so they share every regression
matrix.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.evaluation.logged import LoggedEpisodes, LoggedStage
from rareswitch.support.arguments import Bools, Floats, Ints, Rows


@dataclass(frozen=True, eq=False)
class StageValues:
    """Q̂ of one stage for every member: θ `weights` (d, M) and l `levels` (M,)."""

    weights: Floats
    levels: Floats

    def of(self, rows: Rows) -> Floats:
        """Return the value of rows (n, d), or of one-hot rows (n,), as (n, M)."""
        return self.levels + (rows @ self.weights if rows.ndim == 2 else self.weights[rows])

    def of_states(self, stage: LoggedStage, choices: Ints) -> Floats:
        """Return V̂ of the state of every episode (N, M), 0 where it was over."""
        states, members = choices.shape
        values = np.zeros((states + 1, members))  # −1, of no state, is the last
        if states:
            rows = stage.starts[:, None] + choices
            values[:-1] = self.of(stage.rows)[rows, np.arange(members)]
        return values[stage.state]


class RidgeDesign:
    """The rows of some steps, one-hot or not, made ready to regress any targets on."""

    def __init__(self, rows: Rows, *, dim: int, ridge: float) -> None:
        self._rows, self._dim = rows, dim
        self._inverse: Any  # of the regression's matrix, or of its diagonal (d, 1)
        if rows.ndim == 1:
            self._inverse = 1.0 / (np.bincount(rows, minlength=dim) + ridge)[:, None]
        else:
            self._inverse = np.linalg.inv(rows.T @ rows + ridge * np.eye(dim))

    def fit(self, targets: Floats) -> StageValues:
        """Return Q̂ for targets (n, M)."""
        if not len(targets):
            return StageValues(np.zeros((self._dim, targets.shape[1])), np.zeros(targets.shape[1]))
        levels = targets.mean(axis=0)
        if self._rows.ndim == 1:
            sums = np.zeros((self._dim, targets.shape[1]))
            np.add.at(sums, self._rows, targets - levels)
            return StageValues(sums * self._inverse, levels)
        return StageValues(self._inverse @ (self._rows.T @ (targets - levels)), levels)


def fitted_values(
    logged: LoggedEpisodes,
    choices: list[Ints],
    training: Bools,
    *,
    dim: int,
    ridge: float,
    shared: bool,
) -> tuple[Floats, Floats]:
    """Return Q̂ of the steps (N, H, M) and V̂ of the states (N, H+1, M), trained on some episodes.

    With `shared` every stage is regressed on the steps of all of them: of all but the last, after
    which members do not say what they do, and for the last stage's rewards of all.
    """
    horizon, members = logged.horizon, choices[0].shape[1]
    q_values = np.zeros((len(logged), horizon, members))
    values = np.zeros((len(logged), horizon + 1, members))
    pool, design, following = range(0), None, None
    for h in reversed(range(horizon)):
        steps = _pool(h, horizon, shared=shared)
        if design is None or steps != pool:
            pool, design = steps, _design(logged, steps, training, dim=dim, ridge=ridge)
        targets = []
        for t in pool:
            there = training & logged.stages[t].played
            earned = np.repeat(logged.rewards[there, t, None], members, axis=1)
            if following is not None:
                earned += following.of_states(logged.stages[t + 1], choices[t + 1])[there]
            targets.append(earned)
        following = design.fit(np.concatenate(targets))
        stage = logged.stages[h]
        if stage.played.any():
            q_values[stage.played, h] = following.of(stage.taken_rows(stage.played))
        values[:, h] = following.of_states(stage, choices[h])
    return q_values, values


def _pool(h: int, horizon: int, *, shared: bool) -> range:
    """Return the stages whose steps the regression of stage h is made of."""
    if not shared:
        return range(h, h + 1)
    return range(horizon if h == horizon - 1 else horizon - 1)


def _design(
    logged: LoggedEpisodes, pool: range, training: Bools, *, dim: int, ridge: float
) -> RidgeDesign:
    there = [(logged.stages[t], training & logged.stages[t].played) for t in pool]
    rows = [stage.taken_rows(episodes) for stage, episodes in there if episodes.any()]
    return RidgeDesign(np.concatenate(rows) if rows else np.zeros((0, dim)), dim=dim, ridge=ridge)
