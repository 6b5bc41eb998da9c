"""The table as a feature map, with one feature for every pair of a state and an action."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.features.feature_map import Features
from rareswitch.features.spaces import Digits, Space, action_count, space_of
from rareswitch.features.wrappers import Dense
from rareswitch.support.arguments import Ints, set_fields, short_repr, whole

MOST_PAIRS = 10**7


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OneHot(Features):
    """Rows that are 1 for one pair of a state and an action and 0 elsewhere, d = S·A.

    Rows are given by the position of their 1, s·A + a. Without a `space`, states are the whole
    numbers from 0 to `states` − 1.

    >>> table = OneHot(states=16, actions=4)
    >>> table(2), table.dim, table.name
    (array([ 8,  9, 10, 11]), 64, 'one-hot of 16 states × 4 actions')
    """

    kind: ClassVar[str] = "one-hot"

    states: int
    actions: int
    space: Space | None = None
    _counted: Space = field(init=False)

    def __post_init__(self) -> None:
        states = whole("states", self.states, least=1)
        actions = whole("actions", self.actions, least=1)
        whole("states · actions", states * actions, least=1, most=MOST_PAIRS)
        space = Digits(counts=(states,)) if self.space is None else self.space
        if not isinstance(space, Space) or space.count != states:
            raise ValueError(f"space must have {states} states; got {short_repr(self.space)}")
        set_fields(
            self,
            states=states,
            actions=actions,
            space=space,
            _counted=space,
            dim=states * actions,
            one_hot=True,
            norm=1.0,
            name=f"one-hot of {space.words} × {actions} actions",
        )

    @classmethod
    def of(cls, observation_space: Any, actions: Any) -> Self:
        """Return the table for a countable Gymnasium space and a number of actions.

        The space is Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of them; `actions` may
        be a Discrete space too.
        """
        space = space_of(observation_space)
        if space.count is None:
            raise ValueError(
                f"observation_space must be countable for a table; got "
                f"{short_repr(observation_space)}. Real numbers need a basis: "
                "ActionBlocks(basis, actions=…)"
            )
        return cls(states=space.count, actions=action_count(actions), space=space)

    def __call__(self, state: Any, h: int = 0) -> Ints:
        rows: Ints = self._table[self.index(state)]
        return rows

    def index(self, state: Any) -> int:
        """Return the number of a state, from 0 to S−1."""
        return self._counted.index(state)

    def dense(self) -> Dense:
        """Return the same map with rows of floats (A, d)."""
        return Dense(self)

    @cached_property
    def _table(self) -> Ints:
        table = np.arange(self.dim).reshape(self.states, self.actions)
        table.flags.writeable = False
        return table
