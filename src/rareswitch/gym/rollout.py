"""Episodes of a frozen policy: in one environment, or in all copies of a vector environment.

Whatever an environment draws in episode k is seeded by (seed, k), so that a run that goes on after
a break plays the same episodes as one that never stopped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rareswitch.features import FeatureMap, as_features
from rareswitch.features.spaces import kind_of
from rareswitch.gym.actor import Actor
from rareswitch.gym.answers import pair
from rareswitch.gym.feasible import feasible_actions
from rareswitch.gym.offers import Offers
from rareswitch.gym.playing import Playing
from rareswitch.gym.trouble import Place, WorldError
from rareswitch.gym.vector import VectorWorld, answer_of_copy
from rareswitch.support.arguments import short_repr
from rareswitch.support.streams import KeyedStream, Seed, Stream
from rareswitch.trajectories import Rewards

LARGEST_ENVIRONMENT_SEED = 2**31  # what every environment takes
PARTS = ("reset", "step")


class Rollout:
    """A world with a feature map and a range of rewards, ready to be played.

    `actions` are what the environment is handed for action 0, 1, …; None stands for the whole
    numbers of its action space. `dim` is that of the features, where these are a function only.
    """

    def __init__(
        self,
        world: Any,
        features: Any,
        *,
        dim: int,
        horizon: int,
        rewards: Rewards | None,
        actions: Sequence[Any] | None,
        seed: Seed,
        stream: Stream,
    ) -> None:
        if isinstance(world, type) or not all(callable(getattr(world, n, None)) for n in PARTS):
            raise TypeError(f"world must have Gymnasium's reset and step; got {short_repr(world)}")
        self.rewards = Rewards() if rewards is None else rewards
        if not isinstance(self.rewards, Rewards):
            raise TypeError(f"rewards must be Rewards(low, high); got {short_repr(rewards)}")
        self._numbered = None if actions is not None else action_count(world)
        count = self._numbered if actions is None else len(actions)
        sizes = {} if hasattr(features, "dim") else {"dim": dim, "actions": count or 0}
        self.features: FeatureMap = as_features(features, **sizes)
        if count is not None and self.features.actions != count:
            raise ValueError(
                f"features must have a row for each of {count} actions; got {self.features.name}"
            )
        start = int(getattr(action_space(world), "start", 0)) if actions is None else 0
        ours = range(start, start + self.features.actions)
        self._handed: Sequence[Any] = ours if actions is None else list(actions)
        self._world, self._horizon = world, horizon
        self._vector = VectorWorld(world) if hasattr(world, "num_envs") else None
        self._offers, self._seeds = Offers(self.features), KeyedStream(seed, stream)

    @property
    def copies(self) -> int:
        """How many episodes are played at once."""
        return 1 if self._vector is None else self._vector.copies

    def play(self, first: int, count: int, actor: Actor) -> list[Playing]:
        """Play so many episodes to their end, numbered from the first on.

        Of a vector environment with n copies, episode k is played in copy (k−1) mod n, and all of
        the episodes must be in different ones, the first of them first.
        """
        at = Place(first)
        try:
            if self._numbered is not None:
                self._check_actions()
            if self._vector is None:
                return [self._one(first, actor, at)]
            return self._several(self._vector, range(first, first + count), actor, at)
        except Exception as error:
            if at.asking or not isinstance(error, TypeError | ValueError):
                error.add_note(f"{at}")
                raise
            raise WorldError(error, episode=at.episode, step=at.step) from error

    def _one(self, number: int, actor: Actor, at: Place) -> Playing:
        handed, step, seed = self._handed, self._world.step, self._seed(number)
        at.playing = playing = self._playing(number, actor)
        at.asking = True
        begun = self._world.reset(seed=seed)
        at.asking = False
        course = playing.course(*pair(begun))
        action, answered = next(course), course.send
        while action is not None:
            at.asking = True
            told = step(handed[action])
            at.asking = False
            action = answered(told)
        return playing

    def _several(
        self, vector: VectorWorld, numbers: range, actor: Actor, at: Place
    ) -> list[Playing]:
        before = (numbers[0] - 1) % vector.copies  # copies whose episodes were played already
        seeds = [self._seed(numbers[0] - before + i) for i in range(vector.copies)]
        at.asking = True
        begun = vector.reset(seeds)
        at.asking = False
        vector.began(begun)
        playing = {before + k: self._playing(n, actor) for k, n in enumerate(numbers)}
        courses, actions = {}, {}
        for i, one in playing.items():
            at.episode, at.playing = one.number, one
            courses[i] = one.course(*vector.now(i))
            actions[i] = next(courses[i])
        while any(action is not None for action in actions.values()):
            at.asking = True
            vector.begin_anew()
            at.asking = False
            chosen = [
                self._anything(*vector.now(i))
                if (action := actions.get(i)) is None
                else self._handed[action]
                for i in range(vector.copies)
            ]
            at.asking = True
            answer = vector.step(chosen)
            at.asking = False
            told = vector.stepped(answer)
            for i, one in playing.items():
                if actions[i] is not None:
                    at.episode, at.playing = one.number, one
                    actions[i] = courses[i].send(answer_of_copy(told, i))
        return list(playing.values())

    def _playing(self, number: int, actor: Actor) -> Playing:
        return Playing(number, actor, self._offers, horizon=self._horizon, rewards=self.rewards)

    def _anything(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return an action for a copy that plays no episode: a feasible one, if one is known."""
        try:
            mask = feasible_actions(self.features, observation, 0, info)
        except (TypeError, ValueError):  # of a state that nobody will learn from
            mask = None
        return self._handed[0 if mask is None else int(np.argmax(mask))]

    def _check_actions(self) -> None:
        now = getattr(action_space(self._world), "n", None)
        if now != self._numbered:
            raise ValueError(
                f"action_space must stay as it was, of {self._numbered} actions; it has {now} now"
            )

    def _seed(self, number: int) -> int:
        return int(self._seeds.at(number).integers(LARGEST_ENVIRONMENT_SEED))


def action_space(world: Any) -> Any:
    """Return the action space of a world, or of one copy of it; None where it tells none."""
    single = getattr(world, "single_action_space", None)
    return getattr(world, "action_space", None) if single is None else single


def action_count(world: Any) -> int | None:
    """Return the number of actions, if the world tells one."""
    space = action_space(world)
    count = getattr(space, "n", None) if kind_of(space) in ("Discrete", None) else None
    return None if count is None else int(count)
