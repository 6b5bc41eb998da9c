"""What holds on every trajectory, for every β, λ and η."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import eigh

import rareswitch as rs
from literal import lowest
from oracles import episode_of, masked_world, ragged_episode, ragged_learning, unit_rows
from rareswitch.core.gram import Gram

seeds = st.integers(0, 10**6)
betas = st.sampled_from([0.0, 0.1, 1.0, 20.0])
explorations = st.sampled_from(
    [
        rs.Bonus(1.0),
        rs.Bonus(0.5, members=3, estimate=True),
        rs.Perturbation(0.5, draws=3),
        rs.Ensemble(),
        rs.Ensemble(3, scale=2.0, estimate=False),
    ]
)
ridges = st.sampled_from([1e-4, 0.1, 1.0, 10.0])
etas = st.floats(1.01, 50.0)
EPISODES = 24


def random_world(seed):
    kind = seed % 4
    if kind == 0:
        return rs.worlds.hard_to_learn(d=5 + seed % 3, horizon=1 + seed % 4, seed=seed)
    if kind == 1:
        return rs.worlds.random_linear(states=5, actions=3, d=4, horizon=3, seed=seed)
    if kind == 2:
        return rs.worlds.tabular(states=3, actions=2, horizon=1 + seed % 3, seed=seed)
    return masked_world(seed)


def scaled_episode(rng, *, horizon, dim, norm):
    """Return an episode whose features all have that norm."""
    episode = ragged_episode(rng, horizon=horizon, dim=dim)
    return rs.Episode(
        features=norm * episode.features,
        rewards=episode.rewards,
        next_features=[norm * rows for rows in episode.next_features],
    )


@given(seeds, ridges)
def test_the_sum_of_log_one_plus_squared_norms_is_the_growth_of_logdet(seed, ridge):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((60, 4)) * rng.exponential(1.0, (60, 1))
    gram, total = Gram.of_ridge((1,), 4, ridge), 0.0
    matrix = ridge * np.eye(4)
    for feature in features:
        whitened = gram.whitener[0] @ feature
        total += math.log1p(whitened @ whitened)
        gram, _, _ = gram.add(feature[None])
        matrix += np.outer(feature, feature)
    growth = np.linalg.slogdet(matrix)[1] - 4 * math.log(ridge)
    assert total == pytest.approx(growth, rel=1e-9)
    assert gram.logdet[0] - 4 * math.log(ridge) == pytest.approx(growth, rel=1e-9)


@given(seeds, etas, ridges, betas.filter(bool))
def test_a_deployed_bonus_is_at_most_root_eta_times_the_current_one(seed, eta, ridge, beta):
    rng = np.random.default_rng(seed)
    horizon, dim = 2, 3
    learner = rs.Learner(
        rs.Task(dim=dim, horizon=horizon),
        rs.DeterminantGrowth(eta=eta),
        rs.Recipe.paper(beta=beta, ridge=ridge),
    )
    gram = np.stack([ridge * np.eye(dim)] * horizon)
    for _ in range(EPISODES):
        episode = ragged_episode(rng, horizon=horizon, dim=dim)
        learner.observe(episode)
        for h, feature in enumerate(episode.features):
            gram[h] += np.outer(feature, feature)
        for h in range(horizon):
            deployed = learner.policy.whitener[h].T @ learner.policy.whitener[h]
            # sup over directions of ‖x‖²_{Λ_b⁻¹}/‖x‖²_{Λ_k⁻¹}
            ratio = eigh(deployed, np.linalg.inv(gram[h]), eigvals_only=True).max()
            assert math.sqrt(ratio) <= math.sqrt(eta) * (1 + 1e-7)


@given(seeds, betas.map(rs.Bonus) | explorations, ridges)
def test_q_values_lie_between_zero_and_the_stages_left(seed, exploration, ridge):
    learner = rs.Learner(
        rs.Task(dim=3, horizon=3),
        rs.DeterminantGrowth(eta=1.5),
        rs.Recipe(exploration=exploration, ridge=ridge, seed=seed),
    )
    rows = np.random.default_rng(seed).standard_normal((30, 3)) * 5
    for k in range(15):
        ragged_learning(learner, seed=seed, start=k, stop=k + 1)
        for h in range(3):
            for policy in (learner.policy.draw(k), learner.recommend()):
                values = policy.q_values(h, rows)
                assert values.min() >= 0.0
                assert values.max() <= 3 - h
                assert values[policy.act(h, rows)] >= values.max() - 1e-9


@given(seeds, ridges)
def test_bonuses_never_grow(seed, ridge):
    learner = rs.Learner(
        rs.Task(dim=3, horizon=2),
        rs.EveryEpisode(),
        rs.Recipe.paper(beta=1.0, ridge=ridge, clip=False),
    )
    rows = unit_rows(np.random.default_rng(seed), 20, 3)
    before = np.full((2, 20), np.inf)
    for k in range(EPISODES):
        policy = learner.policy
        bonus = np.array([policy.q_values(h, rows) - rows @ policy.weights[h] for h in range(2)])
        assert (bonus <= before * (1 + 1e-9) + 1e-12 * (1 + np.abs(policy.weights).max())).all()
        before = bonus
        ragged_learning(learner, seed=seed, start=k, stop=k + 1)
    assert (before < 1 / math.sqrt(ridge)).all()


@given(seeds, betas.map(rs.Bonus) | explorations)
def test_as_many_batches_as_episodes_is_lsvi_ucb(seed, exploration):
    world = random_world(seed)
    arguments = {
        "recipe": rs.Recipe(exploration=exploration),
        "episodes": EPISODES,
        "seed": seed,
    }
    batched = rs.simulate(world, rs.UniformGrid(batches=EPISODES), **arguments)
    every = rs.simulate(world, rs.EveryEpisode(), **arguments)
    assert batched.deployments == every.deployments == EPISODES
    assert batched.policy.to_bytes() == every.policy.to_bytes()
    assert (batched.actions == every.actions).all()
    assert (batched.regret == every.regret).all()
    assert (batched.members == every.members).all()


@given(seeds, betas)
def test_eta_towards_one_is_lsvi_ucb(seed, beta):
    world = random_world(seed)
    arguments = {"recipe": rs.Recipe.paper(beta=beta), "episodes": EPISODES, "seed": seed}
    eager = rs.simulate(world, rs.DeterminantGrowth(eta=1 + 1e-9), **arguments)
    every = rs.simulate(world, rs.EveryEpisode(), **arguments)
    assert (eager.deployment_episodes == every.deployment_episodes).all()
    assert (eager.actions == every.actions).all()
    assert (eager.states == every.states).all()
    np.testing.assert_allclose(eager.regret, every.regret, atol=1e-12)


@given(seeds, st.sampled_from([0.5, 1.0, 4.0]))
def test_one_hot_features_give_shrunken_means_and_count_bonuses(seed, ridge):
    beta, S, A, H = 0.3, 3, 2, 2
    world = rs.worlds.tabular(states=S, actions=A, horizon=H, seed=seed)
    rng = np.random.default_rng(seed)
    recipe = rs.Recipe.paper(beta=beta, ridge=ridge, ties="lowest")
    learner = rs.Learner(world.task(), rs.EveryEpisode(), recipe)
    paths = rng.integers(0, S, (EPISODES, H + 1))
    actions = rng.integers(0, A, (EPISODES, H))
    for states, taken in zip(paths, actions, strict=True):
        learner.observe(episode_of(world, states, taken))
    following = np.zeros(S)
    for h in reversed(range(H)):
        count, total = np.zeros((S, A)), np.zeros((S, A))
        np.add.at(count, (paths[:, h], actions[:, h]), 1)
        gains = world.rewards[h, paths[:, h], actions[:, h]] + following[paths[:, h + 1]]
        np.add.at(total, (paths[:, h], actions[:, h]), gains)
        mean, bonus = total / (ridge + count), beta / np.sqrt(ridge + count)
        np.testing.assert_allclose(learner.policy.weights[h], mean.ravel(), atol=1e-12)
        for s in range(S):
            found = learner.policy.q_values(h, world.features[s])
            np.testing.assert_allclose(found, np.minimum(mean + bonus, H - h)[s], atol=1e-12)
        following = np.minimum(mean + bonus, H - h).max(axis=1)


@given(seeds, etas, ridges, st.floats(0.1, 5.0), st.integers(1, 60), explorations)
def test_switches_stay_below_the_bound_on_every_path(seed, eta, ridge, norm, budget, exploration):
    rng = np.random.default_rng(seed)
    horizon, dim = 2, 2
    task = rs.Task(dim=dim, horizon=horizon, episodes=EPISODES, feature_norm=norm)
    recipe = rs.Recipe(exploration=exploration, ridge=ridge)
    open_ended = replace(task, episodes=None)  # a switch after the last episode counts too
    free = rs.Learner(open_ended, rs.DeterminantGrowth(eta=eta), recipe)
    rule = rs.DeterminantGrowth.for_budget(task, switches=budget, ridge=ridge)
    bounded = rs.Learner(open_ended, rule, recipe)
    for _ in range(EPISODES):
        episode = scaled_episode(rng, horizon=horizon, dim=dim, norm=norm)
        free.observe(episode)
        bounded.observe(episode)
    assert len(free.ledger) - 1 <= rs.theory.switch_bound(task, eta=eta, ridge=ridge)
    assert len(bounded.ledger) - 1 <= budget


@given(seeds, st.integers(1, EPISODES - 1), explorations)
def test_switches_on_a_world_stay_within_batches_and_budget(seed, budget, exploration):
    world = random_world(seed)
    task, recipe = world.task(episodes=EPISODES), rs.Recipe(exploration=exploration)
    grid, arguments = rs.UniformGrid(batches=budget), {"episodes": EPISODES, "seed": seed}
    run = rs.simulate(world, grid, recipe, **arguments)
    assert run.switches <= budget - 1
    for rule in (rs.DeterminantGrowth, rs.rules.TotalGrowth, rs.rules.AdaptiveBudget):
        bounded = rule.for_budget(task, switches=budget)
        run = rs.simulate(world, bounded, recipe, **arguments)
        assert run.switches <= run.deployments - 1 <= budget


@given(seeds, etas, ridges)
def test_growth_is_counted_with_the_declared_ridge_whatever_explores(seed, eta, ridge):
    rng = np.random.default_rng(seed)
    log = [ragged_episode(rng, horizon=2, dim=3) for _ in range(EPISODES)]
    ledgers = []
    for exploration in (rs.Bonus(1.0), rs.Bonus(1.0, estimate=True), rs.Ensemble(3)):
        learner = rs.Learner(
            rs.Task(dim=3, horizon=2),
            rs.DeterminantGrowth(eta=eta),
            rs.Recipe(exploration=exploration, ridge=ridge),
        )
        for episode in log:
            learner.observe(episode)
        logdet = [np.linalg.slogdet(ridge * np.eye(3) + f.T @ f)[1] for f in stacked(log, 2)]
        np.testing.assert_allclose(learner.clock.logdet, logdet, atol=1e-8)
        ledgers.append([(d.episode, d.logdet.tobytes()) for d in learner.ledger])
    assert ledgers[0] == ledgers[1] == ledgers[2]


def stacked(log, horizon):
    """Return the features (n, d) of every stage."""
    return [np.array([e.features[h] for e in log if len(e) > h]) for h in range(horizon)]


def play_bandit(schedule, menus, rewards, *, beta, ridge):
    """Return the arms that a Learner with one stage and no clip pulls, and when it deploys."""
    learner = rs.Learner(
        rs.Task(dim=menus.shape[2], horizon=1, episodes=len(menus)),
        schedule,
        rs.Recipe.paper(beta=beta, ridge=ridge, ties="lowest", clip=False),
    )
    arms = []
    for menu, reward in zip(menus, rewards, strict=True):
        arm = learner.policy.act(0, menu)
        arms.append(arm)
        learner.observe(rs.Episode(features=menu[[arm]], rewards=[reward[arm]], next_features=[]))
    return arms, [deployment.episode for deployment in learner.ledger]


def bandit(seed, rounds=50, arms=6, d=3, fixed=False):
    rng = np.random.default_rng(seed)
    menus = unit_rows(rng, 1 if fixed else rounds, arms, d)
    menus = np.repeat(menus, rounds, axis=0) if fixed else menus
    return menus, rng.random((rounds, arms))


@given(seeds, st.integers(1, 50), st.sampled_from([0.2, 1.0]), st.sampled_from([0.3, 1.0]))
def test_one_stage_on_a_grid_without_the_clip_is_sbucb(seed, batches, gamma, ridge):
    menus, rewards = bandit(seed)
    T, _, d = menus.shape
    ends = [i * (T // batches) for i in range(batches)]
    A, b, expected = ridge * np.eye(d), np.zeros(d), []
    theta, inverse = np.zeros(d), np.eye(d) / ridge
    for t, X in enumerate(menus):
        if t in ends:
            inverse = np.linalg.inv(A)
            theta = inverse @ b
        arm = lowest(np.array([x @ theta + gamma * math.sqrt(x @ inverse @ x) for x in X]))
        A += np.outer(X[arm], X[arm])
        b += rewards[t, arm] * X[arm]
        expected.append(arm)
    grid = rs.UniformGrid(batches=batches)
    arms, deployed = play_bandit(grid, menus, rewards, beta=gamma, ridge=ridge)
    assert arms == expected
    assert deployed == [end + 1 for end in ends]


@given(seeds, st.floats(0.05, 4.0), st.sampled_from([0.2, 1.0]), st.sampled_from([0.3, 1.0]))
def test_one_stage_with_the_determinant_rule_is_rarely_switching_oful(seed, C, width, ridge):
    menus, rewards = bandit(seed, fixed=True)
    X, d = menus[0], menus.shape[2]
    V, b, expected, rounds = ridge * np.eye(d), np.zeros(d), [], []
    det_deployed, arm = 0.0, 0
    for t in range(len(menus)):
        if np.linalg.det(V) > (1 + C) * det_deployed * (1 + 1e-10):
            det_deployed = np.linalg.det(V)
            inverse = np.linalg.inv(V)
            # max over the ellipsoid ‖θ − θ̂‖_V ≤ width of ⟨x, θ⟩
            arm = lowest(
                np.array([x @ inverse @ b + width * math.sqrt(x @ inverse @ x) for x in X])
            )
            rounds.append(t + 1)
        V += np.outer(X[arm], X[arm])
        b += rewards[t, arm] * X[arm]
        expected.append(arm)
    arms, deployed = play_bandit(
        rs.DeterminantGrowth(eta=1 + C), menus, rewards, beta=width, ridge=ridge
    )
    assert arms == expected
    assert deployed == rounds
