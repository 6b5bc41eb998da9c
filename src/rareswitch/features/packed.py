"""Feature maps as plain values and arrays: their bytes, their digest, their equality.

What is packed is a frozen dataclass of numbers, words, arrays and others of its kind. Code is not:
a map that runs a function of the user's own has a digest, but no bytes.
"""

from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.support import codec

CONTENTS = "features"


class Packed:
    """A value that says what it is in bytes; equal digests are equal bytes."""

    # What bytes call it; a class of the user's own has no such name.
    kind: ClassVar[str] = ""

    def described(self, arrays: codec.Arrays) -> dict[str, Any]:
        """Return its kind and fields as plain values; arrays are put into `arrays`."""
        own = f"{type(self).__module__}:{type(self).__qualname__}"
        plain = {name: _plain(value, arrays) for name, value in self._fields().items()}
        return {"kind": self.kind or own, **plain}

    @property
    def code(self) -> str | None:
        """The name of the first part that is code of the user's own; None if all is data."""
        if not self.kind:
            return type(self).__name__
        return next(filter(None, map(_code_of, self._fields().values())), None)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `to_bytes()`, in hexadecimal.

        Code has no bytes: it counts with its name, its sizes and what it does on its probe.
        """
        return codec.digest(CONTENTS, *self._contents())

    def to_bytes(self) -> bytes:
        """Return it in the format of `support/codec.py`."""
        if self.code is not None:
            raise TypeError(
                f"{self.code} is code of your own, which has no bytes; keep the code, and compare "
                "digests to see that it does what it did"
            )
        return codec.pack(CONTENTS, *self._contents())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return what `to_bytes` wrote; bytes that were altered are refused."""
        from rareswitch.features.kinds import rebuilt  # which knows every class made of this one

        made = rebuilt(data)
        if not isinstance(made, cls):
            raise ValueError(f"data must hold a {cls.__name__}; got a {type(made).__name__}")
        return made

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.digest == getattr(other, "digest", None)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and unpickle through the constructor, so that copies are frozen too."""
        return _made, (type(self), self._fields())

    def _fields(self) -> dict[str, Any]:
        if not is_dataclass(self):
            return {}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}

    def _contents(self) -> tuple[dict[str, Any], codec.Arrays]:
        arrays: codec.Arrays = {}
        return {"described": self.described(arrays)}, arrays


def _made(cls: type[Any], values: dict[str, Any]) -> Any:
    return cls(**values)


def _plain(value: Any, arrays: codec.Arrays) -> Any:
    """Return what JSON can hold of a field: itself, its description, or where its array is."""
    if isinstance(value, Packed):
        return value.described(arrays)
    if isinstance(value, tuple):
        return [_plain(part, arrays) for part in value]
    if isinstance(value, np.ndarray):
        place = str(len(arrays))
        truths = value.dtype == np.bool
        arrays[place] = value.view(np.uint8) if truths else value
        return {"truths" if truths else "array": place}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "digest"):
        return {"kind": type(value).__qualname__, "digest": value.digest}
    raise TypeError(
        f"a field of a feature map must be a number, text, an array or another map to have a "
        f"digest; got {type(value).__name__}"
    )


def _code_of(value: Any) -> str | None:
    if isinstance(value, Packed):
        return value.code
    if isinstance(value, tuple):
        return next(filter(None, map(_code_of, value)), None)
    if value is None or isinstance(value, bool | int | float | str | np.ndarray):
        return None
    return str(getattr(value, "name", type(value).__name__))
