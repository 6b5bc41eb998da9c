"""Which member of a mixture plays an episode: random to anyone who looks, the same everywhere.

A mixture carries a number drawn for its version, its `allocation`. The member of an episode is a
hash of that number and of the episode's key, so actors that share no state agree on it, before or
after the fact and on any machine, and every version allocates anew.
"""

import hashlib
from typing import Any

import numpy as np

from rareswitch.core.arguments import NOT_NUMBERS, shown, whole
from rareswitch.core.streams import LARGEST_SEED

# What an allocation is drawn from: 0 … 2⁶³−1.
ALLOCATIONS = 2**63


def member_of(allocation: int, key: str | int, members: int) -> int:
    """Return the member, from 0 to members − 1, that plays the episode of that key.

    7 and "7" are the same key. Of many keys every member gets the same share.

    >>> [member_of(2026, patient, 4) for patient in ("ada", "ben", 3, "3")]
    [2, 1, 0, 0]
    """
    text = f"{allocation}/{_text(key)}".encode("utf-8", "surrogatepass")
    named = hashlib.blake2b(text, digest_size=8).digest()
    return int.from_bytes(named, "big") * members >> 64


def _text(key: Any) -> str:
    if isinstance(key, str):
        if not key:
            raise ValueError("key must name the episode; got an empty text")
        return str.__str__(key)  # of a subclass, the text that it equals
    if not isinstance(key, int | np.integer) or isinstance(key, NOT_NUMBERS):
        raise TypeError(
            f"key must be a text or a whole number, str(key) if it is neither; got {shown(key)}"
        )
    return str(whole("key", key, least=0, most=LARGEST_SEED))
