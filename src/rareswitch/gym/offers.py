"""What is offered after an observation: the rows of the actions that are feasible."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rareswitch.features import FeatureMap
from rareswitch.gym.feasible import MASK, feasible_actions
from rareswitch.support.arguments import Bools, Rows

# Offers that are remembered, of states that are whole numbers.
MOST_REMEMBERED = 100_000


class Offer(NamedTuple):
    """The rows offered, which of all actions they are (None: all), and of one-hot rows a name."""

    rows: Rows
    mask: Bools | None
    key: bytes | None


class Offers:
    """From observations to offers, through a feature map.

    What a map makes of a state is the same every time, so states that are whole numbers are looked
    up when they come again, unless the environment tells a mask of its own.
    """

    def __init__(self, features: FeatureMap) -> None:
        self.features, self._one_hot = features, features.one_hot
        self._known: dict[tuple[int, int], Offer] = {}

    def after(self, observation: Any, stage: int, info: Mapping[str, Any]) -> Offer:
        """Return what is offered at a stage, counted from 0."""
        if type(observation) is not int or MASK in info:
            return self._made(observation, stage, info)
        offer = self._known.get((observation, stage))
        if offer is None:
            offer = self._made(observation, stage, info)
            if len(self._known) < MOST_REMEMBERED:
                self._known[observation, stage] = offer
        return offer

    def _made(self, observation: Any, stage: int, info: Mapping[str, Any]) -> Offer:
        rows = self.features(observation, stage)
        mask = feasible_actions(self.features, observation, stage, info)
        if mask is not None:
            rows = rows[mask]
        return Offer(rows, mask, rows.tobytes() if self._one_hot else None)
