"""Features for a world of which only the spaces and a sample of observations are known."""

from collections.abc import Iterable
from typing import Any

from rareswitch.core.arguments import shown, whole
from rareswitch.features.action_blocks import ActionBlocks
from rareswitch.features.basis import Basis, joined
from rareswitch.features.box_space import Numbers
from rareswitch.features.feature_map import Features
from rareswitch.features.flatten import Flatten
from rareswitch.features.gymnasium_space import action_count, space_of
from rareswitch.features.identity import Identity
from rareswitch.features.one_hot import OneHot
from rareswitch.features.radial import Radial
from rareswitch.features.space import Space
from rareswitch.features.standardised import Standardised
from rareswitch.features.unit_norm import UnitNorm

# The largest table, in pairs of a state and an action.
MOST_PAIRS = 10**6
# The most numbers in an observation: pictures need features that are learned, not a basis.
MOST_NUMBERS = 1000
# Numbers further from the sample's mean are clipped, in standard deviations.
CLIP = 3.0
# Radial features, of each of these bandwidths, in standard deviations times √n: the squared
# distance of two states grows with the number n of their coordinates.
BANDWIDTHS = (0.5, 1.0)
COMPONENTS = 40


def default_features(
    observation_space: Any, action_space: Any, sample: Iterable[Any] | None = None, *, seed: int = 0
) -> Features:
    """Return features that suit the spaces of a world: a table, or a basis for each action.

    States that can be counted, in at most 10⁶ pairs with actions, get a table (`OneHot`): nothing
    is assumed, and each pair is learned by itself. All others are laid flat and get `ActionBlocks`
    of a constant, the numbers themselves and radial features. The numbers are standardised on the
    `sample` of observations and clipped, because the fit shrinks all directions alike: what is
    measured in small units would be taken for unimportant. The constant and the numbers carry what
    is linear, and the radial features, of a narrow and a wide bandwidth, what is not. All is
    divided by its known bound, so that no row is longer than 1.

    Features drawn at random are the same for the same `seed`.
    """
    actions = action_count(action_space)
    space = space_of(observation_space)
    if space.count is not None and space.count * actions <= MOST_PAIRS:
        return OneHot(states=space.count, actions=actions, space=space)
    if space.size > MOST_NUMBERS:
        raise ValueError(
            f"observation_space must have at most {MOST_PAIRS // actions} states or "
            f"{MOST_NUMBERS} numbers for features by default; got {shown(observation_space)}. "
            "Bring features of your own for it: Custom(function, actions=…, dim=…)"
        )
    return ActionBlocks(_basis(space, sample, whole("seed", seed, least=0)), actions=actions)


def _basis(space: Space, sample: Iterable[Any] | None, seed: int) -> Basis:
    states = [] if sample is None else list(sample)
    if len(states) < 2:
        raise ValueError(
            f"sample must hold at least two observations, which say how large the numbers of a "
            f"state are; got {len(states)}. A few hundred of random play are enough"
        )
    laid_flat: Basis = Flatten(space=space)
    plain = isinstance(space, Numbers) and len(space.shape) == 1
    observed = Identity(inputs=space.size) if plain else laid_flat
    scaled = Standardised.fit(observed.many(states), clip=CLIP)
    spread = space.size**0.5
    shape = joined(
        Identity(inputs=space.size, constant=True),
        Radial.drawn(
            inputs=space.size,
            components=COMPONENTS,
            bandwidths=tuple(width * spread for width in BANDWIDTHS),
            seed=seed,
        ),
    )
    basis = (scaled if plain else laid_flat.then(scaled)).then(shape)
    return basis.then(UnitNorm(inputs=basis.size, bound=basis.norm))
