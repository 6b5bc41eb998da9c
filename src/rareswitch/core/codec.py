"""Named arrays and plain values as bytes, and back: exact, versioned, checked, without pickle.

Layout, all integers little-endian:

    10 bytes   b"rareswitch"
     4 bytes   length n of the header
     n bytes   header, JSON in UTF-8: {"format": 1, "kind": …, "meta": {…},
               "arrays": [[name, dtype, shape], …]}
     …         the arrays' values in that order, C order
    32 bytes   SHA-256 of everything before

dtypes are "<f8", "<i8" and "|u1". JSON writes a float as the shortest text that reads back to the
same float, so values survive exactly.
"""

import hashlib
import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

MAGIC = b"rareswitch"
FORMAT = 1
DTYPES = ("<f8", "<i8", "|u1")

Arrays = dict[str, npt.NDArray[Any]]


def pack(kind: str, meta: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of one object; equal contents give equal bytes."""
    listed = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    if unknown := [entry for entry in listed if entry[1] not in DTYPES]:
        raise TypeError(f"arrays must have one of the dtypes {DTYPES}; got {unknown}")
    header = json.dumps(
        {"format": FORMAT, "kind": kind, "meta": meta, "arrays": listed},
        sort_keys=True,
        allow_nan=False,
        separators=(",", ":"),
    ).encode()
    values = (np.ascontiguousarray(array).tobytes() for array in arrays.values())
    body = b"".join([MAGIC, len(header).to_bytes(4, "little"), header, *values])
    return body + hashlib.sha256(body).digest()


def unpack(kind: str, data: bytes) -> tuple[dict[str, Any], Arrays]:
    """Return (meta, arrays) of one packed object of that kind, refusing anything else."""
    if not isinstance(data, bytes):
        raise TypeError(f"data must be bytes; got {type(data).__name__}")
    if not data.startswith(MAGIC):
        raise ValueError(f"data must be the bytes of a rareswitch {kind}; got something else")
    body, checksum = data[:-32], data[-32:]
    if hashlib.sha256(body).digest() != checksum:
        raise ValueError(f"data must be an unaltered {kind}; its checksum does not match")
    start = len(MAGIC) + 4
    stop = start + int.from_bytes(body[start - 4 : start], "little")
    header = json.loads(body[start:stop])
    if header["format"] != FORMAT:
        raise ValueError(
            f"data must be in format {FORMAT}; got format {header['format']}, "
            "written by another version of rareswitch"
        )
    if header["kind"] != kind:
        raise ValueError(f"data must hold a {kind}; got a {header['kind']}")
    arrays: Arrays = {}
    for name, dtype, shape in header["arrays"]:
        array = np.frombuffer(body, dtype=dtype, count=math.prod(shape), offset=stop)
        arrays[name] = array.reshape(shape)
        stop += array.nbytes
    return header["meta"], arrays
