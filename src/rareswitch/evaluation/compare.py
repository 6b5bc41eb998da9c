"""The return that a policy would have had in a log, and the gain over the log or another policy."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rareswitch.evaluation.interval import Interval, interval_of
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.evaluation.method import Method
from rareswitch.evaluation.target import Target
from rareswitch.evaluation.weights import Weights
from rareswitch.support.arguments import Floats
from rareswitch.trajectories.episodes import RowsOf
from rareswitch.trajectories.log_file import read_log
from rareswitch.trajectories.trajectory import Trajectory

# Called with a word for the work, the parts that are done and their number.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimate:
    """The expected return of a policy, in the environment's own rewards.

    `value` has a 95% interval over the episodes of the log, and `logged` is the mean return of the
    log itself. `weights` tell how far both can be compared, and `warnings` say it in words.
    """

    value: Interval
    logged: Interval
    weights: Weights
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(
            [
                f"expected return {self.value}",
                f"the log         {self.logged}",
                self.evidence,
                *self.warnings,
            ]
        )

    def __repr__(self) -> str:
        return f"Estimate({self.value}, log {self.logged}, {self.evidence})"

    @property
    def evidence(self) -> str:
        """The number of episodes, and how many of them count."""
        weights, effective = self.weights, self.weights.effective[-1]
        count = f"{effective:.0f}" if effective >= 10.0 else f"{effective:.1f}"
        return (
            f"{weights.episodes} episodes, {count} effective, largest possible weight "
            f"{weights.possible:.3g}"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """A candidate beside the log, or beside another policy, on the same episodes.

    `gain` is the candidate's expected return less that of `against`, or less the mean return of the
    log if that is None, with an interval paired by episode. `verdict` is the result in one line.
    """

    candidate: Estimate
    against: Estimate | None
    gain: Interval
    same: bool
    warnings: tuple[str, ...]

    @property
    def logged(self) -> Interval:
        """The mean return of the log."""
        return self.candidate.logged

    @property
    def verdict(self) -> str:
        """One line: a gain, a loss, or the reason why there is no answer."""
        if self.same:
            return "no difference: the candidate is the policy in force"
        sides = {"the candidate": self.candidate, "the policy in force": self.against}
        found = {name: side.weights for name, side in sides.items() if side is not None}
        for name, weights in found.items():
            reach, horizon = weights.reach, len(weights.effective)
            if reach < horizon:
                beyond = f" beyond stage {reach} of {horizon}" if reach else ""
                return f"the log says nothing about {name}{beyond}"
            if weights.missing:
                return f"the log says nothing about {weights.missing:.0%} of what {name} does"
        for name, weights in found.items():
            if weights.narrow:
                return f"cannot tell: {name} takes actions that are too rare in the log"
        if self.gain.known and self.gain.low > 0.0:
            return f"gain {self.gain}"
        if self.gain.known and self.gain.high < 0.0:
            return f"loss {-self.gain}"
        return f"cannot tell: gain {self.gain}"

    def __str__(self) -> str:
        against = [] if self.against is None else [f"in force   {self.against.value}"]
        return "\n".join(
            [
                self.verdict,
                f"candidate  {self.candidate.value}",
                *against,
                f"the log    {self.logged}",
                self.candidate.evidence,
                *self.warnings,
            ]
        )

    def __repr__(self) -> str:
        against = "" if self.against is None else f"in force {self.against.value}, "
        return (
            f"Comparison({self.verdict}; candidate {self.candidate.value}, {against}log "
            f"{self.logged}, {self.candidate.evidence})"
        )


def evaluate(
    candidate: Any,
    log: Any,
    *,
    features: RowsOf | None = None,
    method: Method | None = None,
    progress: Progress = lambda work, done, total: None,
) -> Estimate:
    """Estimate the return that a policy would have had in the episodes of a log.

    Arguments are those of `compare`.
    """
    target = Target.of("candidate", candidate, features)
    judge = _Judge(log, [target], Method.checked(method), progress)
    found, _ = judge.estimate("the policy", target)
    return replace(found, warnings=(*found.warnings, *judge.warnings))


def compare(
    candidate: Any,
    log: Any,
    *,
    against: Any = None,
    features: RowsOf | None = None,
    method: Method | None = None,
    progress: Progress = lambda work, done, total: None,
) -> Comparison:
    """Compare the return of a candidate with the log's own, or with that of another policy.

    The candidate and `against` are agents, policies, or functions (observation, stage) that return
    the probability of each action. `features` are those of a bare `Policy`, by default those of the
    other side; the model of a function uses them too, and otherwise knows only the stage and the
    action. A function's probabilities are rescaled to the feasible actions. `log` is a log with
    propensities that `read_log` reads; it is cut to the policy's horizon. A candidate that was
    fitted to these episodes looks better than it is: keep some of them apart for the comparison.

    >>> played = [
    ...     Trajectory(
    ...         observations=[0, 0], actions=[k % 2], rewards=[k % 2 + k % 3], terminated=True,
    ...         propensities=[0.5],
    ...     )
    ...     for k in range(600)
    ... ]
    >>> compare(lambda observation, stage: [0.0, 1.0], played).verdict
    'gain 0.5 [0.424, 0.574]'
    """
    given = {"candidate": candidate} | ({} if against is None else {"against": against})
    known = next((one.features for one in given.values() if hasattr(one, "features")), None)
    targets = {
        name: Target.of(name, one, known if features is None else features)
        for name, one in given.items()
    }
    judge = _Judge(log, list(targets.values()), Method.checked(method), progress)
    found, resampled = judge.estimate("the candidate", targets["candidate"])
    other, baseline, base, same = None, judge.logged_means, judge.logged, False
    if against is not None:
        other, baseline = judge.estimate("the policy in force", targets["against"])
        base, same = other.value, targets["candidate"].same_as(targets["against"])
    return Comparison(
        candidate=found,
        against=other,
        gain=interval_of(found.value.value - base.value, resampled - baseline, judge.episodes),
        same=same,
        warnings=(
            *found.warnings,
            *(() if other is None else other.warnings),
            *judge.warnings,
        ),
    )


class _Judge:
    """A log, with the folds and resamples that all policies are judged by."""

    def __init__(self, log: Any, targets: list[Target], method: Method, progress: Progress) -> None:
        self._log, self._horizon, self.warnings = _prepared(log, targets, method)
        self._method, self._progress = method, progress
        self.episodes = len(self._log)
        self._folds, self._resampling = method.draws(self.episodes)
        self._seen: tuple[Target, LoggedEpisodes] | None = None
        returns = np.array([trajectory.total for trajectory in self._log])
        self.logged_means = self._resampling.means(returns[:, None])[:, 0]
        self.logged = interval_of(float(returns.mean()), self.logged_means, self.episodes)

    def estimate(self, name: str, target: Target) -> tuple[Estimate, Floats]:
        """Return the estimate for a target, and its resampled values."""
        logged = self._laid_out(name, target)
        found, weights = self._method.judge(
            target.behaviour(logged),
            logged,
            self._folds,
            lambda done: self._progress(f"model of {name}", done, int(self._folds.max()) + 1),
        )
        resampled = found.estimate(self._resampling.means(found.columns))
        estimate = Estimate(
            value=interval_of(found.value, resampled, self.episodes),
            logged=self.logged,
            weights=weights,
            warnings=weights.warnings(name),
        )
        return estimate, resampled

    def _laid_out(self, name: str, target: Target) -> LoggedEpisodes:
        """Return the log as a target sees it; two policies with the same features share it."""
        if self._seen is None or not target.sees_as(self._seen[0]):
            logged = target.laid_out(
                self._log,
                self._horizon,
                lambda done: self._progress(f"episodes for {name}", done, self.episodes),
            )
            self._seen = target, logged
        return self._seen[1]


def _prepared(
    log: Any, targets: list[Target], method: Method
) -> tuple[list[Trajectory], int, tuple[str, ...]]:
    """Return the trajectories of a log up to the horizon, the horizon, and warnings."""
    every = list(read_log(log))
    for number, given in enumerate(every):
        if given.propensities is None:
            raise ValueError(
                f"log must have propensities; trajectory {number} has none. If the policy that "
                "played is known, conditional_propensities(policy, trajectory, features) are they"
            )
    if len(every) < 2:
        raise ValueError(f"log must hold at least two trajectories; got {len(every)}")
    longest = max(map(len, every))
    horizons = {one.policy.horizon for one in targets if one.policy is not None} or {longest}
    if len(horizons) > 1:
        raise ValueError(
            f"candidate and against must have one horizon; got {' and '.join(map(str, horizons))}"
        )
    (horizon,) = horizons
    cut_off = sum(len(one) < horizon and not one.terminated for one in every)
    longer = sum(len(one) > horizon for one in every)
    said = []
    if cut_off:
        worth = "the model's value" if method.estimator == "doubly robust" else "0"
        said.append(
            f"{cut_off} episodes were cut off before stage {horizon}: the rest counts as {worth}"
        )
    if longer:
        said.append(
            f"{longer} episodes have more than {horizon} steps, the horizon: later rewards do not "
            "count"
        )
    return [one.until(horizon) for one in every], horizon, tuple(said)
