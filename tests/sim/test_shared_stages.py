"""A simulation whose stages share their steps is a learner whose stages do, stepped by hand."""

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, masked_world, stepped, switches_of
from rareswitch.core.gram import Gram
from rareswitch.core.policy import fit
from rareswitch.core.task import Pools
from rareswitch.sim import Simulation
from rareswitch.sim.run import initial_states, noise_of
from rareswitch.sim.tally import Tally
from rareswitch.statistics import history_of

EPISODES, SEED = 20, (2, 5)
WORLDS = {
    "hard": rs.worlds.hard_to_learn(d=5, horizon=3, seed=1),
    "masked": masked_world(4),
    "two stages": rs.worlds.tabular(states=3, actions=2, horizon=2, seed=2),
}
RULES = {
    "every": rs.EveryEpisode(),
    "grid": rs.UniformGrid(batches=6),
    "growth": rs.DeterminantGrowth(eta=2.0),
    "adaptive": rs.rules.AdaptiveBudget(switches=9),
    "spread": rs.SpreadBudget(switches=7),
    "asked": Asked(rs.rules.TotalGrowth(eta=3.0)),
}
EXPLORATIONS = {
    "bonus": rs.Bonus(0.5),
    "estimated bonus of members": rs.Bonus(0.5, members=3, estimate=True),
    "perturbation": rs.Perturbation(0.3, draws=3),
    "ensemble": rs.Ensemble(4),
    "declared ensemble": rs.Ensemble(4, estimate=False),
}
SHARED = {"seed": SEED, "stages": "shared"}


def recipe_of(exploration, **rest):
    return rs.Recipe(exploration=EXPLORATIONS[exploration], **rest)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("exploration", EXPLORATIONS)
def test_a_run_is_a_learner_stepped_by_hand(world, rule, exploration):
    mdp, recipe = WORLDS[world], recipe_of(exploration, ridge=0.5, seed=SEED)
    run = rs.simulate(
        mdp, RULES[rule], recipe, episodes=EPISODES, initial_state="uniform", **SHARED
    )
    learner = rs.Learner(mdp.task(episodes=EPISODES, stages="shared"), RULES[rule], recipe)
    noise = noise_of(None, EPISODES, mdp.horizon, SEED)
    initial = initial_states("uniform", mdp.states, EPISODES, SEED)
    states, actions, members, tables = stepped(mdp, learner, noise=noise, initial=initial)
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    np.testing.assert_array_equal(run.members, members)
    assert run.deployment_episodes.tolist() == list(tables)
    assert [deployment.episode for deployment in learner.ledger] == list(tables)
    assert len(tables) > 2
    assert (run.switch_episodes.tolist(), run.local_switches) == switches_of(tables)
    found, expected = run.policy, learner.policy
    assert found.allocation == expected.allocation
    for h in range(mdp.horizon):
        for s in range(mdp.states):
            menu = mdp.features[s][mdp.feasible[s]]
            np.testing.assert_allclose(
                found.q_values(h, menu), expected.q_values(h, menu), atol=1e-9
            )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("exploration", EXPLORATIONS)
def test_runs_stepped_together_are_bit_identical_to_each_alone(rule, exploration):
    worlds = [rs.worlds.hard_to_learn(d=6, horizon=4, seed=(3, i)) for i in range(3)]
    recipe, seeds = recipe_of(exploration), [(5, i) for i in range(3)]
    task = worlds[0].task(episodes=EPISODES, stages="shared")
    together = Simulation(worlds, RULES[rule], recipe, task=task, seeds=seeds).run()
    for world, seed, run in zip(worlds, seeds, together.runs(), strict=True):
        alone = rs.simulate(
            world, RULES[rule], recipe, episodes=EPISODES, seed=seed, stages="shared"
        )
        for name in ("regret", "states", "actions", "deployment_episodes", "fitted_values"):
            np.testing.assert_array_equal(getattr(run, name), getattr(alone, name), err_msg=name)
        assert run.policy.to_bytes() == alone.policy.to_bytes()


@pytest.mark.parametrize("rule", ["every", "growth", "spread"])
@pytest.mark.parametrize("exploration", EXPLORATIONS)
def test_a_single_stage_has_nothing_to_share(rule, exploration):
    world = rs.worlds.tabular(states=3, actions=3, horizon=1, seed=1)
    settings = {"episodes": EPISODES, "seed": SEED, "initial_state": "uniform"}
    own, shared = (
        rs.simulate(world, RULES[rule], recipe_of(exploration), stages=stages, **settings)
        for stages in ("own", "shared")
    )
    np.testing.assert_array_equal(own.regret, shared.regret)
    np.testing.assert_array_equal(own.deployment_episodes, shared.deployment_episodes)
    assert own.policy.to_bytes() == shared.policy.to_bytes()


@pytest.mark.parametrize("exploration", EXPLORATIONS)
def test_many_episodes_at_once_are_absorbed_as_one_by_one(exploration):
    world, recipe = masked_world(3, d=4), recipe_of(exploration, ridge=0.3)
    rng, horizon = np.random.default_rng(5), world.horizon
    actions = (rng.random((horizon, world.states, 4)) * world.feasible).argmax(axis=-1)
    paths = rng.integers(0, world.states, (25, horizon + 1))
    stage, runs = np.arange(horizon), 2
    pools = Pools(horizon, shared=True)
    at_once, one_by_one = (
        Tally(world.space, runs=runs, pools=pools, recipe=recipe) for _ in range(2)
    )
    moves = np.zeros((runs, horizon, world.states, world.states))
    for path in paths:
        moves[:, stage, path[:-1], path[1:]] += 1.0
        taken = actions[stage, path[:-1]]
        features, rewards = world.features[path[:-1], taken], world.rewards[stage, path[:-1], taken]
        one_by_one.absorb(
            np.stack([features] * runs), np.stack([rewards] * runs), np.stack([path[1:]] * runs)
        )
    states = np.arange(world.states)
    features = world.features[states, actions]
    rewards = world.rewards[stage[:, None], states, actions]
    at_once.absorb_moves(moves, np.stack([features] * runs), np.stack([rewards] * runs))
    for name in ("step_sums", "reward_sums"):
        np.testing.assert_allclose(getattr(at_once, name), getattr(one_by_one, name), atol=1e-11)
    np.testing.assert_allclose(at_once.gram.logdet, one_by_one.gram.logdet, atol=1e-11)
    np.testing.assert_allclose(at_once.gram.trace, one_by_one.gram.trace, rtol=1e-12)
    norms = [tally.squared_norms() for tally in (at_once, one_by_one)]
    np.testing.assert_allclose(*norms, rtol=1e-10)
    drawn = recipe.perturbations(2, horizon, world.dim, shared=True)
    drawn = None if drawn is None else np.stack([drawn] * runs)
    log = [
        rs.Episode(
            features=world.features[path[:-1], taken],
            rewards=world.rewards[stage, path[:-1], taken],
            next_features=[world.features[s][world.feasible[s]] for s in path[1:-1]],
        )
        for path in paths
        for taken in [actions[stage, path[:-1]]]
    ]
    history = history_of(world.task(stages="shared"), 0.3, log)
    policy = fit(history, recipe, version=2)
    for tally in (at_once, one_by_one):
        stages, _ = tally.fit(perturbations=drawn, directions=None)
        for h in range(horizon):
            rows = world.features[0]
            found = np.atleast_2d(stages[h].select(1).q_values(rows))
            wanted = np.atleast_2d(policy.q_values(h, rows))
            np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), atol=1e-9)


def test_sharing_learns_faster_where_nothing_depends_on_the_stage():
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.full(4, 0.3), (4, 3))
    rewards = rng.random((4, 3)) ** 3
    world = rs.sim.FiniteMDP(
        features=np.eye(12).reshape(4, 3, 12),
        transitions=np.stack([transitions] * 6),
        rewards=np.stack([rewards] * 6),
    )
    grid = rs.UniformGrid(batches=12)
    own, shared = (
        sum(
            rs.simulate(world, grid, episodes=60, stages=stages, seed=seed).regret.sum()
            for seed in range(3)
        )
        for stages in ("own", "shared")
    )
    assert shared < 0.7 * own


def test_the_clock_says_how_many_steps_an_episode_adds():
    clocks = []

    class Spy:
        def due(self, clock):
            clocks.append(clock)
            return clock.episode % 5 == 0

    world = WORLDS["hard"]
    run = rs.simulate(world, Spy(), rs.Recipe.paper(beta=0.5), episodes=20, **SHARED)
    gram = Gram.of_ridge((2,), world.dim, 1.0)
    logdets = [gram.logdet]
    for path, taken in zip(run.states, run.actions, strict=True):
        features = world.features[path[:-1], taken]
        gram = gram.add_block(np.stack([features * [[1], [1], [0]], features]))
        logdets.append(gram.logdet)
    assert clocks
    for clock in clocks:
        assert clock.task == world.task(episodes=20, stages="shared")
        assert clock.task.pools.steps.tolist() == [2.0, 3.0]
        np.testing.assert_allclose(clock.logdet, logdets[clock.episode - 1], atol=1e-10)


def test_stages_must_be_own_or_shared():
    with pytest.raises(
        ValueError, match="stages must be one of 'auto', 'own', 'shared'; got 'all'"
    ):
        rs.simulate(WORLDS["hard"], rs.EveryEpisode(), episodes=3, stages="all")
