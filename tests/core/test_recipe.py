import math
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.core.policy import fit
from rareswitch.core.recipe import COMMON, Recipe
from rareswitch.sim import Simulation
from rareswitch.statistics import history_of
from rareswitch.support.streams import KeyedStream, Stream


def test_the_default_is_a_mixture_and_the_papers_recipe_is_a_bonus():
    assert Recipe() == Recipe(exploration=rs.Ensemble(members=32, scale=0.5, estimate=True))
    assert Recipe.paper() == Recipe(exploration=rs.Bonus(1.0))
    assert Recipe.paper(beta=0.3).exploration == rs.Bonus(0.3)
    assert Recipe.paper(0).exploration == rs.Bonus(0.0)
    assert Recipe.paper(0.3, ridge=2.0) == Recipe(exploration=rs.Bonus(0.3), ridge=2.0)


def test_arguments_are_converted_once():
    recipe = Recipe(ridge=Fraction(1, 2), clip=np.False_, seed=[np.int64(3), np.uint8(2)])
    plain = Recipe(ridge=0.5, clip=False, seed=(3, 2))
    assert recipe == plain
    assert repr(recipe) == repr(plain)
    assert recipe.clip is False


def test_directions_are_the_ties_stream_at_the_version():
    one = Recipe(exploration=rs.Bonus(), seed=(4, 2))
    three = Recipe(exploration=rs.Bonus(members=3), seed=(4, 2))
    stream = KeyedStream((4, 2), Stream.TIES)
    for version in (3, 1, 3):
        for recipe, sizes in ((one, (2, 5)), (three, (3, 2, 5))):
            expected = stream.at(version).standard_normal(sizes)
            np.testing.assert_array_equal(recipe.directions(version, 2, 5), expected)
    assert Recipe(ties="lowest").directions(1, 2, 5) is None


@pytest.mark.parametrize(
    ("exploration", "shape"),
    [(rs.Perturbation(0.5, draws=4), (1, 2, 4, 3)), (rs.Ensemble(5), (5, 2, 1, 3))],
)
def test_perturbations_depend_on_the_version_and_on_nothing_drawn_before(exploration, shape):
    recipe, fresh = (Recipe(exploration=exploration, seed=7) for _ in range(2))
    first = recipe.perturbations(1, 2, 3)
    assert first.shape == shape
    recipe.perturbations(2, 2, 3)
    recipe.directions(1, 2, 3)
    recipe.allocation(1)
    np.testing.assert_array_equal(recipe.perturbations(1, 2, 3), first)
    np.testing.assert_array_equal(fresh.perturbations(1, 2, 3), first)
    assert (recipe.perturbations(2, 2, 3) != first).all()
    expected = 0.5 * KeyedStream(7, Stream.PERTURBATION).at(1).standard_normal(shape)
    np.testing.assert_array_equal(first, expected)
    assert Recipe(exploration=rs.Bonus()).perturbations(1, 2, 3) is None


def test_perturbations_of_another_shape_are_refused():
    class Short:
        beta, members, draws, estimate = 0.0, 2, 1, False

        def perturbations(self, rng, horizon, dim):
            return rng.random((1, horizon, 1, dim))

    with pytest.raises(ValueError, match=r"perturbations must have shape \(2, 4, 1, 3\); got"):
        Recipe(exploration=Short()).perturbations(1, 4, 3)


def test_an_allocation_is_the_first_number_of_its_stream_at_the_version():
    recipe = Recipe(exploration=rs.Ensemble(3), seed=(4, 2))
    stream = KeyedStream((4, 2), Stream.ALLOCATION)
    found = {version: recipe.allocation(version) for version in (3, 1, 2)}
    assert found == {version: int(stream.at(version).integers(2**63)) for version in found}
    assert recipe.allocation(3) == found[3]
    assert len(set(found.values())) == 3
    for one in (rs.Ensemble(1), rs.Bonus(), rs.Perturbation(0.5)):
        assert Recipe(exploration=one).allocation(3) is None


def test_members_that_differ_by_nothing_are_refused():
    with pytest.raises(ValueError, match='ties must be "direction" if members'):
        Recipe(exploration=rs.Bonus(members=2), ties="lowest")
    assert Recipe(exploration=rs.Bonus(), ties="lowest").directions(1, 2, 3) is None
    assert Recipe(exploration=rs.Ensemble(2), ties="lowest").directions(1, 2, 3) is None


WORLD = rs.worlds.tabular(states=2, actions=2, horizon=2)
MAKERS = {
    "Recipe": lambda beta=1.0, **rest: Recipe(**{"exploration": rs.Bonus(beta)} | rest),
    "paper": lambda beta=1.0, **rest: Recipe.paper(beta, **rest),
}


class NoPerturbations:
    beta, members, draws, estimate = 1.0, 1, 0, False


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"beta": -0.1}, ValueError, "beta must be a finite number at least 0 .*; got -0.1"),
        ({"beta": np.nan}, ValueError, "beta must be a finite number at least 0 .*; got nan"),
        ({"beta": "1"}, TypeError, "beta must be a finite number .*; got '1'"),
        ({"beta": np.True_}, TypeError, "beta must be a finite number .*; got np.True_"),
        ({"beta": 10**400}, ValueError, "beta must be a finite number .*401 characters"),
        ({"ridge": 0.0}, ValueError, "ridge must be a finite number at least 1e-100 .*; got 0.0"),
        ({"ridge": -1.0}, ValueError, "ridge must be .*; got -1.0"),
        ({"ridge": 1e-320}, ValueError, "ridge must be .*; got 1e-320"),
        ({"ridge": np.inf}, ValueError, "ridge must be .*; got inf"),
        ({"ridge": True}, TypeError, "ridge must be .*; got True"),
        ({"ties": "random"}, ValueError, "ties must be one of 'direction', 'lowest'; got 'random'"),
        ({"ties": None}, ValueError, "ties must be one of 'direction', 'lowest'; got None"),
        ({"clip": "no"}, TypeError, "clip must be True or False; got 'no'"),
        ({"clip": 0}, TypeError, "clip must be True or False; got 0"),
        ({"seed": -3}, ValueError, "seed must be at least 0; got -3"),
        ({"seed": 1.0}, TypeError, "seed must be a whole number"),
        ({"seed": "1"}, TypeError, "seed must be a whole number"),
        ({"seed": (1, 2, 3)}, ValueError, r"seed must be a whole number or \(root, round\)"),
        ({"exploration": rs.Bonus}, TypeError, "exploration must be a Bonus, a Pert.*an Ensemble"),
        ({"exploration": 1.0}, TypeError, "exploration must be a Bonus.*got 1.0"),
        ({"exploration": NoPerturbations()}, TypeError, "exploration must be a Bonus.*got <"),
    ],
)
def test_a_bad_argument_gets_the_same_error_everywhere(make, given, error, message):
    if make is MAKERS["paper"] and "exploration" in given:
        error, message = TypeError, "multiple values for keyword argument 'exploration'"
    with pytest.raises(error, match=message):
        make(**given)


OWNERS = {
    "Learner": lambda recipe: rs.Learner(rs.Task(dim=2, horizon=2), rs.EveryEpisode(), recipe),
    "simulate": lambda recipe: rs.simulate(WORLD, rs.EveryEpisode(), recipe, episodes=2),
    "Simulation": lambda recipe: Simulation(
        [WORLD], rs.EveryEpisode(), recipe, task=WORLD.task(episodes=2), seeds=[0]
    ),
}


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
@pytest.mark.parametrize("given", [rs.Bonus(1.0), Recipe, "paper", 0.5, {"ridge": 1.0}], ids=repr)
def test_what_is_no_recipe_is_refused_everywhere_with_the_same_words(owner, given):
    with pytest.raises(TypeError, match=r"recipe must be a Recipe, such as Recipe\.paper\(beta=1"):
        owner(given)
    owner(None)
    owner(Recipe.paper())


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (-3, ValueError, "seed must be at least 0; got -3"),
        (1.0, TypeError, "seed must be a whole number"),
        ((1, 2, 3), ValueError, r"seed must be a whole number or \(root, round\)"),
    ],
)
def test_a_bad_seed_of_a_simulation_is_refused_like_that_of_a_recipe(seed, error, message):
    with pytest.raises(error, match=message):
        rs.simulate(WORLD, rs.EveryEpisode(), episodes=2, seed=seed)


@pytest.mark.parametrize(
    ("part", "value"),
    [("members", 0), ("members", 10**6), ("members", "3"), ("draws", -1), ("beta", math.nan)],
)
def test_what_an_exploration_of_ones_own_says_of_itself_is_checked(part, value):
    class Own:
        beta, members, draws, estimate = 0.5, 2, 1, False

        def perturbations(self, rng, horizon, dim):
            return rng.standard_normal((2, horizon, 1, dim))

    Recipe(exploration=Own())
    setattr(Own, part, value)
    with pytest.raises((TypeError, ValueError), match=f"{part} must be"):
        Recipe(exploration=Own())


@pytest.mark.parametrize(
    "exploration", [rs.Ensemble(400), rs.Perturbation(2.0, draws=400)], ids=repr
)
def test_part_of_what_is_drawn_for_stages_that_share_is_common_to_them(exploration):
    recipe = Recipe(exploration=exploration, seed=4)
    own, shared = (recipe.perturbations(3, 5, 8, shared=shared) for shared in (False, True))
    assert own.shape == shared.shape
    common = (shared - np.sqrt(1.0 - COMMON) * own) / np.sqrt(COMMON)
    np.testing.assert_allclose(common, np.broadcast_to(common[:, :1], common.shape), atol=1e-12)
    by_stage = shared.swapaxes(0, 1).reshape(5, -1)  # 3200 draws each
    np.testing.assert_allclose(by_stage.std(axis=1), own.std(), rtol=0.1)
    correlations = np.corrcoef(by_stage)[~np.eye(5, dtype=bool)]
    np.testing.assert_allclose(correlations, COMMON, atol=0.08)
    np.testing.assert_array_equal(shared, recipe.perturbations(3, 5, 8, shared=True))
    assert (shared != recipe.perturbations(4, 5, 8, shared=True)).all()


def test_an_exploration_of_ones_own_may_use_its_memory_again():
    class Reusing:
        beta, members, draws, estimate = 0.0, 1, 1, False

        def __init__(self):
            self.memory = np.zeros((1, 2, 1, 3))

        def perturbations(self, rng, horizon, dim):
            self.memory[:] = rng.standard_normal(self.memory.shape)
            return self.memory

    recipe = Recipe(exploration=Reusing(), seed=3)
    first = recipe.perturbations(1, 2, 3).copy()
    assert (recipe.perturbations(2, 2, 3) != first).all()
    np.testing.assert_array_equal(recipe.perturbations(1, 2, 3), first)


def test_a_recipe_may_be_shared_by_fits_in_several_threads():
    history, recipe = history_of(rs.Task(dim=8, horizon=5)), Recipe()
    wanted = {version: fit(history, Recipe(), version).digest for version in range(1, 6)}

    def wrong(_):
        return [v for v in [*wanted] * 60 if fit(history, recipe, v).digest != wanted[v]]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(wrong, range(4))) == [[]] * 4
    finally:
        sys.setswitchinterval(interval)
