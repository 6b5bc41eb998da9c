"""Fitted transformers of scikit-learn as bases: the same numbers, from NumPy alone.

Only their fitted attributes are read; scikit-learn is not imported.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from rareswitch.features.basis import Basis, joined
from rareswitch.features.identity import Identity
from rareswitch.features.min_max import MinMax
from rareswitch.features.polynomial import Polynomial
from rareswitch.features.radial import Radial
from rareswitch.features.standardised import Standardised
from rareswitch.support.arguments import short_repr


def basis_of(transformer: Any) -> Basis:
    """Return the basis that does what a fitted transformer does, to the last bits.

    Known are StandardScaler, MinMaxScaler, PolynomialFeatures and RBFSampler, and a Pipeline or
    FeatureUnion of them. Others are taken as they are by `Transformed`.
    """
    inside = type(transformer).__module__.partition(".")[0] == "sklearn"
    convert = CONVERSIONS.get(type(transformer).__name__) if inside else None
    if convert is None:
        raise TypeError(
            f"transformer must be one of {', '.join(CONVERSIONS)} of scikit-learn; got "
            f"{short_repr(transformer)}. Transformed(transformer, probe=…) takes any, as it is"
        )
    try:
        return convert(transformer)
    except AttributeError as error:
        raise ValueError(f"transformer must be fitted; {error}") from None


def _standard_scaler(fitted: Any) -> Basis:
    zeros = np.zeros(fitted.n_features_in_)
    return Standardised(
        mean=fitted.mean_ if fitted.with_mean else zeros,
        scale=fitted.scale_ if fitted.with_std else zeros + 1.0,
    )


def _min_max_scaler(fitted: Any) -> Basis:
    low, high = map(float, fitted.feature_range)
    return MinMax(scale=fitted.scale_, shift=fitted.min_, low=low, high=high, clip=fitted.clip)


def _polynomial_features(fitted: Any) -> Basis:
    lowest, degree = fitted.degree if isinstance(fitted.degree, tuple) else (0, fitted.degree)
    if lowest > 1:
        raise ValueError(
            f"transformer must be a PolynomialFeatures of a least degree of at most 1; got "
            f"{short_repr(fitted)}. Transformed(transformer, probe=…) takes any, as it is"
        )
    return Polynomial(
        inputs=fitted.n_features_in_,
        degree=degree,
        constant=fitted.include_bias,
        interaction_only=fitted.interaction_only,
    )


def _rbf_sampler(fitted: Any) -> Basis:
    return Radial(
        weights=fitted.random_weights_,
        offsets=fitted.random_offset_,
        amplitude=math.sqrt(2.0 / fitted.random_weights_.shape[1]),
    )


def _pipeline(fitted: Any) -> Basis:
    steps = [basis_of(step) for _, step in fitted.steps if step not in (None, "passthrough")]
    if not steps:
        raise ValueError(
            f"transformer must have a step that does something; got {short_repr(fitted)}"
        )
    return reduce(Basis.then, steps)


def _feature_union(fitted: Any) -> Basis:
    if fitted.transformer_weights:
        raise ValueError(
            f"transformer must be a FeatureUnion without weights; got {short_repr(fitted)}. "
            "Transformed(transformer, probe=…) takes any, as it is"
        )
    inputs = fitted.n_features_in_
    return joined(
        *(
            # A union keeps a step that passes through as a function, under the name it was given.
            Identity(inputs=inputs) if _passes_through(part) else basis_of(part)
            for _, part in fitted.transformer_list
            if part != "drop"
        )
    )


def _passes_through(part: Any) -> bool:
    plain = type(part).__name__ == "FunctionTransformer" and part.func is None
    return plain or part == "passthrough"


CONVERSIONS: dict[str, Callable[[Any], Basis]] = {
    "StandardScaler": _standard_scaler,
    "MinMaxScaler": _min_max_scaler,
    "PolynomialFeatures": _polynomial_features,
    "RBFSampler": _rbf_sampler,
    "Pipeline": _pipeline,
    "FeatureUnion": _feature_union,
}
