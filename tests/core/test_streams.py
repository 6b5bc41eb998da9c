import numpy as np
import pytest

from rareswitch.core.streams import Stream, generator


def draw(seed, stream):
    return generator(seed, stream).random(4).tolist()


def test_a_stream_is_the_documented_seed_sequence():
    sequence = np.random.SeedSequence(12, spawn_key=(2, 7))
    expected = np.random.Generator(np.random.PCG64(sequence)).random(4)
    assert draw((12, 7), Stream.TIES) == expected.tolist()


def test_a_whole_seed_is_round_zero():
    assert draw(5, Stream.NOISE) == draw((5, 0), Stream.NOISE)


def test_every_root_round_and_stream_is_its_own():
    draws = {
        tuple(draw((root, round_), stream))
        for root in range(3)
        for round_ in range(3)
        for stream in Stream
    }
    assert len(draws) == 3 * 3 * len(Stream)


def test_stream_numbers_never_change():
    assert {stream.name: stream.value for stream in Stream} == {
        "INSTANCE": 0,
        "NOISE": 1,
        "TIES": 2,
        "BOOTSTRAP": 3,
        "INITIAL": 4,
        "CORRUPTION": 5,
        "PERTURBATION": 6,
    }


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (-1, ValueError, "seed must be at least 0; got -1"),
        ((1, -2), ValueError, "round must be at least 0; got -2"),
        (1.5, TypeError, "seed must be a whole number"),
        (None, TypeError, "seed must be a whole number"),
        ((1, "a"), TypeError, "round must be a whole number"),
    ],
)
def test_a_bad_seed_is_refused(seed, error, message):
    with pytest.raises(error, match=message):
        generator(seed, Stream.NOISE)
