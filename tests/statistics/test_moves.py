"""Moves are counted by position and state, and valued as one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.core.lsvi import QFunction
from rareswitch.statistics import moves as module
from rareswitch.statistics.moves import END, Moves

D = 9


def contents(moves):
    return {name: array.tobytes() for name, array in moves.to_arrays().items()}


def random_moves(rng, count):
    """Return moves to a few states, their positions in any order, or to the end."""
    states = [np.array([3, 4, 5]), np.array([0]), np.array([8, 1]), END]
    return [
        (int(rng.integers(3)), 1.0, float(rng.random()), rng.permutation(states[rng.integers(4)]))
        for _ in range(count)
    ]


def moves_of(*taken):
    return Moves.none(D).add([(p, 1.0, r, np.array(state, np.int64)) for p, r, state in taken])


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
    following = QFunction(np.arange(D) / 10, None, None, 0.0, None, None)
    # V·(φ, 1, r, V): 0.2 and 0.3 after position 0, 0.9 twice after position 2
    found = moves.value_sums(following, 0.9)
    wanted = np.zeros(D + 3)
    wanted[[0, 2]] = 0.5, 1.8
    wanted[-3:] = 2.3, 0.2 * 0.5 + 0.3 + 0.9 * 0.75, 0.04 + 0.09 + 2 * 0.81
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert not Moves.none(D).value_sums(following, 0.9).any()


def test_moves_never_change():
    moves = moves_of((5, 0.5, [1, 2]))
    before = contents(moves)
    longer = moves.add([(1, 1.0, 0.25, np.array([2])), (5, 1.0, 0.5, np.array([2, 1]))])
    arrays = {name: array.tolist() for name, array in longer.to_arrays().items()}
    assert arrays["pairs"] == [[1, 1], [5, 0]]
    assert arrays["sums"] == [[1.0, 0.25], [2.0, 1.0]]
    longer.add([(1, 1.0, 0.25, np.array([2])), (7, 1.0, 0.5, np.array([8]))]).to_arrays()
    assert {name: array.tolist() for name, array in longer.to_arrays().items()} == arrays
    assert contents(moves) == before
    assert moves.add([]) is moves


def test_a_move_that_is_removed_leaves_its_pair_with_a_count_of_0():
    end, there = np.array([], np.int64), np.array([1, 2])
    taken = [(5, 1.0, 0.5, there), (5, 1.0, 0.25, there[::-1]), (3, 1.0, 0.75, end)]
    removed = [(position, -1.0, -reward, state) for position, _, reward, state in taken]
    moves = Moves.none(D).add(taken).add(removed[:1])
    assert moves.to_arrays()["sums"].tolist() == [[1.0, 0.75], [1.0, 0.25]]
    moves = moves.add(removed[1:])
    assert moves.to_arrays()["sums"].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    for table in (2**16, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "LARGEST_TABLE", table)
            stored = Moves.from_arrays(D, **moves.to_arrays())
            following = QFunction(np.arange(D) / 10, None, None, 0.0, None, None)
            assert not stored.value_sums(following, 0.9).any()
    assert contents(stored) == contents(moves)


GOOD = {
    "lengths": [2, 0, 1],
    "positions": [3, 4, 3],
    "pairs": [[0, 0], [0, 2], [5, 1]],
    "sums": [[1.0, 0.5], [2.0, 0.0], [1.0, 1.0]],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [2, -1, 2]}, "must be from 0 to the number of rows"),
        ({"lengths": [4, 0, -1]}, "must be from 0 to the number of rows"),
        ({"lengths": [2**62, 2**62, 3]}, "must be from 0 to the number of rows"),
        ({"lengths": [2, 0, 0]}, "add up to the number of rows"),
        ({"positions": [3, 4]}, "add up to the number of rows"),
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
    good = Moves.from_arrays(
        D, **{name: np.array(value, kinds[name]) for name, value in GOOD.items()}
    )
    assert {n: a.tolist() for n, a in good.to_arrays().items()} == GOOD
    bad = {name: np.array(value, kinds[name]) for name, value in (GOOD | change).items()}
    with pytest.raises(ValueError, match=message):
        Moves.from_arrays(D, **bad)


def test_the_order_of_stored_pairs_does_not_matter():
    turned = GOOD | {name: GOOD[name][::-1] for name in ("pairs", "sums")}
    kinds = {"lengths": np.int64, "positions": np.int64, "pairs": np.int64, "sums": np.float64}
    found = [
        Moves.from_arrays(D, **{name: np.array(value, kinds[name]) for name, value in each.items()})
        for each in (GOOD, turned)
    ]
    assert contents(found[0]) == contents(found[1])


@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_in_whatever_parts_moves_come_the_bytes_are_the_same(seed, sizes):
    rng = np.random.default_rng(seed)
    parts = [random_moves(rng, size) for size in sizes]
    in_parts = stored = one_by_one = Moves.none(D)
    for part in parts:
        in_parts = in_parts.add(part)
        stored = Moves.from_arrays(D, **stored.add(part).to_arrays())
        for move in part:
            one_by_one = one_by_one.add([move])
    at_once = Moves.none(D).add([move for part in parts for move in part])
    assert contents(in_parts) == contents(at_once) == contents(one_by_one) == contents(stored)
    arrays = in_parts.to_arrays()
    assert arrays["sums"][:, 0].sum() == sum(sizes)
    together = sum(reward for part in parts for _, _, reward, _ in part)
    assert arrays["sums"][:, 1].sum() == pytest.approx(together)
    pairs = arrays["pairs"].tolist()
    assert pairs == sorted(pairs)


@given(st.integers(0, 10**6), st.lists(st.booleans(), min_size=1, max_size=6))
def test_moves_that_were_tried_leave_no_trace_though_a_fit_has_asked_for_them(seed, asked):
    rng = np.random.default_rng(seed)
    known, tried = random_moves(rng, 3), [random_moves(rng, 3) for _ in asked]
    moves, untouched = Moves.none(D).add(known), Moves.none(D).add(known)
    following = QFunction(np.arange(D) / 10, None, None, 0.0, None, None)
    wanted = untouched.value_sums(following, 0.3).copy()
    so_far, longer = list(known), moves
    for part, asks in zip(tried, asked, strict=True):
        longer = longer.add(part)
        so_far += part
        if asks:
            at_once = Moves.none(D).add(so_far)
            found = longer.value_sums(following, 0.3)
            np.testing.assert_array_equal(found, at_once.value_sums(following, 0.3))
    np.testing.assert_array_equal(moves.value_sums(following, 0.3), wanted)
    assert contents(moves) == contents(untouched)
    assert moves.rows == untouched.rows
    for part in reversed(tried):
        moves, untouched = moves.add(part), untouched.add(part)
        assert contents(moves) == contents(untouched)


def arrays_of(rng, states, moves):
    """Return states of any size, the end among them, and as many distinct moves."""
    every = [np.flatnonzero([number >> p & 1 for p in range(D)]) for number in range(1, 2**D)]
    several = [rng.permutation(every[i]) for i in rng.permutation(len(every))[: max(0, states - 1)]]
    positions = [END, *several][:states]
    lengths = np.array([len(each) for each in positions], np.int64)
    pairs = np.array([(p, s) for p in range(D) for s in range(states)], np.int64).reshape(-1, 2)
    chosen = np.sort(rng.permutation(len(pairs))[:moves])
    counts = rng.integers(1, 5, len(chosen)).astype(float)
    return {
        "lengths": lengths,
        "positions": np.concatenate([END, *positions]),
        "pairs": pairs[chosen],
        "sums": np.stack([counts, counts * rng.random(len(chosen))], axis=1),
    }


def written_out(arrays, following, ended):
    """Return the sums move by move."""
    ends = np.cumsum(arrays["lengths"])
    total = np.zeros((*following.weights.shape[:-1], D + 3))
    for (position, state), (count, reward) in zip(arrays["pairs"], arrays["sums"], strict=True):
        rows = arrays["positions"][ends[state] - arrays["lengths"][state] : ends[state]]
        value = following.q_values(rows).max(axis=-1) if len(rows) else ended
        total[..., position] += count * value
        total[..., -3] += count * value
        total[..., -2] += reward * value
        total[..., -1] += count * value**2
    return total


@pytest.mark.parametrize("table", [True, False], ids=["a table", "move by move"])
@given(
    st.integers(0, 10**6),
    st.integers(0, 5),
    st.integers(0, 12),
    st.sampled_from([(), (3,), (2, 3)]),
    st.sampled_from([0.0, 0.7]),
)
def test_sums_are_those_of_the_moves_one_by_one(table, seed, states, moves, leading, ended):
    rng = np.random.default_rng(seed)
    arrays = arrays_of(rng, states, moves)
    following = QFunction(rng.standard_normal((*leading, D)), None, None, 0.0, None, 2.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGEST_TABLE", 2**16 if table else -1)
        found = Moves.from_arrays(D, **arrays).value_sums(following, ended)
    assert found.shape == (*leading, D + 3)
    np.testing.assert_allclose(found, written_out(arrays, following, ended), atol=1e-12)


def test_sums_may_be_asked_for_every_stage():
    rng = np.random.default_rng(1)
    arrays = arrays_of(rng, 5, 12)
    moves = Moves.from_arrays(D, **arrays)
    for ended in (0.0, 0.2, 0.4):
        following = QFunction(rng.standard_normal(D), None, None, 0.0, None, None)
        wanted = written_out(arrays, following, ended)
        np.testing.assert_allclose(moves.value_sums(following, ended), wanted, atol=1e-12)
