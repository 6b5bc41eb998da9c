"""The loop of one learner in one environment, or in several at once.

The policy in force lends a member, which acts from reset to the end of the episode; the learner
observes the episode; where a switch is due, a new policy is in force.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rareswitch.gym.actor import Actor, Seen
from rareswitch.gym.playing import Playing
from rareswitch.gym.rollout import Rollout
from rareswitch.learning.learner import Learner
from rareswitch.support.arguments import short_repr, whole
from rareswitch.support.streams import Seed, Stream
from rareswitch.trajectories import Rewards, Trajectory


@dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """A finished episode: its number, who played it, and how it ended.

    `total` is the return as the environment counts it. `terminated` says that the episode ended by
    itself, `truncated` that the environment cut it off; neither, that the horizon was reached.
    `switched` tells that a new policy was deployed after it.
    """

    number: int
    version: int
    member: int
    total: float
    steps: int
    terminated: bool
    truncated: bool
    switched: bool
    playing: Playing

    @property
    def trajectory(self) -> Trajectory:
        """What the environment told, for a log."""
        return self.playing.trajectory()

    def __repr__(self) -> str:
        end = ", switched" if self.switched else ""
        return (
            f"Played(episode {self.number}, version {self.version}, return {self.total:g} in "
            f"{self.steps} steps{end})"
        )


def play(
    learner: Learner,
    world: Any,
    features: Any,
    *,
    episodes: int,
    rewards: Rewards | None = None,
    seed: Seed = 0,
    actions: Sequence[Any] | None = None,
) -> Iterator[Played]:
    """Play until the learner has seen so many episodes, and give each as it is finished.

    `world` is anything with Gymnasium's `reset` and `step`; of a vector environment with n copies,
    n episodes are played under one frozen policy, and a switch may be due after every n-th. Where
    it stops and goes on later, all is as if it had not stopped. `features` is a feature
    map or a function from an observation to the rows of all actions. `rewards` is the range of the
    environment's rewards, [0, 1] if nothing is said. `actions` are what the environment is handed
    for action 0, 1, …; without them, the whole numbers of its action space. Where `info` has an
    `action_mask`, only what it allows is chosen.

    >>> import rareswitch as rs
    >>> from rareswitch.features import OneHot
    >>> class Door:                                     # 0 and 1: which of two doors to open
    ...     def reset(self, *, seed=None, options=None):
    ...         return 0, {}
    ...     def step(self, action):
    ...         return 0, float(action), True, False, {}
    >>> task = rs.Task(dim=2, horizon=1, episodes=30, one_hot=True)
    >>> learner = rs.Learner(task, rs.UniformGrid(batches=3))
    >>> games = list(play(learner, Door(), OneHot(states=1, actions=2), episodes=30))
    >>> games[-1]
    Played(episode 30, version 3, return 1 in 1 steps)
    """
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be a Learner; got {short_repr(learner)}")
    episodes = whole("episodes", episodes, least=0)
    rollout = Rollout(
        world,
        features,
        dim=learner.task.dim,
        horizon=learner.task.horizon,
        rewards=rewards,
        actions=actions,
        seed=seed,
        stream=Stream.ENVIRONMENT,
    )
    _fit_together(learner, rollout)
    return _playing(learner, rollout, episodes)


def _playing(learner: Learner, rollout: Rollout, episodes: int) -> Iterator[Played]:
    seen = Seen()
    actor = Actor(learner.policy, len(learner.ledger), seen)
    while learner.episodes < episodes:
        if actor.policy is not learner.policy:
            actor = Actor(learner.policy, len(learner.ledger), seen)
        copies, done = rollout.copies, learner.episodes
        # After a break within a round of all copies, what is left of it comes first.
        count = min(copies - done % copies, episodes - done)
        for one in rollout.play(done + 1, count, actor):
            yield Played(
                number=one.number,
                version=actor.version,
                member=one.member,
                total=sum(one.rewards),
                steps=one.step,
                terminated=one.terminated,
                truncated=one.truncated,
                switched=_learnt(learner, one, ends_round=one.number % copies == 0),
                playing=one,
            )


def _learnt(learner: Learner, playing: Playing, *, ends_round: bool) -> bool:
    """Tell the learner of an episode; return whether a new policy is in force."""
    try:
        if ends_round:
            return learner.observe(playing.episode())
        learner.absorb(playing.episode())
    except Exception as error:
        error.add_note(f"in episode {playing.number}, of {playing.step} steps")
        raise
    return False


def _fit_together(learner: Learner, rollout: Rollout) -> None:
    """Refuse a learner that was made for other features or rewards."""
    features, end = rollout.features, rollout.rewards.end
    task = learner.task
    if (features.dim, features.one_hot) != (task.dim, task.one_hot):
        raise ValueError(
            f"features must have dim = {task.dim} and one_hot = {task.one_hot}, as the "
            f"learner's task has; got {features.dim} and {features.one_hot}"
        )
    if abs(end - task.end_reward) > 1e-12:
        raise ValueError(
            f"learner must be made with end_reward={end!r}, what these rewards make of a stage "
            f"that is not played; got {task.end_reward!r}"
        )
