"""A frozen policy in an environment: what each member does with what it is offered."""

from collections.abc import Iterable

import numpy as np

from rareswitch.core.policy import Policy
from rareswitch.gym.offers import Offer
from rareswitch.support.arguments import Ints

# Rows of states that are asked for together; of more, each state is asked for when it comes up.
MOST_ROWS = 4096


class Seen:
    """The states seen so far, by the positions of their one-hot rows."""

    def __init__(self) -> None:
        self._states: dict[int, dict[bytes, Ints]] = {}  # by how many actions they have
        self._stacked: dict[int, Ints] = {}

    def like(self, key: bytes, rows: Ints) -> tuple[Iterable[bytes], Ints]:
        """Return states with as many actions, and their rows (n, A).

        These are all that were seen, this one among them, unless they are many.
        """
        count = len(rows)
        states = self._states.setdefault(count, {})
        if key not in states:
            if (len(states) + 1) * count > MOST_ROWS:
                return [key], rows[None]
            states[key] = rows
            self._stacked[count] = np.array(list(states.values()))
        return states, self._stacked[count]


class Actor:
    """A version of a policy, and what its members were found to do in states that repeat.

    Of one-hot features, which are given by a few positions, the states seen so far are all asked
    for at once, the first time that one of them comes up at a stage.
    """

    def __init__(self, policy: Policy, version: int, seen: Seen) -> None:
        self.policy, self.version, self._seen = policy, version, seen
        self._known: list[dict[bytes, Ints]] = [{} for _ in range(policy.horizon)]

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
