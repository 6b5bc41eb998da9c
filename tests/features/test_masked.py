import numpy as np
import pytest

from rareswitch.features import ActionBlocks, Identity, Masked, OneHot, WithStage

TABLE = OneHot(states=3, actions=2)
PLAIN = ActionBlocks(Identity(inputs=1), actions=2)
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
        ValueError, match=r"mask must be truth values of shape \(2,\); got .* in st"
    ):
        Masked(PLAIN, lambda state: said).feasible([0.0])


def test_tables_are_for_tables():
    with pytest.raises(TypeError, match="mask must be a function of the state, unless"):
        Masked(PLAIN, ALLOWED)
    with pytest.raises(ValueError, match=r"mask must be truth values of shape \(3, 2\)"):
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
    assert (
        Masked(PLAIN, positive).name
        == "2 actions × [1 as they are], masked by positive, unverified"
    )
    assert probed.name == "2 actions × [1 as they are], masked by positive"
    with pytest.raises(TypeError, match="positive is code of your own, which has no bytes"):
        probed.to_bytes()
    with pytest.raises(ValueError, match="an action in every state"):
        Masked(PLAIN, lambda state: [False, False], probe=states)
