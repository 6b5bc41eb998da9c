from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rareswitch.features import Dense, OneHot, Polynomial
from rareswitch.features.action_blocks import ActionBlocks
from rareswitch.features.spaces import Digits


def test_every_pair_has_a_position_of_its_own():
    table = OneHot(states=5, actions=3)
    assert np.concatenate([table(state) for state in range(5)]).tolist() == list(range(15))
    assert (table.dim, table.actions, table.one_hot, table.norm) == (15, 3, True, 1.0)
    assert table(4).dtype == np.int64


def test_rows_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        OneHot(states=5, actions=3)(2)[0] = 7


@pytest.mark.parametrize("state", [-1, 5, 2**70, -(2**70)])
def test_states_outside_are_refused(state):
    with pytest.raises(ValueError, match="state must be from 0 to 4; got"):
        OneHot(states=5, actions=3)(state)


@pytest.mark.parametrize(
    ("space", "states"),
    [
        (spaces.Discrete(3, start=-1), (-1, 0, 1)),
        (spaces.MultiDiscrete([2, 3]), product(range(2), range(3))),
        (spaces.MultiBinary(2), product(range(2), repeat=2)),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2, start=4)]), product((0, 1), (4, 5))),
        (spaces.Dict(b=spaces.Discrete(1), a=spaces.Discrete(2)), [{"a": 0, "b": 0},
                                                                  {"a": 1, "b": 0}]),
    ],
)  # fmt: skip
def test_tables_of_gymnasium_spaces_hold_every_state_once(space, states):
    table = OneHot.of(space, spaces.Discrete(2))
    positions = np.concatenate([table(state) for state in states])
    assert sorted(positions.tolist()) == list(range(table.dim))


@pytest.mark.parametrize(("name", "dim"), [("FrozenLake-v1", 64), ("Blackjack-v1", 1408)])
def test_worlds_of_gymnasium_play_on_their_table(name, dim):
    world = gym.make(name)
    table = OneHot.of(world.observation_space, world.action_space)
    state, _ = world.reset(seed=0)
    world.action_space.seed(0)
    for _ in range(5):
        rows = table(state)
        assert rows.shape == (world.action_space.n,)
        assert rows[0] == table.index(state) * table.actions
        state, _, ended, *_ = world.step(world.action_space.sample())
        if ended:
            state, _ = world.reset()
    assert table.dim == dim


def test_real_numbers_have_no_table():
    with pytest.raises(ValueError, match=r"observation_space must be countable .*ActionBlocks\("):
        OneHot.of(spaces.Box(0, 1, (2,)), 2)


def test_floats_are_there_for_those_who_need_them():
    table = OneHot(states=5, actions=3)
    dense = table.dense()
    assert dense == Dense(table)
    assert (dense.one_hot, dense.dim, dense.norm) == (False, 15, 1.0)
    assert dense.name == "one-hot of 5 states × 3 actions, as floats"
    np.testing.assert_array_equal(dense(3), np.eye(15)[table(3)])
    with pytest.raises(ValueError, match="map must be one-hot"):
        Dense(ActionBlocks(Polynomial(inputs=2, degree=1, constant=False), actions=2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": 0, "actions": 2}, "states must be at least 1"),
        ({"states": 2, "actions": 0}, "actions must be at least 1"),
        ({"states": 10**7, "actions": 2}, "states · actions must be from 1 to 10000000"),
        ({"states": 3, "actions": 2, "space": Digits(counts=(4,))}, "space must have 3 states"),
        ({"states": 3, "actions": 2, "space": range(3)}, "space must have 3 states"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        OneHot(**arguments)
