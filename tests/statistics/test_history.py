from dataclasses import replace
from inspect import getmembers

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from oracles import (
    cheap,
    episode_of,
    in_rows,
    interrupted,
    position_episode,
    ragged_episode,
    ragged_learning,
    reference_q,
    unit_rows,
)
from rareswitch.core.lsvi import QFunction
from rareswitch.core.policy import fit
from rareswitch.core.recipe import Recipe
from rareswitch.statistics import history_of
from rareswitch.statistics.history import SummedHistory
from rareswitch.statistics.moves import Moves
from rareswitch.statistics.next_states import NextStates
from rareswitch.support import codec

TWO = np.eye(2)
STAGES = pytest.mark.parametrize("stages", ["own", "shared"])


def learner(dim=2, horizon=2, feature_norm=1.0, **recipe):
    task = rs.Task(dim=dim, horizon=horizon, feature_norm=feature_norm)
    recipe = rs.Recipe.paper(**{"beta": 0.4, "ties": "lowest"} | recipe)
    return rs.Learner(task, rs.EveryEpisode(), recipe)


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
    complete, overlong = learner(feature_norm=5.0), learner(feature_norm=5.0)
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
    world = rs.worlds.tabular(states=3, actions=2, horizon=4, seed=0)
    rng = np.random.default_rng(0)
    history = history_of(world.task(episodes=200))
    for _ in range(200):
        episode = episode_of(world, rng.integers(0, 3, 5), rng.integers(0, 2, 4))
        history = history.absorb(episode)
    history = history.fold()
    arrays = history.to_arrays()
    for h in range(world.horizon - 1):
        assert arrays[f"next_states/{h}/rows"].shape == (3 * 2, world.dim)
        sums = arrays[f"next_states/{h}/sums"]
        assert sums[:, : world.dim].sum() == sums[:, world.dim].sum() == 200
        assert sums[:, -1].sum() == pytest.approx(history.step_sums[h, -1])
    assert history.episodes == 200


def contents(history):
    """Return all that a history holds, as bytes."""
    return {name: array.tobytes() for name, array in history.fold().to_arrays().items()}


def test_a_log_folded_is_episodes_absorbed_one_by_one():
    rng = np.random.default_rng(3)
    log = [ragged_episode(rng, horizon=3, dim=2) for _ in range(30)]
    one_by_one = history_of(rs.Task(dim=2, horizon=3), 0.3)
    for episode in log:
        one_by_one = one_by_one.absorb(episode)
    folded = history_of(rs.Task(dim=2, horizon=3), 0.3, iter(log))
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
        history_of(rs.Task(dim=3, horizon=3), ridge, each)
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
    counts = [history.fold().to_arrays()["next_states/0/lengths"] for history in histories]
    assert sorted(counts[0]) == sorted(counts[1])


# Stages that share, ends that are worth something, and features by position.

KINDS = [
    rs.Task(dim=4, horizon=3, stages=stages, one_hot=one_hot)
    for stages in ("own", "shared")
    for one_hot in (True, False)
]
BY_KIND = pytest.mark.parametrize(
    "task", KINDS, ids=lambda task: f"{task.stages}-{'one_hot' if task.one_hot else 'rows'}"
)


def log_of(seed, count, *, one_hot, states=2, actions=2, **rest):
    """Return episodes in which states are met again, their actions in another order."""
    rng = np.random.default_rng(seed)
    sizes = {"horizon": 3, "states": states, "actions": actions} | rest
    log = [position_episode(rng, **sizes) for _ in range(count)]
    return log if one_hot else [in_rows(episode, states * actions) for episode in log]


@BY_KIND
@given(
    st.integers(0, 10**6), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 3)), max_size=9)
)
def test_every_history_stays_the_history_of_its_log_whatever_is_made_of_it(task, seed, operations):
    """Absorb into, or fold, any history so far; each stays that of the episodes in it."""
    task, log = replace(task, end_reward=0.3), log_of(seed, 10, one_hot=task.one_hot)
    histories, logs = [history_of(task, log=log[:1])], [log[:1]]
    for which, count in operations:
        i = which % len(histories)
        new = [log[(which + k) % 10] for k in range(count)]
        made = histories[i].absorb(*new) if new else histories[i].fold()
        histories.append(made)
        logs.append([*logs[i], *new])
    for history, its_log in zip(histories, logs, strict=True):
        assert history.episodes == len(its_log)
        assert contents(history) == contents(history_of(task, log=its_log))


@BY_KIND
def test_a_state_met_twice_in_an_episode_that_was_tried_is_forgotten_in_any_order(task):
    menu, turned, other = [0, 1, 2], [1, 2, 0], [3]
    log = [
        rs.Episode(features=[0, 1, 2], rewards=[0.1, 0.2, 0.3], next_features=following)
        for following in ([menu, turned], [other, turned], [turned, other])
    ]
    if not task.one_hot:
        log = [in_rows(episode, 4) for episode in log]
    first, second, third = log
    history = history_of(task)
    history.absorb(first).fold()
    history = history.absorb(second).absorb(third).absorb(first)
    assert contents(history) == contents(history_of(task, log=[second, third, first]))


@BY_KIND
def test_an_interruption_at_any_line_leaves_the_history_whole(task):
    log = log_of(3, 4, one_hot=task.one_hot, steps=3)
    before, done = (contents(history_of(task, log=log[:count])) for count in (2, 3))
    later, lines, goes_on = contents(history_of(task, log=log)), 0, True
    while goes_on:
        lines += 1
        history = history_of(task, log=log[:2])
        goes_on = interrupted(lambda history=history: history.absorb(log[2]).fold(), lines)
        assert (contents(history), history.episodes) == (before, 2), lines
        longer = history.absorb(log[2])
        assert (contents(longer), longer.episodes) == (done, 3), lines
        assert contents(longer.absorb(log[3])) == later, lines
    assert lines > 40


@BY_KIND
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_when_a_history_is_folded_makes_no_difference_bit_for_bit(task, seed, count):
    task, log = replace(task, end_reward=0.3), log_of(seed, count, one_hot=task.one_hot)
    often = history_of(task)
    for episode in log:
        often = often.absorb(episode).fold()
    late = history_of(task, log=log).fold()
    following = QFunction(np.linspace(-1.0, 2.0, 4), None, None, 0.0, None, 2.0)
    for name in ("step_sums", "reward_sums", "whitener"):
        assert getattr(often, name).tobytes() == getattr(late, name).tobytes(), name
    for h in range(2):
        sums = [history.next_value_sums(h, following).tobytes() for history in (often, late)]
        assert sums[0] == sums[1]
    assert often.stored_rows == late.stored_rows
    assert contents(often) == contents(late)
    for exploration in (rs.Bonus(0.4), rs.Ensemble(3)):
        recipe = Recipe(exploration=exploration)
        assert fit(often, recipe, 2).to_bytes() == fit(late, recipe, 2).to_bytes()


PROPERTIES = [name for name, part in getmembers(SummedHistory) if isinstance(part, property)]


def state_of(history):
    """Return all attributes of a history: its numbers, and which objects it holds."""
    return {
        name: (id(part), part.tobytes() if isinstance(part, np.ndarray) else part)
        for name, part in vars(history).items()
    }


@BY_KIND
@pytest.mark.parametrize("folded", [True, False])
def test_no_property_changes_a_history(task, folded):
    history = history_of(task, log=log_of(7, 12, one_hot=task.one_hot))
    history = history.fold() if folded else history
    assert (len(history._waiting) == 0) is folded
    before, held = state_of(history), vars(history).copy()
    assert {"step_sums", "reward_sums", "whitener", "stored_rows", "pools"} <= {*PROPERTIES}
    for _ in range(2):
        for name in PROPERTIES:
            getattr(history, name)
        assert state_of(history) == before
    assert held.keys() == vars(history).keys()


@BY_KIND
def test_sums_are_those_of_the_last_fold_until_the_next(task):
    log = log_of(7, 12, one_hot=task.one_hot)
    folded = history_of(task, log=log[:5]).fold()
    waiting = folded.absorb(*log[5:])
    # Λ grows with every episode, since schedules look at it; the other sums wait for a fit.
    assert waiting.gram.trace.sum() > folded.gram.trace.sum()
    assert waiting.reward_sums.tobytes() == folded.reward_sums.tobytes()
    assert waiting.fold().reward_sums.sum() > folded.reward_sums.sum()
    assert folded.fold() is folded
    again = waiting.fold()
    assert again.fold() is again
    assert again is not waiting


@BY_KIND
def test_of_several_episodes_all_are_taken_or_none(task):
    log = log_of(1, 6, one_hot=task.one_hot)
    history = history_of(task, log=log[:3])
    before = contents(history)
    overlong = rs.Episode(features=[4], rewards=[0.0], next_features=[])
    if not task.one_hot:
        overlong = rs.Episode(features=[[2.0, 0.0, 0.0, 0.0]], rewards=[0.0], next_features=[])
    for wrong, error in ((overlong, ValueError), ("episode", TypeError)):
        with pytest.raises(error, match="episode must"):
            history.absorb(*log[3:], wrong)
        assert (contents(history), history.episodes) == (before, 3)
    assert contents(history.absorb()) == before
    assert contents(history.absorb(*log[3:])) == contents(history_of(task, log=log))


# Episodes that are removed or replaced.

EXPLORATIONS = [
    rs.Bonus(0.4),
    rs.Bonus(0.4, estimate=True),
    rs.Perturbation(0.5, draws=3),
    rs.Ensemble(3),
]


def assert_same_fits(found, wanted, *, ridge, tolerance):
    """Compare Λ and the policies of every exploration, beyond rounding."""
    for name in ("logdet", "trace"):
        numbers = [getattr(history.gram, name) for history in (found, wanted)]
        np.testing.assert_allclose(*numbers, rtol=tolerance, atol=tolerance)
    for exploration in EXPLORATIONS:
        recipe = Recipe(exploration=exploration, ridge=ridge)
        policies = [fit(history, recipe, version=2) for history in (found, wanted)]
        for name in ("weights", "levels", "offsets"):
            arrays = [getattr(policy, name) for policy in policies]
            if arrays[1] is not None:
                largest = max(1.0, np.abs(arrays[1]).max())
                np.testing.assert_allclose(*arrays, rtol=tolerance, atol=tolerance * largest)
        rows = np.arange(4) if found.one_hot else np.eye(4)
        for h in range(3):
            values = [policy.q_values(h, rows) for policy in policies]
            np.testing.assert_allclose(*values, rtol=tolerance, atol=tolerance)


def corrections_of(rng, log, count):
    """Return pairs of old and new episodes: other rewards, other steps, or None."""
    pairs = []
    for i, old in enumerate(log[:count]):
        new = [log[-1 - i], None, replace(old, rewards=rng.random(len(old)))][i % 3]
        pairs.append((old, new))
    return pairs


def corrected(history, pairs, *, fold=lambda: False):
    for old, new in pairs:
        history = history.remove(old) if new is None else history.replace(old, new)
        if fold():
            history = history.fold()
    return history


@BY_KIND
@pytest.mark.parametrize(("ridge", "tolerance"), [(1.0, 1e-9), (1e-3, 1e-6)])
@settings(max_examples=12)
@given(st.integers(0, 10**6), st.booleans())
def test_a_corrected_history_is_that_of_the_corrected_log(task, ridge, tolerance, seed, dense):
    task, rng = replace(task, end_reward=0.3), np.random.default_rng(seed)
    log = log_of(seed, 20, one_hot=task.one_hot)
    if dense and not task.one_hot:
        log = [ragged_episode(rng, horizon=3, dim=4) for _ in range(20)]
    pairs = corrections_of(rng, log[:15], 9)
    found = corrected(history_of(task, ridge, log), pairs, fold=lambda: rng.random() < 0.3)
    wanted = history_of(task, ridge, [new for _, new in pairs if new is not None] + log[9:])
    assert (found.episodes, wanted.episodes) == (20, 17)
    assert_same_fits(found, wanted, ridge=ridge, tolerance=tolerance)
    again = found.absorb(*log[:3])
    assert_same_fits(again, wanted.absorb(*log[:3]), ridge=ridge, tolerance=tolerance)


@BY_KIND
@pytest.mark.parametrize(("ridge", "tolerance"), [(1.0, 1e-9), (1e-3, 1e-6)])
def test_a_history_without_its_episodes_is_that_of_no_log(task, ridge, tolerance):
    log = log_of(2, 100, one_hot=task.one_hot)
    log += log_of(3, 100, one_hot=task.one_hot, steps=2)
    found = history_of(task, ridge, log).remove(*log)
    assert_same_fits(found, history_of(task, ridge), ridge=ridge, tolerance=tolerance)
    # No step of the last stage remains: only rounding does.
    found = history_of(task, ridge, log).remove(*log[:100])
    assert_same_fits(found, history_of(task, ridge, log[100:]), ridge=ridge, tolerance=tolerance)


@BY_KIND
@pytest.mark.parametrize("ridge", [1e-9, 1e-14])
def test_a_removal_beside_a_tiny_ridge_gives_no_nan(task, ridge):
    log = log_of(4, 8, one_hot=task.one_hot)
    if not task.one_hot:
        rng = np.random.default_rng(4)
        log += [ragged_episode(rng, horizon=3, dim=4) for _ in range(4)]
    history = history_of(task, ridge, log)
    for episode in log:
        history = history.remove(episode)
        for exploration in EXPLORATIONS:
            policy = fit(history, Recipe(exploration=exploration, ridge=ridge), version=2)
            assert np.isfinite(policy.weights).all()
            assert np.isfinite(
                policy.q_values(0, np.arange(4) if task.one_hot else np.eye(4))
            ).all()


@BY_KIND
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_when_corrections_are_folded_makes_no_difference_bit_for_bit(task, seed, count):
    task, rng = replace(task, end_reward=0.3), np.random.default_rng(seed)
    log = log_of(seed, 14, one_hot=task.one_hot)
    pairs = corrections_of(rng, log, count)
    late = corrected(history_of(task, log=log), pairs)
    assert len(late._waiting) > 14  # the episodes themselves still wait
    for share in (0.4, 1.0):
        often = history_of(task, log=log)
        often = corrected(often, pairs, fold=lambda share=share: rng.random() < share)
        assert contents(often) == contents(late)
    assert late.episodes == often.episodes == 14


@BY_KIND
def test_a_corrected_history_leaves_the_one_before_as_it_was(task):
    log = log_of(5, 9, one_hot=task.one_hot)
    history = history_of(task, log=log[:6])
    before = contents(history)
    for made in (history.remove(log[2]), history.replace(log[2], log[8])):
        made.fold().absorb(log[7]).fold()
        assert (contents(history), history.episodes) == (before, 6)
    assert contents(history.absorb(*log[6:])) == contents(history_of(task, log=log))


@BY_KIND
def test_a_correction_of_rewards_and_next_states_leaves_the_gram_bit_for_bit(task):
    log = log_of(6, 9, one_hot=task.one_hot)
    history = history_of(task, log=log)
    new = replace(log[4], rewards=np.zeros(len(log[4])), next_features=log[4].next_features[::-1])
    assert history.replace(log[4], new).gram is history.gram
    other = next(each for each in log if not np.array_equal(each.features, log[4].features))
    assert history.replace(log[4], other).gram is not history.gram


@BY_KIND
def test_a_correction_that_is_refused_leaves_no_trace(task):
    log = log_of(1, 6, one_hot=task.one_hot)
    history = history_of(task, log=log)
    before = contents(history)
    wrong = rs.Episode(features=[4], rewards=[0.0], next_features=[])
    if not task.one_hot:
        wrong = rs.Episode(features=[[2.0, 0.0, 0.0, 0.0]], rewards=[0.0], next_features=[])
    for call in (
        lambda: history.replace(log[0], wrong),
        lambda: history.replace(wrong, log[0]),
        lambda: history.replace(log[0], None),
        lambda: history.remove(log[0], wrong),
        lambda: history.remove(None),
    ):
        with pytest.raises((ValueError, TypeError), match="episode must"):
            call()
        assert (contents(history), history.episodes) == (before, 6)
    assert contents(history.absorb(log[0])) == contents(history_of(task, log=[*log, log[0]]))


def test_positions_that_were_never_visited_cannot_be_removed():
    one, other = (rs.Episode(features=[i], rewards=[0.5], next_features=[]) for i in (1, 2))
    history = history_of(rs.Task(dim=4, horizon=1, one_hot=True), log=[one])
    before = contents(history)
    for call in (lambda: history.remove(other), lambda: history.remove(one, one)):
        with pytest.raises(ValueError, match="episode must have been absorbed"):
            call()
        assert contents(history) == before


@BY_KIND
def test_corrections_touch_the_tables_of_next_states_only_when_they_are_folded(task, monkeypatch):
    log = log_of(8, 500, one_hot=task.one_hot)
    history, calls = history_of(task, log=log * 20).fold(), []
    for table in (NextStates, Moves):
        add = table.add

        def counted(self, *arguments, add=add):
            calls.append(self)
            return add(self, *arguments)

        monkeypatch.setattr(table, "add", counted)
    for old, new in zip(log[:100], log[100:200], strict=True):
        history = history.replace(old, new).remove(new)
    assert (history.episodes, len(calls)) == (10_000, 0)
    history.fold()
    assert len(calls) == task.pools.count - 1


@pytest.mark.parametrize("one_hot", [True, False])
def test_an_early_end_is_worth_so_much_for_each_stage_that_was_not_played(one_hot):
    recipe = Recipe(exploration=rs.Bonus(0.0))
    feature = [0] if one_hot else [[1.0]]
    ended = rs.Episode(features=feature, rewards=[0.5], next_features=[])
    for stages in ("own", "shared"):
        history = history_of(
            rs.Task(dim=1, horizon=4, stages=stages, one_hot=one_hot, end_reward=0.25), log=[ended]
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
                    history_of(
                        rs.Task(dim=4, horizon=3, stages=stages, one_hot=one_hot, end_reward=worth),
                        log=log,
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
        history_of(
            rs.Task(dim=4, horizon=1, stages=stages, one_hot=one_hot, end_reward=end_reward),
            log=log,
        )
        for stages in ("own", "shared")
    )
    assert contents(own) == contents(shared)
    for exploration in (rs.Bonus(0.4), rs.Ensemble(3)):
        recipe = Recipe(exploration=exploration)
        assert fit(own, recipe, 2).to_bytes() == fit(shared, recipe, 2).to_bytes()


@given(st.integers(0, 10**6), st.sampled_from(KINDS))
def test_the_order_of_episodes_does_not_matter_whatever_the_kind(seed, task):
    log, rng = log_of(seed, 10, one_hot=task.one_hot), np.random.default_rng(seed)
    first, second = (
        history_of(replace(task, end_reward=0.2), log=[log[i] for i in order])
        for order in (range(10), rng.permutation(10))
    )
    recipe = Recipe(exploration=rs.Ensemble(2))
    weights = [fit(history, recipe, version=3).weights for history in (first, second)]
    np.testing.assert_allclose(*weights, atol=1e-9)


@BY_KIND
def test_a_history_survives_its_arrays(task):
    log = log_of(4, 12, one_hot=task.one_hot)
    history = history_of(task, log=log[:8]).fold()
    parts = codec.unpack("history", codec.pack("history", {}, history.to_arrays()))
    empty = history_of(task)
    copy = empty.restored(parts, episodes=8)
    assert (copy.episodes, empty.episodes) == (8, 0)
    assert contents(empty) == contents(history_of(task))
    for episode in log[8:]:
        found, wanted = copy.fold(), history.fold()
        assert (contents(found), found.stored_rows) == (contents(wanted), wanted.stored_rows)
        history, copy = history.absorb(episode), copy.absorb(episode)
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
    history = history_of(rs.Task(**{"dim": 3, "horizon": 2, "stages": stages} | changes))
    before = contents(history)
    with pytest.raises(ValueError, match=message):
        history.absorb(episode)
    assert (contents(history), history.episodes) == (before, 0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (({"dim": 3, "horizon": 2},), TypeError, "task must be a Task; got "),
        ((None,), TypeError, "task must be a Task; got None"),
        ((rs.Task(dim=3, horizon=2), 0.0), ValueError, "ridge must be .*; got 0.0"),
        ((rs.Task(dim=3, horizon=2), "1"), TypeError, "ridge must be .*; got '1'"),
        (
            (rs.Task(dim=10**6 + 1, horizon=2, one_hot=True),),
            ValueError,
            "dim must be from 1 to 1000000; got 1000001",
        ),
        ((rs.Task(dim=3, horizon=2), 1.0, ["episode"]), TypeError, "episode must be an Episode"),
    ],
)
def test_a_bad_argument_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        history_of(*arguments)


def test_long_horizons_cost_no_more_than_their_length():
    for stages in ("own", "shared"):
        with cheap(megabytes=25.0, seconds=30.0):
            history = history_of(
                rs.Task(dim=2, horizon=3000, feature_norm=1.0, stages=stages, one_hot=True), 1.0
            )
            for _ in range(2):
                history = history.absorb(
                    rs.Episode(
                        features=np.zeros(3000, int),
                        rewards=np.zeros(3000),
                        next_features=[np.arange(2)] * 2999,
                    )
                )
            history = history.fold()
            assert history.pools.steps.sum() in (3000, 5999)


def one_step(feature):
    return rs.Episode(features=[feature], rewards=[1.0], next_features=[])


@pytest.mark.parametrize("longest", [1e6 * (1 + 1e-8), 1e100, 1e155, 1.7e308])
def test_a_longer_feature_is_refused_before_anything_changes(longest):
    learner = rs.Learner(rs.Task(dim=2, horizon=2, feature_norm=1e6), rs.EveryEpisode())
    ragged_learning(learner, seed=1, start=0, stop=4)
    before = learner.snapshot()
    short, long = np.eye(2), np.array([[longest, 0.0]])
    for features, following in ((np.vstack([short[:1], long]), short), (short, long)):
        episode = rs.Episode(features=features, rewards=[0, 1], next_features=[following])
        for take in (learner.observe, learner.absorb):
            with pytest.raises(
                ValueError, match=r"no longer than feature_norm = 1e\+06; got ‖φ‖ = 1"
            ):
                take(episode)
            assert learner.snapshot() == before


def test_a_feature_of_exactly_the_norm_is_taken():
    learner = rs.Learner(rs.Task(dim=2, horizon=1, feature_norm=5.0), rs.EveryEpisode())
    learner.observe(one_step([3.0, 4.0]))
    with pytest.raises(ValueError, match="no longer than feature_norm = 5; got"):
        learner.observe(one_step([3.0, 4.0000001]))
    assert learner.episodes == 1


@pytest.mark.parametrize("norm", [1e-120, 1e-5, 1.0, 1e99])
def test_how_long_a_feature_may_be_does_not_depend_on_its_size(norm):
    row = norm * np.array([0.6, 0.8, 0.0])
    history = history_of(rs.Task(dim=3, horizon=1, feature_norm=norm))
    for scale, taken in ((1.0, True), (1 + 1e-10, True), (1 + 1e-8, False)):
        episode = one_step(scale * row)
        if taken:
            history.absorb(episode)
        else:
            with pytest.raises(ValueError, match="no longer than feature_norm"):
                history.absorb(episode)


def test_features_longer_than_1_are_refused_unless_the_task_says_so():
    with pytest.raises(
        ValueError,
        match=r"feature_norm = 1; got ‖φ‖ = 1\.5: scale them, or set a larger feature_norm in ",
    ):
        history_of(rs.Task(dim=2, horizon=1), log=[one_step([1.5, 0.0])])
    history_of(rs.Task(dim=2, horizon=1, feature_norm=1.5), log=[one_step([1.5, 0.0])])


@pytest.mark.parametrize("one_hot", [True, False])
@STAGES
def test_a_learner_given_a_log_is_one_given_its_episodes(stages, one_hot):
    rng = np.random.default_rng(2)
    log = [position_episode(rng, horizon=3, states=2, actions=2) for _ in range(20)]
    log = log if one_hot else [in_rows(episode, 4) for episode in log]
    learners = [
        rs.Learner(
            rs.Task(dim=4, horizon=3, stages=stages, one_hot=one_hot),
            rs.EveryEpisode(),
            rs.Recipe.paper(beta=0.3),
        )
        for _ in range(2)
    ]
    for episode in log:
        learners[0].absorb(episode)
    learners[1].absorb(*log)
    assert learners[0].snapshot() == learners[1].snapshot()
