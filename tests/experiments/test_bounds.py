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
from rareswitch import instances, theory
from rareswitch.experiments.bounds import (
    adversary_bound,
    growth_bound,
    regret_bound,
    switch_bounds,
    switch_limit,
)

ADVERSARY = '\n[world]\nkind = "adversary"\nstates = 2\nhorizon = 3\n'
L = float(np.linalg.norm(instances.hard_to_learn(d=5, horizon=3).features, axis=-1).max())
SIZES = {"dim": 5, "horizon": 3, "episodes": 24, "feature_norm": L, "ridge": 1.0}


def runs_of(**changes):
    spec = experiment(**changes)
    return handmade(spec, [0.0] * len(spec.arms))


def test_the_features_are_longer_than_one_so_the_bounds_must_know_their_norm():
    assert L > 1.5


def test_switch_limits_are_those_of_each_schedule():
    runs = runs_of()
    limits = {arm.name: switch_limit(runs, arm) for arm in runs.experiment.arms}
    assert limits == {
        "lsvi-ucb": 23,
        "batch-4": 3,
        "batch-8": 7,
        "rareswitch-2": pytest.approx(theory.switch_bound(eta=2.0, **SIZES)),
        "rareswitch-8": pytest.approx(theory.switch_bound(eta=8.0, **SIZES)),
        "random": 23,
    }


def test_switch_bounds_follow_the_episodes():
    runs = runs_of(arms=GROWTH)
    arm = runs.experiment.arms[1]
    expected = [theory.switch_bound(eta=8.0, **SIZES | {"episodes": k}) for k in (1, 10, 24)]
    found = switch_bounds(runs, arm, 8.0, np.array([1, 10, 24]))
    assert found == pytest.approx(expected)
    assert found[-1] == switch_limit(runs, arm)


def test_regret_bounds_are_those_of_theorems_1_and_2():
    runs = runs_of(arms=GRID + GROWTH)
    batch, _, rare, _ = runs.experiment.arms
    assert regret_bound(runs, batch) == theory.batch_regret_bound(batches=4, **SIZES)
    assert regret_bound(runs, rare) == theory.rare_switch_regret_bound(eta=2.0, **SIZES)


def test_bounds_take_the_ridge_and_the_normalisation_of_the_arm():
    runs = runs_of(arms=GROWTH + "ridge = 4", world=WORLD + "normalized = true")
    arm = runs.experiment.arms[0]
    sizes = SIZES | {"feature_norm": 1.0, "ridge": 4.0}
    assert switch_limit(runs, arm) == pytest.approx(theory.switch_bound(eta=2.0, **sizes))


def test_the_growth_bound_is_the_information_gain():
    runs = runs_of(arms=EVERY)
    sizes = {key: value for key, value in SIZES.items() if key != "horizon"}
    expected = theory.information_gain(**sizes)
    assert growth_bound(runs, runs.experiment.arms[0]) == pytest.approx(expected)


@pytest.mark.parametrize("uniform", [False, True])
def test_the_adversary_bound_is_that_of_theorem_3(uniform):
    runs = runs_of(world=ADVERSARY, arms=GRID.replace("[4, 8]", "8"))
    expected = theory.lower_bound(states=2, horizon=3, episodes=24, batches=8, uniform=uniform)
    assert adversary_bound(runs, runs.experiment.arms[0], uniform=uniform) == expected
    assert expected == (18.0 if uniform else 13.5)


def test_measured_switches_and_growth_keep_their_bounds(tmp_path):
    runs = computed(experiment(arms=ALL.replace(RANDOM, ""), episodes=60), tmp_path)
    for i, arm in enumerate(runs.experiment.arms):
        assert runs.switches[i].max() <= switch_limit(runs, arm)
        assert runs.logdet_growth[arm.name].max() <= growth_bound(runs, arm)
