"""Classic worlds, each against its published definition or a count of its own."""

import gymnasium
import numpy as np
import pytest

from rareswitch import worlds
from rareswitch.sim import FiniteMDP

MADE = {
    "river": worlds.river_swim(),
    "sea": worlds.deep_sea(),
    "lock": worlds.combination_lock(),
    "lake": worlds.frozen_lake(),
}


@pytest.mark.parametrize("world", MADE.values(), ids=MADE)
def test_every_pair_has_a_coordinate_of_its_own(world: FiniteMDP):
    assert world.tabular
    assert world.dim == world.states * world.features.shape[1]


def test_worlds_with_shared_coordinates_are_not_tabular():
    assert worlds.tabular(states=3, actions=2, horizon=2).tabular
    assert not worlds.hard_to_learn(d=5, horizon=2).tabular
    assert not worlds.lower_bound_family(states=2, horizon=2).tabular


def test_frozen_lake_is_gymnasiums():
    table = gymnasium.make("FrozenLake-v1").unwrapped.P
    lake = worlds.frozen_lake(chance=1 / 3, horizon=3)
    chances, rewards = np.zeros((16, 4, 16)), np.zeros((16, 4))
    for state, action in np.ndindex(16, 4):
        for chance, following, reward, _ in table[state][action]:
            chances[state, action, following] += chance
            rewards[state, action] += chance * reward
    for h in range(3):
        np.testing.assert_allclose(lake.transitions[h], chances, atol=1e-12)
        np.testing.assert_allclose(lake.rewards[h], rewards, atol=1e-12)


def test_river_swim_pays_upstream_in_the_long_run_only():
    short, long = worlds.river_swim(horizon=2), worlds.river_swim(horizon=20)
    assert short.optimal_values()[0, 0] == pytest.approx(0.01)  # twice the little downstream
    assert (long.optimal_actions()[0] == 1).all()
    assert long.transitions[0, 2, 1].tolist() == [0.0, 0.05, 0.6, 0.35, 0.0, 0.0]


@pytest.mark.parametrize("size", [2, 5])
def test_one_way_through_the_deep_sea_finds_the_treasure(size):
    sea = worlds.deep_sea(size=size, seed=3)
    assert sea.optimal_values()[0, 0] == pytest.approx(1.0)
    # Each of 2^size sequences of actions from the start, played: one finds 1.
    found = 0
    for code in range(2**size):
        column, total = 0, 0.0
        for row in range(size):
            action = code >> row & 1
            total += sea.rewards[row, column, action]
            column = int(sea.transitions[row, column, action].argmax())
        found += total >= 1.0
    assert found == 1


def test_a_lock_opens_after_every_right_action():
    lock = worlds.combination_lock(horizon=4, actions=3, seed=1)
    assert lock.optimal_values()[0, 0] == pytest.approx(1.0)
    right = lock.optimal_actions()[:, 0]
    for h in range(4):
        for action in set(range(3)) - {int(right[h])}:
            tried = lock.optimal_actions()
            tried[h, 0] = action
            assert lock.policy_values(tried)[0, 0] == pytest.approx(0.1)


def test_rounds_have_seas_and_locks_of_their_own():
    for make in (worlds.deep_sea, worlds.combination_lock):
        assert (make(seed=0).transitions == make(seed=0).transitions).all()
        assert (make(seed=0).transitions != make(seed=1).transitions).any()


@pytest.mark.parametrize(
    ("make", "arguments", "said"),
    [
        (worlds.river_swim, {"states": 1}, "states must be at least 2; got 1"),
        (worlds.deep_sea, {"size": 1}, "size must be at least 2; got 1"),
        (worlds.combination_lock, {"actions": 1}, "actions must be at least 2; got 1"),
        (worlds.frozen_lake, {"chance": 0.0}, "chance must be.* above 0"),
        (worlds.frozen_lake, {"horizon": 0}, "horizon must be at least 1; got 0"),
    ],
)
def test_impossible_sizes_are_refused(make, arguments, said):
    with pytest.raises(ValueError, match=said):
        make(**arguments)
