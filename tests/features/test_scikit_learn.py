"""The bases do what scikit-learn does, and faster for one state."""

import math
import sys
import time

import numpy as np
import pytest
from feature_examples import SAMPLE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from rareswitch.features import ActionBlocks, Basis, Cosines, Scaling, Transformed, basis_of
from rareswitch.features.basis import Chained, Joined

TRANSFORMERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    StandardScaler(with_mean=False, with_std=False),
    MinMaxScaler(),
    MinMaxScaler(clip=True),
    MinMaxScaler(feature_range=(-2, 3), clip=True),
    PolynomialFeatures(1),
    PolynomialFeatures(3),
    PolynomialFeatures((0, 2)),
    PolynomialFeatures((1, 2), include_bias=False),
    PolynomialFeatures(3, include_bias=False),
    PolynomialFeatures(3, interaction_only=True),
    RBFSampler(gamma=0.3, n_components=17, random_state=5),
    make_pipeline(StandardScaler(), RBFSampler(n_components=9, random_state=1)),
    make_pipeline("passthrough", MinMaxScaler(), "passthrough", PolynomialFeatures(2)),
    make_union(StandardScaler(), make_pipeline(MinMaxScaler(), PolynomialFeatures(2))),
    FeatureUnion([("a", "passthrough"), ("b", "drop"), ("c", StandardScaler())]),
    Pipeline([("a", StandardScaler()), ("b", make_union(PolynomialFeatures(2), RBFSampler()))]),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda t: type(t).__name__)
def test_a_basis_agrees_with_the_transformer_it_was_made_of(transformer):
    fitted = clone(transformer).fit(SAMPLE[:30])
    basis = basis_of(fitted)
    expected = fitted.transform(SAMPLE)
    assert basis.many(SAMPLE).shape == expected.shape
    np.testing.assert_allclose(basis.many(SAMPLE), expected, rtol=1e-12, atol=1e-12)


SAMPLES = arrays(np.float64, (6, 3), elements=st.floats(-1e3, 1e3))


@given(sample=SAMPLES, state=arrays(np.float64, 3, elements=st.floats(-1e3, 1e3)))
def test_fits_are_those_of_scikit_learn(sample, state):
    for basis, fitted in (
        (Scaling.standard(sample), StandardScaler().fit(sample)),
        (Scaling.min_max(sample, clip=False), MinMaxScaler().fit(sample)),
        (Scaling.min_max(sample), MinMaxScaler(clip=True).fit(sample)),
    ):
        np.testing.assert_allclose(basis(state), fitted.transform(state[None])[0], rtol=1e-12)


def test_several_bandwidths_are_a_union_of_samplers():
    seeds = np.random.SeedSequence(8).generate_state(2)
    union = make_union(
        RBFSampler(gamma=2.0, n_components=5, random_state=int(seeds[0])),
        RBFSampler(gamma=1 / 18, n_components=5, random_state=int(seeds[1])),
    ).fit(SAMPLE)
    basis = Cosines.radial(inputs=3, components=5, bandwidths=(0.5, 3.0), seed=8)
    np.testing.assert_allclose(basis.many(SAMPLE), union.transform(SAMPLE), atol=1e-12)
    assert basis.norm == pytest.approx(2.0)


def test_products_of_radial_features_approximate_the_kernel():
    basis = Cosines.radial(inputs=3, components=20_000, bandwidths=1.5, seed=0)
    x, y = np.array([0.1, 0.2, 0.3]), np.array([1.0, -0.5, 0.4])
    kernel = math.exp(-float((x - y) @ (x - y)) / (2 * 1.5**2))
    # Of 20 000 terms of standard deviation below 1, five standard errors.
    assert basis(x) @ basis(y) == pytest.approx(kernel, abs=5 / math.sqrt(20_000))


def test_pipelines_and_unions_keep_their_structure():
    pipeline = make_pipeline(StandardScaler(), RBFSampler(random_state=0)).fit(SAMPLE)
    assert isinstance(basis_of(pipeline), Chained)
    assert isinstance(basis_of(make_union(StandardScaler()).fit(SAMPLE)), Joined)


class StandardScalerOfMine(StandardScaler):
    """Who knows what it does."""


@pytest.mark.parametrize(
    "transformer",
    [PCA(), make_pipeline(StandardScaler(), PCA()), StandardScalerOfMine(), np.cos, None],
)
def test_other_transformers_are_refused_with_what_to_do(transformer):
    fitted = transformer.fit(SAMPLE) if hasattr(transformer, "fit") else transformer
    with pytest.raises(TypeError, match=r"transformer must be one of Stan.*Transformed\(transform"):
        basis_of(fitted)


@pytest.mark.parametrize(
    "transformer",
    [
        PolynomialFeatures((2, 3)),
        FeatureUnion([("a", StandardScaler())], transformer_weights={"a": 2.0}),
        make_pipeline("passthrough"),
    ],
)
def test_settings_without_a_counterpart_are_refused(transformer):
    with pytest.raises(ValueError, match=r"transformer must (be a|have a step)"):
        basis_of(transformer.fit(SAMPLE))


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda t: type(t).__name__)
def test_a_transformer_must_be_fitted(transformer):
    with pytest.raises(ValueError, match=r"transformer must be fitted; .* no attribute"):
        basis_of(clone(transformer))


def test_without_scikit_learn_nothing_is_fitted_but_all_is_used(monkeypatch):
    basis = Scaling.standard(SAMPLE).then(Cosines.radial(inputs=3, components=5, bandwidths=1.0))
    data, expected = basis.to_bytes(), basis(SAMPLE[0])
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr("rareswitch.support.extras.find_spec", lambda name: None)
    np.testing.assert_array_equal(Basis.from_bytes(data)(SAMPLE[0]), expected)
    for fit in (
        lambda: Scaling.standard(SAMPLE),
        lambda: Scaling.min_max(SAMPLE),
        lambda: Cosines.radial(inputs=3, components=5, bandwidths=1.0),
    ):
        with pytest.raises(ImportError, match=r"must be installed: pip install '\.\[feat"):
            fit()


def test_one_state_takes_a_fraction_of_the_time():
    fitted = make_pipeline(StandardScaler(), RBFSampler(n_components=50, random_state=0))
    fitted.fit(SAMPLE)
    basis, state = basis_of(fitted), SAMPLE[0]

    def fastest(call):
        times = []
        for _ in range(30):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return min(times)

    ours, theirs = fastest(lambda: basis(state)), fastest(lambda: fitted.transform(state[None]))
    assert 5 * ours < theirs


FITTED = [
    make_pipeline(StandardScaler(), PCA(2), PolynomialFeatures(2)).fit(SAMPLE),
    SplineTransformer(n_knots=4).fit(SAMPLE),
    KBinsDiscretizer(3, encode="onehot", quantile_method="averaged_inverted_cdf").fit(SAMPLE),
    StandardScaler().set_output(transform="pandas").fit(SAMPLE),
]


@pytest.mark.parametrize("fitted", FITTED, ids=lambda t: type(t).__name__)
def test_any_fitted_transformer_is_a_basis(fitted):
    basis = Transformed(fitted, probe=SAMPLE[:5])
    expected = fitted.transform(SAMPLE)
    expected = expected.toarray() if hasattr(expected, "toarray") else np.asarray(expected)
    np.testing.assert_allclose(basis.many(SAMPLE), expected, rtol=1e-12, atol=1e-12)
    assert basis.norm == np.inf
    assert basis.name == f"{expected.shape[1]} of {type(fitted).__name__}"
    with pytest.raises(ValueError, match="state must be finite"):
        basis([0.0, np.nan, 0.0])


def test_it_stands_with_other_bases():
    basis = Scaling.standard(SAMPLE).then(Transformed(PCA(2).fit(SAMPLE), probe=SAMPLE[:5]))
    features = ActionBlocks(basis, actions=2)
    assert features.dim == 4
    with pytest.raises(TypeError, match="2 of PCA is code of your own"):
        features.to_bytes()


def test_the_digest_is_that_of_what_it_does():
    first, again, other = (PCA(2).fit(sample) for sample in (SAMPLE, SAMPLE, SAMPLE[:30]))
    digest = Transformed(first, probe=SAMPLE[:5]).digest
    assert digest == Transformed(again, probe=SAMPLE[:5]).digest
    assert digest != Transformed(other, probe=SAMPLE[:5]).digest


@pytest.mark.parametrize(
    ("transformer", "probe", "error", "message"),
    [
        (np.cos, SAMPLE, TypeError, "transformer must have a transform method"),
        (FITTED[0], SAMPLE[:0], ValueError, "probe must not be empty"),
        (FITTED[0], SAMPLE[:, :2], ValueError, "probe must have 3 columns; got 2"),
        (FITTED[0], SAMPLE[0], ValueError, "probe must have shape"),
    ],
)
def test_arguments_of_transformed_are_checked(transformer, probe, error, message):
    with pytest.raises(error, match=message):
        Transformed(transformer, probe=probe)


class Reciprocal:
    n_features_in_ = 1

    def transform(self, rows):
        with np.errstate(divide="ignore"):
            return 1.0 / rows


def test_what_it_makes_must_be_finite():
    basis = Transformed(Reciprocal(), probe=[[2.0]])
    with pytest.raises(ValueError, match=r"1 of Reciprocal for array\(\[0\.\]\) must be fi"):
        basis([0.0])
