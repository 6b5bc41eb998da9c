"""Sums over rows of features are those of the raw steps, pool by pool, and can be taken back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import ragged_episode
from rareswitch.core import codec
from rareswitch.core.dense import DenseSums
from rareswitch.core.pools import Pools
from rareswitch.core.stage import Stage
from rareswitch.core.undo import take_back

H, D, RIDGE = 4, 3, 0.6
STAGES = pytest.mark.parametrize("stages", ["own", "shared"])


def log_of(seed, count, *, horizon=H):
    """Return episodes that meet some states again, their rows in another order."""
    rng = np.random.default_rng(seed)
    log = [ragged_episode(rng, horizon=horizon, dim=D) for _ in range(count)]
    menus = [rows for episode in log for rows in episode.next_features]
    if not menus:
        return log
    return [
        type(e)(
            features=e.features,
            rewards=e.rewards,
            next_features=[
                rng.permutation(menus[rng.integers(len(menus))]) for _ in e.next_features
            ],
        )
        for e in log
    ]


def sums_of(log, stages, *, horizon=H):
    found = DenseSums(Pools(horizon, stages), D, RIDGE)
    for episode in log:
        found.absorb([episode], [])
    return found


def contents(sums):
    return {name: array.tobytes() for name, array in sums.to_arrays().items()}


def a_stage(rng, *leading):
    return Stage(
        weights=rng.standard_normal((*leading, D)),
        levels=None,
        whitener=None,
        beta=0.0,
        offsets=None,
        cap=3.0,
    )


@given(st.integers(0, 10**6), st.sampled_from(["own", "shared"]), st.integers(1, H))
def test_sums_are_those_of_the_raw_steps_of_each_pool(seed, stages, horizon):
    log, pools = log_of(seed, 9, horizon=horizon), Pools(horizon, stages)
    found, following = sums_of(log, stages, horizon=horizon), a_stage(np.random.default_rng(1))
    for pool in range(pools.count):
        there = [(e, h) for e in log for h in pools.stages_of(pool) if h < len(e)]
        steps = np.array([[*e.features[h], 1.0, e.rewards[h]] for e, h in there]).reshape(-1, D + 2)
        np.testing.assert_allclose(found.step_sums[pool], steps.sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(found.reward_sums[pool], steps[:, -1] @ steps, atol=1e-12)
        matrix = RIDGE * np.eye(D) + steps[:, :D].T @ steps[:, :D]
        gram = found.gram
        inverse = gram.whitener[pool].T @ gram.whitener[pool]
        np.testing.assert_allclose(inverse, np.linalg.inv(matrix), atol=1e-10)
        np.testing.assert_allclose(gram.logdet[pool], np.linalg.slogdet(matrix)[1], atol=1e-11)
        np.testing.assert_allclose(gram.trace[pool], np.trace(matrix), rtol=1e-12)
        if pool == pools.count - 1:
            continue  # the pool of the last stage, after which nothing follows
        values = np.array(
            [
                following.q_values(e.next_features[h]).max() if h < len(e.next_features) else 0.7
                for e, h in there
            ]
        )
        wanted = [*(values @ steps), values @ values]
        np.testing.assert_allclose(found.value_sums(pool, following, 0.7), wanted, atol=1e-11)


def test_what_follows_the_last_stage_of_all_is_never_asked_for():
    rng = np.random.default_rng(2)
    for stages in ("own", "shared"):
        cut, ended = (
            ragged_episode(np.random.default_rng(3), horizon=H, dim=D, steps=H, cut_off=cut_off)
            for cut_off in (True, False)
        )
        assert contents(sums_of([cut], stages)) == contents(sums_of([ended], stages))
        early = ragged_episode(rng, horizon=H, dim=D, steps=H - 1, cut_off=True)
        kept = type(early)(
            features=early.features,
            rewards=early.rewards,
            next_features=early.next_features[: H - 2],
        )
        assert contents(sums_of([early], stages)) != contents(sums_of([kept], stages))


@STAGES
def test_members_value_next_states_each_by_itself(stages):
    rng = np.random.default_rng(4)
    found, following = sums_of(log_of(4, 12), stages), a_stage(rng, 5)
    together = found.value_sums(0, following, 0.3)
    assert together.shape == (5, D + 3)
    for m in range(5):
        alone = found.value_sums(0, following.of(m), 0.3)
        np.testing.assert_allclose(together[m], alone, atol=1e-12)


@STAGES
@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(1, 3))
def test_episodes_taken_back_leave_no_trace_then_or_later(stages, seed, before, count):
    log = log_of(seed, before + count)
    kept, tried = log[:before], log[before:]
    sums, untouched = sums_of(kept, stages), sums_of(kept, stages)
    undo = []
    for episode in tried:
        sums.absorb([episode], undo)
    take_back(undo)
    assert contents(sums) == contents(untouched)
    for episode in [*reversed(tried), *log_of(seed + 1, 2), *kept]:
        sums.absorb([episode], [])
        untouched.absorb([episode], [])
        assert contents(sums) == contents(untouched)


@STAGES
def test_sums_survive_their_arrays(stages):
    log = log_of(6, 20)
    sums, copy = sums_of(log[:12], stages), DenseSums(Pools(H, stages), D, RIDGE)
    copy.fill(codec.unpack("sums", codec.pack("sums", {}, sums.to_arrays())))
    assert copy.stored_rows == sums.stored_rows > 0
    for episode in log[12:]:
        assert contents(copy) == contents(sums)
        copy.absorb([episode], [])
        sums.absorb([episode], [])
    assert contents(copy) == contents(sums)


@pytest.mark.parametrize(
    "name",
    [
        "whitener",
        "logdet",
        "trace",
        "totals",
        "totals_lost",
        "next_states/0/sums",
        "next_states/0/lost",
        "next_states/0/rows",
        "next_states/0/ended",
    ],
)
@STAGES
def test_arrays_of_other_shapes_are_refused(name, stages):
    arrays = sums_of(log_of(7, 9), stages).to_arrays()
    for wrong in (arrays[name][..., :-1], np.concatenate([arrays[name], arrays[name]])):
        packed = codec.pack("sums", {}, arrays | {name: wrong})
        with pytest.raises(ValueError, match=r"data must be a sums whose|as many as their lengths"):
            DenseSums(Pools(H, stages), D, RIDGE).fill(codec.unpack("sums", packed))
