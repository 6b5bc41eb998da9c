from dataclasses import replace

import numpy as np
import pytest

import rareswitch as rs
from oracles import (
    masked_world,
    ragged_episode,
    ragged_learning,
    reference_q,
    switches_of,
    unit_rows,
    walk,
)
from rareswitch.core.policy import fit, regressor_of
from rareswitch.core.recipe import Recipe
from rareswitch.sim import Simulation
from rareswitch.sim.run import noise_of
from rareswitch.statistics import history_of
from rareswitch.statistics.partitions import LocalPartitions, LogPartition, LogStatistics
from rareswitch.support.streams import KeyedStream, Stream


def plain_gram(log, *, horizon, dim, ridge):
    """Return Λ (H, d, d) of a log as plain sums."""
    gram = np.tile(ridge * np.eye(dim), (horizon, 1, 1))
    for episode in log:
        gram[: len(episode)] += episode.features[:, :, None] * episode.features[:, None, :]
    return gram


@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_offsets_have_the_covariance_of_the_estimate(scale):
    rng = np.random.default_rng(0)
    log = [ragged_episode(rng, horizon=2, dim=3) for _ in range(12)]
    history = history_of(rs.Task(dim=3, horizon=2), 0.5, log).fold()
    explicit = plain_gram(log, horizon=2, dim=3, ridge=0.5)
    draws = 10_000
    exploration = rs.Perturbation(scale, draws)
    regression = regressor_of(history, Recipe(exploration=exploration, ridge=0.5))
    drawn = exploration.perturbations(rng, 2, 3)[0]
    offsets = np.stack([regression.stage(h, np.zeros(3)).perturb(drawn[h])[0] for h in range(2)])
    assert offsets.shape == (2, draws, 3)
    for h in range(2):
        wanted = scale**2 * np.linalg.inv(explicit[h])
        spread = np.diag(wanted)
        # Of M Gaussian draws, a mean has variance C_ii/M and a covariance (C_ii·C_jj + C_ij²)/M.
        assert (np.abs(offsets[h].mean(axis=0)) <= 6 * np.sqrt(spread / draws)).all()
        found = offsets[h].T @ offsets[h] / draws
        error = np.sqrt((np.outer(spread, spread) + wanted**2) / draws)
        assert (np.abs(found - wanted) <= 6 * error).all()
    across = np.mean(offsets[0][:, :, None] * offsets[1][:, None, :], axis=0)
    scale = [scale**2 * np.diag(np.linalg.inv(explicit[h])) for h in range(2)]
    assert (np.abs(across) <= 6 * np.sqrt(np.outer(*scale) / draws)).all()


def test_offsets_are_the_perturbation_stream_at_the_version():
    stream = KeyedStream((4, 2), Stream.PERTURBATION)
    learner = rs.Learner(
        rs.Task(dim=3, horizon=2),
        rs.EveryEpisode(),
        rs.Recipe(exploration=rs.Perturbation(0.7, draws=4), seed=(4, 2)),
    )
    rng, log = np.random.default_rng(7), []
    for k in range(4):
        draws = stream.at(k + 1).standard_normal((2, 4, 3))
        values, vectors = np.linalg.eigh(plain_gram(log, horizon=2, dim=3, ridge=1.0))
        root = vectors @ (values[:, :, None] ** -0.5 * vectors.mT)  # the symmetric one
        np.testing.assert_allclose(learner.policy.offsets, 0.7 * draws @ root, atol=1e-12)
        log.append(ragged_episode(rng, horizon=2, dim=3))
        learner.observe(log[-1])


def test_the_stream_of_ties_is_untouched_by_perturbations():
    directions = []
    for exploration in (rs.Bonus(1.0), rs.Perturbation(1.0)):
        learner = rs.Learner(
            rs.Task(dim=3, horizon=2), rs.EveryEpisode(), rs.Recipe(exploration=exploration)
        )
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
@pytest.mark.parametrize("scale", [0.2, 3.0])
def test_q_is_the_best_of_the_perturbed_estimates(horizon, clip, scale):
    rng = np.random.default_rng(3)
    learner = rs.Learner(
        rs.Task(dim=3, horizon=horizon, episodes=20),
        rs.UniformGrid(batches=5),
        rs.Recipe(exploration=rs.Perturbation(scale, draws=3), ridge=0.4, ties="lowest", clip=clip),
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
        rs.simulate(
            world,
            rs.rules.TotalGrowth(eta=1.5),
            rs.Recipe(exploration=exploration),
            episodes=60,
            seed=3,
        )
        for exploration in (rs.Perturbation(0.0, draws=5), rs.Bonus(0.0))
    ]
    assert runs[0].deployments > 3
    for name in ("actions", "states", "regret", "deployment_episodes", "fitted_values"):
        np.testing.assert_array_equal(getattr(runs[0], name), getattr(runs[1], name))


def test_more_draws_are_more_optimistic():
    world = rs.worlds.hard_to_learn(d=5, horizon=3)
    grid = rs.UniformGrid(batches=4)
    values = [
        rs.simulate(
            world, grid, rs.Recipe(exploration=rs.Perturbation(0.1, draws)), episodes=40
        ).fitted_values
        for draws in (1, 1000)
    ]
    assert (values[1] > values[0]).all()


WORLDS = {
    "masked": masked_world(4),
    "hard": rs.worlds.hard_to_learn(d=5, horizon=3, seed=1),
}
RULES = [
    rs.EveryEpisode(),
    rs.rules.TotalGrowth(eta=1.4),
    rs.rules.AdaptiveBudget(switches=9),
    rs.rules.Capped(rs.UniformGrid(batches=10), 6),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("ties", ["direction", "lowest"])
def test_a_simulation_is_the_learner_stepped_by_hand(world, rule, ties):
    recipe = rs.Recipe(exploration=rs.Perturbation(0.3, draws=4), ties=ties, seed=(2, 5))
    run = rs.simulate(world, rule, recipe, episodes=30, seed=(2, 5))
    learner = rs.Learner(world.task(episodes=30), rule, recipe)
    noise, initial = noise_of(None, 30, world.horizon, (2, 5)), np.zeros(30, int)
    states, actions, tables = walk(world, learner, noise=noise, initial=initial)
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    assert list(run.deployment_episodes) == list(tables)
    assert len(tables) > 2
    assert (list(run.switch_episodes), run.local_switches) == switches_of(tables)


def test_runs_together_draw_the_perturbations_each_draws_alone():
    worlds = [rs.worlds.hard_to_learn(d=5, horizon=3, seed=(1, i)) for i in range(3)]
    seeds = [(1, i) for i in range(3)]
    rule, recipe = rs.rules.TotalGrowth(eta=2.0), Recipe(exploration=rs.Perturbation(0.4, draws=3))
    task = worlds[0].task(episodes=50)
    together = Simulation(worlds, rule, recipe, task=task, seeds=seeds).run()
    for world, seed, run in zip(worlds, seeds, together.runs(), strict=True):
        alone = rs.simulate(world, rule, recipe, episodes=50, seed=seed)
        np.testing.assert_array_equal(run.actions, alone.actions)
        np.testing.assert_array_equal(run.deployment_episodes, alone.deployment_episodes)
        np.testing.assert_allclose(run.policy.offsets, alone.policy.offsets, atol=1e-9)


def test_a_perturbed_policy_survives_its_bytes():
    rng = np.random.default_rng(1)
    learner = rs.Learner(
        rs.Task(dim=3, horizon=3),
        rs.EveryEpisode(),
        rs.Recipe(exploration=rs.Perturbation(0.5, draws=6)),
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
        rs.Task(dim=3, horizon=3), rs.EveryEpisode(), rs.Recipe(exploration=rs.Perturbation(5.0))
    )
    plain = rs.Learner(rs.Task(dim=3, horizon=3), rs.EveryEpisode(), rs.Recipe.paper(beta=0.0))
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
    assert rs.Bonus(1.0).perturbations(np.random.default_rng(0), 3, 2).shape == (1, 3, 0, 2)
    for exploration in (rs.Bonus(1.0), rs.Ensemble()):
        learner = rs.Learner(
            rs.Task(dim=2, horizon=1), rs.EveryEpisode(), rs.Recipe(exploration=exploration)
        )
        assert learner.policy.offsets is None
    assert (rs.Ensemble().beta, rs.Ensemble().draws) == (0.0, 1)


class Both:
    """An exploration of one's own: a bonus, and perturbations beside it."""

    beta, members, draws, estimate = 0.5, 1, 2, False

    def perturbations(self, rng, horizon, dim):
        return rng.random((self.members, horizon, self.draws, dim))


def test_an_exploration_of_ones_own_may_be_both():
    learner = rs.Learner(
        rs.Task(dim=2, horizon=2), rs.EveryEpisode(), rs.Recipe(exploration=Both())
    )
    ragged_learning(learner, seed=1, start=0, stop=4)
    policy, rows = learner.policy, np.array([[0.3, 0.1], [0.0, 0.2]])
    norms = np.linalg.norm(rows @ policy.whitener[1].T, axis=1)
    expected = rows @ policy.weights[1] + 0.5 * norms + (rows @ policy.offsets[1].T).max(axis=1)
    np.testing.assert_allclose(policy.q_values(1, rows), np.clip(expected, 0.0, 1.0), atol=1e-12)
    world = masked_world(4)
    run = rs.simulate(world, rs.EveryEpisode(), rs.Recipe(exploration=Both()), episodes=12)
    learner = rs.Learner(world.task(episodes=12), rs.EveryEpisode(), rs.Recipe(exploration=Both()))
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
        (lambda: rs.Perturbation(1e308), ValueError, "scale must be .*at most"),
        (lambda: rs.Bonus("1"), TypeError, "beta must be a finite number"),
        (lambda: rs.Perturbation(-1.0), ValueError, "scale must be a finite number at least 0"),
        (lambda: rs.Perturbation(np.nan), ValueError, "scale must be a finite number"),
        (lambda: rs.Perturbation(1.0, 0), ValueError, "draws must be from 1 to 10000; got 0"),
        (lambda: rs.Perturbation(1.0, 2.0), TypeError, "draws must be a whole number"),
        (lambda: rs.Perturbation(1.0, estimate=1), TypeError, "estimate must be True or False"),
        (lambda: rs.Bonus(members=0), ValueError, "members must be from 1 to 10000; got 0"),
        (lambda: rs.Bonus(members=10_001), ValueError, "members must be from 1 to 10000; got 10"),
        (lambda: rs.Bonus(estimate="no"), TypeError, "estimate must be True or False; got 'no'"),
        (lambda: rs.Ensemble(0), ValueError, "members must be from 1 to 10000; got 0"),
        (lambda: rs.Ensemble(2.0), TypeError, "members must be a whole number"),
        (lambda: rs.Ensemble(10_001), ValueError, "members must be from 1 to 10000; got 10001"),
        (lambda: rs.Ensemble(scale=-0.1), ValueError, "scale must be a finite number at least 0"),
        (lambda: rs.Ensemble(scale=1e101), ValueError, r"scale must be .*at most 1e\+100"),
        (lambda: rs.Ensemble(estimate=0), TypeError, "estimate must be True or False; got 0"),
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


@pytest.mark.parametrize(
    "exploration",
    [
        rs.Perturbation(0.5, draws=4),
        rs.Perturbation(0.5, draws=4, estimate=True),
        rs.Ensemble(5),
        rs.Ensemble(5, estimate=False),
        rs.Bonus(0.5, estimate=True),
    ],
    ids=repr,
)
def test_a_fit_depends_neither_on_the_order_of_episodes_nor_on_where_they_are(exploration):
    rng = np.random.default_rng(8)
    log = [ragged_episode(rng, horizon=3, dim=4) for _ in range(30)]
    recipe = Recipe(exploration=exploration, seed=3)
    task = rs.Task(dim=4, horizon=3)
    forward, backward = (history_of(task, log=each) for each in (log, log[::-1]))
    parts = [LogPartition.from_episodes(part, horizon=3) for part in (log[:11], log[11:])]
    first, *others = (
        fit(each, recipe, version=2)
        for each in (forward, backward, LogStatistics(LocalPartitions(parts)))
    )
    for other in others:
        for name in ("weights", "levels", "offsets"):
            if getattr(first, name) is not None:
                found = getattr(other, name), getattr(first, name)
                np.testing.assert_allclose(*found, atol=1e-9, err_msg=name)
        rows = unit_rows(rng, 9, 4)
        for h in range(3):
            np.testing.assert_allclose(other.q_values(h, rows), first.q_values(h, rows), atol=1e-9)


def ragged_log(seed, count=30, *, horizon=3, dim=4):
    rng = np.random.default_rng(seed)
    return [ragged_episode(rng, horizon=horizon, dim=dim) for _ in range(count)]


@pytest.mark.parametrize("estimate", [False, True])
def test_members_of_a_bonus_have_the_same_values_and_break_ties_each_their_own_way(estimate):
    log = ragged_log(2)
    history = history_of(rs.Task(dim=4, horizon=3), log=log)
    mixture, one = (
        fit(history, Recipe(exploration=rs.Bonus(0.4, members, estimate), seed=3), version=2)
        for members in (5, 1)
    )
    assert (mixture.members, one.members) == (5, 1)
    assert mixture.weights.tobytes() == one.weights.tobytes()
    assert len({z.tobytes() for z in mixture.directions}) == 5
    rows = unit_rows(np.random.default_rng(1), 6, 4)
    members = [mixture.member(m) for m in range(5)]
    for h in range(3):
        for member in (*members, mixture):
            np.testing.assert_array_equal(member.q_values(h, rows), one.q_values(h, rows))
        assert mixture.value(h, rows) == one.value(h, rows)
    # On no data all is tied: the directions alone decide, each differently.
    first = fit(history_of(rs.Task(dim=4, horizon=3)), Recipe(exploration=rs.Bonus(9.0, 5)), 1)
    for h in range(3):
        taken = [first.member(m).act(h, rows) for m in range(5)]
        assert taken == (first.directions[:, h] @ rows.T).argmax(axis=1).tolist()
        assert len(set(taken)) > 1


@pytest.mark.parametrize("estimate", [False, True])
def test_an_ensemble_of_one_is_one_policy(estimate):
    learner = rs.Learner(
        rs.Task(dim=3, horizon=2),
        rs.EveryEpisode(),
        rs.Recipe(exploration=rs.Ensemble(1, estimate=estimate), ridge=0.5),
    )
    ragged_learning(learner, seed=2, start=0, stop=9)
    policy, rows = learner.policy, unit_rows(np.random.default_rng(1), 6, 3)
    assert (policy.members, policy.allocation) == (1, None)
    assert policy.draw("anyone") is policy
    assert policy.weights.shape == policy.directions.shape == (2, 3)
    assert 0 <= policy.act(0, rows) < 6
    assert rs.Policy.from_bytes(policy.to_bytes()).digest == policy.digest


@pytest.mark.parametrize("estimate", [False, True])
@pytest.mark.parametrize("others", [rs.Bonus(0.0), rs.Perturbation(0.0, draws=3)], ids=repr)
def test_without_noise_every_member_is_the_greedy_policy(estimate, others):
    history = history_of(rs.Task(dim=4, horizon=3), log=ragged_log(3))
    still = fit(history, Recipe(exploration=rs.Ensemble(3, 0.0, estimate)), version=2)
    greedy = fit(history, Recipe(exploration=replace(others, estimate=estimate)), version=2)
    rows = unit_rows(np.random.default_rng(1), 6, 4)
    for h in range(3):
        for m in range(3):
            found = still.member(m).q_values(h, rows), greedy.q_values(h, rows)
            np.testing.assert_allclose(*found, atol=1e-12)


@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_at_the_last_stage_members_have_the_law_of_the_estimate(scale):
    log = ragged_log(4, 20, horizon=2, dim=3)
    history = history_of(rs.Task(dim=3, horizon=2), 0.5, log)
    members = 10_000
    exploration = rs.Ensemble(members, scale, estimate=False)
    policy = fit(history, Recipe(exploration=exploration, ridge=0.5, seed=1), version=3)
    mean = fit(history, Recipe(exploration=rs.Bonus(0.0), ridge=0.5), version=3).weights[-1]
    wanted = scale**2 * np.linalg.inv(plain_gram(log, horizon=2, dim=3, ridge=0.5)[-1])
    spread, apart = np.diag(wanted), policy.weights[:, -1] - mean
    assert (np.abs(apart.mean(axis=0)) <= 6 * np.sqrt(spread / members)).all()
    error = np.sqrt((np.outer(spread, spread) + wanted**2) / members)
    assert (np.abs(apart.T @ apart / members - wanted) <= 6 * error).all()
    # Whitened by the symmetric root, they are the numbers of the stream themselves.
    values, vectors = np.linalg.eigh(wanted)
    drawn = apart @ (vectors @ (values[:, None] ** -0.5 * vectors.T))
    stream = KeyedStream(1, Stream.PERTURBATION).at(3).standard_normal((members, 2, 1, 3))
    np.testing.assert_allclose(drawn, stream[:, 1, 0], atol=1e-9)


def test_a_member_is_a_backward_pass_of_its_own():
    log = ragged_log(5, 25)
    history = history_of(rs.Task(dim=4, horizon=3), 0.5, log)
    recipe = Recipe(exploration=rs.Ensemble(6, 0.4, estimate=False), ridge=0.5, seed=1)
    policy, drawn = fit(history, recipe, version=2), recipe.perturbations(2, 3, 4)
    values, vectors = np.linalg.eigh(plain_gram(log, horizon=3, dim=4, ridge=0.5))
    root = vectors @ (values[:, :, None] ** -0.5 * vectors.mT)
    rows = unit_rows(np.random.default_rng(1), 6, 4)
    for m in range(6):
        offsets = np.matvec(root, drawn[m, :, 0])
        expected = perturbed_q(log, offsets[:, None], ridge=0.5, clip=True)
        for h in range(3):
            found = policy.member(m).q_values(h, rows)
            np.testing.assert_allclose(found, expected(h, rows), atol=1e-9)


class Everything:
    """An exploration of one's own: members, a bonus, several draws, and estimates."""

    beta, members, draws, estimate = 0.2, 3, 2, True

    def perturbations(self, rng, horizon, dim):
        return rng.standard_normal((self.members, horizon, self.draws, dim))


def test_a_mixture_of_ones_own_is_fitted_and_simulated():
    world, recipe = masked_world(4), Recipe(exploration=Everything(), seed=4)
    run = rs.simulate(world, rs.EveryEpisode(), recipe, episodes=12, seed=4)
    learner = rs.Learner(world.task(episodes=12), rs.EveryEpisode(), recipe)
    noise = noise_of(None, 12, world.horizon, 4)
    states, actions, tables = walk(world, learner, noise=noise, initial=np.zeros(12, int))
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    assert next(iter(tables.values())).shape == (3, world.horizon, world.states)
    policy = run.policy
    assert policy.offsets.shape == (3, world.horizon, 2, world.dim)
    assert policy.whitener.shape == (3, world.horizon, world.dim, world.dim)


def test_a_recommendation_of_a_mixture_is_the_greedy_fit_of_its_regression():
    log = ragged_log(6)
    for estimate in (False, True):
        learner = rs.Learner(
            rs.Task(dim=4, horizon=3),
            rs.EveryEpisode(),
            rs.Recipe(exploration=rs.Ensemble(4, 3.0, estimate)),
        )
        for episode in log:
            learner.observe(episode)
        advice = learner.recommend()
        assert (advice.members, advice.beta, advice.directions) == (1, 0.0, None)
        recipe = Recipe(exploration=rs.Bonus(0.0, estimate=estimate), ties="lowest")
        history = history_of(rs.Task(dim=4, horizon=3), log=log)
        assert advice.digest == fit(history, recipe, version=0).digest
        assert (advice.levels is not None) == estimate
        if not estimate:
            plain = reference_q(log, horizon=3, dim=4, beta=0.0, ridge=1.0)
            rows = unit_rows(np.random.default_rng(2), 7, 4)
            np.testing.assert_allclose(advice.q_values(0, rows), plain(0, rows), atol=1e-9)
