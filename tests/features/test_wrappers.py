import numpy as np
import pytest

from rareswitch.features import (
    ActionBlocks,
    Custom,
    Masked,
    OneHot,
    Polynomial,
    UnitRows,
    WithStage,
)

TABLE = OneHot(states=3, actions=2)
PLAIN = ActionBlocks(Polynomial(inputs=1, degree=1, constant=False), actions=2)
ALLOWED = np.array([[True, True], [True, False], [False, True]])


def positive(state):
    return [True, state[0] > 0]


def test_a_table_says_what_is_feasible_in_each_state():
    masked = Masked(TABLE, ALLOWED)
    for state in range(3):
        np.testing.assert_array_equal(masked.feasible(state), ALLOWED[state])
        np.testing.assert_array_equal(masked(state), TABLE(state))
    with pytest.raises(ValueError, match="state must be from 0 to 2; got 3"):
        masked.feasible(3)


def test_a_function_says_what_is_feasible():
    masked = Masked(PLAIN, positive)
    assert masked.feasible([1.0]).tolist() == [True, True]
    assert masked.feasible([-1.0]).tolist() == [True, False]
    rows = masked([-1.0])
    np.testing.assert_array_equal(rows, PLAIN([-1.0]))
    assert rows[masked.feasible([-1.0])].shape == (1, 2)


def test_masks_of_zeros_and_ones_are_masks():
    for numbers in (ALLOWED.astype(np.int8), ALLOWED.tolist()):
        assert Masked(TABLE, numbers) == Masked(TABLE, ALLOWED)
    for said in ([0, 1], [1, 1], [1, 0]):
        feasible = Masked(TABLE, lambda state, said=said: np.array(said, np.int8)).feasible(0)
        assert feasible.dtype == bool
        assert feasible.tolist() == said


def test_masks_add_up_and_go_with_what_is_around():
    inner = Masked(TABLE, ALLOWED)
    outer = WithStage(Masked(inner, lambda state: [state != 0, True]), horizon=2)
    assert outer.feasible(0, 1).tolist() == [False, True]
    assert outer.feasible(1).tolist() == [True, False]


def test_some_action_must_be_feasible():
    with pytest.raises(ValueError, match="an action in every state; none in row 1"):
        Masked(TABLE, [[True, True], [False, False], [True, True]])
    masked = Masked(PLAIN, lambda state: [False, state[0] > 0])
    with pytest.raises(ValueError, match=r"an action in every state; none in \[-1\.0\]"):
        masked.feasible([-1.0])
    both = Masked(Masked(TABLE, ALLOWED), lambda state: [False, True])
    with pytest.raises(ValueError, match="an action in every state; none in 1"):
        both.feasible(1)


@pytest.mark.parametrize(
    "said", [[True], [[True, True]], [0.0, 1.0], [0, 2], [-1, 1], None, True, "ab"]
)
def test_what_is_no_mask_is_refused(said):
    with pytest.raises(
        ValueError, match=r"mask must be booleans, .* of shape \(2,\); got .* in st"
    ):
        Masked(PLAIN, lambda state: said).feasible([0.0])


def test_tables_are_for_tables():
    with pytest.raises(TypeError, match="mask must be a function of the state, unless"):
        Masked(PLAIN, ALLOWED)
    with pytest.raises(ValueError, match=r"mask must be booleans, .* of shape \(3, 2\)"):
        Masked(TABLE, ALLOWED[:2])


def test_the_digest_is_that_of_what_the_mask_says():
    states = [[1.0], [-1.0]]
    probed = Masked(PLAIN, positive, probe=states)
    assert probed.digest == Masked(PLAIN, positive, probe=states).digest

    def negative(state):
        return [True, state[0] < 0]

    negative.__name__ = "positive"
    assert probed.digest != Masked(PLAIN, negative, probe=states).digest
    assert Masked(PLAIN, positive).digest == Masked(PLAIN, negative).digest
    assert Masked(PLAIN, positive).name == "2 actions × [1 number], masked by positive, unverified"
    assert probed.name == "2 actions × [1 number], masked by positive"
    with pytest.raises(TypeError, match="positive is code of your own, which has no bytes"):
        probed.to_bytes()
    with pytest.raises(ValueError, match="an action in every state"):
        Masked(PLAIN, lambda state: [False, False], probe=states)


def test_floats_are_crossed_with_the_share_of_the_horizon():
    inner = ActionBlocks(Polynomial(inputs=2, degree=1, constant=False), actions=2)
    staged = WithStage(inner, horizon=5)
    assert (staged.dim, staged.actions, staged.one_hot) == (9, 2, False)
    for h in range(5):
        rows = staged([3.0, 4.0], h)
        np.testing.assert_array_equal(rows[:, :4], inner([3.0, 4.0]))
        np.testing.assert_array_equal(rows[:, 4:8], inner([3.0, 4.0]) * h / 4)
        np.testing.assert_array_equal(rows[:, 8], h / 4)


def test_wrappers_keep_blocks_unless_their_rows_break_them():
    inner = ActionBlocks(Polynomial(inputs=7, degree=2), actions=5)
    assert Masked(inner, lambda state: [True] * 5).blocks == 5
    assert WithStage(inner, horizon=3).blocks == 1
    divided = UnitRows(inner, bound=1.0)
    assert divided.blocks == 5
    rows = divided(np.random.default_rng(0).normal(size=7)).reshape(5, 5, -1)
    assert len({rows[a, a].tobytes() for a in range(5)}) == 1


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
    staged = WithStage(
        ActionBlocks(Polynomial(inputs=1, degree=1, constant=False), actions=1), horizon=1
    )
    np.testing.assert_array_equal(staged([2.0], 0), [[2.0, 0.0, 0.0]])
    np.testing.assert_array_equal(staged([2.0], 1), [[2.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    "inner",
    [
        OneHot(states=2, actions=2),
        ActionBlocks(Polynomial(inputs=1, degree=1, constant=False), actions=2),
    ],
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
