import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import cheap
from rareswitch.core.pools import Pools

HORIZONS = range(1, 7)


def stages_by_pool(horizon, stages):
    """Return the stages of each pool, and the pool of each stage, as the documentation says."""
    if stages == "own" or horizon == 1:
        return [[h] for h in range(horizon)], list(range(horizon))
    return [list(range(horizon - 1)), list(range(horizon))], [0] * (horizon - 1) + [1]


@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("horizon", HORIZONS)
def test_all_stages_but_the_last_share_one_pool_and_the_last_learns_from_every_step(
    horizon, stages
):
    pools = Pools(horizon, stages)
    having, learning = stages_by_pool(horizon, stages)
    assert pools.count == len(having)
    assert [pools.of(h) for h in range(horizon)] == learning
    assert [list(pools.stages_of(p)) for p in range(pools.count)] == having
    assert pools.steps.tolist() == [len(stages) for stages in having]
    assert [np.flatnonzero(row).tolist() for row in pools.members] == having
    assert pools.shared is (stages == "shared" and horizon > 1)
    for h in range(horizon):  # a stage learns from its own steps, whatever else
        assert h in having[pools.of(h)]


def test_a_single_stage_has_nothing_to_share():
    own, shared = Pools(1, "own"), Pools(1, "shared")
    assert (own.count, own.of(0), own.steps.tolist()) == (1, 0, [1.0])
    assert (shared.count, shared.of(0), shared.steps.tolist()) == (1, 0, [1.0])
    assert not shared.shared


@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("horizon", HORIZONS)
def test_the_steps_of_an_episode_have_a_place_in_each_pool_that_has_their_stage(horizon, stages):
    having, _ = stages_by_pool(horizon, stages)
    for steps in range(1, horizon + 1):
        pool, step = Pools(horizon, stages).places(steps)
        wanted = [(p, h) for p, its in enumerate(having) for h in its if h < steps]
        assert sorted(zip(pool.tolist(), step.tolist(), strict=True)) == sorted(wanted)


@given(
    st.integers(1, 5), st.sampled_from(["own", "shared"]), st.lists(st.integers(1, 3), max_size=2)
)
def test_sums_over_a_pool_are_those_over_its_stages(horizon, stages, leading):
    having, _ = stages_by_pool(horizon, stages)
    by_stage = np.random.default_rng(horizon).random((*leading, horizon, 4))
    found = Pools(horizon, stages).summed(by_stage)
    for pool, its in enumerate(having):
        np.testing.assert_allclose(found[..., pool, :], by_stage[..., its, :].sum(axis=-2))
    assert found.shape == (*leading, len(having), 4)


@given(
    st.integers(1, 5),
    st.sampled_from(["own", "shared"]),
    st.lists(st.integers(1, 3), max_size=2),
    st.integers(1, 3),
    st.data(),
)
def test_a_pool_has_all_steps_of_its_stages_and_else_nothing(horizon, stages, leading, each, data):
    played = data.draw(st.integers(1, horizon))
    having, _ = stages_by_pool(horizon, stages)
    steps = np.random.default_rng(horizon).random((*leading, played, each, 2))
    found = Pools(horizon, stages).pooled(steps)
    if not Pools(horizon, stages).shared:
        assert found is steps
        return
    for pool, its in enumerate(having):
        kept = found[..., pool, :, :]
        inside = kept.any(axis=tuple({*range(kept.ndim)} - {kept.ndim - 2}))
        wanted = [steps[..., h, :, :] for h in its if h < played]
        assert int(inside.sum()) == each * len(wanted)
        if wanted:
            np.testing.assert_array_equal(kept[..., inside, :], np.concatenate(wanted, axis=-2))


def test_long_horizons_cost_no_more_than_their_length():
    with cheap(megabytes=20.0, seconds=30.0):
        own = Pools(100_000)
        assert own.steps.sum() == 100_000
        pool, step = own.places(70_000)
        assert (pool == step).all()
        assert len(pool) == 70_000
        assert list(own.stages_of(99_999)) == [99_999]
        shared = Pools(100_000, "shared")
        assert shared.steps.tolist() == [99_999, 100_000]
        assert len(shared.places(100_000)[0]) == 199_999


def test_what_pools_hand_out_cannot_be_changed():
    for pools in (Pools(3), Pools(3, "shared")):
        for array in (pools.steps, pools.members):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0,), ValueError, "horizon must be from 1 to 1000000; got 0"),
        ((2.0,), TypeError, "horizon must be a whole number"),
        ((10**7,), ValueError, "horizon must be from 1 to 1000000; got 10000000"),
        ((3, "each"), ValueError, "stages must be one of 'own', 'shared'; got 'each'"),
        ((3, None), ValueError, "stages must be one of 'own', 'shared'; got None"),
        ((3, True), ValueError, "stages must be one of 'own', 'shared'; got True"),
    ],
)
def test_bad_pools_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Pools(*arguments)


def test_pools_are_values():
    assert Pools(3, "shared") == Pools(np.int64(3), "shared") != Pools(3)
    assert hash(Pools(3)) == hash(Pools(3, "own"))
