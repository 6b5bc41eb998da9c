"""Runs whose fits choose between own and shared stages, each run for itself."""

import numpy as np
import pytest

import rareswitch as rs
from oracles import stepped
from rareswitch.sim import FiniteMDP, Simulation
from rareswitch.sim.run import initial_states, noise_of

EPISODES, HORIZON = 40, 4
EXPLORATIONS = {
    "bonus": rs.Bonus(0.3),
    "estimated bonus of members": rs.Bonus(0.5, members=3, estimate=True),
    "perturbation": rs.Perturbation(0.3, draws=3),
    "ensemble": rs.Ensemble(4),
}
RULES = {
    "every": rs.EveryEpisode(),
    "grid": rs.UniformGrid(batches=6),
    "growth": rs.DeterminantGrowth(eta=2.0),
    "worth": rs.rules.Worthwhile(rs.rules.AdaptiveBudget(switches=20), change=0.3, price=4.0),
}
BY_EXPLORATION = pytest.mark.parametrize("exploration", EXPLORATIONS)
BY_RULE = pytest.mark.parametrize("rule", RULES)


def world(seed, *, dependent):
    """Return a tabular world, with the stages of its first stage throughout, or its own."""
    made = rs.worlds.tabular(states=4, actions=2, horizon=HORIZON, seed=seed)
    stages = np.arange(HORIZON) if dependent else np.zeros(HORIZON, int)
    return FiniteMDP(
        features=made.features,
        transitions=made.transitions[stages],
        rewards=made.rewards[stages],
    )


WORLDS = [world(seed, dependent=seed % 2 == 0) for seed in range(4)]


def played(worlds, rule, exploration, seeds):
    task = worlds[0].task(episodes=EPISODES, stages="auto")
    recipe = rs.Recipe(exploration=EXPLORATIONS[exploration])
    return Simulation(worlds, RULES[rule], recipe, task=task, seeds=seeds).run().runs()


@BY_RULE
@BY_EXPLORATION
def test_each_run_chooses_for_itself_as_if_it_were_alone(rule, exploration):
    seeds = [(5, r) for r in range(len(WORLDS))]
    together = played(WORLDS, rule, exploration, seeds)
    assert {run.policy.stages for run in together} == {"own", "shared"}
    for one, seed, run in zip(WORLDS, seeds, together, strict=True):
        (alone,) = played([one], rule, exploration, [seed])
        for name in ("regret", "states", "actions", "deployment_episodes", "fitted_values"):
            np.testing.assert_array_equal(getattr(run, name), getattr(alone, name), err_msg=name)
        assert run.policy.to_bytes() == alone.policy.to_bytes()


@BY_RULE
@BY_EXPLORATION
@pytest.mark.parametrize("number", [0, 1])
def test_a_run_is_a_learner_that_chooses(rule, exploration, number):
    seed, mdp = (5, number), WORLDS[number]
    (run,) = played([mdp], rule, exploration, [seed])
    recipe = rs.Recipe(exploration=EXPLORATIONS[exploration], seed=seed)
    learner = rs.Learner(mdp.task(episodes=EPISODES, stages="auto"), RULES[rule], recipe)
    noise = noise_of(None, EPISODES, HORIZON, seed)
    initial = initial_states(0, mdp.states, EPISODES, seed)
    states, actions, _, tables = stepped(mdp, learner, noise=noise, initial=initial)
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    assert run.deployment_episodes.tolist() == list(tables)
    assert run.policy.stages == learner.policy.stages
    for h in range(HORIZON):
        rows = mdp.features.reshape(-1, mdp.dim)
        found, wanted = (policy.q_values(h, rows) for policy in (run.policy, learner.policy))
        np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_simulate_takes_the_word():
    run = rs.simulate(WORLDS[0], rs.UniformGrid(batches=6), episodes=EPISODES, stages="auto")
    assert run.policy.stages == "own"
