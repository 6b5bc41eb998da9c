import numpy as np
import pytest

import rareswitch as rs
from experiments.miniature import WORLD, computed, experiment
from rareswitch.sim.anchors import mvp, ucb2_hoeffding

TABULAR = '\n[world]\nkind = "tabular"\nstates = 3\nactions = 2\nhorizon = 2\n'
LINEAR = '\n[world]\nkind = "random-linear"\nstates = 4\nactions = 3\nd = 3\nhorizon = 2\n'
BUDGETS = """
[[arms]]
name = "{rule}-{switches}"

[arms.schedule]
kind = "budget"
rule = ["adaptive", "total-growth", "any-stage", "uniform-grid", "geometric-grid"]
switches = [1, 4, 11]
"""
ANCHORS = """
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
perturbation = { sigma = 0 }

[[arms]]
name = "perturbed-1"
schedule = { kind = "uniform-grid", batches = 6 }
perturbation = { sigma = 1, draws = 3 }
"""


def one_arm(schedule):
    return f'[[arms]]\nname = "arm"\nschedule = {schedule}\n'


@pytest.mark.parametrize("ridge", [0.0001, 1])
@pytest.mark.parametrize("world", [WORLD, TABULAR], ids=["hard", "tabular"])
def test_budget_rules_keep_their_budget_in_every_round(world, ridge, tmp_path):
    arms = BUDGETS.replace("[[arms]]", f"[[arms]]\nridge = {ridge}")
    spec = experiment(arms=arms, world=world, rounds=3, episodes=24)
    runs = computed(spec, tmp_path)
    assert len(spec.arms) == 15
    for i, arm in enumerate(spec.arms):
        fits = runs.updated[i].sum(axis=1)
        assert (fits - 1 <= arm.schedule.switches).all()
        assert (runs.switched[i].sum(axis=1) <= fits - 1).all()
        if arm.schedule.rule.endswith("grid"):
            assert (fits - 1 == arm.schedule.switches).all()


def test_a_rule_is_made_for_its_world_and_number_of_episodes():
    spec = experiment(arms=BUDGETS)
    world = spec.arms[0].world.build(0)
    sizes = world.sizes(episodes=24, ridge=0.5)
    made = {arm.name: arm.schedule.build(24, world, 0.5) for arm in spec.arms}
    assert made["adaptive-4"] == rs.AdaptiveBudget(
        switches=4, episodes=24, dim=5, feature_norm=world.feature_norm, ridge=0.5
    )
    assert made["total-growth-4"] == rs.TotalGrowth.for_budget(switches=4, **sizes)
    assert made["any-stage-4"] == rs.DeterminantGrowth.for_budget(switches=4, **sizes)
    assert made["uniform-grid-4"] == rs.UniformGrid(episodes=24, batches=5)
    assert made["geometric-grid-4"] == rs.EpisodeGrid.geometric(episodes=24, batches=5)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ('{ kind = "budget", rule = "adaptive", switches = -1 }', "greater than or equal to 0"),
        ('{ kind = "budget", rule = "uniform-grid", switches = 24 }', "batches must be from 1 to"),
        ('{ kind = "budget", rule = "any-stage", switches = 0 }', "switches must be at least 1"),
        ('{ kind = "budget", rule = "weekly", switches = 3 }', "rule"),
        ('{ kind = "budget", rule = "adaptive" }', "switches"),
        ('{ kind = "mvp", scale = -0.1 }', "greater than or equal to 0"),
    ],
)
def test_a_bad_budget_or_anchor_is_refused(schedule, message):
    with pytest.raises(ValueError, match=message):
        experiment(arms=one_arm(schedule))


@pytest.mark.parametrize("kind", ["mvp", "ucb2-hoeffding"])
@pytest.mark.parametrize("world", [WORLD, LINEAR], ids=["hard", "linear"])
def test_anchors_need_a_tabular_world(kind, world):
    with pytest.raises(ValueError, match=f"schedule kind {kind} needs a tabular world"):
        experiment(arms=one_arm(f'{{ kind = "{kind}" }}'), world=world)


def test_anchors_play_their_rounds(tmp_path):
    spec = experiment(arms=ANCHORS, world=TABULAR, rounds=2, episodes=30, seed=4)
    runs = computed(spec, tmp_path)
    assert len(spec.arms) == 4
    for i, arm in enumerate(spec.arms):
        play = mvp if arm.schedule.kind == "mvp" else ucb2_hoeffding
        for round_ in range(2):
            world = rs.instances.tabular(states=3, actions=2, horizon=2, seed=(4, round_))
            run = play(world, episodes=30, scale=arm.schedule.scale, seed=(4, round_))
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
    world = rs.instances.hard_to_learn(d=5, horizon=3, seed=(1, 1))
    run = rs.simulate(
        world,
        rs.UniformGrid(episodes=24, batches=6),
        episodes=24,
        optimism=rs.Perturbation(1.0, draws=3),
        seed=(1, 1),
    )
    np.testing.assert_allclose(regret["perturbed-1"][1], run.regret, atol=1e-6)


@pytest.mark.parametrize(
    "perturbation", ["{ sigma = -1 }", "{ sigma = 1, draws = 0 }", "{ draws = 3 }"]
)
def test_a_bad_perturbation_is_refused(perturbation):
    with pytest.raises(ValueError, match="perturbation"):
        experiment(arms=one_arm('{ kind = "every-episode" }') + f"perturbation = {perturbation}\n")
