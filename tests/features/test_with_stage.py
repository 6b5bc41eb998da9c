import numpy as np
import pytest

from rareswitch.features import ActionBlocks, Custom, Identity, OneHot, WithStage


def test_floats_are_crossed_with_the_share_of_the_horizon():
    inner = ActionBlocks(Identity(inputs=2), actions=2)
    staged = WithStage(inner, horizon=5)
    assert (staged.dim, staged.actions, staged.one_hot) == (9, 2, False)
    for h in range(5):
        rows = staged([3.0, 4.0], h)
        np.testing.assert_array_equal(rows[:, :4], inner([3.0, 4.0]))
        np.testing.assert_array_equal(rows[:, 4:8], inner([3.0, 4.0]) * h / 4)
        np.testing.assert_array_equal(rows[:, 8], h / 4)


def test_the_bound_holds_at_the_last_stage():
    unit = Custom(lambda state: np.eye(2), actions=2, dim=2, norm=1.0)
    staged = WithStage(unit, horizon=3)
    assert staged.norm == pytest.approx(np.linalg.norm(staged(None, 2), axis=1).max())


def test_one_hot_rows_become_one_for_each_stage():
    staged = WithStage(OneHot(states=2, actions=2), horizon=3)
    assert (staged.dim, staged.one_hot, staged.norm) == (12, True, 1.0)
    found = np.concatenate([staged(state, h) for h in range(3) for state in range(2)])
    assert found.tolist() == list(range(12))


def test_a_horizon_of_one_has_one_stage():
    staged = WithStage(ActionBlocks(Identity(inputs=1), actions=1), horizon=1)
    np.testing.assert_array_equal(staged([2.0], 0), [[2.0, 0.0, 0.0]])
    np.testing.assert_array_equal(staged([2.0], 1), [[2.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    "inner", [OneHot(states=2, actions=2), ActionBlocks(Identity(inputs=1), actions=2)]
)
def test_after_the_last_step_rows_are_those_of_the_last_stage(inner):
    staged, state = WithStage(inner, horizon=3), 1 if inner.one_hot else [1.0]
    np.testing.assert_array_equal(staged(state, 3), staged(state, 2))
    assert not np.array_equal(staged(state, 2), staged(state, 1))
    for h in (-1, 4):
        with pytest.raises(ValueError, match=f"h must be from 0 to 3; got {h}"):
            staged(state, h)


def test_the_stage_is_handed_on():
    class Halves(Custom):
        def __call__(self, state, h=0):
            return np.full((1, 1), 1.0 + h)

    inner = Halves(lambda state: None, actions=1, dim=1)
    np.testing.assert_array_equal(WithStage(inner, horizon=3)(None, 2), [[3.0, 3.0, 1.0]])


@pytest.mark.parametrize("inner", [np.eye, OneHot, None])
def test_only_maps_can_be_wrapped(inner):
    with pytest.raises(TypeError, match="map must be a feature map, with dim, actions"):
        WithStage(inner, horizon=3)
