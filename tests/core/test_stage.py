import numpy as np
import pytest

from rareswitch.core.stage import Stage, along

ROWS = np.random.default_rng(9).standard_normal((6, 3))


def a_stage(*leading, cap=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return Stage(
        weights=rng.standard_normal((*leading, 3)),
        levels=rng.random(leading),
        whitener=rng.standard_normal((*leading, 3, 3)),
        beta=0.4,
        offsets=rng.standard_normal((*leading, 2, 3)),
        cap=cap,
    )


@pytest.mark.parametrize("cap", [1.0, None])
def test_leading_axes_are_so_many_stages_side_by_side(cap):
    stage = a_stage(4, cap=cap)
    values = stage.q_values(ROWS)
    assert values.shape == (4, 6)
    for r in range(4):
        np.testing.assert_allclose(values[r], stage.of(r).q_values(ROWS), rtol=1e-12)


def test_q_is_level_estimate_bonus_and_the_largest_offset_clipped():
    stage = a_stage()
    for row, value in zip(ROWS, stage.q_values(ROWS), strict=True):
        plain = stage.levels + stage.weights @ row
        bonus = 0.4 * np.linalg.norm(stage.whitener @ row)
        expected = np.clip(plain + bonus + max(o @ row for o in stage.offsets), 0.0, 1.0)
        assert value == pytest.approx(expected, abs=1e-12)
    raw = stage._replace(cap=None).q_values(ROWS)
    assert raw.min() < 0.0 or raw.max() > 1.0  # the clip had something to do


def test_what_a_stage_lacks_its_runs_lack_too():
    bare = Stage(np.ones((2, 3)), None, None, 0.0, None, None).of(1)
    assert (bare.levels, bare.whitener, bare.offsets) == (None, None, None)
    np.testing.assert_allclose(bare.q_values(ROWS), ROWS.sum(axis=1))


@pytest.mark.parametrize("leading", [(), (4,), (2, 4)])
@pytest.mark.parametrize("cap", [1.0, None])
def test_positions_are_the_rows_written_out(leading, cap):
    stage = a_stage(*leading, cap=cap)
    diagonal = np.random.default_rng(1).random((*leading, 3))
    by_rows = stage._replace(whitener=diagonal[..., None] * np.eye(3))
    by_position = stage._replace(whitener=diagonal)
    for positions in (np.arange(3), np.array([2]), np.array([1, 1, 0])):
        rows = np.eye(3)[positions]
        found = by_position.q_values(positions)
        assert found.shape == (*leading, len(positions))
        np.testing.assert_allclose(found, by_rows.q_values(rows), atol=1e-14)
        np.testing.assert_allclose(
            along(stage.weights, positions), along(stage.weights, rows), atol=1e-14
        )


def test_valuing_positions_leaves_the_stage_as_it_was():
    bare = Stage(np.array([-1.0, 0.5, 9.0]), None, None, 0.0, None, 1.0)
    assert bare.q_values(np.arange(3)).tolist() == [0.0, 0.5, 1.0]
    assert bare.weights.tolist() == [-1.0, 0.5, 9.0]
