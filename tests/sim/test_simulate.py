import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, Starts, episode_of, masked_world, switches_of, walk
from rareswitch.sim import Simulation, simulate_random
from rareswitch.support.streams import Stream, generator

EPISODES = 40
HARD = [rs.worlds.hard_to_learn(d=6, horizon=4, seed=(1, i)) for i in range(4)]
WORLDS = {
    "hard": HARD[0],
    "masked": masked_world(2),
    "larger S than d": rs.worlds.random_linear(states=12, actions=3, d=3, horizon=3, seed=3),
    "tabular": rs.worlds.tabular(states=3, actions=2, horizon=2, seed=4),
    "misspecified": rs.worlds.misspecified(HARD[1], zeta=0.4, seed=5),
}
RULES = {
    "every": rs.EveryEpisode(),
    "grid": rs.UniformGrid(batches=9),
    "growth 1.5": rs.DeterminantGrowth(eta=1.5),
    "growth 6": rs.DeterminantGrowth(eta=6.0),
}


@cache
def run_of(world, rule, ties="direction", seed=(6, 1)):
    recipe = rs.Recipe.paper(beta=0.5, ties=ties)
    return rs.simulate(WORLDS[world], RULES[rule], recipe, episodes=EPISODES, seed=seed)


def learner_of(world, rule, recipe):
    """Return the learner that `run_of` simulates."""
    return rs.Learner(WORLDS[world].task(episodes=EPISODES), RULES[rule], recipe)


def same(one, other):
    for name in ("regret", "states", "actions", "deployment_episodes", "switch_episodes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.local_switches == other.local_switches
    np.testing.assert_allclose(one.fitted_values, other.fitted_values, atol=1e-9)
    np.testing.assert_allclose(one.policy.weights, other.policy.weights, atol=1e-9)
    inverses = (run.policy.whitener.mT @ run.policy.whitener for run in (one, other))
    np.testing.assert_allclose(*inverses, rtol=1e-9, atol=1e-12)
    assert (one.policy.directions == other.policy.directions).all()


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rule", RULES)
def test_looking_ahead_equals_asking_before_every_episode(world, rule):
    asked = rs.simulate(
        WORLDS[world],
        Asked(RULES[rule]),
        rs.Recipe.paper(beta=0.5),
        episodes=EPISODES,
        seed=(6, 1),
    )
    same(run_of(world, rule), asked)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ties", ["direction", "lowest"])
def test_a_run_is_a_learner_stepped_by_hand(world, rule, ties):
    mdp, run = WORLDS[world], run_of(world, rule, ties)
    learner = learner_of(world, rule, rs.Recipe.paper(beta=0.5, ties=ties, seed=(6, 1)))
    noise = generator((6, 1), Stream.NOISE).random((EPISODES, mdp.horizon))
    states, actions, tables = walk(mdp, learner, noise=noise, initial=np.zeros(EPISODES, int))
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    assert run.deployment_episodes.tolist() == list(tables)
    assert run.deployments == len(tables)
    switched, local = switches_of(tables)
    assert run.switch_episodes.tolist() == switched
    assert (run.switches, run.local_switches) == (len(switched), local)
    optimal = mdp.optimal_values()[0, 0]
    regret = {k: optimal - mdp.policy_values(table)[0, 0] for k, table in tables.items()}
    in_force = np.searchsorted(list(tables), np.arange(1, EPISODES + 1), side="right") - 1
    np.testing.assert_allclose(run.regret, np.array(list(regret.values()))[in_force], atol=1e-12)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rule", RULES)
def test_the_last_policy_and_every_fit_are_those_of_the_learner(world, rule):
    mdp, run = WORLDS[world], run_of(world, rule)
    learner = learner_of(world, rule, rs.Recipe.paper(beta=0.5, seed=(6, 1)))
    rows = mdp.features[0][mdp.feasible[0]]
    fits, policy = [learner.policy.value(0, rows)], learner.policy
    for states, actions in zip(run.states[:-1], run.actions[:-1], strict=True):
        if learner.observe(episode_of(mdp, states, actions)):
            policy = learner.policy
            fits.append(policy.value(0, rows))
    np.testing.assert_allclose(run.fitted_values, fits, atol=1e-9)
    np.testing.assert_allclose(run.policy.weights, policy.weights, atol=1e-9)
    inverses = (p.whitener.mT @ p.whitener for p in (run.policy, policy))
    np.testing.assert_allclose(*inverses, rtol=1e-9, atol=1e-12)
    assert (run.policy.directions == policy.directions).all()
    assert run.deployments == len(learner.ledger)
    assert run.policy.beta == 0.5


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("rule", RULES)
def test_the_books_of_a_run_balance(world, rule):
    mdp, run = WORLDS[world], run_of(world, rule)
    assert run.deployment_episodes[0] == 1
    assert (np.diff(run.deployment_episodes) > 0).all()
    assert run.switches <= run.deployments - 1
    assert run.local_switches >= run.switches
    assert run.states.shape == (EPISODES, mdp.horizon + 1)
    assert run.actions.shape == (EPISODES, mdp.horizon)
    assert mdp.feasible[run.states[:, :-1], run.actions].all()
    assert (run.regret >= -1e-12).all()
    expected = [run.regret[: k + 1].sum() / (k + 1) for k in range(EPISODES)]
    np.testing.assert_allclose(run.average_regret, expected)


def test_given_noise_decides_the_next_states():
    world = WORLDS["larger S than d"]
    noise = np.random.default_rng(9).random((EPISODES, world.horizon))
    run = rs.simulate(world, RULES["grid"], episodes=EPISODES, noise=noise)
    for states, actions, uniforms in zip(run.states, run.actions, noise, strict=True):
        for h in range(world.horizon):
            cdf = np.cumsum(world.transitions[h, states[h], actions[h]])[:-1]
            assert states[h + 1] == (cdf <= uniforms[h]).sum()


def test_by_default_the_noise_is_that_of_the_seed_whatever_the_rule():
    drawn = generator((6, 1), Stream.NOISE).random((EPISODES, 4))
    given = rs.simulate(
        WORLDS["hard"],
        RULES["growth 6"],
        rs.Recipe.paper(beta=0.5),
        episodes=EPISODES,
        seed=(6, 1),
        noise=drawn,
    )
    same(run_of("hard", "growth 6"), given)


def test_episodes_start_where_they_are_told():
    world = WORLDS["masked"]
    arguments = {"recipe": rs.Recipe.paper(beta=1.0), "episodes": EPISODES, "seed": 3}
    everywhere = np.arange(EPISODES) % world.states
    fixed = rs.simulate(world, RULES["every"], initial_state=2, **arguments)
    listed = rs.simulate(world, RULES["every"], initial_state=everywhere, **arguments)
    drawn = rs.simulate(world, RULES["every"], initial_state="uniform", **arguments)
    other = rs.simulate(world, RULES["growth 6"], initial_state="uniform", **arguments)
    assert (fixed.states[:, 0] == 2).all()
    assert (listed.states[:, 0] == everywhere).all()
    assert set(drawn.states[:, 0]) == set(range(world.states))
    assert (drawn.states[:, 0] == other.states[:, 0]).all()
    learner = learner_of("masked", "every", rs.Recipe.paper(beta=1.0, seed=3))
    noise = generator(3, Stream.NOISE).random((EPISODES, world.horizon))
    states, actions, tables = walk(world, learner, noise=noise, initial=everywhere)
    np.testing.assert_array_equal(listed.states, states)
    np.testing.assert_array_equal(listed.actions, actions)
    gaps = [world.optimal_values()[0] - world.policy_values(t)[0] for t in tables.values()]
    expected = [gap[s] for gap, s in zip(gaps, everywhere, strict=True)]
    np.testing.assert_allclose(listed.regret, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"initial_state": 2}, ValueError, "initial_state must be from 0 to 1; got 2"),
        ({"initial_state": -1}, ValueError, "initial_state must be from 0 to 1; got -1"),
        ({"initial_state": "random"}, ValueError, "initial_state must be one of 'uniform'"),
        ({"initial_state": 0.5}, ValueError, 'initial_state must be a state, 10 states or "uni'),
        ({"initial_state": np.zeros(9, int)}, ValueError, "initial_state must be a state, 10 st"),
        ({"noise": np.zeros((10, 3))}, ValueError, r"noise must have shape \(10, 4\)"),
        ({"noise": np.ones((10, 4))}, ValueError, r"noise must lie in \[0, 1\); got 1\.0"),
        ({"noise": np.full((10, 4), -0.1)}, ValueError, r"noise must lie in \[0, 1\); got -0\.1"),
        ({"noise": np.full((10, 4), np.nan)}, ValueError, "noise must be finite; got nan"),
        ({"episodes": 0}, ValueError, "episodes must be at least 1; got 0"),
        ({"recipe": 1.0}, TypeError, r"recipe must be a Recipe.*; got 1\.0"),
        ({"recipe": rs.Bonus(1.0)}, TypeError, r"recipe must be a Recipe.*; got Bonus\(beta=1.0"),
        ({"stages": "all"}, ValueError, "stages must be one of 'auto', 'own', 'shared'; got 'all'"),
        ({"seed": -1}, ValueError, "seed must be at least 0; got -1"),
    ],
)
def test_a_bad_argument_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        rs.simulate(HARD[0], rs.EveryEpisode(), **({"episodes": 10} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beta": -1.0}, "beta must be a finite number at least 0 .*; got -1.0"),
        ({"ridge": 0.0}, "ridge must be a finite number at least 1e-100 .*; got 0.0"),
        ({"ties": "any"}, "ties must be one of 'direction', 'lowest'; got 'any'"),
    ],
)
def test_a_bad_recipe_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        rs.simulate(HARD[0], rs.EveryEpisode(), rs.Recipe.paper(**arguments), episodes=10)


def test_a_run_may_be_read_midway():
    simulation = Simulation(
        HARD,
        RULES["growth 1.5"],
        rs.Recipe.paper(beta=0.5),
        task=HARD[0].task(episodes=EPISODES),
        seeds=[0, 1, 2, 3],
    )
    assert all(run.policy is None and not len(run.regret) for run in simulation.runs())
    for _ in range(5):
        simulation.step()
    early = simulation.runs()
    kept = [(run.regret.copy(), run.policy.to_bytes()) for run in early]
    while not simulation.done:
        simulation.step()
    for part, whole, (regret, packed) in zip(early, simulation.runs(), kept, strict=True):
        played = len(part.regret)
        assert 5 <= played < EPISODES
        assert part.deployments == 5
        assert (part.deployment_episodes == whole.deployment_episodes[:5]).all()
        assert played == whole.deployment_episodes[5] - 1
        assert (part.regret == whole.regret[:played]).all()
        assert (part.states == whole.states[:played]).all()
        assert (part.actions == whole.actions[:played]).all()
        assert (part.regret == regret).all()
        assert part.policy.to_bytes() == packed


def test_progress_counts_the_episodes_played():
    heard = []
    rs.simulate(
        HARD[0],
        rs.UniformGrid(batches=3),
        episodes=10,
        progress=heard.append,
    )
    assert heard == [3, 6, 10]


@pytest.mark.parametrize("late", [0, 1, 7])
def test_a_rule_whose_next_date_is_not_later_is_refused(late):
    class Stuck:
        def due(self, clock):
            return True

        def upcoming(self, task, episode):
            return episode + 1 if episode < 8 else 8 - late

    with pytest.raises(ValueError, match=rf"Stuck\.upcoming\(…, 8\) must be .* got {8 - late}$"):
        rs.simulate(HARD[0], Stuck(), episodes=20)


@pytest.mark.parametrize("episodes", [1, 2, 9])
@pytest.mark.parametrize(
    "rule", [rs.EveryEpisode(), Asked(rs.EveryEpisode()), rs.DeterminantGrowth(eta=1 + 1e-12)]
)
def test_there_is_at_most_one_deployment_for_each_episode(episodes, rule):
    run = rs.simulate(HARD[0], rule, episodes=episodes)
    assert run.deployment_episodes.tolist() == list(range(1, episodes + 1))
    assert run.switches <= episodes - 1


def test_a_rule_that_never_fires_keeps_the_first_policy():
    run = rs.simulate(HARD[0], Starts([]), rs.Recipe.paper(beta=1.0), episodes=50)
    assert run.deployment_episodes.tolist() == [1]
    assert (run.switches, run.local_switches) == (0, 0)
    assert np.unique(run.regret).size == 1


def test_without_the_clip_values_may_exceed_the_horizon():
    run, clipped = (
        rs.simulate(
            HARD[0], RULES["grid"], rs.Recipe.paper(beta=50.0, clip=clip), episodes=EPISODES
        )
        for clip in (False, True)
    )
    assert run.fitted_values.max() > 4.0
    assert not run.policy.clip
    assert clipped.fitted_values.max() == 4.0


@pytest.mark.parametrize("world", WORLDS)
def test_the_random_policy_has_the_regret_of_its_exact_value(world):
    mdp = WORLDS[world]
    run = simulate_random(mdp, episodes=60, seed=4, initial_state="uniform")
    gap = mdp.optimal_values()[0] - mdp.random_values()[0]
    np.testing.assert_allclose(run.regret, gap[run.states[:, 0]], atol=1e-12)
    assert mdp.feasible[run.states[:, :-1], run.actions].all()
    assert (run.deployments, run.switches, run.local_switches) == (0, 0, 0)
    assert run.policy is None
    again = simulate_random(mdp, episodes=60, seed=4, initial_state="uniform")
    assert (run.actions == again.actions).all()


def test_the_random_policy_shares_the_noise_and_start_of_its_round():
    mdp = WORLDS["masked"]
    noise = generator(4, Stream.NOISE).random((60, mdp.horizon))
    run = simulate_random(mdp, episodes=60, seed=4, initial_state="uniform")
    learnt = rs.simulate(mdp, RULES["every"], episodes=60, seed=4, initial_state="uniform")
    assert (run.states[:, 0] == learnt.states[:, 0]).all()
    for states, actions, uniforms in zip(run.states, run.actions, noise, strict=True):
        for h in range(mdp.horizon):
            cdf = np.cumsum(mdp.transitions[h, states[h], actions[h]])[:-1]
            assert states[h + 1] == (cdf <= uniforms[h]).sum()


def test_random_actions_are_uniform_over_the_feasible_ones():
    mdp = WORLDS["masked"]
    run = simulate_random(mdp, episodes=20_000, seed=5)
    states, actions = run.states[:, :-1].ravel(), run.actions.ravel()
    for s in range(mdp.states):
        taken = actions[states == s]
        options = np.flatnonzero(mdp.feasible[s])
        assert taken.size > 100
        # Hoeffding: one frequency strays further than this with probability 1e-9.
        radius = np.sqrt(np.log(2e9) / (2 * taken.size))
        for action in options:
            assert abs((taken == action).mean() - 1 / len(options)) < radius


def test_the_regret_of_the_random_policy_on_the_papers_instance():
    world = rs.worlds.hard_to_learn(reading="padded", seed=0)
    run = simulate_random(world, episodes=3)
    assert run.regret == pytest.approx(1.63, abs=0.005)


def test_runs_and_worlds_say_what_they_are():
    world = masked_world(2, states=5, actions=4, d=3, horizon=2)
    assert repr(world) == "FiniteLinearMDP(5 states, 4 actions, d=3, horizon=2)"
    corrupted = rs.worlds.misspecified(world, zeta=0.1)
    assert repr(corrupted) == "FiniteMDP(5 states, 4 actions, d=3, horizon=2)"
    run = rs.simulate(HARD[0], RULES["grid"], episodes=EPISODES)
    regret = f"{run.regret.sum():.4g}"
    assert repr(run) == f"Run(40 episodes, regret {regret}, 9 deployments, {run.switches} switches)"


@pytest.mark.parametrize("date", [1.5, np.inf, "2"])
def test_a_date_that_is_no_episode_is_refused(date):
    class Odd:
        def due(self, clock):
            return True

        def upcoming(self, task, episode):
            return date

    with pytest.raises(TypeError, match=r"Odd\.upcoming\(…, 1\) must be a whole number"):
        rs.simulate(HARD[0], Odd(), episodes=5)


# As they stand in the design, "Sizes and settings are said once".
LINES = """
task     = rs.Task(dim=13, horizon=10, episodes=2500, feature_norm=1.0, stages="auto")
learner  = rs.Learner(task, rs.SpreadBudget(switches=9))
learner  = rs.Learner(task, rs.DeterminantGrowth(eta=2.0), rs.Recipe.paper(beta=1.0))
run      = rs.simulate(world, rs.UniformGrid(batches=10), rs.Recipe.paper(beta=1.0), episodes=2500, seed=0)
"""  # noqa: E501


def test_sizes_and_settings_are_said_once():
    before = "import rareswitch as rs; world = rs.worlds.hard_to_learn(d=13, horizon=10)"
    after = "print(task, learner, run, sep=chr(10))"
    command = [sys.executable, "-W", "error", "-c", before + LINES + after]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    task, learner, run = done.stdout.splitlines()
    assert task == "Task(dim=13, horizon=10, episodes=2500, stages='auto')"
    assert learner == f"Learner({task}, DeterminantGrowth(eta=2.0), episodes=0, version=1)"
    assert run.startswith("Run(2500 episodes, regret ")
    assert ", 10 deployments, " in run
