"""The returns of an agent on fresh episodes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.agent import Agent
from rareswitch.core.policy import Policy
from rareswitch.evaluation.interval import Interval, Resampling, interval_of
from rareswitch.gym.rollout import PolicyActor, Seen, rollout_of
from rareswitch.support.arguments import Floats, short_repr, whole
from rareswitch.support.streams import Seed, Stream, generator

# The bootstrap interval is far too narrow for fewer episodes.
LEAST_FOR_INTERVAL = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Returns:
    """The returns of fresh episodes (n,), their mean and its 95% bootstrap interval.

    Fewer than 20 episodes have no interval: `low` and `high` are None.
    """

    totals: Floats
    mean: float
    low: float | None
    high: float | None

    def __repr__(self) -> str:
        return f"Returns({self}, {len(self.totals)} episodes)"

    def __str__(self) -> str:
        return show_interval(self.mean, self.low, self.high)


def show_interval(mean: float, low: float | None, high: float | None) -> str:
    """Return a mean with its interval, or with a dash without an interval.

    >>> show_interval(0.25, 0.1, 0.4), show_interval(0.25, None, None)
    ('0.25 [0.1, 0.4]', '0.25 [–]')
    """
    return f"{mean:.4g} [–]" if low is None else f"{mean:.4g} [{low:.4g}, {high:.4g}]"


def mean_interval(totals: Floats, seed: Seed) -> tuple[float, float | None, float | None]:
    """Return the mean and its 95% bootstrap interval, which needs at least 20 numbers."""
    mean = float(totals.mean())
    if len(totals) < LEAST_FOR_INTERVAL:
        return mean, None, None
    resampling = Resampling(len(totals), generator(seed, Stream.BOOTSTRAP))
    found: Interval = interval_of(mean, resampling.means(totals[:, None])[:, 0])
    return found


def evaluate(
    agent: Agent,
    world: Any,
    *,
    episodes: int = 500,
    steps: int | None = None,
    seed: Seed = 0,
    progress: Callable[[int], bool | None] = lambda done: None,
) -> Returns:
    """Play an agent on fresh episodes and return their returns.

    `world` is an environment or a vector environment. An episode has at most `steps` steps, by
    default the agent's horizon H; with more steps, all steps before the last H are played at stage
    0. Learning never plays these episodes, even with the same seed. Two agents with the same seed
    play the same episodes. `progress` is called with the number of episodes played; it stops the
    evaluation by returning True.

    >>> from rareswitch.features import OneHot
    >>> class Door:
    ...     def reset(self, *, seed=None, options=None):
    ...         return 0, {}
    ...     def step(self, action):
    ...         return 0, 10.0 * action, True, False, {}
    >>> policy = Policy(weights=[[0.0, 1.0]], one_hot=True)
    >>> evaluate(Agent(policy=policy, features=OneHot(states=1, actions=2)), Door(), episodes=30)
    Returns(10 [10, 10], 30 episodes)
    """
    if not isinstance(agent, Agent):
        raise TypeError(f"agent must be an Agent; got {short_repr(agent)}")
    episodes, policy = whole("episodes", episodes, least=1), agent.policy
    rollout = rollout_of(
        world,
        agent.features,
        policy,
        rewards=None,
        actions=agent.actions,
        seed=seed,
        stream=Stream.EVALUATION,
        steps=None if steps is None else whole("steps", steps, least=1),
    )
    mixture, totals = PolicyActor(policy, 1, Seen()), list[float]()
    while len(totals) < episodes:
        first, count = len(totals) + 1, min(rollout.copies, episodes - len(totals))
        actor, drawn = mixture, policy.draw(first)
        if count == 1 and not policy.one_hot and isinstance(drawn, Policy):
            actor = PolicyActor(
                drawn, 1, Seen()
            )  # no cache, so only the playing member computes its choice
        totals += [sum(one.rewards) for one in rollout.play(first, count, actor)]
        if progress(len(totals)):
            break
    returns = np.array(totals)
    mean, low, high = mean_interval(returns, seed)
    return Returns(totals=returns, mean=mean, low=low, high=high)
