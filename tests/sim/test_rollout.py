import sys

import numpy as np
import pytest

import rareswitch as rs
from oracles import unit_rows
from rareswitch.sim import FiniteMDP, baselines, simulate_random
from rareswitch.sim.mdp import thresholds
from rareswitch.sim.rollout import Visits, logdet_growth, rollout

LARGEST = 1.0 - 2.0**-53  # the largest uniform below 1


def test_the_next_state_is_the_number_of_cdf_entries_at_most_the_noise():
    rng = np.random.default_rng(0)
    runs, length, horizon, states = 3, 7, 4, 5
    chances = rng.dirichlet(np.ones(states), (runs, horizon, states))
    cdf = chances.cumsum(axis=-1)[..., :-1]
    noise = rng.random((runs, length, horizon))
    noise[0, 0, 0] = cdf[0, 0, 2, 1]
    initial = rng.integers(0, states, (runs, length))
    initial[0, 0] = 2
    found = rollout(thresholds(chances), initial, noise)
    assert found[0, 0, 1] == 2
    for r in range(runs):
        for k in range(length):
            s = initial[r, k]
            for h in range(horizon):
                assert found[r, k, h] == s
                s = sum(entry <= noise[r, k, h] for entry in cdf[r, h, s])
            assert found[r, k, horizon] == s


@pytest.mark.parametrize(
    ("chances", "reached"),
    [
        ([1.0, 0.0, 0.0], [0, 0]),
        ([0.5, 0.5 - 1e-12, 0.0], [0, 1]),
        ([0.0, 1.0 - 1e-10, 0.0], [1, 1]),
        ([0.0, 0.0, 1.0], [2, 2]),
        ([0.1, 0.0, 0.9 - 1e-12], [0, 2]),
        ([1.0, 1e-300, 0.0], [0, 0]),
    ],
)
def test_no_uniform_leads_to_a_state_of_probability_zero(chances, reached):
    limits = thresholds(np.array(chances))
    assert [int((limits <= noise).sum()) for noise in (0.0, LARGEST)] == reached


def short_of_one():
    """Return a world whose rows sum to just below 1, with a last state that is never reached."""
    states, horizon = 4, 3
    transitions = np.zeros((horizon, states, 2, states))
    transitions[..., :2] = 0.5 - 1e-10
    return FiniteMDP(
        features=np.eye(states * 2).reshape(states, 2, -1),
        transitions=transitions,
        rewards=np.full((horizon, states, 2), 0.5),
    )


PLAYERS = {
    "simulate": lambda world, **kw: rs.simulate(world, rs.DeterminantGrowth(eta=2.0), **kw),
    "simulate_random": simulate_random,
    **{name: getattr(baselines, name) for name in baselines.__all__},
    "layer_by_layer": lambda world, **kw: baselines.layer_by_layer(world, batches=4, **kw),
}


@pytest.mark.parametrize("play", PLAYERS.values(), ids=PLAYERS)
def test_whatever_plays_never_reaches_a_state_of_probability_zero(play, monkeypatch):
    def extreme(given, episodes, horizon, seed):
        return np.full((episodes, horizon), LARGEST)

    for module in ("simulation", "simulate", "baselines.play"):
        monkeypatch.setattr(sys.modules[f"rareswitch.sim.{module}"], "noise_of", extreme)
    run = play(short_of_one(), episodes=20, seed=1)
    assert (run.states[:, 1:] == 1).all()


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


@pytest.mark.parametrize("count", [3, 40])  # sums kept, and counted on demand
def test_visits_are_those_of_the_episodes_so_far(count):
    rng = np.random.default_rng(count)
    cells = rng.integers(0, count, (4, 9, 2))
    visits = Visits(cells, count)
    runs, last = np.array([0, 2, 3]), np.array([0, 8, 4])
    found = visits.until(runs, last)
    assert found.shape == (3, 2, count)
    for n, (r, end) in enumerate(zip(runs, last, strict=True)):
        for h in range(2):
            expected = np.bincount(cells[r, : end + 1, h], minlength=count)
            np.testing.assert_array_equal(found[n, h], expected)
