"""One text for one value: what is hashed is the same bytes wherever and whenever it is written."""

import hashlib
import json
from typing import Any

import orjson

_ENCODER = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
)
GENESIS = "0" * 64  # what the first row of a chain is linked to


def canonical(value: Any) -> str:
    """Return a value as JSON with sorted keys and without spaces; NaN and infinities are refused.

    >>> canonical({"b": 0.1, "a": [1, True]})
    '{"a":[1,true],"b":0.1}'
    """
    return _ENCODER.encode(value)


def digest_of(data: bytes | str) -> str:
    """Return the SHA-256 of bytes, or of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def canonical_row(row: dict[str, Any]) -> bytes:
    """Return the canonical text of a row in UTF-8, sooner; no float may be inside a value of it.

    orjson writes exponents otherwise than Python does: rows that need one are left to Python.

    >>> canonical_row({"b": 0.1, "a": "é"}).decode(), canonical_row({"b": 1e-7}).decode()
    ('{"a":"é","b":0.1}', '{"b":1e-07}')
    """
    for value in row.values():
        if type(value) is float and value and not 1e-4 <= value < 1e16:
            return canonical(row).encode()
    try:
        return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # of what Python can write nevertheless, such as numbers of many digits
        return canonical(row).encode()


def linked(previous: str, row: dict[str, Any]) -> str:
    """Return the link of a row of a chain: a digest of all that is in it and of the link before.

    >>> linked(GENESIS, {"seq": 1})[:12]
    '0a0089855037'
    """
    return digest_of(previous.encode() + canonical_row(row))
