import numpy as np
import pytest

import rareswitch as rs
from oracles import (
    masked_world,
    ragged_episode,
    ragged_learning,
    switches_of,
    unit_rows,
    walk,
)
from rareswitch.core.gram import Gram
from rareswitch.core.history import History
from rareswitch.core.log import LocalPartitions, LogPartition, LogStatistics
from rareswitch.core.lsvi import fit
from rareswitch.core.recipe import Recipe
from rareswitch.core.streams import KeyedStream, Stream
from rareswitch.sim import Simulation
from rareswitch.sim.run import noise_of


def grown_gram(rng, *, horizon=2, dim=3, ridge=0.5, count=12):
    """Return a Gram and its Λ (H, d, d), kept beside it as plain sums."""
    gram, explicit = Gram((horizon,), dim, ridge), np.tile(ridge * np.eye(dim), (horizon, 1, 1))
    for _ in range(count):
        features = unit_rows(rng, horizon, dim) * [[1.0, 0.7, 0.1]]
        gram.absorb(features)
        explicit += features[:, :, None] * features[:, None, :]
    return gram, explicit


@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_offsets_have_the_covariance_of_the_estimate(sigma):
    rng = np.random.default_rng(0)
    gram, explicit = grown_gram(rng)
    draws = 10_000
    offsets = rs.Perturbation(sigma, draws).offsets(rng, gram.whitener)
    assert offsets.shape == (2, draws, 3)
    for h in range(2):
        wanted = sigma**2 * np.linalg.inv(explicit[h])
        spread = np.diag(wanted)
        # Of M Gaussian draws, a mean has variance C_ii/M and a covariance (C_ii·C_jj + C_ij²)/M.
        assert (np.abs(offsets[h].mean(axis=0)) <= 6 * np.sqrt(spread / draws)).all()
        found = offsets[h].T @ offsets[h] / draws
        error = np.sqrt((np.outer(spread, spread) + wanted**2) / draws)
        assert (np.abs(found - wanted) <= 6 * error).all()
    across = np.mean(offsets[0][:, :, None] * offsets[1][:, None, :], axis=0)
    scale = [sigma**2 * np.diag(np.linalg.inv(explicit[h])) for h in range(2)]
    assert (np.abs(across) <= 6 * np.sqrt(np.outer(*scale) / draws)).all()


def test_offsets_are_the_perturbation_stream_at_the_version():
    stream = KeyedStream((4, 2), Stream.PERTURBATION)
    learner = rs.Learner(
        dim=3,
        horizon=2,
        schedule=rs.EveryEpisode(),
        exploration=rs.Perturbation(0.7, draws=4),
        seed=(4, 2),
    )
    for k in range(4):
        policy = learner.policy
        draws = stream.at(k + 1).standard_normal((2, 4, 3))
        inverse = policy.whitener.mT @ policy.whitener
        root = np.linalg.cholesky(inverse).mT  # upper triangular, with a positive diagonal
        expected = np.einsum("hme,hed->hmd", draws, root)
        np.testing.assert_allclose(policy.offsets, 0.7 * expected, atol=1e-12)
        ragged_learning(learner, seed=7, start=k, stop=k + 1)


def test_the_stream_of_ties_is_untouched_by_perturbations():
    directions = []
    for exploration in (rs.Bonus(1.0), rs.Perturbation(1.0)):
        learner = rs.Learner(dim=3, horizon=2, schedule=rs.EveryEpisode(), exploration=exploration)
        ragged_learning(learner, seed=1, start=0, stop=3)
        directions.append(learner.policy.directions)
    np.testing.assert_array_equal(*directions)


def perturbed_q(episodes, offsets, *, ridge, clip):
    """LSVI-PHE in a few lines: Q_h = min{max_m φᵀ(w_h + o_{h,m}), H−h}⁺, by explicit solves."""
    H, _, d = offsets.shape
    weights = np.zeros((H, d))

    def q_values(h, rows):
        values = np.array([[row @ (weights[h] + o) for o in offsets[h]] for row in rows])
        best = values.max(axis=1)
        return np.clip(best, 0.0, H - h) if clip else best

    for h in reversed(range(H)):
        gram, target = ridge * np.eye(d), np.zeros(d)
        for episode in (e for e in episodes if len(e) > h):
            value = episode.rewards[h]
            if h + 1 < H and h < len(episode.next_features):
                value = value + q_values(h + 1, episode.next_features[h]).max()
            gram += np.outer(episode.features[h], episode.features[h])
            target += episode.features[h] * value
        weights[h] = np.linalg.solve(gram, target)
    return q_values


@pytest.mark.parametrize(("horizon", "clip"), [(3, True), (3, False), (1, True), (1, False)])
@pytest.mark.parametrize("sigma", [0.2, 3.0])
def test_q_is_the_best_of_the_perturbed_estimates(horizon, clip, sigma):
    rng = np.random.default_rng(3)
    learner = rs.Learner(
        dim=3,
        horizon=horizon,
        schedule=rs.UniformGrid(episodes=20, batches=5),
        exploration=rs.Perturbation(sigma, draws=3),
        ridge=0.4,
        clip=clip,
        ties="lowest",
    )
    episodes, beyond = [], 0
    for _ in range(18):
        episodes.append(ragged_episode(rng, horizon=horizon, dim=3))
        if not learner.observe(episodes[-1]):
            continue
        policy = learner.policy
        assert policy.beta == 0.0
        expected = perturbed_q(episodes, policy.offsets, ridge=0.4, clip=clip)
        for h in range(horizon):
            rows = unit_rows(rng, 8, 3)
            found = policy.q_values(h, rows)
            np.testing.assert_allclose(found, expected(h, rows), atol=1e-9)
            assert policy.act(h, rows) == np.flatnonzero(found >= found.max() - 1e-9)[0]
            beyond += int(((found < 0) | (found > horizon - h)).sum())
    assert len(learner.ledger) == 5
    assert not (clip and beyond)


@pytest.mark.parametrize("horizon", [1, 3])
def test_without_noise_a_perturbation_is_no_bonus(horizon):
    world = masked_world(5, horizon=horizon)
    runs = [
        rs.simulate(world, rs.TotalGrowth(1.5), episodes=60, exploration=exploration, seed=3)
        for exploration in (rs.Perturbation(0.0, draws=5), rs.Bonus(0.0))
    ]
    assert runs[0].deployments > 3
    for name in ("actions", "states", "regret", "deployment_episodes", "fitted_values"):
        np.testing.assert_array_equal(getattr(runs[0], name), getattr(runs[1], name))


def test_more_draws_are_more_optimistic():
    world = rs.instances.hard_to_learn(d=5, horizon=3)
    grid = rs.UniformGrid(episodes=40, batches=4)
    values = [
        rs.simulate(world, grid, episodes=40, exploration=rs.Perturbation(0.1, draws)).fitted_values
        for draws in (1, 1000)
    ]
    assert (values[1] > values[0]).all()


WORLDS = {
    "masked": masked_world(4),
    "hard": rs.instances.hard_to_learn(d=5, horizon=3, seed=1),
}
RULES = [
    rs.EveryEpisode(),
    rs.TotalGrowth(1.4),
    rs.AdaptiveBudget(switches=9, episodes=30, dim=5, feature_norm=2.0),
    rs.Capped(rs.UniformGrid(episodes=30, batches=10), 6),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("ties", ["direction", "lowest"])
def test_a_simulation_is_the_learner_stepped_by_hand(world, rule, ties):
    settings = {"exploration": rs.Perturbation(0.3, draws=4), "ties": ties, "seed": (2, 5)}
    run = rs.simulate(world, rule, episodes=30, **settings)
    learner = rs.Learner(dim=world.dim, horizon=world.horizon, schedule=rule, **settings)
    noise, initial = noise_of(None, 30, world.horizon, (2, 5)), np.zeros(30, int)
    states, actions, tables = walk(world, learner, noise=noise, initial=initial)
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    assert list(run.deployment_episodes) == list(tables)
    assert len(tables) > 2
    assert (list(run.switch_episodes), run.local_switches) == switches_of(tables)


def test_runs_together_draw_the_perturbations_each_draws_alone():
    worlds = [rs.instances.hard_to_learn(d=5, horizon=3, seed=(1, i)) for i in range(3)]
    seeds = [(1, i) for i in range(3)]
    settings = {"episodes": 50, "exploration": rs.Perturbation(0.4, draws=3)}
    together = Simulation(worlds, rs.TotalGrowth(2.0), seeds=seeds, **settings)
    while not together.done:
        together.step()
    for world, seed, run in zip(worlds, seeds, together.runs(), strict=True):
        alone = rs.simulate(world, rs.TotalGrowth(2.0), seed=seed, **settings)
        np.testing.assert_array_equal(run.actions, alone.actions)
        np.testing.assert_array_equal(run.deployment_episodes, alone.deployment_episodes)
        np.testing.assert_allclose(run.policy.offsets, alone.policy.offsets, atol=1e-9)


def test_a_perturbed_policy_survives_its_bytes():
    rng = np.random.default_rng(1)
    learner = rs.Learner(
        dim=3, horizon=3, schedule=rs.EveryEpisode(), exploration=rs.Perturbation(0.5, draws=6)
    )
    ragged_learning(learner, seed=2, start=0, stop=8)
    policy = learner.policy
    copy = rs.Policy.from_bytes(policy.to_bytes())
    assert copy.digest == policy.digest
    np.testing.assert_array_equal(copy.offsets, policy.offsets)
    assert not copy.offsets.flags.writeable
    for h in range(3):
        rows = unit_rows(rng, 9, 3)
        np.testing.assert_array_equal(copy.q_values(h, rows), policy.q_values(h, rows))
        assert copy.act(h, rows) == policy.act(h, rows)
    bare = rs.Policy(weights=policy.weights, whitener=policy.whitener, beta=0.0)
    assert bare.offsets is None
    assert bare.digest != policy.digest


def test_recommendations_carry_no_perturbation():
    learner = rs.Learner(
        dim=3, horizon=3, schedule=rs.EveryEpisode(), exploration=rs.Perturbation(5.0)
    )
    plain = rs.Learner(dim=3, horizon=3, schedule=rs.EveryEpisode(), beta=0.0)
    rng = np.random.default_rng(5)
    for _ in range(10):
        episode = ragged_episode(rng, horizon=3, dim=3)
        learner.observe(episode)
        plain.observe(episode)
    assert learner.recommend().offsets is None
    assert learner.recommend().digest == plain.recommend().digest


def test_a_bonus_draws_nothing_and_a_perturbation_adds_no_bonus():
    assert rs.Perturbation(2.0).beta == 0.0
    assert rs.Bonus() == rs.Bonus(1.0)
    assert rs.Bonus(1.0).draws == 0
    assert rs.Bonus(1.0).offsets(np.random.default_rng(0), np.eye(2)[None]).shape == (1, 0, 2)
    assert rs.Learner(dim=2, horizon=1, schedule=rs.EveryEpisode()).policy.offsets is None


class Both:
    """An exploration of one's own: a bonus, and offsets beside it."""

    beta, draws = 0.5, 2

    def offsets(self, rng, whitener):
        return rng.random((whitener.shape[0], 2, whitener.shape[1]))


def test_an_exploration_of_ones_own_may_be_both():
    learner = rs.Learner(dim=2, horizon=2, schedule=rs.EveryEpisode(), exploration=Both())
    ragged_learning(learner, seed=1, start=0, stop=4)
    policy, rows = learner.policy, np.array([[0.3, 0.1], [0.0, 0.2]])
    norms = np.linalg.norm(rows @ policy.whitener[1].T, axis=1)
    expected = rows @ policy.weights[1] + 0.5 * norms + (rows @ policy.offsets[1].T).max(axis=1)
    np.testing.assert_allclose(policy.q_values(1, rows), np.clip(expected, 0.0, 1.0), atol=1e-12)
    world = masked_world(4)
    run = rs.simulate(world, rs.EveryEpisode(), episodes=12, exploration=Both())
    learner = rs.Learner(
        dim=world.dim, horizon=world.horizon, schedule=rs.EveryEpisode(), exploration=Both()
    )
    noise = noise_of(None, 12, world.horizon, 0)
    _, actions, _ = walk(world, learner, noise=noise, initial=np.zeros(12, int))
    np.testing.assert_array_equal(run.actions, actions)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: rs.Bonus(-0.1),
            ValueError,
            "beta must be a finite number at least 0 .*; got -0.1",
        ),
        (lambda: rs.Bonus(1e101), ValueError, r"beta must be .*at most 1e\+100; got 1e\+101"),
        (lambda: rs.Perturbation(1e308), ValueError, "sigma must be .*at most"),
        (lambda: rs.Bonus("1"), TypeError, "beta must be a finite number"),
        (lambda: rs.Perturbation(-1.0), ValueError, "sigma must be a finite number at least 0"),
        (lambda: rs.Perturbation(np.nan), ValueError, "sigma must be a finite number"),
        (lambda: rs.Perturbation(1.0, 0), ValueError, "draws must be from 1 to 10000; got 0"),
        (lambda: rs.Perturbation(1.0, 2.0), TypeError, "draws must be a whole number"),
        (
            lambda: rs.Policy(
                weights=np.zeros((2, 3)),
                whitener=np.zeros((2, 3, 3)),
                beta=0.0,
                offsets=np.zeros((2, 4, 2)),
            ),
            ValueError,
            "offsets must have shape",
        ),
    ],
)
def test_a_bad_exploration_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_perturbed_fit_depends_neither_on_the_order_of_episodes_nor_on_where_they_are():
    rng = np.random.default_rng(8)
    log = [ragged_episode(rng, horizon=3, dim=4) for _ in range(30)]
    recipe = Recipe(exploration=rs.Perturbation(0.5, draws=4), seed=3)
    sizes = {"dim": 4, "horizon": 3}
    forward, backward = (History.from_log(each, **sizes) for each in (log, log[::-1]))
    parts = [LogPartition.from_episodes(part, horizon=3) for part in (log[:11], log[11:])]
    first, *others = (
        fit(each, recipe, version=2)
        for each in (forward, backward, LogStatistics(LocalPartitions(parts)))
    )
    assert first.offsets is not None
    for other in others:
        np.testing.assert_allclose(other.offsets, first.offsets, atol=1e-9)
        np.testing.assert_allclose(other.weights, first.weights, atol=1e-9)
