import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rareswitch.features import (
    ActionBlocks,
    Basis,
    Custom,
    Features,
    OneHot,
    Polynomial,
    UnitRows,
    WithStage,
    as_features,
)
from rareswitch.features.custom import behaviour, name_of

PROBE = [0.1, 0.5, 0.9]


def dose(state):
    return [[1.0, 0.0], [1.0, math.sin(state)]]


def test_any_function_is_a_feature_map():
    features = Custom(dose, probe=PROBE)
    assert (features.actions, features.dim, features.one_hot, features.norm) == (
        2,
        2,
        False,
        np.inf,
    )
    assert features.name == "dose"
    np.testing.assert_array_equal(features(0.5), dose(0.5))
    assert features.feasible(0.5) is None


def test_sizes_are_given_or_told_by_the_probe():
    assert Custom(dose, actions=2, dim=2).name == "dose, unverified"
    assert Custom(dose, name="mg", probe=PROBE).name == "mg"
    with pytest.raises(ValueError, match="actions must be given without a probe"):
        Custom(dose, dim=2)
    with pytest.raises(ValueError, match="dim must be given without a probe"):
        Custom(dose, actions=2)
    with pytest.raises(ValueError, match=r"rows must have shape \(3, 2\); got \(2, 2\)"):
        Custom(dose, actions=3, probe=PROBE)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (
            [[1.0, np.nan], [0.0, 0.0]],
            ValueError,
            r"rows must be finite; got nan at index \(0, 1\)",
        ),
        ([[1.0, 2.0]], ValueError, r"rows must have shape \(2, 2\); got \(1, 2\)"),
        ([["a", "b"], ["c", "d"]], TypeError, "rows must be an array of real numbers"),
        (None, TypeError, "rows must be an array of real numbers"),
        ([[3.0, 4.1], [0.0, 0.0]], ValueError, r"rows must not be longer than 5; got 5\.0"),
    ],
)
def test_what_a_function_returns_is_checked(rows, error, message):
    features = Custom(lambda state: rows, actions=2, dim=2, norm=5.0, name="mine")
    with pytest.raises(error, match=rf"{message}.*\(from mine, unverified, for 7\)"):
        features(7)


def test_a_function_may_use_its_array_again():
    buffer = np.zeros((1, 2))

    def counting(state):
        buffer[:] = state
        return buffer

    features = Custom(counting, actions=1, dim=2)
    first = features(1.0)
    features(2.0)
    np.testing.assert_array_equal(first, [[1.0, 1.0]])


def test_positions_are_rows_too():
    features = Custom(lambda s: [s // 10, 5 + s // 10], actions=2, dim=10, one_hot=True)
    assert (features.one_hot, features.norm) == (True, 1.0)
    np.testing.assert_array_equal(features(23), [2, 7])
    with pytest.raises(ValueError, match="rows must be positions from 0 to 9; got 14"):
        features(99)
    with pytest.raises(TypeError, match="rows must be the positions of ones"):
        features(2.5)
    with pytest.raises(ValueError, match="rows must be 3 positions; got 2"):
        Custom(features.function, actions=3, dim=10, one_hot=True)(23)
    with pytest.raises(ValueError, match="rows must be positions from 0 to 9"):
        features(-11)


def renamed(function, name):
    function.__name__ = name
    return function


def test_the_digest_says_what_the_function_does_on_its_probe():
    probed = Custom(dose, probe=PROBE)
    almost = renamed(lambda s: np.array(dose(s)) * (1 + 1e-15), "dose")
    other = renamed(lambda s: np.array(dose(s)) * (1 + 1e-6), "dose")
    assert probed.digest == Custom(dose, probe=PROBE).digest == Custom(almost, probe=PROBE).digest
    assert probed.digest != Custom(other, probe=PROBE).digest
    assert probed.digest != Custom(dose, name="another", probe=PROBE).digest
    assert probed.digest != Custom(dose, probe=PROBE[:2]).digest
    sizes = {"actions": 2, "dim": 2}
    assert Custom(dose, **sizes).digest == Custom(other, **sizes).digest != probed.digest


def test_code_has_no_bytes_but_can_be_pickled():
    for features in (Custom(dose, probe=PROBE), Custom(dose, actions=2, dim=2)):
        with pytest.raises(TypeError, match=r"dose.* is code of your own, which has no bytes"):
            features.to_bytes()
        copy = pickle.loads(pickle.dumps(features))
        assert copy == features
        assert copy.name == features.name
        np.testing.assert_array_equal(copy(0.5), features(0.5))


def test_maps_are_taken_as_they_are():
    for features in (
        OneHot(states=2, actions=2),
        ActionBlocks(Polynomial(inputs=1, degree=1, constant=False), actions=2),
    ):
        assert as_features(features) is features
    assert isinstance(as_features(dose, probe=PROBE), Custom)


class Halfway:
    """A map that forgot something."""

    dim, actions, one_hot, norm, name = 2, 2, False, 1.0, "halfway"

    def __call__(self, state, h=0):
        return np.eye(2)


@pytest.mark.parametrize("thing", [OneHot, 7, None, "features"])
def test_other_things_are_refused(thing):
    with pytest.raises((TypeError, ValueError), match="must be"):
        as_features(thing)


def test_a_map_that_forgot_something_is_told_what():
    with pytest.raises(TypeError, match=r"features must be a feature map, .* without digest"):
        as_features(Halfway())


class Doses(Features):
    """A map of ten lines."""

    dim, actions, norm, name = 2, 2, 2.0, "doses"

    def __call__(self, state, h=0):
        return np.array([[1.0, 0.0], [1.0, state / (1 + h)]])


def test_a_class_of_ones_own_may_have_blocks():
    class Arms(Doses):
        blocks = 2

        def __call__(self, state, h=0):
            return np.diag([1.0, state])

    assert as_features(Doses()).blocks == 1
    assert as_features(Arms()).blocks == 2
    with pytest.raises(ValueError, match="blocks must be at least 1"):
        Custom(dose, probe=PROBE, blocks=0)


def test_a_class_of_ones_own_needs_little():
    features = as_features(Doses())
    np.testing.assert_array_equal(features(0.5, 1), [[1.0, 0.0], [1.0, 0.25]])
    assert features.feasible(0.5) is None
    assert features.digest == as_features(Doses()).digest
    with pytest.raises(TypeError, match="doses is code of your own"):
        features.to_bytes()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"function": 7}, TypeError),
        ({"norm": -1.0}, ValueError),
        ({"norm": "1"}, TypeError),
        ({"norm": math.nan}, ValueError),
        ({"one_hot": 1}, TypeError),
        ({"actions": -1}, ValueError),
    ],
)
def test_arguments_are_checked(arguments, error):
    (name,) = arguments
    with pytest.raises(error, match=f"{name} must be"):
        Custom(**{"function": dose, "actions": 2, "dim": 2} | arguments)


@pytest.mark.parametrize("thing", [None, np.eye(2), "linear"])
def test_what_cannot_be_called_is_no_map(thing):
    message = "features must be a feature map, or a function from a state to rows; got "
    with pytest.raises(TypeError, match=message):
        as_features(thing, actions=2, dim=2)


VALUES = arrays(np.float64, (3, 2), elements=st.floats(-1e6, 1e6).map(lambda x: round(x, 3)))


@given(VALUES)
def test_the_last_bits_do_not_count(values):
    nudged = np.nextafter(values, np.inf)
    assert behaviour([values]) == behaviour([np.nextafter(nudged, np.inf)])
    assert behaviour([values]) == behaviour([np.nextafter(values, -np.inf)])


@given(VALUES, st.integers(0, 5))
def test_what_can_be_seen_does(values, place):
    other = values.copy()
    other.flat[place] += 1e-6 * max(1.0, abs(other.flat[place]))
    assert behaviour([values]) != behaviour([other])


def test_rounding_errors_around_zero_and_one_do_not_count():
    assert behaviour([np.array([0.0, 1.0])]) == behaviour([np.array([-1.2e-16, 1.0 - 1e-16])])
    assert behaviour([np.array([0.0])]) == behaviour([np.array([-0.0])])


def test_shapes_count():
    flat = np.arange(6.0)
    assert behaviour([flat]) != behaviour([flat.reshape(2, 3)]) != behaviour([flat.reshape(3, 2)])
    assert behaviour([flat]) != behaviour([flat[:3], flat[3:]])


def test_code_goes_by_its_name():
    class Mask:
        pass

    assert (name_of(len), name_of(Mask())) == ("len", "Mask")


def test_a_row_for_a_state_and_an_action_is_enough():
    features = Custom(lambda s, a: [1.0, a, s * a], actions=3, probe=PROBE)
    assert (features.actions, features.dim) == (3, 3)
    np.testing.assert_array_equal(features(0.5), [[1, 0, 0], [1, 1, 0.5], [1, 2, 1]])
    table = Custom(lambda state, action: 2 * state + action, actions=2, dim=6, one_hot=True)
    assert table(2).tolist() == [4, 5]
    with pytest.raises(ValueError, match="actions must be given for a function of a state and an"):
        Custom(lambda s, a: [1.0, a], probe=PROBE)


def test_the_stage_is_an_argument_by_its_name():
    for function in (lambda s, h: [[s, h]], lambda s, stage=0: [[s, stage]]):
        features = Custom(function, actions=1, dim=2)
        np.testing.assert_array_equal(features(0.5, 3), [[0.5, 3.0]])
    scaled = Custom(lambda s, factor=2.0: [[s * factor]], actions=1, dim=1)
    np.testing.assert_array_equal(scaled(0.5, 3), [[1.0]])
    with pytest.raises(TypeError, match="function must take a state, a state and the stage h, or"):
        Custom(lambda s, a, b: [s], actions=1, dim=1)


def test_rows_of_a_probe_must_be_one_for_each_action():
    with pytest.raises(ValueError, match=r"rows must be \(A, d\), a row for each action; got sh"):
        Custom(lambda s: [1.0, s], probe=PROBE)
    with pytest.raises(ValueError, match="rows must be one position for each action; got shape"):
        Custom(lambda s: [[1, 2]], probe=PROBE, one_hot=True, dim=3)


class Staged(Features):
    """A map with everything: fields, the stage and a mask."""

    dim, actions, norm, name = 2, 2, 2.0, "staged"

    def __init__(self, **rows):
        self.rows = {"first": 1.0, "later": 1.0, "mask": [True, True]} | rows

    def __call__(self, state, h=0):
        return np.array([[self.rows["later" if h else "first"], 0.0], [0.0, state]])

    def feasible(self, state, h=0):
        return self.rows["mask"]


def test_the_digest_of_a_class_covers_what_it_does_on_the_probe():
    probed = as_features(Staged(), probe=PROBE)
    assert (probed.name, probed.digest) == ("staged", as_features(Staged(), probe=PROBE).digest)
    for rows in ({"first": 1.5}, {"later": 1.5}, {"mask": [True, False]}):
        assert as_features(Staged(**rows), probe=PROBE).digest != probed.digest
    assert as_features(Staged()).name == "staged, unverified"
    assert repr(Staged()) == "Staged(staged, unverified)"
    assert WithStage(Staged(), horizon=3).name == "staged, unverified, by stage of 3"


def test_a_map_must_have_a_row_for_each_action():
    for features in (Staged(), OneHot(states=2, actions=2)):
        assert as_features(features, actions=2).actions == 2
        with pytest.raises(ValueError, match=r"a row for each of 3 actions; got .* which has 2"):
            as_features(features, actions=3)


def test_a_probe_is_called_only_for_code():
    assert as_features(Staged(), probe=lambda: PROBE).name == "staged"
    table = OneHot(states=2, actions=2)
    assert as_features(table, probe=lambda: pytest.fail("called")) is table


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((1, 2)), r"rows must have shape \(2, 2\); got \(1, 2\) \(from mine"),
        (np.full((2, 2), np.nan), "rows must be finite; got nan"),
        (np.ones((2, 3)), r"rows must have shape \(2, 2\); got \(2, 3\)"),
        (np.full((2, 2), 9.0), "rows must not be longer than 2; got 12"),
    ],
)
def test_rows_of_a_class_are_checked_at_every_call(rows, message):
    class Mine(Features):
        dim, actions, norm, name = 2, 2, 2.0, "mine"

        def __call__(self, state, h=0):
            return rows if state > 0.5 else np.eye(2)

    for features in (as_features(Mine()), UnitRows(Mine(), bound=9.0).map):
        np.testing.assert_array_equal(features(0.1), np.eye(2))
        with pytest.raises(ValueError, match=message):
            features(0.9)


def test_masks_of_a_class_are_checked_at_every_call():
    for mask, message in (([True], r"shape \(2,\)"), ([False, False], "an action must be feasib")):
        with pytest.raises(ValueError, match=message):
            as_features(Staged(mask=mask)).feasible(0.5)
    assert as_features(Staged(mask=[1, 0])).feasible(0.5).tolist() == [True, False]


def test_a_class_need_not_take_the_stage():
    class Plain(Features):
        dim, actions = 1, 2

        def __call__(self, state):
            return [[1.0], [state]]

        def feasible(self, state):
            return [True, state > 0]

    features = as_features(Plain(), probe=PROBE)
    np.testing.assert_array_equal(features(0.5, 7), [[1.0], [0.5]])
    assert features.feasible(-1.0, 7).tolist() == [True, False]
    np.testing.assert_array_equal(WithStage(Plain(), horizon=3)(0.5, 2)[:, 0], [1.0, 0.5])


def test_a_subclass_of_a_built_in_map_is_code():
    class Reversed(OneHot):
        def __call__(self, state, h=0):
            return super().__call__(state)[::-1]

    mine, table = Reversed(states=2, actions=2), OneHot(states=2, actions=2)
    assert mine.digest != table.digest
    assert as_features(mine, probe=[0, 1]).digest != as_features(mine, probe=[0]).digest
    with pytest.raises(TypeError, match="Reversed is code of your own"):
        mine.to_bytes()


def test_a_basis_of_ones_own_is_checked_too():
    class Squares(Basis):
        inputs, size, name = 1, 1, "squares"

        def values(self, x):
            return x * x if x[0] < 3.0 else np.array([np.inf])

        def longest(self, inputs):
            return inputs**2

    features = as_features(ActionBlocks(Squares(), actions=2))
    assert features.name == "2 actions × [squares], unverified"
    np.testing.assert_array_equal(features([2.0]), [[4.0, 0.0], [0.0, 4.0]])
    with pytest.raises(ValueError, match="rows must be finite"):
        features([3.0])


class Halver:
    def transform(self, rows):
        return rows / 2


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (Staged, r"got the class Staged: write Staged\(…\)"),
        (Polynomial(inputs=1, degree=2), r"got the basis .*: write ActionBlocks\(basis, actions=…"),
        (Halver(), r"got the transformer .*write ActionBlocks\(basis_of\(transformer\), actions=…"),
    ],
)
def test_near_misses_are_told_what_to_write(thing, message):
    with pytest.raises(TypeError, match=message):
        as_features(thing, probe=PROBE)


@pytest.mark.parametrize(
    ("thing", "message"),
    [(Polynomial, r"write Polynomial\(…\)"), (Halver(), r"write basis_of\(transformer\)")],
)
def test_blocks_need_a_basis(thing, message):
    with pytest.raises(TypeError, match=rf"basis must be a Basis; got .*: {message}"):
        ActionBlocks(thing, actions=2)
