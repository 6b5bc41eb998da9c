"""Episodes in the terms of an environment, and logs of episodes."""

from rareswitch.trajectories.episodes import episode_of
from rareswitch.trajectories.log_file import episodes_of, read_log, write_log
from rareswitch.trajectories.minari import from_minari
from rareswitch.trajectories.rewards import Rewards
from rareswitch.trajectories.spaces import spaces_seen
from rareswitch.trajectories.steps import from_steps
from rareswitch.trajectories.trajectory import Trajectory

__all__ = [
    "Rewards",
    "Trajectory",
    "episode_of",
    "episodes_of",
    "from_minari",
    "from_steps",
    "read_log",
    "spaces_seen",
    "write_log",
]
