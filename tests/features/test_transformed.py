import numpy as np
import pytest
from feature_examples import SAMPLE
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from rareswitch.features import ActionBlocks, Standardised, Transformed

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
    basis = Standardised.fit(SAMPLE).then(Transformed(PCA(2).fit(SAMPLE), probe=SAMPLE[:5]))
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
        (FITTED[0], SAMPLE[:0], ValueError, "probe must have at least one state"),
        (FITTED[0], SAMPLE[:, :2], ValueError, "probe must have 3 columns; got 2"),
        (FITTED[0], SAMPLE[0], ValueError, "probe must have shape"),
    ],
)
def test_arguments_are_checked(transformer, probe, error, message):
    with pytest.raises(error, match=message):
        Transformed(transformer, probe=probe)


class Reciprocal:
    n_features_in_ = 1

    def transform(self, rows):
        with np.errstate(divide="ignore"):
            return 1.0 / rows


def test_what_it_makes_must_be_finite():
    basis = Transformed(Reciprocal(), probe=[[2.0]])
    with pytest.raises(
        ValueError, match=r"what 1 of Reciprocal makes of array\(\[0\.\]\) must be fi"
    ):
        basis([0.0])
