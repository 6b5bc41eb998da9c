import inspect

import numpy as np
import pytest

import rareswitch as rs
from experiments.miniature import RANDOM, WORLD, computed, experiment
from rareswitch.experiments.algorithms import ALGORITHMS, KINDS
from rareswitch.experiments.worlds import build_world
from rareswitch.sim import baselines
from rareswitch.support.drawing import LINE_STYLES

TABULAR = '\n[world]\nkind = "tabular"\nstates = 3\nactions = 2\nhorizon = 2\n'
RULES = ("adaptive-budget", "total-growth", "determinant-growth", "uniform-grid", "geometric-grid")
BUDGETS = """
[[arms]]
name = "{kind}-{switches}"

[arms.schedule]
kind = ["adaptive-budget", "total-growth", "determinant-growth", "uniform-grid", "geometric-grid"]
switches = [1, 4, 11]
"""
BASELINES = """
[[arms]]
name = "ucb2-{scale}"
schedule = { kind = "ucb2-hoeffding", scale = [0.01, 0.5] }

[[arms]]
name = "mvp-{scale}"
schedule = { kind = "mvp", scale = [0.01, 0.5] }

[[arms]]
name = "eqo-{scale}"
schedule = { kind = "eqo", scale = [0.01, 0.5] }

[[arms]]
name = "psrl"
schedule = { kind = "psrl", prior = 0.5 }

[[arms]]
name = "psrl-{batches}-{samples}"
schedule = { kind = "psrl", batches = [3, 5], samples = ["batch", "episode"] }
"""
LINEAR_BASELINES = """
[[arms]]
name = "plus-{scale}"
schedule = { kind = "lsvi-ucb-plus-plus", scale = [0.001, 0.1], inflation = 1e-4, monotone = false }

[[arms]]
name = "greedy-{epsilon}"
schedule = { kind = "epsilon-greedy", epsilon = [0, 0.2], ridge = 0.1 }

[[arms]]
name = "greedy-{batches}"
schedule = { kind = "epsilon-greedy", batches = [3, 5] }

[[arms]]
name = "commit-{explore}"
schedule = { kind = "explore-then-commit", explore = [0.2, 1], ridge = 0.1 }

[[arms]]
name = "layers-{batches}"
schedule = { kind = "layer-by-layer", batches = [4, 6], scale = 0.01, accuracy = 0.5 }
"""
PERTURBED = """
[[arms]]
name = "bonus-{beta}"
schedule = { kind = "uniform-grid", batches = 6 }
beta = [0, 1]

[[arms]]
name = "perturbed-0"
schedule = { kind = "uniform-grid", batches = 6 }
exploration = { kind = "perturbation", scale = 0 }

[[arms]]
name = "perturbed-1"
schedule = { kind = "uniform-grid", batches = 6 }
exploration = { kind = "perturbation", scale = 1, draws = 3 }
"""


@pytest.mark.parametrize("ridge", [0.0001, 1])
@pytest.mark.parametrize("world", [WORLD, TABULAR], ids=["hard", "tabular"])
def test_budget_rules_keep_their_budget_in_every_round(world, ridge, tmp_path):
    arms = BUDGETS.replace("[[arms]]", f"[[arms]]\nridge = {ridge}")
    spec = experiment(arms=arms, world=world, rounds=3, episodes=24)
    runs = computed(spec, tmp_path)
    assert len(spec.arms) == 15
    for i, arm in enumerate(spec.arms):
        made = runs.deployed[i].sum(axis=1)
        assert (made - 1 <= arm.schedule["switches"]).all()
        assert (runs.switched[i].sum(axis=1) <= made - 1).all()
        if arm.schedule["kind"].endswith("grid"):
            assert (made - 1 == arm.schedule["switches"]).all()


@pytest.mark.parametrize("episodes", [24, 40])
def test_a_rule_is_made_for_its_world_and_number_of_episodes(episodes):
    spec = experiment(arms=BUDGETS.replace("[[arms]]", "[[arms]]\nridge = 0.5"))
    task = build_world(spec.arms[0].world, 0).task(episodes=episodes)
    for arm in spec.arms:
        rule, switches = arm.family.cls, arm.schedule["switches"]
        assert arm.algorithm(task).schedule == rule.for_budget(task, switches=switches, ridge=0.5)


def test_an_algorithm_tells_what_it_can_guarantee():
    spec = experiment(arms=BASELINES + LINEAR_BASELINES + RANDOM + BUDGETS, world=TABULAR)
    task = build_world(spec.arms[0].world, 0).task(episodes=24)
    limits = {arm.name: arm.algorithm(task).deployment_limit(task) for arm in spec.arms}
    assert limits["mvp-0.5"] == limits["ucb2-0.5"] == limits["eqo-0.5"] == limits["psrl"] == 23
    assert limits["psrl-3-batch"] == limits["psrl-3-episode"] == limits["greedy-3"] == 2
    assert limits["plus-0.1"] == limits["greedy-0"] == 23
    assert (limits["commit-0.2"], limits["layers-6"]) == (1, 5)
    assert limits["random"] == 0
    assert all(limits[f"{rule}-4"] <= 4 + 1e-9 for rule in RULES)
    proved = {arm.family.name for arm in spec.arms if arm.algorithm(task).regret_bound(task)}
    assert proved == set(RULES) - {"geometric-grid"}


def test_a_rule_that_promises_nothing_may_deploy_before_every_episode(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    code = "class Never:\n    def due(self, clock):\n        return False\n"
    (tmp_path / "own_limits.py").write_text(code)
    (arm,) = experiment(arms=RANDOM.replace("random-policy", "own_limits:Never")).arms
    task = build_world(arm.world, 0).task(episodes=24)
    assert arm.algorithm(task).deployment_limit(task) == 23
    assert arm.algorithm(task).regret_bound(task) is None
    assert (arm.family.name, arm.family.label) == ("own_limits:Never", "Never")


def test_every_kind_has_a_name_a_colour_and_a_marker_that_no_other_has():
    assert len({row.name for row in KINDS}) == len(KINDS)
    styles = [LINE_STYLES[row.name] for row in KINDS]
    assert len({style.marker for style in styles}) == len(KINDS)
    assert len({style.colour for style in styles}) == len(KINDS)


def player(kind):
    return getattr(baselines, kind.replace("-", "_"))


@pytest.mark.parametrize(
    ("arms", "world"),
    [(BASELINES, TABULAR), (LINEAR_BASELINES, TABULAR), (LINEAR_BASELINES, WORLD)],
    ids=["tabular", "linear on tabular", "linear"],
)
def test_baselines_play_their_rounds(arms, world, tmp_path):
    spec = experiment(arms=arms, world=world, rounds=2, episodes=30, seed=4)
    runs = computed(spec, tmp_path)
    assert len(spec.arms) > 9
    for i, arm in enumerate(spec.arms):
        settings = {key: arm.schedule[key] for key in arm.schedule if key != "kind"}
        limit = arm.algorithm(build_world(arm.world, 0).task(episodes=30))
        for round_ in range(2):
            seed = (4, round_)
            known = build_world(arm.world, seed)
            run = player(arm.schedule["kind"])(known, episodes=30, **settings, seed=seed)
            np.testing.assert_allclose(runs.regret[i, round_], run.regret, atol=1e-6)
            assert runs.switched[i, round_].sum() == run.switches
            assert runs.deployed[i, round_].sum() == run.deployments
            assert runs.local_switches[i, round_] == run.local_switches
            assert run.deployments - 1 <= limit.deployment_limit(known.task(episodes=30))


def test_defaults_of_an_arm_are_those_of_its_function():
    for row in ALGORITHMS[1:]:
        given = inspect.signature(row.cls.simulate).parameters
        for name, parameter in inspect.signature(row.cls).parameters.items():
            needed = given[name].default is inspect.Parameter.empty
            assert needed or given[name].default == parameter.default


def test_perturbed_arms_run_and_differ_from_a_bonus(tmp_path):
    spec = experiment(arms=PERTURBED, rounds=2, episodes=24, seed=1)
    runs = computed(spec, tmp_path)
    names = [arm.name for arm in spec.arms]
    regret = dict(zip(names, runs.regret, strict=True))
    np.testing.assert_array_equal(regret["bonus-0"], regret["perturbed-0"])
    assert (regret["perturbed-1"] != regret["bonus-1"]).any()
    world = rs.worlds.hard_to_learn(d=5, horizon=3, seed=(1, 1))
    recipe = rs.Recipe(exploration=rs.Perturbation(1.0, draws=3))
    run = rs.simulate(world, rs.UniformGrid(batches=6), recipe, episodes=24, seed=(1, 1))
    np.testing.assert_allclose(regret["perturbed-1"][1], run.regret, atol=1e-6)
