"""Turn a trajectory into offered feature rows and a learner's episode."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.support.arguments import Bools, Rows, short_repr, whole
from rareswitch.trajectories.rewards import Rewards
from rareswitch.trajectories.trajectory import Trajectory

# A feature map, or any function from a state to the rows of its actions.
RowsOf = Callable[..., Any]


def offered(
    trajectory: Trajectory, features: RowsOf, t: int, horizon: int | None = None
) -> tuple[Rows, Bools | None]:
    """Return the rows of the feasible actions at observation t, and their mask over all actions.

    The mask comes from the trajectory, or else from the feature map's `feasible`; None stands for
    all actions. The stage of observation t is t, and the last stage after the horizon.
    """
    state, stage = trajectory.observations[t], t if horizon is None else min(t, horizon - 1)
    staged = hasattr(features, "one_hot")  # a feature map takes the stage too
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
            f"masks must have an entry for each of the {len(rows)} rows of features; got "
            f"{len(mask)} at observation {t} of {trajectory.words}"
        )
    return rows[mask], mask


def place_taken(trajectory: Trajectory, t: int, rows: Rows, mask: Bools | None) -> int:
    """Return the position of the action of step t among the offered rows."""
    action = int(trajectory.actions[t])
    allowed = len(rows) if mask is None else len(mask)
    if action >= allowed or (mask is not None and not mask[action]):
        raise ValueError(
            f"actions must be among the offered actions; got {action} at step {t} of "
            f"{trajectory.words}, where features has {allowed} rows"
            + ("" if action >= allowed else " and this action is not feasible")
        )
    return action if mask is None else int(np.count_nonzero(mask[:action]))


def choice_offered(trajectory: Trajectory, features: RowsOf, t: int) -> tuple[Rows, int]:
    """Return the rows offered at step t, and the position of the action among them."""
    rows, mask = offered(trajectory, features, t)
    return rows, place_taken(trajectory, t, rows, mask)


def episode_of(
    trajectory: Trajectory,
    features: RowsOf,
    rewards: Rewards | None = None,
    horizon: int | None = None,
) -> Episode:
    """Return a trajectory as a learner's episode: rows of features, and rewards in [0, 1].

    `features` is a feature map, or any function from a state to the rows of its actions. Rewards
    must be in [0, 1] unless their range is given. Steps after the horizon are dropped, and the
    episode then counts as truncated there.

    >>> trajectory = Trajectory(
    ...     observations=[0.5, 1.0, 0.0], actions=[1, 0], rewards=[0.0, 10.0], terminated=True
    ... )
    >>> episode = episode_of(trajectory, lambda s: np.eye(2) * s, Rewards(0.0, 10.0))
    >>> episode.features, episode.rewards, len(episode.next_features)
    (array([[0. , 0.5],
           [1. , 0. ]]), array([0., 1.]), 1)
    """
    if not isinstance(trajectory, Trajectory):
        raise TypeError(f"trajectory must be a Trajectory; got {short_repr(trajectory)}")
    if horizon is not None:
        trajectory = trajectory.until(whole("horizon", horizon, least=1))
    steps = len(trajectory)
    chosen = [choice_offered(trajectory, features, t) for t in range(steps)]
    offers = [rows for rows, _ in chosen]
    if not trajectory.terminated:
        offers.append(offered(trajectory, features, steps, horizon)[0])
    scaled = (rewards or Rewards()).scaled_all(trajectory.rewards)
    return Episode.of_offers(offers, [place for _, place in chosen], scaled)
