"""A rule as Python code to paste, with rareswitch imported as rs."""

from dataclasses import fields, is_dataclass
from typing import Any

import rareswitch


def expression(thing: Any) -> str:
    """Return the code that makes a rule or an exploration.

    >>> from rareswitch.core.schedule import DeterminantGrowth
    >>> expression(DeterminantGrowth(eta=2.0))
    'rs.DeterminantGrowth(eta=2.0)'
    """
    name = type(thing).__name__
    if is_dataclass(thing):
        arguments = ((field.name, getattr(thing, field.name)) for field in fields(thing))
        said = ", ".join(f"{key}={expression(value)}" for key, value in arguments)
        return f"{'rs.' if _at_top(type(thing)) else ''}{name}({said})"
    text = repr(thing)
    return f"{name}(…)" if text.startswith("<") else text  # its arguments are not known


def imports(thing: Any) -> set[str]:
    """Return the lines that import what its `expression` names beside rs."""
    parts = [getattr(thing, field.name) for field in fields(thing)] if is_dataclass(thing) else []
    lines = {line for part in parts for line in imports(part)}
    cls = type(thing)
    if not _at_top(cls) and cls.__module__ not in ("builtins", "__main__"):
        lines.add(f"from {cls.__module__} import {cls.__name__}")
    return lines


def _at_top(cls: type[Any]) -> bool:
    return getattr(rareswitch, cls.__name__, None) is cls
