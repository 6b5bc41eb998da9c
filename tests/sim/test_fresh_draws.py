"""RLSVI and LSVI-PHE are schedules and explorations of the library, with declared noise.

Both draw anew before every episode. Their pseudocode is transcribed here from the raw history.
"""

import numpy as np
import pytest

import rareswitch as rs
from literal import lowest, symmetric_root
from rareswitch.support.streams import KeyedStream, Stream
from sim.literal_baselines import LINEAR

SEED, EPISODES = (5, 3), 30


def steps_of(world, run, h, count):
    """Return features, rewards and next states of stage h in the first episodes of a run."""
    states, actions = run.states[:count], run.actions[:count, h]
    features = world.features[states[:, h], actions]
    return features, world.rewards[h, states[:, h], actions], states[:, h + 1]


def assert_greedy(world, run, k, q_values):
    """Check the actions and the regret of episode k, counted from 0, against Q (H, S, A)."""
    q_values = np.where(world.feasible, q_values, -np.inf)
    table = np.array([[lowest(row) for row in stage] for stage in q_values])
    taken = table[np.arange(world.horizon), run.states[k, :-1]]
    np.testing.assert_array_equal(run.actions[k], taken)
    start = run.states[k, 0]
    lost = world.optimal_values()[0, start] - world.policy_values(table)[0, start]
    assert run.regret[k] == pytest.approx(lost, abs=1e-8)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("sigma", "weight"), [(0.5, 2.0), (0.05, 10.0)])
@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_an_ensemble_of_one_before_every_episode_is_rlsvi(world, sigma, weight, clip):
    """Osband et al. 2016, Algorithms 1 and 2, with noise σ and prior precision λ.

    θ̄ = σ⁻²·(σ⁻²AᵀA + λI)⁻¹Aᵀb, Σ = (σ⁻²AᵀA + λI)⁻¹, θ̃ ~ N(θ̄, Σ), with b = r + max φᵀθ̃ of the
    next stage. The declared ridge is λσ², the scale σ.
    """
    recipe = rs.Recipe(
        exploration=rs.Ensemble(members=1, scale=sigma, estimate=False),
        ridge=weight * sigma**2,
        ties="lowest",
        clip=clip,
    )
    run = rs.simulate(
        world, rs.EveryEpisode(), recipe, episodes=EPISODES, seed=SEED, initial_state="uniform"
    )
    assert run.deployments == EPISODES
    drawn, H, d = KeyedStream(SEED, Stream.PERTURBATION), world.horizon, world.dim
    for k in range(EPISODES):
        normal = drawn.at(k + 1).standard_normal((1, H, 1, d))[0, :, 0]
        q_values, value = np.zeros(world.rewards.shape), np.zeros(world.states)
        for h in reversed(range(H)):
            A, rewards, after = steps_of(world, run, h, k)
            covariance = np.linalg.inv(A.T @ A / sigma**2 + weight * np.eye(d))
            mean = covariance @ A.T @ (rewards + value[after]) / sigma**2
            q_values[h] = world.features @ (mean + symmetric_root(covariance) @ normal[h])
            if clip:
                q_values[h] = np.clip(q_values[h], 0.0, H - h)
            value = np.where(world.feasible, q_values[h], -np.inf).max(axis=1)
        assert_greedy(world, run, k, q_values)


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_a_perturbation_before_every_episode_is_lsvi_phe(world, draws):
    """Ishfaq et al. 2021, Algorithm 1: J regressions with noise on every target and on the ridge.

    w̃ⱼ minimises Σ(r + V + εⱼ − φᵀw)² + λ‖w + ξⱼ‖², εⱼ ~ N(0, σ²), ξⱼ ~ N(0, σ²I/λ), so it is a
    linear map of noise n ~ N(0, I): w̃ = w + σ·Mn with M = Λ⁻¹(Φᵀ, −√λI) and MMᵀ = Λ⁻¹. The noise
    n = Mᵀ Λ^{1/2} z gives the library's draw Λ^{−1/2} z.
    """
    sigma, ridge = 0.3, 0.6
    recipe = rs.Recipe(exploration=rs.Perturbation(sigma, draws=draws), ridge=ridge, ties="lowest")
    run = rs.simulate(
        world, rs.EveryEpisode(), recipe, episodes=EPISODES, seed=SEED, initial_state="uniform"
    )
    drawn, H, d = KeyedStream(SEED, Stream.PERTURBATION), world.horizon, world.dim
    for k in range(EPISODES):
        normal = drawn.at(k + 1).standard_normal((1, H, draws, d))[0]
        q_values, value = np.zeros(world.rewards.shape), np.zeros(world.states)
        for h in reversed(range(H)):
            phi, rewards, after = steps_of(world, run, h, k)
            gram = phi.T @ phi + ridge * np.eye(d)
            inverse = np.linalg.inv(gram)
            maps = inverse @ np.hstack([phi.T, -np.sqrt(ridge) * np.eye(d)])
            np.testing.assert_allclose(maps @ maps.T, inverse, atol=1e-9)
            best = np.full(q_values[h].shape, -np.inf)
            for z in normal[h]:
                noise = sigma * (maps.T @ symmetric_root(gram) @ z)
                on_targets, on_ridge = noise[:k], noise[k:] / np.sqrt(ridge)
                target = phi.T @ (rewards + value[after] + on_targets) - ridge * on_ridge
                best = np.maximum(best, world.features @ (inverse @ target))
            q_values[h] = np.clip(best, 0.0, H - h)
            value = np.where(world.feasible, q_values[h], -np.inf).max(axis=1)
        assert_greedy(world, run, k, q_values)
