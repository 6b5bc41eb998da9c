"""Play one episode: check the environment's answers and choose the policy's actions.

A wrong answer raises `WorldError`, which names the episode and the step. An error inside the code
of the environment or of the user's feature map is raised unchanged, with a note that names the
place.
"""

import math
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np

from rareswitch.agent import MASK, check_mask, feasible_actions
from rareswitch.core.control import Player
from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy
from rareswitch.features import FeatureMap
from rareswitch.support.arguments import Bools, Floats, Ints, Rows, short_repr
from rareswitch.trajectories import Rewards, Trajectory
from rareswitch.trajectories.observation import settled

Answer = tuple[Any, Any, Any, Any, Mapping[str, Any]]
NUMBERS = (float, int)
LARGEST = sys.float_info.max
# A likely slip for the key of the mask.
SLIP = "action_masks"
# Largest number of cached offers of states that are whole numbers.
MOST_REMEMBERED = 100_000


class WorldError(ValueError):
    """An invalid answer of an environment; the message names the step.

    Episodes are counted from 1 and their steps from 0. Episodes finished before it are kept and
    used for learning.
    """

    def __init__(self, error: object, episode: int, step: int) -> None:
        super().__init__(str(error), episode, step)  # so that it can be pickled
        self.episode, self.step = episode, step

    def __str__(self) -> str:
        return f"{self.args[0]} (episode {self.episode}, step {self.step})"


class RangeError(WorldError):
    """A finite reward outside the range of rewards."""

    def __init__(self, error: object, episode: int, step: int, reward: float = math.nan) -> None:
        super().__init__(error, episode, step)
        self.args = (str(error), episode, step, reward)
        self.reward = reward


class _OutsideError(ValueError):
    """A reward outside the range, before its place is known."""

    def __init__(self, message: str, reward: float) -> None:
        super().__init__(message)
        self.reward = reward


class CodeError(Exception):
    """Carries an error out of foreign code: the environment or the user's feature map."""

    def __init__(self, error: Exception, whose: str) -> None:
        super().__init__(str(error))
        self.error, self.whose = error, whose


class Place:
    """The current episode and step of a rollout; errors get it as a note."""

    def __init__(self, episode: int, during: str = "") -> None:
        self.episode, self._during = episode, f", {during}" if during else ""
        self.playing: Playing | None = None

    @property
    def step(self) -> int:
        return 0 if self.playing is None else self.playing.step

    def __str__(self) -> str:
        return f"in episode {self.episode}, step {self.step}{self._during}"

    def __enter__(self) -> "Place":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, CodeError):
            error.error.add_note(f"{error.whose}{self}")
            raise error.error from error.error.__cause__
        if isinstance(error, _OutsideError):
            raise RangeError(error, self.episode, self.step, error.reward) from error
        if isinstance(error, TypeError | ValueError):
            raise WorldError(f"{error}{self._during}", self.episode, self.step) from error
        if isinstance(error, Exception):
            error.add_note(str(self))


def ask(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return the environment's answer; mark errors inside the environment as foreign."""
    try:
        return call(*arguments, **named)
    except Exception as error:
        raise CodeError(error, "") from error


def pair(answer: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the answer of `reset` after checking that it is (observation, info)."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping):
        return answer
    raise ValueError(
        f"reset must return (observation, info), as in Gymnasium; got {short_repr(answer)}"
    )


def five(answer: Any) -> Answer:
    """Return the answer of `step` after checking that it has five parts and ends with an info."""
    if isinstance(answer, tuple) and len(answer) == 5:
        info = answer[4]
        if type(info) is dict or isinstance(info, Mapping):
            return answer
    raise ValueError(
        "step must return (observation, reward, terminated, truncated, info), as in Gymnasium; got "
        f"{short_repr(answer)}"
    )


def number(reward: Any) -> float:
    """Return a reward, a number or an array of one number, as a float; NaN is allowed."""
    if type(reward) in NUMBERS:
        return float(reward)
    given = np.asarray(reward)
    if given.size != 1 or given.dtype.kind not in "fiub":
        raise TypeError(f"reward must be a number; got {short_repr(reward)}")
    return float(given.item())


class Offer(NamedTuple):
    """The rows of the feasible actions, their mask (None: all feasible), a key of one-hot rows."""

    rows: Rows
    mask: Bools | None
    key: bytes | None


class Offers:
    """The offer of each observation, through a feature map.

    A map returns the same rows for the same state, so the rows of states that are whole numbers are
    cached, unless the environment gives a mask.
    """

    def __init__(self, features: FeatureMap) -> None:
        self.features, self._one_hot = features, features.one_hot
        self.actions = features.actions
        self._known: dict[tuple[int, int], Offer] = {}

    def after(self, observation: Any, stage: int, info: Mapping[str, Any]) -> Offer:
        """Return the offer at a stage, counted from 0."""
        if type(observation) is not int or MASK in info:
            return self._make(observation, stage, info)
        offer = self._known.get((observation, stage))
        if offer is None:
            offer = self._make(observation, stage, info)
            if len(self._known) < MOST_REMEMBERED:
                self._known[observation, stage] = offer
        return offer

    def _make(self, observation: Any, stage: int, info: Mapping[str, Any]) -> Offer:
        try:
            rows = self.features(observation, stage)
            mask = feasible_actions(self.features, observation, stage, info)
        except Exception as error:
            if _raised_by_user(error, self.features):
                raise CodeError(error, f"in the features {self.features.name}, ") from error
            raise
        if mask is not None:
            rows = rows[mask]
        return Offer(rows, mask, rows.tobytes() if self._one_hot else None)


def _raised_by_user(error: Exception, features: FeatureMap) -> bool:
    """Return whether an error comes from the user's code inside a feature map."""
    trace = error.__traceback__
    depth = 0
    while trace is not None:
        depth += 1
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in (
            "rareswitch", "numpy",
        ):  # fmt: skip
            return True
        trace = trace.tb_next
    # The call itself failed: the map does not take (state, h).
    return depth == 1 and not type(features).__module__.startswith("rareswitch.")


class Actor(Protocol):
    """The choices of all members of a policy; `version` is its number."""

    version: int

    def allocate(self, number: int) -> int:
        """Return the member that plays an episode."""
        ...

    def choices(self, h: int, offer: Offer) -> Ints:
        """Return every member's choice among the offered rows (M,)."""
        ...


class Source(Protocol):
    """The rows that a feature map offers for each observation."""

    actions: int

    def after(self, observation: Any, stage: int, info: Mapping[str, Any]) -> Offer: ...


class Playing:
    """An episode that one member of a policy plays.

    `course` plays it. Then `episode` is for a learner and `trajectory` for a log. Without a range
    of rewards every finite reward is valid, and there is no `episode`. `stages` are the stages of
    the steps, and the stage for the observation after the last step.
    """

    def __init__(
        self,
        number: int,
        actor: Actor,
        offers: Source,
        *,
        stages: Sequence[int],
        rewards: Rewards | None,
    ) -> None:
        self.number, self.actor = number, actor
        self.member = actor.allocate(number)
        # With a control or a floor, which may play instead of a learned member.
        policy = getattr(actor, "policy", None)
        self._policy: Policy | None = None if policy is None or policy.learned_only else policy
        self._player: Player | None = None
        if self._policy is not None and self.member >= self._policy.members:
            player = self._policy.player(self.member, number)
            assert isinstance(player, Player)
            self._player = player
        self._control = None if self._policy is None else self._policy.control
        self.rewards: list[float] = []
        self.terminated = self.truncated = False
        self._source, self._stages, self._range = offers, stages, rewards
        self.observations: list[Any] = []
        self._offers: list[Offer] = []
        self._choices: list[Ints] = []  # of every member, at every step
        self._places: list[int] = []  # positions of the taken actions among the offered

    @property
    def step(self) -> int:
        """The number of steps taken."""
        return len(self.rewards)

    def course(self, observation: Any, info: Mapping[str, Any]) -> Generator[int | None, Any, None]:
        """Yield actions and receive the environment's answers; yield None at the end.

        Actions are counted among all actions. The arguments are the answer of `reset`.
        """
        low, high = (-LARGEST, LARGEST) if self._range is None else (
            self._range.low, self._range.high,
        )  # fmt: skip
        if SLIP in info and MASK not in info:
            raise ValueError(
                f"info must name the mask of feasible actions {MASK}; got {SLIP}: did you mean "
                f"{MASK}?"
            )
        stages, member = self._stages, self.member
        last = len(stages) - 1
        after, choices_of = self._source.after, self.actor.choices
        observe, offered, earn = self.observations.append, self._offers.append, self.rewards.append
        step, stage = 0, stages[0]
        # Features see an observation as the log stores it, so a log gives the same rows.
        observation = settled("observation", observation)
        offer = after(observation, stage, info)
        offered(offer)
        observe(observation)
        while True:
            if offer.mask is not None:
                check_mask(self._control, offer.mask)
            choices = choices_of(stage, offer)
            place: int = (
                choices.item(member) if self._player is None else self._act(stage, offer, step)
            )
            self._choices.append(choices)
            self._places.append(place)
            answer = yield place if offer.mask is None else _action(place, offer.mask)
            if type(answer) is not tuple or len(answer) != 5 or type(answer[4]) is not dict:
                answer = five(answer)
            observation, reward, terminated, truncated, info = answer
            if type(reward) is not float:
                reward = number(reward)
            if not low <= reward <= high:  # true for NaN too
                self._refuse(reward)
            if type(observation) is not int:
                observation = settled("observation", observation)
            step += 1
            if not terminated:
                stage = stages[step]
                offer = after(observation, stage, info)
                offered(offer)
            observe(observation)
            earn(reward)
            if terminated or truncated or step == last:
                self.terminated, self.truncated = bool(terminated), bool(truncated)
                yield None

    def _act(self, stage: int, offer: Offer, step: int) -> int:
        """Return the action of the control or the floor."""
        assert self._player is not None
        return self._player.act(stage, offer.rows, step)

    def _refuse(self, reward: float) -> None:
        if not math.isfinite(reward):
            raise ValueError(f"reward must be a finite number; got {reward}")
        if self._range is not None:
            try:
                self._range.scaled(reward)
            except ValueError as error:
                raise _OutsideError(str(error), reward) from None

    def episode(self) -> Episode:
        """Return the episode for a learner."""
        if self._range is None:
            raise ValueError("rewards must have a range for learning")
        rewards = self._range.scaled_all(np.array(self.rewards))
        return Episode.of_offers([offer.rows for offer in self._offers], self._places, rewards)

    def trajectory(self) -> Trajectory:
        """Return the episode for a log."""
        masks: Sequence[Bools] | None = None
        offered = [offer.mask for offer in self._offers]
        if any(mask is not None for mask in offered):
            every = np.ones(self._source.actions, bool)
            masks = [every if mask is None else mask for mask in offered]
            if self.terminated:
                masks.append(every)
        return Trajectory(
            observations=self.observations,
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
        """Return the propensity of each taken action.

        It is the share of members that take it, among the members that took all earlier actions.
        """
        if (policy := self._policy) is not None:
            steps = zip(self._choices, self._stages, self._offers, self._places, strict=False)
            taken = [
                policy.chances_of(choices, stage, offer.rows, place)
                for choices, stage, offer, place in steps
            ]
            return policy.conditional(np.array(taken))
        same = np.array(self._choices) == np.array(self._places)[:, None]
        left = np.logical_and.accumulate(same, axis=0).sum(axis=1)
        return left / np.concatenate([[same.shape[1]], left[:-1]])


def _action(place: int, mask: Bools | None) -> int:
    """Return the action, counted among all, at a position among the feasible actions."""
    return place if mask is None else int(np.flatnonzero(mask)[place])
