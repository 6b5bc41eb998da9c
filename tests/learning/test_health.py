import math
from dataclasses import FrozenInstanceError
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from literal import estimates
from oracles import episode_of, ragged_learning
from rareswitch.learning.health import Health

NEVER = rs.rules.EpisodeGrid(dates=(1,))


def learner_of(
    dim=1, horizon=1, schedule=NEVER, *, episodes=None, stages="own", warm_start=(), **recipe
):
    """Return a learner with `beta` or an exploration, and features of any length."""
    task = rs.Task(dim=dim, horizon=horizon, episodes=episodes, feature_norm=1e6, stages=stages)
    made = rs.Recipe.paper(**recipe) if "beta" in recipe else rs.Recipe(**recipe)
    return rs.Learner(task, schedule, made, warm_start=warm_start)


def step(reward, feature=(1.0,)):
    return rs.Episode(features=[feature], rewards=[reward], next_features=[])


def seen(learner, *episodes):
    for episode in episodes:
        learner.observe(episode)
    return learner.health()


def level_and_spread(targets, cap):
    """Return l and V of targets that all have the feature 1, number by number."""
    n, known = len(targets), cap**2 / 4
    level = (sum(targets) + cap / 2) / (n + 1)
    product = sum(y - level for y in targets)
    ridge = 1.0
    for _ in range(3):
        weight, determined = product / (n + ridge), n / (n + ridge)
        residual = sum((y - level - weight) ** 2 for y in targets)
        # Of a ridge regression Σ(y−l)² − w(2Σ(y−l) − nw) is the residual at w.
        spread = (known + weight**2) / (1 + determined)
        ridge = (spread + residual) / (1 + n - determined) / spread
    return level, math.sqrt(spread)


def played(world, episodes, *, seed=0, every=25, **recipe):
    """Return a learner's health on a world, every so many episodes."""
    learner = learner_of(
        world.dim, world.horizon, recipe.pop("schedule"), episodes=episodes, seed=seed, **recipe
    )
    rng = np.random.default_rng(seed)
    found = []
    for k in range(1, episodes + 1):
        member, states, actions = learner.policy.draw(k), [0], []
        for h in range(world.horizon):
            options = np.flatnonzero(world.feasible[states[h]])
            action = options[member.act(h, world.features[states[h]][options])]
            actions.append(int(action))
            states.append(int(rng.choice(world.states, p=world.transitions[h, states[h], action])))
        learner.observe(episode_of(world, np.array(states), np.array(actions)))
        if k % every == 0:
            found.append(learner.health())
    return found


# What is healthy.


def test_before_any_data_nothing_is_wrong():
    for recipe in ({}, {"beta": 0.0}, {"exploration": rs.Perturbation(0.1)}):
        health = learner_of(3, 2, **recipe).health()
        assert health == Health(reach=None, idle=0, warnings=())
        assert health.good


@cache
def largest(count):
    """Return the root mean square of the largest of so many standard normals."""
    drawn = np.random.default_rng(0).standard_normal((20_000, count))
    return float(np.sqrt(np.mean(drawn.max(axis=1) ** 2)))


@pytest.mark.parametrize("seed", range(3))
def test_a_learner_with_the_defaults_is_healthy_on_a_sensible_task(seed):
    world = rs.worlds.tabular(states=4, actions=3, horizon=2, seed=seed)
    rule = rs.SpreadBudget.for_budget(world.task(episodes=200), switches=9)
    for health in played(world, 200, seed=seed, schedule=rule):
        assert health.good, health
        assert health.reach == pytest.approx(0.5 * largest(32), rel=0.05)


def test_a_bonus_is_healthy_where_it_is_large_enough_and_else_is_told():
    world = rs.worlds.tabular(states=4, actions=3, horizon=2, seed=0)
    rule = rs.UniformGrid(batches=10)
    large = played(world, 200, schedule=rule, beta=1.0, ridge=0.01)
    tiny = played(world, 200, schedule=rule, beta=0.001, ridge=0.01)
    assert all(health.good for health in large)
    for health in tiny:
        assert not health.good
        assert health.reach < 0.1
        assert health.warnings[0].startswith("exploration is too small for the range of values")


# How far exploration reaches, by hand.


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0, 7.0])
@pytest.mark.parametrize("ridge", [0.25, 1.0, 9.0])
@pytest.mark.parametrize("length", [0.5, 1.0, 4.0])
def test_the_reach_of_a_bonus_after_one_step(beta, ridge, length):
    # The reward 1/2 is what is assumed: l = 1/2 and w = 0, so V² = (1/4)/(1 + γ). With n = 1 the
    # rounds give λ/m = 1, 2/3, 5/7 and γ = 1/2, 3/5, 7/12, hence V² = 3/19.
    health = seen(learner_of(beta=beta, ridge=ridge), step(0.5, (length,)))
    lifted = beta * length / math.sqrt(ridge)
    assert health.reach == pytest.approx((lifted - 0.5) * math.sqrt(19.0 / 3.0), rel=1e-9)
    assert health.good is (health.reach >= 0.1)


def test_the_reach_is_that_of_the_stage_where_it_is_least():
    # All is doubled at the first of two stages: the value is 1/2 + 1/2, and the cap is 2.
    whole = rs.Episode(features=[[1.0]] * 2, rewards=[0.5] * 2, next_features=[[[1.0]]])
    for beta in (0.5, 1.0, 3.0):
        health = seen(learner_of(horizon=2, beta=beta), whole)
        assert health.reach == pytest.approx((beta - 1.0) * math.sqrt(19.0 / 3.0) / 2, abs=1e-9)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12), st.floats(0.0, 3.0))
def test_the_reach_counts_in_spreads_of_value(rewards, beta):
    health = seen(learner_of(beta=beta, ridge=0.3), *map(step, rewards))
    level, spread = level_and_spread(rewards, cap=1.0)
    assert health.reach == pytest.approx((beta / math.sqrt(0.3) - level) / spread, abs=1e-6)


def test_a_stage_that_was_never_reached_says_nothing():
    # Were the second stage counted in, it would be the least: nothing there has any length.
    health = seen(learner_of(horizon=2, beta=1.0), step(0.25), step(0.75))
    level, spread = level_and_spread([0.25, 0.75], cap=2.0)
    assert health.reach == pytest.approx((1.0 - level) / spread, rel=1e-9)
    assert math.isfinite(health.reach)


def test_the_units_of_features_do_not_matter_where_the_ridge_has_them_too():
    rng = np.random.default_rng(0)
    rows, rewards = rng.standard_normal((12, 3)), rng.random(12)

    def health(unit):
        learner = learner_of(3, beta=0.2, ridge=0.5 * unit**2)
        return seen(learner, *(step(r, unit * row) for r, row in zip(rewards, rows, strict=True)))

    one, large = health(1.0), health(1000.0)
    assert large.reach == pytest.approx(one.reach, rel=1e-6)
    assert large.idle == one.idle


@pytest.mark.parametrize("dim", [1, 5])
def test_what_is_estimated_reaches_as_far_as_it_says(dim):
    rows = np.eye(dim)

    def reach(exploration):
        episodes = (step(k % 3 / 2, rows[k % dim]) for k in range(9))
        return seen(learner_of(dim, exploration=exploration), *episodes).reach

    for beta in (0.05, 1.0, 3.0):
        assert reach(rs.Bonus(beta, estimate=True)) == beta
        assert reach(rs.Bonus(beta, members=4, estimate=True)) == beta
    for scale in (0.05, 0.5, 2.0):
        for count in (1, 7, 400):
            expected = pytest.approx(scale * largest(count), rel=0.05)
            assert reach(rs.Ensemble(members=count, scale=scale)) == expected
            assert reach(rs.Perturbation(scale, draws=count, estimate=True)) == expected


def test_perturbations_of_the_declared_ridge_count_as_a_bonus_of_their_size():
    for explores in (
        rs.Perturbation(0.4, draws=900),
        rs.Ensemble(members=900, scale=0.4, estimate=False),
    ):
        health = seen(learner_of(exploration=explores, ridge=0.01), step(0.5))
        lifted = 4.0 * largest(900)
        assert health.reach == pytest.approx((lifted - 0.5) * math.sqrt(19.0 / 3.0), rel=0.05)


# What is wrong.


def test_an_exploration_that_is_too_small_says_what_to_do():
    (warning,) = seen(learner_of(beta=0.1), step(0.5)).warnings
    assert "-1 spreads of value from the average one" in warning
    for cure in ("beta", "scale", "scale", "ridge", "estimates"):
        assert cure in warning
    assert seen(learner_of(exploration=rs.Bonus(0.01, estimate=True)), step(0.5)).warnings
    assert seen(learner_of(exploration=rs.Ensemble(scale=0.01)), step(0.5)).warnings


def test_rewards_that_are_all_zero_are_told():
    learner = learner_of(beta=5.0)
    health = seen(learner, *[step(0.0)] * 7)
    assert health.warnings == ("no reward was seen in 7 episodes",)
    assert seen(learner, step(0.25)).good


def test_a_reward_at_any_stage_is_a_reward():
    late = rs.Episode(features=[[1.0]] * 2, rewards=[0.0, 1.0], next_features=[[[1.0]]])
    assert seen(learner_of(horizon=2, beta=5.0), late).good


def test_a_learner_that_only_repeats_itself_is_idle():
    # A hundred directions bring log(1 + 10⁴) each, 921 in all; one of them again and again, less
    # than a hundredth of that: log(151) ≈ 5 after 150 times.
    learner = learner_of(
        100, schedule=rs.rules.EpisodeGrid(dates=(1, 50, 101)), beta=10.0, ridge=1e-4
    )
    rows = np.eye(100)
    for k in range(100):
        health = seen(learner, step(0.5, rows[k]))
    assert (health.idle, health.good) == (0, True)
    for k in range(101, 251):
        health = seen(learner, step(0.5, rows[0]))
        assert health.idle == k - 100
        assert health.good is (k <= 200)  # then it is more than half of all episodes
    (warning,) = health.warnings
    assert warning.startswith("nothing was learnt in the last 150 episodes")
    assert "less than 1%" in warning


def test_what_is_still_learnt_is_not_idle():
    def known(n):  # log det Λ after n steps, in two directions by turns
        return math.log(1 + (n + 1) // 2) + math.log(1 + n // 2)

    learner = learner_of(2, schedule=rs.EveryEpisode(), beta=5.0)
    for n in range(1, 61):
        health = seen(learner, step(0.5, np.eye(2)[n % 2]))
        little = [j for j in range(n + 1) if known(n) - known(n - j) <= 0.01 * known(n)]
        assert health.idle == max(little) <= 2
        assert health.good


def test_features_of_nothing_teach_nothing():
    health = seen(learner_of(2, beta=5.0), *[step(0.5, (0.0, 0.0))] * 4)
    assert health.idle == 4
    assert "nothing was learnt in the last 4 episodes" in health.warnings[-1]
    assert health.reach < 0.0  # no bonus lifts what has no length


# A value, and no trace.


@pytest.mark.parametrize("recipe", [{}, {"beta": 0.8}], ids=["estimated", "declared"])
def test_a_learner_whose_episodes_were_all_withdrawn_is_as_well_as_a_new_one(recipe):
    rng, learner = np.random.default_rng(1), learner_of(3, 2, **recipe)
    rows = rng.random((60, 1, 3)) * 1e-50 ** rng.random((60, 1, 3))  # sums leave a rounding error
    log = [rs.Episode(features=each, rewards=rng.random(1), next_features=[]) for each in rows]
    learner.absorb(*log)
    assert learner.health().reach is not None
    for episode in log:
        learner.correct(episode, None)
    found = learner.health()
    assert found.reach is None
    assert not any("feature" in each or "reward" in each for each in found.warnings)


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("seed", [4, 5])
def test_rewards_that_were_withdrawn_were_not_seen(one_hot, seed):
    rng = np.random.default_rng(seed)
    learner = rs.Learner(rs.Task(dim=2, horizon=1, one_hot=one_hot), NEVER)
    rows = [0] if one_hot else np.eye(2)[:1]
    paid, unpaid = (
        [rs.Episode(features=rows, rewards=[r], next_features=[]) for r in rewards]
        for rewards in (rng.random(200), np.zeros(5))
    )
    learner.absorb(*paid, *unpaid)
    assert not any("no reward" in each for each in learner.health().warnings)
    for episode in rng.permutation(len(paid)):
        learner.correct(paid[episode], None)
    assert "no reward was seen in 205 episodes" in learner.health().warnings


def test_health_is_a_value():
    health = seen(learner_of(beta=1.0), step(0.5))
    assert health == seen(learner_of(beta=1.0), step(0.5))
    with pytest.raises(FrozenInstanceError):
        health.idle = 3


@pytest.mark.parametrize("recipe", [{}, {"beta": 0.3}, {"exploration": rs.Perturbation(0.2)}])
def test_asking_leaves_no_trace_and_a_restored_learner_is_as_well(recipe):
    learner = learner_of(3, 2, rs.DeterminantGrowth(eta=2.0), **recipe)
    ragged_learning(learner, seed=1, start=0, stop=30)
    before = learner.snapshot()
    health = learner.health()
    assert learner.snapshot() == before
    assert rs.Learner.restore(before).health() == health


@pytest.mark.parametrize("members", [1, 2, 32])
def test_the_reach_does_not_depend_on_what_was_drawn(members):
    for seed in range(10):
        learner = learner_of(exploration=rs.Ensemble(members=members), seed=seed)
        reach = seen(learner, step(0.5)).reach
        assert reach == pytest.approx(0.5 * largest(members), rel=0.05)


@pytest.mark.parametrize(("length", "ridge"), [(1e-7, 1.0), (1e-4, 1e6)])
def test_features_that_are_lost_beside_the_ridge_are_told(length, ridge):
    learner = learner_of(ridge=ridge)
    (warning,) = seen(learner, *[step(r, (length,)) for r in (0.2, 0.9, 0.4)]).warnings
    assert warning.startswith("features are too short compared with ridge")
    assert seen(learner_of(ridge=length**2), step(0.5, (length,))).good
    silent = seen(learner_of(), step(0.5, (0.0,))).warnings  # no feature: nothing that is lost
    assert not any("too short" in warning for warning in silent)


def test_a_learner_that_estimates_is_not_told_to_estimate():
    (warning,) = seen(learner_of(exploration=rs.Ensemble(scale=0.01)), step(0.5)).warnings
    assert warning.endswith("raise beta or scale")


# Stages that share, ends that are worth something, and a warm start.


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("end_reward", [0.0, 0.7])
@pytest.mark.parametrize("beta", [0.05, 0.8])  # the last stage is worst off, or the first
def test_the_reach_of_shared_stages_is_that_of_the_pools(one_hot, end_reward, beta):
    ridge, H = 0.5, 3
    learner = rs.Learner(
        rs.Task(dim=1, horizon=H, stages="shared", one_hot=one_hot, end_reward=end_reward),
        NEVER,
        rs.Recipe.paper(beta=beta, ridge=ridge),
    )
    lengths = np.ones(H) if one_hot else np.array([1.0, 0.6, 0.3])  # of the feature of each step
    rewards = [(0.9, 0.1, 0.4), (0.2,), (0.6, 0.3), (0.5, 0.8, 1.0)]
    rows = [[0]] * H if one_hot else [[[length]] for length in lengths]
    for given_ in rewards:
        steps = len(given_)
        features = [0] * steps if one_hot else lengths[:steps, None]
        following = rows[1:steps]
        learner.observe(rs.Episode(features=features, rewards=given_, next_features=following))
    level, weight, reaches = 0.0, 0.0, []
    for h in reversed(range(H)):
        values = np.clip(level + weight * lengths, 0.0, H - h - 1)  # of the states of each step
        features, targets = [], []
        for given_ in rewards:
            for t, reward in enumerate(given_[: H if h == H - 1 else H - 1]):
                after = 0.0
                if h < H - 1:
                    ended = t + 1 == len(given_)
                    after = end_reward * (H - 1 - h) if ended else values[t + 1]
                features.append(lengths[t])
                targets.append(reward + after)
        features, targets = np.array(features), np.array(targets)
        level, _, squared, found = estimates(features[:, None], targets, H - h)
        weight = features @ (targets - level) / (features @ features + found)
        typical = math.sqrt(features @ features / len(features))
        reaches.append((beta * typical / math.sqrt(ridge) - level) / math.sqrt(squared))
    assert learner.health().reach == pytest.approx(min(reaches), rel=1e-9)


def test_a_stage_that_no_episode_reached_counts_where_it_learns_from_others():
    short = rs.Episode(features=[[1.0]], rewards=[0.9], next_features=[])
    own, shared = (
        seen(learner_of(1, 3, beta=0.3, stages=stages), *[short] * 5).reach
        for stages in ("own", "shared")
    )
    assert own is not None
    assert shared is not None
    # Stage 0 is the only one that learns on its own; of those that share, another is worse off.
    assert shared < own


def test_a_warm_start_is_known_but_none_of_the_learners_own_episodes():
    warm = [step(0.5)] * 9
    learner = learner_of(beta=1.0, schedule=rs.EveryEpisode(), warm_start=warm)
    health = learner.health()
    assert health.reach is not None
    assert (health.idle, health.good) == (0, True)
    after = seen(learner, *[step(0.5)] * 3)
    assert after.idle <= 3
    nothing = learner_of(beta=1.0, warm_start=[step(0.0)] * 4).health()
    assert nothing.warnings == ("no reward was seen in 4 episodes",)
