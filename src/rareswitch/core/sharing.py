"""The choice of `stages="auto"` between own and shared steps, by prediction error.

If rewards and transitions do not depend on the stage, a regression on the steps of all stages
predicts better than a regression on the steps of one stage, because it has more data. If they
depend on the stage, the pooled regression has a bias that more data do not reduce. So
`stages="auto"` chooses the kind with the smaller error on unseen steps.

Both kinds predict the same targets: the reward of a step plus the value V of the next state. V is
one function for all stages, from the middle stage of a greedy fit of shared stages, because values
of different stages differ even if the world does not. The error on unseen steps follows from the
sums of a fit (`EstimatedRegression.unseen_error`): no episode is held out, and neither the order of
episodes nor the number of deployments matters. The last stage is left out because its next state is
unknown.
"""

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np

from rareswitch.core.estimation import EstimatedRegression
from rareswitch.core.lsvi import Statistics, backward
from rareswitch.support.arguments import Bools, Floats

KINDS = ("own", "shared")
# Errors with a smaller relative difference count as equal: the order of a sum must not matter.
TOLERANCE = 1e-9


@runtime_checkable
class BothStatistics(Protocol):
    """Statistics of both kinds for the same episodes."""

    @property
    def own(self) -> Statistics:
        """The statistics of own stages."""
        ...

    @property
    def shared(self) -> Statistics:
        """The statistics of shared stages."""
        ...

    def fold(self) -> Self:
        """Return the statistics with every episode in the sums."""
        ...


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """Expected mean squared errors on unseen steps, of own and of shared stages.

    >>> print(Sharing(own=0.25, shared=0.125))
    shared: errors on unseen steps are 0.125, with stages on their own 0.25
    """

    own: float
    shared: float

    @property
    def better(self) -> str:
        """The kind that predicts better, or "shared" if both are equal."""
        return KINDS[int(shares_better(np.array(self.own), np.array(self.shared)))]

    def __str__(self) -> str:
        if self.better == "shared":
            return (
                f"shared: errors on unseen steps are {self.shared:.4g}, with stages on their own "
                f"{self.own:.4g}"
            )
        return f"own: errors on unseen steps are {self.own:.4g}, with shared ones {self.shared:.4g}"


def compare_stages(own: Statistics, shared: Statistics) -> Sharing:
    """Return the errors of both kinds for one learner's statistics."""
    errors = unseen_errors(own, shared)
    return Sharing(own=float(errors[0]), shared=float(errors[1]))


def shares_better(own: Floats, shared: Floats) -> Bools:
    """Return whether shared stages predict at least as well as own stages (...)."""
    return np.asarray(shared <= own * (1.0 + TOLERANCE))


def unseen_errors(own: Statistics, shared: Statistics) -> tuple[Floats, Floats]:
    """Return the mean squared errors on unseen steps, own and shared (...); 0 without steps."""
    horizon, dim = own.pools.horizon, own.dim
    middle = horizon // 2
    pooled, apart = (EstimatedRegression(kind, perturbed=False) for kind in (shared, own))
    following = backward(shared, pooled, beta=0.0)[middle]
    cap = float(horizon - middle + 1)

    def error(statistics: Statistics, regression: EstimatedRegression, pool: int) -> Floats:
        sums = statistics.next_value_sums(middle - 1, following, pool)
        return regression.unseen_error(pool, sums, cap=cap)

    steps = np.maximum(shared.step_sums[..., 0, dim], 1.0)
    alone = sum((error(own, apart, h) for h in range(horizon - 1)), start=np.zeros_like(steps))
    return alone / steps, error(shared, pooled, 0) / steps
