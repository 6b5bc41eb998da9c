"""Every public constructor and command, given what nobody should give it.

The answer must be right or a TypeError or ValueError that names the argument (or a MemoryError that
names the size), in bounded time; for a command, an exit code and one line instead of a traceback.
"""

import warnings
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction

import click
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rareswitch as rs
from cli.terminal import call
from rareswitch.cli import main
from rareswitch.sim import (
    FiniteLinearMDP,
    FiniteMDP,
    Simulation,
    baselines,
    play_adversary,
    simulate_random,
)
from rareswitch.sim.baselines import mvp, ucb2_hoeffding
from rareswitch.statistics import history_of
from rareswitch.statistics.partitions import LocalPartitions, LogPartition, LogStatistics

HOSTILE = (
    None, "", "x", "1", b"1", -1, 0, 1, 2, 2**63, -(2**63), 10**400, 0.5, 1.5, -0.0, 1e-320,
    1e155, 1e308, np.inf, -np.inf, np.nan, True, False, np.True_, np.int32(3), np.uint8(2),
    np.float32(2), np.float16(0.1), np.longdouble(2), Fraction(1, 3), Fraction(10**400),
    Decimal("1.5"), 1j, [], [1], (1, 2), (0, 0), [[1.0]], {}, {"a": 1}, {1}, object(),
    date(2026, 1, 1), np.datetime64("2026"), np.array(3), np.zeros(3), np.zeros((0, 2)), np.eye(2),
    np.full((2, 2), np.nan), np.full((2, 2), 1e200), np.array(["a"]), np.array([1j]),
    np.array([None]), np.ma.masked_array([1.0], mask=[True]), range(3), lambda clock: True, int,
    rs.EveryEpisode, rs.EveryEpisode(), rs.Bonus(0.5), rs.Ensemble, rs.Ensemble(3),
)  # fmt: skip

ARMS = np.eye(2)
EPISODE = rs.Episode(features=ARMS[:1], rewards=[1.0], next_features=[])
POSITIONS = rs.Episode(features=[1], rewards=[1.0], next_features=[])
TASK = rs.Task(dim=2, horizon=2, episodes=20)
WORLD = rs.worlds.tabular(states=2, actions=2, horizon=2)
ARRAYS = {"features": WORLD.features, "transitions": WORLD.transitions, "rewards": WORLD.rewards}
EVERY, RECIPE = rs.EveryEpisode(), rs.Recipe.paper(beta=1.0)
RECIPE_PARTS = ("exploration", "ridge", "ties", "clip")


def recipe_of(arguments):
    """Take the parts of a recipe out of arguments; `beta` stands for the paper's bonus."""
    parts = {name: arguments.pop(name) for name in RECIPE_PARTS if name in arguments}
    if "beta" in arguments:
        return rs.Recipe.paper(arguments.pop("beta"), **parts)
    return rs.Recipe(**parts)


def learner(*, schedule=EVERY, warm_start=(), **changes):
    """Return a learner of a task and a recipe that are given by their parts."""
    seed = changes.pop("seed", 0)
    recipe = replace(recipe_of(changes), seed=seed)
    task = rs.Task(**{"dim": 2, "horizon": 1} | changes)
    return rs.Learner(task, schedule, recipe, warm_start=warm_start)


def played(**changes):
    """Return a run with a recipe that is given by its parts."""
    recipe = recipe_of(changes)
    arguments = {"world": WORLD, "schedule": rs.EveryEpisode(), "episodes": 5}
    return rs.simulate(recipe=recipe, **arguments | changes)


def duel(**changes):
    task = rs.Task(dim=3, horizon=2, episodes=8, feature_norm=1.5)
    opponent = rs.Learner(task, rs.UniformGrid(batches=4), RECIPE)
    sizes = {"states": 1, "horizon": 2, "episodes": 8, "starts": (1, 3, 5, 7)}
    return play_adversary(opponent, **sizes | changes)


ONE, MIXTURE = learner(beta=1.0).policy, learner().policy
BY_POSITION = learner(beta=1.0, one_hot=True).policy

# What is called, with arguments that are right.
CALLS = {
    "Task": (
        rs.Task,
        {
            "dim": 2, "horizon": 2, "episodes": 20, "feature_norm": 1.0, "stages": "shared",
            "one_hot": True, "end_reward": 0.5,
        },
    ),
    "Bonus": (rs.Bonus, {"beta": 1.0, "members": 3, "estimate": True}),
    "Perturbation": (rs.Perturbation, {"scale": 1.0, "draws": 3, "estimate": True}),
    "Ensemble": (rs.Ensemble, {"members": 3, "scale": 0.5, "estimate": False}),
    "Recipe": (
        rs.Recipe,
        {"exploration": rs.Bonus(), "ridge": 1.0, "ties": "lowest", "clip": True, "seed": 0},
    ),
    "Recipe.paper": (rs.Recipe.paper, {"beta": 1.0, "ridge": 1.0, "seed": (1, 2)}),
    "UniformGrid": (rs.UniformGrid, {"batches": 4, "spread": "last"}),
    "GeometricGrid": (rs.rules.GeometricGrid, {"batches": 4}),
    "MinimaxGrid": (rs.rules.MinimaxGrid, {"batches": 4}),
    "EpisodeGrid": (rs.rules.EpisodeGrid, {"dates": (1, 5)}),
    "DeterminantGrowth": (rs.DeterminantGrowth, {"eta": 2.0}),
    "TotalGrowth": (rs.rules.TotalGrowth, {"eta": 2.0}),
    "TotalGrowth log_eta": (rs.rules.TotalGrowth, {"log_eta": 2.0}),
    "AdaptiveBudget": (rs.rules.AdaptiveBudget, {"switches": 3}),
    "SpreadBudget": (rs.SpreadBudget, {"switches": 3}),
    "Capped": (rs.rules.Capped, {"schedule": rs.EveryEpisode(), "switches": 3}),
    "UniformGrid.for_budget": (rs.UniformGrid.for_budget, {"task": TASK, "switches": 3}),
    "TotalGrowth.for_budget": (
        rs.rules.TotalGrowth.for_budget, {"task": TASK, "switches": 3, "ridge": 1.0},
    ),
    "DeterminantGrowth.for_budget": (
        rs.DeterminantGrowth.for_budget, {"task": TASK, "switches": 3, "ridge": 1.0},
    ),
    **{
        f"{type(rule).__name__}.{name}": (getattr(rule, name), {"task": TASK} | more)
        for rule in (
            rs.EveryEpisode(), rs.UniformGrid(batches=4), rs.rules.GeometricGrid(batches=4),
            rs.rules.MinimaxGrid(batches=4), rs.rules.EpisodeGrid(dates=(1, 5)),
            rs.DeterminantGrowth(eta=2.0), rs.rules.TotalGrowth(eta=2.0),
            rs.rules.AdaptiveBudget(switches=3), rs.SpreadBudget(switches=3),
            rs.rules.Capped(rs.UniformGrid(batches=4), switches=2),
        )
        for name, more in (
            ("starts", {}), ("deployment_limit", {"ridge": 1.0}), ("regret_bound", {"ridge": 1.0}),
            ("check", {}),
        )
        if hasattr(rule, name)
    },
    "Episode": (
        rs.Episode, {"features": ARMS[:1], "rewards": [1.0], "next_features": [ARMS]},
    ),
    "Episode of positions": (
        rs.Episode, {"features": [1], "rewards": [1.0], "next_features": [[0, 1]]},
    ),
    "Policy": (
        rs.Policy,
        {
            "weights": np.zeros((1, 2)), "whitener": np.eye(2)[None], "beta": 1.0,
            "directions": np.ones((1, 2)), "offsets": np.zeros((1, 3, 2)), "clip": True,
        },
    ),
    "Policy mixture": (
        rs.Policy,
        {
            "weights": np.zeros((3, 1, 2)), "whitener": np.zeros((3, 1, 2, 2)), "beta": 1.0,
            "levels": np.zeros((3, 1)), "directions": np.ones((3, 1, 2)),
            "offsets": np.zeros((3, 1, 4, 2)), "allocation": 5, "clip": True,
        },
    ),
    "Policy of positions": (
        rs.Policy,
        {
            "weights": np.zeros((1, 2)), "whitener": np.ones((1, 2)), "beta": 1.0,
            "directions": np.ones((1, 2)), "one_hot": True,
        },
    ),
    "Policy.act on positions": (BY_POSITION.act, {"h": 0, "features": [0, 1]}),
    "Policy.choices on positions": (BY_POSITION.choices, {"h": 0, "features": [[0, 1]]}),
    "Policy.choices": (MIXTURE.choices, {"h": 0, "features": ARMS[None]}),
    "Policy.from_bytes": (rs.Policy.from_bytes, {"data": b"rareswitch"}),
    "Policy.act": (ONE.act, {"h": 0, "features": ARMS}),
    "Policy.q_values": (ONE.q_values, {"h": 0, "features": ARMS}),
    "Policy.q_values of a mixture": (MIXTURE.q_values, {"h": 0, "features": ARMS}),
    "Policy.value": (MIXTURE.value, {"h": 0, "features": ARMS}),
    "Policy.propensities": (MIXTURE.propensities, {"h": 0, "features": ARMS}),
    "Policy.likelihood": (MIXTURE.likelihood, {"steps": [(ARMS, 0)]}),
    "Policy.likelihood of a step": (
        lambda features, action: MIXTURE.likelihood([(features, action)]),
        {"features": ARMS, "action": 0},
    ),
    "Policy.member": (MIXTURE.member, {"index": 3}),
    "Policy.draw": (MIXTURE.draw, {"key": "ada"}),
    "Policy.draw of one": (ONE.draw, {"key": "ada"}),
    "Policy.allocate": (MIXTURE.allocate, {"key": 7}),
    "Learner": (
        learner,
        {
            "dim": 2, "horizon": 1, "schedule": rs.EveryEpisode(), "ridge": 1.0, "ties": "lowest",
            "clip": True, "seed": 0, "feature_norm": 9.0, "episodes": 3, "stages": "shared",
            "one_hot": False, "end_reward": 0.5, "warm_start": [EPISODE],
        },
    ),
    "Learner of values": (
        rs.Learner,
        {
            "task": rs.Task(dim=2, horizon=1), "schedule": rs.EveryEpisode(), "recipe": RECIPE,
            "warm_start": [EPISODE],
        },
    ),
    "Learner exploration": (learner, {"exploration": rs.Bonus()}),
    "Learner of members": (learner, {"exploration": rs.Bonus(members=3), "ties": "direction"}),
    "Learner beta": (learner, {"beta": 1.0}),
    "Learner of positions": (
        learner, {"dim": 2, "one_hot": True, "feature_norm": 1.0, "warm_start": [POSITIONS]},
    ),
    "Learner.observe of positions": (
        lambda **a: learner(one_hot=True).observe(**a), {"episode": POSITIONS},
    ),
    "Learner.observe": (lambda **a: learner().observe(**a), {"episode": EPISODE}),
    "Learner.absorb": (lambda episode: learner().absorb(episode), {"episode": EPISODE}),
    "Learner.absorb of several": (
        lambda episode: learner().absorb(EPISODE, episode, EPISODE), {"episode": EPISODE},
    ),
    "Learner.amend": (
        lambda **a: learner().amend(**a),
        {"schedule": rs.SpreadBudget(switches=4), "episodes": 20},
    ),
    "Learner.deploy": (lambda **a: learner().deploy(**a), {"policy": learner().policy}),
    "Learner.restore": (rs.Learner.restore, {"data": b"rareswitch"}),
    "history_of": (
        lambda ridge, **sizes: history_of(rs.Task(**sizes), ridge, [EPISODE]),
        {"dim": 2, "horizon": 1, "ridge": 1.0, "feature_norm": 5.0},
    ),
    "LogPartition.from_episodes": (
        LogPartition.from_episodes, {"episodes": [EPISODE], "horizon": 1},
    ),
    "LogStatistics": (
        lambda **a: LogStatistics(
            LocalPartitions([LogPartition.from_episodes([EPISODE], horizon=1)]), **a
        ),
        {"ridge": 1.0, "stages": "shared", "end_reward": 0.5},
    ),
    "FiniteMDP": (FiniteMDP, ARRAYS | {"feasible": np.ones((2, 2), bool)}),
    "FiniteLinearMDP": (
        FiniteLinearMDP, {"features": WORLD.features, "mu": WORLD.mu, "theta": WORLD.theta},
    ),
    "hard_to_learn": (
        rs.worlds.hard_to_learn,
        {
            "d": 5, "horizon": 2, "delta": 0.3, "seed": 0, "reading": "padded",
            "normalized": False,
        },
    ),
    "misspecified": (rs.worlds.misspecified, {"world": WORLD, "zeta": 0.1, "seed": 0}),
    "lower_bound_family": (
        rs.worlds.lower_bound_family,
        {"states": 2, "horizon": 2, "seed": 0, "right_actions": np.zeros((2, 2), int)},
    ),
    "random_linear": (
        rs.worlds.random_linear, {"states": 2, "actions": 2, "d": 2, "horizon": 2, "seed": 0},
    ),
    "tabular": (rs.worlds.tabular, {"states": 2, "actions": 2, "horizon": 2, "seed": 0}),
    "simulate": (
        played,
        {
            "world": WORLD, "schedule": rs.EveryEpisode(), "episodes": 5, "ridge": 1.0,
            "ties": "lowest", "clip": True, "seed": 0, "stages": "shared", "initial_state": 0,
            "noise": np.zeros((5, 2)),
        },
    ),
    "simulate a recipe": (
        rs.simulate,
        {"world": WORLD, "schedule": rs.EveryEpisode(), "recipe": RECIPE, "episodes": 5},
    ),
    "simulate exploration": (played, {"exploration": rs.Bonus()}),
    "simulate a mixture": (
        played, {"exploration": rs.Ensemble(3), "ties": "direction", "initial_state": 0},
    ),
    "simulate beta": (played, {"beta": 1.0}),
    "simulate_random": (
        simulate_random, {"world": WORLD, "episodes": 5, "seed": 0, "initial_state": 0},
    ),
    "Simulation": (
        Simulation,
        {
            "worlds": [WORLD], "schedule": rs.EveryEpisode(), "recipe": RECIPE,
            "task": WORLD.task(episodes=5), "seeds": [0], "initial_state": 0,
            "noise": np.zeros((5, 2)),
        },
    ),
    "FiniteMDP.task": (WORLD.task, {"episodes": 5, "stages": "own"}),
    "mvp": (mvp, {"world": WORLD, "episodes": 5, "scale": 0.1, "seed": 0, "initial_state": 0}),
    "ucb2_hoeffding": (ucb2_hoeffding, {"world": WORLD, "episodes": 5, "scale": 0.1, "seed": 0}),
    "eqo": (baselines.eqo, {"world": WORLD, "episodes": 5, "scale": 0.1, "seed": 0}),
    "psrl": (
        baselines.psrl,
        {"world": WORLD, "episodes": 5, "prior": 1.0, "batches": 2, "samples": "batch", "seed": 0},
    ),
    "epsilon_greedy": (
        baselines.epsilon_greedy,
        {"world": WORLD, "episodes": 5, "epsilon": 0.1, "ridge": 1.0, "batches": 2, "seed": 0},
    ),
    "explore_then_commit": (
        baselines.explore_then_commit,
        {"world": WORLD, "episodes": 5, "explore": 0.1, "ridge": 1.0, "seed": 0},
    ),
    "layer_by_layer": (
        baselines.layer_by_layer,
        {"world": WORLD, "episodes": 5, "batches": 2, "scale": 0.1, "accuracy": 1.0, "seed": 0},
    ),
    "lsvi_ucb_plus_plus": (
        baselines.lsvi_ucb_plus_plus,
        {"world": WORLD, "episodes": 5, "scale": 0.1, "inflation": 0.1, "monotone": True},
    ),
    "play_adversary": (
        duel, {"states": 1, "horizon": 2, "episodes": 8, "starts": (1, 3, 5, 7), "seed": 0},
    ),
    "information_gain": (rs.theory.information_gain, {"task": TASK, "ridge": 1.0, "episodes": 3}),
    "logdet_bound": (rs.theory.logdet_bound, {"task": TASK, "episode": 3, "ridge": 1.0}),
    "confidence_radius": (
        rs.theory.confidence_radius,
        {"task": TASK, "failure_probability": 0.1, "constant": 1.0},
    ),
    "eta_for_budget": (rs.theory.eta_for_budget, {"task": TASK, "switches": 9, "ridge": 1.0}),
    "switch_bound": (rs.theory.switch_bound, {"task": TASK, "eta": 2.0, "ridge": 1.0}),
    "batch_regret_bound": (
        rs.theory.batch_regret_bound,
        {"task": TASK, "batches": 3, "ridge": 1.0, "failure_probability": 0.1, "constant": 1.0},
    ),
    "rare_switch_regret_bound": (
        rs.theory.rare_switch_regret_bound, {"task": TASK, "eta": 2.0, "ridge": 1.0},
    ),
    "theory.lower_bound": (
        rs.theory.lower_bound, {"states": 1, "horizon": 2, "episodes": 20, "batches": 4},
    ),
    "theory.least_expected_regret": (
        rs.theory.least_expected_regret, {"horizon": 3, "lengths": [2, 2], "members": 2},
    ),
    "plan": (rs.plan, {"task": TASK, "switches": 3, "ridge": 1.0, "rounds": 2, "seed": 0}),
    "plan price": (rs.plan, {"task": TASK, "price": 1.0, "recipe": RECIPE, "candidates": ()}),
    "plan log": (rs.plan, {"task": TASK, "switches": 3, "log": []}),
    "check_schedule": (
        rs.testing.check_schedule, {"schedule": rs.EveryEpisode(), "task": TASK},
    ),
}  # fmt: skip
PLACES = [(name, argument) for name, (_, arguments) in CALLS.items() for argument in arguments]
# What a message may call an argument instead of by its name.
ALIASES = {
    "schedule": ("schedule", "must be an instance"),
    "worlds": ("world",),
    "seed": ("seed", "round"),
    "seeds": ("seed", "round"),
    "log": ("log", "episode"),
    "warm_start": ("warm_start", "episode"),
    "one_hot": ("one_hot", "episode"),  # of a warm start of the other kind
    "features": ("features", "barred", "feasible"),
    "candidates": ("candidate",),
}


def refusal(function, arguments):
    """Return the error with which a call is refused, or None for an answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            function(**arguments)
        except (TypeError, ValueError, MemoryError) as error:
            return error
    return None


@pytest.mark.parametrize(("name", "argument"), PLACES, ids=[f"{n}-{a}" for n, a in PLACES])
def test_a_wrong_argument_is_named_or_the_answer_is_right(name, argument):
    function, arguments = CALLS[name]
    for value in HOSTILE:
        error = refusal(function, arguments | {argument: value})
        if error is None or isinstance(error, MemoryError):
            continue
        words = ALIASES.get(argument, (argument,))
        if isinstance(error, ValueError):  # one that does not fit the others may name them instead
            words = (*words, *arguments)
        assert any(word in str(error) for word in words), f"{argument} = {value!r}: {error!r}"
        assert "\n" not in str(error)


WORDS = st.sampled_from(
    ["", "x", "-1", "0", "1", "2", "1.5", "nan", "inf", "-inf", "1e400", "1e308", "9" * 400,
     "99999999999999", "--", "-h", "η", "a/b", "../x", ".", "/dev/null", "uniform-grid",
     "uniform-grid,batches=3", "uniform-grid,batches=", "uniform-grid,=3", "os:system",
     "determinant-growth,eta=[1,2]", "capped,switches=1", "bonus,beta=1e999", ",", "a:b:c", "{"]
)  # fmt: skip


@pytest.mark.parametrize("command", ["learn", "plan", "reproduce", "run", "plot"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_command_answers_with_an_exit_code_and_no_traceback(
    command, data, tmp_path_factory, monkeypatch
):
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    small = {
        "learn": ["--dim", "5", "--horizon", "2", "--episodes", "9"],
        "plan": ["--dim", "2", "--horizon", "2", "--episodes", "9", "--switches", "2"],
        "reproduce": [],
        "run": [],
        "plot": [],
    }[command]
    parameters = [p for p in main.commands[command].params if not getattr(p, "is_flag", False)]
    chosen = data.draw(st.lists(st.sampled_from(parameters), min_size=1, max_size=3))
    words = list(small)
    for parameter in chosen:
        value = data.draw(WORDS)
        options = [parameter.opts[0]] if isinstance(parameter, click.Option) else []
        words += [*options, value]
    if command == "reproduce":
        words.append("no-such-experiment")  # parsed in full, but nothing is run
    result = call(command, *words)  # raises what is no clean exit
    assert result.exit_code in (0, 1, 2)
    assert "Traceback" not in result.output
    if result.exit_code:
        assert result.stderr.strip()
