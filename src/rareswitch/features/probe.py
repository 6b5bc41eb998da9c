"""What code does, as a digest: its results on a sample of states, the probe."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

# Results that agree in 30 bits, nine digits, are the same: sines differ between machines in the
# last bits. Below the smallest, what is left of a rounding error has no digits that agree.
BITS = 30
SMALLEST = 1e-12

UNVERIFIED = ", unverified"


def behaviour(results: Iterable[npt.NDArray[Any]]) -> str:
    """Return SHA-256 of results in hexadecimal, the same on every machine.

    >>> third = np.array([1 / 3, 0.0])
    >>> behaviour([third]) == behaviour([third + 1e-16]), behaviour([third]) == behaviour([-third])
    (True, False)
    """
    seen = hashlib.sha256()
    for result in results:
        mantissa, exponent = np.frexp(np.asarray(result, np.float64))
        rounded = np.ldexp(np.rint(mantissa * 2.0**BITS), exponent - BITS)
        rounded = np.where(np.abs(rounded) < SMALLEST, 0.0, rounded)
        seen.update(repr(rounded.shape).encode())
        seen.update(rounded.astype("<f8").tobytes())
    return seen.hexdigest()


def name_of(code: Any) -> str:
    """Return what a function, or an object that is called, goes by."""
    return str(getattr(code, "__name__", type(code).__name__))
