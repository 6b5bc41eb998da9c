"""Which actions are feasible: what the features say, and what the environment tells beside."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rareswitch.features import FeatureMap
from rareswitch.features.feature_map import truths
from rareswitch.support.arguments import Bools, short_repr

MASK = "action_mask"  # where Gymnasium's environments tell which actions are feasible


def feasible_actions(
    features: FeatureMap,
    observation: Any,
    stage: int,
    info: Mapping[str, Any],
    name: str = f"info[{MASK!r}]",
) -> Bools | None:
    """Return which of all actions are feasible (A,), at least one; None stands for all.

    `name` is what an error calls the mask that was told.
    """
    mask = features.feasible(observation, stage)
    if MASK in info:
        told = truths(name, info[MASK], (features.actions,))
        mask = told if mask is None else np.logical_and(mask, told)
    if mask is None or mask.all():
        return None
    if not mask.any():
        raise ValueError(f"an action must be feasible; none is after {short_repr(observation)}")
    return mask
