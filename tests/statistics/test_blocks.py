"""A learner that knows of blocks learns as one that does not, from a fraction of the numbers."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import interrupted, opened, replaced, unit_rows
from rareswitch.core.gram import BlockGram, Gram
from rareswitch.core.lsvi import QFunction
from rareswitch.core.task import Pools
from rareswitch.statistics import BlockHistory, history_of
from rareswitch.statistics.blocks import narrow_episode

A, M, H = 3, 4, 5
TASK = rs.Task(dim=A * M, horizon=H, episodes=60, end_reward=0.3, blocks=A)
RULE = rs.DeterminantGrowth(eta=2.0)
RECIPES = {
    "bonus": rs.Recipe.paper(beta=0.5),
    "estimated bonus": rs.Recipe(exploration=rs.Bonus(0.7, members=3, estimate=True)),
    "ensemble": rs.Recipe(exploration=rs.Ensemble(4)),
    "declared ensemble": rs.Recipe(exploration=rs.Ensemble(4, estimate=False), ridge=0.4),
    "perturbation": rs.Recipe(exploration=rs.Perturbation(1.0, draws=3, estimate=True)),
}
BY_STAGES = pytest.mark.parametrize("stages", ["own", "shared", "auto"])
KNOWN = np.vstack([np.zeros(M), unit_rows(np.random.default_rng(0), 4, M)])


def in_blocks(numbers, actions):
    """Return the rows with these numbers (n, m) in the blocks of these actions (n,)."""
    rows = np.zeros((len(actions), A, M))
    rows[np.arange(len(actions)), actions] = numbers
    return rows.reshape(len(actions), -1)


def log_of(seed, count, *, alike=0.7):
    """Return episodes with masks; a share of states has the same numbers for all actions."""
    rng = np.random.default_rng(seed)

    def state():
        actions = rng.permutation(A)[: rng.integers(1, A + 1)]
        numbers = KNOWN[rng.integers(len(KNOWN), size=len(actions))]
        if rng.random() < alike:
            numbers = np.tile(numbers[0], (len(actions), 1))
        if rng.random() < 0.3:
            numbers = unit_rows(rng, len(actions), M)
        rows = in_blocks(numbers, actions)
        return np.where((rows == 0.0) & (rng.random(rows.shape) < 0.2), -0.0, rows)

    def episode():
        steps, cut_off = int(rng.integers(1, H + 1)), int(rng.integers(2))
        states = [state() for _ in range(steps + 1)]
        features = [rng.choice(rows) for rows in states[:steps]]
        following = states[1 : steps + cut_off]
        return rs.Episode(features=features, rewards=rng.random(steps), next_features=following)

    return [episode() for _ in range(count)]


def both_learners(stages, recipe):
    task = replace(TASK, stages=stages)
    return tuple(rs.Learner(t, RULE, recipe) for t in (task, replace(task, blocks=1)))


def check_alike(one, other, seed):
    assert one.stages == other.stages
    rng = np.random.default_rng(seed)
    for h in range(H):
        for numbers in (np.tile(KNOWN[1], (A, 1)), unit_rows(rng, A, M)):
            rows = in_blocks(numbers, np.arange(A))
            np.testing.assert_allclose(one.q_values(h, rows), other.q_values(h, rows), atol=1e-9)
            np.testing.assert_array_equal(one.choices(h, rows), other.choices(h, rows))


@given(
    st.integers(0, 10**6), st.sampled_from(["own", "shared", "auto"]), st.sampled_from([*RECIPES])
)
def test_values_determinants_and_switches_are_those_of_full_matrices(seed, stages, recipe):
    narrow, wide = both_learners(stages, RECIPES[recipe])
    log = log_of(seed, 14)
    for episode in log:
        assert narrow.observe(episode) == wide.observe(episode)
        np.testing.assert_allclose(narrow.clock.logdet, wide.clock.logdet, atol=1e-9)
    check_alike(narrow.policy, wide.policy, seed)
    spare = log_of(seed + 1, 1)[0]
    for learner in (narrow, wide):
        learner.correct(log[3], spare)
        learner.correct(log[7], None)
    check_alike(narrow.fit(), wide.fit(), seed)
    check_alike(narrow.recommend(), wide.recommend(), seed)
    np.testing.assert_allclose(narrow.clock.logdet, wide.clock.logdet, atol=1e-9)
    traces = [learner._state.history.gram.trace for learner in (narrow, wide)]
    np.testing.assert_allclose(*traces, rtol=1e-12)
    ours, theirs = narrow.health(), wide.health()
    assert (ours.idle, len(ours.warnings)) == (theirs.idle, len(theirs.warnings))
    np.testing.assert_allclose(ours.reach, theirs.reach, atol=1e-9)


@BY_STAGES
def test_a_restored_learner_goes_on_byte_for_byte(stages):
    learner = both_learners(stages, RECIPES["bonus"])[0]
    log = log_of(5, 30)
    for episode in log[:17]:
        learner.observe(episode)
    stored = learner.snapshot()
    again = rs.Learner.restore(stored)
    assert again.task == learner.task
    assert again.snapshot() == stored
    for episode in log[17:]:
        assert again.observe(episode) == learner.observe(episode)
    for each in (learner, again):
        each.correct(log[20], log[2])
    assert again.snapshot() == learner.snapshot()
    assert opened(stored)[0]["meta"]["task"]["blocks"] == A


@BY_STAGES
def test_neither_folds_nor_copies_change_a_number(stages):
    task, log = replace(TASK, stages=stages), log_of(6, 12)
    together, one_by_one = history_of(task, log=log).fold(), history_of(task)
    versions = [one_by_one]
    for episode in log:
        versions.append(versions[-1].absorb(episode))
        versions[-1].fold()
    contents = [
        {name: array.tobytes() for name, array in history.fold().to_arrays().items()}
        for history in (together, versions[-1], versions[4].absorb(*log[4:]))
    ]
    assert contents[0] == contents[1] == contents[2]
    np.testing.assert_array_equal(
        versions[4].gram.whitener, history_of(task, log=log[:4]).gram.whitener
    )


@pytest.mark.parametrize("stages", ["own", "shared"])
def test_an_interrupt_leaves_a_history_as_it_was(stages):
    task, log = replace(TASK, stages=stages), log_of(11, 6)

    def contents(history):
        folded = history.fold()
        return {name: array.tobytes() for name, array in folded.to_arrays().items()}

    before, after = (contents(history_of(task, log=log[:n])) for n in (4, 6))
    lines, goes_on = 1, True
    while goes_on:
        lines += 5
        found = history_of(task, log=log[:4])
        goes_on = interrupted(lambda found=found: found.absorb(*log[4:]).fold(), lines)
        assert (contents(found), found.episodes) == (before, 4)
        assert contents(found.absorb(*log[4:])) == after
    assert lines > 100


def test_copies_of_a_learner_learn_apart():
    learner, (first, *rest) = both_learners("own", RECIPES["bonus"])[0], log_of(7, 5)
    learner.absorb(first)
    before, twin = learner.snapshot(), copy(learner)
    learner.absorb(*rest)
    assert twin.snapshot() == before
    twin.absorb(*rest)
    assert twin.snapshot() == learner.snapshot()


@pytest.mark.parametrize("shared", [False, True])
def test_a_removed_episode_leaves_the_matrices_as_they_were(shared):
    pools, log = Pools(H, shared=shared), log_of(8, 6)
    gram = BlockGram.of_ridge(pools.count, A * M, A, 0.5)
    full = Gram.of_ridge((pools.count,), A * M, 0.5)
    for episode in log:
        gram, full = (each.add_episode(episode.features, pools) for each in (gram, full))
    for episode in log[3:]:
        gram, full = (each.remove_episode(episode.features, pools) for each in (gram, full))
    few = BlockGram.of_ridge(pools.count, A * M, A, 0.5)
    for episode in log[:3]:
        few = few.add_episode(episode.features, pools)
    for block in range(A):
        at = slice(block * M, (block + 1) * M)
        found, wanted = gram.whitener[:, at], few.whitener[:, at]
        np.testing.assert_allclose(found.mT @ found, wanted.mT @ wanted, atol=1e-10)
        inverse = full.whitener.mT @ full.whitener
        np.testing.assert_allclose(found.mT @ found, inverse[:, at, at], atol=1e-10)
    np.testing.assert_allclose(gram.logdet, full.logdet, atol=1e-10)
    np.testing.assert_allclose(gram.trace, full.trace, rtol=1e-12)


def test_a_state_with_the_same_numbers_for_all_actions_is_one_row():
    actions = np.arange(A)
    other = in_blocks(unit_rows(np.random.default_rng(1), A, M), actions)
    alike = in_blocks(np.tile(KNOWN[1], (A, 1)), actions)
    some = in_blocks(np.tile(KNOWN[1], (2, 1)), [2, 0])
    none = np.zeros((2, A * M))
    episode = rs.Episode(
        features=other[[0, 1, 2, 0]], rewards=[0.0] * 4, next_features=[alike, some, other, none]
    )
    narrow = narrow_episode(episode, A)
    assert narrow.lengths == (1, 1, A, 1)
    assert narrow.next_rows[:, M:].tolist() == [
        [1, 1, 1, 0], [1, 0, 1, 1], [1, 0, 0, 2], [0, 1, 0, 2], [0, 0, 1, 2], [1, 0, 0, 0],
    ]  # fmt: skip
    np.testing.assert_array_equal(narrow.next_rows[1, :M], KNOWN[1])
    np.testing.assert_array_equal(narrow.features[:, M:].argmax(axis=1), [0, 1, 2, 0])
    history = history_of(TASK).absorb(episode, episode).fold()
    assert isinstance(history, BlockHistory)
    assert history.stored_rows == 1 + 1 + A + 1


@pytest.mark.parametrize("place", ["features", "next_features"])
def test_a_row_with_numbers_in_two_blocks_is_refused(place):
    good, bad = in_blocks(KNOWN[1:2], [0]), np.full((1, A * M), 0.1)
    rows = {"features": np.vstack([good, good]), "next_features": [good]}
    rows[place] = [*rows[place][:-1], bad] if place == "next_features" else np.vstack([good, bad])
    episode = rs.Episode(rewards=[0.0, 0.5], **rows)
    learner = both_learners("auto", RECIPES["bonus"])[0]
    before = learner.snapshot()
    with pytest.raises(ValueError, match=r"rows .* one of .* 3 blocks of 4 .* in 3"):
        learner.observe(episode)
    long = rs.Episode(features=3.0 * good, rewards=[0.0], next_features=[])
    with pytest.raises(ValueError, match="no longer than feature_norm = 1; got ‖φ‖ = 3"):
        learner.absorb(long)
    with pytest.raises(ValueError, match="features of dimension 12; got 2"):
        learner.absorb(rs.Episode(features=[[1.0, 0.0]], rewards=[0.0], next_features=[]))
    assert learner.snapshot() == before


def test_a_snapshot_with_damaged_next_states_is_refused():
    learner = both_learners("shared", RECIPES["bonus"])[0]
    learner.absorb(*log_of(9, 4, alike=1.0))
    stored = learner.snapshot()
    rows = learner._state.history.to_arrays()["next_states/0/rows"]
    for column, number in ((M, 0.5), (-1, 3.0), (-1, 0.5), (-1, -1.0), (slice(M, -1), 0.0)):
        damaged = np.array(rows)
        damaged[-1, column] = number
        with pytest.raises(ValueError, match="next states must have masks of 0 and 1, and the num"):
            rs.Learner.restore(replaced(stored, {"next_states/0/rows": damaged}))
    short = learner._state.history.to_arrays()["next_states/0/sums"][1:]
    with pytest.raises(ValueError, match="lost numbers for all of them or for none"):
        rs.Learner.restore(replaced(stored, {"next_states/0/lost": short}))
    assert rs.Learner.restore(replaced(stored, {})).snapshot() == stored


def test_a_policy_keeps_the_blocks_of_its_bonus():
    learner = both_learners("own", RECIPES["bonus"])[0]
    learner.absorb(*log_of(10, 6))
    policy = learner.fit()
    assert policy.whitener.shape == (H, A * M, M)
    assert rs.Policy.from_bytes(policy.to_bytes()).digest == policy.digest
    rows = np.stack([in_blocks(np.tile(KNOWN[i], (A, 1)), np.arange(A)) for i in (1, 2, 3)])
    through = policy.act_through(rows[None], np.array([0]))
    assert through.tolist() == [[policy.act(h, rows[h]) for h in range(3)]]
    with pytest.raises(ValueError, match=r"whitener must have shape \(5, 12, 12\)"):
        replace(policy, whitener=policy.whitener[..., :3].repeat(3, axis=-1)[..., :5])


def test_numbers_are_kept_without_zeros():
    task = rs.Task(dim=200, horizon=2, blocks=20)
    rows = np.kron(np.eye(20), unit_rows(np.random.default_rng(2), 1, 10))
    learner = rs.Learner(task, rs.EveryEpisode(), rs.Recipe.paper(beta=0.0))
    empty = len(learner.snapshot())
    learner.absorb(rs.Episode(features=rows[:2], rewards=[0.0, 1.0], next_features=[rows]))
    assert learner.stored_rows == 1
    assert len(learner.snapshot()) - empty < 8 * (31 + 12) + 200


@pytest.mark.parametrize("stages", ["own", "shared"])
def test_sums_over_steps_keep_what_rounding_takes_away(stages):
    state = in_blocks(np.tile(KNOWN[1], (A, 1)), np.arange(A))

    def leading(length):
        step = in_blocks(length * np.eye(M)[:1], [1])
        return rs.Episode(features=step, rewards=[0.0], next_features=[state])

    found = history_of(replace(TASK, stages=stages))
    found = found.absorb(leading(1.0), *[leading(1e-17)] * 20).remove(leading(1.0)).fold()
    following = QFunction(np.ones(A * M), None, None, 0.0, None, None)
    value = following.q_values(state).max()
    found = found.next_value_sums(0, following)
    np.testing.assert_allclose(found[M], 20e-17 * value, rtol=1e-9)
    assert found[A * M] == pytest.approx(20 * value)
