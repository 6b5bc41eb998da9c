"""Bytes and digests of all maps and bases, and bytes that are none."""

import copy
import hashlib
import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from feature_examples import SAMPLE, bases, maps
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features import (
    ActionBlocks,
    Basis,
    Custom,
    Features,
    Masked,
    OneHot,
    Polynomial,
    Scaling,
    UnitNorm,
    WithStage,
    features_from_bytes,
)
from rareswitch.features.packed import KINDS
from rareswitch.support import codec
from rareswitch.testing import check_features

MAPS, BASES = maps(), bases()
every_map = pytest.mark.parametrize(("features", "states"), MAPS.values(), ids=MAPS)


@every_map
def test_a_map_survives_its_bytes(features, states):
    data = features.to_bytes()
    read = features_from_bytes(data)
    assert type(read) is type(features)
    assert read.to_bytes() == data
    assert read == features
    assert hash(read) == hash(features)
    assert read.digest == features.digest == hashlib.sha256(data).hexdigest()
    for part in ("dim", "actions", "one_hot", "norm", "name"):
        assert getattr(read, part) == getattr(features, part)
    for state in states:
        np.testing.assert_array_equal(read(state, 1), features(state, 1))
        np.testing.assert_array_equal(read.feasible(state), features.feasible(state))


@every_map
def test_a_map_keeps_the_contract(features, states):
    for state in states:
        rows = features(state)
        assert rows.dtype == (np.int64 if features.one_hot else np.float64)
        assert rows.shape == (
            (features.actions,) if features.one_hot else (features.actions, features.dim)
        )
        assert not rows.flags.writeable
        if features.one_hot:
            assert rows.min() >= 0
            assert rows.max() < features.dim
    if not features.one_hot:
        assert check_features(features, states, dim=features.dim) <= features.norm * (1 + 1e-12)


@every_map
def test_copies_are_equal_and_frozen(features, states):
    for made in (copy.deepcopy(features), pickle.loads(pickle.dumps(features))):
        assert made == features
        np.testing.assert_array_equal(made(states[0]), features(states[0]))
        arrays: codec.Arrays = {}
        made.described(arrays)
        assert not any(array.flags.writeable for array in arrays.values())


def test_different_maps_have_different_digests():
    digests = {features.digest for features, _ in MAPS.values()}
    assert len(digests) == len(MAPS)
    assert len({basis.digest for basis in BASES.values()}) == len(BASES)


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
def test_a_basis_survives_its_bytes(basis):
    read = Basis.from_bytes(basis.to_bytes())
    assert read == basis
    np.testing.assert_array_equal(read(SAMPLE[0]), basis(SAMPLE[0]))
    with pytest.raises(ValueError, match="data must hold a Features; got a"):
        features_from_bytes(basis.to_bytes())


# Digests are kept in ledgers and logs: they must not change, on any machine, ever.
GOLDEN = {
    "one-hot": (
        OneHot(states=16, actions=4),
        "b0c25cecb8a8f2ad75fd5e33d1c354436355b3070552387e52103f0725667874",
    ),
    "blocks": (
        ActionBlocks(
            Scaling(origin=[0.5, -1.0], unit=[2.0, 0.25], low=-3.0, high=3.0)
            .then(Polynomial(inputs=2, degree=1))
            .then(UnitNorm(inputs=3, bound=5.0)),
            actions=3,
        ),
        "9856ceed395b6f56dddc5d126cf97abff78d7ea1ab3834b6e24b398840249992",
    ),
    "masked": (
        WithStage(Masked(OneHot(states=2, actions=2), [[True, False], [True, True]]), horizon=9),
        "43f39f430a8726abb5bf0197670a31b6a8d1970fec6bcb25d71c263cfbb1a3d0",
    ),
}


@pytest.mark.parametrize(("features", "digest"), GOLDEN.values(), ids=GOLDEN)
def test_digests_do_not_change(features, digest):
    assert features.digest == digest


def test_another_process_finds_the_same_digest():
    code = (
        "from rareswitch.features import OneHot, Custom\n"
        "def square(state): return [[state, state * state]]\n"
        "print(OneHot(states=16, actions=4).digest, Custom(square, probe=[1.0, 0.3]).digest)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env=os.environ | {"PYTHONHASHSEED": "7"},
    ).stdout.split()  # fmt: skip

    def square(state):
        return [[state, state * state]]

    assert told == [OneHot(states=16, actions=4).digest, Custom(square, probe=[1.0, 0.3]).digest]


def test_maps_of_others_can_be_wrapped_and_count_with_their_digest():
    class Foreign:
        dim, actions, one_hot, norm, name = 2, 2, False, 1.0, "foreign"

        def __init__(self, digest):
            self.digest = digest

        def __call__(self, state, h=0):
            return np.eye(2)

        def feasible(self, state, h=0):
            return None

    one, same, other = (WithStage(Foreign(digest), horizon=2) for digest in ("a", "a", "b"))
    assert one == same
    assert one != other
    with pytest.raises(TypeError, match="foreign is code of your own"):
        one.to_bytes()


def test_equality_is_that_of_one_kind():
    assert OneHot(states=2, actions=2) != OneHot(states=2, actions=2).digest
    assert OneHot(states=2, actions=2) != Polynomial(inputs=4, degree=1, constant=False)


def test_every_kind_of_bytes_is_tried_here():
    kinds = set()
    for packed in (*(features for features, _ in MAPS.values()), *BASES.values()):
        header = json.dumps(packed.described({}))
        kinds |= {kind for kind in KINDS if f'"kind": "{kind}"' in header}
    assert kinds == set(KINDS) - {"custom", "transformed"}


def packed_as(described, **arrays):
    return codec.pack("features", {"described": described}, arrays)


TABLE = {"kind": "one-hot", "states": 2, "actions": 2, "space": None}


@pytest.mark.parametrize(
    "data",
    [
        packed_as({**TABLE, "kind": "custom"}),
        packed_as({**TABLE, "states": -1}),
        packed_as({**TABLE, "states": "2"}),
        packed_as({**TABLE, "more": 1}),
        packed_as({"kind": "one-hot"}),
        packed_as({"states": 2}),
        packed_as([]),
        packed_as("one-hot"),
        packed_as(TABLE, left=np.zeros(2)),
        packed_as({"kind": "scaling", "origin": {"array": "0"}, "unit": {"array": "1"}}),
        packed_as({"kind": "scaling", "origin": {"array": "m"}, "unit": {"array": "s"}},
                  m=np.zeros(2), s=np.zeros(2)),
        packed_as({"kind": "scaling", "origin": {"array": "m"}, "unit": {"array": "s"}},
                  m=np.array([np.nan]), s=np.ones(1)),
        packed_as({"kind": "scaling", "origin": {"array": "m"}, "unit": {"array": "m"}},
                  m=np.ones(1)),
        packed_as({"kind": "masked", "map": TABLE, "probe": [], "mask": {"truths": "m"}},
                  m=np.full((2, 2), 2, np.uint8)),
        packed_as({"kind": "masked", "map": {"kind": "polynomial", "inputs": 2, "degree": 1},
                   "probe": [], "mask": {"truths": "m"}}, m=np.ones((2, 2), np.uint8)),
        packed_as({"kind": "chained", "first": TABLE, "second": TABLE}),
        packed_as({"kind": "polynomial", "inputs": 10**5, "degree": 100}),
        packed_as({"kind": ["one-hot"]}),
        packed_as({"kind": "custom", "function": TABLE, "actions": 2, "dim": 4}),
        codec.pack("features", {}, {}),
        codec.pack("policy", {"described": TABLE}, {}),
        b"",
        b"rareswitch",
    ],
)  # fmt: skip
def test_bytes_that_are_none_are_refused(data):
    with pytest.raises(ValueError, match="data must"):
        features_from_bytes(data)


@given(st.data())
def test_altered_bytes_are_refused(data):
    whole = bytearray(OneHot(states=2, actions=2).to_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="data must"):
        Features.from_bytes(bytes(whole))


def test_a_field_of_ones_own_must_be_something_that_bytes_can_say():
    @dataclass(frozen=True, eq=False)
    class Mine(Features):
        scale: object
        dim, actions = 1, 1

        def __call__(self, state, h=0):
            return np.ones((1, 1))

    assert Mine(2.0).digest != Mine(3.0).digest
    with pytest.raises(TypeError, match="must be a number, text, an array or another map"):
        _ = Mine({1, 2}).digest
