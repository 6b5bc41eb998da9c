"""Objects of the user's own by name, module:attribute."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def load_object(name: str, folders: Sequence[str] = ()) -> Any:
    """Return the object that module:attribute names.

    The module is installed, or lies in the current folder or in one of `folders`. `sys.path` is the
    same afterwards.

    >>> load_object("math:pi")
    3.141592653589793
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(load_module(module, folders), attribute)
    except AttributeError as error:
        raise ValueError(f"{name!r} cannot be imported ({error})") from None


def load_module(name: str, folders: Sequence[str] = ()) -> Any:
    """Return a module, from where `load_object` looks."""
    before = list(sys.path)
    sys.path[:0] = [str(Path.cwd()), *folders]
    try:
        return importlib.import_module(name)
    except (ImportError, ValueError, TypeError) as error:
        raise ValueError(f"{name!r} cannot be imported ({error})") from None
    finally:
        sys.path[:] = before


@contextmanager
def modules_here() -> Iterator[None]:
    """Find modules in the current folder too, after all others.

    So a module of the user's own may import its neighbours whenever it runs, also in worker
    processes, and no file in the folder takes the place of a library.
    """
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)
