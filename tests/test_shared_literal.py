"""The learner against shared-stage LSVI-UCB written out step by step, from the raw episodes."""

import numpy as np
import pytest

import rareswitch as rs
from literal import estimates, symmetric_root
from oracles import in_rows, position_episode, ragged_episode, unit_rows
from rareswitch.core.recipe import COMMON
from rareswitch.support.streams import KeyedStream, Stream

H, D, SEED, RIDGE = 4, 3, (6, 1), 0.4
DECLARED = [rs.Bonus(0.7), rs.Perturbation(0.5, draws=3), rs.Ensemble(3, estimate=False)]
ESTIMATED = [
    rs.Bonus(0.7, estimate=True),
    rs.Perturbation(0.5, draws=3, estimate=True),
    rs.Ensemble(3),
]


def pool_of(stage, horizon, stages):
    """Return the stages whose steps the regression of one stage learns from."""
    if stages == "own":
        return [stage]
    if stage == horizon - 1:
        return list(range(horizon))
    return list(range(horizon - 1))


def literal_q(
    log, *, horizon, dim, stages, exploration, drawn, end_reward=0.0, clip=True, ridge=RIDGE
):
    """Return Q (h, rows) by explicit sums and inverses; `drawn` (H, J, d) is one member's."""
    found = [None] * horizon

    def q_values(h, rows):
        level, weights, covariance = found[h]
        values = []
        for row in rows:
            value = level + max(row @ w for w in weights)
            value += exploration.beta * np.sqrt(row @ covariance @ row)
            values.append(min(max(value, 0.0), horizon - h) if clip else value)
        return np.array(values)

    for h in reversed(range(horizon)):
        features, targets = [], []
        for episode in log:
            for t in pool_of(h, horizon, stages):
                if t >= len(episode):
                    continue
                target = episode.rewards[t]
                if h < horizon - 1 and t < len(episode.next_features):
                    target += q_values(h + 1, episode.next_features[t]).max()
                elif h < horizon - 1:  # it ended: so much for each stage after this one
                    target += end_reward * (horizon - 1 - h)
                features.append(episode.features[t])
                targets.append(target)
        features, targets = np.array(features).reshape(-1, dim), np.array(targets)
        gram = sum((np.outer(row, row) for row in features), np.zeros((dim, dim)))
        level, noise, its_ridge = 0.0, 1.0, ridge
        if exploration.estimate:
            level, noise, _, its_ridge = estimates(features, targets, horizon - h)
        inverse = np.linalg.inv(gram + its_ridge * np.eye(dim))
        pairs = zip(features, targets, strict=True)
        w = inverse @ sum((row * (y - level) for row, y in pairs), np.zeros(dim))
        root = np.sqrt(noise) * symmetric_root(inverse)
        vectors = np.zeros((1, dim)) if drawn is None else drawn[h]
        found[h] = level, [w + root @ z for z in vectors], noise * inverse
    return q_values


def drawn_for(exploration, version, *, stages="shared", horizon=H, dim=D):
    """Return what perturbs a version (M, H, J, d), or None for each member."""
    members, draws = exploration.members, exploration.draws
    if not draws:
        return [None] * members
    normal = KeyedStream(SEED, Stream.PERTURBATION).at(version)
    scale = exploration.scale
    drawn = scale * normal.standard_normal((members, horizon, draws, dim))
    if stages == "own" or horizon == 1:
        return drawn
    common = scale * normal.standard_normal((members, 1, draws, dim))  # the same in all stages
    return np.sqrt(1.0 - COMMON) * drawn + np.sqrt(COMMON) * common


def learner_of(exploration, *, schedule=None, clip=True, **changes):
    task = rs.Task(**{"dim": D, "horizon": H, "stages": "shared"} | changes)
    schedule = rs.rules.EpisodeGrid(dates=(1,)) if schedule is None else schedule
    recipe = rs.Recipe(exploration=exploration, ridge=RIDGE, seed=SEED, clip=clip)
    return rs.Learner(task, schedule, recipe)


def assert_literal(policy, log, exploration, version, **settings):
    rows = unit_rows(np.random.default_rng(2), 4, settings.get("dim", D))
    sizes = {"horizon": H, "dim": D} | settings
    same = {name: sizes[name] for name in ("stages", "horizon", "dim")}
    draws = drawn_for(exploration, version, **same)
    for m, drawn in enumerate(draws):
        expected = literal_q(log, exploration=exploration, drawn=drawn, **sizes)
        member = policy.member(m)
        for h in range(sizes["horizon"]):
            np.testing.assert_allclose(member.q_values(h, rows), expected(h, rows), atol=1e-8)


def log_of(seed, count, **changes):
    rng = np.random.default_rng(seed)
    return [ragged_episode(rng, **{"horizon": H, "dim": D} | changes) for _ in range(count)]


@pytest.mark.parametrize("exploration", [*DECLARED, *ESTIMATED], ids=repr)
@pytest.mark.parametrize(("stages", "end_reward"), [("shared", 0.0), ("shared", 0.4), ("own", 0.4)])
def test_a_fit_is_the_regression_on_the_raw_steps_of_each_pool(exploration, stages, end_reward):
    log = log_of(1, 9)
    assert {len(e) for e in log} > {1, H}  # early ends, and whole episodes
    assert {len(e) - len(e.next_features) for e in log if len(e) < H} == {0, 1}
    learner = learner_of(exploration, stages=stages, end_reward=end_reward)
    settings = {"stages": stages, "end_reward": end_reward}
    for count in (0, 1, 9):
        while learner.episodes < count:
            learner.absorb(log[learner.episodes])
        assert_literal(learner.fit(), log[:count], exploration, 2, **settings)


@pytest.mark.parametrize("exploration", [DECLARED[0], ESTIMATED[2]], ids=repr)
@pytest.mark.parametrize("end_reward", [0.0, 1.0])
def test_an_unclipped_fit_too(exploration, end_reward):
    log = log_of(2, 9)
    learner = learner_of(exploration, end_reward=end_reward, clip=False)
    for episode in log:
        learner.absorb(episode)
    settings = {"stages": "shared", "end_reward": end_reward, "clip": False}
    assert_literal(learner.fit(), log, exploration, 2, **settings)


@pytest.mark.parametrize("exploration", [DECLARED[0], ESTIMATED[2]], ids=repr)
@pytest.mark.parametrize("cut_off", [True, False])
@pytest.mark.parametrize("steps", [1, H - 1, H])
def test_episodes_of_one_length_ended_or_cut_off(exploration, steps, cut_off):
    log = log_of(3, 5, steps=steps, cut_off=cut_off)
    learner = learner_of(exploration, end_reward=0.3)
    for episode in log:
        learner.absorb(episode)
    assert_literal(learner.fit(), log, exploration, 2, stages="shared", end_reward=0.3)


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("exploration", [DECLARED[0], ESTIMATED[2]], ids=repr)
def test_short_horizons(horizon, exploration):
    log = log_of(4, 8, horizon=horizon)
    learner = learner_of(exploration, horizon=horizon, end_reward=0.5)
    for episode in log:
        learner.absorb(episode)
    settings = {"stages": "shared", "end_reward": 0.5, "horizon": horizon}
    assert_literal(learner.fit(), log, exploration, 2, **settings)


@pytest.mark.parametrize("exploration", [DECLARED[0], *ESTIMATED[1:]], ids=repr)
def test_positions_of_one_hot_features(exploration):
    rng = np.random.default_rng(5)
    log = [position_episode(rng, horizon=H, states=2, actions=2) for _ in range(10)]
    learner = learner_of(exploration, dim=4, one_hot=True, end_reward=0.6)
    for episode in log:
        learner.absorb(episode)
    policy, written_out = learner.fit(), [in_rows(episode, 4) for episode in log]
    for m, drawn in enumerate(drawn_for(exploration, 2, dim=4)):
        expected = literal_q(
            written_out,
            horizon=H,
            dim=4,
            stages="shared",
            exploration=exploration,
            drawn=drawn,
            end_reward=0.6,
        )
        for h in range(H):
            found = policy.member(m).q_values(h, np.arange(4))
            np.testing.assert_allclose(found, expected(h, np.eye(4)), atol=1e-8)


@pytest.mark.parametrize("eta", [1.3, 4.0])
@pytest.mark.parametrize("exploration", [DECLARED[0], ESTIMATED[2]], ids=repr)
def test_rareswitch_with_shared_stages_from_the_first_episode_to_the_last(eta, exploration):
    learner = learner_of(exploration, schedule=rs.DeterminantGrowth(eta=eta), end_reward=0.2)
    log, deployed, since = log_of(7, 20), [1], [D * np.log(RIDGE)] * 2
    for k, episode in enumerate(log, start=1):
        switched = learner.observe(episode)
        logdet = []
        for stage in (0, H - 1):  # one of each pool
            seen = [
                e.features[t] for e in log[:k] for t in pool_of(stage, H, "shared") if t < len(e)
            ]
            gram = RIDGE * np.eye(D) + sum((np.outer(f, f) for f in seen), np.zeros((D, D)))
            logdet.append(np.linalg.slogdet(gram)[1])
        due = max(now - then for now, then in zip(logdet, since, strict=True)) > np.log(eta)
        assert switched is bool(due)
        np.testing.assert_allclose(learner.clock.logdet, logdet, atol=1e-9)
        if due:
            since, deployed = logdet, [*deployed, k + 1]
            if len(deployed) < 5:
                assert_literal(
                    learner.policy,
                    log[:k],
                    exploration,
                    len(deployed),
                    stages="shared",
                    end_reward=0.2,
                )
    assert [deployment.episode for deployment in learner.ledger] == deployed
    assert len(deployed) > 3
