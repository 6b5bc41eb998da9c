"""A run's numbers do not depend on the runs that are stepped with it."""

import numpy as np
import pytest

import rareswitch as rs

HARD = [rs.instances.hard_to_learn(d=7, horizon=4, seed=(3, i)) for i in range(4)]
WIDE = [rs.instances.random_linear(states=9, actions=4, d=4, horizon=3, seed=1)] * 4
RULES = {
    "every episode": rs.EveryEpisode(),
    "batch": rs.UniformGrid(episodes=300, batches=13),
    "rareswitch": rs.DeterminantGrowth(eta=1.5),
    "total growth": rs.TotalGrowth(eta=3.0),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("worlds", [HARD, WIDE], ids=["hard", "wide"])
def test_runs_stepped_together_are_bit_identical_to_each_alone(worlds, rule):
    seeds = [(5, i) for i in range(4)]
    together = rs.Simulation(worlds, rule, episodes=300, seeds=seeds)
    while not together.done:
        together.step()
    for world, seed, run in zip(worlds, seeds, together.runs(), strict=True):
        alone = rs.simulate(world, rule, episodes=300, seed=seed)
        np.testing.assert_array_equal(run.regret, alone.regret)
        np.testing.assert_array_equal(run.plan_values, alone.plan_values)
        assert run.policy.to_bytes() == alone.policy.to_bytes()


def test_as_many_seeds_as_worlds_are_needed():
    with pytest.raises(ValueError, match="seeds must be one for each of 1 worlds; got 2"):
        rs.Simulation(HARD[:1], rs.EveryEpisode(), episodes=3, seeds=[0, 1])


def test_a_rule_that_writes_to_its_clock_cannot_reach_into_a_simulation():
    class Meddles:
        def due(self, clock):
            clock.logdet_deployed[:] = 0.0
            return False

    meddled = rs.Simulation(HARD[:1], Meddles(), episodes=10, seeds=[0], ridge=2.0)
    meddled.step()
    grid = rs.UniformGrid(episodes=10, batches=1)
    fresh = rs.Simulation(HARD[:1], grid, episodes=10, seeds=[0], ridge=2.0)
    fresh.step()
    np.testing.assert_allclose(meddled.gram.logdet, fresh.gram.logdet)
