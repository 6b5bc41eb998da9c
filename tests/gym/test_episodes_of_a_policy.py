"""Environments that break their contract are told where; what was learnt before is kept."""

import numpy as np
import pytest
from gym_worlds import ACTIONS, STATES, Walk, blocks, learner_for, masked_table, table
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

import rareswitch as rs
from rareswitch.features import Custom, OneHot
from rareswitch.gym import Rewards, WorldError, play
from rareswitch.gym.rollout import PolicyActor as Actor
from rareswitch.gym.rollout import Seen, action_count, action_space
from rareswitch.gym.rollout import rollout_of as rollout_with
from rareswitch.support.streams import Stream

BAD_EPISODE, BAD_STEP = 3, 1


class Faulty(Walk):
    """A walk that does something else in one step of one episode, unless it was mended.

    `reset` and `step` are functions of the honest answer.
    """

    def __init__(self, *, reset=None, step=None, at=BAD_STEP, **rest):
        super().__init__(**{"ends": False} | rest)
        self.bad_reset, self.bad_step, self.at = reset, step, at
        self.episode, self.mended = 0, False

    @property
    def broken(self):
        return self.episode == BAD_EPISODE and not self.mended

    def reset(self, **rest):
        self.episode += 1
        answer = super().reset(**rest)
        return self.bad_reset(answer) if self.broken and self.bad_reset else answer

    def step(self, action):
        answer = super().step(action)
        here = self.time - 1 == self.at
        return self.bad_step(answer) if self.broken and self.bad_step and here else answer


def replaced(**parts):
    """Return an answer of `step` with other parts."""
    names = ("observation", "reward", "terminated", "truncated", "info")

    def changed(answer):
        return tuple((dict(zip(names, answer, strict=True)) | parts).values())

    return changed


def assert_told_and_kept(world, features, error, message):
    """Play into the fault, and on after it is mended, as if it had never been there."""
    learner, honest = (learner_for(features, episodes=8) for _ in range(2))
    with pytest.raises(error, match=message) as caught:
        list(play(learner, world, features, episodes=8))
    assert learner.episodes == BAD_EPISODE - 1
    world.mended, arguments = True, {"shown": world.shown, "masked": world.masked, "ends": False}
    numbers = [game.number for game in play(learner, world, features, episodes=8)]
    assert numbers == list(range(BAD_EPISODE, 9))
    list(play(honest, Walk(**arguments), features, episodes=8))
    assert learner.snapshot() == honest.snapshot()
    return caught.value


NAN = np.array([0.0, np.nan])
BROKEN_STEPS = {
    "an observation that is not finite": (
        {"observation": NAN},
        "observation must be finite; got nan at index",
    ),
    "an infinite one": (
        {"observation": [np.inf, 0.0]},
        "observation must be finite; got inf",
    ),
    "of another shape": ({"observation": np.zeros(3)}, r"state must have shape \(2,\); got \(3,\)"),
    "nothing": ({"observation": None}, "observation must be a number, a text, an array of numbers"),
    "text": ({"observation": "left"}, "state must be an array of real numbers; got 'left'"),
    "a last observation that is not finite": (
        {"observation": NAN, "terminated": True},
        "observation must be finite; got nan",
    ),
    "a reward above the range": ({"reward": 1.5}, "reward must be from 0 to 1; got 1.5: give the"),
    "a reward below": ({"reward": -0.1}, "reward must be from 0 to 1; got -0.1"),
    "a reward that is no number": ({"reward": np.nan}, "reward must be a finite number; got nan"),
    "an infinite reward": ({"reward": -np.inf}, "reward must be a finite number; got -inf"),
    "no reward": ({"reward": None}, "reward must be a number; got None"),
    "a reward in words": ({"reward": "1.0"}, "reward must be a number; got '1.0'"),
    "several rewards": (
        {"reward": np.ones(2)},
        r"reward must be a number; got array\(\[1., 1.\]\)",
    ),
    "a complex reward": ({"reward": 1j}, "reward must be a number; got 1j"),
    "no info": ({"info": None}, "step must return .observation, reward, terminated, truncated, in"),
    "a mask for other actions": (
        {"info": {"action_mask": [1, 0]}},
        r"info\['action_mask'\] must be booleans.* \(3,\); got int64 of shape \(2,\): \[1, 0\]",
    ),
    "a mask of numbers": (
        {"info": {"action_mask": [0.5, 0.5, 0.0]}},
        r"info\['action_mask'\] must be booleans, or integers 0 and 1",
    ),
    "no mask in its place": (
        {"info": {"action_mask": None}},
        r"info\['action_mask'\] must be booleans.*: None",
    ),
    "nothing feasible": (
        {"info": {"action_mask": np.zeros(3, np.int8)}},
        r"info\['action_mask'\] must allow an action; all are forbidden in",
    ),
    "many ends": ({"terminated": np.array([True, False])}, "truth value of an array"),
}


@pytest.mark.parametrize(("parts", "message"), BROKEN_STEPS.values(), ids=BROKEN_STEPS)
def test_a_broken_step_is_told_by_episode_and_step(parts, message):
    world = Faulty(shown="array", step=replaced(**parts))
    place = rf" \(episode {BAD_EPISODE}, step {BAD_STEP}\)$"
    error = assert_told_and_kept(world, blocks(), WorldError, f"{message}.*{place}")
    assert (error.episode, error.step) == (BAD_EPISODE, BAD_STEP)
    assert isinstance(error, ValueError)
    assert isinstance(error.__cause__, TypeError | ValueError)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (STATES, "state must be from 0 to 5; got 6"),
        (-1, "state must be from 0 to 5; got -1"),
        (2.0, "state must be a whole number; got 2.0"),
        (np.float64(2.0), "state must be a whole number"),
        ("2", "state must be a whole number; got '2'"),
        (None, "observation must be a number, a text, an array of numbers"),
    ],
)
def test_a_state_outside_of_the_space_is_told(state, message):
    world = Faulty(step=replaced(observation=state))
    assert_told_and_kept(world, table(), WorldError, message)


@pytest.mark.parametrize("size", [0, 2, 3, 4, 6])
def test_answers_of_another_size_are_told(size):
    """Four parts are what Gymnasium's predecessor returned."""
    world = Faulty(step=lambda answer: (*answer, None)[:size])
    assert_told_and_kept(world, table(), WorldError, "step must return .observation, reward, term")


def test_an_answer_that_is_no_tuple_is_told():
    world = Faulty(step=list)
    assert_told_and_kept(world, table(), WorldError, "step must return .*, as in Gymnasium; got .")


@pytest.mark.parametrize(
    "answer",
    [lambda answer: answer[0], lambda answer: (answer[0], None), lambda answer: (*answer, 1), list],
    ids=["no info", "None for info", "three parts", "a list"],
)
def test_a_reset_that_returns_something_else_is_told(answer):
    world = Faulty(reset=answer)
    message = rf"reset must return \(observation, info\).* \(episode {BAD_EPISODE}, step 0\)"
    assert_told_and_kept(world, table(), WorldError, message)


def test_a_mask_under_another_key_is_told():
    world = Faulty(reset=lambda answer: (answer[0], {"action_masks": [1, 0, 1]}))
    message = r"got action_masks: did you mean action_mask\? \(episode"
    assert_told_and_kept(world, table(), WorldError, message)


def test_a_first_observation_outside_of_the_space_is_told():
    world = Faulty(reset=lambda answer: (STATES, {}))
    assert_told_and_kept(world, table(), WorldError, rf"got 6 \(episode {BAD_EPISODE}, step 0\)")


class OwnError(Exception):
    """An error that no library knows."""


def raising(error):
    def answer(_):
        raise error

    return answer


@pytest.mark.parametrize("kind", [OwnError, ValueError, TypeError, StopIteration])
@pytest.mark.parametrize("part", ["reset", "step"])
def test_an_error_of_the_environment_passes_through_with_a_note(part, kind):
    error = kind("broken")
    expected = RuntimeError if kind is StopIteration else kind  # no generator may raise this one
    caught = assert_told_and_kept(Faulty(**{part: raising(error)}), table(), expected, None)
    assert (caught.__cause__ if kind is StopIteration else caught) is error
    step = BAD_STEP if part == "step" else 0
    assert error.__notes__ == [f"in episode {BAD_EPISODE}, step {step}"]


def test_an_error_of_the_features_passes_through_with_a_note():
    world = Walk(ends=False)

    def rows(state):
        if state == 4:
            raise KeyError(state)
        return np.eye(ACTIONS)

    learner = learner_for(Custom(rows, actions=ACTIONS, dim=ACTIONS))
    with pytest.raises(KeyError) as caught:
        list(play(learner, world, rows, episodes=50))
    (note,) = caught.value.__notes__
    place = f"in episode {learner.episodes + 1}, step "
    assert note.startswith(f"in the features rows, unverified, {place}")


def test_an_error_inside_features_is_not_blamed_on_the_environment():
    class Own:
        dim, actions, one_hot, norm, name, digest = 3, ACTIONS, False, 2.0, "own", "0" * 64

        def feasible(self, state, h=0):
            return None

    class Wrong(Own):
        def __call__(self, state, h=0):
            return np.eye(ACTIONS).reshape(2, 7)

    with pytest.raises(ValueError, match="reshape") as caught:
        list(play(learner_for(Wrong()), Walk(), Wrong(), episodes=3))
    assert not isinstance(caught.value, WorldError)
    (note,) = caught.value.__notes__
    assert note.startswith("in the features own")
    assert note.endswith("in episode 1, step 0")


def test_an_interruption_passes_through_as_it_is_and_leaves_the_learner_whole():
    world = Faulty(step=raising(KeyboardInterrupt()))
    caught = assert_told_and_kept(world, table(), KeyboardInterrupt, None)
    assert not hasattr(caught, "__notes__")


@pytest.mark.parametrize(
    "reward",
    [1, True, np.float32(0.5), np.int8(1), np.array(0.25), np.array([0.25]), np.bool(True)],
    ids=repr,
)
def test_rewards_may_be_any_single_number(reward):
    class Paid(Walk):
        def step(self, action):
            return replaced(reward=reward)(super().step(action))

    for game in play(learner_for(table()), Paid(), table(), episodes=3):
        assert game.total == game.steps * float(np.ravel(reward)[0])
        assert isinstance(game.total, float)


def test_rewards_may_miss_their_range_by_rounding():
    class Rounded(Walk):
        def step(self, action):
            return replaced(reward=1.0 + 1e-12)(super().step(action))

    learner = learner_for(table())
    games = list(play(learner, Rounded(), table(), episodes=3))
    assert learner.episodes == 3
    assert all(game.total > game.steps for game in games)


def test_a_world_that_never_ends_is_cut_off_at_the_horizon():
    learner = learner_for(table(), horizon=7)
    for game in play(learner, Walk(ends=False), table(), episodes=5):
        assert (game.steps, game.terminated, game.truncated) == (7, False, False)
        assert len(game.trajectory.observations) == 8


def test_an_observation_that_the_world_changes_later_is_kept_as_it_was():
    class Reused(Walk):
        """Shows the same arrays again and again, with other numbers in them."""

        def __init__(self, shown):
            super().__init__(shown)
            self.kept = {"array": np.zeros(2), "time": np.zeros(1)}

        def observation(self):
            shown = super().observation()
            if self.shown == "array":
                self.kept["array"][:] = shown
                return self.kept["array"]
            self.kept["time"][:] = shown["time"]
            return {"at": shown["at"], "time": self.kept["time"]}

    for shown, features in (("array", blocks()), ("dict", by_place())):
        logs = [
            [g.trajectory for g in play(learner_for(features), world, features, episodes=6)]
            for world in (Reused(shown), Walk(shown))
        ]
        assert logs[0] == logs[1]


def by_place():
    """Return features of walks that show dicts."""

    def rows(shown):
        return np.eye(STATES * ACTIONS)[shown["at"] * ACTIONS + np.arange(ACTIONS)]

    return Custom(rows, actions=ACTIONS, dim=STATES * ACTIONS, norm=1.0)


def test_a_mask_that_the_world_changes_later_is_kept_as_it_was():
    class Reused(Walk):
        def __init__(self):
            super().__init__(masked=True)
            self.mask = np.zeros(ACTIONS, bool)

        def info(self):
            self.mask[:] = super().info()["action_mask"]
            return {"action_mask": self.mask}

    logs = [
        [g.trajectory for g in play(learner_for(table()), world, table(), episodes=6)]
        for world in (Reused(), Walk(masked=True))
    ]
    assert logs[0] == logs[1]


def test_an_action_space_that_changes_between_episodes_is_told():
    world = Walk()
    learner = learner_for(table())
    games = play(learner, world, table(), episodes=9)
    next(games)
    world.action_space = Discrete(ACTIONS + 1)
    with pytest.raises(WorldError, match=r"must keep its 3 actions; it has 4 now \(episode 2"):
        next(games)
    world.action_space = Discrete(ACTIONS)
    assert [game.number for game in play(learner, world, table(), episodes=3)] == [2, 3]


# Which actions there are.


class Spaced:
    def __init__(self, space):
        self.action_space = space


@pytest.mark.parametrize(
    ("space", "count"),
    [
        (Discrete(4), 4),
        (Discrete(4, start=2), 4),
        (MultiBinary(3), None),
        (MultiBinary([2, 2]), None),
        (MultiDiscrete([2, 3]), None),
        (Box(0.0, 1.0, (2,)), None),
        (None, None),
    ],
)
def test_only_numbered_actions_are_counted(space, count):
    assert action_count(Spaced(space)) == count
    assert action_space(Spaced(space)) is space


def test_a_space_of_ones_own_is_counted_by_its_n():
    class Own:
        n = 5

    assert action_count(Spaced(Own())) == 5
    assert action_count(object()) is None


def test_actions_without_numbers_are_handed_on_as_they_are():
    class Bits(Walk):
        """Actions are pairs of bits."""

        def __init__(self):
            super().__init__()
            self.action_space = MultiBinary(2)

        def step(self, action):
            assert self.action_space.contains(action)
            self.action_space.start = 0
            return super().step(int(action.sum()))

    handed = [np.array(bits, np.int8) for bits in ((0, 0), (0, 1), (1, 1))]
    learner, same = learner_for(table()), learner_for(table())
    list(play(learner, Bits(), table(), episodes=8, actions=handed))
    list(play(same, Walk(), table(), episodes=8))
    assert learner.snapshot() == same.snapshot()


# The rollout itself.


def rollout_of(world, features, horizon=5, **rest):
    arguments = {"rewards": None, "actions": None, "seed": 0, "stream": Stream.ENVIRONMENT} | rest
    task = rs.Task(dim=features.dim, one_hot=features.one_hot, horizon=horizon)
    return rollout_with(world, features, task, **arguments)


def test_an_episode_depends_on_its_number_and_on_nothing_before():
    features = masked_table()
    policy = learner_for(features).policy
    rollout = rollout_of(Walk(), features)
    in_order = [rollout.play(k, 1, Actor(policy, 1, Seen()))[0] for k in range(1, 9)]
    actor = Actor(policy, 1, Seen())
    for k in (5, 2, 8, 2):
        (one,) = rollout.play(k, 1, actor)
        assert one.trajectory() == in_order[k - 1].trajectory()


def test_streams_play_apart_from_each_other():
    policy = learner_for(table(), horizon=9).policy
    totals = [
        [rollout.play(k, 1, Actor(policy, 1, Seen()))[0].rewards for k in range(1, 9)]
        for rollout in (
            rollout_of(Walk(), table(), 9, stream=stream)
            for stream in (Stream.ENVIRONMENT, Stream.EVALUATION)
        )
    ]
    assert totals[0] != totals[1]


def test_rewards_are_taken_in_their_range():
    class Costs(Walk):
        def step(self, action):
            return replaced(reward=-2.0)(super().step(action))

    rewards = Rewards(-2.0, 3.0)
    learner = learner_for(table(), end_reward=rewards.end)
    for game in play(learner, Costs(), table(), episodes=3, rewards=rewards):
        assert game.total == -2.0 * game.steps
    assert rs.Learner.restore(learner.snapshot()).episodes == 3


def test_features_without_a_world_that_tells_actions_count_them():
    class Untold:
        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 0, 1.0, action == 1, False, {}

    features = OneHot(states=1, actions=2)
    assert len(list(play(learner_for(features), Untold(), features, episodes=4))) == 4
