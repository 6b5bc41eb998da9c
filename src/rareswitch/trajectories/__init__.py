"""Episodes as environments tell them, and logs of them."""

from rareswitch.trajectories.episodes import episode_of
from rareswitch.trajectories.log_file import read_log, write_log
from rareswitch.trajectories.minari import from_minari
from rareswitch.trajectories.rewards import Rewards
from rareswitch.trajectories.steps import from_steps
from rareswitch.trajectories.trajectory import Trajectory

__all__ = [
    "Rewards",
    "Trajectory",
    "episode_of",
    "from_minari",
    "from_steps",
    "read_log",
    "write_log",
]
