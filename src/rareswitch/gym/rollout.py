"""Episodes of a frozen policy in an environment, and the loop of a learner.

All randomness of an environment in episode k is seeded by (seed, k), so a run that continues after
a break plays the same episodes as an uninterrupted run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.agent import MASK, feasible_actions, rolling_stage
from rareswitch.core.policy import Policy
from rareswitch.core.task import Task
from rareswitch.features import as_features
from rareswitch.features.feature_map import truths
from rareswitch.features.spaces import kind_of
from rareswitch.gym.episode import (
    Actor,
    CodeError,
    Offer,
    Offers,
    Place,
    Playing,
    Source,
    ask,
    pair,
)
from rareswitch.gym.vector import VectorWorld, answer_of_copy
from rareswitch.learning.learner import Learner
from rareswitch.support.arguments import Ints, short_repr, whole
from rareswitch.support.streams import KeyedStream, Seed, Stream, generator
from rareswitch.trajectories import Rewards, Trajectory

LARGEST_ENVIRONMENT_SEED = 2**31  # the largest seed that every environment accepts
PARTS = ("reset", "step")
# Up to this number of rows, a policy chooses for all seen states together.
MOST_ROWS = 4096


class Seen:
    """The states seen so far, by the positions of their one-hot rows."""

    def __init__(self) -> None:
        self._states: dict[int, dict[bytes, Ints]] = {}  # by their number of actions
        self._stacked: dict[int, Ints] = {}

    def like(self, key: bytes, rows: Ints) -> tuple[Iterable[bytes], Ints]:
        """Return all seen states with as many actions, including this state, and their rows (n, A).

        With too many rows, return this state alone.
        """
        count = len(rows)
        states = self._states.setdefault(count, {})
        if key not in states:
            if (len(states) + 1) * count > MOST_ROWS:
                return [key], rows[None]
            states[key] = rows
            self._stacked[count] = np.array(list(states.values()))
        return states, self._stacked[count]


class PolicyActor:
    """A version of a policy, and a cache of its members' choices.

    With one-hot features, the first new state at a stage computes the choices in all seen states.
    """

    def __init__(self, policy: Policy, version: int, seen: Seen) -> None:
        self.policy, self.version, self._seen = policy, version, seen
        self._known: list[dict[bytes, Ints]] = [{} for _ in range(policy.horizon)]

    def allocate(self, number: int) -> int:
        return self.policy.allocate(number)

    def choices(self, h: int, offer: Offer) -> Ints:
        """Return every member's choice among the rows offered (M,)."""
        key = offer.key
        if key is None:
            return self.policy.choices(h, offer.rows)
        known = self._known[h]
        if key not in known:
            states, rows = self._seen.like(key, offer.rows)
            known.update(zip(states, self.policy.choices(h, rows).T, strict=True))
        return known[key]


class RandomActor:
    """Uniformly random play without features, as an actor and its offers.

    Observations must have `shape`, unless it is None.
    """

    version = 1

    def __init__(self, actions: int, seed: Seed, shape: tuple[int, ...] | None = None) -> None:
        self.actions, self._rng = actions, generator(seed, Stream.FEATURES)
        self._shape = shape
        self._every = np.arange(actions)

    def seed(self, number: int) -> int:
        """Return the seed of the next episode."""
        return int(self._rng.integers(LARGEST_ENVIRONMENT_SEED))

    def after(self, observation: Any, stage: int, info: Mapping[str, Any]) -> Offer:
        if self._shape is not None and np.shape(observation) != self._shape:
            raise ValueError(
                f"observation must have shape {self._shape}, as in the observation space; got "
                f"{np.shape(observation)}"
            )
        if MASK not in info:
            return Offer(self._every, None, None)
        mask = truths(f"info[{MASK!r}]", info[MASK], (self.actions,))
        if not mask.any():
            raise ValueError(f"info[{MASK!r}] must allow an action; all are forbidden")
        return Offer(self._every[mask], mask, None)

    def allocate(self, number: int) -> int:
        return 0

    def choices(self, h: int, offer: Offer) -> Ints:
        return np.array([self._rng.integers(len(offer.rows))])


class Rollout:
    """An environment, or a vector environment, ready for play.

    `actions` are the environment's actions 0, 1, …; None means the whole numbers of its action
    space. `seed_of` returns the seed of an episode.
    """

    def __init__(
        self,
        world: Any,
        offers: Source,
        *,
        horizon: int,
        rewards: Rewards | None,
        actions: Sequence[Any] | None,
        seed_of: Callable[[int], int],
        steps: int | None = None,
        during: str = "",
    ) -> None:
        self.rewards = rewards
        self._numbered = None if actions is not None else action_count(world)
        start = int(getattr(action_space(world), "start", 0)) if actions is None else 0
        ours = range(start, start + offers.actions)
        self._handed: Sequence[Any] = ours if actions is None else list(actions)
        # After the last step a map gets the last stage that was reached.
        last = horizon if steps is None else steps
        self._stages = [rolling_stage(step, horizon, last) for step in range(last)]
        self._stages.append(min(last, horizon) - 1)
        self._world = world
        self._vector = VectorWorld(world) if hasattr(world, "num_envs") else None
        self._offers, self._seed_of, self._during = offers, seed_of, during

    @property
    def copies(self) -> int:
        """The number of episodes played at once."""
        return 1 if self._vector is None else self._vector.copies

    def play(self, first: int, count: int, actor: Actor) -> list[Playing]:
        """Play the episodes `first` … `first + count − 1` to their end.

        In a vector environment with n copies, episode k is played in copy (k−1) mod n. The copies
        must differ, in increasing order.
        """
        with Place(first, self._during) as at:
            if self._numbered is not None:
                self._check_actions()
            if self._vector is None:
                return [self._play_one(first, actor, at)]
            return self._play_several(self._vector, range(first, first + count), actor, at)

    def _play_one(self, number: int, actor: Actor, at: Place) -> Playing:
        handed, step = self._handed, self._world.step
        at.playing = playing = self._begin(number, actor)
        course = playing.course(*pair(ask(self._world.reset, seed=self._seed_of(number))))
        action = next(course)
        while action is not None:
            try:  # as `ask`, without a call at every step
                answer = step(handed[action])
            except Exception as error:
                raise CodeError(error, "") from error
            action = course.send(answer)
        return playing

    def _play_several(
        self, vector: VectorWorld, numbers: range, actor: Actor, at: Place
    ) -> list[Playing]:
        before = (numbers[0] - 1) % vector.copies  # copies that finished their episodes before
        seeds = [self._seed_of(numbers[0] - before + i) for i in range(vector.copies)]
        vector.began(ask(vector.reset, seeds))
        playing = {before + k: self._begin(n, actor) for k, n in enumerate(numbers)}
        courses, actions = {}, {}
        for i, one in playing.items():
            at.episode, at.playing = one.number, one
            courses[i] = one.course(*vector.now(i))
            actions[i] = next(courses[i])
        while any(action is not None for action in actions.values()):
            ask(vector.begin_anew)
            chosen = [
                self._any_action(*vector.now(i))
                if (action := actions.get(i)) is None
                else self._handed[action]
                for i in range(vector.copies)
            ]
            told = vector.stepped(ask(vector.step, chosen))
            for i, one in playing.items():
                if actions[i] is not None:
                    at.episode, at.playing = one.number, one
                    actions[i] = courses[i].send(answer_of_copy(told, i))
        return list(playing.values())

    def _begin(self, number: int, actor: Actor) -> Playing:
        return Playing(number, actor, self._offers, stages=self._stages, rewards=self.rewards)

    def _any_action(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return an action for a copy that plays no episode, feasible if possible."""
        features, mask = getattr(self._offers, "features", None), info.get(MASK)
        if features is not None:
            try:
                mask = feasible_actions(features, observation, 0, info)
            except (TypeError, ValueError):  # no learner uses this state
                mask = None
        return self._handed[0 if mask is None else int(np.argmax(mask))]

    def _check_actions(self) -> None:
        now = getattr(action_space(self._world), "n", None)
        if now != self._numbered:
            raise ValueError(
                f"action_space must keep its {self._numbered} actions; it has {now} now"
            )


def rollout_of(
    world: Any,
    features: Any,
    owner: Task | Policy,
    *,
    rewards: Rewards | None,
    actions: Sequence[Any] | None,
    seed: Seed,
    stream: Stream,
    steps: int | None = None,
) -> Rollout:
    """Return the rollout of an environment, over the horizon of a task or a policy.

    Features must have its `dim` and `one_hot`.
    """
    check_world(world)
    dim, one_hot = owner.dim, owner.one_hot
    count = action_count(world) if actions is None else len(actions)
    sizes = {} if hasattr(features, "dim") else {"dim": dim, "actions": count or 0}
    table = as_features(features, **sizes)
    if count is not None and table.actions != count:
        raise ValueError(f"features must have a row for each of {count} actions; got {table.name}")
    if (table.dim, table.one_hot) != (dim, one_hot):
        whose = "policy" if isinstance(owner, Policy) else "learner's task"
        raise ValueError(
            f"features must have dim = {dim} and one_hot = {one_hot}, as the {whose} has; got "
            f"{table.dim} and {table.one_hot}"
        )
    seeds = KeyedStream(seed, stream)
    return Rollout(
        world,
        Offers(table),
        horizon=owner.horizon,
        rewards=rewards,
        actions=actions,
        seed_of=lambda number: int(seeds.at(number).integers(LARGEST_ENVIRONMENT_SEED)),
        steps=steps,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """A finished episode.

    `total` is the return in the environment's own rewards. `terminated` and `truncated` are
    Gymnasium's; an episode with neither reached the horizon. `switched`: a new policy was deployed
    after it.
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
        """The episode for a log."""
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
    """Play until the learner has seen `episodes` episodes; yield each episode after its end.

    `world` is anything with Gymnasium's `reset` and `step`. A vector environment with n copies
    plays n episodes under one frozen policy, and a switch may follow every n-th. A loop that stops
    and continues later plays the same episodes as an uninterrupted loop. `features` is a feature
    map or a function from an observation to the rows of all actions. `rewards` is the range of the
    environment's rewards, by default [0, 1]. `actions` are the environment's actions 0, 1, …; by
    default the whole numbers of its action space. Actions that `info["action_mask"]` forbids are
    never chosen.

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
    task, scale = learner.task, Rewards() if rewards is None else rewards
    if not isinstance(scale, Rewards):
        raise TypeError(f"rewards must be Rewards(low, high); got {short_repr(rewards)}")
    rollout = rollout_of(
        world,
        features,
        task,
        rewards=scale,
        actions=actions,
        seed=seed,
        stream=Stream.ENVIRONMENT,
    )
    if abs(scale.end - task.end_reward) > 1e-12:
        raise ValueError(
            f"learner must have a task with end_reward={scale.end!r}, the scaled reward of a stage "
            f"after the end of an episode; got {task.end_reward!r}"
        )
    return _played(learner, rollout, episodes)


def _played(learner: Learner, rollout: Rollout, episodes: int) -> Iterator[Played]:
    seen = Seen()
    actor = PolicyActor(learner.policy, len(learner.ledger), seen)
    while learner.episodes < episodes:
        if actor.policy is not learner.policy:
            actor = PolicyActor(learner.policy, len(learner.ledger), seen)
        copies, done = rollout.copies, learner.episodes
        # After a break within a round of all copies, finish the round first.
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
                switched=_learn(learner, one, ends_round=one.number % copies == 0),
                playing=one,
            )


def _learn(learner: Learner, playing: Playing, *, ends_round: bool) -> bool:
    """Give the learner an episode; return whether a new policy is in force."""
    try:
        if ends_round:
            return learner.observe(playing.episode())
        learner.absorb(playing.episode())
    except Exception as error:
        error.add_note(f"in episode {playing.number}, of {playing.step} steps")
        raise
    return False


def check_world(world: Any) -> None:
    """Raise TypeError if `world` lacks Gymnasium's `reset` or `step`."""
    if isinstance(world, type) or not all(callable(getattr(world, n, None)) for n in PARTS):
        raise TypeError(f"world must have Gymnasium's reset and step; got {short_repr(world)}")


def action_space(world: Any) -> Any:
    """Return the action space of a world, or of one copy of it, or None without one."""
    single = getattr(world, "single_action_space", None)
    return getattr(world, "action_space", None) if single is None else single


def action_count(world: Any) -> int | None:
    """Return the number of actions, if the world has a numbered action space."""
    space = action_space(world)
    count = getattr(space, "n", None) if kind_of(space) in ("Discrete", None) else None
    return None if count is None else int(count)
