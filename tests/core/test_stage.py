import numpy as np
import pytest

from rareswitch.core.stage import Stage

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
