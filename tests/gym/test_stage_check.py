"""What a training's own log says of shared stages."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from rareswitch.gym import judge, play, setting_of
from rareswitch.gym.judge import sharing_found
from rareswitch.gym.train import schedule_for


class Turning(gymnasium.Env):
    """Two actions; which of them is paid depends on the step, though the state does not show it."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.step_number = 0
        return 0, {}

    def step(self, action):
        paid = float(action == self.step_number % 2)
        self.step_number += 1
        return 0, paid, False, False, {}


def log_of(world, episodes, **given):
    setting = setting_of(world, **given)
    learner = setting.learner(schedule_for(episodes=episodes), episodes=episodes)
    games = play(learner, world, setting.features, episodes=episodes, rewards=setting.rewards)
    return setting, [game.trajectory for game in games]


@pytest.mark.parametrize("features", [None, lambda state: np.eye(2)])
def test_a_world_that_turns_speaks_against_sharing(features):
    setting, log = log_of(Turning(), 60, horizon=4, features=features)
    assert sharing_found(setting, log, len(log)).against


def test_a_lake_does_not():
    setting, log = log_of(gymnasium.make("FrozenLake-v1"), 60, horizon=30)
    assert not sharing_found(setting, log, len(log)).against


def test_nothing_is_said_where_nothing_is_shared_or_known():
    setting, log = log_of(Turning(), 10, horizon=4)
    assert sharing_found(replace(setting, stages="own"), log, len(log)) is None
    assert sharing_found(replace(setting, horizon=1), log, len(log)) is None
    assert sharing_found(setting, log[:3], 3) is None


def test_of_a_long_log_some_episodes_are_looked_at(monkeypatch):
    setting, log = log_of(Turning(), 60, horizon=4)
    monkeypatch.setattr(judge, "MOST_EPISODES", 20)
    assert sharing_found(setting, log, 60) == sharing_found(setting, log[::3], 20)
