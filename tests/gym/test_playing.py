"""One episode under way keeps what it was offered, chose and earned."""

import numpy as np
import pytest
from gym_worlds import ACTIONS, blocks, learner_for, masked_table, table

import rareswitch as rs
from rareswitch.features import Custom
from rareswitch.gym import Rewards
from rareswitch.gym.episode import Offers, Playing
from rareswitch.gym.rollout import PolicyActor as Actor
from rareswitch.gym.rollout import Seen
from rareswitch.trajectories import episode_of


def playing_of(features, policy=None, number=7, horizon=4, rewards=None):
    policy = policy or learner_for(features, horizon=horizon).policy
    actor = Actor(policy, 2, Seen())
    rewards = rewards or Rewards()
    stages = [*range(horizon), horizon - 1]
    return Playing(number, actor, Offers(features), stages=stages, rewards=rewards)


def answer(observation, reward=0.5, terminated=False, truncated=False, info=None):
    return observation, reward, terminated, truncated, info or {}


def gone_through(playing, answers, first=0, info=None):
    """Send answers until the episode is over; return the actions."""
    course = playing.course(first, info or {})
    actions = [next(course)]
    actions.extend(course.send(told) for told in answers)
    return actions


def test_an_action_is_given_for_every_answer_and_none_at_the_end():
    playing = playing_of(table())
    actions = gone_through(playing, [answer(1), answer(2), answer(3, terminated=True)])
    assert actions[-1] is None
    assert all(0 <= action < ACTIONS for action in actions[:-1])
    assert (playing.step, playing.terminated, playing.truncated) == (3, True, False)
    assert playing.rewards == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("last", "ends"),
    [
        (answer(3, terminated=True), (True, False)),
        (answer(3, truncated=True), (False, True)),
        (answer(3, terminated=True, truncated=True), (True, True)),
        (answer(3, terminated=np.bool(True)), (True, False)),
        (answer(3, terminated=1), (True, False)),
    ],
)
def test_an_episode_is_over_when_it_ends_or_is_cut_off(last, ends):
    playing = playing_of(table())
    assert gone_through(playing, [answer(1), last])[-1] is None
    found = (playing.terminated, playing.truncated)
    assert found == ends
    assert all(type(flag) is bool for flag in found)
    following = len(playing.episode().next_features)
    assert following == (1 if ends[0] else 2)
    assert playing.trajectory().terminated is ends[0]


def test_the_horizon_ends_it_too_and_what_would_follow_is_kept():
    playing = playing_of(table(), horizon=2)
    assert gone_through(playing, [answer(1), answer(4)])[-1] is None
    assert (playing.terminated, playing.truncated, playing.step) == (False, False, 2)
    episode = playing.episode()
    assert [rows.tolist() for rows in episode.next_features] == [[3, 4, 5], [12, 13, 14]]


def test_the_member_is_that_of_the_number_and_acts_throughout():
    policy = learner_for(table(), horizon=4).policy
    for number in range(1, 12):
        playing = playing_of(table(), policy, number)
        actions = gone_through(playing, [answer(k % 6) for k in (1, 2, 3, 4)])
        member = policy.draw(number)
        assert playing.member == policy.allocate(number)
        assert actions[:-1] == [member.act(h, table()(h)) for h in range(4)]


def test_an_episode_tells_rows_and_scaled_rewards():
    rewards = Rewards(-1.0, 3.0)
    playing = playing_of(blocks(), rewards=rewards)
    first = np.array([2.0, 0.0])
    states = [first, np.array([3.0, 1.0]), np.array([5.0, 2.0])]
    gone_through(
        playing,
        [answer(states[1], -1.0), answer(states[2], 3.0, terminated=True)],
        first=first,
    )
    episode, trajectory = playing.episode(), playing.trajectory()
    assert episode.rewards.tolist() == [0.0, 1.0]
    assert trajectory.rewards.tolist() == [-1.0, 3.0]
    wanted = [blocks()(state)[a] for state, a in zip(states, trajectory.actions, strict=False)]
    np.testing.assert_array_equal(episode.features, wanted)
    np.testing.assert_array_equal(trajectory.observations, states)
    assert episode == episode_of(trajectory, blocks(), rewards)


def test_masks_narrow_the_offer_and_actions_keep_their_numbers():
    features = masked_table()
    playing = playing_of(features)
    mask = {"action_mask": [False, True, True]}
    actions = gone_through(
        playing, [answer(1, info=mask), answer(5, terminated=True)], first=3, info={}
    )
    assert features.feasible(1).tolist() == [True, False, True]
    assert actions[1] == 2  # the only one that both allow in state 1
    trajectory = playing.trajectory()
    assert trajectory.masks.tolist() == [[True] * 3, [False, False, True], [True] * 3]
    episode = playing.episode()
    assert [rows.tolist() for rows in episode.next_features] == [[5]]
    assert trajectory.propensities[1] == 1.0


def test_propensities_are_of_members_that_agreed_so_far():
    """Members 0 and 1 begin alike, and then part; member 2 begins otherwise."""
    weights = np.zeros((3, 2, 6))
    weights[:, 0, :3] = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    weights[:, 1, 3:] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    policy = rs.Policy(weights=weights, allocation=5, one_hot=True)
    features = Custom(lambda s: 3 * s + np.arange(3), actions=3, dim=6, one_hot=True)
    wanted = {0: [2 / 3, 1 / 2], 1: [2 / 3, 1 / 2], 2: [1 / 3, 1.0]}
    seen = set()
    for number in range(20):
        playing = playing_of(features, policy, number, horizon=2)
        gone_through(playing, [answer(1), answer(0, terminated=True)])
        np.testing.assert_allclose(playing.trajectory().propensities, wanted[playing.member])
        seen.add(playing.member)
    assert seen == {0, 1, 2}


def test_the_stage_is_told_to_the_features_and_the_last_one_after_the_horizon():
    stages = []

    class Staged:
        dim, actions, one_hot, norm, name, digest = 3, 3, True, 1.0, "staged", "0" * 64

        def __call__(self, state, h=0):
            stages.append(h)
            return np.arange(3)

        def feasible(self, state, h=0):
            stages.append(h)
            return None

    playing = playing_of(Staged(), horizon=3)
    gone_through(playing, [answer("b"), answer("c"), answer("d")], first="a")
    assert stages == [0, 0, 1, 1, 2, 2, 2, 2]


def test_a_last_observation_is_not_looked_at_by_the_features():
    playing = playing_of(table())
    gone_through(playing, [answer(99, terminated=True)])
    assert playing.trajectory().observations.tolist() == [0, 99]


@pytest.mark.parametrize("bad", [answer(1, 7.0), answer(99), answer(1)[:4], answer(1, "a")])
def test_a_step_that_is_refused_is_not_counted(bad):
    playing = playing_of(table())
    course = playing.course(0, {})
    next(course)
    course.send(answer(2))
    with pytest.raises((TypeError, ValueError)):
        course.send(bad)
    assert playing.step == 1


def test_offers_of_numbers_are_remembered_and_others_are_not():
    calls = []

    def rows(state):
        calls.append(state)
        return np.arange(3)

    offers = Offers(Custom(rows, actions=3, dim=3, one_hot=True))
    first = offers.after(1, 0, {})
    assert offers.after(1, 0, {}) is first
    assert len(calls) == 1
    assert offers.after(1, 1, {}) is not first  # another stage
    offers.after(1, 0, {"action_mask": [True, False, True]})
    for state in (True, 1.0, np.int64(1), np.int64(1)):  # equal, and yet not the same to a map
        offers.after(state, 0, {})
    assert calls == [1, 1, 1, True, 1.0, 1, 1]


def test_only_so_many_offers_are_remembered(monkeypatch):
    monkeypatch.setattr("rareswitch.gym.episode.MOST_REMEMBERED", 2)
    offers = Offers(table())
    found = [offers.after(state, 0, {}) for state in range(4)]
    again = [offers.after(state, 0, {}) for state in range(4)]
    assert [a is b for a, b in zip(found, again, strict=True)] == [True, True, False, False]
    for one, other in zip(found, again, strict=True):
        assert one.rows.tolist() == other.rows.tolist()
