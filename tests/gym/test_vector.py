"""All copies of a vector environment play the episodes that a single one would."""

import itertools

import gymnasium
import numpy as np
import pytest
from gym_worlds import ACTIONS, STATES, Walk, blocks, learner_for, literal_episode, seed_of, table
from gymnasium.spaces import Box
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch.features import Custom
from rareswitch.gym import Agent, WorldError, evaluate, play, train
from rareswitch.gym.vector import answer_of_copy, info_of_copy, of_copy, stacked

MODES = list(AutoresetMode)
EVERY_MODE = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


def by_place(shown):
    """Return dense features of walks that show dicts or tuples."""

    def rows(state):
        place = state["at"] if shown == "dict" else state[0]
        return np.eye(STATES * ACTIONS)[place * ACTIONS + np.arange(ACTIONS)]

    return Custom(rows, actions=ACTIONS, dim=STATES * ACTIONS, norm=1.0)


CASES = {
    "numbers": ({}, table),
    "arrays": ({"shown": "array"}, blocks),
    "dicts": ({"shown": "dict"}, lambda: by_place("dict")),
    "tuples": ({"shown": "tuple"}, lambda: by_place("tuple")),
    "masks": ({"masked": True}, table),
    "masks with arrays": ({"masked": True, "shown": "array"}, blocks),
    "cut off": ({"limit": 3}, table),
    "cut off, with masks": ({"limit": 3, "masked": True}, table),
    "arrays cut off": ({"limit": 3, "shown": "array"}, blocks),
    "never ends": ({"ends": False}, table),
    "actions from 2 on": ({"start": 2}, table),
}


def vector_of(copies, mode=AutoresetMode.NEXT_STEP, kind=SyncVectorEnv, **arguments):
    return kind([lambda: Walk(**arguments)] * copies, autoreset_mode=mode)


def in_rounds(learner, world, features, episodes, copies):
    """Play by hand in rounds of so many episodes, each round under one policy."""
    log = []
    while learner.episodes < episodes:
        policy, first = learner.policy, learner.episodes + 1
        told = [
            literal_episode(policy, world, features, number)[0]
            for number in range(first, min(first + copies, episodes + 1))
        ]
        log += told
        for one in told[:-1]:
            learner.absorb(one)
        if len(told) == copies:
            learner.observe(told[-1])
        else:
            learner.absorb(told[-1])
    return log


@EVERY_MODE
@pytest.mark.parametrize(("arguments", "features"), CASES.values(), ids=CASES)
def test_copies_play_what_one_environment_plays_under_the_same_policies(mode, arguments, features):
    features, copies, episodes = features(), 4, 18  # the last round is not full
    ours, theirs = (learner_for(features, episodes=20) for _ in range(2))
    games = list(play(ours, vector_of(copies, mode, **arguments), features, episodes=episodes))
    in_rounds(theirs, Walk(**arguments), features, episodes, copies)
    assert ours.snapshot() == theirs.snapshot()
    assert len(ours.ledger) > 2
    assert [game.number for game in games] == list(range(1, episodes + 1))
    assert {game.number % copies for game in games if game.switched} == {0}
    alone = learner_for(features, switches=0, episodes=99)
    first = [game.trajectory for game in play(alone, Walk(**arguments), features, episodes=copies)]
    assert [game.trajectory for game in games[:copies]] == first


@EVERY_MODE
@pytest.mark.parametrize("name", ["dicts", "cut off, with masks"])
def test_copies_in_processes_of_their_own(mode, name):
    arguments, features = CASES[name]
    features = features()
    ours, theirs = (learner_for(features, episodes=12) for _ in range(2))
    world = vector_of(3, mode, AsyncVectorEnv, **arguments)
    try:
        list(play(ours, world, features, episodes=8))
    finally:
        world.close()
    in_rounds(theirs, Walk(**arguments), features, 8, 3)
    assert ours.snapshot() == theirs.snapshot()


def test_observations_that_are_not_copied_by_the_vector_environment_are_kept_as_they_were():
    features = blocks()
    logs = []
    for copy in (True, False):
        world = SyncVectorEnv([lambda: Walk("array")] * 3, copy=copy)
        games = play(learner_for(features), world, features, episodes=9)
        logs.append([game.trajectory for game in games])
    assert logs[0] == logs[1]


@EVERY_MODE
@pytest.mark.parametrize("restored", [False, True], ids=["kept", "restored"])
def test_stopping_within_a_round_makes_no_difference(mode, restored):
    features, copies = table(), 4
    never = learner_for(features, episodes=14)
    log = [g.trajectory for g in play(never, vector_of(copies, mode), features, episodes=14)]
    for stop in (1, 3, 4, 6, 13):
        learner = learner_for(features, episodes=14)
        games = play(learner, vector_of(copies, mode), features, episodes=14)
        seen = [game.trajectory for game in itertools.islice(games, stop)]
        games.close()
        assert learner.episodes == stop
        if restored:
            learner = rs.Learner.restore(learner.snapshot())
        seen += [
            g.trajectory for g in play(learner, vector_of(copies, mode), features, episodes=14)
        ]
        assert seen == log
        assert learner.snapshot() == never.snapshot()


def test_asking_for_more_later_is_asking_for_all_at_once():
    at_once, bit_by_bit = learner_for(table(), episodes=13), learner_for(table(), episodes=13)
    list(play(at_once, vector_of(4), table(), episodes=13))
    for episodes in (2, 3, 9, 13):
        list(play(bit_by_bit, vector_of(4), table(), episodes=episodes))
    assert at_once.snapshot() == bit_by_bit.snapshot()


@given(st.integers(1, 5), st.integers(1, 12), st.sampled_from(MODES), st.sampled_from(list(CASES)))
@settings(max_examples=30)
def test_any_number_of_copies_and_episodes(copies, episodes, mode, name):
    arguments, features = CASES[name]
    features = features()
    ours, theirs = (
        learner_for(features, schedule=rs.EveryEpisode(), horizon=4, episodes=None)
        for _ in range(2)
    )
    games = list(play(ours, vector_of(copies, mode, **arguments), features, episodes=episodes))
    log = in_rounds(theirs, Walk(**arguments), features, episodes, copies)
    assert ours.snapshot() == theirs.snapshot()
    assert [game.steps for game in games] == [len(episode) for episode in log]


def test_an_episode_is_played_in_the_copy_of_its_number():
    class Noted(Walk):
        def __init__(self, copy, seeds):
            super().__init__()
            self.copy, self.seeds = copy, seeds

        def reset(self, *, seed=None, options=None):
            if seed is not None:
                self.seeds.append((self.copy, seed))
            return super().reset(seed=seed, options=options)

    seeds, learner = [], learner_for(table())
    world = SyncVectorEnv([lambda i=i: Noted(i, seeds) for i in range(3)])
    games = play(learner, world, table(), episodes=6)
    next(games)
    games.close()
    seeds.clear()
    list(play(learner, world, table(), episodes=3))
    assert seeds == [(i, seed_of(i + 1)) for i in range(3)]


@pytest.mark.filterwarnings("error")
@EVERY_MODE
def test_copies_with_nothing_to_play_are_handed_feasible_actions(mode):
    """A masked walk refuses others, and both its masks and those of features are heeded."""
    learner = learner_for(table(), horizon=12)
    world = vector_of(6, mode, masked=True)
    list(play(learner, world, table(), episodes=7))
    assert learner.episodes == 7


@EVERY_MODE
def test_an_ended_copy_may_show_whatever_it_likes(mode):
    class Exhausted(Walk):
        """Nothing is feasible once it has ended."""

        def info(self):
            over = self.state == STATES - 1
            return {"action_mask": np.full(ACTIONS, not over)}

    ours, theirs = learner_for(table(), horizon=8), learner_for(table(), horizon=8)
    world = SyncVectorEnv([Exhausted] * 4, autoreset_mode=mode)
    list(play(ours, world, table(), episodes=8))
    list(play(theirs, vector_of(4, mode), table(), episodes=8))
    assert ours.snapshot() == theirs.snapshot()


@EVERY_MODE
def test_a_fault_in_a_copy_is_told_by_its_episode(mode):
    class Faulty(Walk):
        def __init__(self, copy):
            super().__init__(ends=False)
            self.copy = copy

        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, 2.0 if self.copy == 2 and self.time == 3 else reward, *rest

    learner = learner_for(table())
    world = SyncVectorEnv([lambda i=i: Faulty(i) for i in range(4)], autoreset_mode=mode)
    with pytest.raises(WorldError, match=r"got 2.0: .* \(episode 3, step 2\)") as caught:
        list(play(learner, world, table(), episodes=8))
    assert (caught.value.episode, caught.value.step) == (3, 2)
    assert learner.episodes == 0
    assert len(list(play(learner, vector_of(4, mode), table(), episodes=8))) == 8


def test_a_bad_first_observation_in_a_copy_is_told_by_its_episode():
    class Faulty(Walk):
        def __init__(self, copy):
            super().__init__("array")
            self.copy = copy

        def reset(self, **rest):
            observation, info = super().reset(**rest)
            return observation * (np.nan if self.copy == 1 else 1.0), info

    world = SyncVectorEnv([lambda i=i: Faulty(i) for i in range(3)])
    with pytest.raises(WorldError, match=r"observation must be finite.*\(episode 2, step 0\)"):
        list(play(learner_for(blocks()), world, blocks(), episodes=3))


@pytest.mark.parametrize(
    ("part", "message"),
    [("reset", r"reset must return \(observation, info\).* \(episode 1, step 0\)"),
     ("step", r"step must return .observation, reward, .*, step 0\)")],
)  # fmt: skip
def test_answers_of_another_size_are_told(part, message):
    class Short(SyncVectorEnv):
        def reset(self, **rest):
            return super().reset(**rest)[: 1 if part == "reset" else 2]

        def step(self, actions):
            return super().step(actions)[:4]

    with pytest.raises(WorldError, match=message):
        list(play(learner_for(table()), Short([Walk] * 2), table(), episodes=4))


def test_an_error_in_a_copy_passes_through_with_a_note():
    class Faulty(Walk):
        def step(self, action):
            raise OSError("the wire is cut")

    world = SyncVectorEnv([Faulty] * 2)
    with pytest.raises(OSError, match="the wire is cut") as caught:
        list(play(learner_for(table()), world, table(), episodes=4))
    assert caught.value.__notes__[-1].startswith("in episode ")


def test_copies_with_one_seed_for_all_are_refused_with_the_way_out():
    own = gymnasium.make_vec("CartPole-v1", num_envs=4)  # its own vector environment
    told = r"CartPoleVectorEnv has one seed for all copies .*vectorization_mode=\"sync\""
    with pytest.raises(ValueError, match=told):
        train(own, episodes=8, horizon=10)
    copies = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync")
    assert len(train(copies, episodes=8, horizon=10).totals) == 8


def test_real_actions_are_stacked():
    class Slides(Walk):
        """Moves by a number from 0 to 2."""

        def __init__(self):
            super().__init__()
            self.action_space = Box(0.0, 2.0, (1,), np.float64)
            self.moves = []

        def step(self, action):
            assert action.shape == (1,)
            self.action_space.start = 0
            return super().step(round(float(action[0])))

    handed = [np.array([0.0]), np.array([1.0]), np.array([2.0])]
    ours, theirs = learner_for(table()), learner_for(table())
    list(play(ours, SyncVectorEnv([Slides] * 3), table(), episodes=9, actions=handed))
    list(play(theirs, vector_of(3), table(), episodes=9))
    assert ours.snapshot() == theirs.snapshot()


def test_an_evaluation_in_copies_is_one_in_a_single_environment():
    learner = learner_for(table())
    list(play(learner, Walk(), table(), episodes=20))
    agent = Agent(policy=learner.policy, features=table())
    alone = evaluate(agent, Walk(), episodes=11)
    for mode in MODES:
        together = evaluate(agent, vector_of(4, mode), episodes=11)
        np.testing.assert_array_equal(together.totals, alone.totals)


def test_last_observations_without_their_mask_are_refused():
    class Unmasked(SyncVectorEnv):
        def step(self, actions):
            *answer, infos = super().step(actions)
            return *answer, {name: part for name, part in infos.items() if name != "_final_obs"}

    world = Unmasked([Walk] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(WorldError, match=r"must come with the mask infos\['_final_obs'\]"):
        list(play(learner_for(table()), world, table(), episodes=8))


# The parts.


def test_observations_of_a_copy_keep_their_form():
    shown = {"a": np.arange(6).reshape(3, 2), "b": (np.array([7, 8, 9]), ("x", "y", "z"))}
    found = of_copy({"a": shown["a"], "b": (shown["b"][0], np.array(["x", "y", "z"]))}, 1)
    assert found["a"].tolist() == [2, 3]
    assert (found["b"][0], found["b"][1]) == (8, "y")


def test_what_a_copy_did_not_tell_is_not_in_its_info():
    infos = {
        "mask": np.array([[1, 0], [0, 1]]),
        "_mask": np.array([True, False]),
        "inner": {"n": np.array([3, 4]), "_n": np.array([False, True])},
        "_inner": np.array([True, True]),
        "loose": 5,
    }
    first, second = info_of_copy(infos, 0), info_of_copy(infos, 1)
    assert first["mask"].tolist() == [1, 0]
    assert first["inner"] == {}
    assert second == {"inner": {"n": 4}}


def test_a_copy_that_began_anew_at_once_answers_with_its_last_observation():
    infos = {
        "action_mask": np.array([[1, 1], [0, 1]]),
        "_action_mask": np.array([True, True]),
        "final_obs": np.array([None, 5], object),
        "_final_obs": np.array([False, True]),
        "final_info": {
            "action_mask": np.array([[0, 0], [1, 0]]),
            "_action_mask": np.array([False, True]),
        },
        "_final_info": np.array([False, True]),
    }
    answer = (np.array([1, 2]), np.array([0.5, 0.25]), [False, True], [False, False], infos)
    assert answer_of_copy(answer, 0)[:4] == (1, 0.5, False, False)
    assert answer_of_copy(answer, 0)[4]["action_mask"].tolist() == [1, 1]
    observation, reward, terminated, truncated, info = answer_of_copy(answer, 1)
    assert (observation, reward, terminated, truncated) == (5, 0.25, True, False)
    assert info["action_mask"].tolist() == [1, 0]


def test_actions_of_several_parts_are_stacked_part_by_part():
    found = stacked([{"go": 0, "at": (1, [0.5])}, {"go": 1, "at": (2, [0.25])}])
    assert found["go"].tolist() == [0, 1]
    assert found["at"][0].tolist() == [1, 2]
    assert found["at"][1].tolist() == [[0.5], [0.25]]
