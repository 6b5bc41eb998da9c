from dataclasses import replace

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.sim.outcome import world_simulator

SEEDS = [(4, 0), (4, 1), (4, 2)]


def hard(seed):
    return rs.worlds.hard_to_learn(d=5, horizon=3, seed=seed)


def linear(seed):
    return rs.worlds.random_linear(states=4, actions=3, d=3, horizon=2, seed=seed)


@pytest.mark.parametrize("make", [hard, linear])
@pytest.mark.parametrize("exploration", [rs.Bonus(0.5), rs.Perturbation(0.3, draws=3)], ids=repr)
@pytest.mark.parametrize(
    "schedule", [rs.rules.TotalGrowth(eta=2.0), rs.UniformGrid(batches=5)], ids=repr
)
@pytest.mark.parametrize("stages", ["own", "shared"])
def test_outcomes_are_those_of_simulate(make, exploration, schedule, stages):
    recipe = rs.Recipe(exploration=exploration, ridge=0.5)
    task = replace(make(0).task(episodes=40, stages=stages), feature_norm=2.5)
    outcomes = world_simulator(make)(task, schedule, recipe, SEEDS)
    assert len(outcomes) == 3
    for seed, outcome in zip(SEEDS, outcomes, strict=True):
        world = make(seed)
        run = rs.simulate(world, schedule, recipe, episodes=40, seed=seed, stages=stages)
        assert outcome.regret == pytest.approx(run.regret.sum(), rel=1e-9)
        assert (outcome.deployments, outcome.switches) == (run.deployments, run.switches)
        best = world.optimal_values()[0][0]
        assert outcome.optimistic == pytest.approx(np.mean(run.fitted_values >= best - 1e-9))


def test_a_larger_radius_makes_more_fits_optimistic():
    play, task = world_simulator(hard), hard(0).task(episodes=40)
    grid = rs.UniformGrid(batches=8)
    shares = [
        np.mean([one.optimistic for one in play(task, grid, rs.Recipe.paper(beta), SEEDS)])
        for beta in (0.0, 100.0)
    ]
    assert shares[0] < shares[1] == 1.0


def test_episodes_may_begin_elsewhere():
    def cliff(seed):
        return rs.worlds.lower_bound_family(states=2, horizon=3, seed=seed)

    def regret(**start):
        play, task = world_simulator(cliff, **start), cliff(0).task(episodes=20)
        outcomes = play(task, rs.EveryEpisode(), rs.Recipe.paper(1.0), SEEDS)
        return sum(one.regret for one in outcomes)

    assert regret() == 0.0  # x_0 has nothing to lose
    assert regret(initial_state=1) > 0.0


def test_a_plan_on_worlds_keeps_its_budgets_and_finds_the_cheapest():
    made = rs.plan(
        hard(0).task(episodes=40),
        price=0.5,
        rounds=3,
        simulator=world_simulator(hard),
    )
    for option in made.options:
        assert option.switches.high <= option.deployments.high
        assert option.deployments.high <= option.candidate.deployment_limit
        assert 0.0 <= option.optimistic <= 1.0
    cost = [o.regret.mean * 40 + 0.5 * o.deployments.mean for o in made.options]
    assert made.recommended is made.options[int(np.argmin(cost))]
