"""Estimate the return of a policy from a log, and its gain over the log or another policy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rareswitch.core.candidate import Candidate, Gain
from rareswitch.evaluation.interval import Interval, UnknownInterval, interval_of
from rareswitch.evaluation.judge import Estimate, Judge, Progress
from rareswitch.evaluation.method import Method
from rareswitch.evaluation.target import Target
from rareswitch.trajectories.episodes import RowsOf

IN_FORCE, OTHER = "the policy in force", "the other policy"
# Smaller gains, relative to the largest return, are rounding errors.
ROUNDING = 1e-12
IN_SAMPLE = (
    "the candidate was fitted on these episodes, so it looks better than it is: give a log of "
    "other episodes"
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """A candidate compared with the log, or with another policy, on the same episodes.

    `gain` is the candidate's expected return minus the return of `against`, or minus the mean
    return of the log if `against` is None, with an interval paired by episode, unknown if the log
    shows too little of either policy's behaviour. If the candidate was fitted on these episodes,
    `in_sample` is true, and there is neither a verdict nor an interval. `modelled` is the expected
    gain by the fitted model of a `rules.Candidate`, with its standard error: it needs no
    propensities, and is only as good as the model.
    """

    candidate: Estimate
    against: Estimate | None
    gain: Interval
    same: bool
    warnings: tuple[str, ...]
    modelled: Gain | None = None
    in_sample: bool = False
    against_name: str = OTHER

    @property
    def logged(self) -> Interval:
        """The mean return of the log."""
        return self.candidate.logged

    @property
    def verdict(self) -> str:
        """The result in one line: a gain, a loss, or the reason why neither is certain."""
        if self.same:
            return f"no difference: the candidate is {self.against_name}"
        if self.in_sample:
            return "no verdict: the candidate was fitted on these episodes"
        sides = {"the candidate": self.candidate, self.against_name: self.against}
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
        fitted = " BY FITTED PROPENSITIES" if self.candidate.propensities == "fitted" else ""
        if self.gain.known and self.gain.low > 0.0:
            return f"gain {self.gain}{fitted}"
        if self.gain.known and self.gain.high < 0.0:
            return f"loss {-self.gain}{fitted}"
        return f"cannot tell: gain {self.gain}{fitted}"

    @property
    def _label(self) -> str:
        return {IN_FORCE: "in force", OTHER: "other"}.get(self.against_name, self.against_name)

    def __str__(self) -> str:
        against = [] if self.against is None else [f"{self._label:10} {self.against.value}"]
        return "\n".join(
            [
                self.verdict,
                f"candidate  {self.candidate.value}",
                *against,
                *([] if self.modelled is None else [f"the model  gain {self.modelled}"]),
                f"the log    {self.logged}",
                self.candidate.evidence,
                *self.warnings,
            ]
        )

    def __repr__(self) -> str:
        against = "" if self.against is None else f"{self._label} {self.against.value}, "
        return (
            f"Comparison({self.verdict}; candidate {self.candidate.value}, {against}log "
            f"{self.logged}, {self.candidate.evidence})"
        )


def evaluate(
    candidate: Any,
    log: Any,
    *,
    features: RowsOf | None = None,
    loggers: Mapping[int, Any] | None = None,
    propensities: str = "logged",
    method: Method | None = None,
    in_sample: bool | None = None,
    progress: Progress = lambda work, done, total: None,
) -> Estimate:
    """Estimate the return of a policy from a log, with the arguments of `compare`."""
    targets, writers = _targets({"candidate": candidate}, features, loggers)
    fitted = _is_in_sample(candidate, log) if in_sample is None else in_sample
    judge = Judge(
        log, targets, writers, method=method, propensities=propensities, progress=progress
    )
    found, _ = judge.estimate("the policy", targets["candidate"])
    found = replace(found, warnings=judge.warnings(found))
    return _without_interval(found) if fitted else found


def compare(
    candidate: Any,
    log: Any,
    *,
    against: Any = None,
    features: RowsOf | None = None,
    loggers: Mapping[int, Any] | None = None,
    propensities: str = "logged",
    method: Method | None = None,
    in_sample: bool | None = None,
    against_name: str | None = None,
    progress: Progress = lambda work, done, total: None,
) -> Comparison:
    """Compare the return of a candidate with the log's own return, or with another policy's.

    The candidate and `against` are agents, policies, or functions (observation, stage) that return
    the probability of each action. A `rules.Candidate`, from `Learner.candidate`, includes the
    policy in force. `features` belong to a bare `Policy`; the default is the features of the other
    side; the model of a function uses them too, or else only the stage and the action. A function's
    probabilities are rescaled to the feasible actions. `log` is a log with propensities that
    `read_log` reads; it is truncated at the policy's horizon.

    `against_name` is the name of `against` in words, such as "version 1". By default it is "the
    policy in force" of a `rules.Candidate`, and else "the other policy".

    A candidate that was fitted on these episodes looks better than it is: keep some of them apart
    for the comparison, or set `in_sample`, and there is no verdict. By default this is so for the
    recommended policy of a training and the file of its log.

    If several policies wrote the log, `loggers` holds all of them by version: episodes are then
    weighted by the probability of their actions under all loggers together, which needs no
    propensities. No logger may be fitted on episodes of this log: it prefers actions that were
    lucky there, and these would count less. `propensities="fitted"` estimates the propensities of
    an unknown logger from the log.

    >>> from rareswitch.trajectories import Trajectory
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
    modelled = None
    if isinstance(candidate, Candidate):
        if against is not None:
            raise TypeError("against must be left out: the candidate includes the policy in force")
        modelled = candidate.gain if candidate.paths else None
        candidate, against = candidate.policy, candidate.in_force
        against_name = against_name or IN_FORCE
    name = against_name or OTHER
    fitted = _is_in_sample(candidate, log) if in_sample is None else in_sample
    given = {"candidate": candidate} | ({} if against is None else {"against": against})
    targets, writers = _targets(given, features, loggers)
    judge = Judge(
        log, targets, writers, method=method, propensities=propensities, progress=progress
    )
    found, resampled = judge.estimate("the candidate", targets["candidate"])
    other, baseline, base, same = None, judge.logged_means, judge.logged, False
    if against is not None:
        other, baseline = judge.estimate(name, targets["against"])
        base, same = other.value, targets["candidate"].same_as(targets["against"])
    certain = all(side.weights.support for side in (found, other) if side is not None)
    warnings = judge.warnings(*([found] if other is None else [found, other]))
    return Comparison(
        candidate=_without_interval(found) if fitted else found,
        against=other,
        gain=_rounded(
            interval_of(
                found.value.value - base.value,
                resampled - baseline,
                judge.episodes,
                certain=certain and not fitted,
            ),
            judge.largest_return,
        ),
        same=same,
        modelled=modelled,
        warnings=(IN_SAMPLE, *warnings) if fitted else warnings,
        in_sample=fitted,
        against_name=name,
    )


def _rounded(gain: Interval, largest: float) -> Interval:
    """Return an interval with 0 instead of rounding errors of returns up to `largest`."""
    return type(gain)(*(0.0 if abs(end) <= ROUNDING * largest else end for end in gain))


def _is_in_sample(candidate: Any, log: Any) -> bool:
    """Return whether the training that wrote the file of a log recommends this policy."""
    policy = getattr(candidate, "policy", candidate)
    if not isinstance(log, str | Path) or not hasattr(policy, "digest"):
        return False
    try:
        summary = json.loads((Path(log).parent / "summary.json").read_bytes())
        return bool(summary["recommended"]["digest"] == policy.digest)
    except (OSError, ValueError, KeyError, TypeError):  # no folder of a training
        return False


def _without_interval(found: Estimate) -> Estimate:
    """Return the estimate of a policy that was fitted on the log."""
    value = UnknownInterval(*found.value)
    return replace(found, value=value, warnings=(IN_SAMPLE, *found.warnings))


def _targets(
    given: dict[str, Any], features: RowsOf | None, loggers: Mapping[int, Any] | None
) -> tuple[dict[str, Target], dict[int, Target] | None]:
    """Return the policies to evaluate and the loggers; bare policies share features."""
    own = next((one.features for one in given.values() if hasattr(one, "features")), None)
    known = own if features is None else features
    targets = {name: Target.of(name, one, known) for name, one in given.items()}
    if loggers is None:
        return targets, None
    return targets, {v: Target.of(f"loggers[{v}]", one, known) for v, one in loggers.items()}
