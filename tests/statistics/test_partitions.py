"""A log in partitions gives the policy of one learner that saw it all."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import ragged_episode, unit_rows
from rareswitch.core.lsvi import QFunction
from rareswitch.core.policy import fit
from rareswitch.core.recipe import Recipe
from rareswitch.statistics import history_of, next_states
from rareswitch.statistics.partitions import (
    LocalPartitions,
    LogPartition,
    LogStatistics,
    open_partition,
    save_partition,
)

H, D = 4, 5


def ragged_episodes(count, seed=0, *, dim=D):
    """Make episodes that end early, are cut off or run on, with feasible sets of any size."""
    rng = np.random.default_rng(seed)
    return [ragged_episode(rng, horizon=H, dim=dim) for _ in range(count)]


def local(*logs):
    return LocalPartitions(LogPartition.from_episodes(log, horizon=H) for log in logs)


def assert_same(found, expected):
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-9)
    rows = np.random.default_rng(3).standard_normal((20, D))
    for h in range(H):
        np.testing.assert_allclose(found.q_values(h, rows), expected.q_values(h, rows), atol=1e-9)


@given(st.integers(0, 10**6), st.lists(st.integers(1, 39), max_size=9), st.booleans())
def test_any_split_gives_the_policy_of_one_learner(seed, cuts, clip):
    episodes = ragged_episodes(40, seed)
    recipe = Recipe(exploration=rs.Bonus(0.7), ridge=0.1, clip=clip, seed=3)
    history = history_of(rs.Task(dim=D, horizon=H), 0.1, episodes)
    ends = sorted({0, *cuts, 40})
    parts = [episodes[a:b] for a, b in pairwise(ends)]
    found = fit(LogStatistics(local(*parts), ridge=0.1), recipe, version=2)
    expected = fit(history, recipe, version=2)
    assert_same(found, expected)
    assert (found.directions == expected.directions).all()


def test_it_is_what_a_learner_deploys():
    episodes = ragged_episodes(30)
    learner = rs.Learner(
        rs.Task(dim=D, horizon=H, episodes=30), rs.EveryEpisode(), rs.Recipe.paper(beta=0.5)
    )
    for episode in episodes:
        learner.absorb(episode)
    recipe = Recipe.paper(beta=0.5)
    assert_same(fit(LogStatistics(local(episodes)), recipe, version=2), learner.fit())


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_a_partition_gives_its_episodes_back(seed, count):
    rng = np.random.default_rng(seed)
    episodes = [ragged_episode(rng, horizon=H, dim=2) for _ in range(count)]
    back = list(LogPartition.from_episodes(episodes, horizon=H))
    # What follows the last stage is worth nothing and not kept.
    assert back == [replace(e, next_features=e.next_features[: H - 1]) for e in episodes]


@pytest.mark.parametrize("cut_off", [True, False])
@pytest.mark.parametrize("steps", range(1, H + 1))
def test_episodes_of_any_length_come_back(steps, cut_off):
    rng = np.random.default_rng(steps)
    kept = cut_off and steps < H
    episode = ragged_episode(rng, horizon=H, dim=2, steps=steps, cut_off=kept)
    partition = LogPartition.from_episodes([episode] * 2, horizon=H)
    assert list(partition) == [episode, episode]
    assert (partition.horizon, partition.dim, len(partition)) == (H, 2, 2)


def test_blocks_do_not_change_the_fit(monkeypatch):
    partitions = local(ragged_episodes(30, seed=2))
    recipe = Recipe()
    whole = fit(LogStatistics(partitions), recipe, version=1)
    monkeypatch.setattr("rareswitch.statistics.partitions.BLOCK_ROWS", 7)
    monkeypatch.setattr(next_states, "BLOCK_ROWS", 7)
    assert_same(fit(LogStatistics(partitions), recipe, version=1), whole)


def test_every_row_is_visited_in_blocks_of_bounded_size(monkeypatch):
    seen = []
    original = QFunction.q_values

    def spy(self, rows):
        seen.append(len(rows))
        return original(self, rows)

    monkeypatch.setattr(QFunction, "q_values", spy)
    monkeypatch.setattr(next_states, "BLOCK_ROWS", 16)
    partition = LogPartition.from_episodes(ragged_episodes(40), horizon=H)
    fit(LogStatistics(LocalPartitions([partition])), Recipe(), version=1)
    assert max(seen) <= 16
    assert sum(seen) == sum(len(stage.next_features) for stage in partition.stages)


def test_a_policy_of_the_log_acts_as_any_other():
    rows = unit_rows(np.random.default_rng(0), 4, D)
    for recipe in (Recipe(exploration=rs.Bonus()), Recipe()):
        policy = fit(LogStatistics(local(ragged_episodes(9))), recipe, version=1)
        copy = rs.Policy.from_bytes(policy.to_bytes())
        for key in range(9):
            assert copy.draw(key).act(0, rows) == policy.draw(key).act(0, rows)


ONE = ragged_episodes(1)
LONG = rs.Episode(features=np.eye(2), rewards=[0, 1], next_features=[np.eye(2)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LogPartition.from_episodes([], horizon=2), "episodes must not be empty"),
        (lambda: LogPartition.from_episodes([LONG], horizon=1), "at most 1 steps; got 2"),
        (
            lambda: LogPartition.from_episodes([*ONE, LONG], horizon=H),
            r"episodes must have one dimension; got \[2, 5\]",
        ),
        (
            lambda: LogPartition.from_episodes(ONE, horizon=0),
            "horizon must be from 1 to 1000000; got 0",
        ),
        (lambda: LogStatistics(LocalPartitions([])), "at least one partition; got none"),
        (lambda: LogStatistics(local(ONE), ridge=0.0), "ridge must be a finite number"),
        (
            lambda: LogStatistics(local(ONE, ONE, ragged_episodes(1, dim=2))),
            r"agree in horizon and dimension; partition 2 gives \(4, 2, 2\) where partition 0 "
            r"gives \(4, 5, 5\)",
        ),
        (
            lambda: LogStatistics(
                LocalPartitions(
                    [
                        LogPartition.from_episodes(ONE, horizon=H),
                        LogPartition.from_episodes(ONE, horizon=H + 2),
                    ]
                )
            ),
            r"agree in horizon and dimension; partition 1 gives \(6, 5, 5\)",
        ),
    ],
)
def test_bad_logs_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_partitions_that_no_fit_can_use_are_refused_with_a_sentence():
    long = rs.Episode(features=[[1e16, 1e16]], rewards=[1.0], next_features=[])
    part = LogPartition.from_episodes([long], horizon=1)
    with pytest.raises(ValueError, match="ridge must be larger for such features"):
        LogStatistics(LocalPartitions([part]), ridge=1e-60)
    with pytest.raises(TypeError, match="partitions must be LocalPartitions"):
        LogStatistics("folder")
    with pytest.raises(TypeError, match="partitions must all be LogPartitions"):
        LocalPartitions(["folder"])
    (stage,) = part.stages
    dear = LogPartition(
        (replace(stage, features=np.eye(2)[:1], rewards=np.array([5.0])),), part.steps
    )
    with pytest.raises(ValueError, match=r"rewards must lie in \[0, 1\]; rewards of stage 0"):
        LogStatistics(LocalPartitions([dear]))


@pytest.mark.parametrize("exploration", [rs.Bonus(0.5), rs.Ensemble(members=3)])
def test_blocks_change_nothing_beyond_rounding(monkeypatch, exploration):
    rng = np.random.default_rng(5)
    episodes = [ragged_episode(rng, horizon=3, dim=3) for _ in range(20)]
    partitions = LocalPartitions([LogPartition.from_episodes(episodes, horizon=3)])
    recipe = Recipe(exploration=exploration)

    def both():
        history = history_of(rs.Task(dim=3, horizon=3), log=episodes)
        return [fit(s, recipe, 2).weights for s in (LogStatistics(partitions), history)]

    whole = both()
    for name, size in (("partitions.BLOCK_ROWS", 3), ("next_states.BLOCK_ROWS", 4)):
        monkeypatch.setattr(f"rareswitch.statistics.{name}", size)
    monkeypatch.setattr("rareswitch.statistics.next_states.BLOCK_STATES", 2)
    np.testing.assert_allclose(both(), whole, atol=1e-12)


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 19), max_size=3),
    st.sampled_from(["own", "shared"]),
    st.sampled_from([0.0, 0.35]),
    st.sampled_from(
        [rs.Bonus(0.7), rs.Ensemble(3), rs.Perturbation(0.5, draws=2), rs.Ensemble(2, 0.5, False)]
    ),
)
def test_any_split_gives_the_policy_of_one_learner_whatever_is_shared_or_ends_are_worth(
    seed, cuts, stages, end_reward, exploration
):
    episodes = ragged_episodes(20, seed)
    recipe = Recipe(exploration=exploration, ridge=0.1, seed=3)
    task = rs.Task(dim=D, horizon=H, stages=stages, end_reward=end_reward)
    parts = [episodes[a:b] for a, b in pairwise(sorted({0, *cuts, 20}))]
    statistics = LogStatistics(local(*parts), ridge=0.1, stages=stages, end_reward=end_reward)
    history = history_of(task, 0.1, episodes).fold()
    assert (statistics.pools.contains == history.pools.contains).all()
    assert statistics.fold() is statistics
    for name in ("step_sums", "reward_sums"):
        found = getattr(statistics, name)
        np.testing.assert_allclose(found, getattr(history, name), atol=1e-11)
    assert_same(fit(statistics, recipe, version=2), fit(history, recipe, version=2))


def test_a_pool_is_visited_once_for_each_stage_that_regresses_on_it():
    asked = []

    class Counting(LocalPartitions):
        def map(self, function, *arguments):
            asked.append(function.__name__)
            return super().map(function, *arguments)

    partition = LogPartition.from_episodes(ragged_episodes(9), horizon=H)
    for stages in ("own", "shared"):
        asked.clear()
        fit(LogStatistics(Counting([partition]), stages=stages), Recipe(), version=1)
        assert asked == ["_gram_sums", "_step_sums", *["_next_value_sums"] * (H - 1)]


def test_blocks_do_not_change_what_ends_are_worth(monkeypatch):
    partitions = local(ragged_episodes(30, seed=4))
    settings = {"stages": "shared", "end_reward": 0.6}
    whole = fit(LogStatistics(partitions, **settings), Recipe(), version=1)
    monkeypatch.setattr("rareswitch.statistics.partitions.BLOCK_ROWS", 3)
    monkeypatch.setattr(next_states, "BLOCK_ROWS", 2)
    assert_same(fit(LogStatistics(partitions, **settings), Recipe(), version=1), whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": "auto"}, "stages must be one of 'own', 'shared'; got 'auto'"),
        ({"end_reward": 2.0}, "end_reward must be a finite number at least 0 and at most 1"),
    ],
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        LogStatistics(local(ONE), **changes)


def test_positions_are_not_put_into_partitions():
    episode = rs.Episode(features=[0], rewards=[1.0], next_features=[])
    with pytest.raises(ValueError, match="rows of features; got one-hot positions"):
        LogPartition.from_episodes([episode], horizon=1)


# Partitions in folders.

HORIZON, DIM = 3, 4
ARRAYS = ("features", "rewards", "lengths", "next_features")
FILES = ["steps.npy", *(f"stage-{h}/{name}.npy" for h in range(HORIZON) for name in ARRAYS)]


def some_episodes(count=20, *, longest=HORIZON):
    rng = np.random.default_rng(0)
    short = [ragged_episode(rng, horizon=longest, dim=DIM) for _ in range(count - 1)]
    return [*short, ragged_episode(rng, horizon=longest, dim=DIM, steps=longest)]


@pytest.fixture
def saved(tmp_path):
    """Save a partition and return its folder."""
    partition = LogPartition.from_episodes(some_episodes(), horizon=HORIZON)
    save_partition(partition, tmp_path / "part")
    return tmp_path / "part"


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
@pytest.mark.parametrize("longest", [1, HORIZON], ids=["stages without steps", "all stages"])
def test_a_partition_comes_back_as_it_was_saved(tmp_path, kind, longest):
    partition = LogPartition.from_episodes(some_episodes(longest=longest), horizon=HORIZON)
    folder = kind(tmp_path / "new" / "part")
    save_partition(partition, folder)
    opened = open_partition(folder)
    assert list(opened) == list(partition)
    assert (opened.horizon, opened.dim) == (HORIZON, DIM)
    assert isinstance(opened.stages[0].features, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        opened.stages[0].features[0] = 0.0
    recipe = Recipe.paper(beta=0.5)
    fits = [fit(LogStatistics(LocalPartitions([p])), recipe, 1) for p in (partition, opened)]
    assert fits[0].to_bytes() == fits[1].to_bytes()
    save_partition(opened, tmp_path / "again")
    for name in ("partition.json", *FILES):
        again, first = (tmp_path / "again" / name, tmp_path / "new" / "part" / name)
        assert again.read_bytes() == first.read_bytes()


def test_a_partition_is_written_to_a_new_folder_only(saved):
    with pytest.raises(ValueError, match="folder must not exist yet"):
        save_partition(open_partition(saved), saved)


def refused(folder, message):
    with pytest.raises(ValueError, match=message) as caught:
        open_partition(folder)
    assert str(folder) in str(caught.value)


def test_a_folder_without_a_partition_is_named(tmp_path):
    refused(tmp_path, "it has no partition.json")
    refused(tmp_path / "absent", "it has no partition.json")


@pytest.mark.parametrize("name", FILES)
def test_a_partition_that_lost_an_array_names_it(saved, name):
    (saved / name).unlink()
    refused(saved, f"{name} cannot be read .*No such file")


@pytest.mark.parametrize("h", range(HORIZON))
def test_a_partition_that_lost_a_stage_names_it(saved, h):
    shutil.rmtree(saved / f"stage-{h}")
    refused(saved, f"stage-{h}/lengths.npy cannot be read")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "partition.json must be of format 1; got 2, written by another version"),
        ({"format": None}, "must be of format 1; got None"),
        ({"horizon": HORIZON - 1}, "steps.npy must count steps from 1 to the horizon 2"),
        ({"horizon": HORIZON + 1}, "stage-3/lengths.npy cannot be read"),
        ({"horizon": 10**9}, "stage-3/lengths.npy cannot be read"),
        ({"horizon": 0}, "does not describe a partition .horizon must be at least 1"),
        ({"horizon": "3"}, "partition.json does not .*horizon must be a whole number.*; got '3'"),
        ({"horizon": None}, "horizon must be a whole number"),
        ({"dim": DIM + 1}, r"features.npy must be float64 of shape \(\d+, 5\); got .*\(\d+, 4\)"),
        ({"dim": 10**9}, "features.npy must be float64 of shape"),
        ({"dim": -1}, "dim must be at least 1; got -1"),
    ],
)
def test_a_partition_that_says_another_thing_of_itself_is_refused(saved, change, message):
    about = saved / "partition.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | change))
    refused(saved, message)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"3", b"null", b"\xff", b"[" * 100_000])
def test_a_partition_json_that_is_none_is_named(saved, text):
    (saved / "partition.json").write_bytes(text)
    refused(saved, r"partition\.json does not describe a partition")


def test_a_stage_too_many_is_refused(tmp_path):
    partition = LogPartition.from_episodes(some_episodes(longest=2), horizon=HORIZON)
    save_partition(partition, tmp_path / "part")
    about = {"format": 1, "horizon": 2, "dim": DIM}
    (tmp_path / "part" / "partition.json").write_text(json.dumps(about))
    refused(tmp_path / "part", "must have only the 2 stages of its partition.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.astype(np.float32),
        lambda a: a.astype(a.dtype.newbyteorder()),
        lambda a: a.astype(str),
        lambda a: a[..., None],
        lambda a: np.concatenate([a, np.ones((1, *a.shape[1:]), a.dtype)]),
    ],
    ids=["float32", "other endian", "text", "an axis more", "a row more"],
)
def test_an_array_of_another_kind_or_shape_is_refused_before_it_is_used(saved, name, change):
    np.save(saved / name, change(np.load(saved / name)))
    refused(saved, r"\.npy must (be|count)")


@pytest.mark.parametrize("steps", [[0, 3], [-1, 3], [1, 4], []])
def test_steps_out_of_range_are_refused(saved, steps):
    np.save(saved / "steps.npy", np.array(steps, np.int64))
    refused(saved, "steps.npy must count steps from 1 to the horizon 3")


@pytest.mark.parametrize("value", [-1, 0])
def test_a_next_state_without_actions_is_refused(saved, value):
    path = saved / "stage-0" / "lengths.npy"
    lengths = np.load(path)
    lengths[-1] = value  # the last episode goes on
    np.save(path, lengths)
    refused(saved, "lengths.npy must count the actions after every step")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (2305843009213693952,)}",
        f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({10**40},)}}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': 20}",
        "{'descr': '<i8', 'fortran_order': True, 'shape': (20,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (20,)}",
        "{'descr': 'nothing', 'fortran_order': False, 'shape': (20,)}",
        "{}",
        "(" * 5000,
        "\N{NULL}" * 40,
    ],
)
def test_a_hostile_header_is_refused_before_memory_is_taken(saved, header):
    text = header.encode("latin1")
    magic = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little")
    (saved / "steps.npy").write_bytes(magic + text + b"\1" * 160)
    refused(saved, "steps.npy (cannot be read|must be int64|must hold)")


@pytest.mark.parametrize("name", FILES)
def test_a_cut_array_is_refused(saved, name):
    (saved / name).write_bytes((saved / name).read_bytes()[:-1])
    refused(saved, rf"{name} (must hold|cannot be read)")


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"PK\x03\x04", b"text"])
def test_a_file_that_is_no_array_is_named(saved, data):
    (saved / "stage-1" / "rewards.npy").write_bytes(data)
    refused(saved, "stage-1/rewards.npy cannot be read")
