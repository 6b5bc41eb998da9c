import math
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import unit_rows
from rareswitch.core.gram import Gram, OneHotGram, solve
from rareswitch.core.task import Pools

DIM = 8
UPDATES = 100_000
GRID = 2.0**20  # features on this grid have an exact Gram matrix in int64


def squared_norms(gram, columns):
    """Return φᵀΛ⁻¹φ (..., n) of columns (d, n)."""
    return ((gram.whitener @ columns) ** 2).sum(axis=-2)


def counted(features, counts):
    """Return features whose outer products count so many times each."""
    return features * np.sqrt(counts)[..., None]


def reflection(v):
    """Return I − 2vvᵀ/vᵀv, exact in float64 when vᵀv is a power of two."""
    v = np.array(v, float)
    return np.eye(len(v)) - 2.0 * np.outer(v, v) / (v @ v)


def random_unit_features(rng):
    features = np.round(unit_rows(rng, UPDATES, DIM) * GRID) / GRID
    return features, np.vstack([features[:3], np.eye(DIM)[:2]])


def hard_features_that_miss_two_directions(rng):
    delta = 11 / 32
    world = rs.worlds.hard_to_learn(d=DIM, horizon=1, delta=delta)
    features = world.features[0][rng.integers(0, world.features.shape[1], UPDATES)]
    unseen = np.zeros((2, DIM))
    unseen[0, -2:] = delta, delta - 1.0
    unseen[1, -3:-1] = 1.0 - delta, 1.0
    assert not (features @ unseen.T).any()
    return features, np.vstack([features[:3], unseen, world.features[1, :1]])


def features_in_a_rotated_subspace(rng):
    rotation = reflection(np.ones(8)) @ reflection([1, 2, 1, 1, 1, 0, 0, 0])
    features = np.round(unit_rows(rng, UPDATES, 5) * 2.0**12) / 2.0**12 @ rotation[:5]
    assert not (features @ rotation[5:].T).any()
    return features, np.vstack([features[:3], rotation[5:], features[0] + rotation[6]])


FAMILIES = [
    random_unit_features,
    hard_features_that_miss_two_directions,
    features_in_a_rotated_subspace,
]


def exact_squared_norms(features, directions, ridge):
    whole = features * GRID
    assert (whole == np.round(whole)).all()
    counts = whole.astype(np.int64)
    assert UPDATES * np.abs(counts).max().item() ** 2 < 2**63
    gram = counts.T @ counts
    with mpmath.workdps(60):
        scale = mpmath.mpf(GRID) ** 2
        matrix = mpmath.matrix(DIM, DIM)
        for i in range(DIM):
            for j in range(DIM):
                matrix[i, j] = mpmath.mpf(int(gram[i, j])) / scale
            matrix[i, i] += mpmath.mpf(ridge)
        norms = []
        for direction in directions:
            column = mpmath.matrix([mpmath.mpf(float(x)) for x in direction])
            norms.append(float((column.T * mpmath.lu_solve(matrix, column))[0]))
    return np.array(norms)


@pytest.mark.parametrize(("ridge", "tolerance"), [(1.0, 1e-8), (1e-6, 1e-6)])
def test_norms_stay_accurate_over_a_hundred_thousand_updates(ridge, tolerance):
    sets = [family(np.random.default_rng(i)) for i, family in enumerate(FAMILIES)]
    gram = Gram.of_ridge((len(sets),), DIM, ridge)
    for row in np.stack([features for features, _ in sets], axis=1):
        gram = gram.add(row)[0]
    for i, (features, directions) in enumerate(sets):
        truth = exact_squared_norms(features, directions, ridge)
        found = squared_norms(gram, directions.T)[i]
        error = np.abs(found - truth) / truth
        assert error.max() < tolerance, (FAMILIES[i].__name__, error)
        solved = [direction @ solve(gram.whitener[i], direction) for direction in directions]
        assert (np.abs(solved - truth) / truth).max() < tolerance, FAMILIES[i].__name__


def test_logdet_and_trace_start_at_the_ridge_and_are_those_of_the_matrix():
    rng = np.random.default_rng(3)
    features = rng.standard_normal((50, 2, 4))
    gram = Gram.of_ridge((2,), 4, 0.3)
    np.testing.assert_allclose(gram.logdet, 4 * math.log(0.3), rtol=1e-14)
    np.testing.assert_allclose(gram.trace, 4 * 0.3, rtol=1e-14)
    for row in features:
        gram = gram.add(row)[0]
    for h in range(2):
        matrix = 0.3 * np.eye(4) + features[:, h].T @ features[:, h]
        assert gram.logdet[h] == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)
        assert gram.trace[h] == pytest.approx(np.trace(matrix), rel=1e-12)
        whitener = gram.whitener[h]
        np.testing.assert_allclose(whitener.T @ whitener, np.linalg.inv(matrix), rtol=1e-9)


def test_solve_applies_the_inverse_of_that_stage():
    rng = np.random.default_rng(4)
    features = rng.standard_normal((20, 3, 4))
    gram = Gram.of_ridge((3,), 4, 0.7)
    for row in features:
        gram = gram.add(row)[0]
    target = rng.standard_normal(4)
    for h in range(3):
        matrix = 0.7 * np.eye(4) + features[:, h].T @ features[:, h]
        np.testing.assert_allclose(solve(gram.whitener[h], target), np.linalg.solve(matrix, target))


def test_what_the_inverse_loses_is_returned():
    rng = np.random.default_rng(5)
    gram = Gram.of_ridge((2, 3), 4, 0.5)
    for _ in range(30):
        before = gram.whitener.mT @ gram.whitener
        features = counted(rng.standard_normal((2, 3, 4)), rng.integers(0, 3, (2, 3)))
        inverse_times = np.vecmat(features, before)
        gram, direction, root = gram.add(features)
        np.testing.assert_allclose(direction, inverse_times, atol=1e-12)
        lost = root[..., None] * direction
        after = gram.whitener.mT @ gram.whitener
        product = lost[..., :, None] * lost[..., None, :]
        np.testing.assert_allclose(before - after, product, atol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 37])
def test_a_count_is_that_many_single_updates(count):
    rng = np.random.default_rng(6)
    directions, feature = rng.standard_normal((3, 5)), rng.standard_normal((2, 3))
    none = Gram.of_ridge((2,), 3, 0.1)
    at_once = none.add(counted(feature, np.array([count, 1])))[0]
    one_by_one = none.add(feature * [[count > 0], [1]])[0]
    for _ in range(count - 1):
        one_by_one = one_by_one.add(feature * [[1], [0]])[0]
    np.testing.assert_allclose(at_once.logdet, one_by_one.logdet, rtol=1e-12)
    np.testing.assert_allclose(at_once.trace, one_by_one.trace, rtol=1e-12)
    norms = squared_norms(at_once, directions)
    np.testing.assert_allclose(norms, squared_norms(one_by_one, directions), rtol=1e-9)


def test_runs_stacked_are_bit_identical_to_each_alone():
    rng = np.random.default_rng(7)
    features = rng.standard_normal((150, 5, 3, 4))
    stacked = Gram.of_ridge((5, 3), 4, 0.2)
    for row in features:
        stacked = stacked.add(row)[0]
    target = rng.standard_normal((5, 4))
    for run in range(5):
        alone = Gram.of_ridge((3,), 4, 0.2)
        for row in features[:, run]:
            alone = alone.add(row)[0]
        assert (alone.whitener == stacked.whitener[run]).all()
        assert (alone.logdet == stacked.logdet[run]).all()
        assert (alone.trace == stacked.trace[run]).all()
        solved = solve(stacked.whitener[:, 1], target)[run]
        assert (solve(alone.whitener[1], target[run]) == solved).all()


def test_a_zero_feature_changes_nothing():
    rng = np.random.default_rng(8)
    before = Gram.of_ridge((2,), 3, 1.0).add(rng.standard_normal((2, 3)))[0]
    for was, now in zip(before, before.add(np.zeros((2, 3)))[0], strict=True):
        assert (was == now).all()


def test_a_gram_never_changes():
    rng = np.random.default_rng(9)
    gram = Gram.of_ridge((2,), 3, 1.0)
    for _ in range(3):
        before, copies = gram, [array.copy() for array in gram]
        gram = gram.add(rng.standard_normal((2, 3)))[0]
        for was, copy in zip(before, copies, strict=True):
            assert (was == copy).all()
            with pytest.raises(ValueError, match="read-only"):
                was[...] = 0.0


# Many features at once.


@given(
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.integers(0, 9),
    st.sampled_from([0.05, 1.0, 30.0]),
    st.booleans(),
)
def test_a_block_is_its_features_one_by_one(seed, dim, steps, ridge, often):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((2, 3, steps, dim)) * rng.integers(0, 2, (2, 3, steps, 1))
    if often:
        features = counted(features, rng.integers(0, 4, (2, 3, steps)))
    one_by_one = Gram.of_ridge((2, 3), dim, ridge).add(features.sum(axis=2) / 3)[0]
    at_once = one_by_one.add_block(features)
    for i in range(steps):
        one_by_one = one_by_one.add(features[:, :, i])[0]
    inverses = [gram.whitener.mT @ gram.whitener for gram in (at_once, one_by_one)]
    np.testing.assert_allclose(*inverses, rtol=1e-9, atol=1e-12 / ridge)
    np.testing.assert_allclose(at_once.logdet, one_by_one.logdet, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(at_once.trace, one_by_one.trace, rtol=1e-12)


@pytest.mark.parametrize("steps", [1, 3, DIM - 1, DIM, DIM + 1, 40])
@pytest.mark.parametrize(("ridge", "tolerance"), [(1.0, 1e-11), (1e-6, 1e-7)])
def test_norms_stay_accurate_over_many_blocks(ridge, tolerance, steps, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "UPDATES", 600)
    sets = [family(np.random.default_rng(i)) for i, family in enumerate(FAMILIES)]
    gram, features = (
        Gram.of_ridge((len(sets),), DIM, ridge),
        np.stack([features for features, _ in sets]),
    )
    for start in range(0, UPDATES, steps):
        gram = gram.add_block(features[:, start : start + steps])
    for i, (rows, directions) in enumerate(sets):
        truth = exact_squared_norms(rows, directions, ridge)
        error = np.abs(squared_norms(gram, directions.T)[i] - truth) / truth
        assert error.max() < tolerance, (FAMILIES[i].__name__, error)
        with mpmath.workdps(60):
            counts = (rows * GRID).astype(np.int64)
            matrix = mpmath.matrix((counts.T @ counts).tolist()) / mpmath.mpf(GRID) ** 2
            logdet = mpmath.log(mpmath.det(matrix + mpmath.mpf(ridge) * mpmath.eye(DIM)))
        assert gram.logdet[i] == pytest.approx(float(logdet), abs=tolerance)


@pytest.mark.parametrize("steps", [2, 3, 4, 11])
def test_blocks_of_runs_stacked_are_bit_identical_to_each_alone(steps):
    rng = np.random.default_rng(7)
    features = rng.standard_normal((20, 5, 2, steps, 4))
    counts = rng.integers(0, 9, (20, 5, 2, steps)).astype(float)
    stacked = Gram.of_ridge((5, 2), 4, 0.2)
    for rows, often in zip(features, counts, strict=True):
        stacked = stacked.add_block(counted(rows, often))
    for run in range(5):
        alone = Gram.of_ridge((1, 2), 4, 0.2)
        for rows, often in zip(features[:, run], counts[:, run], strict=True):
            alone = alone.add_block(counted(rows, often)[None])
        for name, array in alone._asdict().items():
            assert (array[0] == getattr(stacked, name)[run]).all(), name


@pytest.mark.parametrize("steps", [1, 2, 3, 8])
def test_a_block_of_zeros_changes_nothing_beyond_rounding(steps):
    rng = np.random.default_rng(8)
    before = Gram.of_ridge((2,), 3, 1.0).add(rng.standard_normal((2, 3)))[0]
    gram = before.add_block(np.zeros((2, steps, 3))).add_block(np.zeros((2, steps, 3)))
    for name, array in gram._asdict().items():
        np.testing.assert_allclose(array, getattr(before, name), rtol=1e-14, atol=1e-15)
    assert (gram.trace == before.trace).all()
    assert (gram.logdet == before.logdet).all()


def test_a_block_leaves_the_gram_it_was_added_to_as_it_was():
    rng = np.random.default_rng(9)
    gram = Gram.of_ridge((2,), 3, 1.0)
    for steps in (1, 5):
        before, copies = gram, [array.copy() for array in gram]
        gram = gram.add_block(rng.standard_normal((2, steps, 3)))
        for was, copy, now in zip(before, copies, gram, strict=True):
            assert (was == copy).all()
            with pytest.raises(ValueError, match="read-only"):
                now[...] = 0.0


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_an_episode_is_added_to_each_pool_that_contains_its_steps(steps, shared):
    rng, pools = np.random.default_rng(11), Pools(3, shared=shared)
    features = rng.standard_normal((steps, 4))
    gram = Gram.of_ridge((pools.count,), 4, 0.5).add_episode(features, pools)
    for pool in range(pools.count):
        rows = features[[h for h in pools.stages(pool) if h < steps]]
        matrix = 0.5 * np.eye(4) + rows.T @ rows
        found = gram.whitener[pool].T @ gram.whitener[pool]
        np.testing.assert_allclose(found, np.linalg.inv(matrix), rtol=1e-11, atol=1e-13)
        assert gram.logdet[pool] == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)
        assert gram.trace[pool] == pytest.approx(np.trace(matrix), rel=1e-12)


# Episodes that are removed.

EPSILON = np.finfo(float).eps
RIDGES = pytest.mark.parametrize("ridge", [1.0, 1e-3, 1e-6])


def log_of(rng, count, *, horizon, dim):
    """Return features of episodes of any length, some of them zero."""
    lengths = rng.integers(1, horizon + 1, count)
    return [unit_rows(rng, n, dim) * rng.integers(0, 2, (n, 1)) for n in lengths]


@pytest.mark.parametrize("shared", [False, True])
@RIDGES
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 6))
def test_removed_episodes_leave_the_gram_of_the_others(shared, ridge, seed, dim, horizon):
    rng, pools = np.random.default_rng(seed), Pools(horizon, shared=shared)
    kept, removed = (log_of(rng, count, horizon=horizon, dim=dim) for count in (4, 3))
    found = wanted = Gram.of_ridge((pools.count,), dim, ridge)
    for features in [*kept[:2], *removed, *kept[2:]]:
        found = found.add_episode(features, pools)
    for features in removed:
        found = found.remove_episode(features, pools)
    for features in kept:
        wanted = wanted.add_episode(features, pools)
    tolerance = 100 * EPSILON * (1 + 1 / ridge) ** 1.5
    inverses = [gram.whitener.mT @ gram.whitener for gram in (found, wanted)]
    error = np.linalg.norm(inverses[0] - inverses[1], axis=(1, 2))
    assert (error <= tolerance * np.linalg.norm(inverses[1], axis=(1, 2))).all()
    np.testing.assert_allclose(found.logdet, wanted.logdet, rtol=0, atol=dim * tolerance)
    np.testing.assert_allclose(found.trace, wanted.trace, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shared", [False, True])
@RIDGES
def test_a_removal_is_as_accurate_as_promised(shared, ridge):
    rng, pools = np.random.default_rng(12), Pools(3, shared=shared)
    for _ in range(20):
        features = unit_rows(rng, 3, DIM)
        gram = Gram.of_ridge((pools.count,), DIM, ridge)
        gram = gram.add_episode(features, pools).remove_episode(features, pools)
        norms = squared_norms(gram, features.T) * ridge  # all are 1
        assert np.abs(norms - 1.0).max() < 20 * EPSILON * (1 + 1 / ridge) ** 1.5


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("ridge", [1e-15, 1e-17, 1e-30])
def test_a_removal_beyond_the_precision_of_floats_gives_no_nan(shared, dim, ridge):
    rng, pools, clamped = np.random.default_rng(13), Pools(4, shared=shared), 0
    for _ in range(20):
        features = unit_rows(rng, 4, dim)
        gram = Gram.of_ridge((pools.count,), dim, ridge)
        with np.errstate(all="raise"):
            gram = gram.add_episode(features, pools).remove_episode(features, pools)
        assert all(np.isfinite(array).all() for array in gram)
        clamped += (np.abs(gram.logdet - dim * math.log(ridge)) > 0.1).any()
    assert clamped or ridge == 1e-15


def test_removing_zero_features_changes_nothing():
    rng = np.random.default_rng(14)
    before = Gram.of_ridge((2,), 3, 1.0).add(rng.standard_normal((2, 3)))[0]
    for was, now in zip(before, before.remove(np.zeros((2, 3))), strict=True):
        assert (was == now).all()
        with pytest.raises(ValueError, match="read-only"):
            now[...] = 0.0


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1e-6, 0.3, 1.0, 40.0]))
def test_removed_positions_leave_the_diagonals_of_the_others(seed, shared, ridge):
    rng, pools = np.random.default_rng(seed), Pools(5, shared=shared)
    log = [rng.integers(0, 4, int(rng.integers(1, 6))) for _ in range(8)]
    found = wanted = OneHotGram.of_ridge(pools.count, 4, ridge)
    for positions in log:
        found = found.add_episode(positions, pools)
    before, was = found, (found.counts, found.logdet.copy(), found.trace.copy())
    for positions in log[5:]:
        found = found.remove_episode(positions, pools)
    for positions in log[:5]:
        wanted = wanted.add_episode(positions, pools)
    assert (found.counts == wanted.counts).all()
    np.testing.assert_allclose(found.logdet, wanted.logdet, atol=1e-12)
    np.testing.assert_allclose(found.trace, wanted.trace, rtol=1e-14, atol=1e-14)
    for now, then in zip((before.counts, before.logdet, before.trace), was, strict=True):
        assert (now == then).all()


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1e-6, 0.3, 1.0]), st.integers(0, 9))
def test_many_episodes_are_added_bit_for_bit_as_one_after_the_other(seed, shared, ridge, before):
    rng, pools = np.random.default_rng(seed), Pools(5, shared=shared)
    log = [rng.integers(0, 4, int(rng.integers(1, 6))) for _ in range(12)]
    wanted = OneHotGram.of_ridge(pools.count, 4, ridge)
    for positions in log[:before]:
        wanted = wanted.add_episode(positions, pools)
    found = wanted.add_episodes(log[before:], pools)
    for positions in log[before:]:
        wanted = wanted.add_episode(positions, pools)
    for name in ("counts", "logdet", "trace"):
        assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()
    with pytest.raises(ValueError, match="read-only"):
        found.logdet[...] = 0.0


def test_positions_that_were_not_visited_cannot_be_removed():
    pools = Pools(2, shared=True)
    gram = OneHotGram.of_ridge(2, 4, 1.0).add_episode(np.array([1, 2]), pools)
    for positions in ([1, 1], [2, 1], [3]):
        with pytest.raises(ValueError, match="episode must have been absorbed"):
            gram.remove_episode(np.array(positions), pools)
    assert gram.remove_episode(np.array([1, 2]), pools).counts.sum() == 0.0


def test_solve_with_a_diagonal_is_solve_with_its_matrix():
    rng = np.random.default_rng(10)
    diagonal, target = 0.1 + rng.random((4, 3)), rng.standard_normal((4, 3))
    full = diagonal[..., None] * np.eye(3)
    found = solve(diagonal, target, one_hot=True)
    np.testing.assert_allclose(found, solve(full, target), rtol=1e-14)


# Diagonals, of one-hot features.


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1e-6, 0.3, 1.0, 40.0]))
def test_diagonals_are_those_of_the_matrices(seed, shared, ridge):
    rng, pools = np.random.default_rng(seed), Pools(5, shared=shared)
    diagonal = OneHotGram.of_ridge(pools.count, 4, ridge)
    full = Gram.of_ridge((pools.count,), 4, ridge)
    for name in ("logdet", "trace"):
        np.testing.assert_allclose(getattr(diagonal, name), getattr(full, name), rtol=1e-14)
    versions = []
    for _ in range(6):
        position = rng.integers(0, 4, int(rng.integers(1, 6)))
        versions.append((diagonal, diagonal.counts, diagonal.logdet.copy(), diagonal.trace.copy()))
        diagonal = diagonal.add_episode(position, pools)
        full = full.add_episode(np.eye(4)[position], pools)
        np.testing.assert_allclose(diagonal.logdet, full.logdet, atol=1e-8)
        np.testing.assert_allclose(diagonal.trace, full.trace, rtol=1e-12)
        inverse = np.square(diagonal.whitener)[..., None] * np.eye(4)
        np.testing.assert_allclose(inverse, full.whitener.mT @ full.whitener, atol=1e-9 / ridge)
    for gram, *was in versions:
        for now, before in zip((gram.counts, gram.logdet, gram.trace), was, strict=True):
            assert (now == before).all()


def test_a_diagonal_cannot_be_changed_from_outside():
    gram = OneHotGram.of_ridge(2, 4, 1.0)
    for _ in range(2):
        gram.counts[...] = 9.0  # a copy
        gram.whitener[...] = 9.0
        assert not (gram.counts == 9.0).any()
        for array in (gram.logdet, gram.trace):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0
        gram = gram.add_episode(np.array([1, 1]), Pools(2, shared=True))
