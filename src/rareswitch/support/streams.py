"""Independent random streams for each purpose and round.

A seed is a whole number, or (root, round). Streams do not depend on worker, arm or chunk, so all
algorithms of a round share their world and its noise, and results do not depend on the split of the
work.
"""

import hashlib
import threading
from enum import IntEnum
from typing import Any

import numpy as np

from rareswitch.support.arguments import NOT_NUMBERS, short_repr, whole

Seed = int | tuple[int, int]


LARGEST_SEED = 2**128 - 1  # the largest default seed of NumPy


class Stream(IntEnum):
    """The purpose of a stream. The values are part of every recorded seed: never renumber."""

    INSTANCE = 0
    NOISE = 1
    TIES = 2
    BOOTSTRAP = 3
    INITIAL = 4
    CORRUPTION = 5
    PERTURBATION = 6
    ALLOCATION = 7
    FEATURES = 8
    ENVIRONMENT = 9
    EVALUATION = 10
    CAMPAIGN = 11


def checked_seed(seed: Seed) -> Seed:
    """Return a seed as plain ints."""
    if not isinstance(seed, tuple | list):
        return whole("seed", seed, least=0, most=LARGEST_SEED)
    if len(seed) != 2:
        raise ValueError(f"seed must be a whole number or (root, round); got {seed}")
    return whole("seed", seed[0], least=0, most=LARGEST_SEED), whole("round", seed[1], least=0)


def generator(seed: Seed, stream: Stream) -> np.random.Generator:
    """Return the generator of one stream of one round."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, stream)))


class KeyedStream(threading.local):
    """A stream with its own position for every version, on which alone the numbers depend.

    The counter of Philox is the position: adjacent versions are 2¹²⁸ numbers apart. Each thread has
    its own generator, so threads may share a stream.
    """

    def __init__(self, seed: Seed, stream: Stream) -> None:
        self._made_of = seed, stream
        key = _sequence(seed, stream).generate_state(2, np.uint64)
        self._bits = np.random.Philox(key=key)
        self._start = self._bits.state
        self._counter = self._start["state"]["counter"]
        self._generator = np.random.Generator(self._bits)

    def at(self, version: int) -> np.random.Generator:
        """Return the stream's generator at the beginning of a version's numbers."""
        self._counter[2] = version
        self._bits.state = self._start
        return self._generator

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyedStream, self._made_of


def _sequence(seed: Seed, stream: Stream) -> np.random.SeedSequence:
    seed = checked_seed(seed)
    root, round_ = seed if isinstance(seed, tuple) else (seed, 0)
    return np.random.SeedSequence(root, spawn_key=(int(stream), round_))


def keyed_hash(name: str, key: Any, *, size: int = 8, person: bytes = b"") -> int:
    """Return the hash of a name and an episode's key, an integer of `size` bytes.

    A key is a string or an integer; 7 and "7" are the same key.
    """
    if isinstance(key, str):
        if not key:
            raise ValueError("key must name the episode; got an empty text")
        text = str.__str__(key)  # a subclass may print another text
    elif isinstance(key, int | np.integer) and not isinstance(key, NOT_NUMBERS):
        text = str(whole("key", key, least=0, most=LARGEST_SEED))
    else:
        raise TypeError(
            f"key must be a text or a whole number; got {short_repr(key)}: use str(key)"
        )
    data = f"{name}/{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=size, person=person).digest(), "big")
