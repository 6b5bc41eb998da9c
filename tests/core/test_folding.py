"""Episodes that wait and are added at once leave the bytes of a fold one step at a time."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import in_rows, interrupted, position_episode, ragged_episode
from rareswitch.core import dense, history, sums
from rareswitch.core.gram import Gram
from rareswitch.core.history import History
from rareswitch.core.pools import Pools
from rareswitch.core.undo import take_back

H, D = 4, 3
STAGES = pytest.mark.parametrize("stages", ["own", "shared"])


def log_of(seed, count):
    """Return episodes that meet states again, with rows turned, repeated, and of either zero."""
    rng = np.random.default_rng(seed)
    log = [ragged_episode(rng, horizon=H, dim=D) for _ in range(count)]
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


def literal(log, stages):
    """Return the arrays of a history that adds every step by itself, the moment it comes."""
    pools = Pools(H, stages)
    gram = Gram((pools.count,), D, 1.0)
    totals, lost = sums.zeros(2, pools.count, D + 2)
    states = [{} for _ in range(pools.count - 1)]  # by their rows: total and lost
    ends = [sums.zeros(D + 2) for _ in states]
    for episode in log:
        steps = np.zeros((2, H, D + 2))
        for h, (feature, reward) in enumerate(zip(episode.features, episode.rewards, strict=True)):
            steps[0, h] = [*feature, 1.0, reward]
            steps[1, h] = reward * steps[0, h]
        if pools.shared:
            gram.absorb_block(pools.pooled(episode.features[:, None, :]))
        else:
            gram.absorb(steps[0, :, :D])
        sums.add(totals, lost, pools.summed(steps))
        for h in range(min(len(episode), H - 1)):
            pool, step = pools.of(h), steps[0, h]
            if h >= len(episode.next_features):
                sums.add(*ends[pool], step)
                continue
            rows = episode.next_features[h] + 0.0
            state = tuple(sorted({row.tobytes() for row in rows}))
            if state in states[pool]:
                sums.add(*states[pool][state], step)
            else:
                states[pool][state] = step.copy(), np.zeros(D + 2)
    arrays = gram.arrays | {"totals": totals, "totals_lost": lost}
    for pool, known in enumerate(states):
        arrays |= {
            f"next_states/{pool}/sums": np.array([total for total, _ in known.values()]),
            f"next_states/{pool}/lost": np.array([lost for _, lost in known.values()]),
            f"next_states/{pool}/lengths": np.array([len(state) for state in known], np.int64),
            f"next_states/{pool}/rows": np.array([row for state in known for row in state]),
            f"next_states/{pool}/ended": np.array(ends[pool]),
        }
    return {name: array.tobytes() for name, array in arrays.items()}


def empty(stages):
    return History(dim=D, horizon=H, ridge=1.0, feature_norm=1e6, stages=stages)


def contents(folded):
    return {name: array.tobytes() for name, array in folded.to_arrays().items()}


READS = [
    lambda folded: folded.step_sums,
    lambda folded: folded.stored_rows,
    lambda folded: folded.to_arrays(),
    lambda folded: None,
]


@STAGES
@given(st.integers(0, 10**6), st.integers(0, 25), st.sampled_from([1, 40, 10**6]), st.data())
def test_in_whatever_parts_a_log_comes_its_bytes_are_those_of_a_literal_fold(
    stages, seed, count, most, data
):
    log, folded = log_of(seed, count), empty(stages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "MOST_WAITING", most)
        patch.setattr(history, "AT_ONCE", data.draw(st.integers(1, 5)))
        start = 0
        while start < count:
            size = data.draw(st.integers(1, 8))
            if size == 1:
                folded.absorb(log[start])
            else:
                folded.absorb_all(log[start : start + size])
            data.draw(st.sampled_from(READS))(folded)
            start += size
        from_log = History.from_log(iter(log), dim=D, horizon=H, stages=stages)
    assert contents(folded) == contents(from_log) == literal(log, stages)
    assert folded.episodes == from_log.episodes == count


@STAGES
@given(st.integers(0, 10**6), st.integers(0, 6), st.lists(st.booleans(), min_size=1, max_size=6))
def test_episodes_are_taken_back_though_they_were_folded_since(stages, seed, count, read):
    log = log_of(seed, count + len(read))
    folded, undo = empty(stages), []
    folded.absorb_all(log[:count])
    for episode, then_read in zip(log[count:], read, strict=True):
        folded.absorb(episode, undo)
        if then_read:
            folded.to_arrays()
    take_back(undo)
    assert folded.episodes == count
    assert contents(folded) == literal(log[:count], stages)
    folded.absorb_all(log[count:])
    assert contents(folded) == literal(log, stages)


@STAGES
def test_an_interruption_of_a_fold_loses_nothing_and_adds_nothing_twice(stages, monkeypatch):
    log, lines, goes_on = log_of(5, 9), 0, True
    monkeypatch.setattr(history, "AT_ONCE", 2)
    monkeypatch.setattr(dense, "MOST_WAITING", 30)
    before, after = literal(log[:4], stages), literal(log, stages)
    while goes_on:
        lines += 3  # odd and even lines alike, in a third of the time
        folded = empty(stages)
        folded.absorb_all(log[:4])
        goes_on = interrupted(folded.to_arrays, lines)
        assert contents(folded) == before
        whole = not interrupted(partial(folded.absorb_all, log[4:]), lines)
        assert (contents(folded), folded.episodes) == ((after, 9) if whole else (before, 4))
        goes_on |= not whole
    assert lines > 100


def test_of_several_episodes_all_are_taken_or_none():
    log, folded = log_of(1, 6), empty("own")
    folded.absorb_all(log[:3])
    before = contents(folded)
    overlong = rs.Episode(features=2e6 * np.eye(D)[:1], rewards=[0.0], next_features=[])
    for wrong, error in ((overlong, ValueError), ("episode", TypeError)):
        with pytest.raises(error, match="episode must"):
            folded.absorb_all([*log[3:], wrong])
        assert (contents(folded), folded.episodes) == (before, 3)
    folded.absorb_all([])
    assert (contents(folded), folded.episodes) == (before, 3)


@pytest.mark.parametrize("one_hot", [True, False])
@STAGES
def test_a_learner_given_a_log_is_one_given_its_episodes(stages, one_hot):
    rng = np.random.default_rng(2)
    log = [position_episode(rng, horizon=3, states=2, actions=2) for _ in range(20)]
    log = log if one_hot else [in_rows(episode, 4) for episode in log]
    learners = [
        rs.Learner(
            dim=4, horizon=3, schedule=rs.EveryEpisode(), beta=0.3, stages=stages, one_hot=one_hot
        )
        for _ in range(2)
    ]
    for episode in log:
        learners[0].absorb(episode)
    learners[1].absorb_all(iter(log))
    assert learners[0].snapshot() == learners[1].snapshot()


@pytest.mark.parametrize("norm", [1e-120, 1e-5, 1.0, 1e99])
def test_how_long_a_feature_may_be_does_not_depend_on_its_size(norm):
    row = norm * np.array([0.6, 0.8, 0.0])
    some = {"dim": D, "horizon": 1, "ridge": 1.0, "feature_norm": norm}
    for scale, taken in ((1.0, True), (1 + 1e-10, True), (1 + 1e-8, False)):
        episode = rs.Episode(features=[scale * row], rewards=[0.0], next_features=[])
        if taken:
            History(**some).absorb(episode)
        else:
            with pytest.raises(ValueError, match="no longer than feature_norm"):
                History(**some).absorb(episode)


@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([1.0, 1e16]))
def test_adding_in_turn_is_adding_one_by_one(seed, count, spread):
    rng = np.random.default_rng(seed)
    addends = rng.standard_normal((count, 2, 3)) * spread ** rng.random((count, 2, 3))
    total, lost = rng.standard_normal((2, 2, 3))
    found = sums.add_in_turn(total, lost, addends)
    for addend in addends:
        sums.add(total, lost, addend)
    assert [each.tobytes() for each in found] == [total.tobytes(), lost.tobytes()]


@pytest.mark.parametrize("one_hot", [True, False])
@given(st.integers(0, 10**6))
def test_an_episode_of_checked_arrays_is_that_episode_and_copies_nothing(one_hot, seed):
    rng = np.random.default_rng(seed)
    old = (
        position_episode(rng, horizon=H, states=3, actions=3)
        if one_hot
        else ragged_episode(rng, horizon=H, dim=D)
    )
    lengths = [len(rows) for rows in old.next_features]
    assert len(old.next_rows) == sum(lengths)
    new = rs.Episode.of_checked(old.features, old.rewards, old.next_rows, lengths)
    assert (new, hash(new), repr(new), new.dim) == (old, hash(old), repr(old), old.dim)
    assert new.features is old.features
    assert new.next_rows is old.next_rows
    for rows, same in zip(new.next_features, old.next_features, strict=True):
        assert np.shares_memory(rows, same)
        assert (rows.dtype, rows.shape, rows.tobytes()) == (same.dtype, same.shape, same.tobytes())
        assert not rows.flags.writeable


@pytest.mark.parametrize("again", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_of_an_episode_is_read_only_too(again):
    for old in (
        ragged_episode(np.random.default_rng(1), horizon=H, dim=D, steps=H),
        rs.Episode(features=[1, 2], rewards=[0.0, 1.0], next_features=[[3, 4]]),
    ):
        new = again(old)
        assert new == old
        for array in (new.features, new.rewards, new.next_rows, *new.next_features):
            assert not array.flags.writeable
