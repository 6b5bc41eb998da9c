"""A simulated mixture is that of a learner whose episodes are played by the members drawn."""

from functools import cache

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, masked_world, stepped, switches_of
from rareswitch.sim import FiniteMDP, Simulation
from rareswitch.sim.run import initial_states, noise_of

EPISODES, SEED = 24, (2, 5)
WORLDS = {
    "hard": rs.worlds.hard_to_learn(d=5, horizon=3, seed=1),
    "masked": masked_world(4),
}
RULES = {
    "every": rs.EveryEpisode(),
    "grid": rs.UniformGrid(batches=7),
    "growth": rs.DeterminantGrowth(eta=2.0),
    "adaptive": rs.rules.AdaptiveBudget(switches=9),
    "asked": Asked(rs.rules.TotalGrowth(eta=3.0)),
    "worth": rs.rules.Worthwhile(rs.rules.AdaptiveBudget(switches=15), change=0.2, price=1.0),
}
EXPLORATIONS = {
    "ensemble": rs.Ensemble(),
    "declared ensemble": rs.Ensemble(4, estimate=False),
    "bonus of members": rs.Bonus(0.5, members=4),
    "estimated bonus of members": rs.Bonus(0.5, members=4, estimate=True),
    "estimated bonus": rs.Bonus(1.0, estimate=True),
    "estimated perturbation": rs.Perturbation(0.3, estimate=True),
}


def learner_of(world, rule, exploration):
    recipe = rs.Recipe(exploration=EXPLORATIONS[exploration], seed=SEED)
    return rs.Learner(WORLDS[world].task(episodes=EPISODES), RULES[rule], recipe)


@cache
def both(world, rule, exploration):
    """Return a run, and the same by a learner stepped by hand."""
    mdp, recipe = WORLDS[world], rs.Recipe(exploration=EXPLORATIONS[exploration])
    run = rs.simulate(
        mdp, RULES[rule], recipe, episodes=EPISODES, seed=SEED, initial_state="uniform"
    )
    learner = learner_of(world, rule, exploration)
    noise = noise_of(None, EPISODES, mdp.horizon, SEED)
    initial = initial_states("uniform", mdp.states, EPISODES, SEED)
    return run, stepped(mdp, learner, noise=noise, initial=initial)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("exploration", EXPLORATIONS)
def test_a_run_is_a_learner_whose_episodes_are_played_by_the_members_drawn(
    world, rule, exploration
):
    mdp = WORLDS[world]
    run, (states, actions, members, tables) = both(world, rule, exploration)
    np.testing.assert_array_equal(run.members, members)
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    assert run.deployment_episodes.tolist() == list(tables)
    assert len(tables) > 2
    assert (run.switch_episodes.tolist(), run.local_switches) == switches_of(tables)
    gaps = {
        k: [mdp.optimal_values()[0] - mdp.policy_values(table)[0] for table in mixture]
        for k, mixture in tables.items()
    }
    in_force = np.array(list(tables))[
        np.searchsorted(list(tables), np.arange(1, EPISODES + 1), side="right") - 1
    ]
    played = zip(in_force, members, states[:, 0], strict=True)
    np.testing.assert_allclose(run.regret, [gaps[k][m][s] for k, m, s in played], atol=1e-12)


@pytest.mark.parametrize("exploration", EXPLORATIONS)
def test_members_play_in_turns_and_no_longer_than_there_are_any(exploration):
    run, _ = both("masked", "every", exploration)
    members = EXPLORATIONS[exploration].members
    assert run.members.shape == (EPISODES,)
    assert run.members.min() >= 0
    assert run.members.max() < members
    assert len(set(run.members.tolist())) > 1 or members == 1


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("exploration", EXPLORATIONS)
def test_the_last_policy_and_every_fit_are_those_of_the_learner(world, exploration):
    mdp, explores = WORLDS[world], EXPLORATIONS[exploration]
    run, (states, actions, _, _) = both(world, "grid", exploration)
    learner = learner_of(world, "grid", exploration)
    menus = [mdp.features[s][mdp.feasible[s]] for s in range(mdp.states)]
    fits, stage = [learner.policy.value(0, menus[states[0, 0]])], np.arange(mdp.horizon)
    for k, (path, taken) in enumerate(zip(states[:-1], actions[:-1], strict=True)):
        episode = rs.Episode(
            features=mdp.features[path[:-1], taken],
            rewards=mdp.rewards[stage, path[:-1], taken],
            next_features=[menus[s] for s in path[1:-1]],
        )
        if learner.observe(episode):
            fits.append(learner.policy.value(0, menus[states[k + 1, 0]]))
    np.testing.assert_allclose(run.fitted_values, fits, atol=1e-9)
    found, expected = run.policy, learner.policy
    assert (found.members, found.allocation) == (expected.members, expected.allocation)
    assert (found.members, found.beta) == (explores.members, explores.beta)
    np.testing.assert_array_equal(found.directions, expected.directions)
    for h in range(mdp.horizon):
        for menu in menus:
            np.testing.assert_allclose(
                found.q_values(h, menu), expected.q_values(h, menu), atol=1e-9
            )
            np.testing.assert_array_equal(
                found.propensities(h, menu), expected.propensities(h, menu)
            )


def test_a_mixture_that_never_changes_has_the_regret_of_its_members():
    world = WORLDS["masked"]
    recipe = rs.Recipe(exploration=rs.Ensemble(5))
    run = rs.simulate(world, rs.UniformGrid(batches=1), recipe, episodes=200, seed=3)
    assert (run.deployments, run.switches, run.local_switches) == (1, 0, 0)
    assert set(run.members.tolist()) == set(range(5))
    for m in range(5):
        assert np.unique(run.regret[run.members == m]).size == 1
    np.testing.assert_array_equal(run.members, [run.policy.allocate(k) for k in range(1, 201)])


@pytest.mark.parametrize("exploration", [rs.Ensemble(5), rs.Bonus(0.3, members=5)], ids=repr)
def test_a_run_of_a_mixture_may_be_read_midway(exploration):
    worlds = [WORLDS["masked"]] * 3
    simulation = Simulation(
        worlds,
        RULES["growth"],
        rs.Recipe(exploration=exploration),
        task=worlds[0].task(episodes=EPISODES),
        seeds=[0, 1, 2],
    )
    assert all(run.policy is None and not len(run.members) for run in simulation.runs())
    for _ in range(4):
        simulation.step()
    early = simulation.runs()
    kept = [run.policy.to_bytes() for run in early]
    while not simulation.done:
        simulation.step()
    for part, whole, packed in zip(early, simulation.runs(), kept, strict=True):
        assert 4 <= len(part.members) < EPISODES
        assert (part.members == whole.members[: len(part.members)]).all()
        assert (part.regret == whole.regret[: len(part.members)]).all()
        assert part.policy.to_bytes() == packed
        assert part.policy.members == whole.policy.members == 5


def test_the_noise_of_a_round_is_shared_whatever_explores():
    runs = [both("masked", "grid", name)[0] for name in EXPLORATIONS]
    starts = {tuple(run.states[:, 0].tolist()) for run in runs}
    assert len(starts) == 1


@pytest.mark.parametrize("recipe", [None, rs.Recipe.paper(beta=1.0)])
def test_a_world_of_one_state_is_a_bandit(recipe):
    means = np.array([0.1, 0.5, 0.9])
    world = FiniteMDP(
        features=np.eye(3)[None], transitions=np.ones((1, 1, 3, 1)), rewards=means[None, None]
    )
    for rule in (rs.UniformGrid(batches=6), rs.DeterminantGrowth(eta=2.0)):
        run = rs.simulate(world, rule, recipe, episodes=60)
        np.testing.assert_allclose(run.regret, 0.9 - means[run.actions[:, 0]])
        assert run.regret[-10:].mean() < 0.4
