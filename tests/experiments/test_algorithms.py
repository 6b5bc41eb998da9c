import numpy as np
import pytest

import rareswitch as rs
from experiments.miniature import RANDOM, WORLD, computed, experiment
from rareswitch.experiments.algorithms import KINDS
from rareswitch.experiments.worlds import build_world
from rareswitch.sim.baselines import mvp, ucb2_hoeffding
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
    spec = experiment(arms=BASELINES + RANDOM + BUDGETS, world=TABULAR)
    task = build_world(spec.arms[0].world, 0).task(episodes=24)
    limits = {arm.name: arm.algorithm(task).deployment_limit(task) for arm in spec.arms}
    assert limits["mvp-0.5"] == limits["ucb2-0.5"] == 23
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


def test_baselines_play_their_rounds(tmp_path):
    spec = experiment(arms=BASELINES, world=TABULAR, rounds=2, episodes=30, seed=4)
    runs = computed(spec, tmp_path)
    assert len(spec.arms) == 4
    for i, arm in enumerate(spec.arms):
        play = mvp if arm.schedule["kind"] == "mvp" else ucb2_hoeffding
        for round_ in range(2):
            world = rs.worlds.tabular(states=3, actions=2, horizon=2, seed=(4, round_))
            run = play(world, episodes=30, scale=arm.schedule["scale"], seed=(4, round_))
            np.testing.assert_allclose(runs.regret[i, round_], run.regret, atol=1e-6)
            assert runs.switched[i, round_].sum() == run.switches
            assert runs.local_switches[i, round_] == run.local_switches


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
