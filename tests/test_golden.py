"""Files of every released format are read, or refused with a sentence."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import rareswitch as rs
from golden.make import EXPLORATIONS, LEARNERS, episodes, learner, positions, shared_learner
from rareswitch.experiments.results import load_results
from rareswitch.statistics.partitions import open_partition

GOLDEN = Path(__file__).parent / "golden" / "0.1.0"
MENUS = [[0, 1, 2], [3, 4, 5]]
ROWS = np.array([[0.5, 0.25, 1.0], [1.0, 0.0, 0.0], [0.25, 1.0, 0.5]])


def with_format(data, number):
    """Return packed bytes as if they were of another format, with a right checksum."""
    body = data[:-32].replace(b'"format":1', f'"format":{number}'.encode(), 1)
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("name", "q_values"),
    [
        ("bonus", [1.0, 1.0, 0.9483]),
        ("perturbation", [0.9509, 1.0, 0.6342]),
    ],
)
def test_a_policy_is_read_and_does_what_it_did(name, q_values):
    data = (GOLDEN / f"policy-{name}.bin").read_bytes()
    policy = rs.Policy.from_bytes(data)
    assert policy.to_bytes() == data
    np.testing.assert_allclose(policy.q_values(1, ROWS), q_values, atol=1e-4)
    today = learner(EXPLORATIONS[name]).policy
    np.testing.assert_allclose(policy.weights, today.weights, atol=1e-12)
    np.testing.assert_array_equal(policy.directions, today.directions)
    assert [policy.act(h, ROWS) for h in (0, 1)] == [today.act(h, ROWS) for h in (0, 1)]


def test_a_mixture_is_read_and_does_what_it_did():
    data = (GOLDEN / "policy-ensemble.bin").read_bytes()
    policy, today = rs.Policy.from_bytes(data), learner(EXPLORATIONS["ensemble"]).policy
    assert policy.to_bytes() == data
    assert (policy.members, policy.allocation) == (4, 6696681235606605789)
    np.testing.assert_allclose(
        policy.q_values(1, ROWS),
        [
            [0.4563, 0.7479, 0.3542],
            [0.4701, 0.6411, 0.3353],
            [0.6753, 0.9026, 0.4861],
            [0.5180, 0.6238, 0.3513],
        ],
        atol=1e-4,
    )
    for name in ("weights", "levels", "directions"):
        np.testing.assert_allclose(getattr(policy, name), getattr(today, name), atol=1e-12)
    keys = ("ada", "ben", 3, 4, 5)
    assert [policy.allocate(key) for key in keys] == [2, 1, 0, 2, 3]
    for key in keys:
        assert [policy.draw(key).act(h, ROWS) for h in (0, 1)] == [
            today.draw(key).act(h, ROWS) for h in (0, 1)
        ]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_snapshot_is_restored_and_goes_on(name):
    data = (GOLDEN / LEARNERS[name]).read_bytes()
    restored, today = rs.Learner.restore(data), learner(EXPLORATIONS[name])
    assert restored.snapshot() == data
    assert repr(restored) == repr(today)
    assert [d.episode for d in restored.ledger] == [d.episode for d in today.ledger]
    for episode in episodes(20):
        assert restored.observe(episode) == today.observe(episode)
    np.testing.assert_allclose(restored.recommend().weights, today.recommend().weights, atol=1e-12)


def test_a_policy_of_one_hot_features_is_read_and_does_what_it_did():
    data = (GOLDEN / "policy-one-hot.bin").read_bytes()
    policy, today = rs.Policy.from_bytes(data), shared_learner().policy
    assert policy.to_bytes() == data
    assert (policy.one_hot, policy.members, policy.dim, policy.horizon) == (True, 4, 6, 3)
    np.testing.assert_allclose(
        policy.q_values(1, [0, 3, 5]),
        [
            [0.5234, 0.8756, 0.5483],
            [0.5503, 0.9262, 0.5256],
            [0.5312, 0.9405, 0.4835],
            [0.606, 0.8973, 0.6039],
        ],
        atol=1e-4,
    )
    for name in ("weights", "levels", "directions"):
        np.testing.assert_allclose(getattr(policy, name), getattr(today, name), atol=1e-12)
    for h in range(3):
        assert (policy.choices(h, MENUS) == today.choices(h, MENUS)).all()


def test_a_snapshot_with_shared_stages_is_restored_and_goes_on():
    data = (GOLDEN / "learner-shared.bin").read_bytes()
    restored, today = rs.Learner.restore(data), shared_learner()
    assert restored.snapshot() == data
    task = restored.task
    assert (task.stages, task.one_hot, task.end_reward) == ("shared", True, 0.25)
    assert (restored.episodes, repr(restored)) == (15, repr(today))
    assert [d.episode for d in restored.ledger] == [d.episode for d in today.ledger]
    for episode in positions(20):
        assert restored.observe(episode) == today.observe(episode)
    np.testing.assert_allclose(restored.recommend().weights, today.recommend().weights, atol=1e-12)


def test_a_partition_is_opened_and_gives_its_episodes():
    partition = open_partition(GOLDEN / "partition")
    assert (partition.horizon, partition.dim, len(partition)) == (2, 3, 12)
    for found, episode in zip(partition, episodes(12), strict=True):
        kept = episode.next_features[: 2 - 1]  # after the last stage nothing is worth anything
        assert found == rs.Episode(
            features=episode.features, rewards=episode.rewards, next_features=kept
        )


def test_results_are_loaded():
    runs = load_results(GOLDEN / "results")
    assert [arm.name for arm in runs.experiment.arms] == ["batch", "random"]
    assert runs.regret.shape == (2, 2, 6)
    assert runs.deployments.tolist() == [[3, 3], [0, 0]]
    assert 0.0 < runs.final[1].mean() < 2.0


@pytest.mark.parametrize(
    "name",
    [
        "policy-bonus.bin",
        "policy-ensemble.bin",
        "policy-one-hot.bin",
        "learner.bin",
        "learner-ensemble.bin",
        "learner-shared.bin",
    ],
)
def test_bytes_of_another_format_are_refused_with_a_sentence(name):
    data = with_format((GOLDEN / name).read_bytes(), 2)
    read = rs.Learner.restore if name.startswith("learner") else rs.Policy.from_bytes
    with pytest.raises(ValueError, match="format 1; got format 2, written by another version"):
        read(data)


def test_folders_of_another_format_are_refused_with_a_sentence(tmp_path):
    for name, file, read in (
        ("partition", "partition.json", open_partition),
        ("results", "manifest.json", load_results),
    ):
        copy = shutil.copytree(GOLDEN / name, tmp_path / name)
        about = json.loads((copy / file).read_text())
        (copy / file).write_text(json.dumps(about | {"format": 99}))
        with pytest.raises(ValueError, match="99"):
            read(copy)
