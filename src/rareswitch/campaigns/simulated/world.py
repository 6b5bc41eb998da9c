"""What a simulated campaign is played in: a world that offers rows, and answers to actions."""

from typing import NamedTuple, Protocol

from rareswitch.support.arguments import Rows


class Step(NamedTuple):
    """What a world answers to an action.

    `reward` lies in [0, 1]; `offered` are the rows of the next state, None if there is none. An
    episode that is `over` though rows are offered was cut off.
    """

    reward: float
    offered: Rows | None
    over: bool


class World(Protocol):
    """A world that plays one episode at a time.

    What it draws in an episode depends on its number and on nothing else, so that episodes are the
    same in whichever order they are played. A world may tell its `horizon`, which then must be that
    of the protocol, and its `feature_norm`, which then must not be above the protocol's. Where it
    is known what a policy loses against the best one, a world has `loss(policy)` too: the expected
    regret of an episode, or None.
    """

    def begin(self, number: int) -> Rows:
        """Begin an episode, counted from 1; return the rows offered in its first state."""
        ...

    def step(self, place: int) -> Step:
        """Take the action whose row has that place among those offered."""
        ...
