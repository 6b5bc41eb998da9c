"""The targets of an evaluation: agents, policies with features, and functions."""

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
    """A policy with its features, or a function with optional features for its model."""

    policy: Policy | None = None
    chances: Chances | None = None
    features: RowsOf | None = None

    @classmethod
    def of(cls, name: str, given: Any, features: RowsOf | None) -> "Target":
        """Return the given policy or function as a target; a bare policy gets `features`."""
        if features is not None and not callable(features):
            raise TypeError(
                "features must be a feature map, or a function from a state to rows; got "
                f"{short_repr(features)}"
            )
        if isinstance(given, Policy):
            if features is None:
                raise TypeError(
                    f"features must be given if {name} is a Policy, which has no features; or give "
                    "an Agent"
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
        """Return a log laid out for this target."""
        return LoggedEpisodes.of(log, self.features, horizon, self.chances, progress)

    def behaviour(self, logged: LoggedEpisodes) -> list[StageBehaviour]:
        """Return this target's behaviour in the states of a log laid out for it."""
        return behaviour_in(logged, self.policy)

    def sees_as(self, other: "Target") -> bool:
        """Return whether this target can use a log laid out for another target."""
        return self.features is other.features and self.chances is other.chances

    def same_as(self, other: "Target") -> bool:
        """Return whether two targets certainly act alike."""
        if self.policy is None or other.policy is None:
            return self.chances is other.chances
        return self.policy.digest == other.policy.digest and self.features is other.features
