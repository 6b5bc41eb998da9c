"""What a policy earns on fresh episodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.core.policy import Policy
from rareswitch.evaluation.interval import Resampling, interval_of
from rareswitch.gym.actor import Actor, Seen
from rareswitch.gym.rollout import Rollout
from rareswitch.support.arguments import Floats, short_repr, whole
from rareswitch.support.streams import Seed, Stream, generator
from rareswitch.trajectories import Rewards


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The returns of fresh episodes (n,), their mean and its 95% bootstrap interval."""

    totals: Floats
    mean: float
    low: float
    high: float

    def __repr__(self) -> str:
        return f"Evaluation({self}, {len(self.totals)} episodes)"

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


def evaluate(
    policy: Policy,
    world: Any,
    features: Any,
    *,
    episodes: int = 500,
    rewards: Rewards | None = None,
    actions: Sequence[Any] | None = None,
    seed: Seed = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Evaluation:
    """Play a frozen policy on episodes that no learner has seen, and return what it earned.

    `world`, `features`, `rewards` and `actions` are those of `play`. Episodes are seeded apart from
    those of learning, also with the same seed. `progress` is told the number of episodes played.
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy; got {short_repr(policy)}")
    episodes = whole("episodes", episodes, least=2)
    rollout = Rollout(
        world,
        features,
        dim=policy.dim,
        horizon=policy.horizon,
        rewards=rewards,
        actions=actions,
        seed=seed,
        stream=Stream.EVALUATION,
    )
    table = rollout.features
    if (table.dim, table.one_hot) != (policy.dim, policy.one_hot):
        raise ValueError(
            f"features must have dim = {policy.dim} and one_hot = {policy.one_hot}, as the policy "
            f"has; got {table.dim} and {table.one_hot}"
        )
    actor, totals = Actor(policy, 1, Seen()), list[float]()
    while len(totals) < episodes:
        count = min(rollout.copies, episodes - len(totals))
        totals += [sum(one.rewards) for one in rollout.play(len(totals) + 1, count, actor)]
        progress(len(totals))
    returns = np.array(totals)
    resampling = Resampling(episodes, generator(seed, Stream.BOOTSTRAP))
    found = interval_of(float(returns.mean()), resampling.means(returns[:, None])[:, 0])
    return Evaluation(totals=returns, mean=found.value, low=found.low, high=found.high)
