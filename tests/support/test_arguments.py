import inspect
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.rules.table import RULES
from rareswitch.support.arguments import (
    flag,
    floats,
    frozen,
    one_of,
    positions,
    real,
    require_memory,
    short_repr,
    whole,
)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ValueError, r"n must be from 1 to 5; got 0"),
        (6, ValueError, r"n must be from 1 to 5; got 6"),
        (2.0, TypeError, r"n must be a whole number, from 1 to 5; got 2\.0"),
        (True, TypeError, r"n must be a whole number.*got True"),
        (np.True_, TypeError, r"n must be a whole number.*got np.True_"),
        (np.float64(3.0), TypeError, r"n must be a whole number.*got np.float64\(3.0\)"),
        (Fraction(3), TypeError, r"n must be a whole number.*got Fraction\(3, 1\)"),
        (np.timedelta64(3, "s"), TypeError, r"n must be a whole number.*got np.timedelta64"),
        (np.array(3), TypeError, r"n must be a whole number.*got array\(3\)"),
        (10**400, ValueError, r"n must be from 1 to 5; got 10{59}… \(401 characters\)"),
        pytest.param(
            10**5000,
            ValueError,
            "n must be from 1 to 5; got a number of thousands of digits",
            id="5001 digits",
        ),
        ("3", TypeError, r"n must be a whole number.*got '3'"),
        (None, TypeError, r"n must be a whole number.*got None"),
    ],
)
def test_a_whole_number_is_named_with_what_came_and_what_is_allowed(value, error, message):
    with pytest.raises(error, match=message):
        whole("n", value, least=1, most=5)


@pytest.mark.parametrize("value", [1, 5, np.int64(3), np.uint8(2), np.int32(4)])
def test_a_whole_number_in_range_becomes_an_int(value):
    result = whole("n", value, least=1, most=5)
    assert result == value
    assert type(result) is int


def test_without_an_upper_end_a_whole_number_is_what_an_array_can_count():
    assert whole("n", 2**63 - 1, least=0) == 2**63 - 1
    with pytest.raises(ValueError, match=f"n must be from 0 to {2**63 - 1}; got {2**63}"):
        whole("n", 2**63, least=0)
    with pytest.raises(ValueError, match="n must be at least 0; got -1"):
        whole("n", -1, least=0)


@pytest.mark.parametrize(
    ("ends", "value", "message"),
    [
        ({"above": 0.0}, 0.0, "x must be a finite number above 0; got 0.0"),
        ({"least": 0.0}, -1e-300, "x must be a finite number at least 0; got -1e-300"),
        ({"below": 0.5}, 0.5, "x must be a finite number below 0.5; got 0.5"),
        ({"most": 1.0}, 1.5, "x must be a finite number at most 1; got 1.5"),
        ({"above": 0.0, "below": 1.0}, 1, "x must be a finite number above 0 and below 1; got 1"),
        ({}, np.nan, "x must be a finite number; got nan"),
        ({}, np.inf, "x must be a finite number; got inf"),
        ({"most": 1.0}, -np.inf, "x must be a finite number at most 1; got -inf"),
        ({}, 10**400, "x must be a finite number; got 1000.*401 characters"),
        pytest.param(
            {},
            10**5000,
            "x must be a finite number; got a number of thousands of digits",
            id="5001 digits",
        ),
        ({}, Fraction(10**400, 3), "x must be a finite number; got Fraction"),
        ({}, np.longdouble("1e4000"), "x must be a finite number; got "),
    ],
)
def test_a_real_number_out_of_range_is_refused(ends, value, message):
    with pytest.raises(ValueError, match=message):
        real("x", value, **ends)


@pytest.mark.parametrize(
    "value",
    [
        True,
        np.True_,
        "1",
        None,
        1j,
        np.complex128(1.0),
        [1.0],
        np.array(1.0),
        np.ma.masked,
        np.datetime64("2020-01-01"),
        np.timedelta64(1, "s"),
        Decimal(1),
    ],
    ids=repr,
)
def test_what_is_not_a_real_number_is_refused(value):
    with pytest.raises(TypeError, match="x must be a finite number"):
        real("x", value)


def test_closed_ends_are_allowed_and_numbers_become_floats():
    assert real("x", 0, least=0.0) == 0.0
    assert real("x", np.float32(1), most=1.0) == 1.0
    for value in (np.int64(1), np.float32(1), Fraction(1), np.longdouble(1), 1):
        assert real("x", value) == 1.0
        assert type(real("x", value)) is float


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_flag_becomes_a_bool(value):
    assert flag("f", value) is bool(value)


@pytest.mark.parametrize("value", [1, 0, "no", "True", None, np.int64(1), np.array(True), []])
def test_nothing_else_is_taken_for_a_flag(value):
    with pytest.raises(TypeError, match="f must be True or False; got "):
        flag("f", value)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([[1.0]], ValueError, r"a must have shape \(3,\); got \(1, 1\)"),
        ([1.0, 2.0], ValueError, r"a must have shape \(3,\); got \(2,\)"),
        (1.0, ValueError, r"a must have shape \(3,\); got \(\)"),
        ([1.0, np.nan, 2.0], ValueError, r"a must be finite; got nan at index \(1,\)"),
        ([1.0, 2.0, -np.inf], ValueError, r"a must be finite; got -inf at index \(2,\)"),
        ([1.0, [2.0], 3.0], TypeError, "a must be an array of numbers"),
        (["x", "y", "z"], TypeError, "a must be an array of real numbers; got <U1"),
        (["1", "2", "3"], TypeError, "a must be an array of real numbers; got <U1"),
        ([1j, 2.0, 3.0], TypeError, "a must be an array of real numbers; got complex128"),
        (np.zeros(3, object), TypeError, "a must be an array of real numbers; got object"),
        ([Fraction(1), 2, 3], TypeError, "a must be an array of real numbers; got object"),
        ([10**400, 2, 3], TypeError, "a must be an array of real numbers; got object"),
        (np.zeros(3, "M8[D]"), TypeError, "a must be an array of real numbers; got datetime64"),
        (np.zeros(3, "m8[s]"), TypeError, "a must be an array of real numbers; got timedelta64"),
        (np.ma.zeros(3), TypeError, "a must be an array of real numbers; got a masked array"),
        (None, TypeError, "a must be an array of real numbers; got object"),
        (np.full(3, np.longdouble("1e4000")), ValueError, "a must be finite; got inf"),
        (
            [True, False, True],
            TypeError,
            "a must be an array of real numbers; got bool: convert True and False to 1.0 and 0.0",
        ),
    ],
)
def test_a_bad_array_is_named_with_what_came_and_what_is_allowed(value, error, message):
    with pytest.raises(error, match=message):
        floats("a", value, (3,))


@pytest.mark.parametrize("dtype", [np.float32, np.longdouble, np.int8, np.uint64, np.float16])
def test_numbers_of_any_width_become_float64(dtype):
    taken = floats("a", np.array([0, 1, 2], dtype), (3,))
    assert taken.dtype == np.float64
    assert taken.tolist() == [0.0, 1.0, 2.0]


def test_letters_in_a_shape_stand_for_any_size():
    assert floats("a", np.ones((2, 7)), (2, "A")).shape == (2, 7)
    with pytest.raises(ValueError, match=r"a must have shape \(2, A\); got \(3, 7\)"):
        floats("a", np.ones((3, 7)), (2, "A"))


def test_an_array_is_copied_once_and_read_only():
    given = np.arange(6, dtype=np.float64)
    taken = floats("a", given, (6,))
    given[0] = 9.0
    assert taken[0] == 0.0
    assert not taken.flags.writeable


def test_a_read_only_array_is_copied_too_unless_it_is_owned():
    given = np.arange(6, dtype=np.float64)
    view = given[:]
    given.flags.writeable = False
    taken, owned = floats("a", given, (6,)), floats("a", given, (6,), owned=True)
    view[0] = 9.0  # made before the array was set read-only
    assert taken[0] == 0.0
    assert owned is given
    assert not taken.flags.writeable


def test_an_owned_array_is_set_read_only_and_copied_only_where_its_layout_asks_for_it():
    given = np.arange(6.0).reshape(2, 3)
    assert floats("a", given, (2, 3), owned=True) is given
    assert not given.flags.writeable
    turned = floats("a", given.T, (3, 2), owned=True)
    assert turned.flags.c_contiguous
    assert turned.tolist() == given.T.tolist()
    whole_numbers = floats("a", np.arange(3), (3,), owned=True)
    assert (whole_numbers.dtype, whole_numbers.flags.writeable) == (np.float64, False)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[:2],
        lambda a: a[::2],
        lambda a: a.T,
        lambda a: np.broadcast_to(a[0], a.shape),
        lambda a: np.frombuffer(memoryview(a).cast("B")),
    ],
    ids=["contiguous", "strided", "transposed", "broadcast", "buffer"],
)
def test_a_read_only_view_of_what_others_can_write_is_copied(view):
    given = np.arange(9.0).reshape(3, 3)
    seen = view(given)
    seen.flags.writeable = False
    taken = frozen(seen)
    expected = seen.copy()
    given[:] = -1.0
    assert (taken == expected).all()
    assert taken.flags.c_contiguous


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([0, 4], ValueError, "p must be positions from 0 to 3; got 4"),
        ([0, -1], ValueError, "p must be positions from 0 to 3; got -1"),
        (np.array([200], np.uint8), ValueError, "p must be positions from 0 to 3; got 200"),
        ([2**64], TypeError, "p must be the positions of ones.*object"),
        ([0.0, 1.0], TypeError, r"p must be .*whole numbers of shape \(n,\); got float64 of shape"),
        ([True, False], TypeError, r"p must be .*; got bool of shape \(2,\)"),
        (["0"], TypeError, r"p must be .*; got <U1 of shape \(1,\)"),
        ([[0, 1]], TypeError, r"p must be .*; got int64 of shape \(1, 2\)"),
        (3, TypeError, r"p must be .*; got int64 of shape \(\)"),
        (None, TypeError, r"p must be .*; got object of shape \(\)"),
        ([[0], [1, 2]], TypeError, "p must be an array of whole numbers; "),
        (np.ma.array([0, 1]), TypeError, r"p must be .*; got a masked array of shape \(2,\)"),
        (np.zeros(2, "m8[s]"), TypeError, "p must be .*; got timedelta64"),
    ],
)
def test_bad_positions_are_named_with_what_came_and_what_is_allowed(value, error, message):
    with pytest.raises(error, match=message):
        positions("p", value, 4)


def test_positions_become_read_only_whole_numbers_of_one_width():
    given = np.array([3, 0, 3], np.int16)
    taken = positions("p", given, 4)
    given[:] = 1
    assert (taken.dtype, taken.tolist()) == (np.int64, [3, 0, 3])
    assert not taken.flags.writeable
    again = positions("p", taken, 4)
    assert (again.tolist(), again.flags.writeable) == ([3, 0, 3], False)
    assert positions("p", range(4), 4).tolist() == [0, 1, 2, 3]
    assert positions("p", [], 4).dtype == np.int64


def test_one_of_lists_what_is_allowed():
    assert one_of("w", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match="w must be one of 'a', 'b'; got 'c'"):
        one_of("w", "c", ("a", "b"))
    with pytest.raises(ValueError, match=r"w must be one of 'a', 'b'; got \['a'\]"):
        one_of("w", ["a"], ("a", "b"))


def test_a_read_only_array_of_positions_is_copied_too():
    given = np.array([3, 0])
    view = given[:]
    given.flags.writeable = False
    taken = positions("p", given, 4)
    view[0] = 1
    assert taken.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\n  b", r"'a\n b'"),
        (np.zeros((2, 2)), "array([[0., 0.], [0., 0.]])"),
        ("x" * 78, repr("x" * 78)),
        ("x" * 79, "'" + "x" * 59 + "… (81 characters)"),
    ],
)
def test_a_short_repr_is_one_short_line(value, text):
    assert short_repr(value) == text


def test_what_needs_more_memory_than_there_is_is_refused_by_name():
    require_memory(1e6, "a small table")
    with pytest.raises(MemoryError, match=r"runs need about 1,000,000 GB; this machine has \d+ GB"):
        require_memory(1e15, "runs")


TASK = rs.Task(dim=1, horizon=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rs.SpreadBudget(9), r"SpreadBudget takes its arguments by name: .*\(switches=9\)"),
        (lambda: rs.Task(4, 2, 200), r"by name: Task\(dim=4, horizon=2, episodes=200\)$"),
        (
            lambda: rs.Recipe(rs.Bonus()),
            r"Recipe takes its .* by name: Recipe\(exploration=Bonus\(",
        ),
        (lambda: rs.rules.Capped(rs.EveryEpisode(), 1, 2), "Capped takes 2 arguments; got 3"),
        (
            lambda: rs.Recipe(beta=2),
            r"no argument 'beta'; .*; did you mean Recipe.paper\(beta=…\)\?",
        ),
        (lambda: rs.Recipe.paper(2, rigde=3), "Recipe has no argument 'rigde'; .* you mean ridge?"),
        (
            lambda: rs.Learner(TASK, rs.EveryEpisode(), seed=1),
            r"Learner has no argument 'seed'; it takes task, .* did you mean Recipe\(seed=…\)\?",
        ),
        (lambda: rs.EveryEpisode(a=1), "EveryEpisode has no argument 'a'; it takes none"),
        (lambda: rs.Learner(TASK), "Learner needs schedule; it takes task, schedule"),
        (lambda: rs.SpreadBudget(), "SpreadBudget needs switches; it takes switches"),
        (lambda: rs.UniformGrid(batches="2"), "batches must be a whole number"),
    ],
)
def test_wrong_arguments_are_named_with_the_arguments_of_the_class(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_a_class_with_explained_arguments_keeps_its_signature_and_its_pickles():
    for cls in (rs.Task, rs.Recipe, rs.Learner, *(row.cls for row in RULES)):
        assert "given" not in inspect.signature(cls).parameters
        with pytest.raises(TypeError, match=f"^{cls.__name__} has no argument 'nothing'"):
            cls(nothing=1)
    assert list(inspect.signature(rs.UniformGrid).parameters) == ["batches", "spread"]
    assert pickle.loads(pickle.dumps(rs.SpreadBudget(switches=9))) == rs.SpreadBudget(switches=9)
