"""What is known exactly of a world: only where its model says what is played."""

import gymnasium
import pytest
from gymnasium.wrappers import TransformReward

import rareswitch as rs
from rareswitch.features import OneHot
from rareswitch.gym import FiniteModel
from rareswitch.gym.exact import known_returns

TABLE = OneHot(states=16, actions=4)
DOWN = rs.Policy(weights=[[0.0, 1.0, 0.0, 0.0] * 16] * 20, one_hot=True)


def test_the_returns_are_those_of_the_model():
    lake = gymnasium.make("FrozenLake-v1")
    known, model = known_returns(DOWN, lake, TABLE), FiniteModel.of(lake)
    assert known.policy == model.policy_return(DOWN, TABLE)
    assert known.optimum == model.optimal_return(20)
    assert known.random == model.random_return(20)
    assert 0.0 < known.random < known.optimum < 1.0


@pytest.mark.parametrize(
    ("world", "actions"),
    [
        (TransformReward(gymnasium.make("FrozenLake-v1"), lambda reward: 2 * reward), None),
        (gymnasium.make("FrozenLake-v1", max_episode_steps=19), None),
        (gymnasium.make("FrozenLake-v1"), [3, 2, 1, 0]),
        (gymnasium.make("CartPole-v1"), None),
    ],
    ids=["other rewards", "cut off earlier", "other actions", "no model"],
)
def test_nothing_is_known_where_something_else_is_played(world, actions):
    assert known_returns(DOWN, world, TABLE, actions) is None


def test_a_limit_of_steps_that_is_not_reached_changes_nothing():
    world = gymnasium.make("FrozenLake-v1", max_episode_steps=20)
    assert known_returns(DOWN, world, TABLE) is not None
