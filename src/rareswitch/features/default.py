"""Features for a world of which only the spaces and a sample of observations are known."""

from collections.abc import Iterable
from typing import Any

from rareswitch.features.action_blocks import ActionBlocks
from rareswitch.features.feature_map import Features
from rareswitch.features.fourier import Fourier
from rareswitch.features.gymnasium_space import action_count, space_of
from rareswitch.features.in_range import in_range
from rareswitch.features.one_hot import OneHot
from rareswitch.features.unit_norm import UnitNorm
from rareswitch.support.arguments import short_repr

# The largest table, in pairs of a state and an action.
MOST_PAIRS = 10**6
# The most numbers in an observation: pictures need features that are learned, not a basis.
MOST_NUMBERS = 1000
# The slowest cosines of each action: so many, or one for each number if these are more.
COSINES = 80
# Numbers in one cosine: more than these are in none of the slowest anyway.
MOST_COUPLED = 8


def default_features(
    observation_space: Any, action_space: Any, sample: Iterable[Any] | None = None
) -> Features:
    """Return features that suit the spaces of a world: a table, or a basis for each action.

    States that can be counted, in at most 10⁶ pairs with actions, get a table (`OneHot`): nothing
    is assumed, and each pair is learned by itself. All others are laid flat, spread over [0, 1] by
    the bounds of their space or the `sample` of observations (`in_range`), and get `ActionBlocks`
    of the 80 slowest cosines of them (`Fourier`): smooth functions of all numbers together, the
    coarsest first. All is divided by its known bound, so that no row is longer than 1.
    """
    actions = action_count(action_space)
    space = space_of(observation_space)
    if space.count is not None and space.count * actions <= MOST_PAIRS:
        return OneHot(states=space.count, actions=actions, space=space)
    if space.size > MOST_NUMBERS:
        raise ValueError(
            f"observation_space must have at most {MOST_PAIRS // actions} states or "
            f"{MOST_NUMBERS} numbers for features by default; got {short_repr(observation_space)}. "
            "Bring features of your own for it: Custom(function, actions=…, dim=…)"
        )
    scaled = in_range(observation_space, [] if sample is None else sample)
    terms = max(COSINES, 1 + space.size)
    coupled = min(space.size, MOST_COUPLED)
    cosines = Fourier(inputs=space.size, order=terms, coupled=coupled, terms=terms)
    basis = scaled.then(cosines)
    return ActionBlocks(basis.then(UnitNorm(inputs=basis.size, bound=basis.norm)), actions=actions)
