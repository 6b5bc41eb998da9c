"""Compare a candidate with the policy in force: the difference in actions and in value.

Both differences are means over episodes of the policy in force. With π the policy in force, π' the
candidate and Q' the value of the candidate,

    V^{π'} − V^π = Σ_h E_{s ~ π} Σ_a (π'_h(a|s) − π_h(a|s))·Q'_h(s, a)

(the performance difference lemma, Kakade and Langford 2002, with the roles exchanged). The `gain`
is the mean of the right side over the episodes, with the candidate's own estimate of Q'.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rareswitch.core.clock import Clock, Schedule, Trigger
from rareswitch.core.episode import NoOffersError
from rareswitch.core.policy import Policy
from rareswitch.support.arguments import Floats, Rows

# Candidates are compared on this number of last episodes of the policy in force.
RECENT = 500


def reasons_of(schedule: Schedule, candidate: "Candidate") -> tuple[Trigger, ...]:
    """Return the triggers of a rule's decision; a rule without `reasons` has a single one."""
    reasons = getattr(schedule, "reasons", None)
    if reasons is not None:
        return tuple(reasons(candidate))
    accepted = bool(schedule.accepts(candidate))  # type: ignore[attr-defined]
    return (Trigger("accepted", float(accepted), 0.5, accepted),)


class Gain(NamedTuple):
    """The expected gain per episode in rewards as learned, with its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.3g}, standard error {self.error:.3g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A policy fitted when a switch was due, and the policy in force.

    `paths` has the rows offered in the last episodes since the deployment of the policy in force.
    """

    clock: Clock
    policy: Policy
    in_force: Policy
    paths: Sequence[tuple[Rows, ...]]

    @property
    def episodes_left(self) -> int | None:
        """The number of episodes left for a new policy; None in an open-ended task."""
        episodes = self.clock.task.episodes
        return None if episodes is None else episodes + 1 - self.clock.episode

    @property
    def change(self) -> float:
        """The mean over episodes of the largest difference between the policies along the episode.

        The difference at a step is half the sum of the absolute differences of the propensities.
        """
        return float(self._compared[0].mean())

    @property
    def gain(self) -> Gain:
        """The expected gain of the candidate over the policy in force, per episode."""
        gains = self._compared[1]
        error = gains.std(ddof=1) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
        return Gain(float(gains.mean()), float(error))

    @cached_property
    def _compared(self) -> tuple[Floats, Floats]:
        """The change and the gain of each episode."""
        if not self.paths:
            raise NoOffersError(
                "candidate must have episodes of the policy in force, with first_features; got none"
            )
        change, gain = np.zeros((2, len(self.paths)))
        longest = max(map(len, self.paths))
        for step in range(longest):
            alike: dict[int, list[int]] = {}  # episodes by the number of actions at this step
            for place, path in enumerate(self.paths):
                if step < len(path):
                    alike.setdefault(len(path[step]), []).append(place)
            for places in alike.values():
                rows = np.array([self.paths[place][step] for place in places])
                differs, earns = self._at(step, rows)
                change[places] = np.maximum(change[places], differs)
                gain[places] += earns
        return change, gain

    def _at(self, h: int, rows: Rows) -> tuple[Floats, Floats]:
        """Return change and gain (n,) at stage h in n states with A actions each."""
        new, old = (policy.propensities_in(h, rows) for policy in (self.policy, self.in_force))
        q_values = self.policy.q_values(h, np.concatenate(rows))
        q_values = q_values.reshape(-1, *new.shape).mean(axis=0)
        moved = new - old
        return np.abs(moved).sum(axis=1) / 2.0, (moved * q_values).sum(axis=1)
