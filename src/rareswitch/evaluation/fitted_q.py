"""Linear fitted-Q evaluation of each member of a policy, from the last stage to the first.

Q̂_h = l_h + φᵀθ_h, with θ_h the ridge regression of r + V̂_{h+1}(s') − l_h on φ and l_h the mean of
these targets; V̂_h(s) = E Q̂_h(s, π_h(s)). Members differ only in π, so they share every regression
matrix.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.evaluation.agreement import StageBehaviour
from rareswitch.evaluation.grouped_rows import GroupedRows
from rareswitch.evaluation.logged import LoggedEpisodes, LoggedStage
from rareswitch.support.arguments import Bools, Floats


@dataclass(frozen=True, eq=False)
class StageValues:
    """Q̂ of one stage for every member: θ `weights` (d, M) and l `levels` (M,)."""

    weights: Floats
    levels: Floats

    def of(self, rows: GroupedRows) -> Floats:
        """Return the value of n rows for every member, (n, M)."""
        return self.levels + rows @ self.weights

    def of_states(self, stage: LoggedStage, acts: StageBehaviour) -> Floats:
        """Return V̂ of the state of every episode (N, M), 0 after its end."""
        values = np.zeros((len(stage.starts) + 1, len(self.levels)))  # −1, of no state, is the last
        values[:-1] = acts.expected(self.of(acts.rows))
        return values[stage.state]


class RidgeDesign:
    """The rows of some steps, prepared for regressions of any targets."""

    def __init__(self, rows: GroupedRows, *, dim: int, ridge: float) -> None:
        self._rows, self._dim = rows, dim
        gram = rows.gram(dim)
        self._inverse: Any = (
            1.0 / (gram + ridge)[:, None]
            if rows.one_hot
            else np.linalg.inv(gram + ridge * np.eye(dim))
        )

    def fit(self, targets: Floats) -> StageValues:
        """Return Q̂ for targets (n, M)."""
        if not len(targets):
            return StageValues(np.zeros((self._dim, targets.shape[1])), np.zeros(targets.shape[1]))
        levels = targets.mean(axis=0)
        sums = self._rows.sums(targets - levels, self._dim)
        weights = self._inverse * sums if self._rows.one_hot else self._inverse @ sums
        return StageValues(weights, levels)


def fitted_values(
    logged: LoggedEpisodes,
    behaviour: list[StageBehaviour],
    training: Bools,
    *,
    ridge: float,
    shared: bool,
) -> tuple[Floats, Floats]:
    """Return Q̂ of the steps (N, H, M) and V̂ of the states (N, H+1, M), trained on some episodes.

    With `shared` the regression of a stage uses the steps of all stages except the last; the
    regression of the last stage's rewards uses all steps.
    """
    horizon, members, dim = logged.horizon, behaviour[0].taken.shape[1], logged.dim
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
                earned += following.of_states(logged.stages[t + 1], behaviour[t + 1])[there]
            targets.append(earned)
        following = design.fit(np.concatenate(targets))
        stage = logged.stages[h]
        if stage.played.any():
            q_values[stage.played, h] = following.of(stage.played_rows)
        values[:, h] = following.of_states(stage, behaviour[h])
    return q_values, values


def _pool(h: int, horizon: int, *, shared: bool) -> range:
    """Return the stages whose steps the regression of stage h uses."""
    if not shared:
        return range(h, h + 1)
    return range(horizon if h == horizon - 1 else horizon - 1)


def _design(
    logged: LoggedEpisodes, pool: range, training: Bools, *, dim: int, ridge: float
) -> RidgeDesign:
    there = [(logged.stages[t], training & logged.stages[t].played) for t in pool]
    rows = [stage.taken_rows(episodes) for stage, episodes in there if episodes.any()]
    together = np.concatenate(rows) if rows else np.zeros((0, dim))
    return RidgeDesign(GroupedRows(together), dim=dim, ridge=ridge)
