import numpy as np
import pytest

import rareswitch as rs

SEEDS = [(4, 0), (4, 1), (4, 2)]


def hard(seed):
    return rs.instances.hard_to_learn(d=5, horizon=3, seed=seed)


def linear(seed):
    return rs.instances.random_linear(states=4, actions=3, d=3, horizon=2, seed=seed)


@pytest.mark.parametrize("make", [hard, linear])
@pytest.mark.parametrize("optimism", [rs.Bonus(0.5), rs.Perturbation(0.3, draws=3)], ids=repr)
@pytest.mark.parametrize(
    "schedule", [rs.TotalGrowth(2.0), rs.UniformGrid(episodes=40, batches=5)], ids=repr
)
def test_outcomes_are_those_of_simulate(make, optimism, schedule):
    outcomes = rs.world_simulator(make, episodes=40, ridge=0.5)(schedule, optimism, SEEDS)
    assert len(outcomes) == 3
    for seed, outcome in zip(SEEDS, outcomes, strict=True):
        world = make(seed)
        run = rs.simulate(world, schedule, episodes=40, ridge=0.5, optimism=optimism, seed=seed)
        assert outcome.regret == pytest.approx(run.regret.sum(), rel=1e-9)
        assert outcome.switches == run.switches
        best = world.optimal_values()[0][0]
        assert outcome.optimistic == pytest.approx(np.mean(run.plan_values >= best - 1e-9))


def test_a_larger_radius_makes_more_plans_optimistic():
    play = rs.world_simulator(hard, episodes=40)
    grid = rs.UniformGrid(episodes=40, batches=8)
    shares = [
        np.mean([one.optimistic for one in play(grid, rs.Bonus(beta), SEEDS)])
        for beta in (0.0, 100.0)
    ]
    assert shares[0] < shares[1] == 1.0


def test_an_outcome_needs_no_optimism():
    assert rs.Outcome(regret=-3.0, switches=2).optimistic is None


def test_a_plan_on_worlds_keeps_its_budgets_and_finds_the_cheapest():
    made = rs.plan(
        episodes=40,
        horizon=3,
        dim=5,
        feature_norm=hard(0).feature_norm,
        price=0.5,
        rounds=3,
        simulator=rs.world_simulator(hard, episodes=40),
    )
    for option in made.options:
        assert option.switches.high <= option.candidate.guaranteed_switches
        assert 0.0 <= option.optimistic <= 1.0
    cost = [o.regret.mean * 40 + 0.5 * o.switches.mean for o in made.options]
    assert made.recommended is made.options[int(np.argmin(cost))]
