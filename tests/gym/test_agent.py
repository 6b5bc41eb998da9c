"""An agent acts as its policy does, and survives its bytes."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gym_worlds import ACTIONS, STATES, Walk, blocks, learner_for, masked_table, table
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch.features import Custom, OneHot, WithStage
from rareswitch.gym import Agent, Rewards, play, train
from rareswitch.support import codec

MAPS = {
    "table": table,
    "masks": masked_table,
    "rows": blocks,
    "stages": lambda: WithStage(table(), horizon=5),
}
EVERY_MAP = pytest.mark.parametrize("features", [make() for make in MAPS.values()], ids=MAPS)


def agent_of(features, mixture=True, **rest):
    learner = learner_for(features)
    policy = learner.policy if mixture else learner.recommend()
    return Agent(policy=policy, features=features, **rest)


def states_of(features):
    if features.one_hot:
        return list(range(STATES))
    return [np.array([s, t]) for s in (0.0, 3.0, 5.0) for t in (0.0, 2.0)]


def wanted_action(agent, state, h, key):
    mask = agent.features.feasible(state, h)
    rows = agent.features(state, h)
    allowed = np.arange(ACTIONS) if mask is None else np.flatnonzero(mask)
    return int(allowed[agent.policy.draw(key).act(h, rows[allowed])])


@EVERY_MAP
@pytest.mark.parametrize("mixture", [True, False], ids=["mixture", "single"])
def test_it_acts_as_the_member_of_its_policy(features, mixture):
    agent = agent_of(features, mixture)
    for key in (0, 7, "ada"):
        for state in states_of(features):
            acting = agent.begin(key)
            for h in range(5):
                assert acting.act(state) == wanted_action(agent, state, h, key)
            for _ in range(3):  # after the last stage
                assert acting.act(state) == wanted_action(agent, state, 0, key)


@EVERY_MAP
def test_predictions_are_actions_of_one_stage(features):
    agent, states = agent_of(features), states_of(features)
    for h, key in ((0, 0), (3, "ben")):
        found = agent.predict(states, h, key)
        assert found.dtype == np.int64
        assert found.tolist() == [wanted_action(agent, state, h, key) for state in states]
    assert agent.predict([]).shape == (0,)


@EVERY_MAP
def test_one_observation_gives_one_action_and_many_give_an_array(features):
    agent = agent_of(features)
    for state in states_of(features):
        action = agent.predict(state, 2, "ada")
        assert type(action) is int
        assert action == wanted_action(agent, state, 2, "ada")
    states = np.array(states_of(features))
    assert agent.predict(states, 1).tolist() == agent.predict(list(states), 1).tolist()
    assert agent.predict(states.astype(np.float32) if states.ndim > 1 else states).shape == (6,)


def test_predictions_are_actions_as_the_environment_takes_them():
    agent = agent_of(table(), actions=["off", "dim", "on"])
    assert agent.predict(0) in ("off", "dim", "on")
    assert agent.predict([0, 1]).tolist() == [agent.predict(0), agent.predict(1)]


def test_what_is_neither_one_observation_nor_many_is_refused_with_the_first_error():
    with pytest.raises(ValueError, match=r"state must have shape \(2,\); got \(4, 3\)"):
        agent_of(blocks()).predict(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="h must be from 0 to 4; got 5"):
        agent_of(table()).predict(0, 5)


def test_an_episode_longer_than_the_horizon_ends_with_the_last_stages():
    agent = agent_of(table(), mixture=False)
    acting = agent.begin(steps=8)
    stages = []
    for _ in range(8):
        stages.append(acting.stage)
        acting.act(0)
    assert stages == [0, 0, 0, 0, 1, 2, 3, 4]
    assert acting.stage == 0


def test_an_agent_needs_no_gymnasium():
    code = "import sys, rareswitch as rs; rs.Agent; print(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'rareswitch.agent'" in run.stdout
    assert "'gymnasium'" not in run.stdout
    assert "'rareswitch.gym'" not in run.stdout


def test_a_file_brings_the_same_agent_back(tmp_path):
    agent = agent_of(table(), rewards=Rewards(-1.0, 2.0))
    agent.save(tmp_path / "agent.bin")
    assert rs.Agent.load(str(tmp_path / "agent.bin")).to_bytes() == agent.to_bytes()
    assert rs.Agent is Agent
    assert repr(agent) == "Agent(one-hot of 6 states × 3 actions, mixture of 6, horizon 5)"


@EVERY_MAP
@given(st.integers(0, 10**6))
@settings(max_examples=5)
def test_bytes_bring_the_same_agent_back(features, key):
    agent = agent_of(features, rewards=Rewards(-1.0, 2.0))
    data = agent.to_bytes()
    copy = Agent.from_bytes(data)
    assert copy.to_bytes() == data
    assert copy.policy.digest == agent.policy.digest
    assert copy.features.digest == agent.features.digest
    assert (copy.rewards, copy.actions) == (agent.rewards, None)
    states = states_of(features)
    np.testing.assert_array_equal(copy.predict(states, 2, key), agent.predict(states, 2, key))


@pytest.mark.parametrize(
    "actions",
    [
        [5, 6, 7],
        [0.5, 0.25, -1.0],
        ["off", "dim", "on"],
        [np.array([0.1], np.float32), np.array([0.2], np.float32), np.array([0.3], np.float32)],
        [np.array([0, 1], np.int8), np.array([1, 1], np.int8), np.array([0, 0], np.int8)],
        [np.array([[1, 2]]), np.array([[3, 4]]), np.array([[5, 6]])],
        [np.int64(3), np.float32(0.1), True],
    ],
    ids=str,
)
def test_actions_are_handed_on_as_they_were(actions):
    agent = agent_of(table(), actions=actions)
    copy = Agent.from_bytes(agent.to_bytes())
    for state in range(STATES):
        handed, again = agent.begin(1).act(state), copy.begin(1).act(state)
        assert any(handed is action for action in actions)
        assert np.asarray(handed).dtype == np.asarray(again).dtype
        np.testing.assert_array_equal(handed, again)
        if isinstance(handed, int | float | str) and not isinstance(handed, np.generic):
            assert type(again) is type(handed)


def test_a_saved_agent_acts_in_a_world_of_real_actions():
    world = gymnasium.make("Pendulum-v1")
    recipe = rs.Recipe(exploration=rs.Ensemble(3))
    training = train(world, episodes=2, horizon=3, features="linear", recipe=recipe)
    copy = Agent.from_bytes(training.agent.to_bytes())
    observation, _ = world.reset(seed=1)
    acting = copy.begin()
    for _ in range(3):
        action = acting.act(observation)
        assert world.action_space.contains(action)
        observation, *_ = world.step(action)


@pytest.mark.parametrize("actions", [[{"a": 1}] * 3, [None] * 3, [(1, "b")] * 3])
def test_actions_that_are_neither_numbers_nor_texts_are_not_saved(actions):
    agent = agent_of(table(), actions=actions)
    assert agent.begin().act(0) == actions[0]
    with pytest.raises(TypeError, match="actions must be numbers, texts or arrays"):
        agent.to_bytes()


def test_an_agent_trained_where_actions_do_not_begin_at_0_hands_on_those_of_the_space():
    world = Walk(start=5)
    agent = train(world, episodes=10, horizon=4).agent
    for copy in (agent, Agent.from_bytes(agent.to_bytes())):
        observation, _ = world.reset(seed=2)
        acting = copy.begin()
        for _ in range(4):
            action = acting.act(observation)
            assert action in (5, 6, 7)
            observation, *_ = world.step(action)


def test_masks_are_heeded_beside_those_of_the_features():
    agent = agent_of(table(), mixture=False)
    for state in range(STATES):
        for only in range(ACTIONS):
            mask = np.arange(ACTIONS) == only
            assert agent.begin().act(state, mask) == only
            assert agent.begin().act(state, mask.astype(np.int8)) == only
    masked = agent_of(masked_table(), mixture=False)
    assert masked_table().feasible(1).tolist() == [True, False, True]
    assert masked.begin().act(1, np.array([False, True, True])) == 2


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (
            [True, False],
            r"mask must be booleans, .* of shape \(3,\); got bool of shape \(2,\): \[True, False\]",
        ),
        ([0.5, 1.0, 1.0], "mask must be booleans, or integers 0 and 1"),
        ("all", "mask must be booleans, or integers 0 and 1"),
        ([False] * 3, "mask must allow an action; all are forbidden in 0"),
    ],
)
def test_a_mask_that_is_none_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        agent_of(table()).begin().act(0, mask)


@EVERY_MAP
def test_predictions_heed_masks_for_one_observation_and_for_many(features):
    agent, states = agent_of(features, mixture=False), states_of(features)
    masks = np.array([np.arange(ACTIONS) != n % ACTIONS for n in range(len(states))])
    wanted = [agent.begin().act(state, mask) for state, mask in zip(states, masks, strict=True)]
    assert [agent.predict(s, mask=m) for s, m in zip(states, masks, strict=True)] == wanted
    assert agent.predict(states, mask=masks).tolist() == wanted
    assert agent.predict(states, mask=masks.astype(np.int8).tolist()).tolist() == wanted
    assert agent.predict(np.array(states), mask=masks).tolist() == wanted
    assert wanted != agent.predict(states).tolist()  # the masks matter


@pytest.mark.parametrize(
    ("observation", "mask", "message"),
    [
        (0, [True, False], r"mask must be booleans, .* of shape \(3,\); got bool of shape \(2,\)"),
        (0, [[True] * 3], r"mask must be booleans, .* of shape \(3,\); got bool of shape \(1, 3\)"),
        (0, [False] * 3, "mask must allow an action; all are forbidden in 0"),
        (
            [0, 1],
            [True] * 3,
            r"mask must be booleans, .* of shape \(2, 3\); got bool of shape \(3,",
        ),
        ([0, 1], [[True] * 3, [False] * 3], "mask must allow an action; all are forbidden in 1"),
        (np.array([0, 1]), [[True] * 3], r"mask must be booleans, .* of shape \(2, 3\)"),
    ],
)
def test_a_wrong_mask_of_a_prediction_is_refused(observation, mask, message):
    with pytest.raises(ValueError, match=message):
        agent_of(table()).predict(observation, mask=mask)


def test_it_plays_what_learning_played():
    features, world = masked_table(), Walk()
    learner = learner_for(features, switches=0, episodes=99)
    agent = Agent(policy=learner.policy, features=features)
    for game in play(learner, world, features, episodes=6):
        acting, log = agent.begin(game.number), game.trajectory
        assert [acting.act(log.observations[t]) for t in range(game.steps)] == log.actions.tolist()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"policy": 3}, TypeError, "policy must be a Policy; got 3"),
        (
            {"features": OneHot(states=7, actions=3)},
            ValueError,
            "features must have dim = 18 and one_hot = True, like the policy; got 21 and True",
        ),
        ({"features": table().dense()}, ValueError, "one_hot = True.*; got 18 and False"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, error, message):
    given = {"policy": learner_for(table()).policy, "features": table()} | changes
    with pytest.raises(error, match=message):
        Agent(**given)


def test_features_that_are_code_cannot_be_saved():
    def rows(state):
        return np.eye(18)[3 * state + np.arange(3)]

    agent = agent_of(Custom(rows, actions=3, dim=18))
    with pytest.raises(TypeError, match="code of your own, which has no bytes"):
        agent.to_bytes()

    class Own:
        dim, actions, one_hot, norm, name, digest = 18, 3, False, 1.0, "own", "0" * 64

        def __call__(self, state, h=0):
            return rows(state)

        def feasible(self, state, h=0):
            return None

    agent = agent_of(Own())
    assert agent.predict([0, 1]).shape == (2,)
    with pytest.raises(TypeError, match="features must be maps of this package to be saved"):
        agent.to_bytes()


@given(st.data())
@settings(max_examples=30)
def test_altered_bytes_are_refused(data):
    whole = agent_of(table(), actions=[5, 6, 7]).to_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(1, 255))
    altered = whole[:place] + bytes([whole[place] ^ byte]) + whole[place + 1 :]
    with pytest.raises(ValueError, match="data must"):
        Agent.from_bytes(altered)


@pytest.mark.parametrize("plain", [None, [1], {"dtype": "O", "values": [1]}, {"values": 1}, {}])
def test_actions_that_nothing_wrote_are_refused(plain):
    parts = codec.unpack("agent", agent_of(table(), actions=[1, 2, 3]).to_bytes())
    meta = parts.meta | {"actions": [plain] * 3}
    with pytest.raises(ValueError, match=r"data must be an? agent"):
        Agent.from_bytes(codec.pack("agent", meta, parts.arrays))


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match=r"data must hold an? agent; got a policy"):
        Agent.from_bytes(learner_for(table()).policy.to_bytes())
