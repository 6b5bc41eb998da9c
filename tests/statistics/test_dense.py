"""Sums over rows of features are those of the raw steps, pool by pool and bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import interrupted, ragged_episode
from rareswitch.core.gram import Gram
from rareswitch.core.lsvi import QFunction
from rareswitch.core.task import Pools
from rareswitch.statistics import dense, history, history_of
from rareswitch.support import codec

H, D, RIDGE = 4, 3, 0.6
STAGES = pytest.mark.parametrize("stages", ["own", "shared"])


def task_of(stages, *, horizon=H, end_reward=0.0):
    return rs.Task(dim=D, horizon=horizon, stages=stages, end_reward=end_reward)


def log_of(seed, count, *, horizon=H):
    """Return episodes that meet states again, with rows turned, repeated, and of either zero."""
    rng = np.random.default_rng(seed)
    log = [ragged_episode(rng, horizon=horizon, dim=D) for _ in range(count)]
    menus = [rows for episode in log for rows in episode.next_features] or [np.eye(D)]
    menus = [np.where(rng.random(rows.shape) < 0.2, 0.0, rows) for rows in menus]

    def met():
        rows = rng.permutation(menus[rng.integers(1 + len(menus) // 3)])
        if rng.random() < 0.3:
            rows = np.vstack([rows, rows[rng.integers(len(rows), size=2)]])
        return np.where((rows == 0.0) & (rng.random(rows.shape) < 0.5), -0.0, rows)

    return [
        rs.Episode(
            features=np.where(rng.random(e.features.shape) < 0.1, -0.0, e.features),
            rewards=e.rewards,
            next_features=[met() for _ in e.next_features],
        )
        for e in log
    ]


def contents(dense_history):
    folded = dense_history.fold()
    return {name: array.tobytes() for name, array in folded.to_arrays().items()}


def a_q_function(rng, *leading):
    return QFunction(
        weights=rng.standard_normal((*leading, D)),
        levels=None,
        whitener=None,
        beta=0.0,
        offsets=None,
        cap=3.0,
    )


@given(st.integers(0, 10**6), st.sampled_from(["own", "shared"]), st.integers(1, H))
def test_sums_are_those_of_the_raw_steps_of_each_pool(seed, stages, horizon):
    log, task = log_of(seed, 9, horizon=horizon), task_of(stages, horizon=horizon, end_reward=0.7)
    pools, gram = task.pools, history_of(task, RIDGE, log).gram
    found, following = history_of(task, RIDGE, log).fold(), a_q_function(np.random.default_rng(1))
    for pool in range(pools.count):
        there = [(e, h) for e in log for h in pools.stages(pool) if h < len(e)]
        steps = np.array([[*e.features[h], 1.0, e.rewards[h]] for e, h in there]).reshape(-1, D + 2)
        np.testing.assert_allclose(found.step_sums[pool], steps.sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(found.reward_sums[pool], steps[:, -1] @ steps, atol=1e-12)
        matrix = RIDGE * np.eye(D) + steps[:, :D].T @ steps[:, :D]
        inverse = gram.whitener[pool].T @ gram.whitener[pool]
        np.testing.assert_allclose(inverse, np.linalg.inv(matrix), atol=1e-10)
        np.testing.assert_allclose(gram.logdet[pool], np.linalg.slogdet(matrix)[1], atol=1e-11)
        np.testing.assert_allclose(gram.trace[pool], np.trace(matrix), rtol=1e-12)
    for stage in range(horizon - 1):  # nothing follows the last
        there = [(e, h) for e in log for h in pools.stages(pools.index(stage)) if h < len(e)]
        steps = np.array([[*e.features[h], 1.0, e.rewards[h]] for e, h in there]).reshape(-1, D + 2)
        ended = 0.7 * (horizon - 1 - stage)
        values = np.array(
            [
                following.q_values(e.next_features[h]).max() if h < len(e.next_features) else ended
                for e, h in there
            ]
        )
        wanted = [*(values @ steps), values @ values]
        np.testing.assert_allclose(found.next_value_sums(stage, following), wanted, atol=1e-11)


def test_what_follows_the_last_stage_of_all_is_never_asked_for():
    rng = np.random.default_rng(2)
    for stages in ("own", "shared"):
        cut, ended = (
            ragged_episode(np.random.default_rng(3), horizon=H, dim=D, steps=H, cut_off=cut_off)
            for cut_off in (True, False)
        )
        empty = history_of(task_of(stages), RIDGE)
        assert contents(empty.absorb(cut)) == contents(empty.absorb(ended))
        early = ragged_episode(rng, horizon=H, dim=D, steps=H - 1, cut_off=True)
        kept = rs.Episode(
            features=early.features,
            rewards=early.rewards,
            next_features=early.next_features[: H - 2],
        )
        assert contents(empty.absorb(early)) != contents(empty.absorb(kept))


@STAGES
def test_members_value_next_states_each_by_itself(stages):
    rng = np.random.default_rng(4)
    found = history_of(task_of(stages, end_reward=0.3), RIDGE, log_of(4, 12)).fold()
    following = a_q_function(rng, 5)
    together = found.next_value_sums(0, following)
    assert together.shape == (5, D + 3)
    for m in range(5):
        alone = found.next_value_sums(0, following.select(m))
        np.testing.assert_allclose(together[m], alone, atol=1e-12)


@STAGES
def test_a_history_survives_its_arrays(stages):
    log = log_of(6, 20)
    empty = history_of(task_of(stages), RIDGE)
    kept = empty.absorb(*log[:12]).fold()
    copy = empty.filled(codec.unpack("sums", codec.pack("sums", {}, kept.to_arrays())))
    assert copy.stored_rows == kept.stored_rows > 0
    for episode in log[12:]:
        assert contents(copy) == contents(kept)
        copy, kept = copy.absorb(episode), kept.absorb(episode)
    assert contents(copy) == contents(kept)


@pytest.mark.parametrize(
    "name",
    [
        "whitener",
        "logdet",
        "trace",
        "totals",
        "totals_lost",
        "next_states/0/sums",
        "next_states/0/lost",
        "next_states/0/rows",
        "next_states/0/ended",
    ],
)
@STAGES
def test_arrays_of_other_shapes_are_refused(name, stages):
    empty = history_of(task_of(stages), RIDGE)
    arrays = empty.absorb(*log_of(7, 9)).fold().to_arrays()
    for wrong in (arrays[name][..., :-1], np.concatenate([arrays[name], arrays[name]])):
        packed = codec.pack("sums", {}, arrays | {name: wrong})
        with pytest.raises(ValueError, match=r"data must be a sums whose|add up to the number"):
            empty.filled(codec.unpack("sums", packed))


# Episodes that wait and are added at once leave the bytes of a fold one step at a time.


def add(total, lost, addend):
    """Add in place, and to `lost` what the addition rounds off (Neumaier, by Knuth's TwoSum)."""
    before = total.copy()
    total += addend
    share = total - before
    lost += (before - (total - share)) + (addend - share)


def literal(log, stages, signs=None):
    """Return the arrays of a history that adds every step by itself, the moment it comes.

    A sign of −1 removes the steps of that episode.
    """
    pools = Pools(H, shared=stages == "shared")
    gram = Gram.of_ridge((pools.count,), D, RIDGE)
    totals, lost = np.zeros((2, 2, pools.count, D + 2))
    states = [{} for _ in range(pools.count - 1)]  # by their rows: total and lost
    ends = [np.zeros((2, D + 2)) for _ in states]
    for episode, sign in zip(log, signs or [1.0] * len(log), strict=True):
        steps = np.zeros((2, H, D + 2))
        for h, (feature, reward) in enumerate(zip(episode.features, episode.rewards, strict=True)):
            steps[0, h] = [*feature, 1.0, reward]
            steps[1, h] = reward * steps[0, h]
        if pools.shared:
            gram = gram.add_block(pools.spread(episode.features[:, None, :]), sign=sign)
        else:
            rows = steps[0, :, :D]
            gram = gram.add(rows)[0] if sign > 0.0 else gram.remove(rows)
        steps *= sign
        add(totals, lost, pools.sum_stages(steps))
        for h in range(min(len(episode), H - 1)):
            pool, step = pools.index(h), steps[0, h]
            if h >= len(episode.next_features):
                add(*ends[pool], step)
                continue
            rows = episode.next_features[h] + 0.0
            state = tuple(sorted({row.tobytes() for row in rows}))
            if state in states[pool]:
                add(*states[pool][state], step)
            else:
                states[pool][state] = step.copy(), np.zeros(D + 2)
    arrays = gram._asdict() | {"totals": totals, "totals_lost": lost}
    for pool, known in enumerate(states):
        arrays |= {
            f"next_states/{pool}/sums": np.array([total for total, _ in known.values()]),
            f"next_states/{pool}/lost": np.array([lost for _, lost in known.values()]),
            f"next_states/{pool}/lengths": np.array([len(state) for state in known], np.int64),
            f"next_states/{pool}/rows": np.array([row for state in known for row in state]),
            f"next_states/{pool}/ended": np.array(ends[pool]),
        }
    return {name: array.tobytes() for name, array in arrays.items()}


@STAGES
@given(st.integers(0, 10**6), st.integers(0, 25), st.sampled_from([1, 40, 10**6]), st.data())
def test_in_whatever_parts_a_log_comes_its_bytes_are_those_of_a_literal_fold(
    stages, seed, count, most, data
):
    log, found = log_of(seed, count), history_of(task_of(stages), RIDGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "MOST_WAITING", most)
        patch.setattr(history, "AT_ONCE", data.draw(st.integers(1, 5)))
        start = 0
        while start < count:
            size = data.draw(st.integers(1, 8))
            found = found.absorb(*log[start : start + size])
            if data.draw(st.booleans()):
                found = found.fold()
            start += size
        from_log = history_of(task_of(stages), RIDGE, iter(log))
    assert contents(found) == contents(from_log) == literal(log, stages)
    assert found.episodes == from_log.episodes == count


@STAGES
@given(st.integers(0, 10**6), st.sampled_from([1, 40, 10**6]), st.data())
def test_removals_in_whatever_parts_leave_the_bytes_of_a_literal_fold(stages, seed, most, data):
    log, found, there = log_of(seed, 12), history_of(task_of(stages), RIDGE), []
    changes, signs = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "MOST_WAITING", most)
        for episode in log:
            found = found.absorb(episode)
            there.append(episode)
            changes.append(episode)
            signs.append(1.0)
            if data.draw(st.booleans()):
                gone = [there.pop(data.draw(st.integers(0, len(there) - 1)))]
                found = found.remove(*gone)
                changes += gone
                signs.append(-1.0)
            if data.draw(st.booleans()):
                found = found.fold()
    assert contents(found) == literal(changes, stages, signs)
    assert found.episodes == 12


@STAGES
@given(st.integers(0, 10**6), st.integers(0, 6), st.lists(st.booleans(), min_size=1, max_size=6))
def test_a_history_stays_as_it_was_though_others_made_of_it_were_folded(stages, seed, count, fold):
    log = log_of(seed, count + len(fold))
    kept = longer = history_of(task_of(stages), RIDGE, log[:count])
    for episode, then_fold in zip(log[count:], fold, strict=True):
        longer = longer.absorb(episode)
        if then_fold:
            longer = longer.fold()
    assert kept.episodes == count
    assert contents(kept) == literal(log[:count], stages)
    assert contents(kept.absorb(*log[count:])) == contents(longer) == literal(log, stages)
    other_order = [*log[:count], *log[: count - 1 : -1]]
    assert contents(kept.absorb(*log[: count - 1 : -1])) == literal(other_order, stages)


@STAGES
def test_an_interruption_of_a_fold_loses_nothing_and_adds_nothing_twice(stages, monkeypatch):
    log, lines, goes_on = log_of(5, 9), 0, True
    monkeypatch.setattr(dense, "MOST_WAITING", 30)
    before, after = literal(log[:4], stages), literal(log, stages)
    while goes_on:
        lines += 3  # odd and even lines alike, in a third of the time
        found = history_of(task_of(stages), RIDGE, log[:4])
        goes_on = interrupted(found.fold, lines)
        assert contents(found) == before
        goes_on |= interrupted(lambda found=found: found.absorb(*log[4:]).fold(), lines)
        assert (contents(found), found.episodes) == (before, 4)
        assert contents(found.absorb(*log[4:])) == after
    assert lines > 100


def test_the_numbers_that_wait_are_bounded(monkeypatch):
    monkeypatch.setattr(dense, "MOST_WAITING", 100)
    found, most = history_of(task_of("own"), RIDGE), 0
    for episode in log_of(8, 60) * 3:
        found = found.absorb(episode)
        most = max(most, found._waiting_numbers)
    kept = sum(states.numbers for states in found._next_states)
    assert 0 < most <= max(100, kept / 4)


# The steps of episodes end to end are those of the episodes, one by one.


def three_kinds():
    """Return episodes that are whole, ended early, and cut off."""
    rng = np.random.default_rng(0)
    for steps, following in ((3, 2), (1, 0), (2, 2)):
        yield rs.Episode(
            features=rng.random((steps, D)),
            rewards=rng.random(steps),
            next_features=[rng.random((2, D)) for _ in range(following)],
        )


@STAGES
def test_sums_by_pool_are_those_of_each_episode(stages):
    pools, given = task_of(stages, horizon=3).pools, list(three_kinds())
    signs = [1.0, -1.0, 1.0]
    found = dense.Steps([*zip(given, signs, strict=True)], pools).by_pool()
    for episode, sign, sums in zip(given, signs, found, strict=True):
        by_stage = np.zeros((2, 3, D + 2))
        for h, (feature, reward) in enumerate(zip(episode.features, episode.rewards, strict=True)):
            row = np.array([*feature, 1.0, reward])
            by_stage[:, h] = row, reward * row
        np.testing.assert_array_equal(sums, sign * pools.sum_stages(by_stage))


@STAGES
def test_steps_lead_to_the_states_after_them(stages):
    pools, given = task_of(stages, horizon=3).pools, list(three_kinds())
    steps = dense.Steps([(episode, 1.0) for episode in given], pools)
    ended, led = 0, 0
    for pool in range(pools.count - 1):
        rows, states = steps.leading_on(pool)
        assert len(rows) == len(states)
        ended += states.count(b"")
        led += len(states)
    assert led == 5  # all steps but the one of the last stage
    assert ended == 1  # of the episode that ended after its first step
