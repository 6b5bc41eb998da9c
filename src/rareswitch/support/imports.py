"""Import the user's own code by name, module:attribute.

A file may name a module, but only a person can allow its import. Every function here takes `allow`,
the names of allowed modules, by default none.
"""

import importlib
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGE = __name__.partition(".")[0]
Builtin = type(len)


class ForbiddenImportError(ValueError):
    """A name refers to a module that is not allowed; nothing was imported."""


def load_object(name: str, *, allow: Collection[str] = (), folders: Sequence[str] = ()) -> Any:
    """Return the object module:attribute, if `allow` has its module.

    The module is installed, or is in the current folder or in one of `folders`. Installed modules
    come first, so no file can replace a library. `sys.path` does not change.

    >>> load_object("math:pi", allow=["math"])
    3.141592653589793
    >>> load_object("math:pi")
    Traceback (most recent call last):
    rareswitch.support.imports.ForbiddenImportError: 'math:pi' names code of the module math, \
which is not allowed; allow it by name: --allow math (in Python: allow=("math",))
    """
    module = load_module(name, allow=allow, folders=folders)
    wanted = name.partition(":")[2]
    try:
        return getattr(module, wanted)
    except AttributeError:
        from rareswitch.support.arguments import did_you_mean  # NumPy only after an error

        meant = did_you_mean(wanted, dir(module))
        raise ValueError(
            f"{name!r} cannot be imported (module {module.__name__} has no {wanted or 'name'!r})"
            f"{meant}"
        ) from None


def load_module(name: str, *, allow: Collection[str] = (), folders: Sequence[str] = ()) -> Any:
    """Import the module of a name module:attribute, like `load_object`."""
    module = module_of(name)
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"{module!r} cannot be imported (a module is named as in Python)")
    if not is_allowed(module, allow):
        raise ForbiddenImportError(
            f"{name!r} names code of the module {module}, which is not allowed; allow it by name: "
            f'--allow {module} (in Python: allow=("{module}",))'
        )
    before = list(sys.path)
    sys.path += [str(Path.cwd()), *folders]
    try:
        return importlib.import_module(module)
    except (ImportError, ValueError, TypeError) as error:
        raise ValueError(f"{module!r} cannot be imported ({error})") from None
    finally:
        sys.path[:] = before


def module_of(name: str) -> str:
    """Return the module of a name module:attribute."""
    return name.partition(":")[0]


def is_allowed(module: str, allow: Collection[str]) -> bool:
    """Return whether a module or a package that contains it is allowed.

    >>> is_allowed("my_rules.weekly", ["my_rules"]), is_allowed("my_rules", ["my_rules.weekly"])
    (True, False)
    """
    allowed = allowed_modules(allow)
    parts = module.split(".")
    return any(".".join(parts[:length]) in allowed for length in range(1, len(parts) + 1))


def allowed_modules(allow: Collection[str]) -> frozenset[str]:
    """Return `allow` as a set; a single string is an error."""
    if isinstance(allow, str) or not all(isinstance(name, str) for name in allow):
        raise TypeError(f"allow must be a collection of module names; got {allow!r}")
    return frozenset(allow)


def has_method(cls: type[Any], name: str) -> bool:
    """Return whether the objects of a class have a method; its metaclass does not count.

    >>> has_method(dict, "__iter__"), has_method(dict, "__call__")
    (True, False)
    """
    return callable(getattr(cls, name, None)) and any(name in vars(base) for base in cls.__mro__)


def checked_maker(name: str, found: Any, methods: tuple[str, ...]) -> Any:
    """Return a user's own function, or a class whose objects have these methods.

    Anything else is an error before a call: built-in functions, and functions of this package,
    which data could call with their own `allow`.
    """
    if isinstance(found, type):
        right = all(has_method(found, method) for method in methods)
    else:
        ours = str(getattr(found, "__module__", "")).partition(".")[0] == PACKAGE
        right = callable(found) and not isinstance(found, Builtin) and not ours
    if not right:
        raise ValueError(
            f"{name!r} must be a function of your own, or a class with {' and '.join(methods)}; it "
            f"is {found!r}"
        )
    return found


@contextmanager
def modules_here() -> Iterator[None]:
    """Find modules in the current folder too, after all others.

    So a user's own module may import its neighbours at any time, also in worker processes, and no
    file in the folder can replace a library.
    """
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)
