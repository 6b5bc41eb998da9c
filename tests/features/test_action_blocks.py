import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features import ActionBlocks, Polynomial


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99))
def test_each_action_has_the_basis_in_its_own_block(actions, inputs, seed):
    basis, x = Polynomial(inputs=inputs, degree=2), np.random.default_rng(seed).normal(size=inputs)
    blocks = ActionBlocks(basis, actions=actions)
    assert blocks.dim == actions * basis.size
    np.testing.assert_allclose(blocks(x), np.kron(np.eye(actions), basis(x)))


def test_calls_do_not_share_their_rows():
    blocks = ActionBlocks(Polynomial(inputs=2, degree=1, constant=False), actions=2)
    first = blocks([1.0, 2.0])
    blocks([3.0, 4.0])
    np.testing.assert_array_equal(first, [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]])


def test_sizes_and_bounds_are_those_of_the_basis():
    blocks = ActionBlocks(Polynomial(inputs=2, degree=1, constant=False), actions=3)
    assert (blocks.actions, blocks.one_hot, blocks.norm) == (3, False, np.inf)
    assert blocks.name == "3 actions × [2 numbers]"
    assert blocks.feasible([0.0, 0.0]) is None
    assert blocks.blocks == 3


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="basis must be a Basis; got"):
        ActionBlocks(np.cos, actions=2)
    with pytest.raises(ValueError, match="actions must be from 1 to"):
        ActionBlocks(Polynomial(inputs=2, degree=1, constant=False), actions=0)
