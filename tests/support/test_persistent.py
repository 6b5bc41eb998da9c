"""Versions of a list, of rows and of numbers: each stays as it was, whatever is made of it."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import interrupted
from rareswitch.support.persistent import PersistentList, PersistentNumbers, PersistentRows

WHICH = st.integers(0, 10**6)  # a version, modulo how many there are
SIZE = 6


def of_versions(operations, versions, change, read):
    """Apply operations (which, argument) to versions that exist; None reads instead."""
    plain = [read(versions[0])]
    for which, argument in operations:
        i = which % len(versions)
        if argument is None:
            np.testing.assert_array_equal(read(versions[i]), plain[i])
            continue
        version, copy = change(versions[i], plain[i], argument)
        versions.append(version)
        plain.append(copy)
    return versions, plain


@given(
    st.lists(st.integers(), max_size=4),
    st.lists(st.tuples(WHICH, st.none() | st.lists(st.integers(), max_size=4)), max_size=25),
)
def test_every_version_of_a_list_is_the_list_that_it_was(first, operations):
    versions, plain = of_versions(
        operations,
        [PersistentList(first)],
        lambda version, copy, items: (version.extend(items), copy + items),
        list,
    )
    for version, copy in zip(versions, plain, strict=True):
        assert list(version) == copy
        assert len(version) == len(copy)
        assert version[:] == copy
        assert version[1:3] == copy[1:3]
        assert version[::-2] == copy[::-2]
        assert [version[i] for i in range(-len(copy), len(copy))] == copy + copy
        for outside in (len(copy), -len(copy) - 1):
            with pytest.raises(IndexError):
                version[outside]
        assert (7 in version) == (7 in copy)
        assert list(reversed(version)) == copy[::-1]


def test_a_list_does_not_change_with_the_one_it_was_made_of():
    given = [1, 2]
    version = PersistentList(given)
    given.append(3)
    longer = version.extend(given)
    given.clear()
    assert (list(version), list(longer)) == ([1, 2], [1, 2, 1, 2, 3])


def test_iterating_over_a_version_does_not_see_later_ones():
    version = PersistentList([1, 2])
    iterator = iter(version)
    version.extend([3])
    assert list(iterator) == [1, 2]


def test_lists_in_a_row_share_their_memory():
    versions = [PersistentList([0])]
    for k in range(1000):
        versions.append(versions[-1].extend([k]))
    assert len({id(version._items) for version in versions}) == 1
    apart = versions[3].extend([9])
    assert apart._items is not versions[3]._items
    assert list(apart) == [0, 0, 1, 2, 9]


@pytest.mark.parametrize("shape", [(), (2,), (3, 2)])
@given(st.lists(st.tuples(WHICH, st.none() | st.integers(0, 40)), max_size=25))
def test_every_version_of_rows_has_the_rows_that_it_had(shape, operations):
    rng = np.random.default_rng(0)

    def extend(version, copy, size):
        rows = rng.random((size, *shape))
        longer = version.extend(rows)
        whole = np.concatenate([copy, rows])
        rows[:] = -1.0  # what was added is a copy
        return longer, whole

    versions, plain = of_versions(
        operations,
        [PersistentRows(np.zeros((0, *shape)))],
        extend,
        lambda version: version.array.copy(),
    )
    for version, copy in zip(versions, plain, strict=True):
        np.testing.assert_array_equal(version.array, copy)
        assert version.array.shape == copy.shape


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_numbers_keep_their_kind(dtype):
    empty = PersistentRows(np.zeros(0, dtype))
    assert empty.array.dtype == dtype
    grown = empty.extend(np.arange(5, dtype=dtype))
    assert grown.array.dtype == dtype
    assert grown.array.tolist() == [0, 1, 2, 3, 4]


def test_two_continuations_of_the_same_rows_do_not_write_over_each_other():
    rows = PersistentRows(np.zeros(0)).extend(np.arange(6.0)).extend(np.array([6.0]))
    one, other = rows.extend(np.array([9.0, 8.0])), rows.extend(np.array([5.0]))
    assert rows.array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert one.array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 8.0]
    assert other.array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 5.0]


def test_growing_moves_a_row_a_bounded_number_of_times():
    grown, moved, last = PersistentRows(np.zeros(0)), 0, None
    for k in range(5000):
        grown = grown.extend(np.array([float(k)]))
        base = grown.array.base
        moved += len(grown.array) if base is not last else 0
        last = base
    assert moved < 3 * 5000
    assert grown.array.tolist() == list(range(5000))


PUTS = st.dictionaries(st.integers(0, SIZE - 1), st.floats(-9.0, 9.0), max_size=SIZE)


@given(PUTS, st.lists(st.tuples(WHICH, st.none() | PUTS), max_size=25), st.booleans())
def test_every_version_of_numbers_has_the_numbers_that_it_had(first, operations, repeat):
    def put(version, copy, numbers):
        places, values = [*numbers], [*numbers.values()]
        if repeat:  # a place may come again, with the same number
            places, values = places + places[::-1], values + values[::-1]
        changed = copy.copy()
        changed[places] = values
        newer = version.put(places, values)
        places.clear()
        values.clear()  # what was put is a copy
        return newer, changed

    start = np.zeros(SIZE)
    start[[*first]] = [*first.values()]
    versions, plain = of_versions(
        operations, [PersistentNumbers(dict(first))], put, lambda version: version.array(SIZE)
    )
    np.testing.assert_array_equal(plain[0], start)
    for version, copy in zip(versions, plain, strict=True):
        places = [3, 0, 3]
        np.testing.assert_array_equal(version.take(places), copy[places])
        np.testing.assert_array_equal(version.array(SIZE), copy)
        np.testing.assert_array_equal(version.array(SIZE + 2), [*copy, 0.0, 0.0])


def test_where_nothing_was_put_there_is_0():
    none = PersistentNumbers()
    assert none.array(3).tolist() == none.take([5, 0, 10**12]).tolist() == [0.0, 0.0, 0.0]
    assert none.take([]).tolist() == none.array(0).tolist() == []
    far = none.put([10**12], [2.5])
    assert far.take([10**12, 0]).tolist() == [2.5, 0.0]
    assert none.take([10**12]).tolist() == [0.0]


def test_numbers_are_those_of_an_array():
    array = np.array([0.0, 2.5, -0.0, -1e-300])
    numbers = PersistentNumbers.of_array(array)
    array[:] = 9.0
    assert numbers.array(4).tolist() == [0.0, 2.5, 0.0, -1e-300]
    assert not np.signbit(numbers.array(4)[2])


def test_an_array_that_was_handed_out_is_nobody_elses():
    version = PersistentNumbers()
    version.array(3)[:] = 7.0
    version.take([0, 1])[:] = 7.0
    newer = version.put([2], [1.0])
    for one in (newer, version):
        one.array(3)[:] = 7.0
        one.take([0, 2])[:] = 7.0
    assert (version.array(3).tolist(), newer.array(3).tolist()) == ([0.0] * 3, [0.0, 0.0, 1.0])


def test_the_newest_version_of_numbers_costs_only_what_is_put():
    version = PersistentNumbers.of_array(np.ones(10**5))
    places = list(range(10))
    tracemalloc.start()
    try:
        for k in range(200):
            version = version.put(places, [float(k)] * 10)
            version.take(places)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000  # the numbers themselves are more than 5 MB
    assert version.take(places).tolist() == [199.0] * 10


def test_versions_that_nobody_holds_are_given_back():
    version = PersistentNumbers()
    places = list(range(4))
    for _ in range(3000):
        version = version.put(places, [1.0] * 4)
    tracemalloc.start()
    try:
        for _ in range(3000):
            version = version.put(places, [1.0] * 4)
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert left < 5000


def test_the_oldest_of_very_many_versions_can_still_be_read():
    first = version = PersistentNumbers()
    for k in range(20_000):  # more than Python would recurse into
        version = version.put([k % 3], [float(k)])
    assert first.array(3).tolist() == [0.0, 0.0, 0.0]
    assert sorted(version.array(3).tolist()) == [19997.0, 19998.0, 19999.0]


CHANGES = {
    "list": (
        lambda: PersistentList([1, 2]).extend([3]),
        lambda version: version.extend([4, 5]),
        list,
        [1, 2, 3, 4, 5],
    ),
    "rows": (
        lambda: PersistentRows(np.arange(3.0)).extend(np.array([3.0])),
        lambda version: version.extend(np.array([4.0, 5.0])),
        lambda version: version.array.tolist(),
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    ),
    "numbers": (
        lambda: PersistentNumbers({0: 0.0, 1: 1.0, 2: 2.0}).put([0], [9.0]),
        lambda version: version.put([0, 2], [7.0, 8.0]),
        lambda version: version.array(3).tolist(),
        [7.0, 1.0, 8.0],
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("again", [False, True], ids=["newest", "older"])
def test_a_change_that_is_interrupted_at_any_line_leaves_the_version_as_it_was(kind, again):
    make, change, read, done = CHANGES[kind]
    lines = 0
    while True:
        lines += 1
        version = make()
        if again:
            change(version)  # so that the version is not the newest
        before = read(make())
        if not interrupted(lambda version=version: change(version), lines):
            break
        assert read(version) == before
        assert read(change(version)) == done
        assert read(version) == before
    assert lines > 4
