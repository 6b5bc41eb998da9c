from fractions import Fraction

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.core.recipe import Recipe
from rareswitch.core.streams import KeyedStream, Stream


def test_beta_is_short_for_a_bonus():
    assert Recipe.of(beta=None, exploration=None) == Recipe() == Recipe(exploration=rs.Bonus(1.0))
    assert Recipe.of(beta=0.3, exploration=None).exploration == rs.Bonus(0.3)
    assert Recipe.of(beta=0, exploration=None).exploration == rs.Bonus(0.0)
    phe = rs.Perturbation(0.3)
    assert Recipe.of(beta=None, exploration=phe, ridge=2.0) == Recipe(exploration=phe, ridge=2.0)


def test_arguments_are_converted_once():
    recipe = Recipe(ridge=Fraction(1, 2), clip=np.False_, seed=[np.int64(3), np.uint8(2)])
    plain = Recipe(ridge=0.5, clip=False, seed=(3, 2))
    assert recipe == plain
    assert repr(recipe) == repr(plain)
    assert recipe.clip is False


def test_directions_are_the_ties_stream_at_the_version():
    recipe = Recipe(seed=(4, 2))
    stream = KeyedStream((4, 2), Stream.TIES)
    for version in (3, 1, 3):
        expected = stream.at(version).standard_normal((2, 5))
        np.testing.assert_array_equal(recipe.directions(version, 2, 5), expected)
    assert Recipe(ties="lowest").directions(1, 2, 5) is None


def test_offsets_depend_on_the_version_and_on_nothing_drawn_before():
    whitener = np.stack([np.eye(3), np.diag([1.0, 2.0, 3.0])])
    recipe, fresh = (Recipe(exploration=rs.Perturbation(0.5, draws=4), seed=7) for _ in range(2))
    first = recipe.offsets(1, whitener)
    recipe.offsets(2, whitener)
    recipe.directions(1, 2, 3)
    np.testing.assert_array_equal(recipe.offsets(1, whitener), first)
    np.testing.assert_array_equal(fresh.offsets(1, whitener), first)
    assert (recipe.offsets(2, whitener) != first).all()
    assert Recipe().offsets(1, whitener) is None


WORLD = rs.instances.tabular(states=2, actions=2, horizon=2)
OWNERS = {
    "Learner": lambda **given: rs.Learner(dim=2, horizon=2, schedule=rs.EveryEpisode(), **given),
    "simulate": lambda **given: rs.simulate(WORLD, rs.EveryEpisode(), episodes=2, **given),
}


class NoOffsets:
    beta, draws = 1.0, 0


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
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
        ({"exploration": rs.Bonus}, TypeError, "exploration must be a Bonus, a Perturbation or"),
        ({"exploration": 1.0}, TypeError, "exploration must be a Bonus.*got 1.0"),
        ({"exploration": NoOffsets()}, TypeError, "exploration must be a Bonus.*got <"),
        (
            {"beta": 1.0, "exploration": rs.Bonus(1.0)},
            TypeError,
            r"beta and exploration exclude each other: beta=b is short for exploration=Bonus\(b\); "
            r"got beta=1.0 and exploration=Bonus\(beta=1.0\)",
        ),
    ],
)
def test_a_bad_argument_gets_the_same_error_everywhere(owner, given, error, message):
    with pytest.raises(error, match=message):
        owner(**given)
