"""Do the data speak against stages that share their steps? A check by prediction.

Where rewards and transitions do not depend on the stage, a regression on the steps of all stages
predicts what follows a step better than one on the steps of its own stage alone, because it has
more of them. Where they do depend on it, the pooled regression is wrong by an amount that more data
do not take away. So both are asked to predict steps that neither has seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.core.exploration import Bonus
from rareswitch.core.lsvi import QFunction, backward
from rareswitch.core.policy import regressor_of
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task, checked_task
from rareswitch.evaluation.interval import Resampling, interval_of
from rareswitch.statistics import History, history_of
from rareswitch.support.arguments import Floats, Rows, short_repr
from rareswitch.support.streams import Stream, generator

LEAST_EPISODES = 4
GREEDY = Recipe(exploration=Bonus(0.0, estimate=True))


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """Mean squared errors on steps not seen: of stages on their own, and of shared ones.

    `low` and `high` are the 95% bootstrap interval, over episodes, of `own` minus `shared`: above
    0, sharing predicts better; below 0, the data speak against it.
    """

    own: float
    shared: float
    low: float
    high: float

    @property
    def against(self) -> bool:
        """Whether stages on their own predict measurably better."""
        return self.high < 0.0

    def __str__(self) -> str:
        errors = f"errors on unseen steps: shared {self.shared:.4g}, own {self.own:.4g}"
        if self.against:
            return f'the data speak against shared stages ({errors}); try stages="own"'
        if self.low > 0.0:
            return f"sharing predicts better ({errors})"
        return f"the data do not tell whether stages differ ({errors})"


def check_sharing(log: Sequence[Episode], task: Task, *, seed: int = 0) -> Sharing:
    """Compare stages on their own with shared ones on the episodes of a log.

    The episodes are cut in two; each half is predicted by what is fitted on the other. What is
    predicted is the reward of a step plus the value of the state after it, of one and the same
    value function for all stages. The last stage, of which the next state is not known, is left
    out.

    >>> rng = np.random.default_rng(0)
    >>> def episode(dependent):                       # a reward that depends on the stage, or not
    ...     return Episode(
    ...         features=np.ones((3, 1)), next_features=[np.ones((1, 1))] * 2,
    ...         rewards=np.clip([0.2, 0.8 if dependent else 0.2, 0.0] + rng.normal(0, 0.1, 3), 0, 1)
    ...     )
    >>> [check_sharing([episode(depends) for _ in range(40)], Task(dim=1, horizon=3)).against
    ...  for depends in (True, False)]
    [True, False]
    """
    if not isinstance(log, Sequence) or not all(isinstance(one, Episode) for one in log):
        raise TypeError(f"log must be a list of Episodes; got {short_repr(log)}")
    if len(log) < LEAST_EPISODES:
        raise ValueError(f"log must have at least {LEAST_EPISODES} episodes; got {len(log)}")
    if checked_task(task).horizon < 2:
        raise ValueError(f"horizon must be at least 2 for stages to share; got {task.horizon}")
    halves = [log[0::2], log[1::2]]
    errors = np.zeros((len(log), 2))  # Σ of squared errors of each episode: own, shared
    steps = np.zeros(len(log))
    for known, unseen in ((0, 1), (1, 0)):
        predictor = _Predictor(
            *(history_of(replace(task, stages=kind), log=halves[known]).fold() for kind in KINDS)
        )
        for k, episode in enumerate(halves[unseen]):
            place = 2 * k + unseen
            found = predictor.errors(episode)
            errors[place], steps[place] = np.square(found).sum(axis=0), len(found)
    return _judged(errors, steps, seed)


KINDS = ("own", "shared")


class _Predictor:
    """The regressions of both kinds on some episodes, with the same value of what follows."""

    def __init__(self, own: History, shared: History) -> None:
        self._horizon, self._middle = own.task.horizon, own.task.horizon // 2
        # The value of what follows a step: that of the stage in the middle, for all of them.
        stages = backward(shared, regressor_of(shared, GREEDY), beta=0.0)
        self._following = stages[self._middle]
        self._ended = own.task.end_reward * (self._horizon - self._middle)
        self._own = [_of(own, h, self._following) for h in range(self._horizon - 1)]
        self._shared = _of(shared, self._middle - 1, self._following)

    def errors(self, episode: Episode) -> Floats:
        """Return by how much each step's target is missed, own and shared (n, 2)."""
        count = min(len(episode), self._horizon - 1)
        found = np.empty((count, 2))
        for h in range(count):
            value = self._ended
            if h < len(episode.next_features):
                value = float(self._following.q_values(episode.next_features[h]).max())
            row: Rows = episode.features[h : h + 1]
            target = float(episode.rewards[h]) + value
            found[h] = [
                target - float(stage.q_values(row)[0]) for stage in (self._own[h], self._shared)
            ]
        return found


def _of(history: History, h: int, following: QFunction) -> QFunction:
    """Return the prediction of stage h, given the value of what follows."""
    found = regressor_of(history, GREEDY).stage(h, history.next_value_sums(h, following))
    return QFunction(found.weights, found.levels, None, 0.0, None, None)


def _judged(errors: Floats, steps: Floats, seed: int) -> Sharing:
    own, shared = errors.sum(axis=0) / steps.sum()
    resampling = Resampling(len(steps), generator(seed, Stream.BOOTSTRAP))
    difference, counts = resampling.means(np.stack([errors @ [1.0, -1.0], steps], axis=1)).T
    found = interval_of(float(own - shared), difference / counts)
    return Sharing(own=float(own), shared=float(shared), low=found.low, high=found.high)
