"""An environment by name: one that is registered with Gymnasium, or `module:Class` of your own."""

from collections.abc import Collection, Mapping
from typing import Any

from rareswitch.support.arguments import short_repr
from rareswitch.support.extras import require
from rareswitch.support.imports import checked_maker, load_module


def made(
    name: str, arguments: Mapping[str, Any] | None = None, *, allow: Collection[str] = ()
) -> Any:
    """Return the environment of that name, made with these arguments.

    `module:Name` imports the module first, from the installed packages or the current folder, if
    `allow` has it. Name is an environment that the module registers, or a class or function that
    makes one.
    """
    require("gym")
    import gymnasium

    if not isinstance(name, str):
        raise TypeError(f"world must be the name of an environment; got {short_repr(name)}")
    given = dict(arguments or {})
    if ":" in name:  # Gymnasium would import the module, whoever wrote the name
        own = getattr(load_module(name, allow=allow), name.partition(":")[2], None)
        if callable(own):
            return checked_maker(name, own, ("reset", "step"))(**given)
    try:
        return gymnasium.make(name, **given)
    except gymnasium.error.Error as error:
        raise ValueError(
            f"world must be an environment registered with Gymnasium, or module:Class; {error}"
        ) from None
