import hashlib
from datetime import date
from enum import StrEnum

import numpy as np
import pytest
from scipy.stats import chi2

from rareswitch.core.policy import member_of
from rareswitch.core.recipe import ALLOCATIONS

KEYS = ["ada", "ben", " ", "7", 8, "-1", 2**70, "η", "patient/12"]


@pytest.mark.parametrize(
    ("allocation", "members", "expected"),
    [
        (0, 2, [1, 0, 0, 1, 1, 0, 0, 1, 0]),
        (2026, 32, [21, 8, 9, 6, 16, 20, 15, 27, 29]),
        (2**63 - 1, 10_000, [8306, 2060, 2612, 8868, 1476, 4448, 251, 5835, 9284]),
    ],
)
def test_the_member_of_an_episode_is_the_same_on_every_machine(allocation, members, expected):
    for _ in range(2):
        assert [member_of(allocation, key, members) for key in KEYS] == expected


def test_it_is_the_documented_hash():
    for key in KEYS:
        digest = hashlib.blake2b(f"5/{key}".encode(), digest_size=8).digest()
        assert member_of(5, key, 12) == int(12 * int.from_bytes(digest, "big") / 2**64)


@pytest.mark.parametrize("number", [0, 7, 10**30])
def test_a_number_and_its_text_are_one_key(number):
    forms = [number, str(number)]
    if abs(number) < 2**31:
        forms += [np.int32(number), np.int64(number), np.str_(number)]
    for allocation in range(20):
        assert len({member_of(allocation, form, 10_000) for form in forms}) == 1
    assert {member_of(a, "07", 10_000) == member_of(a, 7, 10_000) for a in range(20)} == {False}


def test_one_member_plays_everything():
    assert {member_of(a, key, 1) for a in range(5) for key in KEYS} == {0}


@pytest.mark.parametrize("members", [2, 7, 32])
@pytest.mark.parametrize("key", [str, int, "episode-{}".format], ids=["text", "number", "name"])
def test_of_many_keys_every_member_gets_the_same_share(members, key):
    found = [member_of(11, key(k), members) for k in range(100_000)]
    counts = np.bincount(found, minlength=members)
    assert len(counts) == members
    expected = 100_000 / members
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert chi2.ppf(1e-4, members - 1) < statistic < chi2.ppf(1 - 1e-4, members - 1)


def test_another_allocation_allocates_anew_and_independently():
    members, keys = 4, range(20_000)
    one, other = ([member_of(a, key, members) for key in keys] for a in (3, 4))
    pairs = np.bincount(members * np.array(one) + np.array(other), minlength=members**2)
    expected = len(keys) / members**2
    statistic = ((pairs - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(1 - 1e-4, members**2 - 1)


def test_neighbouring_keys_and_numbers_do_not_run_into_each_other():
    assert len({member_of(a, key, 10_000) for a, key in ((1, "2/3"), (12, "3"), (1, "23"))}) == 3
    assert ALLOCATIONS == 2**63


@pytest.mark.parametrize(
    "key",
    [None, 1.0, True, np.True_, b"7", ("a",), ["a"], {}, date(2026, 1, 1), np.timedelta64(7, "D")],
    ids=repr,
)
def test_a_bad_key_is_refused_by_name(key):
    with pytest.raises(TypeError, match=r"key must be a text or a whole number; got .*: use str"):
        member_of(1, key, 3)


@pytest.mark.parametrize("key", [-1, 2**128, 10**400, 10**5000], ids=["-1", "2^128", "401", "5001"])
def test_a_number_that_counts_no_episode_is_refused_by_name(key):
    with pytest.raises(ValueError, match=r"key must be .*; got "):
        member_of(1, key, 3)


def test_any_text_is_a_key():
    texts = ("\ud800", "\x00", "a\nb", "x" * 10_000, "٣", "3")
    assert len({member_of(1, text, 10_000) for text in texts}) == len(texts)


def test_no_name_is_no_key():
    with pytest.raises(ValueError, match="key must name the episode; got an empty text"):
        member_of(1, "", 3)


def test_a_text_of_another_type_is_the_text_that_it_equals():
    class Patient(StrEnum):
        ADA = "ada"

    class Loud(str):
        def __format__(self, spec):
            return self.upper()

    for key in (Patient.ADA, Loud("ada"), np.str_("ada")):
        assert key == "ada"
        assert member_of(2026, key, 10_000) == member_of(2026, "ada", 10_000)
