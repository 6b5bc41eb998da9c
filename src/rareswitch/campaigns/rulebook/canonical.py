"""One text for one value, and the links of a chain: SHA-256 over that text and the link before."""

import hashlib
import json
from typing import Any

_ENCODER = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
)
GENESIS = "0" * 64  # the link before the first row of a chain


def canonical(value: Any) -> str:
    """Return a value as JSON with sorted keys and without spaces; NaN and infinity are refused.

    >>> canonical({"b": 0.1, "a": [1, True]})
    '{"a":[1,true],"b":0.1}'
    """
    return _ENCODER.encode(value)


def digest_of(data: bytes | str) -> str:
    """Return the SHA-256 of bytes, or of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def linked(previous: str, row: dict[str, Any]) -> str:
    """Return the link of a row: a digest of the row and of the link before.

    >>> linked(GENESIS, {"seq": 1})[:12]
    '0a0089855037'
    """
    return digest_of(previous + canonical(row))
