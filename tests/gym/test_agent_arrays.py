"""An agent as named arrays: what other programs need, and nothing that cannot be saved."""

import io

import numpy as np
import pytest
from gymnasium.spaces import Box

import rareswitch as rs
from rareswitch.features import (
    ActionBlocks,
    Custom,
    OneHot,
    Polynomial,
    Scaling,
    WithStage,
    features_named,
    joined,
)
from rareswitch.gym import Agent

TABLE = OneHot(states=3, actions=2)
RNG = np.random.default_rng(0)
SEEN = RNG.normal(size=(30, 2))


def agent_of(features, **policy):
    weights = RNG.normal(size=(4, features.dim))
    policy = rs.Policy(weights=weights, one_hot=features.one_hot, clip=False, **policy)
    return Agent(policy=policy, features=features)


def test_the_policy_is_there_under_its_own_names():
    levels = RNG.normal(size=4)
    arrays = agent_of(TABLE, levels=levels).to_arrays()
    assert set(arrays) == {
        "weights",
        "levels",
        "clip",
        "one-hot.states",
        "one-hot.actions",
        "digits.counts",
        "digits.starts",
    }
    np.testing.assert_array_equal(arrays["levels"], levels)
    assert not arrays["clip"]
    bonus = Agent(
        policy=rs.Policy(weights=np.ones((4, 6)), whitener=np.ones((4, 6)), beta=0.5, one_hot=True),
        features=TABLE,
        actions=[[0.0, 1.0], [1.0, 0.0]],
    ).to_arrays()
    assert bonus["beta"] == 0.5
    assert bonus["whitener"].shape == (4, 6)
    np.testing.assert_array_equal(bonus["actions"], [[0.0, 1.0], [1.0, 0.0]])


def test_a_mixture_has_members_and_its_allocation():
    mixture = rs.Policy(
        weights=RNG.normal(size=(5, 4, 6)),
        directions=RNG.normal(size=(5, 4, 6)),
        allocation=11,
        one_hot=True,
    )
    arrays = Agent(policy=mixture, features=TABLE).to_arrays()
    assert arrays["allocation"] == 11
    assert arrays["directions"].shape == arrays["weights"].shape == (5, 4, 6)


@pytest.mark.parametrize("text", ["linear", "polynomial,degree=3", "fourier", "radial"])
def test_all_can_be_saved_without_pickle(text):
    features = features_named(text, Box(-np.inf, np.inf, (2,)), 2, lambda: SEEN)
    arrays, file = agent_of(features).to_arrays(), io.BytesIO()
    np.savez(file, **arrays)
    with np.load(io.BytesIO(file.getvalue()), allow_pickle=False) as loaded:
        assert set(loaded) == set(arrays)
        for name in arrays:
            np.testing.assert_array_equal(loaded[name], arrays[name])


def test_what_a_basis_computes_is_there_too():
    box = Box(-np.inf, np.inf, (2,))
    state = SEEN[3]
    features = features_named("fourier", box, 2, lambda: SEEN)
    arrays = agent_of(features).to_arrays()
    x = np.clip((state - arrays["scaling.origin"]) / arrays["scaling.unit"], 0.0, 1.0)
    row = np.cos(x @ arrays["cosines.weights"]) / arrays["unit-norm.bound"]
    np.testing.assert_allclose(features(state)[0, : len(row)], row, atol=1e-12)
    features = features_named("polynomial", box, 2, lambda: SEEN)
    arrays = agent_of(features).to_arrays()
    row = np.prod(np.array([1.0, *x])[arrays["polynomial.factors"]], axis=0)
    found = features(state)[0, : len(row)]
    np.testing.assert_allclose(found, row / arrays["unit-norm.bound"], atol=1e-12)


def test_parts_of_one_kind_are_counted():
    first, second = Scaling.between([0.0], [2.0]), Scaling.between([0.0], [4.0])
    features = ActionBlocks(
        joined(first, second, Polynomial(inputs=1, degree=1, constant=False)), actions=2
    )
    arrays = agent_of(features).to_arrays()
    assert (arrays["scaling.unit"], arrays["scaling-2.unit"]) == (2.0, 4.0)
    staged = agent_of(WithStage(TABLE, horizon=4)).to_arrays()
    assert staged["with-stage.horizon"] == 4
    assert staged["one-hot.states"] == 3


def test_code_has_no_arrays():
    own = Custom(TABLE, actions=2, dim=6, one_hot=True, name="mine")
    with pytest.raises(TypeError, match="features must be maps of this package"):
        agent_of(own).to_arrays()
    with pytest.raises(TypeError, match="features must be maps of this package"):
        agent_of(WithStage(own, horizon=4)).to_arrays()
