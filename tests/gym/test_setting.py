"""What is picked for a world, why, and that what is given wins."""

import re
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gym_worlds import ACTIONS, STATES, Walk, blocks, table
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import TimeLimit, TransformReward
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch.features import Custom, OneHot
from rareswitch.gym import Rewards, WorldError, play, setting_of
from rareswitch.gym.setting import rounded_range, setting_of_log, widened_range
from rareswitch.trajectories import Trajectory

THREE = rs.Recipe(exploration=rs.Ensemble(3))


class Shown(gymnasium.Env):
    """A world that shows samples of its space, ends after some steps, and pays within a range."""

    def __init__(self, space, actions=None, steps=7, low=0.0, high=1.0, spec=None):
        self.observation_space, self.action_space = space, actions or Discrete(2)
        self.steps, self.low, self.high = steps, low, high
        self.handed = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.handed.append(action)
        self.time += 1
        reward = self.low + (self.high - self.low) * float(self.np_random.random())
        return self.observation_space.sample(), reward, self.time == self.steps, False, {}


COUNTED = {
    "Discrete": (Discrete(5), 10),
    "Discrete from 3 on": (Discrete(5, start=3), 10),
    "MultiDiscrete": (MultiDiscrete([2, 3]), 12),
    "MultiBinary": (MultiBinary(3), 16),
    "Tuple": (Tuple((Discrete(3), MultiBinary(2))), 24),
    "Dict": (Dict(a=Discrete(3), b=Discrete(2)), 12),
}
MEASURED = {
    "Box": Box(-1.0, 1.0, (3,), np.float64),
    "Box of another shape": Box(-1.0, 1.0, (2, 2)),
    "Dict with a Box": Dict(a=Discrete(3), b=Box(0.0, 9.0, (2,))),
    "Tuple with a Box": Tuple((Box(0.0, 1.0, (1,)), Discrete(2))),
    "without bounds": Box(-np.inf, np.inf, (2,), np.float64),
}


@pytest.mark.parametrize(("space", "dim"), COUNTED.values(), ids=COUNTED)
def test_states_that_can_be_counted_get_a_table(space, dim):
    setting = setting_of(Shown(space))
    assert (setting.features.dim, setting.features.one_hot) == (dim, True)
    assert setting.reasons["features"] == f"{setting.features.name}, by the observation space"


def test_a_table_of_observations_has_the_repetition_as_its_reason():
    space = Box(0, 2, (2,), np.int64)
    name = "one-hot of 9 observations met in 2,{} steps and 256 hashed places × 2 actions"
    setting = setting_of(Shown(space))
    assert re.fullmatch(name.format(r"\d{3}"), setting.features.name)
    repeat = "as observations repeat in"
    assert setting.reasons["features"] == f"{setting.features.name}, {repeat} random play"
    told = {"actions": [0, 1], "rewards": [0.0, 1.0], "terminated": True}
    boards = np.random.default_rng(0).integers(0, 3, (300, 3, 2)).astype(float)
    setting = setting_of_log([Trajectory(observations=seen, **told) for seen in boards])
    assert setting.reasons["features"] == f"{setting.features.name}, {repeat} the log"


@pytest.mark.parametrize("space", MEASURED.values(), ids=MEASURED)
def test_others_get_a_basis_for_each_action_of_length_1_at_most(space):
    world = Shown(space)
    setting = setting_of(world)
    features = setting.features
    assert (features.one_hot, features.actions) == (False, 2)
    assert features.norm == pytest.approx(1.0)
    for seed in range(5):
        rows = features(world.reset(seed=seed)[0])
        assert rows.shape == (2, features.dim)
        assert np.linalg.norm(rows, axis=1).max() <= features.norm + 1e-9


@pytest.mark.parametrize(
    "space", [space for space, _ in COUNTED.values()] + list(MEASURED.values()), ids=str
)
def test_what_is_picked_can_be_played(space):
    world = Shown(space)
    setting = setting_of(world)
    learner = setting.learner(rs.UniformGrid(batches=2), THREE, episodes=4)
    games = list(play(learner, world, setting.features, episodes=4, rewards=setting.rewards))
    assert [game.steps for game in games] == [7] * 4
    assert len(learner.ledger) == 2


def test_the_same_seed_picks_the_same_features():
    world = Shown(MEASURED["without bounds"])
    digests = [setting_of(world, seed=seed).features.digest for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


# Actions.


@pytest.mark.parametrize(
    ("space", "count"),
    [
        (Discrete(4), 4),
        (Discrete(5, start=2), 5),
        (MultiDiscrete([2, 3]), 6),
        (MultiBinary(2), 4),
        (Box(-2.0, 2.0, (1,)), 5),
        (Box(-1.0, 1.0, (2,)), 25),
    ],
)
def test_actions_are_numbered_or_listed_and_all_can_be_handed_on(space, count):
    world = Shown(Discrete(3), space)
    setting = setting_of(world)
    assert setting.features.actions == count
    assert (setting.actions is None) is (isinstance(space, Discrete) and not space.start)
    assert setting.reasons["actions"].startswith(
        f"the {count} of the action space" if setting.actions is None else f"{count} of "
    )
    learner = setting.learner(rs.EveryEpisode(), THREE)
    world.handed.clear()
    list(
        play(
            learner, world, setting.features, episodes=15,
            rewards=setting.rewards, actions=setting.actions,
        )
    )  # fmt: skip
    assert len(world.handed) == 15 * 7


def test_random_play_hands_on_actions_that_are_listed():
    world = Shown(MEASURED["Box"], Box(-2.0, 2.0, (1,)))
    setting_of(world)
    assert {float(action[0]) for action in world.handed} == {-2.0, -1.0, 0.0, 1.0, 2.0}


def test_pendulum():
    setting = setting_of(gymnasium.make("Pendulum-v1"))
    assert (setting.features.actions, setting.horizon) == (5, 200)
    assert setting.reasons["horizon"] == "the environment's own limit of steps"
    assert setting.rewards == Rewards(-20.0, 1.0)
    assert setting.reasons["rewards"].startswith("2000 steps of random play met -16")
    assert "5 of Box(" in setting.reasons["actions"]


def test_random_play_keeps_to_masks():
    setting_of(Walk("array", masked=True))  # which refuses what is not feasible


# The horizon.


def test_the_horizon_is_the_limit_of_steps_up_to_200():
    for name, horizon in (("FrozenLake-v1", 100), ("CartPole-v1", 200)):
        world = gymnasium.make(name)
        setting = setting_of(world)
        assert setting.horizon == horizon
        limit = world.spec.max_episode_steps
        reason = setting.reasons["horizon"]
        assert reason == "the environment's own limit of steps" or f"{limit} steps" in reason


def test_without_a_limit_random_play_says_how_long_episodes_are():
    setting = setting_of(Shown(Discrete(3), steps=7))
    assert setting.horizon == 7
    assert setting.reasons["horizon"] == "286 of 286 random episodes had so many steps, none more"
    walk = setting_of(Walk())
    assert 10 < walk.horizon < 100
    assert walk.reasons["horizon"].startswith(f"twice the {walk.horizon // 2} steps of the longest")
    guessed = setting_of(Walk(ends=False))
    assert (guessed.horizon, guessed.reasons["horizon"]) == (
        100, "the environment has no limit of steps, so this is a guess",
    )  # fmt: skip


def test_long_episodes_that_end_by_themselves_are_covered():
    class Long(Shown):
        def reset(self, **rest):
            answer = super().reset(**rest)
            self.steps = int(self.np_random.integers(120, 150))
            return answer

    setting = setting_of(Long(Discrete(3)))
    assert setting.horizon == 200
    assert setting.reasons["horizon"].endswith(" random episodes, at most 200")


def test_the_limit_of_a_wrapper_is_found():
    setting = setting_of(TimeLimit(Walk(ends=False), 9))
    assert setting.horizon == 9
    assert setting.reasons["horizon"] == "the environment's own limit of steps"


def test_a_horizon_below_the_limit_is_told():
    setting = setting_of(TimeLimit(Walk(), 9), horizon=5)
    assert setting.reasons["horizon"] == "as given; the environment goes on to 9"


# Rewards.


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.0, 1.0, (0.0, 1.0)),
        (0.2, 0.7, (0.0, 1.0)),
        (-3.0, -1.0, (-5.0, 1.0)),
        (2.0, 9.0, (0.0, 10.0)),
        (-0.0009, 0.0, (-0.001, 1.0)),
        (-0.5, 30.0, (-0.5, 50.0)),
        (-0.5, 0.5, (-0.5, 1.0)),
    ],
)
def test_the_range_of_rewards_is_that_of_random_play_rounded_outwards(low, high, wanted):
    setting = setting_of(Shown(Discrete(3), low=low, high=high))
    assert (setting.rewards.low, setting.rewards.high) == wanted
    reason = setting.reasons["rewards"]
    assert reason.startswith("2002 steps of random play met ")
    up = ", and up to 1 in case larger ones exist" if high <= 0.5 else ""
    assert reason.endswith(f"; rounded outwards{up}; a reward outside widens the range")


SIZES = st.integers(-(10**9), 10**9).map(lambda number: number / 1e3)


@given(SIZES, SIZES)
def test_a_range_holds_all_that_it_was_made_of(one, other):
    for found in (
        rounded_range(min(one, other), max(one, other)),
        widened_range(widened_range(Rewards(), one), other),
    ):
        assert found.low <= min(one, other) <= max(one, other) <= found.high
        assert widened_range(found, one) is found
    there = widened_range(widened_range(Rewards(), one), other)
    assert there == widened_range(widened_range(Rewards(), other), one)


def test_a_wrapper_that_changes_rewards_is_not_asked_for_its_model():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    paid = TransformReward(lake, lambda reward: 10.0 * reward)
    assert setting_of(paid, horizon=20).reasons["rewards"].startswith("2")


def test_a_model_tells_the_range_exactly():
    setting = setting_of(gymnasium.make("CliffWalking-v1"), horizon=20)
    assert (setting.rewards.low, setting.rewards.high) == (-100.0, 0.0)
    assert setting.reasons["rewards"] == "by the environment's model"


# What is given wins.


def test_what_is_given_is_taken_as_it_is():
    features, rewards = OneHot(states=STATES, actions=2), Rewards(-1.0, 2.0)
    setting = setting_of(
        Walk(), features=features, horizon=9, rewards=rewards, actions=[2, 0], stages="own"
    )
    assert setting.features is features
    assert (setting.horizon, setting.rewards, setting.stages) == (9, rewards, "own")
    assert setting.actions == [2, 0]
    reasons = setting.reasons
    assert reasons["horizon"] == reasons["rewards"] == "as given"
    assert reasons["features"] == "one-hot of 6 states × 2 actions, as given"
    assert reasons["stages"] == "each learns from its own steps alone"
    assert set(reasons) == {"features", "horizon", "rewards", "actions", "stages"}


def test_nothing_is_played_where_all_is_given():
    world = Walk()
    setting_of(world, features=table(), horizon=5, rewards=(0, 1))
    assert not hasattr(world, "state")


def test_a_range_may_be_given_as_a_pair():
    setting = setting_of(Walk(), features=table(), horizon=5, rewards=(-2, 3))
    assert (setting.rewards.low, setting.rewards.high) == (-2.0, 3.0)


def test_a_function_may_be_given_for_features():
    def rows(state):
        return np.eye(STATES * ACTIONS)[state * ACTIONS + np.arange(ACTIONS)]

    found = setting_of(Walk(), features=rows, horizon=5).features
    assert (found.dim, found.actions) == (STATES * ACTIONS, ACTIONS)
    assert "unverified" not in found.name


def test_a_vector_environment_is_asked_through_its_copies():
    world = SyncVectorEnv([lambda: Walk("array")] * 2)
    ours, theirs = setting_of(world), setting_of(Walk("array"))
    assert ours.features.digest == theirs.features.digest
    assert (ours.horizon, ours.rewards) == (theirs.horizon, theirs.rewards)

    class Closed:
        """A vector environment that does not show its copies."""

        num_envs, metadata = 2, world.metadata
        reset, step = world.reset, world.step
        single_action_space = world.single_action_space
        single_observation_space = world.single_observation_space

    assert setting_of(Closed()).features.actions == theirs.features.actions
    world = SyncVectorEnv([Walk] * 2)
    setting = setting_of(world, horizon=5)
    assert setting.features.actions == ACTIONS
    learner = setting.learner(rs.EveryEpisode(), rs.Recipe.paper(beta=1.0))
    assert len(list(play(learner, world, setting.features, episodes=3))) == 3


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"horizon": 0}, ValueError, "horizon must be"),
        ({"horizon": 2.5}, TypeError, "horizon must be a whole number"),
        ({"rewards": 3}, TypeError, r"rewards must be Rewards\(low, high\) or a pair; got 3"),
        ({"rewards": (1, 2, 3)}, TypeError, "rewards must be .* or a pair"),
        ({"rewards": (1, "a")}, TypeError, "high must be a finite number; got 'a'"),
        ({"rewards": (2.0, 1.0)}, ValueError, "low must be at most high"),
        (
            {"stages": "both"},
            ValueError,
            "stages must be one of 'auto', 'own', 'shared'; got 'both'",
        ),
        (
            {"features": OneHot(states=STATES, actions=4)},
            ValueError,
            "features must have a row for each of 3 actions",
        ),
        ({"features": "no-such"}, ValueError, "features must be one of"),
        ({"seed": -1}, ValueError, "seed must be"),
    ],
)
def test_what_cannot_be_is_refused(settings, error, message):
    with pytest.raises(error, match=message):
        setting_of(Walk("array"), **settings)


@pytest.mark.parametrize("reward", [np.nan, np.inf, None, "1"])
def test_a_reward_in_random_play_that_is_no_number_is_told(reward):
    class Faulty(Walk):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, reward if self.time == 2 else 0.0, *rest

    with pytest.raises(
        WorldError, match=r"reward must be .* in random play \(episode \d+, step 1\)"
    ):
        setting_of(Faulty(ends=False))


def test_an_observation_of_another_shape_or_a_mask_of_nothing_is_told_with_its_step():
    class Faulty(Walk):
        fault = "shape"

        def step(self, action):
            observation, reward, ended, cut, info = super().step(action)
            if self.time == 2 and self.fault == "shape":
                observation = np.append(observation, 0.0)
            if self.time == 2 and self.fault == "mask":
                info = {"action_mask": np.zeros(3, bool)}
            return observation, reward, ended, cut, info

    where = r" in random play \(episode \d+, step 1\)"
    with pytest.raises(WorldError, match=r"observation must have shape .*, as in the .*" + where):
        setting_of(Faulty("array"))
    Faulty.fault = "mask"
    with pytest.raises(WorldError, match=r"must allow an action; all are forbidden.*" + where):
        setting_of(Faulty("array"))


def test_a_world_that_pays_nothing_in_random_play_still_gets_a_range():
    setting = setting_of(Shown(Discrete(3), low=0.0, high=0.0))
    assert (setting.rewards.low, setting.rewards.high) == (0.0, 1.0)


def test_the_learner_is_made_for_the_world():
    setting = setting_of(Walk("array"), features=blocks(), horizon=6, rewards=(-1.0, 3.0))
    recipe = rs.Recipe.paper(beta=0.5, seed=5)
    learner = setting.learner(rs.EveryEpisode(), recipe)
    task = rs.Task(
        dim=blocks().dim,
        horizon=6,
        feature_norm=blocks().norm,
        stages="auto",
        one_hot=False,
        end_reward=0.25,
        blocks=blocks().actions,
    )
    assert learner.task == setting.task() == task
    assert learner.recipe is recipe
    assert setting.learner(rs.EveryEpisode()).recipe == rs.Recipe()
    planned = replace(task, episodes=40)
    assert setting.learner(rs.UniformGrid(batches=2), episodes=40).task == planned
    assert setting.task(40) == planned


def test_rows_without_a_bound_are_divided_by_the_longest_of_random_play():
    def rows(state):
        return np.tile(3.0 * np.asarray(state), (ACTIONS, 1))

    setting = setting_of(Walk("array"), features=Custom(rows, actions=ACTIONS, dim=2), horizon=4)
    assert setting.features.norm == 1.0
    assert "the longest row in random play" in setting.reasons["features"]
