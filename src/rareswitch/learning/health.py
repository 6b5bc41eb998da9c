"""Two measures of a learner's health: its exploration, and its progress.

Both need only the data. `reach` is the height to which exploration can lift an untried action above
the average action, in units of the spread of values. It is the value of an untried direction of
typical length under the recipe (a declared ridge shrinks it towards 0, an estimated ridge towards
the average) plus the bonus, or the largest perturbation over members and draws. `idle` counts the
last episodes with almost no learning: the episodes since the first deployment after which the
information Σ_h log det Λ_h grew by less than a hundredth.
"""

from dataclasses import dataclass

import numpy as np

from rareswitch.core.clock import Ledger
from rareswitch.core.estimation import EstimatedRegression
from rareswitch.core.exploration import Exploration
from rareswitch.core.lsvi import backward
from rareswitch.core.recipe import Recipe
from rareswitch.core.sharing import Sharing, compare_stages
from rareswitch.statistics import BothHistories, History
from rareswitch.statistics.history import SummedHistory
from rareswitch.support.arguments import Floats
from rareswitch.support.streams import Stream, generator

LEAST_REACH = 0.1
LEAST_GROWTH = 0.01
LEAST_NORM = 1e-10  # of the sum of squared features of a stage, relative to λ
LEAST_REWARD = 1e-13  # mean reward; removed rewards leave a rounding error


@dataclass(frozen=True, kw_only=True)
class Health:
    """Two measures of a learner's health, and warnings as text.

    `reach` is the minimum over stages; None without episodes. `sharing` compares own and shared
    stages on the data so far, if each fit chooses between them.
    """

    reach: float | None
    idle: int
    warnings: tuple[str, ...]
    sharing: Sharing | None = None

    @property
    def good(self) -> bool:
        return not self.warnings


def health_of(history: History, recipe: Recipe, ledger: Ledger, episodes: int) -> Health:
    """Return the health of a learner with this folded history and number of own episodes."""
    idle, sharing = _idle(history, ledger, episodes), None
    if isinstance(history, BothHistories):
        sharing = compare_stages(history.own, history.shared)
        history = history.shared if sharing.better == "shared" else history.own
    known = history.step_sums[0, history.dim] > 0  # every episode has a first step
    reach = _reach(history, recipe) if known else None
    warnings = []
    if reach is not None and reach < LEAST_REACH:
        cure = "raise beta or scale"
        if not recipe.exploration.estimate:
            cure += ", lower ridge, or use a recipe that estimates them"
        warnings.append(
            f"exploration is too small for the range of values: it lifts an untried action to "
            f"{reach:+.2g} spreads of value from the average one, so some actions may never be "
            f"tried; {cure}"
        )
    if _lost_in_ridge(history):
        warnings.append(
            f"features are too short compared with ridge = {history.ridge:g}: nothing can be "
            f"learnt from them; lower ridge, or make them longer"
        )
    if known and not (history.step_sums[:, -1] > LEAST_REWARD * history.episodes).any():
        warnings.append(f"no reward was seen in {history.episodes} episodes")
    if idle > episodes // 2:
        warnings.append(
            f"nothing was learnt in the last {idle} episodes: information grew by less than "
            f"{LEAST_GROWTH:.0%}"
        )
    return Health(reach=reach, idle=idle, warnings=tuple(warnings), sharing=sharing)


def _reach(history: SummedHistory, recipe: Recipe) -> float:
    """Return the minimum of reach over the stages that were played."""
    explores = recipe.exploration
    strength = explores.beta + _strength(explores)
    if explores.estimate:
        return strength  # an untried direction has the average value and uncertainty of one spread
    pools = history.pools
    steps = history.step_sums[:, history.dim]
    estimated = EstimatedRegression(history, perturbed=False)
    stages = backward(history, estimated, beta=0.0, clip=recipe.clip)
    average = np.array([stage.levels for stage in stages])
    spread = np.array([estimated.spreads[h] for h in range(pools.horizon)])
    lifted = strength * np.sqrt(_squared_norms(history) / np.maximum(steps, 1.0) / history.ridge)
    pool = [pools.index(h) for h in range(pools.horizon)]
    return float(((lifted[pool] - average) / spread)[steps[pool] > 0].min())


def _strength(exploration: Exploration) -> float:
    """Return the root mean square of the largest perturbation of a value."""
    if not exploration.draws:
        return 0.0
    dim = max(100, 10_000 // (exploration.members * exploration.draws))
    drawn = exploration.perturbations(generator(0, Stream.PERTURBATION), 1, dim)
    return float(np.sqrt(np.mean(np.square(drawn.max(axis=(0, 2))))))


def _squared_norms(history: SummedHistory) -> Floats:
    """Return Σ‖φ‖² of each pool of steps, from tr Λ = d·λ + Σ‖φ‖²."""
    return np.maximum(history.gram.trace - history.task.dim * history.ridge, 0.0)


def _lost_in_ridge(history: SummedHistory) -> bool:
    """Return whether, in some pool, the sum of all features is below the rounding error of λ."""
    sums, dim = history.step_sums, history.dim
    seen = sums[:, :dim].any(axis=1) & (sums[:, dim] > 0)
    return bool((seen & (_squared_norms(history) < LEAST_NORM * history.ridge)).any())


def _idle(history: History, ledger: Ledger, episodes: int) -> int:
    """Return the number of episodes since the first deployment after which information stalled."""
    gained = history.gram.logdet.sum() - ledger[0].logdet.sum()
    for deployment in ledger:
        if history.gram.logdet.sum() - deployment.logdet.sum() <= LEAST_GROWTH * gained:
            return episodes + 1 - deployment.episode
    return 0
