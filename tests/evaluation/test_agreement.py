import numpy as np
import pytest
from listed_worlds import Player, mixture, small_world

import rareswitch as rs
from rareswitch.evaluation import conditional_propensities
from rareswitch.evaluation.agreement import behaviour_in, path_probabilities
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.features import OneHot
from rareswitch.trajectories import Trajectory
from rareswitch.trajectories.episodes import choice_offered

TABLE = OneHot(states=2, actions=2)


def steps(trajectory, features):
    return [choice_offered(trajectory, features, t) for t in range(len(trajectory))]


@pytest.mark.parametrize("seed", range(3))
def test_the_product_is_the_likelihood_of_the_episode_and_of_each_beginning(seed):
    world = small_world(seed, states=4, actions=3)
    policy = mixture(world, np.random.default_rng(seed), 7)
    player = Player(world, policy)
    log, chances = player.all_episodes()
    assert chances.sum() == pytest.approx(1.0)
    for trajectory in log:
        taken = steps(trajectory, player.features)
        for t, product in enumerate(np.cumprod(trajectory.propensities)):
            assert product == pytest.approx(policy.likelihood(taken[: t + 1]), rel=1e-12)


def test_they_are_not_the_propensities_of_single_steps():
    two = rs.Policy(weights=[[[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2], allocation=0)
    played = Trajectory(observations=[0] * 3, actions=[0, 0], rewards=[0, 0], terminated=False)
    assert conditional_propensities(two, played, lambda state: np.eye(2)).tolist() == [0.5, 1.0]
    assert two.propensities(1, np.eye(2)).tolist() == [0.5, 0.5]


def test_masked_and_one_hot_actions_are_counted_among_those_offered():
    policy = rs.Policy(
        weights=[[[0.0, 1.0, 9.0, 0.0]] * 2, [[1.0, 0.0, 9.0, 0.0]] * 2], one_hot=True, allocation=0
    )
    masks = [[True, True], [False, True], [True, True]]
    played = Trajectory(
        observations=[0, 1, 0], actions=[1, 1], rewards=[0, 0], terminated=False, masks=masks
    )
    assert conditional_propensities(policy, played, TABLE).tolist() == [0.5, 1.0]


def test_what_the_policy_cannot_have_played_is_named():
    one = rs.Policy(weights=[[1.0, 0.0, 1.0, 0.0]] * 2, one_hot=True)
    played = {"observations": [0, 0, 0], "rewards": [0, 0], "terminated": True}
    with pytest.raises(ValueError, match="none of its 1 members takes the actions up to step 1"):
        conditional_propensities(one, Trajectory(**played, actions=[0, 1]), TABLE)
    with pytest.raises(ValueError, match="if actions were masked, give the trajectory its masks"):
        conditional_propensities(one, Trajectory(**played, actions=[0, 1]), TABLE)
    all_feasible = Trajectory(**played, actions=[0, 1], masks=np.ones((3, 2), bool))
    with pytest.raises(ValueError, match=r"takes the actions up to step 1$"):
        conditional_propensities(one, all_feasible, TABLE)
    longer = Trajectory(observations=[0] * 4, actions=[0] * 3, rewards=[0] * 3, terminated=True)
    with pytest.raises(ValueError, match="trajectory must have at most the 2 steps"):
        conditional_propensities(one, longer, TABLE)
    with pytest.raises(TypeError, match="trajectory must be a Trajectory; got 7"):
        conditional_propensities(one, 7, TABLE)


def test_members_agree_with_an_episode_as_long_as_they_take_its_actions():
    world = small_world(5)
    rng = np.random.default_rng(5)
    player, policy = Player(world, mixture(world, rng, 9)), mixture(world, rng, 4)
    log, _ = player.all_episodes()
    logged = player.lay_out(log)
    agrees = path_probabilities(behaviour_in(logged, policy))
    assert agrees.shape == (len(log), world.horizon, 4)
    for trajectory, found in zip(log, agrees, strict=True):
        for m in range(4):
            same = [
                policy.member(m).act(h, rows) == place
                for h, (rows, place) in enumerate(steps(trajectory, player.features))
            ]
            same += [True] * (world.horizon - len(trajectory))  # nothing more to disagree about
            assert found[:, m].tolist() == np.logical_and.accumulate(same).tolist()


def test_states_that_offer_more_or_fewer_actions_are_asked_about_alike(monkeypatch):
    monkeypatch.setattr("rareswitch.evaluation.agreement.BLOCK_STATES", 2)
    rng = np.random.default_rng(6)
    policy = rs.Policy(weights=rng.standard_normal((5, 2, 12)), one_hot=True, allocation=0)
    table = OneHot(states=4, actions=3)
    log = []
    for _ in range(40):
        masks = rng.random((3, 3)) < 0.6
        actions = rng.integers(0, 3, 2)
        masks[[0, 1], actions] = masks[2, 0] = True
        log.append(
            Trajectory(
                observations=rng.integers(0, 4, 3), actions=actions, rewards=[0.0, 0.0],
                terminated=False, propensities=[1.0, 1.0], masks=masks,
            )
        )  # fmt: skip
    logged = LoggedEpisodes.of(log, table, 2)
    agrees = path_probabilities(behaviour_in(logged, policy))
    for trajectory, found in zip(log, agrees, strict=True):
        taken = steps(trajectory, table)
        for t in range(2):
            assert found[t].mean() == pytest.approx(policy.likelihood(taken[: t + 1]))
