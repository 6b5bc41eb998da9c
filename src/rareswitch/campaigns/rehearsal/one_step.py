"""A world of one step, made from a function that draws a participant."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rareswitch.campaigns.rehearsal.world import EQUAL_VALUES, Step
from rareswitch.core.policy import Policy
from rareswitch.support.arguments import FLOAT64, Floats, Rows, floats, positions, short_repr, whole
from rareswitch.support.streams import KeyedStream, Seed, Stream

# The number of participants that value a policy; no study reaches their numbers.
VALUED_ON = 500
FIRST_VALUED = 2**40


class Participant(NamedTuple):
    """The rows and mean rewards of a participant, and the uniform number for the reward."""

    rows: Rows
    means: list[float]
    uniform: float
    subgroup: str | None


class OneStep:
    """Participants who are treated once, and their rewards.

    `participant(rng)` draws a participant, and returns a feature row and a mean reward for each
    action: rows (A, d) and means (A,). The reward is 1 with the mean of the action taken as its
    probability, and else 0; `reward(rng, mean)` can draw another reward in [0, 1] of that mean. The
    function may also return the name of the participant's subgroup: (rows, means, subgroup).

    Each participant has its own generator, keyed by the seed and the number, so the draws do not
    depend on the order of participants or on their actions.

    >>> def participant(rng):
    ...     severe = float(rng.random() < 0.5)
    ...     rows = np.array([[1.0, severe, 0.0, 0.0], [0.0, 0.0, 1.0, severe]]) / 2.0
    ...     return rows, np.array([0.4, 0.4 + 0.2 * severe])
    >>> world = OneStep(participant, seed=3)
    >>> world.begin(1).shape, world.step(1).over
    ((2, 4), True)
    """

    horizon = 1

    def __init__(
        self,
        participant: Callable[[np.random.Generator], tuple[Any, ...]],
        *,
        seed: Seed = 0,
        reward: Callable[[np.random.Generator, float], float] | None = None,
    ) -> None:
        for name, given in (("participant", participant), ("reward", reward)):
            if not callable(given) and (name == "participant" or given is not None):
                raise TypeError(f"{name} must be a function; got {short_repr(given)}")
        self._participant, self._reward = participant, reward
        self._stream = KeyedStream(seed, Stream.ENVIRONMENT)
        self._known: dict[int, Participant] = {}
        self._number = 0

    def begin(self, number: int) -> Rows:
        number = whole("number", number, least=1)
        self._number = number
        if number not in self._known:  # compared designs have the same participants
            self._known[number] = self._draw(number)
        return self._known[number].rows

    def step(self, place: int) -> Step:
        _, means, uniform, _ = self._known[self._number]
        mean = means[place]
        if self._reward is None:
            reward = float(uniform < mean)
        else:
            reward = float(self._reward(self._stream.at(2 * self._number + 1), mean))
        return Step(reward, None, True, mean, mean >= max(means) - EQUAL_VALUES)

    def subgroup(self) -> str | None:
        """Return the subgroup of the last participant, if the function returned it."""
        return self._known[self._number].subgroup

    def value(self, policy: Policy) -> float:
        """Return the mean expected reward over participants outside any study.

        They are the same for every policy.
        """
        total = 0.0
        for rows, means in self._valued:
            total += float(np.vecdot(policy.propensities_in(0, rows), means).sum())
        return total / VALUED_ON

    @cached_property
    def _valued(self) -> list[tuple[Rows, Floats]]:
        """The rows (n, A, d) and means (n, A) of new participants, by their number of actions."""
        alike: dict[int, list[tuple[Rows, list[float]]]] = {}
        for number in range(FIRST_VALUED, FIRST_VALUED + VALUED_ON):
            rows, means, *_ = self._draw(number)
            alike.setdefault(len(means), []).append((rows, means))
        return [
            (np.array([rows for rows, _ in some]), np.array([means for _, means in some]))
            for some in alike.values()
        ]

    def _draw(self, number: int) -> Participant:
        rng = self._stream.at(2 * number)
        drawn = self._participant(rng)
        try:
            given, means, *more = drawn
            (subgroup,) = more or (None,)
        except (TypeError, ValueError):
            raise TypeError(
                "participant must return (rows, means) or (rows, means, subgroup); got "
                f"{short_repr(drawn)}"
            ) from None
        rows = np.array(given)  # a copy: the function may reuse its array
        if rows.dtype is not FLOAT64 or rows.ndim != 2:  # other rows are checked when they are used
            one_hot = rows.ndim == 1
            rows = positions("rows", given, 2**31) if one_hot else floats("rows", given, ("A", "d"))
        chances = np.asarray(means).tolist()
        if not isinstance(chances, list) or len(chances) != len(rows) or not chances:
            raise ValueError(f"means must be one for each row; got {short_repr(means)}")
        if not all(type(mean) is float and 0.0 <= mean <= 1.0 for mean in chances):
            raise ValueError(f"means must be numbers from 0.0 to 1.0; got {short_repr(means)}")
        return Participant(rows, chances, rng.random(), subgroup)
