"""Moves are counted by position and state, whenever they are summed, and can be taken back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.core import moves as module
from rareswitch.core.moves import END, Moves
from rareswitch.core.stage import Stage
from rareswitch.core.undo import take_back

D = 9


def contents(moves):
    return {name: array.tobytes() for name, array in moves.to_arrays().items()}


def random_moves(rng, count):
    """Return moves to a few states, their positions in any order, or to the end."""
    states = [np.array([3, 4, 5]), np.array([0]), np.array([8, 1]), END]
    return [
        (int(rng.integers(3)), float(rng.random()), rng.permutation(states[rng.integers(4)]))
        for _ in range(count)
    ]


def moves_of(*taken):
    moves = Moves(D)
    moves.absorb([(p, r, np.array(state, np.int64)) for p, r, state in taken], [])
    return moves


def test_a_state_is_the_set_of_its_positions():
    moves = moves_of((0, 0.5, [3, 4]), (0, 0.25, [4, 3]), (0, 0.0, [4, 3, 4]), (1, 1.0, [3]))
    arrays = moves.to_arrays()
    assert arrays["lengths"].tolist() == [2, 1]
    assert arrays["positions"].tolist() == [3, 4, 3]
    assert arrays["pairs"].tolist() == [[0, 0], [1, 1]]
    assert arrays["sums"].tolist() == [[3.0, 0.75], [1.0, 1.0]]
    assert moves.rows == 3


def test_the_end_of_an_episode_is_worth_what_is_said_and_all_else_its_best_action():
    moves = moves_of((0, 0.5, [1, 2]), (2, 0.0, []), (2, 0.75, []), (0, 1.0, [3]))
    following = Stage(np.arange(D) / 10, None, None, 0.0, None, None)
    # V·(φ, 1, r, V): 0.2 and 0.3 after position 0, 0.9 twice after position 2
    found = moves.value_sums(following, 0.9)
    wanted = np.zeros(D + 3)
    wanted[[0, 2]] = 0.5, 1.8
    wanted[-3:] = 2.3, 0.2 * 0.5 + 0.3 + 0.9 * 0.75, 0.04 + 0.09 + 2 * 0.81
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert not Moves(D).value_sums(following, 0.9).any()


def test_arrays_are_made_anew_after_every_move():
    moves = moves_of((5, 0.5, [1, 2]))
    moves.to_arrays()
    moves.absorb([(1, 0.25, np.array([2])), (5, 0.5, np.array([2, 1]))], [])
    arrays = moves.to_arrays()
    assert arrays["pairs"].tolist() == [[1, 1], [5, 0]]
    assert arrays["sums"].tolist() == [[1.0, 0.25], [2.0, 1.0]]
    undo = []
    moves.absorb([(1, 0.25, np.array([2])), (7, 0.5, np.array([8]))], undo)
    moves.to_arrays()
    take_back(undo)
    assert {n: a.tolist() for n, a in moves.to_arrays().items()} == {
        n: a.tolist() for n, a in arrays.items()
    }


GOOD = {
    "lengths": [2, 0, 1],
    "positions": [3, 4, 3],
    "pairs": [[0, 0], [0, 2], [5, 1]],
    "sums": [[1.0, 0.5], [2.0, 0.0], [1.0, 1.0]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [2, -1, 2]}, "as many rows as there are, or none"),
        ({"lengths": [4, 0, -1]}, "as many rows as there are, or none"),
        ({"lengths": [2**62, 2**62, 3]}, "as many rows as there are, or none"),
        ({"lengths": [2, 0, 0]}, "as many as their lengths say"),
        ({"positions": [3, 4]}, "as many as their lengths say|as many rows"),
        ({"positions": [3, D, 3]}, f"positions must be from 0 to {D - 1}"),
        ({"positions": [3, -1, 3]}, f"positions must be from 0 to {D - 1}"),
        ({"positions": [3, 3, 3]}, "distinct sets of distinct rows"),
        ({"positions": [4, 4, 3]}, "distinct sets of distinct rows"),
        ({"lengths": [1, 1, 1], "positions": [3, 3, 4]}, "distinct sets of distinct rows"),
        ({"lengths": [1, 1, 1], "positions": [3, 4, 3]}, "distinct sets of distinct rows"),
        ({"lengths": [3, 0, 0]}, "distinct sets of distinct rows"),
        ({"pairs": [[0, 0], [0, 3], [5, 1]]}, "pairs must be from 0 to 2"),
        ({"pairs": [[0, 0], [0, -1], [5, 1]]}, "pairs must be from 0 to 2"),
        ({"pairs": [[0, 0], [D, 2], [5, 1]]}, f"pairs must be from 0 to {D - 1}"),
        ({"pairs": [[-1, 0], [0, 2], [5, 1]]}, f"pairs must be from 0 to {D - 1}"),
        ({"pairs": [[0, 0], [0, 0], [5, 1]]}, "moves must be distinct pairs"),
        ({"lengths": [], "positions": []}, "pairs must be from 0 to"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change, message):
    kinds = {"lengths": np.int64, "positions": np.int64, "pairs": np.int64, "sums": np.float64}
    good = Moves(D)
    good.fill(**{name: np.array(value, kinds[name]) for name, value in GOOD.items()})
    assert {n: a.tolist() for n, a in good.to_arrays().items()} == GOOD
    bad = {name: np.array(value, kinds[name]) for name, value in (GOOD | change).items()}
    with pytest.raises(ValueError, match=message):
        Moves(D).fill(**bad)


@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_when_moves_are_summed_makes_no_difference(seed, sizes):
    rng = np.random.default_rng(seed)
    parts = [random_moves(rng, size) for size in sizes]
    late, early, at_once = Moves(D), Moves(D), Moves(D)
    for part in parts:
        late.absorb(part, [])
        early.absorb(part, [])
        early.to_arrays()
    at_once.absorb([move for part in parts for move in part], [])
    assert contents(late) == contents(early) == contents(at_once)
    arrays = late.to_arrays()
    assert arrays["sums"][:, 0].sum() == sum(sizes)
    together = sum(reward for part in parts for _, reward, _ in part)
    assert arrays["sums"][:, 1].sum() == pytest.approx(together)
    pairs = arrays["pairs"].tolist()
    assert pairs == sorted(pairs)


def test_moves_that_are_many_are_summed_and_the_list_stays_short(monkeypatch):
    rng = np.random.default_rng(1)
    plain, summed, undo = Moves(D), Moves(D), []
    parts = [random_moves(rng, 4) for _ in range(20)]
    for part in parts:
        plain.absorb(part, [])
    monkeypatch.setattr(module, "MOST_WAITING", 10)
    for part in parts:
        summed.absorb(part, [])
    before = contents(summed)
    assert before == contents(plain)
    for _ in range(9):
        summed.absorb(random_moves(rng, 4), undo)
    take_back(undo)
    assert contents(summed) == before


@given(st.integers(0, 10**6), st.lists(st.booleans(), min_size=1, max_size=6))
def test_moves_taken_back_leave_no_trace_though_a_fit_has_asked_for_them(seed, asked):
    rng = np.random.default_rng(seed)
    known, tried = random_moves(rng, 3), [random_moves(rng, 3) for _ in asked]
    moves, untouched, undo = Moves(D), Moves(D), []
    following = Stage(np.arange(D) / 10, None, None, 0.0, None, None)
    for each in (moves, untouched):
        each.absorb(known, [])
    wanted = untouched.value_sums(following, 0.3).copy()
    so_far = list(known)
    for part, asks in zip(tried, asked, strict=True):
        moves.absorb(part, undo)
        so_far += part
        if asks:
            at_once = Moves(D)
            at_once.absorb(so_far, [])
            found = moves.value_sums(following, 0.3)
            np.testing.assert_array_equal(found, at_once.value_sums(following, 0.3))
    take_back(undo)
    np.testing.assert_array_equal(moves.value_sums(following, 0.3), wanted)
    assert contents(moves) == contents(untouched)
    assert moves.rows == untouched.rows
    for part in reversed(tried):
        moves.absorb(part, [])
        untouched.absorb(part, [])
        assert contents(moves) == contents(untouched)
