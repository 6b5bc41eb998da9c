"""How a policy is evaluated: the estimator and its settings, and what they make of a log."""

from dataclasses import dataclass

import numpy as np

from rareswitch.core.policy import Policy
from rareswitch.evaluation import estimators
from rareswitch.evaluation.agreement import agreement, choices_at
from rareswitch.evaluation.estimators import ESTIMATORS, Contributions
from rareswitch.evaluation.interval import Resampling
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.evaluation.weights import Weights, described, weights_of
from rareswitch.support.arguments import Ints, one_of, positive_ridge, set_fields, whole
from rareswitch.support.streams import Seed, Stream, checked_seed, generator

STAGES = ("own", "shared")


@dataclass(frozen=True, kw_only=True)
class Method:
    """The settings of an evaluation.

    `estimator` is "doubly robust", "self-normalised", "per-decision" or "trajectory". The next
    three matter to the first alone: `ridge` is that of its regressions, `stages="shared"` pools the
    steps of all stages into them, and each of so many `folds` of the episodes is judged by a model
    of the others. `seed` draws folds and resamples.
    """

    estimator: str = "doubly robust"
    ridge: float = 1.0
    stages: str = "own"
    folds: int = 5
    seed: Seed = 0

    def __post_init__(self) -> None:
        set_fields(
            self,
            estimator=one_of("estimator", self.estimator, ESTIMATORS),
            ridge=positive_ridge(self.ridge),
            stages=one_of("stages", self.stages, STAGES),
            folds=whole("folds", self.folds, least=2),
            seed=checked_seed(self.seed),
        )

    def draws(self, episodes: int) -> tuple[Ints, Resampling]:
        """Return the fold of each episode, as many in each at random, and the resamples."""
        rng = generator(self.seed, Stream.BOOTSTRAP)
        folds: Ints = rng.permutation(np.arange(episodes) % self.folds)
        return folds, Resampling(episodes, rng)

    def judge(
        self, policy: Policy, logged: LoggedEpisodes, folds: Ints
    ) -> tuple[Contributions, Weights]:
        """Return what each episode contributes to a policy's value, and what its weights are."""
        choices = choices_at(policy, logged)
        agrees = agreement(choices, logged)
        weights = weights_of(agrees, logged.likelihood)
        if self.estimator == "doubly robust":
            found = estimators.doubly_robust(
                logged,
                choices,
                agrees,
                dim=policy.dim,
                ridge=self.ridge,
                shared=self.stages == "shared",
                folds=folds,
            )
        else:
            weigh = {
                "self-normalised": estimators.self_normalised,
                "per-decision": estimators.per_decision,
                "trajectory": estimators.whole_trajectories,
            }[self.estimator]
            found = weigh(weights, logged.rewards)
        return found, described(weights, agrees)
