"""Bytes, digests and equality of feature maps.

A packed value is a frozen dataclass of numbers, texts, arrays and other packed values. A map that
runs code of the user has a digest and no bytes.
"""

from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.support import codec

CONTENTS = "features"
# The reference to an array in a header, and its dtype.
DTYPES = {"array": "<f8", "whole": "<i8", "truths": "|u1"}
# The classes of this package by their kind; bytes cannot name other classes.
KINDS: dict[str, "type[Packed]"] = {}


class Packed:
    """A value with bytes and a digest; equal digests mean equal bytes."""

    # The name in bytes; a user's class has no name.
    kind: ClassVar[str] = ""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if cls.__module__.startswith(f"{__package__}.") and "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @property
    def built_in(self) -> bool:
        """Whether the class belongs to this package."""
        return KINDS.get(self.kind) is type(self)

    def described(self, arrays: codec.Arrays) -> dict[str, Any]:
        """Return kind and fields as plain values; put arrays into `arrays`."""
        own = f"{type(self).__module__}:{type(self).__qualname__}"
        plain = {name: _plain(value, arrays) for name, value in self._fields().items()}
        return {"kind": self.kind if self.built_in else own, **plain}

    @property
    def code(self) -> str | None:
        """The name of the first part that is code of the user, or None if all parts are data."""
        if not self.built_in:
            return type(self).__name__
        return next(filter(None, map(_code_of, self._fields().values())), None)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `to_bytes()`, in hexadecimal.

        The digest of code of the user covers its name, its sizes and its results on the probe.
        """
        return codec.digest(CONTENTS, *self._contents())

    def to_bytes(self) -> bytes:
        """Return the bytes in the format of `support/codec.py`."""
        if self.code is not None:
            raise TypeError(
                f"{self.code} is code of your own, which has no bytes; keep the code, and compare "
                "digests to check that its results are the same"
            )
        return codec.pack(CONTENTS, *self._contents())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the value that `to_bytes` wrote; raise ValueError for altered bytes."""
        parts = codec.unpack(CONTENTS, data)
        parts.only(meta=("described",), arrays=tuple(parts.arrays))
        used: list[str] = []
        with parts.reading():
            made = _made(parts.meta["described"], parts, used)
            if not isinstance(made, Packed) or made.code is not None:
                raise ValueError("it describes no feature map, basis or space")
            if sorted(used) != sorted(parts.arrays):
                raise ValueError("its arrays are not those that it describes")
        if not isinstance(made, cls):
            raise ValueError(f"data must hold a {cls.__name__}; got a {type(made).__name__}")
        return made

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.digest == getattr(other, "digest", None)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and unpickle through the constructor, so that copies are frozen too."""
        return _constructed, (type(self), self._fields())

    def _fields(self) -> dict[str, Any]:
        if not is_dataclass(self):
            return {}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}

    def _contents(self) -> tuple[dict[str, Any], codec.Arrays]:
        arrays: codec.Arrays = {}
        return {"described": self.described(arrays)}, arrays


def _constructed(cls: type[Any], values: dict[str, Any]) -> Any:
    return cls(**values)


def _plain(value: Any, arrays: codec.Arrays) -> Any:
    """Return a field for JSON: a plain value, a description, or a reference to an array."""
    if isinstance(value, Packed):
        return value.described(arrays)
    if isinstance(value, tuple):
        return [_plain(part, arrays) for part in value]
    if isinstance(value, np.ndarray):
        place = str(len(arrays))
        arrays[place] = value.view(np.uint8) if value.dtype == np.bool else value
        tags = {dtype: tag for tag, dtype in DTYPES.items()}
        return {tags.get(arrays[place].dtype.str, "array"): place}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "digest"):
        return {"kind": type(value).__qualname__, "digest": value.digest}
    raise TypeError(
        f"a field of a feature map must be a number, text, an array or another map to have a "
        f"digest; got {type(value).__name__}"
    )


def _made(plain: Any, parts: codec.Parts, used: list[str]) -> Any:
    """Return the described value: a plain value, an array, a tuple of them, or a packed value."""
    if isinstance(plain, list):
        return tuple(_made(part, parts, used) for part in plain)
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1 and (tag := next(iter(plain))) in DTYPES:
        used.append(place := plain[tag])
        held = parts.arrays[place]
        array = parts.array(place, DTYPES[tag], ("n",) * held.ndim)
        return array.astype(np.bool) if tag == "truths" and array.max(initial=0) <= 1 else array
    values = dict(plain)
    cls = KINDS[values.pop("kind")]
    return cls(**{name: _made(value, parts, used) for name, value in values.items()})


def _code_of(value: Any) -> str | None:
    if isinstance(value, Packed):
        return value.code
    if isinstance(value, tuple):
        return next(filter(None, map(_code_of, value)), None)
    if value is None or isinstance(value, bool | int | float | str | np.ndarray):
        return None
    return str(getattr(value, "name", type(value).__name__))
