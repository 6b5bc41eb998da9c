"""Is the learner exploring enough, and is it still learning? Two figures that tell.

Both compare with the data alone. `reach` is how far exploration can lift an action that was never
tried above the average one, in units of how much values differ: what an untried direction of
typical length is worth under the recipe (towards 0 with a declared ridge, towards the average with
an estimated one) plus what exploration may add to it: the bonus, or the largest of all members' and
draws' perturbations. `idle` counts the episodes in which next to nothing was learnt: since the
first deployment after which all the information gathered, Σ_h log det Λ_h, grew by less than a
hundredth.
"""

from dataclasses import dataclass

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.core.exploration import Exploration
from rareswitch.core.history import History
from rareswitch.core.ledger import Ledger
from rareswitch.core.lsvi import backward
from rareswitch.core.recipe import Recipe
from rareswitch.core.regression import Estimated
from rareswitch.core.streams import Stream, generator

LEAST_REACH = 0.1
LEAST_GROWTH = 0.01
LEAST_NORM = 1e-10  # of all squared features of a stage, beside λ


@dataclass(frozen=True, kw_only=True)
class Health:
    """Two figures about a learner, and what is wrong in words.

    `reach` is that of the stage where it is least; None before the first episode.
    """

    reach: float | None
    idle: int
    warnings: tuple[str, ...]

    @property
    def good(self) -> bool:
        return not self.warnings


def health_of(history: History, recipe: Recipe, ledger: Ledger, episodes: int) -> Health:
    """Return how a learner with this history is doing after so many episodes of its own."""
    reach = _reach(history, recipe) if history.episodes else None
    idle = _idle(history, ledger, episodes)
    warnings = []
    if reach is not None and reach < LEAST_REACH:
        cure = "raise beta, sigma or scale"
        if not recipe.exploration.estimate:
            cure += ", lower ridge, or leave them out for estimates"
        warnings.append(
            f"exploration is too small for the range of values: it lifts an action that was never "
            f"tried to {reach:+.2g} spreads of value from the average one, so such actions may "
            f"never be tried; {cure}"
        )
    if _lost_beside_ridge(history):
        warnings.append(
            f"features are too short beside ridge = {history.ridge:g}: nothing can be learnt from "
            f"them; lower ridge, or make them longer"
        )
    if history.episodes and not history.reward_sums[:, -1].any():
        warnings.append(f"no reward was seen in {history.episodes} episodes")
    if idle > episodes // 2:
        warnings.append(
            f"nothing was learnt in the last {idle} episodes: what was known before them has grown "
            f"by less than {LEAST_GROWTH:.0%}"
        )
    return Health(reach=reach, idle=idle, warnings=tuple(warnings))


def _reach(history: History, recipe: Recipe) -> float:
    """Return the least, over the stages reached, of what exploration can do for untried actions."""
    explores = recipe.exploration
    strength = explores.beta + _strength(explores)
    if explores.estimate:
        return strength  # an untried direction is worth the average, and uncertain by one spread
    pools = history.pools
    steps = history.step_sums[:, history.dim]
    plain = Estimated(history, members=False)
    stages = backward(history, plain, beta=0.0, clip=recipe.clip)
    average = np.array([stage.levels for stage in stages])
    spread = np.array([plain.spreads[h] for h in range(pools.horizon)])
    lifted = strength * np.sqrt(_squared_norms(history) / np.maximum(steps, 1.0) / history.ridge)
    pool = [pools.of(h) for h in range(pools.horizon)]
    return float(((lifted[pool] - average) / spread)[steps[pool] > 0].min())


def _strength(exploration: Exploration) -> float:
    """Return how far the largest of all that is drawn lifts a value (root mean square)."""
    if not exploration.draws:
        return 0.0
    dim = max(100, 10_000 // (exploration.members * exploration.draws))
    drawn = exploration.perturbations(generator(0, Stream.PERTURBATION), 1, dim)
    return float(np.sqrt(np.mean(np.square(drawn.max(axis=(0, 2))))))


def _squared_norms(history: History) -> Floats:
    """Return Σ‖φ‖² of each pool of steps, from tr Λ = d·λ + Σ‖φ‖²."""
    return np.maximum(history.gram.trace - history.dim * history.ridge, 0.0)


def _lost_beside_ridge(history: History) -> bool:
    """Return whether, in some pool, all features together are lost beside λ in rounding."""
    seen = history.step_sums[:, : history.dim].any(axis=1)
    return bool((seen & (_squared_norms(history) < LEAST_NORM * history.ridge)).any())


def _idle(history: History, ledger: Ledger, episodes: int) -> int:
    """Return the episodes since the first deployment after which information hardly grew."""
    gained = history.gram.logdet.sum() - ledger[0].logdet.sum()
    for deployment in ledger:
        if history.gram.logdet.sum() - deployment.logdet.sum() <= LEAST_GROWTH * gained:
            return episodes + 1 - deployment.episode
    return 0
