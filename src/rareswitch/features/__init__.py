"""Feature maps, from a state to the rows of all actions."""

from rareswitch.features.action_blocks import ActionBlocks
from rareswitch.features.basis import Basis, Flatten, joined
from rareswitch.features.cosines import Cosines
from rareswitch.features.custom import Custom, as_features
from rareswitch.features.default import default_features, features_named
from rareswitch.features.feature_map import FeatureMap, Features
from rareswitch.features.observation_table import ObservationTable
from rareswitch.features.one_hot import OneHot
from rareswitch.features.polynomial import Polynomial
from rareswitch.features.scaling import Scaling, UnitNorm
from rareswitch.features.scikit_learn import Transformed, basis_of
from rareswitch.features.wrappers import Dense, Masked, UnitRows, WithStage

features_from_bytes = Features.from_bytes

__all__ = [
    "ActionBlocks",
    "Basis",
    "Cosines",
    "Custom",
    "Dense",
    "FeatureMap",
    "Features",
    "Flatten",
    "Masked",
    "ObservationTable",
    "OneHot",
    "Polynomial",
    "Scaling",
    "Transformed",
    "UnitNorm",
    "UnitRows",
    "WithStage",
    "as_features",
    "basis_of",
    "default_features",
    "features_from_bytes",
    "features_named",
    "joined",
]
