"""What a policy would have earned, from a log of another."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rareswitch.core.policy import Policy
from rareswitch.evaluation.interval import Interval, interval_of
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.evaluation.method import Method
from rareswitch.evaluation.weights import Weights
from rareswitch.support.arguments import short_repr
from rareswitch.trajectories.offered import Features
from rareswitch.trajectories.trajectory import Trajectory


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The expected return of a policy, in the environment's own rewards.

    `value` has a 95% interval over the episodes of the log. It can be believed as far as `weights`
    let it, and `warnings` say in words how far that is.
    """

    value: Interval
    weights: Weights
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"expected return {self.value}", *self.warnings])


def evaluate(
    policy: Policy,
    log: Iterable[Trajectory],
    features: Features,
    *,
    method: Method | None = None,
) -> Evaluation:
    """Return what a policy, of one member or a mixture, would have earned in the log's episodes.

    `log` are trajectories with the propensities of whatever played them, each up to the policy's
    horizon; `features` is the map that the policy acts by.
    """
    method = checked_method(method)
    logged = LoggedEpisodes.of(log, features, checked_policy("policy", policy).horizon)
    folds, resampling = method.draws(len(logged))
    found, weights = method.judge(policy, logged, folds)
    return Evaluation(
        value=interval_of(found.value, found.estimate(resampling.means(found.columns))),
        weights=weights,
        warnings=(*weights.warnings("the policy"), *cut_off_warnings(logged, method)),
    )


def cut_off_warnings(logged: LoggedEpisodes, method: Method) -> tuple[str, ...]:
    """Return in words what becomes of episodes that were cut off before the horizon."""
    if not logged.cut_off:
        return ()
    what = "as the model expects" if method.estimator == "doubly robust" else "as 0"
    return (
        f"{logged.cut_off} episodes were cut off before stage {logged.horizon}: what came after "
        f"counts {what}",
    )


def checked_policy(name: str, policy: Any) -> Policy:
    """Return a policy, if it is one."""
    if not isinstance(policy, Policy):
        raise TypeError(f"{name} must be a Policy; got {short_repr(policy)}")
    return policy


def checked_method(method: Any) -> Method:
    """Return a method, if it is one, or the default."""
    if not isinstance(method, Method | None):
        raise TypeError(f"method must be a Method; got {short_repr(method)}")
    return Method() if method is None else method
