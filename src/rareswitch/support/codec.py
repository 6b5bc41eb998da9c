"""Pack named arrays and plain values into bytes: exact, versioned, checked, without pickle.

Layout, all integers little-endian:

    10 bytes   b"rareswitch"
     4 bytes   length n of the header
     n bytes   header, JSON in UTF-8: {"format": 1, "kind": …, "meta": {…},
               "arrays": [[name, dtype, shape], …]}
     …         the arrays' values in that order, C order
    32 bytes   SHA-256 of everything before

dtypes are "<f8", "<i8" and "|u1". JSON writes a float as the shortest text that reads back to the
same float, so values are exact. The checksum detects damage but no manipulation: the header is
checked against the data before any object is made.
"""

import hashlib
import json
import math
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

MAGIC = b"rareswitch"
FORMAT = 1
DTYPES = ("<f8", "<i8", "|u1")
SMALL = 2**16  # up to this many bytes, copying is faster than a memory view

Arrays = dict[str, npt.NDArray[Any]]
Buffer = bytes | memoryview
Listed = tuple[tuple[str, str, tuple[int, ...]], ...]  # name, dtype and shape of each array


class _Announced(NamedTuple):
    """An array in a header, with its beginning and length in bytes."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    length: int


@dataclass(frozen=True)
class Parts:
    """Unpacked plain values and read-only arrays, by name."""

    kind: str
    meta: dict[str, Any]
    arrays: Arrays

    def only(
        self,
        *,
        meta: tuple[str, ...],
        arrays: tuple[str, ...],
        optional_meta: tuple[str, ...] = (),
        optional: tuple[str, ...] = (),
    ) -> None:
        """Raise an error if a name is missing or unknown."""
        _check_names(self.kind, tuple(self.meta), meta, optional_meta)
        _check_names(self.kind, tuple(self.arrays), arrays, optional)

    def array(self, name: str, dtype: str, shape: tuple[int | str, ...]) -> npt.NDArray[Any]:
        """Return one array of that dtype and shape; a str in shape means any size."""
        array = self.arrays.get(name)
        if array is None:
            raise ValueError(f"data must be a {self.kind}; it has no {name}")
        fits = array.ndim == len(shape) and all(
            isinstance(want, str) or have == want
            for have, want in zip(array.shape, shape, strict=True)
        )
        if not fits or array.dtype.str != dtype:
            raise ValueError(
                f"data must be a {self.kind} whose {name} is {dtype} of shape {shape}; got "
                f"{array.dtype.str} of shape {array.shape}"
            )
        if dtype == "<f8" and not np.isfinite(array).all():
            raise ValueError(f"data must be a {self.kind} of finite numbers; {name} is not finite")
        return array

    def inside(self, folder: str) -> "Parts":
        """Return the arrays whose names begin with a folder, without this prefix."""
        prefix = f"{folder}/"
        inside = {name: array for name, array in self.arrays.items() if name.startswith(prefix)}
        return Parts(
            self.kind,
            self.meta,
            {name.removeprefix(prefix): array for name, array in inside.items()},
        )

    def reading(self) -> "_Reading":
        """Convert a constructor's error into a ValueError about the data."""
        return _Reading(self.kind)


@lru_cache
def _check_names(
    kind: str, found: tuple[str, ...], needed: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    """Raise an error if a name is missing or unknown; cached, because a log repeats names."""
    if missing := [name for name in needed if name not in found]:
        raise ValueError(f"data must be a {kind}; it has no {missing[0]}")
    if unknown := [name for name in found if name not in (*needed, *allowed)]:
        raise ValueError(f"data must be a {kind}; it has an unknown {unknown[0]}")


class _Reading:
    """A context in which errors become errors about data of some kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, TypeError | ValueError | KeyError | RecursionError | OverflowError):
            said = repr(error) if isinstance(error, KeyError) else str(error)
            raise ValueError(f"data must be a {self._kind}; {said}") from None


def pack(kind: str, meta: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of one object; equal contents give equal bytes."""
    parts = _body(kind, meta, arrays)
    return b"".join([*parts, _hashed(parts).digest()])


def digest(kind: str, meta: dict[str, Any], arrays: Arrays) -> str:
    """Return the SHA-256 of the result of `pack` in hexadecimal, without making the bytes."""
    hashed = _hashed(_body(kind, meta, arrays))
    hashed.update(hashed.digest())
    return hashed.hexdigest()


def _hashed(parts: list[Buffer]) -> Any:
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part)
    return hashed


def _body(kind: str, meta: dict[str, Any], arrays: Arrays) -> list[Buffer]:
    """Return all but the checksum, in pieces."""
    listed = tuple([(name, array.dtype.str, array.shape) for name, array in arrays.items()])
    start = _beginning(kind, meta, listed) if meta else _beginning_without_meta(kind, listed)
    return [start, *map(_values, arrays.values())]


def _values(array: npt.NDArray[Any]) -> Buffer:
    if array.nbytes < SMALL:
        return array.tobytes()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data  # without a copy


@lru_cache
def _beginning_without_meta(kind: str, listed: Listed) -> bytes:
    """Return the header without plain values; cached, because a log repeats shapes."""
    return _beginning(kind, {}, listed)


def _beginning(kind: str, meta: dict[str, Any], listed: Listed) -> bytes:
    """Return the bytes before the arrays."""
    if unknown := [entry for entry in listed if entry[1] not in DTYPES]:
        raise TypeError(f"arrays must have one of the dtypes {DTYPES}; got {unknown}")
    header = json.dumps(
        {"format": FORMAT, "kind": kind, "meta": meta, "arrays": listed},
        sort_keys=True,
        allow_nan=False,
        separators=(",", ":"),
    ).encode()
    return MAGIC + len(header).to_bytes(4, "little") + header


def unpack(kind: str, data: bytes) -> Parts:
    """Return the parts of one packed object of that kind, or raise an error."""
    if not isinstance(data, bytes):
        raise TypeError(f"data must be bytes; got {type(data).__name__}")
    if not data.startswith(MAGIC):
        raise ValueError(f"data must be the bytes of a rareswitch {kind}; got something else")
    body = memoryview(data)[:-32]
    if hashlib.sha256(body).digest() != data[-32:]:
        raise ValueError(f"data must be an unaltered {kind}; its checksum does not match")
    start = len(MAGIC) + 4
    stop = start + int.from_bytes(body[start - 4 : start], "little")
    meta, listed, size = _read_header(kind, bytes(body[start:stop]))
    if stop + size != len(body):
        raise ValueError(f"data must be a {kind}; its arrays are longer or shorter than the data")
    # A copy: BLAS may round differently on an unaligned buffer.
    values = np.frombuffer(body[stop:], np.uint8).copy()
    values.flags.writeable = False
    arrays: Arrays = {}
    for name, dtype, shape, begin, length in listed:
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, values, begin)
        if length and begin % dtype.itemsize:  # not aligned
            array = array.copy()
            array.flags.writeable = False
        arrays[name] = array
    return Parts(kind, deepcopy(meta) if meta else {}, arrays)  # the header is cached


@lru_cache
def _read_header(kind: str, text: bytes) -> tuple[dict[str, Any], tuple[_Announced, ...], int]:
    """Return the plain values and arrays in a header, and the total number of bytes."""
    try:
        header = json.loads(text)
        written, found, meta, listed = (header[k] for k in ("format", "kind", "meta", "arrays"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"data must be a {kind}; its header cannot be read ({error!r})") from None
    if written != FORMAT or isinstance(written, bool):
        raise ValueError(
            f"data must be in format {FORMAT}; got format {written!r}, "
            "written by another version of rareswitch"
        )
    if found != kind:
        raise ValueError(f"data must hold {_a(kind)}; got {_a(str(found))}")
    if not isinstance(meta, dict) or not isinstance(listed, list):
        raise ValueError(f"data must be a {kind}; its header is invalid")
    announced: list[_Announced] = []
    size = 0
    for entry in listed:
        announced.append(_announced(kind, entry, begin=size))
        size += announced[-1].length
    if len({one.name for one in announced}) < len(announced):
        raise ValueError(f"data must be a {kind}; an array is in its header twice")
    return meta, tuple(announced), size


def _announced(kind: str, entry: Any, *, begin: int) -> _Announced:
    """Return one entry of the header's list of arrays, or raise an error."""
    if isinstance(entry, list) and len(entry) == 3:
        name, dtype, shape = entry
        sizes = isinstance(shape, list) and len(shape) <= 8
        if isinstance(name, str) and dtype in DTYPES and sizes:
            plain = all(isinstance(n, int) and not isinstance(n, bool) for n in shape)
            if plain and min(shape, default=0) >= 0 and math.prod(max(n, 1) for n in shape) < 2**48:
                length = math.prod(shape) * np.dtype(dtype).itemsize
                return _Announced(name, np.dtype(dtype), tuple(shape), begin, length)
    raise ValueError(f"data must be a {kind}; its header has the invalid array {str(entry)[:80]!r}")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"
