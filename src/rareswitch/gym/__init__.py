"""Worlds people have: environments with Gymnasium's `reset` and `step`."""

from rareswitch.gym.agent import Agent
from rareswitch.gym.evaluate import Evaluation, evaluate
from rareswitch.gym.model import FiniteModel
from rareswitch.gym.play import Played, play
from rareswitch.gym.setting import Setting, setting_of
from rareswitch.gym.simulator import world_simulator
from rareswitch.gym.train import Training, train
from rareswitch.gym.trouble import WorldError
from rareswitch.trajectories import Rewards

__all__ = [
    "Agent",
    "Evaluation",
    "FiniteModel",
    "Played",
    "Rewards",
    "Setting",
    "Training",
    "WorldError",
    "evaluate",
    "play",
    "setting_of",
    "train",
    "world_simulator",
]
