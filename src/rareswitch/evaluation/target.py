"""The policies that can be judged by a log: agents, policies with features, and functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rareswitch.core.policy import Policy
from rareswitch.evaluation.agreement import StageBehaviour, behaviour_in
from rareswitch.evaluation.logged import Chances, LoggedEpisodes
from rareswitch.support.arguments import short_repr
from rareswitch.trajectories.episodes import RowsOf
from rareswitch.trajectories.trajectory import Trajectory


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """A policy with its features, or a function with the features of its model, if there are."""

    policy: Policy | None = None
    chances: Chances | None = None
    features: RowsOf | None = None

    @classmethod
    def of(cls, name: str, given: Any, features: RowsOf | None) -> "Target":
        """Return what was given as a target; `features` are for a policy that has none itself."""
        if features is not None and not callable(features):
            raise TypeError(
                "features must be a feature map, or a function from a state to rows; got "
                f"{short_repr(features)}"
            )
        if isinstance(given, Policy):
            if features is None:
                raise TypeError(
                    f"features must be given where {name} is a Policy, which does not hold them; "
                    "or give an Agent"
                )
            return cls(policy=given, features=features)
        policy = getattr(given, "policy", None)
        if isinstance(policy, Policy) and hasattr(given, "features"):
            return cls(policy=policy, features=given.features)
        if callable(given) and not isinstance(given, type):
            return cls(chances=given, features=features)
        raise TypeError(
            f"{name} must be an agent, a Policy, or a function (observation, stage) that returns "
            f"probabilities; got {short_repr(given)}"
        )

    def laid_out(
        self, log: Sequence[Trajectory], horizon: int, progress: Callable[[int], None]
    ) -> LoggedEpisodes:
        """Return a log as this target sees it."""
        return LoggedEpisodes.of(log, self.features, horizon, self.chances, progress)

    def behaviour(self, logged: LoggedEpisodes) -> list[StageBehaviour]:
        """Return how this target acts in the states of a log that was laid out for it."""
        return behaviour_in(logged, self.policy)

    def sees_as(self, other: "Target") -> bool:
        """Return whether a log that was laid out for another target serves this one too."""
        return self.features is other.features and self.chances is other.chances

    def same_as(self, other: "Target") -> bool:
        """Return whether two targets are known to act alike."""
        if self.policy is None or other.policy is None:
            return self.chances is other.chances
        return self.policy.digest == other.policy.digest and self.features is other.features
