"""The cost of a mixture: fits of 32 members and of the paper's bonus on the same data."""

from typing import Any

from measure import cpu_time

import rareswitch as rs
from rareswitch.core.exploration import Exploration
from rareswitch.core.policy import fit
from rareswitch.sim import FiniteLinearMDP, Simulation
from rareswitch.statistics import History, history_of

K, H, D, MEMBERS = 2500, 10, 13, 32
WAYS: dict[str, Exploration] = {
    "bonus": rs.Bonus(1.0),
    f"{MEMBERS} members": rs.Ensemble(members=MEMBERS),
    f"{MEMBERS} members, declared noise": rs.Ensemble(members=MEMBERS, estimate=False),
    f"bonus, {MEMBERS} members": rs.Bonus(1.0, members=MEMBERS),
    "bonus, estimated": rs.Bonus(1.0, estimate=True),
}
FITS = 20


def simulated(world: FiniteLinearMDP, exploration: Exploration) -> float:
    """Return the seconds of a fit halfway through a simulation."""
    grid, recipe = rs.UniformGrid(batches=2), rs.Recipe(exploration=exploration)
    simulation = Simulation([world], grid, recipe, task=world.task(episodes=K), seeds=[0])
    simulation.step()
    recipe = simulation.recipes[0]
    perturbations, directions = recipe.perturbations(2, H, D), recipe.directions(2, H, D)
    assert directions is not None
    drawn = None if perturbations is None else perturbations[None]

    def fits() -> None:
        for _ in range(FITS):
            simulation.tally.fit(perturbations=drawn, directions=directions[None])

    return cpu_time(fits).least / FITS


def learnt(history: History, exploration: Exploration) -> float:
    """Return the seconds of a learner's fit after all episodes."""
    recipe = rs.Recipe(exploration=exploration)

    def fits() -> None:
        for _ in range(FITS):
            fit(history, recipe, version=2)

    return cpu_time(fits).least / FITS


def played(world: FiniteLinearMDP) -> History:
    """Return a learner's history after a mixture's run."""
    run = rs.simulate(world, rs.UniformGrid(batches=10), episodes=K)
    rows = [world.features[s][world.feasible[s]] for s in range(world.states)]
    stages = range(H)
    log = (
        rs.Episode(
            features=world.features[states[:-1], actions],
            rewards=world.rewards[stages, states[:-1], actions],
            next_features=[rows[s] for s in states[1:-1]],
        )
        for states, actions in zip(run.states, run.actions, strict=True)
    )
    return history_of(world.task(), log=log).fold()


def run() -> dict[str, Any]:
    world = rs.worlds.hard_to_learn(seed=0)
    history = played(world)
    results = {}
    for place, seconds in (
        ("simulation", {name: simulated(world, way) for name, way in WAYS.items()}),
        ("learner", {name: learnt(history, way) for name, way in WAYS.items()}),
    ):
        for name, spent in seconds.items():
            ratio = spent / seconds["bonus"]
            results[f"fit in a {place}: {name}"] = f"{1e3 * spent:.2f} ms ({ratio:.1f} bonus fits)"
    return results
