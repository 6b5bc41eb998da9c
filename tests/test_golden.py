"""Files of every released format are read, or refused with a sentence."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import rareswitch as rs
from golden.make import episodes, learner
from rareswitch.experiments.results import load_results
from rareswitch.partition_folder import open_partition

GOLDEN = Path(__file__).parent / "golden" / "0.1.0"
ROWS = np.array([[0.5, 0.25, 1.0], [1.0, 0.0, 0.0], [0.25, 1.0, 0.5]])


def with_format(data, number):
    """Return packed bytes as if they were of another format, with a right checksum."""
    body = data[:-32].replace(b'"format":1', f'"format":{number}'.encode(), 1)
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("name", "exploration", "q_values"),
    [
        ("bonus", rs.Bonus(0.75), [1.0, 1.0, 0.9483]),
        ("perturbation", rs.Perturbation(0.5, draws=3), [0.6155, 1.0, 0.6348]),
    ],
)
def test_a_policy_is_read_and_does_what_it_did(name, exploration, q_values):
    data = (GOLDEN / f"policy-{name}.bin").read_bytes()
    policy = rs.Policy.from_bytes(data)
    assert policy.to_bytes() == data
    np.testing.assert_allclose(policy.q_values(1, ROWS), q_values, atol=1e-4)
    today = learner(exploration).policy
    np.testing.assert_allclose(policy.weights, today.weights, atol=1e-12)
    np.testing.assert_array_equal(policy.directions, today.directions)
    assert [policy.act(h, ROWS) for h in (0, 1)] == [today.act(h, ROWS) for h in (0, 1)]


def test_a_snapshot_is_restored_and_goes_on():
    data = (GOLDEN / "learner.bin").read_bytes()
    restored, today = rs.Learner.restore(data), learner(rs.Perturbation(0.5, draws=3))
    assert restored.snapshot() == data
    assert repr(restored) == repr(today)
    assert [d.episode for d in restored.ledger] == [d.episode for d in today.ledger]
    for episode in episodes(20):
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


@pytest.mark.parametrize("name", ["policy-bonus.bin", "learner.bin"])
def test_bytes_of_another_format_are_refused_with_a_sentence(name):
    data = with_format((GOLDEN / name).read_bytes(), 2)
    read = rs.Learner.restore if name == "learner.bin" else rs.Policy.from_bytes
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
