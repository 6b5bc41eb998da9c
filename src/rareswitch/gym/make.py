"""An environment by name: one that is registered with Gymnasium, or `module:Class` of your own."""

from importlib import import_module
from typing import Any

from rareswitch.extras import require


def made(name: str, **arguments: Any) -> Any:
    """Return the environment of that name, made with these arguments.

    `module:Name` imports the module first: Name is then one that it registers, or a class or
    function in it that makes the environment.
    """
    require("gym")
    import gymnasium

    module, found, attribute = name.partition(":")
    if found:
        own = getattr(import_module(module), attribute, None)
        if callable(own):
            return own(**arguments)
    try:
        return gymnasium.make(name, **arguments)
    except gymnasium.error.Error as error:
        raise ValueError(
            f"world must be an environment registered with Gymnasium, or module:Class; {error}"
        ) from None
