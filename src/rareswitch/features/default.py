"""Choose features from a world's spaces and a sample, or by a text.

A text is a name with arguments such as `fourier,order=3`, or module:name for code of the user.
Every basis works on numbers scaled to [0, 1] (`in_range`), has a constant, and is divided by its
bound, so that no row is longer than 1.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from rareswitch.features.action_blocks import ActionBlocks
from rareswitch.features.basis import Basis, joined
from rareswitch.features.cosines import Cosines
from rareswitch.features.feature_map import Features
from rareswitch.features.observation_table import ObservationTable, observation_key
from rareswitch.features.one_hot import OneHot
from rareswitch.features.polynomial import Polynomial
from rareswitch.features.scaling import UnitNorm, in_range
from rareswitch.features.spaces import OWN_FEATURES, Space, action_count, space_of
from rareswitch.rules.words import parse
from rareswitch.support.arguments import did_you_mean, short_repr
from rareswitch.support.imports import checked_maker, load_object

# The largest table, in pairs of a state and an action.
MOST_PAIRS = 10**6
# The most numbers in an observation: pictures need learned features, not a basis.
MOST_NUMBERS = 1000
# The number of cosines for each action, or one for each number if that is more.
COSINES = 80
# The most numbers in one cosine: the slowest cosines never have more.
MOST_COUPLED = 8
# The largest share of new observations in the second half of random play for a table. In small
# trials the table learned more than cosines below it, as much near 0.25, and less above 0.3, when
# each episode has its own layout.
MOST_UNSEEN = 0.2
# The least random play for this share, and the most numbers in an observation with a key.
LEAST_PLAYED = 200
MOST_KEYED = 10**5
# The number of hashed places for observations that random play never met. More places cost nothing
# until their observations occur, but small trials learned no better with them.
HASHED = 256
# The text for features chosen by `default_features`.
DEFAULT = "default"
# The text for a table of countable states.
TABLE = "one-hot"

Sample = Iterable[Any] | Callable[[], Iterable[Any]]


def default_features(
    observation_space: Any, action_space: Any, sample: Sample | None = None
) -> Features:
    """Return default features for a world: a table, or a basis for each action.

    1. Countable states, with at most 10⁶ pairs of a state and an action, get a table (`OneHot`),
       which learns each pair separately.
    2. Observations that repeat get a table of the observations in the `sample` of random play, with
       hashed places for all others (`ObservationTable`). They repeat if at most a fifth of the
       second half of the sample is missing in the first half.
    3. All others are flattened, scaled to [0, 1] by the bounds of their space or the sample
       (`in_range`), and get `ActionBlocks` of their 80 slowest cosines (`Cosines.fourier`), smooth
       functions of all numbers together, divided by their bound.

    No row is longer than 1. `sample` may be a function, which is called only if needed.
    """
    actions = action_count(action_space)
    space = space_of(observation_space)
    if space.count is not None and space.count * actions <= MOST_PAIRS:
        return OneHot(states=space.count, actions=actions, space=space)
    played = _played(sample)
    if space.size <= MOST_KEYED and _repeat(space, played):
        return OneHot.of(ObservationTable.met(space, played, hashed=HASHED), actions)
    if space.size > MOST_NUMBERS:
        raise ValueError(
            f"observation_space must have at most {MOST_NUMBERS} numbers, or observations that "
            f"repeat in random play, for default features; got {short_repr(observation_space)}: "
            f"{OWN_FEATURES}"
        )
    scaled = in_range(observation_space, played)
    terms = max(COSINES, 1 + space.size)
    coupled = min(space.size, MOST_COUPLED)
    basis = scaled.then(Cosines.fourier, order=terms, coupled=coupled, terms=terms)
    return _blocks(basis, actions)


def _repeat(space: Space, played: list[Any]) -> bool:
    """Return whether few observations of the second half are missing in the first half.

    Halves, because observations within one episode repeat even if no two episodes agree.
    """
    if len(played) < LEAST_PLAYED:
        return False
    keys, half = [observation_key(space, one) for one in played], len(played) // 2
    first = set(keys[:half])
    return sum(key not in first for key in keys[half:]) <= MOST_UNSEEN * (len(keys) - half)


def features_named(
    text: str,
    observation_space: Any,
    actions: int,
    sample: Sample,
    *,
    allow: Collection[str] = (),
) -> Any:
    """Return the features that a text names, for a space of observations and the actions.

    `sample` are observations of random play, or a function that returns them, called only if
    needed. The object module:name is returned unchanged, or made with its arguments if it is a
    class; `allow` must have the module.

    >>> from gymnasium.spaces import Box
    >>> seen = [[0.0, 1.0], [0.5, 3.0], [1.0, 2.0]]
    >>> features_named("polynomial,degree=2", Box(0.0, 9.0, (2,)), 3, lambda: seen).dim
    18
    """
    word, arguments = parse(text)
    if ":" in word:
        return _own(word, arguments, allow)
    if word not in (words := [DEFAULT, TABLE, *BASES]):
        raise ValueError(
            f"features must be one of {', '.join(words)}, or module:name; got {text!r}"
            f"{did_you_mean(word, words)}"
        )
    known = list(inspect.signature(BASES[word]).parameters)[1:] if word in BASES else []
    if unknown := [name for name in arguments if name not in known]:
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        meant = did_you_mean(unknown[0], known)
        raise ValueError(f"{word} has no argument {unknown[0]!r}; {takes}{meant}")
    if word == DEFAULT:
        return default_features(observation_space, actions, sample)
    if word == TABLE:
        return OneHot.of(observation_space, actions)
    return _blocks(BASES[word](in_range(observation_space, _played(sample)), **arguments), actions)


def _played(sample: Sample | None) -> list[Any]:
    return list((sample() if callable(sample) else sample) if sample is not None else ())


def _linear(scaled: Basis) -> Basis:
    return scaled.then(Polynomial, degree=1)


def _polynomial(scaled: Basis, degree: int = 2) -> Basis:
    return scaled.then(Polynomial, degree=degree)


def _fourier(scaled: Basis, order: int = 3, coupled: int = 2, terms: int | None = None) -> Basis:
    return scaled.then(Cosines.fourier, order=order, coupled=coupled, terms=terms)


def _radial(
    scaled: Basis,
    components: int = 40,
    bandwidths: float | Sequence[float] = (0.1, 0.25),
    seed: int = 0,
) -> Basis:
    """Draw radial features; bandwidths are shares of the range times √n, for n numbers."""
    given = bandwidths if isinstance(bandwidths, list | tuple) else (bandwidths,)
    widths = tuple(width * scaled.size**0.5 for width in given)
    drawn = Cosines.radial(inputs=scaled.size, components=components, bandwidths=widths, seed=seed)
    return scaled.then(joined(Polynomial(inputs=scaled.size, degree=1), drawn))


BASES: dict[str, Callable[..., Basis]] = {
    "linear": _linear,
    "polynomial": _polynomial,
    "fourier": _fourier,
    "radial": _radial,
}


def _blocks(basis: Basis, actions: int) -> Features:
    return ActionBlocks(basis.then(UnitNorm, bound=basis.norm), actions=actions)


def _own(name: str, arguments: dict[str, Any], allow: Collection[str]) -> Any:
    """Return the object module:name: a feature map, a function, or an instance of a class."""
    try:
        found = checked_maker(name, load_object(name, allow=allow), ("__call__",))
    except ValueError as error:
        raise type(error)(f"features {error}") from None
    if isinstance(found, type):
        return found(**arguments)
    if arguments:
        raise ValueError(
            f"features with arguments must name a class; {name!r} is {short_repr(found)}"
        )
    return found
