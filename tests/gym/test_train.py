"""From a world to a policy, end to end and small: what is learnt, kept and told."""

import gymnasium
import numpy as np
import pytest
from gym_worlds import ACTIONS, STATES, Walk, blocks, table
from gymnasium.vector import SyncVectorEnv

import rareswitch as rs
from rareswitch.features import OneHot
from rareswitch.gym import FiniteModel, Rewards, evaluate, play, setting_of, train
from rareswitch.gym.train import default_switches, schedule_for
from rareswitch.gym.training import Training
from rareswitch.trajectories import Trajectory, episode_of

SMALL = rs.Recipe(exploration=rs.Ensemble(8))
PAPER = rs.Recipe.paper(beta=1.0)


def test_a_frozen_lake_is_learnt():
    """On ice that does not slip, the way is found; random play gets there once in 70 episodes."""
    world = gymnasium.make("FrozenLake-v1", is_slippery=False)
    training = train(world, episodes=500, horizon=12, switches=10)
    assert training.totals[-100:].sum() > 90
    model = FiniteModel.of(world)
    assert model.policy_return(training.agent.policy, training.setting.features) == 1.0
    assert model.random_return(12) < 0.02
    assert len(training.switch_episodes) == 10


def test_a_faulty_rule_in_words_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rule = "class Yes:\n    def due(self, clock):\n        return 'yes'\n"
    (tmp_path / "rule_of_train.py").write_text(rule)
    told = "schedule rule_of_train:Yes: Yes.due must return a bool; it returned 'yes' before"
    with pytest.raises(ValueError, match=told):
        train(Walk(), episodes=20, schedule="rule_of_train:Yes", allow=["rule_of_train"])


def test_slippery_ice_is_learnt():
    world = gymnasium.make("FrozenLake-v1")
    training = train(world, episodes=800, horizon=40, switches=15, recipe=SMALL)
    model, features = FiniteModel.of(world), training.setting.features
    optimum, random = model.optimal_return(40), model.random_return(40)
    assert training.totals[-160:].mean() > 10 * random
    assert model.policy_return(training.agent.policy, features) > 0.6 * optimum
    assert training.totals[-160:].mean() <= optimum + 0.15


def test_cliffs_are_learnt():
    """Every step costs 1 and the cliff 100: random play falls again and again."""
    training = train("CliffWalking-v1", episodes=150, horizon=30, switches=15, recipe=SMALL)
    model = FiniteModel.of(gymnasium.make("CliffWalking-v1"))
    assert model.optimal_return(30) == -13.0
    found = model.policy_return(training.agent.policy, training.setting.features)
    assert found >= -30.0
    assert model.random_return(30) < -200.0
    assert training.setting.rewards == Rewards(-100.0, 0.0)
    assert np.median(training.totals[-30:]) > np.median(training.totals[:30])


def test_a_pole_is_balanced_to_the_horizon():
    """Random play drops it after some 20 steps."""
    world = gymnasium.make("CartPole-v1")
    training = train(world, episodes=60, horizon=60, switches=6, recipe=SMALL)
    agent = training.agent
    assert evaluate(agent, world, episodes=20).mean > 50.0
    assert training.totals[-12:].mean() > 45.0 > training.totals[:10].mean()
    assert not training.learner.task.one_hot


# What is kept.


def test_a_training_tells_what_every_episode_came_to():
    games = []
    training = train(Walk(), episodes=30, horizon=5, recipe=SMALL, callback=games.append)
    assert training.totals.tolist() == [game.total for game in games]
    assert training.versions.tolist() == [game.version for game in games]
    assert [game.number for game in games] == list(range(1, 31))
    switched = [game.number + 1 for game in games if game.switched]
    assert training.switch_episodes == switched
    assert len(switched) == 1
    assert repr(training) == (
        f"Training(30 episodes, return {training.totals.mean():.4g} per episode, 1 switch)"
    )


def test_cohorts_are_the_episodes_of_each_version():
    training = train(Walk(), episodes=40, horizon=5, switches=3, recipe=SMALL)
    cohorts = training.cohorts()
    assert [cohort.version for cohort in cohorts] == [1, 2, 3, 4]
    assert [cohort.first for cohort in cohorts] == [1, *training.switch_episodes]
    assert sum(cohort.episodes for cohort in cohorts) == 40
    for cohort in cohorts:
        own = training.totals[training.versions == cohort.version]
        assert (cohort.episodes, cohort.mean) == (len(own), pytest.approx(own.mean()))
        assert (cohort.low is None) is (cohort.high is None) is (len(own) < 20)


def test_twenty_episodes_have_an_interval_and_fewer_do_not():
    grid = rs.UniformGrid(batches=2)
    for episodes, known in ((40, True), (38, False)):
        training = train(Walk(), episodes=episodes, horizon=4, schedule=grid, recipe=PAPER)
        for cohort in training.cohorts():
            assert (cohort.low is not None) is known
            assert not known or cohort.low <= cohort.mean <= cohort.high


def test_a_training_without_episodes_tells_nothing():
    setting = setting_of(Walk(), horizon=4)
    training = Training(setting, setting.learner(rs.EveryEpisode(), PAPER))
    assert repr(training) == "Training(0 episodes, 0 switches)"
    assert (training.totals.shape, training.versions.shape) == ((0,), (0,))
    assert (training.cohorts(), training.switch_episodes) == ([], [])


def test_the_agent_is_what_the_learner_recommends():
    training = train(Walk(), episodes=20, horizon=4, recipe=SMALL)
    agent = training.agent
    assert agent.policy.digest == training.learner.recommend().digest
    assert agent.policy.members == 1
    assert agent.features is training.setting.features
    assert (agent.rewards, agent.actions) == (training.setting.rewards, training.setting.actions)


def test_the_same_seed_trains_the_same_and_another_does_not():
    trained = [train(Walk(), episodes=25, horizon=5, seed=seed) for seed in (3, 3, 4)]
    snapshots = [training.learner.snapshot() for training in trained]
    assert snapshots[0] == snapshots[1] != snapshots[2]
    assert trained[0].totals.tolist() == trained[1].totals.tolist()


def test_it_is_the_play_of_what_was_picked():
    training = train(Walk(), episodes=20, horizon=5, switches=3)
    setting = setting_of(Walk(), horizon=5)
    rule = schedule_for(episodes=20, switches=3)
    learner = setting.learner(rule, episodes=20)
    list(play(learner, Walk(), setting.features, episodes=20, rewards=setting.rewards))
    assert training.learner.snapshot() == learner.snapshot()


def test_a_training_goes_on_where_it_stopped():
    whole = train(Walk(), episodes=20, horizon=5, switches=3)
    setting = setting_of(Walk(), horizon=5)
    rule = schedule_for(episodes=20, switches=3)
    training = Training(setting, setting.learner(rule, episodes=20), Walk())
    assert training.run(8)
    assert training.run(20)
    assert training.learner.snapshot() == whole.learner.snapshot()
    assert training.totals.tolist() == whole.totals.tolist()


def test_copies_of_a_world_are_trained_in_together():
    given = {"features": table(), "horizon": 5, "rewards": (0.0, 1.0)}
    training = train(SyncVectorEnv([Walk] * 4), episodes=22, switches=3, **given)
    assert len(training.totals) == 22
    assert all((episode - 1) % 4 == 0 for episode in training.switch_episodes)


# Budgets.


@pytest.mark.parametrize("switches", [0, 1, 5])
def test_a_budget_of_switches_is_spent_and_not_exceeded(switches):
    training = train(Walk(), episodes=30, horizon=4, switches=switches, recipe=SMALL)
    assert len(training.switch_episodes) == switches


def test_the_default_budget_is_a_twentieth_of_the_episodes_up_to_a_limit():
    assert [default_switches(episodes) for episodes in (1, 19, 20, 399)] == [0, 0, 1, 19]
    assert default_switches(10**6) == default_switches(10**7) < 100
    assert len(train(Walk(), episodes=60, horizon=4, recipe=SMALL).switch_episodes) == 3


def test_a_schedule_of_ones_own_is_asked_instead():
    rule, recipe = rs.UniformGrid(batches=4), rs.Recipe.paper(beta=0.5)
    training = train(Walk(), episodes=20, horizon=4, schedule=rule, recipe=recipe)
    assert training.switch_episodes == [6, 11, 16]
    assert training.learner.recipe.exploration == rs.Bonus(0.5)


# Warm starts.


def log_of(episodes, **arguments):
    training_log = []
    train(
        Walk(**arguments), episodes=episodes, horizon=5, recipe=SMALL,
        callback=lambda game: training_log.append(game.trajectory),
    )  # fmt: skip
    return training_log


def test_a_warm_start_is_learnt_before_the_first_episode():
    log = log_of(60)
    cold = train(Walk(), episodes=10, horizon=5, switches=0)
    warm = train(Walk(), episodes=10, horizon=5, switches=0, warm_start=log)
    assert warm.learner.episodes == len(warm.totals) == 10
    assert warm.learner.policy.digest != cold.learner.policy.digest
    setting = warm.setting
    by_hand = setting.learner(
        schedule_for(episodes=10, switches=0),
        episodes=10,
        warm_start=[episode_of(one, table(), setting.rewards, 5) for one in log],
    )
    assert by_hand.policy.digest == warm.learner.policy.digest


def test_a_warm_start_helps_from_the_first_version_on():
    world = gymnasium.make("FrozenLake-v1", is_slippery=False)
    log = []
    train(world, episodes=300, horizon=12, callback=lambda game: log.append(game.trajectory))
    warm = train(world, episodes=30, horizon=12, switches=0, warm_start=log, seed=1)
    cold = train(world, episodes=30, horizon=12, switches=0, seed=1)
    assert warm.totals.sum() > 20 > 5 > cold.totals.sum()


def test_masks_of_a_warm_start_are_heeded():
    log = log_of(20, masked=True)
    assert log[0].masks is not None
    training = train(Walk(masked=True), episodes=5, horizon=5, warm_start=log)
    assert training.learner.episodes == 5


def test_a_longer_log_is_cut_off_at_the_horizon():
    log = log_of(10, ends=False)
    training = train(Walk(), episodes=3, horizon=2, warm_start=log)
    assert training.learner.task.horizon == 2


def test_a_log_of_another_world_is_refused():
    wrong = Trajectory(observations=[0, 99, 1], actions=[0, 1], rewards=[0.0, 0.0], terminated=True)
    with pytest.raises(ValueError, match=r"state must be from 0 to 5; got .*99"):
        train(Walk(), episodes=3, horizon=5, warm_start=[wrong])
    with pytest.raises(TypeError, match="warm_start must be trajectories; got 3"):
        train(Walk(), episodes=3, horizon=5, warm_start=[3])


# What is given.


def test_what_is_given_is_used():
    features = OneHot(states=STATES, actions=2)
    training = train(
        Walk("number"), episodes=4, features=features, horizon=3, rewards=(-1.0, 1.0),
        actions=[0, 2], stages="own", recipe=rs.Recipe.paper(beta=2.0, ridge=3.0), seed=(5, 1),
    )  # fmt: skip
    assert training.learner.task == rs.Task(
        dim=STATES * 2, horizon=3, episodes=4, stages="own", one_hot=True, end_reward=0.5
    )
    assert training.learner.recipe == rs.Recipe.paper(beta=2.0, ridge=3.0, seed=(5, 1))


def test_rows_are_learnt_as_well_as_tables():
    training = train(Walk("array"), episodes=12, features=blocks(), horizon=4, recipe=SMALL)
    assert training.learner.task.dim == blocks().dim == ACTIONS * 3


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"episodes": 0}, ValueError, "episodes must be at least 1; got 0"),
        ({"switches": -1}, ValueError, "switches must be at least 0; got -1"),
        (
            {"switches": 2, "schedule": rs.EveryEpisode()},
            TypeError,
            "switches and schedule exclude each other",
        ),
        ({"recipe": rs.Ensemble(8)}, TypeError, "recipe must be a Recipe, such as"),
        ({"world": "NoSuchWorld-v0"}, ValueError, "world must be an environment registered"),
        ({"horizon": 0}, ValueError, "horizon must be"),
    ],
)
def test_what_cannot_be_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        train(**{"world": Walk(), "episodes": 3, "horizon": 3} | changes)
