"""The settings of an evaluation, and the estimate from a log."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.evaluation import estimators
from rareswitch.evaluation.agreement import (
    StageBehaviour,
    average,
    path_probabilities,
    unlogged_probabilities,
)
from rareswitch.evaluation.estimators import ESTIMATORS, Contributions
from rareswitch.evaluation.interval import Resampling
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.evaluation.weights import Weights, describe_weights
from rareswitch.support.arguments import (
    Ints,
    one_of,
    positive_ridge,
    set_fields,
    short_repr,
    whole,
)
from rareswitch.support.streams import Seed, Stream, checked_seed, generator

STAGES = ("own", "shared")


@dataclass(frozen=True, kw_only=True)
class Method:
    """The settings of an evaluation.

    `estimator` is "doubly robust", "self-normalised", "per-decision" or "trajectory". Only the
    first has a model: `ridge` is the ridge of its regressions, `stages="shared"` fits them to the
    steps of all stages, and each of `folds` parts of the log uses a model of the other parts.
    `seed` draws folds and resamples.
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

    @classmethod
    def checked(cls, method: Any) -> "Method":
        """Return the method, the default for None, or raise TypeError."""
        if not isinstance(method, Method | None):
            raise TypeError(f"method must be a Method; got {short_repr(method)}")
        return cls() if method is None else method

    def draws(self, episodes: int) -> tuple[Ints, Resampling]:
        """Return a random fold of each episode, in equal sizes, and the resamples."""
        rng = generator(self.seed, Stream.BOOTSTRAP)
        folds: Ints = rng.permutation(np.arange(episodes) % self.folds)
        return folds, Resampling(episodes, rng)

    def judge(
        self,
        behaviour: list[StageBehaviour],
        logged: LoggedEpisodes,
        folds: Ints,
        progress: Callable[[int], None] = lambda done: None,
    ) -> tuple[Contributions, Weights]:
        """Return the contribution of each episode to a policy's value, and the weights."""
        paths = path_probabilities(behaviour)
        shares = behaviour[0].shares
        weights = average(paths, shares) / logged.likelihood
        if self.estimator == "doubly robust":
            found = estimators.doubly_robust(
                logged,
                behaviour,
                paths,
                ridge=self.ridge,
                shared=self.stages == "shared",
                folds=folds,
                progress=progress,
            )
        else:
            weigh = {
                "self-normalised": estimators.self_normalised,
                "per-decision": estimators.per_decision,
                "trajectory": estimators.whole_trajectories,
            }[self.estimator]
            found = weigh(weights, logged.rewards)
        unlogged = unlogged_probabilities(behaviour)
        return found, describe_weights(paths, logged.likelihood, shares, unlogged)
