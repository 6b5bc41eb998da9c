import numpy as np
import pytest
from listed_worlds import Player, exact_value, joined, mixture, small_world

import rareswitch as rs
from rareswitch.evaluation import Method, compare
from rareswitch.evaluation.estimators import ESTIMATORS


@pytest.fixture(scope="module")
def scene():
    """Return a world, a good policy, a random one, and a log of a mixture of both and others."""
    world = small_world(4, states=4, ends=False)
    rng = np.random.default_rng(4)
    good, poor = mixture(world, rng, 4, towards=9.0), mixture(world, rng, 4)
    player = Player(world, joined(good, poor, mixture(world, rng, 16)))
    return world, good, poor, player, player.play(rng, 1500)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_better_policy_is_found_to_gain(scene, estimator):
    world, good, poor, player, log = scene
    found = compare(good, poor, log, player.features, method=Method(estimator=estimator))
    truth = exact_value(world, good) - exact_value(world, poor)
    assert truth > 0.2
    assert found.gain.value == pytest.approx(
        found.candidate.value.value - found.in_force.value.value
    )
    assert found.gain.low < truth < found.gain.high
    assert found.verdict == f"gain {found.gain}"
    assert found.warnings == ()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_turned_around_it_is_a_loss_of_the_same_size(scene, estimator):
    _, good, poor, player, log = scene
    method = Method(estimator=estimator)
    gain, loss = (
        compare(*pair, log, player.features, method=method).gain
        for pair in ((good, poor), (poor, good))
    )
    assert loss == pytest.approx((-gain.value, -gain.high, -gain.low))
    verdict = compare(poor, good, log, player.features, method=method).verdict
    assert verdict == f"loss {gain}"


def test_pairing_by_episode_tells_more_than_two_intervals(scene):
    _, good, poor, player, log = scene
    found = compare(good, poor, log, player.features)
    apart = np.hypot(*(s.value.high - s.value.low for s in (found.candidate, found.in_force)))
    assert found.gain.high - found.gain.low < 0.95 * apart


def test_the_log_itself_has_its_mean_return(scene):
    _, good, poor, player, log = scene
    logged = compare(good, poor, log, player.features).logged
    returns = [trajectory.total for trajectory in log]
    assert logged.value == pytest.approx(np.mean(returns))
    error = 1.96 * np.std(returns) / np.sqrt(len(returns))
    assert logged.high - logged.low == pytest.approx(2 * error, rel=0.1)


def test_policies_that_do_not_differ_cannot_be_told_apart(scene):
    _, good, _, player, log = scene
    found = compare(good, good, log, player.features)
    assert found.gain == (0.0, 0.0, 0.0)
    assert found.verdict == "no difference: the candidate is the policy in force"
    twin = rs.Policy(weights=2.0 * good.weights, clip=False, allocation=1)
    assert compare(twin, good, log, player.features).verdict == "cannot tell: gain 0 [0, 0]"


def test_few_episodes_cannot_tell(scene):
    _, good, _, player, log = scene
    near = rs.Policy(weights=good.weights[::-1][:3], clip=False, allocation=1)
    for pair in ((near, good), (good, near)):
        found = compare(*pair, log[:150], player.features)
        assert found.gain.low < 0.0 < found.gain.high
        assert found.verdict == f"cannot tell: gain {found.gain}"


def test_where_the_log_shows_too_little_there_is_no_verdict():
    world = small_world(4, horizon=6, actions=4, ends=False)
    rng = np.random.default_rng(0)
    acted, other = mixture(world, rng, 3), mixture(world, rng, 1)
    player = Player(world, acted)
    log = player.play(rng, 400)
    found = compare(other, acted, log, player.features)
    reach = found.candidate.weights.reach
    beyond = f" beyond stage {reach} of 6" if reach else ""
    assert found.verdict == f"the log says nothing about the candidate{beyond}"
    turned = compare(acted, other, log, player.features)
    assert turned.verdict == f"the log says nothing about the policy in force{beyond}"
    assert found.warnings == found.candidate.warnings != ()


def test_where_some_of_it_could_not_happen_there_is_no_verdict_either():
    world = small_world(4, states=4, actions=6, ends=False)
    rng = np.random.default_rng(1)
    acted, strange = mixture(world, rng, 8), mixture(world, rng, 1)
    half = joined(acted, *[strange] * 8)
    player = Player(world, acted)
    found = compare(half, acted, player.play(rng, 1000), player.features)
    weights = found.candidate.weights
    assert weights.reach == 3
    assert 0.2 < weights.missing < 0.55
    assert found.verdict == (
        f"the log says nothing about {weights.missing:.0%} of what the candidate does"
    )


def test_what_is_shown_is_short(scene):
    _, good, poor, player, log = scene
    found = compare(good, poor, log, player.features)
    assert str(found).splitlines() == [
        found.verdict,
        f"candidate  {found.candidate.value}",
        f"in force   {found.in_force.value}",
        f"logged     {found.logged}",
    ]


def test_policies_of_other_sizes_are_refused(scene):
    world, good, _, player, log = scene
    short = rs.Policy(weights=np.zeros((2, world.dim)))
    with pytest.raises(ValueError, match=r"one horizon and one dim; got \(2, 8\) and \(3, 8\)"):
        compare(short, good, log, player.features)
    with pytest.raises(TypeError, match="in_force must be a Policy; got None"):
        compare(good, None, log, player.features)
    with pytest.raises(TypeError, match="method must be a Method"):
        compare(good, good, log, player.features, method={})
