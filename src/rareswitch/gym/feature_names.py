"""Features by a word, for where text enters: `fourier,order=3`, or module:name for your own.

Every basis stands on numbers spread over [0, 1] (`features.in_range`), has a constant, and is
divided by its bound, so that no row is longer than 1.
"""

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

from rareswitch.features import (
    ActionBlocks,
    Basis,
    Features,
    Fourier,
    Identity,
    OneHot,
    Polynomial,
    Radial,
    UnitNorm,
    joined,
)
from rareswitch.features.in_range import in_range
from rareswitch.rules.words import parse
from rareswitch.support.arguments import short_repr
from rareswitch.support.imports import checked_maker, load_object

# The word for features picked by the observation space.
DEFAULT = "default"

Sample = Callable[[], Sequence[Any]]


def features_named(
    text: str,
    observation_space: Any,
    actions: int,
    sample: Sample,
    *,
    allow: Collection[str] = (),
) -> Any:
    """Return the features that a text names, for observations of a space and so many actions.

    `sample` gives observations of random play, and is asked only where numbers must be scaled.
    The object of module:name is returned as it is, or made with its arguments if it is a class;
    `allow` must have the module.

    >>> from gymnasium.spaces import Box
    >>> from rareswitch.gym.feature_names import features_named
    >>> seen = [[0.0, 1.0], [0.5, 3.0], [1.0, 2.0]]
    >>> features_named("polynomial,degree=2", Box(0.0, 9.0, (2,)), 3, lambda: seen).dim
    18
    """
    word, arguments = parse(text)
    if ":" in word:
        return _own(word, arguments, allow)
    made = WORDS.get(word)
    if made is None:
        raise ValueError(
            f"features must be one of {', '.join([DEFAULT, *WORDS])}, or module:name; got {text!r}"
        )
    _only_known(word, made, arguments)
    found: Features = made(observation_space, actions, sample, **arguments)
    return found


def _one_hot(space: Any, actions: int, sample: Sample) -> Features:
    return OneHot.of(space, actions)


def _linear(space: Any, actions: int, sample: Sample) -> Features:
    scaled = in_range(space, sample())
    return _blocks(scaled, Identity(inputs=scaled.size, constant=True), actions)


def _polynomial(space: Any, actions: int, sample: Sample, degree: int = 2) -> Features:
    scaled = in_range(space, sample())
    return _blocks(scaled, Polynomial(inputs=scaled.size, degree=degree), actions)


def _fourier(
    space: Any,
    actions: int,
    sample: Sample,
    order: int = 3,
    coupled: int = 2,
    terms: int | None = None,
) -> Features:
    scaled = in_range(space, sample())
    cosines = Fourier(inputs=scaled.size, order=order, coupled=coupled, terms=terms)
    return _blocks(scaled, cosines, actions)


def _radial(
    space: Any,
    actions: int,
    sample: Sample,
    components: int = 40,
    bandwidths: Sequence[float] = (0.1, 0.25),
    seed: int = 0,
) -> Features:
    """Draw radial features of bandwidths in shares of the range times √n, n the numbers."""
    scaled = in_range(space, sample())
    given = bandwidths if isinstance(bandwidths, list | tuple) else (bandwidths,)
    widths = tuple(width * scaled.size**0.5 for width in given)
    drawn = Radial.drawn(inputs=scaled.size, components=components, bandwidths=widths, seed=seed)
    constant = Identity(inputs=scaled.size, constant=True)
    return _blocks(scaled, joined(constant, drawn), actions)


WORDS: dict[str, Callable[..., Features]] = {
    "one-hot": _one_hot,
    "linear": _linear,
    "polynomial": _polynomial,
    "fourier": _fourier,
    "radial": _radial,
}


def _blocks(scaled: Basis, shape: Basis, actions: int) -> Features:
    basis = scaled.then(shape)
    return ActionBlocks(basis.then(UnitNorm(inputs=basis.size, bound=basis.norm)), actions=actions)


def _only_known(word: str, made: Callable[..., Features], arguments: dict[str, Any]) -> None:
    known = list(inspect.signature(made).parameters)[3:]
    if unknown := [name for name in arguments if name not in known]:
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        raise ValueError(f"{word} has no argument {unknown[0]!r}; {takes}")


def _own(name: str, arguments: dict[str, Any], allow: Collection[str]) -> Any:
    """Return the object of module:name: a feature map, a function, or a class that makes one."""
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
