"""A log in partitions gives the policy of one learner that saw it all."""

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.core import log as log_module

H, D = 4, 5


def ragged_episodes(count, seed=0):
    """Make episodes that end early, are cut off or run on, with feasible sets of any size."""
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(count):
        steps = int(rng.integers(1, H + 1))
        following = steps - int(rng.integers(0, 2))
        episodes.append(
            rs.Episode(
                features=rng.standard_normal((steps, D)),
                rewards=rng.random(steps),
                next_features=[
                    rng.standard_normal((int(rng.integers(1, 7)), D))
                    for _ in range(max(following, steps - 1))
                ],
            )
        )
    return episodes


def learner_policy(episodes, *, beta, ridge, clip=True):
    learner = rs.Learner(
        dim=D,
        horizon=H,
        schedule=rs.EveryEpisode(),
        beta=beta,
        ridge=ridge,
        ties="lowest",
        clip=clip,
    )
    for episode in episodes:
        learner.observe(episode)
    return learner.policy


def assert_same(found, expected):
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-9)
    rows = np.random.default_rng(3).standard_normal((20, D))
    for h in range(H):
        np.testing.assert_allclose(found.q_values(h, rows), expected.q_values(h, rows), atol=1e-9)


@pytest.mark.parametrize("pieces", [1, 2, 5, 40])
@pytest.mark.parametrize(("beta", "ridge", "clip"), [(0.3, 1.0, True), (1.0, 0.1, False)])
def test_partitions_give_the_policy_of_one_learner(pieces, beta, ridge, clip):
    episodes = ragged_episodes(40)
    parts = np.array_split(np.arange(40), pieces)
    partitions = rs.LocalPartitions(
        rs.LogPartition.from_episodes([episodes[i] for i in part], horizon=H) for part in parts
    )
    found = rs.fit_log(partitions, beta=beta, ridge=ridge, clip=clip)
    assert_same(found, learner_policy(episodes, beta=beta, ridge=ridge, clip=clip))


def test_a_partition_on_disk_is_mapped_and_gives_the_same_policy(tmp_path):
    episodes = ragged_episodes(30, seed=1)
    rs.save_partition(rs.LogPartition.from_episodes(episodes, horizon=H), tmp_path / "part")
    opened = rs.open_partition(tmp_path / "part")
    assert isinstance(opened.stages[0].next_features, np.memmap)
    found = rs.fit_log(rs.LocalPartitions([opened]), beta=0.5)
    assert_same(found, learner_policy(episodes, beta=0.5, ridge=1.0))


def test_blocks_do_not_change_the_fit(monkeypatch):
    episodes = ragged_episodes(30, seed=2)
    partitions = rs.LocalPartitions([rs.LogPartition.from_episodes(episodes, horizon=H)])
    whole = rs.fit_log(partitions)
    monkeypatch.setattr(log_module, "BLOCK_ROWS", 7)
    monkeypatch.setattr("rareswitch.core.history.BLOCK_ROWS", 7)
    assert_same(rs.fit_log(partitions), whole)


def test_every_row_is_visited_in_blocks_of_bounded_size(monkeypatch):
    seen = []
    original = log_module.optimistic_values

    def spy(rows, *arguments):
        seen.append(len(rows))
        return original(rows, *arguments)

    monkeypatch.setattr(log_module, "optimistic_values", spy)
    monkeypatch.setattr("rareswitch.core.history.BLOCK_ROWS", 16)
    partition = rs.LogPartition.from_episodes(ragged_episodes(40), horizon=H)
    rs.fit_log(rs.LocalPartitions([partition]))
    assert max(seen) <= 16
    assert sum(seen) == sum(len(stage.next_features) for stage in partition.stages)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rs.LogPartition.from_episodes([], horizon=2), "at least one episode"),
        (
            lambda: rs.LogPartition.from_episodes(
                [rs.Episode(features=np.eye(2), rewards=[0, 1], next_features=[np.eye(2)])],
                horizon=1,
            ),
            "at most 1 steps; got 2",
        ),
        (lambda: rs.fit_log(rs.LocalPartitions([])), "at least one partition"),
        (
            lambda: rs.fit_log(
                rs.LocalPartitions([rs.LogPartition.from_episodes(ragged_episodes(1), horizon=H)]),
                ridge=0.0,
            ),
            "ridge must be a finite number above 0",
        ),
    ],
)
def test_bad_logs_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_folder_without_a_partition_is_named(tmp_path):
    with pytest.raises(ValueError, match="has no stage-0"):
        rs.open_partition(tmp_path)


def test_a_partition_is_written_to_a_new_folder_only(tmp_path):
    partition = rs.LogPartition.from_episodes(ragged_episodes(2), horizon=H)
    with pytest.raises(ValueError, match="folder must not exist yet"):
        rs.save_partition(partition, tmp_path)
