"""The feature rows that were offered at each observation of a trajectory, and which was taken."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rareswitch.support.arguments import Bools, Rows, short_repr
from rareswitch.trajectories.trajectory import Trajectory

# A feature map, or any function of a state that returns the rows of its actions.
Features = Callable[..., Any]


def rows_offered(
    trajectory: Trajectory, features: Features, t: int, horizon: int | None = None
) -> Rows:
    """Return the rows of the actions that were feasible at observation t, counted from 0.

    Feasible is what the trajectory's masks say, or else the feature map's `feasible`, or else
    every action. The stage of observation t is t; after the horizon, where a feature map may know
    no stage any more, it is told the last one.
    """
    stage = t if horizon is None else min(t, horizon - 1)
    return _offer(trajectory, features, t, stage)[0]


def choice_offered(trajectory: Trajectory, features: Features, t: int) -> tuple[Rows, int]:
    """Return the rows that were offered at step t, and the place of the action among them."""
    rows, mask = _offer(trajectory, features, t, t)
    action = int(trajectory.actions[t])
    allowed = len(rows) if mask is None else len(mask)
    if action >= allowed or (mask is not None and not mask[action]):
        raise ValueError(
            f"actions must be among those offered; got {action} at step {t} of {trajectory}, "
            f"where features has {allowed} rows"
            + ("" if action >= allowed else " and this one is not feasible")
        )
    return rows, action if mask is None else int(np.count_nonzero(mask[:action]))


def _offer(
    trajectory: Trajectory, features: Features, t: int, stage: int
) -> tuple[Rows, Bools | None]:
    state = trajectory.observations[t]
    staged = hasattr(features, "one_hot")  # a feature map, which is told the stage too
    rows = np.asarray(features(state, stage) if staged else features(state))
    if rows.ndim not in (1, 2) or not len(rows):
        raise ValueError(
            f"features must return one row or more for the actions of a state; got shape "
            f"{rows.shape} for {short_repr(state)}"
        )
    mask = None if trajectory.masks is None else trajectory.masks[t]
    if mask is None and hasattr(features, "feasible"):
        mask = features.feasible(state, stage)
    if mask is None:
        return rows, None
    if len(mask) != len(rows):
        raise ValueError(
            f"masks must have a place for each of the {len(rows)} rows of features; got "
            f"{len(mask)} at observation {t} of {trajectory}"
        )
    return rows[mask], mask
