"""Evaluate policies on one log, with the same folds and resamples for all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rareswitch.evaluation.agreement import average, path_probabilities
from rareswitch.evaluation.interval import Interval, interval_of
from rareswitch.evaluation.logged import LEAST_LIKELIHOOD, LoggedEpisodes
from rareswitch.evaluation.method import Method
from rareswitch.evaluation.propensities import fitted_propensities
from rareswitch.evaluation.target import Target
from rareswitch.evaluation.weights import Weights
from rareswitch.support.arguments import Floats, one_of
from rareswitch.trajectories.log_file import read_log
from rareswitch.trajectories.trajectory import Trajectory

FITTED = (
    "PROPENSITIES ARE FITTED, not logged: the result is wrong if the log's policy used anything "
    "that the observations do not show"
)
# Called with the name of the work, the number of finished parts and the number of all parts.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimate:
    """The expected return of a policy, in the environment's own rewards.

    `value` has a 95% interval over the episodes of the log, unknown if the log shows too little of
    the policy's behaviour; `logged` is the mean return of the log itself. `weights` measure how
    well the log covers the policy, and `warnings` are the limits in words. `propensities` are
    "logged", "balanced" over all loggers, or "fitted".
    """

    value: Interval
    logged: Interval
    weights: Weights
    propensities: str
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
        """The number of episodes, and the effective number."""
        weights, effective = self.weights, self.weights.effective[-1]
        count = f"{effective:.0f}" if effective >= 10.0 else f"{effective:.1f}"
        source = {"logged": "", "balanced": ", all loggers", "fitted": ", FITTED PROPENSITIES"}
        return (
            f"{weights.episodes} episodes, {count} effective, largest possible weight "
            f"{weights.possible:.3g}{source[self.propensities]}"
        )


class Judge:
    """A log with folds and resamples, which evaluates policies.

    The probability of its actions comes from the logged propensities, from the policies of all
    `loggers` by version, or from a model fitted to the log.
    """

    def __init__(
        self,
        log: Any,
        targets: Mapping[str, Target],
        loggers: Mapping[int, Target] | None,
        *,
        method: Method | None,
        propensities: str,
        progress: Progress,
    ) -> None:
        self._method, self._progress = Method.checked(method), progress
        source = one_of("propensities", propensities, ("logged", "fitted"))
        every = list(read_log(log))
        if len(every) < 2:
            raise ValueError(f"log must hold at least two trajectories; got {len(every)}")
        self._horizon = _horizon(every, [*targets.values(), *(loggers or {}).values()])
        self.limits = _limits(every, self._horizon, self._method)
        if loggers is None and source == "logged":
            _require_propensities(every)
        self._log = [one.until(self._horizon) for one in every]
        if loggers is None and source == "fitted":
            self._log = fitted_propensities(self._log)
        self.source = source if loggers is None else "balanced"
        self.episodes = len(self._log)
        self._folds, self._resampling = self._method.draws(self.episodes)
        self._seen: tuple[Target, LoggedEpisodes] | None = None
        returns = np.array([trajectory.total for trajectory in self._log])
        self.largest_return = float(np.abs(returns).max())
        self.logged_means = self._resampling.means(returns[:, None])[:, 0]
        self.logged = interval_of(float(returns.mean()), self.logged_means, self.episodes)
        self._likelihood = None if loggers is None else self._balanced(loggers)

    def warnings(self, *estimates: Estimate) -> tuple[str, ...]:
        """Return the warnings of estimates and of the log, the most serious first."""
        marks = (FITTED,) if self.source == "fitted" else ()
        return (*marks, *(w for one in estimates for w in one.warnings), *self.limits)

    def estimate(self, name: str, target: Target) -> tuple[Estimate, Floats]:
        """Return the estimate for a target, and its resampled values."""
        logged = self._laid_out(name, target)
        if self._likelihood is not None:
            logged = replace(logged, likelihood=self._likelihood)
        found, weights = self._method.judge(
            target.behaviour(logged),
            logged,
            self._folds,
            lambda done: self._progress(f"model of {name}", done, int(self._folds.max()) + 1),
        )
        resampled = found.estimate(self._resampling.means(found.columns))
        estimate = Estimate(
            value=interval_of(found.value, resampled, self.episodes, certain=weights.support),
            logged=self.logged,
            weights=weights,
            propensities=self.source,
            warnings=weights.warnings(name),
        )
        return estimate, resampled

    def _balanced(self, loggers: Mapping[int, Target]) -> Floats:
        """Return Σ_v share_v·P_v, the probability of the actions under all loggers together.

        An action that is rare under one version may be frequent under others, so weights are
        smaller than with the propensities of the playing version alone.
        """
        played = np.array([0 if one.version is None else one.version for one in self._log])
        if unknown := sorted({*played.tolist()} - {*loggers}):
            number = int(np.argmax(played == unknown[0]))
            raise ValueError(
                f"loggers must have the policy of every version in the log, "
                f"{', '.join(map(str, loggers))}; trajectory {number} has "
                + (f"version {unknown[0]}" if unknown[0] else "no version")
            )
        likelihood = np.zeros((self.episodes, self._horizon))
        for version, target in loggers.items():
            share = float(np.mean(played == version))
            if share:
                logged = self._laid_out(f"version {version}", target)
                acts = target.behaviour(logged)
                likelihood += share * average(path_probabilities(acts), acts[0].shares)
        if not likelihood.all():
            number = int(np.argmin(likelihood.all(axis=1)))
            raise ValueError(
                f"loggers must be able to play the log; trajectory {number} of version "
                f"{played[number]} has actions that no version takes"
            )
        return np.maximum(likelihood, LEAST_LIKELIHOOD)

    def _laid_out(self, name: str, target: Target) -> LoggedEpisodes:
        """Return the log laid out for a target; policies with the same features share it."""
        if self._seen is None or not target.sees_as(self._seen[0]):
            logged = target.laid_out(
                self._log,
                self._horizon,
                lambda done: self._progress(f"episodes for {name}", done, self.episodes),
            )
            self._seen = target, logged
        return self._seen[1]


def _horizon(log: list[Trajectory], targets: list[Target]) -> int:
    """Return the horizon of the policies, or the longest episode if they are functions."""
    horizons = {one.policy.horizon for one in targets if one.policy is not None}
    if len(horizons) > 1:
        raise ValueError(
            "candidate, against and loggers must have one horizon; got "
            + " and ".join(map(str, sorted(horizons)))
        )
    return horizons.pop() if horizons else max(map(len, log))


def _limits(log: list[Trajectory], horizon: int, method: Method) -> tuple[str, ...]:
    """Return notes about rewards outside the log or the horizon."""
    said = []
    if cut_off := sum(len(one) < horizon and not one.terminated for one in log):
        worth = "the model's value" if method.estimator == "doubly robust" else "0"
        said.append(
            f"{cut_off} episodes were cut off before stage {horizon}: the rest counts as {worth}"
        )
    if longer := sum(len(one) > horizon for one in log):
        said.append(
            f"{longer} episodes have more than {horizon} steps, the horizon: later rewards do not "
            "count"
        )
    return tuple(said)


def _require_propensities(log: list[Trajectory]) -> None:
    for number, trajectory in enumerate(log):
        if trajectory.propensities is None:
            raise ValueError(
                f"log must have propensities; trajectory {number} has none. If the policy that "
                "played is known, conditional_propensities(policy, trajectory, features) returns "
                'them; if it is not, propensities="fitted" estimates them'
            )
