import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.support import codec

META = {"beta": 0.1, "tiny": 5e-324, "third": 1 / 3, "big": 2**127, "none": None, "yes": True}
ARRAYS = {
    "x": np.array([[0.1, -0.0, 1e308], [5e-324, np.pi, -1.0]]),
    "empty": np.zeros((0, 3)),
    "n": np.array([1, -(2**62)], np.int64),
    "raw": np.frombuffer(b"\x00\xff", np.uint8),
}
PACKED = codec.pack("thing", META, ARRAYS)


def resealed(body):
    return body + hashlib.sha256(body).digest()


def test_contents_survive_exactly():
    parts = codec.unpack("thing", PACKED)
    meta, arrays = parts.meta, parts.arrays
    assert meta == META
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("length", range(8))
def test_arrays_lie_in_memory_as_any_other_and_are_read_only(length):
    packed = codec.pack("thing", {"any": "x" * length}, ARRAYS)
    for array in codec.unpack("thing", packed).arrays.values():
        assert array.flags.aligned
        assert array.flags.c_contiguous
        assert not array.flags.writeable


@pytest.mark.parametrize("length", [1, 3, 8])
def test_so_do_numbers_that_come_after_bytes(length):
    arrays = {"raw": np.zeros(length, np.uint8), "x": ARRAYS["x"]}
    found = codec.unpack("thing", codec.pack("thing", {}, arrays)).arrays["x"]
    assert found.flags.aligned
    assert not found.flags.writeable
    assert found.tobytes() == ARRAYS["x"].tobytes()


def test_equal_contents_give_equal_bytes():
    arrays = {name: np.asfortranarray(array) for name, array in ARRAYS.items()}
    assert codec.pack("thing", dict(reversed(META.items())), arrays) == PACKED


def test_the_layout_is_the_documented_one():
    assert PACKED.startswith(b"rareswitch")
    length = int.from_bytes(PACKED[10:14], "little")
    header = json.loads(PACKED[14 : 14 + length])
    assert header["format"] == 1
    assert header["kind"] == "thing"
    assert header["arrays"][0] == ["x", "<f8", [2, 3]]
    assert PACKED[14 + length :][:48] == ARRAYS["x"].tobytes()
    assert PACKED[-32:] == hashlib.sha256(PACKED[:-32]).digest()


@pytest.mark.parametrize("dtype", [np.float32, np.int32, complex, object, ">f8"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(TypeError, match="arrays must have one of the dtypes"):
        codec.pack("thing", {}, {"x": np.zeros(2, dtype)})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_json_cannot_hold_are_refused(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        codec.pack("thing", {"x": value}, {})


@given(st.integers(0, 8 * len(PACKED) - 1))
def test_any_flipped_bit_is_refused(bit):
    altered = bytearray(PACKED)
    altered[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ValueError, match="data must be"):
        codec.unpack("thing", bytes(altered))


@pytest.mark.parametrize("kept", [*range(0, len(PACKED), 17), len(PACKED) - 1])
def test_truncated_bytes_are_refused(kept):
    with pytest.raises(ValueError, match="data must be"):
        codec.unpack("thing", PACKED[:kept])


def test_extended_bytes_are_refused():
    with pytest.raises(ValueError, match="checksum"):
        codec.unpack("thing", PACKED + b"\0")


@pytest.mark.parametrize("body", [PACKED[:-32] + b"\0", PACKED[:-33]])
def test_arrays_that_do_not_fill_the_data_are_refused(body):
    with pytest.raises(ValueError, match="longer or shorter than the data"):
        codec.unpack("thing", resealed(body))


@pytest.mark.parametrize("data", ["text", None, bytearray(PACKED), memoryview(PACKED)])
def test_what_is_not_bytes_is_refused(data):
    with pytest.raises(TypeError, match="data must be bytes; got"):
        codec.unpack("thing", data)


def test_another_kind_is_refused_by_name():
    with pytest.raises(ValueError, match="data must hold a policy; got a thing"):
        codec.unpack("policy", PACKED)


def test_another_format_is_refused_by_number(monkeypatch):
    monkeypatch.setattr(codec, "FORMAT", 2)
    newer = codec.pack("thing", META, ARRAYS)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="data must be in format 1; got format 2"):
        codec.unpack("thing", newer)
    body = PACKED[:-32]
    assert codec.unpack("thing", resealed(body)).meta == META


def test_arrays_inside_a_folder_have_the_rest_of_their_names():
    packed = codec.pack("thing", {"a": 1}, {"own/x": np.ones(2), "own/y/z": np.zeros(1)})
    parts = codec.unpack("thing", packed)
    assert {*parts.inside("own").arrays} == {"x", "y/z"}
    assert parts.inside("own").array("x", "<f8", (2,)).tolist() == [1.0, 1.0]
    assert parts.inside("ow").arrays == {}
    assert parts.inside("own").meta == {"a": 1}
