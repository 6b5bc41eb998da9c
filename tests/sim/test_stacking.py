"""A run's numbers do not depend on the runs that are stepped with it."""

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, masked_world
from rareswitch.sim import Simulation

HARD = [rs.instances.hard_to_learn(d=7, horizon=4, seed=(3, i)) for i in range(4)]
WORLDS = {
    "hard": HARD,
    "wide": [rs.instances.random_linear(states=9, actions=4, d=4, horizon=3, seed=1)] * 4,
    "masked": [masked_world(2)] * 4,
}
PARTS = (
    "regret", "states", "actions", "members", "deployment_episodes", "switch_episodes",
)  # fmt: skip
RULES = {
    "every episode": rs.EveryEpisode(),
    "batch": rs.UniformGrid(episodes=200, batches=13),
    "rareswitch": rs.DeterminantGrowth(eta=1.5),
    "rareswitch asked": Asked(rs.DeterminantGrowth(eta=6.0)),
    "total growth": rs.TotalGrowth(eta=3.0),
    "adaptive": rs.AdaptiveBudget(switches=20, episodes=200, dim=7, feature_norm=2.0),
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
    seeds = [(5, i) for i in range(4)]
    arguments = {"episodes": 200, "exploration": exploration}
    together = Simulation(worlds, rule, seeds=seeds, **arguments)
    while not together.done:
        together.step()
    for world, seed, run in zip(worlds, seeds, together.runs(), strict=True):
        alone = rs.simulate(world, rule, seed=seed, **arguments)
        for name in PARTS:
            np.testing.assert_array_equal(getattr(run, name), getattr(alone, name), err_msg=name)
        np.testing.assert_array_equal(run.fitted_values, alone.fitted_values)
        assert run.local_switches == alone.local_switches
        assert run.policy.to_bytes() == alone.policy.to_bytes()


@pytest.mark.parametrize(
    ("worlds", "seeds", "message"),
    [
        ([], [], "worlds must hold at least one world; got none"),
        (HARD[:1], [0, 1], "seeds must be one for each of 1 worlds; got 2"),
        (
            [HARD[0], rs.instances.hard_to_learn(d=7, horizon=4, delta=0.2)],
            [0, 1],
            "worlds stepped together must share features and horizon",
        ),
        (
            [HARD[0], rs.instances.hard_to_learn(d=7, horizon=5)],
            [0, 1],
            "worlds stepped together must share features and horizon",
        ),
    ],
)
def test_worlds_that_cannot_step_together_are_refused(worlds, seeds, message):
    with pytest.raises(ValueError, match=message):
        Simulation(worlds, rs.EveryEpisode(), episodes=3, seeds=seeds)


@pytest.mark.parametrize("part", ["logdet", "logdet_deployed", "trace_deployed"])
def test_a_rule_that_writes_to_its_clock_cannot_reach_into_a_simulation(part):
    class Meddles:
        def due(self, clock):
            getattr(clock, part)[:] = 0.0

    meddled = Simulation(HARD[:1], Meddles(), episodes=10, seeds=[0], ridge=2.0)
    with pytest.raises(ValueError, match="read-only"):
        meddled.step()
