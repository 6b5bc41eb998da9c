import numpy as np
import pytest

from rareswitch.evaluation.grouped_rows import MOST_GROUPS, GroupedRows

RNG = np.random.default_rng(0)


def in_blocks(n=40, blocks=5, size=3):
    rows = np.zeros((n, blocks * size))
    for row, block in zip(rows, RNG.integers(0, blocks, n), strict=True):
        row[block * size : (block + 1) * size] = RNG.standard_normal(size)
    return rows


ROWS = {
    "blocks": in_blocks(),
    "dense": RNG.standard_normal((40, 15)),
    "too many patterns": np.diag(np.ones(2 * MOST_GROUPS)),
    "overlapping": np.array([[1.0, 2.0, 0, 0, 0, 0, 0], [0, 3.0, 4.0, 0, 0, 0, 0]] * 3),
    "zeros": np.zeros((4, 3)),
    "none": np.zeros((0, 3)),
}


@pytest.mark.parametrize("name", ROWS)
def test_products_are_those_of_the_rows(name):
    rows = ROWS[name]
    grouped, dim = GroupedRows(rows), rows.shape[1]
    weights, targets = RNG.standard_normal((dim, 4)), RNG.standard_normal((len(rows), 4))
    np.testing.assert_allclose(grouped @ weights, rows @ weights, atol=1e-12)
    np.testing.assert_allclose(grouped.sums(targets, dim), rows.T @ targets, atol=1e-12)
    np.testing.assert_allclose(grouped.gram(dim), rows.T @ rows, atol=1e-12)


def test_positions_stand_for_one_hot_rows():
    positions, dim = np.array([2, 0, 2]), 4
    rows, grouped = np.eye(dim)[positions], GroupedRows(positions)
    weights, targets = RNG.standard_normal((dim, 2)), RNG.standard_normal((3, 2))
    np.testing.assert_array_equal(grouped @ weights, rows @ weights)
    np.testing.assert_allclose(grouped.sums(targets, dim), rows.T @ targets)
    np.testing.assert_array_equal(np.diag(grouped.gram(dim)), rows.T @ rows)


def test_only_columns_in_use_are_multiplied():
    grouped = GroupedRows(ROWS["blocks"])
    assert sorted(block.shape[1] for _, _, block in grouped._groups) == [3] * 5
    assert len(GroupedRows(ROWS["dense"])._groups) == 1
