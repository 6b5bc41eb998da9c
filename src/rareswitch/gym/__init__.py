"""Train, play and evaluate in environments with Gymnasium's `reset` and `step`."""

from rareswitch.agent import Agent
from rareswitch.gym.episode import WorldError
from rareswitch.gym.evaluate import Returns, evaluate
from rareswitch.gym.exact import FiniteModel
from rareswitch.gym.rollout import Played, play
from rareswitch.gym.setting import Setting, setting_of
from rareswitch.gym.simulator import world_simulator
from rareswitch.gym.train import train
from rareswitch.gym.training import Step, Training
from rareswitch.trajectories import Rewards

__all__ = [
    "Agent",
    "FiniteModel",
    "Played",
    "Returns",
    "Rewards",
    "Setting",
    "Step",
    "Training",
    "WorldError",
    "evaluate",
    "play",
    "setting_of",
    "train",
    "world_simulator",
]
