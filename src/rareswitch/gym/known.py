"""What is known exactly of the returns in a world, beside what was met."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rareswitch.core.policy import Policy
from rareswitch.features import FeatureMap
from rareswitch.gym.model import FiniteModel

# Wrappers that change neither what is observed nor what is earned.
NEUTRAL = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics")


@dataclass(frozen=True, kw_only=True)
class Known:
    """Expected returns over the horizon: of a policy, of the best one and of a random one."""

    policy: float
    optimum: float
    random: float


def known_returns(
    policy: Policy, world: Any, features: FeatureMap, actions: Sequence[Any] | None = None
) -> Known | None:
    """Return what is known exactly of a world that tells its model; None where it does not.

    It is not known either where wrappers may change what the model says, where actions are handed
    on otherwise than by their numbers, or where the world cuts episodes off before the horizon.

    >>> import gymnasium
    >>> from rareswitch.features import OneHot
    >>> from rareswitch.gym.known import known_returns
    >>> lake, table = gymnasium.make("FrozenLake-v1"), OneHot(states=16, actions=4)
    >>> left = Policy(weights=[[0.0] * 64] * 10, one_hot=True)
    >>> round(known_returns(left, lake, table).optimum, 4)
    0.0414
    """
    limit = getattr(getattr(world, "spec", None), "max_episode_steps", None)
    if actions is not None or (limit is not None and limit < policy.horizon):
        return None
    inner = world
    while hasattr(inner, "env"):
        if type(inner).__name__ not in NEUTRAL:
            return None
        inner = inner.env
    model = FiniteModel.of(inner)
    if model is None:
        return None
    return Known(
        policy=model.policy_return(policy, features),
        optimum=model.optimal_return(policy.horizon),
        random=model.random_return(policy.horizon),
    )
