import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.core import move_sums as module
from rareswitch.core.move_sums import MoveSums
from rareswitch.core.stage import Stage

D = 6


def arrays_of(rng, states, moves):
    """Return states of any size, the end among them, and as many distinct moves."""
    lengths = rng.integers(0, 4, states)
    lengths[: min(1, states)] = 0
    positions = [rng.permutation(D)[:length] for length in lengths]
    pairs = np.array([(p, s) for p in range(D) for s in range(states)], np.int64).reshape(-1, 2)
    chosen = np.sort(rng.permutation(len(pairs))[:moves])
    counts = rng.integers(1, 5, len(chosen)).astype(float)
    return {
        "lengths": lengths,
        "positions": np.concatenate([np.zeros(0, np.int64), *positions]),
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
    following = Stage(rng.standard_normal((*leading, D)), None, None, 0.0, None, 2.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGEST_TABLE", 2**16 if table else -1)
        found = MoveSums(D, **arrays).of(following, ended)
    assert found.shape == (*leading, D + 3)
    np.testing.assert_allclose(found, written_out(arrays, following, ended), atol=1e-12)


def test_sums_may_be_asked_for_every_stage():
    rng = np.random.default_rng(1)
    arrays = arrays_of(rng, 5, 12)
    sums = MoveSums(D, **arrays)
    for ended in (0.0, 0.2, 0.4):
        following = Stage(rng.standard_normal(D), None, None, 0.0, None, None)
        wanted = written_out(arrays, following, ended)
        np.testing.assert_allclose(sums.of(following, ended), wanted, atol=1e-12)
