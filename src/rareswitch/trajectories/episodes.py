"""From what an environment tells to what a learner is told: the only place that turns one into the
other.
"""

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.support.arguments import short_repr, whole
from rareswitch.trajectories.offered import Features, choice_offered, rows_offered
from rareswitch.trajectories.rewards import Rewards
from rareswitch.trajectories.trajectory import Trajectory


def episode_of(
    trajectory: Trajectory,
    features: Features,
    rewards: Rewards | None = None,
    horizon: int | None = None,
) -> Episode:
    """Return a trajectory as a learner's episode: rows of features, and rewards in [0, 1].

    `features` is a feature map, or any function of a state that returns the rows of its actions.
    Rewards are taken to be in [0, 1] unless their range is given. What comes after the horizon is
    dropped, and the episode is one that was cut off there.

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
    offers = [choice_offered(trajectory, features, t) for t in range(steps)]
    following = [rows for rows, _ in offers[1:]]
    if not trajectory.terminated:
        following.append(rows_offered(trajectory, features, steps, horizon))
    return Episode(
        features=np.array([rows[place] for rows, place in offers]),
        rewards=(rewards or Rewards()).scaled_all(trajectory.rewards),
        next_features=following,
    )
