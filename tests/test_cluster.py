"""Experiments and fits on a Dask cluster: real scheduler, real worker processes, on loopback."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.cluster import DaskPartitions, cluster_client, cluster_pool
from rareswitch.core.log import StageLog
from rareswitch.experiments.reproduce import run
from rareswitch.experiments.run import local_pool
from rareswitch.experiments.spec import parse_spec

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, while workers come and go

SPEC = """
name = "small"
title = "small"
rounds = 30
episodes = 300
[world]
kind = "hard-to-learn"
d = 7
horizon = 4
[[arms]]
name = "lsvi-ucb"
schedule = { kind = "every-episode" }
[[arms]]
name = "rareswitch-{eta}"
schedule = { kind = "determinant-growth", eta = [2, 8] }
"""


@pytest.fixture(scope="module")
def client():
    with cluster_client("local:3") as made:
        yield made


def test_a_cluster_gives_the_bytes_of_a_local_run_even_when_a_worker_is_killed(tmp_path):
    spec = parse_spec(SPEC, source="small.toml")
    with local_pool(2) as pool:
        run([spec], tmp_path / "local", pool)
    lines = []
    with cluster_pool("local:2", lines.append) as pool:
        victim = next(iter(pool._client.run(os.getpid).values()))
        killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
        killer.start()
        run([spec], tmp_path / "cluster", pool)
        killer.join()
        for _ in range(100):  # the worker is gone, and its nanny has brought another
            workers = pool._client.run(os.getpid).values()
            if victim not in workers:
                break
            time.sleep(0.1)
        assert victim not in workers
    assert any(line.startswith("dashboard: http") for line in lines)
    for name in ("runs.npz", "summary.csv"):
        local, cluster = (tmp_path / where / "small" / name for where in ("local", "cluster"))
        assert local.read_bytes() == cluster.read_bytes()


def random_partition(seed, count=200, actions=6, dim=8, horizon=5):
    """Make a partition where it will live: only the seed travels."""
    rng = np.random.default_rng(seed)
    stages = []
    for h in range(horizon):
        lengths = rng.integers(0, actions, count) if h + 1 < horizon else np.zeros(count, int)
        stages.append(
            StageLog(
                features=rng.standard_normal((count, dim)) / np.sqrt(dim),
                rewards=rng.random(count),
                lengths=lengths,
                next_features=rng.standard_normal((int(lengths.sum()), dim)) / np.sqrt(dim),
            )
        )
    return rs.LogPartition(tuple(stages))


@pytest.mark.parametrize("count", [2, 4])
def test_a_log_that_lives_on_the_workers_gives_the_policy_of_one_machine(client, count):
    futures = [client.submit(random_partition, seed, pure=False) for seed in range(count)]
    remote = rs.fit_log(DaskPartitions(client, futures), beta=0.5)
    local = rs.fit_log(rs.LocalPartitions(map(random_partition, range(count))), beta=0.5)
    np.testing.assert_allclose(remote.weights, local.weights, atol=1e-9)
    np.testing.assert_allclose(remote.whitener, local.whitener, atol=1e-9)


def test_what_travels_is_small(client):
    sizes = []

    class Counting(DaskPartitions):
        def sum(self, function, *arguments):
            total = super().sum(function, *arguments)
            sizes.append(total.size + sum(np.size(a) for a in arguments if a is not None))
            return total

    futures = [client.submit(random_partition, seed, pure=False) for seed in range(2)]
    rs.fit_log(Counting(client, futures))
    horizon, dim = 5, 8
    assert len(sizes) == 2 + (horizon - 1)  # Σφφᵀ and Σrφ once, then each stage but the last
    assert max(sizes) <= horizon * dim**2


@pytest.mark.parametrize("address", ["local:0", "local:many", "local:", "tcp://127.0.0.1:9"])
def test_an_impossible_cluster_is_named(address):
    with pytest.raises(ValueError, match="cluster"), cluster_client(address):
        pass
