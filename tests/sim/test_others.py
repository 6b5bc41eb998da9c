"""A simulated control and floor are those of a learner; their regret is exact."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

import rareswitch as rs
from oracles import episode_of, masked_world
from rareswitch.core.control import ROLES, Control
from rareswitch.sim import FiniteLinearMDP, FiniteMDP, Simulation
from rareswitch.sim.adversary import play_adversary
from rareswitch.sim.outcome import world_simulator
from rareswitch.sim.run import initial_states, noise_of

EPISODES, SEED = 30, (4, 1)


def twins_world():
    """Return a world in which two actions share their features."""
    rng = np.random.default_rng(3)
    features = rng.dirichlet(np.ones(3), (3, 3))
    features[:, 1] = features[:, 0]
    mu = rng.dirichlet(np.ones(3), (2, 3)).transpose(0, 2, 1)
    return FiniteLinearMDP(features, mu, rng.random((2, 3)))


WORLDS = {
    "hard": rs.worlds.hard_to_learn(d=5, horizon=3, seed=1),
    "masked": masked_world(4),
    "twins": twins_world(),
}


def usual(world, members):
    rng = np.random.default_rng(9)
    shape = (members,) if members > 1 else ()
    mdp = WORLDS[world]
    return rs.Policy(
        weights=rng.normal(size=(*shape, mdp.horizon, mdp.dim)),
        allocation=3 if members > 1 else None,
        clip=False,
    )


RECIPES = {
    "floor": lambda world: rs.Recipe(floor=0.3),
    "burn-in": lambda world: rs.Recipe(burn_in=True),
    "action": lambda world: rs.Recipe(control=Control(0, share=0.3)),
    "action, one policy": lambda world: rs.Recipe.paper(control=Control(0, share=0.3), floor=0.2),
    "policy": lambda world: rs.Recipe(control=Control(usual(world, 1), share=0.3), floor=0.1),
    "all": lambda world: rs.Recipe(
        exploration=rs.Ensemble(4),
        control=Control(usual(world, 3), share=0.3),
        floor=0.2,
        burn_in=True,
    ),
}
RULES = {
    "every": rs.EveryEpisode(),
    "grid": rs.UniformGrid(batches=6),
    "growth": rs.DeterminantGrowth(eta=2.0),
    "waiting": rs.rules.Waiting(rs.SpreadBudget(switches=6), first=9, apart=4),
    "worth": rs.rules.Worthwhile(rs.rules.AdaptiveBudget(switches=15), change=0.2, price=1.0),
}


@cache
def both(world, rule, recipe):
    """Return a run, and states, actions, roles and policies of a learner stepped by hand."""
    mdp, made = WORLDS[world], RECIPES[recipe](world)
    run = rs.simulate(mdp, RULES[rule], made, episodes=EPISODES, seed=SEED, initial_state="uniform")
    learner = rs.Learner(
        mdp.task(episodes=EPISODES), RULES[rule], rs.Recipe(**vars_of(made) | {"seed": SEED})
    )
    noise = noise_of(None, EPISODES, mdp.horizon, SEED)
    initial = initial_states("uniform", mdp.states, EPISODES, SEED)
    states = np.zeros((EPISODES, mdp.horizon + 1), int)
    actions = np.zeros((EPISODES, mdp.horizon), int)
    policies, roles = [], []
    for k in range(EPISODES):
        policies.append(learner.policy)
        player = learner.policy.draw(k + 1)
        roles.append(player.role)
        states[k, 0] = initial[k]
        for h in range(mdp.horizon):
            s = states[k, h]
            options = np.flatnonzero(mdp.feasible[s])
            actions[k, h] = options[player.act(h, mdp.features[s][options])]
            cdf = np.cumsum(mdp.transitions[h, s, actions[k, h]])[:-1]
            states[k, h + 1] = (cdf <= noise[k, h]).sum()
        learner.observe(episode_of(mdp, states[k], actions[k]))
    return run, states, actions, roles, policies, learner


def vars_of(recipe):
    names = ("exploration", "ridge", "ties", "clip", "control", "floor", "burn_in")
    return {name: getattr(recipe, name) for name in names}


def value_by_hand(mdp, policy, player):
    """Return V₁ (S,) of a player, by probabilities of its actions."""
    alone, value = policy.alone(player), np.zeros(mdp.states)
    for h in reversed(range(mdp.horizon)):
        q_values = mdp.rewards[h] + mdp.transitions[h] @ value
        value = np.array([
            alone.propensities(h, mdp.features[s][mdp.feasible[s]]) @ q_values[s][mdp.feasible[s]]
            for s in range(mdp.states)
        ])  # fmt: skip
    return value


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_is_a_learner_episode_by_episode(world, rule, recipe):
    run, states, actions, roles, policies, learner = both(world, rule, recipe)
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    assert [ROLES[role] for role in run.roles] == roles
    assert run.deployment_episodes.tolist() == [
        d.episode for d in learner.ledger if d.episode <= EPISODES
    ]
    assert run.policy.split == policies[-1].split
    assert len(set(roles)) > 1


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_regret_is_exact_for_every_role(world, recipe):
    run, states, _, roles, policies, _ = both(world, "grid", recipe)
    mdp, lost = WORLDS[world], np.zeros(EPISODES)
    best, known = mdp.optimal_values()[0], {}
    for k, policy in enumerate(policies):
        name = policy.digest, policy.allocate(k + 1)
        if name not in known:
            known[name] = best - value_by_hand(mdp, policy, name[1])
        lost[k] = known[name][states[k, 0]]
    np.testing.assert_allclose(run.regret, lost, atol=1e-12)
    for role in set(roles):
        here = np.array(roles) == role
        assert run.by_role[role].episodes == here.sum()
        assert run.by_role[role].regret == pytest.approx(lost[here].sum())
    assert sum(part.regret for part in run.by_role.values()) == pytest.approx(run.regret.sum())


def test_a_burn_in_plays_all_of_version_one_at_random():
    world = WORLDS["hard"]
    rule = rs.rules.Waiting(rs.SpreadBudget(switches=3), first=30)
    recipe = rs.Recipe(burn_in=True, control=Control(0, share=0.2))
    run = rs.simulate(world, rule, recipe, episodes=100, seed=2)
    first = run.deployment_episodes[1] - 1
    assert first >= 30
    assert {ROLES[role] for role in run.roles[:first]} == {"floor"}
    gap = world.optimal_values()[0] - world.random_values()[0]
    np.testing.assert_allclose(run.regret[:first], gap[run.states[:first, 0]], atol=1e-12)
    assert {ROLES[role] for role in run.roles[first:]} == {"learned", "control"}
    assert run.switch_episodes[0] == run.deployment_episodes[1]


def test_runs_together_are_the_runs_alone():
    world, recipe = WORLDS["hard"], rs.Recipe(control=Control(0, share=0.3), floor=0.2)
    task = world.task(episodes=EPISODES)
    for rule in (RULES["waiting"], RULES["grid"]):
        together = Simulation([world] * 3, rule, recipe, task=task, seeds=[1, 2, 3]).run().runs()
        for seed, run in zip([1, 2, 3], together, strict=True):
            alone = rs.simulate(world, rule, recipe, episodes=EPISODES, seed=seed)
            np.testing.assert_array_equal(run.actions, alone.actions)
            np.testing.assert_array_equal(run.roles, alone.roles)
            np.testing.assert_allclose(run.regret, alone.regret, atol=1e-12)


def test_over_many_episodes_shares_are_the_recipe_s():
    recipe = rs.Recipe(control=Control(0, share=0.3), floor=0.2)
    run = rs.simulate(WORLDS["hard"], rs.UniformGrid(batches=2), recipe, episodes=4000)
    for role, share in (("learned", 0.5), ("control", 0.3), ("floor", 0.2)):
        error = norm.ppf(1 - 1e-5) * np.sqrt(share * (1 - share) / 4000)
        assert run.by_role[role].episodes / 4000 == pytest.approx(share, abs=error)


def test_a_control_that_is_not_feasible_everywhere_is_refused():
    world = WORLDS["masked"]
    most = int(world.feasible.sum(axis=1).max())
    with pytest.raises(ValueError, match="must have a row for action"):
        rs.simulate(world, RULES["grid"], rs.Recipe(control=Control(most, share=0.1)), episodes=60)
    wrong = rs.Recipe(control=Control(usual("hard", 1), share=0.1))
    with pytest.raises(ValueError, match="control must have the world's horizon"):
        rs.simulate(WORLDS["twins"], RULES["grid"], wrong, episodes=60)


def test_an_adversary_faces_learned_policies_alone():
    task = rs.Task(dim=5, horizon=2, episodes=40)
    learner = rs.Learner(task, rs.UniformGrid(batches=8), rs.Recipe.paper(floor=0.1))
    with pytest.raises(ValueError, match="without a control and a floor"):
        play_adversary(learner, states=2, horizon=2, episodes=40, starts=range(1, 41, 5))


def test_an_outcome_tells_what_the_control_costs():
    play = world_simulator(lambda seed: rs.worlds.hard_to_learn(d=5, horizon=3, seed=seed))
    task = WORLDS["hard"].task(episodes=200)
    recipe = rs.Recipe(control=Control(0, share=0.3))
    outcomes = play(task, rs.SpreadBudget(switches=3), recipe, [0, 1])
    for outcome in outcomes:
        parts = outcome.by_role
        assert set(parts) == {"learned", "control"}
        assert sum(part[1] for part in parts.values()) == pytest.approx(outcome.regret)
    plain = play(task, rs.SpreadBudget(switches=3), rs.Recipe(), [0])
    assert plain[0].by_role is None


def test_a_run_without_shares_is_all_learned():
    run = rs.simulate(WORLDS["hard"], rs.UniformGrid(batches=2), episodes=20)
    assert set(run.by_role) == {"learned"}
    assert isinstance(WORLDS["hard"], FiniteMDP)
