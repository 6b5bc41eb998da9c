import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import unit_rows
from rareswitch.core import next_states as module
from rareswitch.core.next_states import NextStates
from rareswitch.core.row_sets import row_sets
from rareswitch.core.stage import Stage
from rareswitch.core.undo import take_back

FIRST = Stage(
    weights=np.array([1.0, 0.0, 0.0]),
    levels=None,
    whitener=np.eye(3),
    beta=0.0,
    offsets=None,
    cap=None,
)


def step(feature, reward=0.0):
    """Return (φ, 1, r)."""
    return np.array([*feature, 1.0, reward])


def met(states, new, rows, undo):
    """Absorb a step that led to the state with these rows."""
    states.absorb(new[None], row_sets(rows, [len(rows)]), undo)


def contents(states):
    return {name: array.tobytes() for name, array in states.to_arrays().items()}


def menus(rng, count):
    return [unit_rows(rng, int(rng.integers(1, 5)), 3) for _ in range(count)]


def absorbed(steps):
    states = NextStates(3)
    for feature, rows in steps:
        met(states, step(feature, abs(feature[0])), rows, [])
    return states


@given(st.integers(0, 10**6))
def test_a_state_is_the_set_of_its_rows(seed):
    rng = np.random.default_rng(seed)
    rows = unit_rows(rng, 4, 3)
    rows[1, 2] = 0.0
    signed = rows.copy()
    signed[1, 2] = -0.0
    forms = [
        rows,
        rows[::-1].copy(),
        rng.permutation(rows),
        np.vstack([rows, rows[2:]]),
        signed,
        rng.permutation(np.vstack([signed, rows])),
    ]
    order = rng.permutation(len(forms))
    states = absorbed((np.ones(3), forms[i]) for i in order)
    assert len(states) == 1
    arrays = states.to_arrays()
    assert arrays["lengths"].tolist() == [4]
    assert arrays["sums"].tolist() == [[6.0, 6.0, 6.0, 6.0, 6.0]]
    assert not np.signbit(arrays["rows"][arrays["rows"] == 0.0]).any()
    again = absorbed((np.ones(3), forms[i]) for i in order[::-1])
    assert contents(again) == contents(states)
    met(states, step(np.ones(3)), rows[:3], [])  # fewer actions are another state
    assert len(states) == 2


def test_different_states_are_kept_in_the_order_they_came():
    rng = np.random.default_rng(1)
    rows, features = menus(rng, 300), unit_rows(rng, 300, 3)
    states = absorbed(zip(features, rows, strict=True))
    arrays = states.to_arrays()
    assert arrays["lengths"].tolist() == [len(each) for each in rows]
    assert (arrays["sums"] == [step(each, abs(each[0])) for each in features]).all()
    ends = np.cumsum(arrays["lengths"])
    for kept, given_ in zip(np.split(arrays["rows"], ends[:-1]), rows, strict=True):
        assert sorted(kept.tolist()) == sorted(given_.tolist())


@given(st.integers(0, 10**6), st.lists(st.integers(0, 5), max_size=12), st.integers(0, 5))
def test_a_step_taken_back_leaves_every_byte_as_it_was(seed, path, last):
    rng = np.random.default_rng(seed)
    rows, new = menus(rng, 6), step(unit_rows(rng, 1, 3)[0], 0.3)
    states = absorbed((unit_rows(rng, 1, 3)[0], rng.permutation(rows[i])) for i in path)
    before = contents(states)
    for form in (rows[last], rows[last][::-1].copy(), np.vstack([rows[last]] * 2)):
        undo = []
        met(states, new, form, undo)
        take_back(undo)
        assert contents(states) == before
    met(states, new, rows[last], [])
    assert len(states) == len({*path, last})


def test_value_sums_weigh_each_state_by_the_steps_that_led_there(monkeypatch):
    rng = np.random.default_rng(2)
    rows, features = menus(rng, 40), unit_rows(rng, 80, 3)
    states = absorbed(zip(features, rows * 2, strict=True))
    values = np.array([each[:, 0].max() for each in rows * 2])
    found = states.value_sums(FIRST, 0.0)
    steps = [step(each, abs(each[0])) for each in features]
    np.testing.assert_allclose(found, [*(values @ steps), values @ values], atol=1e-13)
    two = FIRST._replace(weights=np.array([[[1.0, 0.0, 0.0]], [[0.0, -2.0, 0.0]]]))
    by_member = states.value_sums(two, 0.0)
    assert by_member.shape == (2, 1, 6)
    np.testing.assert_allclose(by_member[0, 0], found, atol=1e-13)
    other = np.array([(-2.0 * each[:, 1]).max() for each in rows * 2])
    np.testing.assert_allclose(by_member[1, 0], [*(other @ steps), other @ other], atol=1e-12)
    monkeypatch.setattr(module, "BLOCK_ROWS", 7)
    np.testing.assert_allclose(states.value_sums(FIRST, 0.0), found, atol=1e-13)
    np.testing.assert_allclose(states.value_sums(two, 0.0), by_member, atol=1e-12)
    assert NextStates(3).value_sums(FIRST, 0.0).tolist() == [0.0] * 6
    assert NextStates(3).value_sums(two, 0.0).tolist() == np.zeros((2, 1, 6)).tolist()


def test_the_end_of_an_episode_is_worth_what_is_said():
    rng = np.random.default_rng(5)
    rows, features = menus(rng, 6), unit_rows(rng, 10, 3)
    none = np.zeros((0, 3))
    states = absorbed(zip(features, [*rows, *[none] * 4], strict=True))
    steps = np.array([step(each, abs(each[0])) for each in features])
    for ended in (0.0, 0.4, 3.0):
        values = np.array([*(each[:, 0].max() for each in rows), *[ended] * 4])
        wanted = [*(values @ steps), values @ values]
        np.testing.assert_allclose(states.value_sums(FIRST, ended), wanted, atol=1e-13)
        two = FIRST._replace(weights=np.array([[1.0, 0.0, 0.0]] * 2))
        np.testing.assert_allclose(states.value_sums(two, ended), [wanted] * 2, atol=1e-13)
    assert len(states) == 6  # the end is no state
    only = absorbed([(features[0], none), (features[1], none)])
    assert (len(only), only.rows) == (0, 0)
    wanted = [*(0.5 * (step(features[0], abs(features[0][0])) + step(features[1]))), 0.5]
    wanted[4] += 0.5 * abs(features[1][0])
    np.testing.assert_allclose(only.value_sums(FIRST, 0.5), wanted, atol=1e-13)


def test_ends_are_summed_without_loss_and_taken_back():
    none = np.zeros((0, 3))
    states = absorbed((feature * np.ones(3), none) for feature in (1e16, 1.0, -1e16))
    assert states.value_sums(FIRST, 1.0)[:4].tolist() == [1.0, 1.0, 1.0, 3.0]
    before, undo = contents(states), []
    met(states, step(np.ones(3), 0.5), none, undo)
    assert contents(states) != before
    take_back(undo)
    assert contents(states) == before


@given(st.integers(0, 10**6))
def test_steps_taken_back_together_leave_no_trace_later(seed):
    rng = np.random.default_rng(seed)
    rows, new = menus(rng, 4), step(unit_rows(rng, 1, 3)[0], 0.3)
    states, untouched = NextStates(3), NextStates(3)
    path = [rng.permutation(rows[i]) for i in rng.integers(0, 4, 12)]
    for each in (states, untouched):
        for form in path[:2]:
            met(each, new, form, [])
    undo = []
    for form in path[2:]:  # some are new, and met again with their rows in another order
        met(states, new, form, undo)
    take_back(undo)
    for form in rng.permutation(len(path)):
        assert contents(states) == contents(untouched)
        for each in (states, untouched):
            met(each, new, path[form], [])
    assert contents(states) == contents(untouched)


def test_what_sums_lose_to_rounding_counts():
    rows = np.ones((1, 3))
    states = absorbed((feature * np.ones(3), rows) for feature in (1e16, 1.0, -1e16))
    assert states.value_sums(FIRST, 0.0)[:4].tolist() == [1.0, 1.0, 1.0, 3.0]


def test_states_survive_their_arrays_and_know_those_they_meet_again():
    rng = np.random.default_rng(3)
    rows, features = menus(rng, 9), unit_rows(rng, 18, 3)
    states = absorbed(zip(features, rows * 2, strict=True))
    NextStates(3).fill(**NextStates(3).to_arrays())  # none at all
    copy = NextStates(3)
    copy.fill(**states.to_arrays())
    assert contents(copy) == contents(states)
    for each in (states, copy):
        met(each, step(features[0], 0.5), rows[4][::-1].copy(), [])
        met(each, step(features[1]), 2 * rows[4], [])
    assert contents(copy) == contents(states)
    assert len(copy) == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [0, 3]}, "at least one row"),
        ({"lengths": [-1, 4]}, "at least one row"),
        ({"lengths": [2, 2]}, "as many as their lengths say"),
        ({"lengths": [2**62, 2**62]}, "at least one row"),
        ({"rows": np.ones((3, 3))}, "distinct sets of distinct rows"),
        ({"lengths": [1, 2], "rows": np.ones((3, 3))}, "distinct sets of distinct rows"),
        ({"lengths": [1, 1], "rows": np.ones((2, 3))}, "distinct sets of distinct rows"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change, message):
    arrays = {
        "sums": np.ones((2, 5)),
        "lost": np.zeros((2, 5)),
        "lengths": np.array([2, 1]),
        "rows": np.eye(3),
        "ended": np.zeros((2, 5)),
    } | {name: np.array(value) for name, value in change.items()}
    with pytest.raises(ValueError, match=message):
        NextStates(3).fill(**arrays)
