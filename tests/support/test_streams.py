import numpy as np
import pytest

from rareswitch.support.streams import KeyedStream, Stream, checked_seed, generator


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
        "ALLOCATION": 7,
        "FEATURES": 8,
        "ENVIRONMENT": 9,
        "EVALUATION": 10,
        "CAMPAIGN": 11,
    }


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (-1, ValueError, "seed must be at least 0; got -1"),
        ((1, -2), ValueError, "round must be at least 0; got -2"),
        (1.5, TypeError, "seed must be a whole number"),
        (None, TypeError, "seed must be a whole number"),
        ((1, "a"), TypeError, "round must be a whole number"),
        ((1, 2, 3), ValueError, r"seed must be a whole number or \(root, round\); got \(1, 2, 3\)"),
        (True, TypeError, "seed must be a whole number"),
        (2**128, ValueError, f"seed must be from 0 to {2**128 - 1}; got"),
        pytest.param(10**5000, ValueError, "got a number of thousands of digits", id="5001 digits"),
    ],
)
def test_a_bad_seed_is_refused(seed, error, message):
    with pytest.raises(error, match=message):
        generator(seed, Stream.NOISE)


def test_a_seed_becomes_plain_ints():
    assert checked_seed([np.int64(3), np.uint8(2)]) == (3, 2)
    assert [type(part) for part in checked_seed((np.int32(3), 2))] == [int, int]
    assert type(checked_seed(np.int16(4))) is int
    assert checked_seed(2**128 - 1) == 2**128 - 1


def test_a_version_has_its_own_place_whatever_was_drawn_before():
    def at(stream, version):
        return stream.at(version).standard_normal(7).tolist()

    stream = KeyedStream((4, 2), Stream.TIES)
    first = {version: at(stream, version) for version in range(6)}
    assert len({tuple(numbers) for numbers in first.values()}) == 6
    stream.at(1).random(3, np.float32)  # leaves half a draw behind
    for version in (5, 0, 3, 3):
        assert at(stream, version) == first[version]
        assert at(KeyedStream((4, 2), Stream.TIES), version) == first[version]
    for other in (KeyedStream((4, 3), Stream.TIES), KeyedStream((4, 2), Stream.PERTURBATION)):
        assert at(other, 3) != first[3]


def test_versions_are_too_far_apart_to_meet():
    stream = KeyedStream(1, Stream.TIES)
    many = stream.at(1).bit_generator.random_raw(10_000)
    assert not np.isin(stream.at(2).bit_generator.random_raw(10_000), many).any()
    sequence = np.random.SeedSequence(1, spawn_key=(2, 0))
    expected = np.random.Philox(
        counter=[0, 0, 2, 0], key=sequence.generate_state(2, np.uint64)
    ).random_raw(9)
    assert stream.at(2).bit_generator.random_raw(9).tolist() == expected.tolist()
