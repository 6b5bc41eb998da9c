import numpy as np
import pytest

from experiments.miniature import (
    ALL,
    EVERY,
    GRID,
    GROWTH,
    RANDOM,
    WORLD,
    computed,
    experiment,
    handmade,
)
from rareswitch import DeterminantGrowth, Task, theory, worlds

ADVERSARY = '\n[world]\nkind = "adversary"\nstates = 2\nhorizon = 3\n'
L = float(np.linalg.norm(worlds.hard_to_learn(d=5, horizon=3).features, axis=-1).max())
TASK = Task(dim=5, horizon=3, episodes=24, feature_norm=L)


def runs_of(**changes):
    spec = experiment(**changes)
    return handmade(spec, [0.0] * len(spec.arms))


def test_the_features_are_longer_than_one_so_the_bounds_must_know_their_norm():
    assert L > 1.5


def test_switch_limits_are_those_of_each_schedule():
    runs = runs_of()
    limits = {arm.name: runs.switch_limit(arm) for arm in runs.experiment.arms}
    assert limits == {
        "lsvi-ucb": 23,
        "batch-4": 3,
        "batch-8": 7,
        "rareswitch-2": 23,  # the switching lemma says more than anyone can make
        "rareswitch-8": DeterminantGrowth(eta=8.0).deployment_limit(TASK),
        "random": 0,
    }
    assert theory.switch_bound(TASK, eta=2.0) > 23


def test_switch_limits_follow_the_episodes():
    runs = runs_of(arms=GROWTH)
    arm = runs.experiment.arms[1]
    expected = [
        min(int(theory.switch_bound(TASK, eta=8.0, episodes=k)), k - 1) for k in (1, 10, 24)
    ]
    found = runs.switch_limits(arm, np.array([1, 10, 24]))
    assert found == expected
    assert found[-1] == runs.switch_limit(arm)


def test_regret_bounds_are_those_of_theorems_1_and_2():
    runs = runs_of(arms=GRID + GROWTH)
    batch, _, rare, _ = runs.experiment.arms
    assert runs.regret_bound(batch) == theory.batch_regret_bound(TASK, batches=4)
    assert runs.regret_bound(rare) == theory.rare_switch_regret_bound(TASK, eta=2.0)


def test_bounds_take_the_ridge_and_the_normalisation_of_the_arm():
    runs = runs_of(arms=GROWTH + "ridge = 4", world=WORLD + "normalized = true")
    arm = runs.experiment.arms[1]
    task = Task(dim=5, horizon=3, episodes=24, feature_norm=1.0)
    assert runs.switch_limit(arm) == int(theory.switch_bound(task, eta=8.0, ridge=4.0)) > 0


def test_the_growth_bound_is_the_information_gain():
    runs = runs_of(arms=EVERY)
    expected = theory.information_gain(TASK)
    assert runs.growth_bound(runs.experiment.arms[0]) == pytest.approx(expected)


@pytest.mark.parametrize("size", ["batches = 8", "switches = 7"])
def test_batches_are_counted_however_the_grid_was_asked_for(size):
    runs = runs_of(arms=GRID.replace("batches = [4, 8]", size).replace("{batches}", "x"))
    assert runs.batches(runs.experiment.arms[0]) == 8


def test_an_arm_of_which_nothing_is_proved_has_no_bound():
    runs = runs_of(arms=RANDOM)
    with pytest.raises(ValueError, match="arm 'random': no bound on its regret is known"):
        runs.regret_bound(runs.experiment.arms[0])


@pytest.mark.parametrize("uniform", [False, True])
def test_the_adversary_bound_is_that_of_theorem_3(uniform):
    runs = runs_of(world=ADVERSARY, arms=GRID.replace("[4, 8]", "8"))
    expected = theory.lower_bound(states=2, horizon=3, episodes=24, batches=8, uniform=uniform)
    assert runs.adversary_bound(runs.experiment.arms[0], uniform=uniform) == expected
    assert expected == (18.0 if uniform else 13.5)


def test_measured_switches_and_growth_keep_their_bounds(tmp_path):
    runs = computed(experiment(arms=ALL.replace(RANDOM, ""), episodes=60), tmp_path)
    for i, arm in enumerate(runs.experiment.arms):
        assert runs.switches[i].max() <= runs.switch_limit(arm)
        assert runs.logdet_growth[arm.name].max() <= runs.growth_bound(arm)
