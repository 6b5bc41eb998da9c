import numpy as np
import pytest
from listed_worlds import Player, mixture, small_world

from rareswitch.evaluation import Method
from rareswitch.evaluation.agreement import behaviour_in
from rareswitch.evaluation.estimators import ESTIMATORS


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "best"}, "estimator must be one of 'doubly robust', .*; got 'best'"),
        ({"stages": "all"}, "stages must be one of 'own', 'shared'; got 'all'"),
        ({"ridge": 0.0}, "ridge must be a finite number at least 1e-100"),
        ({"folds": 1}, "folds must be at least 2; got 1"),
        ({"seed": -1}, "seed must be at least 0; got -1"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Method(**settings)


@pytest.mark.parametrize(("episodes", "folds"), [(23, 5), (3, 5), (100, 2)])
def test_folds_are_of_equal_size_and_drawn_by_the_seed(episodes, folds):
    drawn, _ = Method(folds=folds).draws(episodes)
    sizes = np.bincount(drawn)
    assert len(sizes) == min(folds, episodes)
    assert np.ptp(sizes) <= 1
    again, _ = Method(folds=folds).draws(episodes)
    np.testing.assert_array_equal(drawn, again)
    if episodes > 5:
        other, _ = Method(folds=folds, seed=1).draws(episodes)
        assert (other != drawn).any()


def test_estimators_differ_and_weights_do_not():
    world = small_world(0)
    rng = np.random.default_rng(0)
    player, policy = Player(world, mixture(world, rng, 20)), mixture(world, rng, 3)
    logged = player.lay_out(player.play(rng, 100))
    behaviour = behaviour_in(logged, policy)
    values, effective = set(), set()
    for estimator in ESTIMATORS:
        for stages in ("own", "shared") if estimator == "doubly robust" else ("own",):
            method = Method(estimator=estimator, stages=stages)
            found, weights = method.judge(behaviour, logged, method.draws(100)[0])
            values.add(round(found.value, 12))
            effective.add(weights.effective[-1])
    assert len(values) == 5
    assert len(effective) == 1
