import numpy as np
import pytest

from oracles import unit_rows
from rareswitch.sim.rollout import logdet_growth, rollout


def test_the_next_state_is_the_number_of_cdf_entries_at_most_the_noise():
    rng = np.random.default_rng(0)
    runs, length, horizon, states = 3, 7, 4, 5
    cdf = rng.dirichlet(np.ones(states), (runs, horizon, states)).cumsum(axis=-1)
    noise = rng.random((runs, length, horizon))
    noise[0, 0, 0] = cdf[0, 0, 2, 1]
    initial = rng.integers(0, states, (runs, length))
    initial[0, 0] = 2
    found = rollout(cdf, initial, noise)
    assert found[0, 0, 1] == 2
    for r in range(runs):
        for k in range(length):
            s = initial[r, k]
            for h in range(horizon):
                assert found[r, k, h] == s
                s = sum(threshold <= noise[r, k, h] for threshold in cdf[r, h, s])
            assert found[r, k, horizon] == s


def test_rounding_in_the_last_cdf_entry_leads_nowhere():
    cdf = np.array([0.5, 1.0 - 1e-12])[None, None, None].repeat(2, axis=2)
    noise = np.full((1, 1, 1), np.nextafter(1.0, 0.0))
    assert rollout(cdf, np.zeros((1, 1), int), noise)[0, 0].tolist() == [0, 1]


@pytest.mark.parametrize(("states", "dim"), [(2, 6), (6, 2), (3, 3)])
def test_growth_is_that_of_the_gram_matrix(states, dim):
    rng = np.random.default_rng(1)
    root = rng.standard_normal((2, dim, dim))
    gram = root @ root.mT + np.eye(dim)
    features = unit_rows(rng, 2, states, dim)
    whitener = np.linalg.inv(np.linalg.cholesky(gram))
    visits = rng.integers(0, 50, (2, states))
    added = np.einsum("hs,hsd,hse->hde", visits, features, features)
    expected = np.linalg.slogdet(gram + added)[1] - np.linalg.slogdet(gram)[1]
    found = logdet_growth(features @ whitener.mT, visits)
    np.testing.assert_allclose(found, expected, atol=1e-10)
