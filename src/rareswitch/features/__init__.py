"""Feature maps: from a state of a world to the rows of all its actions."""

from rareswitch.features.action_blocks import ActionBlocks
from rareswitch.features.basis import Basis, joined
from rareswitch.features.custom import Custom, as_features
from rareswitch.features.default import default_features
from rareswitch.features.dense import Dense
from rareswitch.features.feature_map import FeatureMap, Features
from rareswitch.features.flatten import Flatten
from rareswitch.features.fourier import Fourier
from rareswitch.features.identity import Identity
from rareswitch.features.kinds import features_from_bytes
from rareswitch.features.masked import Masked
from rareswitch.features.min_max import MinMax
from rareswitch.features.one_hot import OneHot
from rareswitch.features.polynomial import Polynomial
from rareswitch.features.radial import Radial
from rareswitch.features.scikit_learn import basis_of
from rareswitch.features.standardised import Standardised
from rareswitch.features.transformed import Transformed
from rareswitch.features.unit_norm import UnitNorm
from rareswitch.features.unit_rows import UnitRows
from rareswitch.features.with_stage import WithStage

__all__ = [
    "ActionBlocks",
    "Basis",
    "Custom",
    "Dense",
    "FeatureMap",
    "Features",
    "Flatten",
    "Fourier",
    "Identity",
    "Masked",
    "MinMax",
    "OneHot",
    "Polynomial",
    "Radial",
    "Standardised",
    "Transformed",
    "UnitNorm",
    "UnitRows",
    "WithStage",
    "as_features",
    "basis_of",
    "default_features",
    "features_from_bytes",
    "joined",
]
