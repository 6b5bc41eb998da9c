"""A simulation is a learner, whatever its rule; its numbers do not depend on a run's companions."""

from dataclasses import replace

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, masked_world, stepped, switches_of
from rareswitch.rules.table import RULES as TABLE
from rareswitch.sim import Simulation
from rareswitch.sim.run import initial_states, noise_of

HARD = [rs.worlds.hard_to_learn(d=7, horizon=4, seed=(3, i)) for i in range(4)]
WORLDS = {
    "hard": HARD,
    "wide": [rs.worlds.random_linear(states=9, actions=4, d=4, horizon=3, seed=1)] * 4,
    "masked": [masked_world(2)] * 4,
}
PARTS = (
    "regret", "states", "actions", "members", "deployment_episodes", "switch_episodes",
)  # fmt: skip
RULES = {
    "every episode": rs.EveryEpisode(),
    "batch": rs.UniformGrid(batches=5),
    "rareswitch": rs.DeterminantGrowth(eta=1.5),
    "rareswitch asked": Asked(rs.DeterminantGrowth(eta=6.0)),
    "total growth": rs.rules.TotalGrowth(eta=3.0),
    "adaptive": rs.rules.AdaptiveBudget(switches=20),
    "worth": rs.rules.Worthwhile(rs.SpreadBudget(switches=20), change=0.5),
}
EXPLORATIONS = [
    rs.Bonus(0.5),
    rs.Bonus(3.0),
    rs.Bonus(0.5, members=3),
    rs.Bonus(0.5, estimate=True),
    rs.Perturbation(0.5, 3),
    rs.Perturbation(0.5, 3, estimate=True),
    rs.Ensemble(5),
    rs.Ensemble(5, estimate=False),
]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("worlds", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=repr)
def test_runs_stepped_together_are_bit_identical_to_each_alone(worlds, rule, exploration):
    worlds, seeds = worlds[:3], [(5, i) for i in range(3)]
    recipe, task = rs.Recipe(exploration=exploration), worlds[0].task(episodes=32)
    together = Simulation(worlds, rule, recipe, task=task, seeds=seeds).run()
    for world, seed, run in zip(worlds, seeds, together.runs(), strict=True):
        alone = rs.simulate(world, rule, recipe, episodes=32, seed=seed)
        for name in PARTS:
            np.testing.assert_array_equal(getattr(run, name), getattr(alone, name), err_msg=name)
        np.testing.assert_array_equal(run.fitted_values, alone.fitted_values)
        assert run.local_switches == alone.local_switches
        assert run.policy.to_bytes() == alone.policy.to_bytes()


@pytest.mark.parametrize(
    ("worlds", "seeds", "message"),
    [
        ([], [], "worlds must not be empty"),
        (HARD[:1], [0, 1], "seeds must hold one seed for each of 1 worlds; got 2"),
        (
            [HARD[0], rs.worlds.hard_to_learn(d=7, horizon=4, delta=0.2)],
            [0, 1],
            "worlds must have the same features, feasible actions and horizon",
        ),
        (
            [HARD[0], rs.worlds.hard_to_learn(d=7, horizon=5)],
            [0, 1],
            "worlds must have the same features, feasible actions and horizon",
        ),
    ],
)
def test_worlds_that_cannot_step_together_are_refused(worlds, seeds, message):
    with pytest.raises(ValueError, match=message):
        Simulation(worlds, rs.EveryEpisode(), task=HARD[0].task(episodes=3), seeds=seeds)


@pytest.mark.parametrize("part", ["logdet", "logdet_deployed", "trace_deployed"])
def test_a_rule_that_writes_to_its_clock_cannot_reach_into_a_simulation(part):
    class Meddles:
        def due(self, clock):
            getattr(clock, part)[:] = 0.0

    task, recipe = HARD[0].task(episodes=10), rs.Recipe(ridge=2.0)
    meddled = Simulation(HARD[:1], Meddles(), recipe, task=task, seeds=[0])
    with pytest.raises(ValueError, match="read-only"):
        meddled.step()


class Eighths:
    """A user's rule, with `due` alone: eight deployments, at dates that follow from the task."""

    def due(self, clock):
        return (clock.episode - 1) % (clock.task.episodes // 8) == 0


# Every rule of the package, with other arguments where they matter, and a user's own.
EVERY_RULE = {
    "every episode": rs.EveryEpisode(),
    "uniform grid": rs.UniformGrid(batches=7),
    "balanced grid": rs.UniformGrid(batches=7, spread="balanced"),
    "geometric grid": rs.rules.GeometricGrid(batches=5),
    "minimax grid": rs.rules.MinimaxGrid(batches=4),
    "dates": rs.rules.EpisodeGrid(dates=(1, 4, 9, 30, 99)),
    "determinant growth": rs.DeterminantGrowth(eta=2.0),
    "total growth": rs.rules.TotalGrowth(eta=9.0),
    "total growth of log η": rs.rules.TotalGrowth(log_eta=3.0),
    "adaptive budget": rs.rules.AdaptiveBudget(switches=9),
    "spread budget": rs.SpreadBudget(switches=7),
    "capped growth": rs.rules.Capped(rs.DeterminantGrowth(eta=1.5), switches=5),
    "capped grid": rs.rules.Capped(rs.UniformGrid(batches=9), switches=4),
    "capped budget": rs.rules.Capped(rs.SpreadBudget(switches=9), switches=6),
    "capped, a user's own": rs.rules.Capped(Eighths(), switches=4),
    "waiting budget": rs.rules.Waiting(rs.SpreadBudget(switches=9), first=7, apart=3),
    "waiting grid": rs.rules.Waiting(rs.UniformGrid(batches=9), first=11, apart=5),
    "waiting, a user's own": rs.rules.Waiting(Eighths(), first=5, apart=9),
    "worthwhile budget": rs.rules.Worthwhile(rs.SpreadBudget(switches=9), change=0.5),
    "worthwhile grid": rs.rules.Worthwhile(rs.UniformGrid(batches=9), change=0.3),
    "a user's own": Eighths(),
}
RECIPES = {
    "paper": rs.Recipe.paper(beta=0.5, ridge=0.5, seed=(2, 5)),
    "mixture": rs.Recipe(exploration=rs.Ensemble(4), seed=(2, 5)),
}


def test_no_rule_is_left_out():
    rules = {
        thing
        for name in rs.rules.__all__
        if isinstance(thing := getattr(rs.rules, name), type)
        and issubclass(thing, rs.rules.Rule)
        and thing is not rs.rules.Rule
    }
    assert len(rules) == 12
    assert rules == {row.cls for row in TABLE}
    assert rules <= {type(rule) for rule in EVERY_RULE.values()}


@pytest.mark.parametrize("stages", ["own", "shared", "auto"])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("rule", EVERY_RULE)
@pytest.mark.parametrize(
    "world",
    [rs.worlds.hard_to_learn(d=5, horizon=3, seed=1), masked_world(4)],
    ids=["hard", "masked"],
)
def test_a_run_is_a_learner_action_by_action_under_every_rule(world, rule, recipe, stages):
    episodes, rule, recipe = 24, EVERY_RULE[rule], RECIPES[recipe]
    task = world.task(episodes=episodes, stages=stages)
    seeds = {"seeds": [recipe.seed], "initial_state": "uniform"}
    (run,) = Simulation([world], rule, recipe, task=task, **seeds).run().runs()
    noise = noise_of(None, episodes, world.horizon, recipe.seed)
    initial = initial_states("uniform", world.states, episodes, recipe.seed)
    learner = rs.Learner(task, rule, recipe)
    states, actions, members, tables = stepped(world, learner, noise=noise, initial=initial)
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    np.testing.assert_array_equal(run.members, members)
    assert run.deployment_episodes.tolist() == list(tables)
    assert [deployment.episode for deployment in learner.ledger] == list(tables)
    assert 2 < len(tables) <= episodes
    assert (run.switch_episodes.tolist(), run.local_switches) == switches_of(tables)
    assert run.policy.allocation == learner.policy.allocation
    assert run.policy.stages == learner.policy.stages
    for h in range(world.horizon):
        for s in range(world.states):
            menu = world.features[s][world.feasible[s]]
            found, expected = (policy.q_values(h, menu) for policy in (run.policy, learner.policy))
            np.testing.assert_allclose(found, expected, atol=1e-9)


TASK = HARD[0].task(episodes=10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 8}, r"task must have the worlds' dim 7 and horizon 4; got Task\(dim=8, horizon=4"),
        ({"dim": 6}, "task must have the worlds' dim 7 and horizon 4; got"),
        ({"horizon": 5}, "task must have the worlds' dim 7 and horizon 4; got Task.*horizon=5"),
        ({"horizon": 3}, "task must have the worlds' dim 7 and horizon 4; got"),
        ({"feature_norm": 1.0}, r"at least the worlds' feature_norm 2\.3\d*; got 1$"),
        ({"feature_norm": 0.999 * TASK.feature_norm}, "at least the worlds' feature_norm"),
        ({"feature_norm": 9.0, "one_hot": True}, "task must have no one_hot, no end_reward"),
        ({"end_reward": 0.5}, "task must have no one_hot, no end_reward"),
        ({"blocks": 7}, "no end_reward and no blocks in a simulation; got Task"),
        ({"episodes": None}, "task must have episodes: a simulation needs their number K"),
    ],
)  # fmt: skip
def test_a_task_that_is_not_the_worlds_is_refused(change, message):
    task = replace(TASK, **change)
    with pytest.raises(ValueError, match=message):
        Simulation(HARD, rs.EveryEpisode(), task=task, seeds=[0, 1, 2, 3])


@pytest.mark.parametrize("task", [None, 10, {"dim": 7, "horizon": 4}, rs.Task])
def test_a_simulation_needs_a_task(task):
    with pytest.raises(TypeError, match="task must be a Task; got"):
        Simulation(HARD, rs.EveryEpisode(), task=task, seeds=[0, 1, 2, 3])


def test_a_task_may_allow_longer_features_than_the_worlds():
    longer = replace(TASK, feature_norm=2.0 * TASK.feature_norm)
    seen = []

    class Spy:
        def due(self, clock):
            seen.append(clock.task)
            return False

    simulation = Simulation(HARD[:1], Spy(), task=longer, seeds=[0]).run()
    assert set(seen) == {longer}
    assert simulation.done
    assert simulation.task is longer


def test_a_rule_that_cannot_serve_the_task_is_refused_before_anything_is_played():
    for rule in (rs.UniformGrid(batches=11), rs.rules.Capped(rs.UniformGrid(batches=11), 3)):
        with pytest.raises(ValueError, match="batches must be from 1 to 10; got 11"):
            Simulation(HARD, rule, task=TASK, seeds=[0, 1, 2, 3])


def test_a_simulation_runs_to_the_end_and_tells_its_progress():
    heard = []
    simulation = Simulation(HARD, rs.UniformGrid(batches=4), task=TASK, seeds=[0, 1, 2, 3])
    assert simulation.run(heard.append) is simulation
    assert heard == [2, 4, 6, 10]
    assert all(len(run.regret) == 10 for run in simulation.runs())
