"""What a switch is expected to gain, before it is made."""

from collections.abc import Iterable
from dataclasses import dataclass

from rareswitch.core.policy import Policy
from rareswitch.evaluation.evaluate import (
    Evaluation,
    checked_method,
    checked_policy,
    cut_off_warnings,
)
from rareswitch.evaluation.interval import Interval, interval_of
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.evaluation.method import Method
from rareswitch.trajectories.offered import Features
from rareswitch.trajectories.trajectory import Trajectory


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """A candidate beside the policy in force, on the same episodes.

    `gain` is the candidate's expected return less that of the policy in force, its interval paired
    by episode; `logged` is the mean return of the log itself, whatever played it. `verdict` is all
    of it in one line.
    """

    candidate: Evaluation
    in_force: Evaluation
    logged: Interval
    gain: Interval
    same: bool
    warnings: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """One line: a gain, a loss, that it cannot be told, or that the log says nothing."""
        if self.same:
            return "no difference: the candidate is the policy in force"
        sides = {"the candidate": self.candidate, "the policy in force": self.in_force}
        for name, side in sides.items():
            reach, horizon = side.weights.reach, len(side.weights.effective)
            if reach < horizon:
                beyond = f" beyond stage {reach} of {horizon}" if reach else ""
                return f"the log says nothing about {name}{beyond}"
            if side.weights.missing:
                return f"the log says nothing about {side.weights.missing:.0%} of what {name} does"
        if self.gain.low > 0.0:
            return f"gain {self.gain}"
        if self.gain.high < 0.0:
            return f"loss {Interval(-self.gain.value, -self.gain.high, -self.gain.low)}"
        return f"cannot tell: gain {self.gain}"

    def __str__(self) -> str:
        return "\n".join(
            [
                self.verdict,
                f"candidate  {self.candidate.value}",
                f"in force   {self.in_force.value}",
                f"logged     {self.logged}",
                *self.warnings,
            ]
        )


def compare(
    candidate: Policy,
    in_force: Policy,
    log: Iterable[Trajectory],
    features: Features,
    *,
    method: Method | None = None,
) -> Comparison:
    """Compare what two policies, each of one member or a mixture, would have earned in a log.

    `log` are trajectories with the propensities of whatever played them, which need be neither of
    the two. A candidate that was fitted to these very episodes looks better than it is: keep some
    of them apart for the comparison.
    """
    method = checked_method(method)
    sizes = {
        name: (checked_policy(name, policy).horizon, policy.dim)
        for name, policy in (("candidate", candidate), ("in_force", in_force))
    }
    if sizes["candidate"] != sizes["in_force"]:
        raise ValueError(
            f"candidate and in_force must have one horizon and one dim; got {sizes['candidate']} "
            f"and {sizes['in_force']}"
        )
    logged = LoggedEpisodes.of(log, features, candidate.horizon)
    folds, resampling = method.draws(len(logged))
    sides, resampled = [], []
    for name, policy in (("the candidate", candidate), ("the policy in force", in_force)):
        found, weights = method.judge(policy, logged, folds)
        resampled.append(found.estimate(resampling.means(found.columns)))
        sides.append(
            Evaluation(
                value=interval_of(found.value, resampled[-1]),
                weights=weights,
                warnings=weights.warnings(name),
            )
        )
    returns = logged.rewards.sum(axis=1)
    return Comparison(
        candidate=sides[0],
        in_force=sides[1],
        logged=interval_of(float(returns.mean()), resampling.means(returns[:, None])[:, 0]),
        gain=interval_of(sides[0].value.value - sides[1].value.value, resampled[0] - resampled[1]),
        same=candidate.digest == in_force.digest,
        warnings=(
            *sides[0].warnings,
            *sides[1].warnings,
            *cut_off_warnings(logged, method),
        ),
    )
