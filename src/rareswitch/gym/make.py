"""An environment by name: one that is registered with Gymnasium, or `module:Class` of your own."""

from typing import Any

from rareswitch.support.extras import require
from rareswitch.support.imports import load_module


def made(name: str, **arguments: Any) -> Any:
    """Return the environment of that name, made with these arguments.

    `module:Name` imports the module first, from the installed packages or the current folder. Name
    is an environment that the module registers, or a class or function that makes one.
    """
    require("gym")
    import gymnasium

    module, found, attribute = name.partition(":")
    if found:
        own = getattr(load_module(module), attribute, None)
        if callable(own):
            return own(**arguments)
    try:
        return gymnasium.make(name, **arguments)
    except gymnasium.error.Error as error:
        raise ValueError(
            f"world must be an environment registered with Gymnasium, or module:Class; {error}"
        ) from None
