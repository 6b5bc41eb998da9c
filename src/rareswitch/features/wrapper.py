"""Maps around another map: what they leave as it is."""

from dataclasses import dataclass
from typing import Any

from rareswitch.features.feature_map import FeatureMap, Features, checked_map
from rareswitch.support.arguments import Bools, set_fields


@dataclass(frozen=True, eq=False, repr=False)
class Wrapper(Features):
    """A map around another, with its sizes and feasible actions unless a subclass changes them."""

    map: FeatureMap

    def __post_init__(self) -> None:
        inner = checked_map("map", self.map)
        names = ("dim", "actions", "one_hot", "norm", "name")
        set_fields(self, **{name: getattr(inner, name) for name in names})

    def feasible(self, state: Any, h: int = 0) -> Bools | None:
        return self.map.feasible(state, h)
