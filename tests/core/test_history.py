from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import (
    cheap,
    episode_of,
    in_rows,
    interrupted,
    position_episode,
    ragged_episode,
    reference_q,
    unit_rows,
)
from rareswitch.core import codec
from rareswitch.core.history import History
from rareswitch.core.lsvi import fit
from rareswitch.core.recipe import Recipe
from rareswitch.core.undo import take_back

TWO = np.eye(2)


def learner(**changes):
    arguments = {"dim": 2, "horizon": 2, "schedule": rs.EveryEpisode(), "beta": 0.4}
    return rs.Learner(**(arguments | {"ties": "lowest"} | changes))


def test_arrays_changed_after_observe_change_nothing():
    features, rewards, menu = np.eye(2), np.array([0.0, 1.0]), np.eye(2)
    touched, untouched = learner(), learner()
    touched.observe(rs.Episode(features=features, rewards=rewards, next_features=[menu]))
    untouched.observe(rs.Episode(features=TWO, rewards=[0.0, 1.0], next_features=[TWO]))
    features[:], rewards[:], menu[:] = 0.3, 0.3, 0.3
    touched.observe(rs.Episode(features=TWO, rewards=[1.0, 1.0], next_features=[TWO]))
    untouched.observe(rs.Episode(features=TWO, rewards=[1.0, 1.0], next_features=[TWO]))
    assert touched.snapshot() == untouched.snapshot()


def test_after_an_early_end_nothing_is_worth_anything():
    ended = learner(dim=1)
    ended.observe(rs.Episode(features=[[1.0]], rewards=[0.5], next_features=[]))
    assert ended.policy.weights[:, 0] == pytest.approx([0.5 / 2, 0.0])
    assert ended.policy.whitener[1, 0, 0] == 1.0  # stage 1 was not reached


def test_an_episode_cut_off_is_worth_its_last_next_state():
    cut = learner(dim=1)
    cut.observe(rs.Episode(features=[[1.0]], rewards=[0.5], next_features=[[[1.0], [0.2]]]))
    # V_1 = 0.4·‖1‖ under Λ_1 = 1, so w_0 = (0.5 + 0.4)/2
    assert cut.policy.weights[:, 0] == pytest.approx([0.9 / 2, 0.0])


def test_after_the_horizon_a_next_state_is_ignored():
    complete, overlong = learner(), learner()
    parts = {"features": TWO, "rewards": [0.2, 0.7]}
    complete.observe(rs.Episode(**parts, next_features=[TWO]))
    overlong.observe(rs.Episode(**parts, next_features=[TWO, 5 * TWO]))
    assert complete.snapshot() == overlong.snapshot()


@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.sampled_from([0.05, 1.0, 3.0]))
def test_any_ragged_history_gives_the_values_of_the_raw_regression(seed, horizon, clip, ridge):
    rng = np.random.default_rng(seed)
    dim, beta = 3, 0.6
    episodes = [ragged_episode(rng, horizon=horizon, dim=dim) for _ in range(12)]
    fed = learner(dim=dim, horizon=horizon, beta=beta, ridge=ridge, clip=clip)
    for episode in episodes:
        fed.observe(episode)
    expected = reference_q(episodes, horizon=horizon, dim=dim, beta=beta, ridge=ridge, clip=clip)
    for h in range(horizon):
        rows = unit_rows(rng, 6, dim)
        np.testing.assert_allclose(fed.policy.q_values(h, rows), expected(h, rows), atol=1e-9)


def test_next_states_are_those_of_the_episodes():
    world = rs.instances.tabular(states=3, actions=2, horizon=4, seed=0)
    rng = np.random.default_rng(0)
    history = empty(dim=world.dim, horizon=4)
    for _ in range(200):
        history.absorb(episode_of(world, rng.integers(0, 3, 5), rng.integers(0, 2, 4)))
    arrays = history.to_arrays()
    for h in range(world.horizon - 1):
        assert arrays[f"next_states/{h}/rows"].shape == (3 * 2, world.dim)
        sums = arrays[f"next_states/{h}/sums"]
        assert sums[:, : world.dim].sum() == sums[:, world.dim].sum() == 200
        assert sums[:, -1].sum() == pytest.approx(history.step_sums[h, -1])
    assert history.episodes == 200


def empty(**changes):
    return History(**{"dim": 3, "horizon": 2, "ridge": 1.0, "feature_norm": 1e6} | changes)


def contents(history):
    """Return all that a history holds, as bytes."""
    return {name: array.tobytes() for name, array in history.to_arrays().items()}


def test_a_log_folded_is_episodes_absorbed_one_by_one():
    rng = np.random.default_rng(3)
    log = [ragged_episode(rng, horizon=3, dim=2) for _ in range(30)]
    one_by_one = empty(dim=2, horizon=3, ridge=0.3)
    for episode in log:
        one_by_one.absorb(episode)
    folded = History.from_log(iter(log), dim=2, horizon=3, ridge=0.3)
    assert contents(folded) == contents(one_by_one)
    assert folded.episodes == 30


@given(st.data(), st.integers(0, 10**6), st.sampled_from([0.1, 1.0]))
def test_neither_the_order_of_episodes_nor_who_acted_matters(data, seed, ridge):
    rng = np.random.default_rng(seed)
    log = [ragged_episode(rng, horizon=3, dim=3) for _ in range(12)]
    # Some states are met several times, with their actions in another order.
    log += [
        replace(e, next_features=[rng.permutation(rows) for rows in e.next_features])
        for e in log[:5]
    ]
    order = data.draw(st.permutations(range(len(log))))
    recipe = Recipe(exploration=rs.Bonus(0.4), ridge=ridge)
    histories = [
        History.from_log(each, dim=3, horizon=3, ridge=ridge)
        for each in (log, [log[i] for i in order])
    ]
    policies = [fit(history, recipe, version=3) for history in histories]
    np.testing.assert_allclose(policies[0].weights, policies[1].weights, atol=1e-9)
    np.testing.assert_allclose(
        histories[0].gram.logdet, histories[1].gram.logdet, rtol=0, atol=1e-12
    )
    rows = unit_rows(rng, 9, 3)
    for h in range(3):
        found = [policy.q_values(h, rows) for policy in policies]
        np.testing.assert_allclose(*found, atol=1e-9)
    counts = [history.to_arrays()["next_states/0/lengths"] for history in histories]
    assert sorted(counts[0]) == sorted(counts[1])


@given(st.integers(0, 10**6), st.integers(0, 8))
def test_an_episode_taken_back_leaves_every_byte_as_it_was(seed, count):
    rng = np.random.default_rng(seed)
    log = [ragged_episode(rng, horizon=3, dim=2) for _ in range(count)]
    history = History.from_log(log, dim=2, horizon=3)
    before = contents(history)
    new = ragged_episode(rng, horizon=3, dim=2)
    for episode in (new, *log[:2], new):
        undo = []
        history.absorb(episode, undo)
        take_back(undo)
        assert contents(history) == before
        assert history.episodes == count
    history.absorb(new)
    assert contents(history) == contents(History.from_log([*log, new], dim=2, horizon=3))


def test_a_history_survives_its_arrays():
    rng = np.random.default_rng(3)
    history = empty(dim=2, horizon=3)
    for _ in range(20):
        history.absorb(ragged_episode(rng, horizon=3, dim=2))
    copy = empty(dim=2, horizon=3)
    packed = codec.pack("history", {}, history.to_arrays())
    copy.fill(codec.unpack("history", packed), episodes=20)
    assert copy.episodes == 20
    for episode in (ragged_episode(rng, horizon=3, dim=2) for _ in range(3)):
        assert contents(copy) == contents(history)
        history.absorb(episode)
        copy.absorb(episode)
    assert contents(copy) == contents(history)


# Stages that share, ends that are worth something, and features by position.

KINDS = [
    {"stages": stages, "one_hot": one_hot}
    for stages in ("own", "shared")
    for one_hot in (True, False)
]
BY_KIND = pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: f"{kind['stages']}-{'one_hot' if kind['one_hot'] else 'rows'}"
)


def log_of(seed, count, *, one_hot, states=2, actions=2, **rest):
    """Return episodes in which states are met again, their actions in another order."""
    rng = np.random.default_rng(seed)
    sizes = {"horizon": 3, "states": states, "actions": actions} | rest
    log = [position_episode(rng, **sizes) for _ in range(count)]
    return log if one_hot else [in_rows(episode, states * actions) for episode in log]


@BY_KIND
def test_an_episode_of_any_kind_taken_back_leaves_no_trace_then_or_later(kind):
    for seed in range(15):
        log = log_of(seed, 6, one_hot=kind["one_hot"])
        history, untouched = (
            History.from_log(log[:2], dim=4, horizon=3, end_reward=0.3, **kind) for _ in range(2)
        )
        before, undo = contents(history), []
        for episode in log[2:4]:
            history.absorb(episode, undo)
        take_back(undo)
        assert (contents(history), history.episodes) == (before, 2)
        for episode in (log[3], *log[4:], log[2]):
            history.absorb(episode)
            untouched.absorb(episode)
            assert contents(history) == contents(untouched)


@BY_KIND
def test_a_state_met_twice_in_an_episode_that_is_taken_back_is_forgotten_in_any_order(kind):
    menu, turned, other = [0, 1, 2], [1, 2, 0], [3]
    log = [
        rs.Episode(features=[0, 1, 2], rewards=[0.1, 0.2, 0.3], next_features=following)
        for following in ([menu, turned], [other, turned], [turned, other])
    ]
    if not kind["one_hot"]:
        log = [in_rows(episode, 4) for episode in log]
    first, second, third = log
    history = History.from_log([], dim=4, horizon=3, **kind)
    undo = []
    history.absorb(first, undo)
    take_back(undo)
    for episode in (second, third, first):
        history.absorb(episode)
    assert contents(history) == contents(
        History.from_log([second, third, first], dim=4, horizon=3, **kind)
    )


@BY_KIND
def test_taking_an_episode_back_twice_is_taking_it_back_once(kind):
    log = log_of(5, 5, one_hot=kind["one_hot"], steps=3)
    history, undo = History.from_log(log[:2], dim=4, horizon=3, **kind), []
    before = contents(history)
    history.absorb(log[2], undo)
    (step,) = undo
    step()
    history.absorb(log[3])
    after = contents(history)
    step()
    assert contents(history) == after != before


@BY_KIND
def test_an_interruption_at_any_line_leaves_the_history_whole(kind):
    log = log_of(3, 4, one_hot=kind["one_hot"], steps=3)
    base = partial(History.from_log, dim=4, horizon=3, **kind)
    before, done = contents(base(log[:2])), contents(base(log[:3]))
    later, lines, goes_on = contents(base(log)), 0, True
    while goes_on:
        lines += 1
        history, undo = base(log[:2]), []
        goes_on = interrupted(partial(history.absorb, log[2], undo), lines)
        if goes_on:  # a caller that was told how to take it back does so once more
            take_back(undo)
            assert (contents(history), history.episodes) == (before, 2), lines
            history.absorb(log[2])
        assert (contents(history), history.episodes) == (done, 3), lines
        history.absorb(log[3])
        assert contents(history) == later, lines
    assert lines > 40


@pytest.mark.parametrize("one_hot", [True, False])
def test_an_early_end_is_worth_so_much_for_each_stage_that_was_not_played(one_hot):
    recipe = Recipe(exploration=rs.Bonus(0.0))
    feature = [0] if one_hot else [[1.0]]
    ended = rs.Episode(features=feature, rewards=[0.5], next_features=[])
    for stages in ("own", "shared"):
        history = History.from_log(
            [ended], dim=1, horizon=4, stages=stages, one_hot=one_hot, end_reward=0.25
        )
        weights = fit(history, recipe, version=1).weights[:, 0]
        # Stage 0 has three stages after it, the last none; all are halved by the ridge.
        wanted = [1.25, 1.0, 0.75, 0.5] if stages == "shared" else [1.25, 0.0, 0.0, 0.0]
        assert weights == pytest.approx(np.array(wanted) / 2)


@pytest.mark.parametrize("one_hot", [True, False])
def test_an_episode_that_was_cut_off_or_played_all_stages_did_not_end_early(one_hot):
    for steps, cut_off in ((1, True), (2, True), (3, True), (3, False)):
        log = log_of(1, 8, one_hot=one_hot, steps=steps, cut_off=cut_off)
        for stages in ("own", "shared"):
            weights = [
                fit(
                    History.from_log(
                        log, dim=4, horizon=3, stages=stages, one_hot=one_hot, end_reward=worth
                    ),
                    Recipe(),
                    version=1,
                ).weights
                for worth in (0.0, 0.9)
            ]
            np.testing.assert_array_equal(*weights)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3]), st.booleans())
def test_a_single_stage_has_nothing_to_share(seed, end_reward, one_hot):
    log = log_of(seed, 8, one_hot=one_hot, horizon=1)
    own, shared = (
        History.from_log(
            log, dim=4, horizon=1, stages=stages, one_hot=one_hot, end_reward=end_reward
        )
        for stages in ("own", "shared")
    )
    assert contents(own) == contents(shared)
    for exploration in (rs.Bonus(0.4), rs.Ensemble(3)):
        recipe = Recipe(exploration=exploration)
        assert fit(own, recipe, 2).to_bytes() == fit(shared, recipe, 2).to_bytes()


@given(st.integers(0, 10**6), st.sampled_from(KINDS))
def test_the_order_of_episodes_does_not_matter_whatever_the_kind(seed, kind):
    log, rng = log_of(seed, 10, one_hot=kind["one_hot"]), np.random.default_rng(seed)
    first, second = (
        History.from_log([log[i] for i in order], dim=4, horizon=3, end_reward=0.2, **kind)
        for order in (range(10), rng.permutation(10))
    )
    recipe = Recipe(exploration=rs.Ensemble(2))
    weights = [fit(history, recipe, version=3).weights for history in (first, second)]
    np.testing.assert_allclose(*weights, atol=1e-9)


@BY_KIND
def test_a_history_of_any_kind_survives_its_arrays(kind):
    log = log_of(4, 12, one_hot=kind["one_hot"])
    history = History.from_log(log[:8], dim=4, horizon=3, **kind)
    copy = History(dim=4, horizon=3, ridge=1.0, feature_norm=1e6, **kind)
    packed = codec.pack("history", {}, history.to_arrays())
    copy.fill(codec.unpack("history", packed), episodes=8)
    for episode in log[8:]:
        assert (contents(copy), copy.stored_rows) == (contents(history), history.stored_rows)
        history.absorb(episode)
        copy.absorb(episode)
    assert contents(copy) == contents(history)


ROWS = rs.Episode(features=np.eye(3)[:1], rewards=[1.0], next_features=[np.eye(3)])
POSITIONS = rs.Episode(features=[2], rewards=[1.0], next_features=[[0, 2]])


@pytest.mark.parametrize(
    ("changes", "episode", "message"),
    [
        ({}, POSITIONS, "episode must have rows of features; got positions of one-hot features"),
        (
            {"one_hot": True},
            ROWS,
            "episode must have positions of one-hot features; got rows of features",
        ),
        (
            {"one_hot": True, "dim": 2},
            POSITIONS,
            "episode must have positions below dim = 2; got 2",
        ),
        (
            {"one_hot": True},
            rs.Episode(features=[2], rewards=[1.0], next_features=[[0, 3]]),
            "episode must have positions below dim = 3; got 3",
        ),
        (
            {"one_hot": True, "horizon": 1},
            rs.Episode(features=[2, 1], rewards=[1.0, 0.0], next_features=[[0]]),
            "episode must have at most 1 steps; got 2",
        ),
    ],
)
@pytest.mark.parametrize("stages", ["own", "shared"])
def test_an_episode_of_another_kind_is_refused_and_leaves_no_trace(
    changes, episode, message, stages
):
    history = empty(stages=stages, **changes)
    before = contents(history)
    with pytest.raises(ValueError, match=message):
        history.absorb(episode)
    assert (contents(history), history.episodes) == (before, 0)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"stages": "both"}, ValueError, "stages must be one of 'own', 'shared'; got 'both'"),
        ({"one_hot": 1}, TypeError, "one_hot must be True or False; got 1"),
        ({"end_reward": 1.5}, ValueError, "end_reward must be .* at least 0 and at most 1; got"),
        ({"end_reward": -0.1}, ValueError, "end_reward must be .* at least 0 and at most 1; got"),
        ({"end_reward": np.nan}, ValueError, "end_reward must be a finite number"),
        ({"end_reward": None}, TypeError, "end_reward must be a finite number"),
        (
            {"one_hot": True, "feature_norm": 0.5},
            ValueError,
            "feature_norm must be at least 1, the length of a one-hot feature; got 0.5",
        ),
    ],
)
def test_a_bad_argument_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        empty(**changes)


def test_long_horizons_cost_no_more_than_their_length():
    for stages in ("own", "shared"):
        with cheap(megabytes=25.0, seconds=30.0):
            history = History(
                dim=2,
                horizon=3000,
                ridge=1.0,
                feature_norm=1.0,
                stages=stages,
                one_hot=True,
            )
            for _ in range(2):
                history.absorb(
                    rs.Episode(
                        features=np.zeros(3000, int),
                        rewards=np.zeros(3000),
                        next_features=[np.arange(2)] * 2999,
                    )
                )
            assert history.pools.steps.sum() in (3000, 5999)
