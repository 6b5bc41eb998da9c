"""One episode under way: what was offered, chosen and earned so far."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.gym.actor import Actor
from rareswitch.gym.answers import five, number
from rareswitch.gym.offers import Offer, Offers
from rareswitch.support.arguments import Bools, Floats, Ints
from rareswitch.trajectories import Rewards, Trajectory
from rareswitch.trajectories.observation import settled


class Playing:
    """An episode that one member of a policy plays, from its first observation to its end.

    `course` goes through it; then `episode` is what a learner is told, and `trajectory` what the
    environment told.
    """

    def __init__(
        self, number: int, actor: Actor, offers: Offers, *, horizon: int, rewards: Rewards
    ) -> None:
        self.number, self.actor = number, actor
        self.member = actor.policy.allocate(number)
        self.rewards: list[float] = []
        self.terminated = self.truncated = False
        self._source, self._horizon, self._range = offers, horizon, rewards
        self._observations: list[Any] = []
        self._offers: list[Offer] = []
        self._choices: list[Ints] = []  # of every member, at every step
        self._places: list[int] = []  # of the actions taken among those offered

    @property
    def step(self) -> int:
        """The number of steps taken."""
        return len(self.rewards)

    def course(self, observation: Any, info: Mapping[str, Any]) -> Generator[int | None, Any, None]:
        """Give an action, be sent what the environment answers to it, and so on; None at the end.

        Actions are counted among all of them. It begins with what `reset` returned.
        """
        low, high, horizon, member = self._range.low, self._range.high, self._horizon, self.member
        after, choices_of = self._source.after, self.actor.choices
        see, be_offered, earn = self._observations.append, self._offers.append, self.rewards.append
        offer, step = after(observation, 0, info), 0
        be_offered(offer)
        see(_own(observation))
        while True:
            choices = choices_of(step, offer)
            place: int = choices.item(member)
            self._choices.append(choices)
            self._places.append(place)
            answer = yield place if offer.mask is None else _action(place, offer.mask)
            observation, reward, terminated, truncated, info = five(answer)
            reward = number(reward)
            if not low <= reward <= high:  # false for NaN too
                self._range.scaled(reward)
            step += 1
            if terminated:
                see(settled("observation", observation))
            else:  # after the last stage a map is told the last one
                offer = after(observation, step if step < horizon else horizon - 1, info)
                be_offered(offer)
                see(observation if type(observation) is int else _own(observation))
            earn(reward)
            if terminated or truncated or step == horizon:
                self.terminated, self.truncated = bool(terminated), bool(truncated)
                yield None

    def episode(self) -> Episode:
        """Return what a learner is told."""
        offered = [offer.rows for offer in self._offers]
        chosen = [rows[place] for rows, place in zip(offered, self._places, strict=False)]
        return Episode(
            features=np.array(chosen),
            rewards=self._range.scaled_all(np.array(self.rewards)),
            next_features=offered[1:],
        )

    def trajectory(self) -> Trajectory:
        """Return what the environment told."""
        masks: Sequence[Bools] | None = None
        offered = [offer.mask for offer in self._offers]
        if any(mask is not None for mask in offered):
            every = np.ones(self._source.features.actions, bool)
            masks = [every if mask is None else mask for mask in offered]
            if self.terminated:
                masks.append(every)
        return Trajectory(
            observations=self._observations,
            actions=np.array(list(map(_action, self._places, offered))),
            rewards=np.array(self.rewards),
            terminated=self.terminated,
            propensities=self._propensities(),
            masks=masks,
            version=self.actor.version,
            member=self.member,
            key=self.number,
        )

    def _propensities(self) -> Floats:
        """Return the share of members that take each action, of those that took all before."""
        same = np.array(self._choices) == np.array(self._places)[:, None]
        left = np.logical_and.accumulate(same, axis=0).sum(axis=1)
        return left / np.concatenate([[same.shape[1]], left[:-1]])


def _action(place: int, mask: Bools | None) -> int:
    """Return which of all actions has that place among the feasible ones."""
    return place if mask is None else int(np.flatnonzero(mask)[place])


def _own(observation: Any) -> Any:
    """Return an observation that stays as it is when the environment changes its arrays."""
    if isinstance(observation, np.ndarray):
        return observation.copy()
    if isinstance(observation, tuple):
        return tuple(map(_own, observation))
    if isinstance(observation, Mapping):
        return {key: _own(part) for key, part in observation.items()}
    return observation
