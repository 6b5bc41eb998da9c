from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import rareswitch as rs
from rareswitch.features import Masked, OneHot
from rareswitch.gym import FiniteModel, Rewards, play, setting_of, train
from rareswitch.gym.simulator import world_simulator
from small_worlds import Door, UnpicklableError, broken, door, luck_alone, prize_of_round

SEEDS = [(3, 0), (3, 1), (3, 2)]
GRID = rs.UniformGrid(batches=4)
LAKE = {"world": "FrozenLake-v1", "episodes": 30, "horizon": 6}
DOORS = {"world": door, "episodes": 30, "horizon": 1, "rewards": (0.0, 2.0)}
PAPER = rs.Recipe.paper(beta=1.0)


def simulator(**changes):
    return world_simulator(**LAKE | changes)


def doors(**changes):
    return world_simulator(**DOORS | changes)


def mixture(members):
    return rs.Recipe(exploration=rs.Ensemble(members=members))


def rounds(play_rounds, schedule, recipe, seeds):
    """Play rounds of the simulator's own task."""
    return play_rounds(play_rounds.task, schedule, recipe, seeds)


@pytest.mark.parametrize("recipe", [rs.Recipe.paper(beta=0.5), mixture(3)], ids=repr)
@pytest.mark.parametrize("schedule", [GRID, rs.DeterminantGrowth(eta=2.0)], ids=repr)
def test_a_round_is_a_training_of_its_seed(recipe, schedule):
    outcomes = rounds(simulator(), schedule, recipe, SEEDS)
    for seed, outcome in zip(SEEDS, outcomes, strict=True):
        training = train(
            "FrozenLake-v1",
            episodes=30,
            horizon=6,
            schedule=schedule,
            recipe=recipe,
            seed=seed,
        )
        np.testing.assert_array_equal(outcome.returns, training.totals)
        assert outcome.deployment_episodes == (1, *training.switch_episodes)
        assert outcome.deployments == 1 + len(training.switch_episodes)


def test_ridge_and_ties_are_those_of_the_learner():
    rule = rs.DeterminantGrowth(eta=2.0)
    recipe = rs.Recipe.paper(beta=0.5, ridge=5.0, ties="lowest")
    (outcome,) = rounds(simulator(), rule, recipe, [1])
    world = gymnasium.make("FrozenLake-v1")
    setting = setting_of(world, horizon=6)
    learner = setting.learner(rule, replace(recipe, seed=1))
    games = play(learner, world, setting.features, episodes=30, seed=1)
    assert outcome.returns.tolist() == [game.total for game in games]
    dates = [deployment.episode for deployment in learner.ledger if deployment.episode <= 30]
    assert outcome.deployment_episodes == tuple(dates)
    for other in ({"ties": "direction"}, {"ridge": 1.0}):
        (differs,) = rounds(simulator(), rule, replace(recipe, **other), [1])
        assert differs.deployment_episodes != outcome.deployment_episodes


def value(told, horizon, act, h=0, state=0):
    """Return what act(h, state) earns on average, by recursion over the model."""
    if h == horizon:
        return 0.0
    return sum(
        p * (reward + (0.0 if end else value(told, horizon, act, h + 1, following)))
        for p, following, reward, end in told[state][act(h, state)]
    )


def test_regret_is_that_of_the_policies_in_force_where_the_model_is_told():
    horizon, recipe = 6, mixture(2)
    small = {"map_name": None, "desc": ["SF", "HG"]}
    play_rounds = simulator(arguments=small)
    (outcome,) = rounds(play_rounds, GRID, recipe, [5])
    world = gymnasium.make("FrozenLake-v1", **small)
    told, features = world.unwrapped.P, play_rounds.setting.features
    best = FiniteModel.of(world).optimal_return(horizon)
    learner = play_rounds.setting.learner(GRID, replace(recipe, seed=5), episodes=30)

    def mean_value(policy):
        members = [policy.member(m) for m in range(2)]
        acts = [lambda h, s, one=one: one.act(h, features(s, h)) for one in members]
        return np.mean([value(told, horizon, act) for act in acts])

    regret, in_force = 0.0, mean_value(learner.policy)
    for game in play(learner, world, features, episodes=30, seed=5):
        regret += best - in_force
        if game.switched:
            in_force = mean_value(learner.policy)
    assert outcome.measure == "regret"
    assert outcome.regret == pytest.approx(regret)
    assert 0.0 < regret < 30 * best


def test_without_a_model_it_is_what_was_missing_to_the_largest_return():
    outcomes = rounds(doors(), GRID, PAPER, SEEDS)
    for outcome in outcomes:
        assert outcome.measure == "shortfall"
        assert outcome.regret == pytest.approx(30 * 2 - outcome.returns.sum())
        assert (outcome.deployments, outcome.switches) == (4, 3)
        assert outcome.switch_episodes == outcome.deployment_episodes[1:]


@pytest.mark.parametrize(
    "changes",
    [
        {"exact": False},
        {"horizon": 101},  # the environment cuts episodes off before that
        {"world": lambda seed: doubled("FrozenLake-v1")},
    ],
)
def test_regret_is_not_claimed_where_it_is_not_asked_for_or_not_known(changes):
    play_rounds = simulator(**{"rewards": (0.0, 2.0), "episodes": 4} | changes)
    (outcome,) = rounds(play_rounds, rs.UniformGrid(batches=2), PAPER, [0])
    assert outcome.measure == "shortfall"


def doubled(name):
    return gymnasium.wrappers.TransformReward(gymnasium.make(name), lambda reward: 2 * reward)


@pytest.mark.parametrize("exact", [True, False])
def test_a_deployment_that_changes_no_action_is_no_switch(exact):
    play_rounds = simulator(exact=exact)
    greedy = rs.Recipe.paper(beta=0.0, ties="lowest")
    (outcome,) = rounds(play_rounds, rs.EveryEpisode(), greedy, [0])
    assert outcome.deployments == 30
    # Nothing is earned by always going left, so that all estimates stay at 0.
    assert outcome.returns.sum() == outcome.switches == 0
    assert outcome.switch_episodes == ()
    curious = rs.Recipe.paper(beta=1.0, ties="lowest")
    (other,) = rounds(play_rounds, rs.EveryEpisode(), curious, [0])
    assert 0 < other.switches <= 29
    assert set(other.switch_episodes) <= set(other.deployment_episodes[1:])


MASKED = Masked(OneHot(states=16, actions=4), mask=lambda state: np.arange(4) > 1)


@pytest.mark.parametrize(
    ("changes", "beta", "switches"),
    [
        ({"world": "Taxi-v4"}, 1.0, 2),
        ({"features": MASKED}, 1.0, 2),
        ({"features": MASKED}, 0.0, 0),  # without a bonus nothing is learnt from no reward
    ],
)
def test_changes_are_known_where_not_all_is_feasible(changes, beta, switches):
    play_rounds = simulator(**{"horizon": 3, "episodes": 3} | changes)
    recipe = rs.Recipe.paper(beta=beta, ties="lowest")
    (outcome,) = rounds(play_rounds, rs.UniformGrid(batches=3), recipe, [0])
    assert (outcome.measure, outcome.switches) == ("regret", switches)


def test_the_same_seed_is_the_same_luck_under_every_rule():
    rules = [(GRID, PAPER), (rs.EveryEpisode(), mixture(2))]
    one, other = (rounds(doors(world=luck_alone), *rule, SEEDS) for rule in rules)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.returns, b.returns)
    assert len({tuple(outcome.returns) for outcome in one}) == len(SEEDS)


def test_the_world_of_a_round_is_made_from_its_seed_and_closed():
    worlds = {}

    def make(seed):
        worlds[seed] = Door()
        return worlds[seed]

    rounds(doors(world=make), GRID, PAPER, SEEDS)
    assert set(worlds) == {(0, 0), *SEEDS}
    assert all(world.closed for world in worlds.values())


@pytest.mark.parametrize("kept", [True, False])
def test_processes_change_nothing_but_the_time(kept):
    seen = []
    alone = rounds(simulator(), GRID, mixture(2), SEEDS)
    many = simulator(workers=2, progress=lambda *done: seen.append(done))
    if kept:
        with many:
            assert rounds(many, GRID, mixture(2), SEEDS) == alone
            (often,) = rounds(many, rs.EveryEpisode(), rs.Recipe.paper(beta=0.5), SEEDS[:1])
            assert often.deployments == 30
        assert seen == [(1, 3), (2, 3), (3, 3), (1, 1)]
    else:
        assert rounds(many, GRID, mixture(2), SEEDS) == alone
        assert seen == [(1, 3), (2, 3), (3, 3)]


def test_outcomes_come_in_the_order_of_the_seeds():
    play_rounds = doors(world=prize_of_round, rewards=(0.0, 9.0), workers=2)
    outcomes = rounds(play_rounds, GRID, PAPER, [(0, 7), (0, 2), (0, 4)])
    assert [outcome.returns.max() for outcome in outcomes] == [7.0, 2.0, 4.0]


def test_progress_tells_the_rounds():
    seen = []
    rounds(doors(progress=lambda *done: seen.append(done)), GRID, PAPER, SEEDS)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_an_error_of_the_world_reaches_the_caller_from_a_process_of_its_own():
    with pytest.raises(RuntimeError, match="UnpicklableError: stuck and locked"):
        rounds(doors(world=broken, workers=2), GRID, PAPER, SEEDS)
    with pytest.raises(UnpicklableError):
        rounds(doors(world=broken), GRID, PAPER, SEEDS)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_reward_out_of_range_names_the_step(workers):
    play_rounds = doors(rewards=(0.0, 1.0), workers=workers)
    with pytest.raises(ValueError, match=r"reward must be from 0 to 1; got 2.0.*episode \d+"):
        rounds(play_rounds, GRID, PAPER, SEEDS)


def test_a_setting_is_taken_as_it_is():
    world = gymnasium.make("FrozenLake-v1")
    setting = setting_of(world, horizon=5, stages="own", rewards=Rewards(0.0, 2.0))
    play_rounds = simulator(setting=setting, horizon=None)
    assert play_rounds.setting is setting
    assert play_rounds.task == rs.Task(dim=64, horizon=5, episodes=30, stages="own", one_hot=True)


@pytest.mark.parametrize("other", [{"episodes": 31}, {"horizon": 7}, {"stages": "own"}])
def test_another_task_than_the_simulators_is_refused(other):
    play_rounds = simulator()
    with pytest.raises(
        ValueError, match=r"task must be the simulator's, Task\(dim=64, .*; got Task"
    ):
        play_rounds(replace(play_rounds.task, **other), GRID, PAPER, SEEDS)


def test_a_task_may_have_a_feature_norm_of_its_own():
    play_rounds = simulator()
    longer = replace(play_rounds.task, feature_norm=2.0)
    assert play_rounds(longer, GRID, PAPER, SEEDS) == rounds(play_rounds, GRID, PAPER, SEEDS)


def test_a_plan_can_be_made_on_it():
    play_rounds = simulator()
    made = rs.plan(play_rounds.task, switches=3, simulator=play_rounds, rounds=2)
    assert made.measure == "regret"
    for option in made.options:
        assert option.deployments.high <= 3
        assert option.regret.low >= 0.0
        assert 0.0 <= option.mean_return.mean <= 1.0
    assert made.recommended.regret.mean == min(option.regret.mean for option in made.options)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"world": Door()}, TypeError, "world must be the name of an environment, or a function"),
        ({"world": 3}, TypeError, "world must be the name .* got 3"),
        ({"world": "Nowhere-v7"}, ValueError, "registered with Gymnasium"),
        ({"world": door, "arguments": {"prize": 2}}, TypeError, "arguments need the name"),
        ({"episodes": 0}, ValueError, "episodes must be at least 1; got 0"),
        ({"workers": 0}, ValueError, "workers must be at least 1; got 0"),
        ({"exact": 1}, TypeError, "exact must be True or False; got 1"),
        ({"stages": "some"}, ValueError, "stages must be one of"),
        ({"world": lambda seed: Door(), "workers": 2}, ValueError, "importable by other processes"),
    ],
)
def test_what_cannot_be_simulated_is_refused_when_it_is_made(changes, error, message):
    with pytest.raises(error, match=message):
        simulator(**changes)


def test_setting_and_its_parts_exclude_each_other():
    setting = simulator().setting
    with pytest.raises(TypeError, match="setting and horizon exclude each other"):
        simulator(setting=setting)


def test_a_rule_that_processes_cannot_be_handed_is_refused():
    class Local:
        def due(self, clock):
            return False

    with pytest.raises(ValueError, match="schedule and exploration must be importable"):
        rounds(simulator(workers=2), Local(), PAPER, SEEDS)
