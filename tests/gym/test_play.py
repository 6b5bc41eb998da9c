"""The loop of one learner in one environment is the one that anybody would write by hand."""

import itertools

import numpy as np
import pytest
from gym_worlds import (
    ACTIONS,
    STATES,
    Walk,
    blocks,
    learner_for,
    literal_play,
    masked_table,
    seed_of,
    table,
)
from gymnasium.wrappers import TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch.features import Masked, OneHot, WithStage
from rareswitch.gym import Rewards, play
from rareswitch.trajectories import episode_of

K = 24
CASES = {
    "table": (Walk, table),
    "rows": (lambda: Walk("array"), blocks),
    "told masks": (lambda: Walk(masked=True), table),
    "masks of features": (Walk, masked_table),
    "masks of both": (lambda: Walk(masked=True), masked_table),
    "dense masks": (lambda: Walk("array", masked=True), blocks),
    "cut off by the world": (lambda: Walk(limit=3), table),
    "never ends": (lambda: Walk(ends=False), table),
    "rows that never end": (lambda: Walk("array", ends=False), blocks),
    "a wrapper cuts it off": (lambda: TimeLimit(Walk(ends=False), 4), table),
    "actions from 5 on": (lambda: Walk(start=5), table),
    "stage in the features": (Walk, lambda: WithStage(table(), horizon=5)),
}
EVERY_CASE = pytest.mark.parametrize(("world", "features"), CASES.values(), ids=CASES)


def both(world, features, episodes=K, rewards=None, **changes):
    """Return learners and episodes of `play`, and of the loop written by hand."""
    ends = (rewards or Rewards()).end
    ours, theirs = (
        learner_for(features, episodes=episodes, end_reward=ends, **changes) for _ in range(2)
    )
    games = list(play(ours, world(), features, episodes=episodes, rewards=rewards))
    by_hand = list(literal_play(theirs, world(), features, episodes, rewards))
    return ours, theirs, games, by_hand


@EVERY_CASE
@pytest.mark.parametrize("stages", ["own", "shared"])
def test_play_is_the_loop_written_by_hand(world, features, stages):
    features = features()
    ours, theirs, games, by_hand = both(world, features, stages=stages)
    assert len(games) == len(by_hand) == K
    for game, (number, version, policy, told, taken, earned, ended, cut, switched) in zip(
        games, by_hand, strict=True
    ):
        assert (game.number, game.version, game.switched) == (number, version, switched)
        assert game.member == policy.allocate(number)
        assert (game.steps, game.total) == (len(taken), sum(earned))
        assert (game.terminated, game.truncated) == (ended, cut)
        trajectory = game.trajectory
        assert trajectory.actions.tolist() == taken
        assert trajectory.rewards.tolist() == earned
        assert episode_of(trajectory, features, horizon=ours.task.horizon) == told
    assert ours.snapshot() == theirs.snapshot()
    assert len(ours.ledger) > 3
    assert sum(game.switched for game in games) == len(ours.ledger) - 1


@EVERY_CASE
def test_a_trajectory_tells_the_share_of_members_that_would_have_played_it(world, features):
    features, world = features(), world()
    learner, policies = learner_for(features), {}
    policies[1] = learner.policy
    for game in play(learner, world, features, episodes=K):
        policies[len(learner.ledger)] = learner.policy
        trajectory = game.trajectory
        assert (trajectory.version, trajectory.member) == (game.version, game.member)
        assert (trajectory.key, len(trajectory)) == (game.number, game.steps)
        assert trajectory.terminated is game.terminated
        steps = []
        for t, action in enumerate(trajectory.actions.tolist()):
            state = trajectory.observations[t]
            mask = np.ones(ACTIONS, bool) if trajectory.masks is None else trajectory.masks[t]
            steps.append((features(state, t)[mask], int(mask[:action].sum())))
            likelihood = policies[game.version].likelihood(steps)
            assert trajectory.propensities[: t + 1].prod() == pytest.approx(likelihood, rel=1e-12)
            assert likelihood > 0.0
    assert len(policies) > 3


def test_mixtures_disagree_at_first_so_propensities_are_not_all_one():
    games = list(play(learner_for(table()), Walk(), table(), episodes=5))
    assert min(game.trajectory.propensities.min() for game in games) < 1.0


@given(
    st.integers(1, 7),
    st.sampled_from(list(CASES.values())[:9]),
    st.integers(0, 10**6),
    st.floats(-3.0, 0.0),
    st.floats(1.0, 4.0),
)
@settings(max_examples=25)
def test_any_horizon_seed_and_range_of_rewards(horizon, case, seed, low, high):
    world, features = case[0], case[1]()
    rewards = Rewards(low, high)
    arguments = {"horizon": horizon, "end_reward": rewards.end, "episodes": 8, "switches": 3}
    ours, theirs = (learner_for(features, **arguments) for _ in range(2))
    games = list(play(ours, world(), features, episodes=8, rewards=rewards, seed=seed))
    by_hand = list(literal_play(theirs, world(), features, 8, rewards, seed))
    assert ours.snapshot() == theirs.snapshot()
    for game, (*_, told, _, earned, _, _, _) in zip(games, by_hand, strict=True):
        assert game.total == sum(earned)
        assert 1 <= game.steps <= horizon
        assert game.terminated or game.truncated or game.steps == horizon
        assert episode_of(game.trajectory, features, rewards, horizon) == told


def test_masks_are_written_down_where_there_are_any():
    for world, features, masked in (
        (Walk(masked=True), table(), True),
        (Walk(), masked_table(), True),
        (Walk(), table(), False),
    ):
        for game in play(learner_for(features), world, features, episodes=5):
            trajectory = game.trajectory
            assert (trajectory.masks is not None) is masked
            if masked:
                assert trajectory.masks.shape == (game.steps + 1, ACTIONS)
                assert trajectory.masks[np.arange(game.steps), trajectory.actions].all()


def test_actions_that_are_handed_on_may_be_anything():
    class Lamp:
        """Earns 1 for "on"; nothing says which actions there are."""

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            assert action in ("off", "on", "dim")
            return 0, float(action == "on"), True, False, {}

    features = OneHot(states=1, actions=3)
    learner = learner_for(features, horizon=1, switches=5)
    words = ["off", "on", "dim"]
    games = list(play(learner, Lamp(), features, episodes=30, actions=words))
    assert sum(game.total for game in games[-10:]) >= 9
    assert [game.total for game in games] == [
        float(words[game.trajectory.actions[0]] == "on") for game in games
    ]


def test_some_of_the_numbered_actions_are_enough():
    features = OneHot(states=STATES, actions=2)
    handed = []

    class Told(Walk):
        def step(self, action):
            handed.append(action)
            return super().step(action)

    learner = learner_for(features)
    games = list(play(learner, Told(), features, episodes=10, actions=[2, 0]))
    assert set(handed) == {0, 2}
    taken = [int(action) for game in games for action in game.trajectory.actions]
    assert [[2, 0][action] for action in taken] == handed


def test_a_function_may_stand_for_features():
    def rows(state):
        return np.eye(STATES * ACTIONS)[state * ACTIONS + np.arange(ACTIONS)]

    ours, theirs = learner_for(table().dense()), learner_for(table().dense())
    list(play(ours, Walk(), rows, episodes=10))
    list(play(theirs, Walk(), table().dense(), episodes=10))
    assert ours.snapshot() == theirs.snapshot()


# The same again, and going on.


@EVERY_CASE
def test_the_same_seed_plays_the_same_bytes_and_another_does_not(world, features):
    features = features()

    def learnt(seed):
        learner = learner_for(features)
        games = list(play(learner, world(), features, episodes=K, seed=seed))
        return learner.snapshot(), [game.trajectory for game in games]

    (once, log), (again, same), (other, _) = learnt(4), learnt(4), learnt(5)
    assert once == again
    assert log == same
    assert once != other


def test_a_seed_may_be_of_a_round():
    worlds = [
        [g.total for g in play(learner_for(table()), Walk(), table(), episodes=K, seed=seed)]
        for seed in (7, (7, 0), (7, 1))
    ]
    assert worlds[0] == worlds[1] != worlds[2]


@EVERY_CASE
@pytest.mark.parametrize("restored", [False, True], ids=["kept", "restored"])
def test_stopping_anywhere_makes_no_difference(world, features, restored):
    features = features()
    never = learner_for(features, episodes=12)
    log = [g.trajectory for g in play(never, world(), features, episodes=12)]
    for stop in (0, 1, 4, 9, 12):
        learner = learner_for(features, episodes=12)
        first = play(learner, world(), features, episodes=12)
        seen = [game.trajectory for game in itertools.islice(first, stop)]
        first.close()
        assert learner.episodes == stop
        if restored:
            learner = rs.Learner.restore(learner.snapshot())
        seen += [g.trajectory for g in play(learner, world(), features, episodes=12)]
        assert seen == log
        assert learner.snapshot() == never.snapshot()


def test_nothing_is_played_before_it_is_asked_for_nor_after_enough():
    learner, world = learner_for(table()), Walk()
    games = play(learner, world, table(), episodes=3)
    assert not hasattr(world, "state")
    next(games)
    assert learner.episodes == 1
    assert [game.number for game in games] == [2, 3]
    assert list(play(learner, world, table(), episodes=3)) == []
    assert list(play(learner, world, table(), episodes=0)) == []
    assert learner.episodes == 3


def test_episodes_of_a_warm_start_are_not_among_those_played():
    games = play(learner_for(table()), Walk(), table(), episodes=9)
    log = [episode_of(game.trajectory, table(), horizon=5) for game in games]
    learner = learner_for(table(), warm_start=log)
    games = list(play(learner, Walk(), table(), episodes=4))
    assert [game.number for game in games] == [1, 2, 3, 4]


def test_a_policy_deployed_by_hand_plays_the_next_episode():
    learner = learner_for(table(), switches=0, episodes=100)
    games = play(learner, Walk(), table(), episodes=4)
    assert next(games).version == 1
    learner.deploy(learner.fit())
    game = next(games)
    assert game.version == 2
    assert game.member == learner.policy.allocate(game.number)


def test_episodes_are_seeded_by_their_numbers():
    seeds = []

    class Noted(Walk):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed, options=options)

    list(play(learner_for(table()), Noted(), table(), episodes=6, seed=11))
    assert seeds == [seed_of(k, 11) for k in range(1, 7)]
    assert len(set(seeds)) == 6
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds)


def test_a_game_shows_itself_in_a_line():
    games = list(play(learner_for(table(), episodes=4, switches=1), Walk(), table(), episodes=4))
    assert repr(games[0]).startswith("Played(episode 1, version 1, return ")
    assert repr(games[1]).endswith("steps, switched)")
    assert games[1].switched
    assert games[2].version == 2


# What does not fit together.


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"learner": "learner"}, TypeError, "learner must be a Learner; got 'learner'"),
        ({"world": None}, TypeError, "world must have Gymnasium's reset and step; got None"),
        ({"world": Walk}, TypeError, "world must have Gymnasium's reset and step; got <class"),
        ({"episodes": -1}, ValueError, "episodes must be at least 0; got -1"),
        ({"episodes": 2.5}, TypeError, "episodes must be a whole number.*; got 2.5"),
        ({"seed": "a"}, TypeError, "seed must be a whole number"),
        ({"rewards": (0, 1)}, TypeError, r"rewards must be Rewards\(low, high\); got \(0, 1\)"),
        (
            {"rewards": Rewards(-1.0, 1.0)},
            ValueError,
            "learner must have a task with end_reward=0.5.*; got 0.0",
        ),
        (
            {"features": OneHot(states=STATES, actions=4)},
            ValueError,
            "features must have a row for each of 3 actions; got one-hot of 6 states × 4 actions",
        ),
        (
            {"features": OneHot(states=7, actions=3)},
            ValueError,
            "features must have dim = 18 and one_hot = True, as the learner's task has; got "
            "21 and True",
        ),
        ({"features": table().dense()}, ValueError, "one_hot = True.*; got 18 and False"),
        (
            {"features": 3},
            TypeError,
            "features must be a feature map, or a function from a state to rows; got 3",
        ),
        ({"actions": [0, 1]}, ValueError, "features must have a row for each of 2 actions"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_played(changes, error, message):
    learner = learner_for(table())
    given = {"learner": learner, "world": Walk(), "features": table(), "episodes": 5} | changes
    with pytest.raises(error, match=message):
        play(**given)
    assert learner.episodes == 0


def test_what_the_learner_refuses_is_told_with_the_episode():
    class Longer:
        """Rows that outgrow the learner's bound in the third episode."""

        dim, actions, one_hot, norm, name, digest = 1, ACTIONS, False, 9.0, "longer", "0" * 64
        calls = 0

        def __call__(self, state, h=0):
            return np.full((ACTIONS, 1), 1.0 if self.calls < 2 else 5.0)

        def feasible(self, state, h=0):
            return None

    features = Longer()
    learner = learner_for(features, feature_norm=2.0, horizon=2)
    games = play(learner, Walk(ends=False), features, episodes=9)
    for features.calls in (0, 1):
        next(games)
    features.calls = 2
    with pytest.raises(ValueError, match="no longer than feature_norm = 2") as caught:
        next(games)
    assert caught.value.__notes__ == ["in episode 3, of 2 steps"]
    assert learner.episodes == 2
    features.calls = 0
    assert [game.number for game in play(learner, Walk(), features, episodes=4)] == [3, 4]


def test_masks_of_features_and_of_the_world_must_both_allow():
    learner = learner_for(table())
    other = Masked(table(), np.roll(masked_table().mask, 1, axis=1))
    for game in play(learner, Walk(masked=True), other, episodes=12):
        told, state = game.trajectory, game.trajectory.observations
        for t in range(game.steps):
            wanted = masked_table().mask[state[t]] & other.mask[state[t]]
            assert told.masks[t].tolist() == wanted.tolist()
