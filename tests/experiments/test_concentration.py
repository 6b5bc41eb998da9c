import numpy as np
import pytest

import rareswitch as rs
from oracles import masked_world
from rareswitch.experiments.algorithms import empirical_radius
from rareswitch.sim import Simulation

WORLDS = {
    "hard": [rs.worlds.hard_to_learn(d=5, horizon=3, seed=(1, i)) for i in range(3)],
    "masked": [masked_world(2)] * 3,
}


@pytest.mark.parametrize("worlds", WORLDS.values(), ids=WORLDS)
def test_the_radius_is_the_least_beta_with_which_the_lemma_holds(worlds):
    simulation = Simulation(
        worlds,
        rs.UniformGrid(batches=4),
        rs.Recipe.paper(beta=0.5),
        task=worlds[0].task(episodes=60),
        seeds=[0, 1, 2],
    )
    for _ in range(4):
        simulation.deploy()
        found = empirical_radius(simulation, worlds)
        policies = [run.policy for run in simulation.runs()]
        for world, policy, radius in zip(worlds, policies, found, strict=True):
            needed = 0.0
            for h in range(world.horizon):
                following = np.zeros(world.states)
                if h + 1 < world.horizon:
                    menus = [world.features[s][world.feasible[s]] for s in range(world.states)]
                    following = np.array([policy.value(h + 1, menu) for menu in menus])
                backed_up = world.rewards[h] + world.transitions[h] @ following
                error = np.abs(world.features @ policy.weights[h] - backed_up)
                norm = np.linalg.norm(world.features @ policy.whitener[h].T, axis=-1)
                needed = max(needed, (error / norm)[world.feasible].max())
            assert radius == pytest.approx(needed, rel=1e-6)
        simulation.play()


@pytest.mark.parametrize(
    "exploration", [rs.Ensemble(), rs.Bonus(estimate=True), rs.Perturbation(0.5)], ids=repr
)
def test_the_lemma_is_about_the_papers_bonus(exploration):
    worlds = WORLDS["masked"]
    simulation = Simulation(
        worlds,
        rs.EveryEpisode(),
        rs.Recipe(exploration=exploration),
        task=worlds[0].task(episodes=9),
        seeds=[0, 1, 2],
    )
    simulation.deploy()
    with pytest.raises(ValueError, match=r"simulation must have the paper's bonus, .*; got "):
        empirical_radius(simulation, worlds)
