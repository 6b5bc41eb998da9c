"""Experiments and fits on a Dask cluster: real schedulers, real worker processes, on loopback."""

import gc
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

from oracles import ragged_episode
from rareswitch.compute.dask import (
    ClusterError,
    DaskPartitions,
    cluster_client,
    cluster_pool,
    versions,
)
from rareswitch.compute.local import local_pool
from rareswitch.core.exploration import Ensemble
from rareswitch.core.policy import fit
from rareswitch.core.recipe import Recipe
from rareswitch.experiments.load import parse_spec
from rareswitch.experiments.run import run
from rareswitch.statistics.partitions import LocalPartitions, LogPartition, LogStatistics

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, while workers come and go

HORIZON, DIM = 5, 8
RECIPE = Recipe.paper(beta=0.5)
SPEC = """
name = "small"
title = "small"
rounds = 30
episodes = 120
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
    with cluster_client("local:2") as made:
        yield made


@contextmanager
def program(name, *arguments, **environment):
    """Start `dask scheduler` or `dask worker` as a process of its own."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--no-dashboard", *arguments]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=os.environ | environment, **quiet)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def scheduler(folder):
    """Start a scheduler; yield its process and its address."""
    place = folder / "scheduler.json"
    arguments = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(place))
    with program("scheduler", *arguments) as process:
        while not place.exists() or not place.read_text():
            time.sleep(0.05)
        yield process, json.loads(place.read_text())["address"]


def worker(address, **environment):
    return program("worker", address, "--nthreads", "1", "--no-nanny", **environment)


def test_a_cluster_gives_the_bytes_of_a_local_run_even_when_a_worker_is_killed(tmp_path):
    spec = parse_spec(SPEC, source="small.toml")
    with local_pool(2) as pool:
        run([spec], tmp_path / "local", pool)
    lines = []
    with cluster_client("local:2") as watching:
        address = watching.scheduler.address
        victim = next(iter(watching.run(os.getpid).values()))
        with cluster_pool(address, lines.append) as pool:
            killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
            killer.start()
            run([spec], tmp_path / "cluster", pool)
            killer.join()
        for _ in range(100):  # the worker is gone, and its nanny has brought another
            workers = watching.run(os.getpid).values()
            if victim not in workers:
                break
            time.sleep(0.1)
        assert victim not in workers
    assert [line for line in lines if not line.startswith("dashboard: http")] == []
    for name in ("runs.npz", "summary.csv"):
        local, cluster = (tmp_path / where / "small" / name for where in ("local", "cluster"))
        assert local.read_bytes() == cluster.read_bytes()


def random_partition(seed):
    """Make a partition where it will live: only the seed travels."""
    rng = np.random.default_rng(seed)
    episodes = [ragged_episode(rng, horizon=HORIZON, dim=DIM) for _ in range(60)]
    return LogPartition.from_episodes(episodes, horizon=HORIZON)


@pytest.mark.parametrize("count", [2, 4])
def test_a_log_that_lives_on_the_workers_gives_the_policy_of_one_machine(client, count):
    futures = [client.submit(random_partition, seed, pure=False) for seed in range(count)]
    remote = fit(LogStatistics(DaskPartitions(client, futures)), RECIPE, version=1)
    here = LogStatistics(LocalPartitions(map(random_partition, range(count))))
    assert remote.to_bytes() == fit(here, RECIPE, version=1).to_bytes()


def test_stages_may_share_on_the_workers_too(client):
    futures = [client.submit(random_partition, seed, pure=False) for seed in range(2)]
    settings = {"stages": "shared", "end_reward": 0.4}
    remote = fit(LogStatistics(DaskPartitions(client, futures), **settings), RECIPE, version=1)
    here = LogStatistics(LocalPartitions(map(random_partition, range(2))), **settings)
    assert remote.to_bytes() == fit(here, RECIPE, version=1).to_bytes()


@pytest.mark.parametrize("stages", ["own", "shared"])
def test_what_travels_is_small(client, stages):
    sizes = []

    class Counting(DaskPartitions):
        def map(self, function, *arguments):
            parts = super().map(function, *arguments)
            sizes.append(sum(part.size for part in parts))
            return parts

    futures = [client.submit(random_partition, seed, pure=False) for seed in range(2)]
    fit(LogStatistics(Counting(client, futures), stages=stages), RECIPE, version=1)
    # Σφφᵀ and Σ(φ, 1, r)·(1, r) once, then ΣV·(φ, 1, r, V) for each stage but the last.
    once = [2 * HORIZON * DIM**2, 2 * 2 * HORIZON * (DIM + 2)]
    assert sizes == [*once, *[2 * (DIM + 3)] * (HORIZON - 1)]
    sizes.clear()
    mixture = Recipe(exploration=Ensemble(7))
    fit(LogStatistics(Counting(client, futures), stages=stages), mixture, version=1)
    assert sizes == [*once, *[2 * 7 * (DIM + 3)] * (HORIZON - 1)]


@pytest.mark.parametrize("address", ["local:0", "local:many", "local:", "local:²"])
def test_an_impossible_local_cluster_is_named(address):
    with pytest.raises(ValueError, match=f'"local:N" with N ≥ 1; got {address!r}'):
        cluster_client(address).__enter__()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", "tcp://127.0.0.1:many"])
def test_a_cluster_that_cannot_be_reached_is_named(address, monkeypatch):
    monkeypatch.setattr("rareswitch.compute.dask.CONNECT_SECONDS", 1)
    with pytest.raises(ClusterError, match=f"cluster '{address}' cannot be reached") as caught:
        cluster_client(address).__enter__()
    assert "\n" not in str(caught.value)
    clients = [thing for thing in gc.get_objects() if type(thing) is Client]
    assert {one.status for one in clients} <= {"running", "closed"}  # none is left half-made


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "raise ImportError('not here')",
            r"cannot run rareswitch \S+ \(.*not here.*\); ins",
        ),
        (None, r"has rareswitch 0\.0\.7, and this machine \d"),
    ],
)
def test_a_worker_without_this_rareswitch_is_refused(tmp_path, source, message):
    if source is None:
        source = "__version__ = '0.0.7'\n__path__.append({!r})".format(
            str(Path(sys.modules["rareswitch"].__file__).parent)
        )
    (tmp_path / "rareswitch").mkdir()
    (tmp_path / "rareswitch" / "__init__.py").write_text(source)
    with (
        scheduler(tmp_path) as (_, address),
        worker(address, PYTHONPATH=str(tmp_path)),
        pytest.raises(ClusterError, match=rf"^worker tcp://\S+ .*{message}") as caught,
    ):
        cluster_client(address).__enter__()
    assert "\n" not in str(caught.value)


OTHERS = {
    "NumPy": (np, "__version__", "9.9"),
    "Python": (platform, "python_version_tuple", lambda: ("9", "9", "0")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_worker_with_other_versions_is_refused_even_if_it_joins_late(client, monkeypatch, name):
    there = versions()[name]
    message = rf"^worker \S+ has {name} {there}, and this machine 9\.9; .*"
    with cluster_pool(client.scheduler.address) as pool:
        assert pool.submit(abs, -3).result() == 3
        monkeypatch.setattr(*OTHERS[name])
        with pytest.raises(ClusterError, match=message):
            pool.submit(abs, -3).result()
    with pytest.raises(ClusterError, match=message.replace(r"\S+", r"tcp://\S+")):
        cluster_client(client.scheduler.address).__enter__()


def test_a_cluster_without_workers_is_waited_for_and_then_named():
    lines = []
    with LocalCluster(n_workers=0, processes=True, dashboard_address=None) as empty:
        address = empty.scheduler_address
        with pytest.raises(ClusterError, match=f"{address}' has no workers after 0.2 s; start one"):
            cluster_client(address, lines.append, timeout=0.2).__enter__()
        assert lines == [f"waiting up to 0.2 s for a worker of {address}"]
        threading.Timer(0.5, empty.scale, (1,)).start()
        with cluster_pool(address) as pool:
            assert pool.submit(abs, -3).result() == 3


@pytest.mark.parametrize("timeout", [0, -1.0, np.inf])
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(ValueError, match="timeout must be a finite number above 0"):
        cluster_client("local:1", timeout=timeout).__enter__()


def end_this_process(*_):
    os._exit(1)


def test_work_that_kills_its_workers_is_named():
    message = r"^a piece of work died with each of 1 workers, the last at tcp://\S+; read its log"
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        cluster_client("local:1") as fragile,
    ):
        with cluster_pool(fragile.scheduler.address) as pool:
            future = pool.submit(end_this_process)
            with pytest.raises(ClusterError, match=message):
                future.result()
        fragile.wait_for_workers(1)
        partitions = DaskPartitions(fragile, [fragile.submit(random_partition, 0)])
        with pytest.raises(ClusterError, match=message):
            partitions.map(end_this_process)


def test_a_scheduler_that_dies_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("rareswitch.compute.dask.CONNECT_SECONDS", 3)
    message = "^the cluster is lost: its scheduler ended or the connection broke$"
    with (
        scheduler(tmp_path) as (process, address),
        worker(address),
        cluster_client(address) as connected,
        cluster_pool(address) as pool,
    ):
        partition = connected.submit(time.sleep, 60)
        futures = [pool.submit(time.sleep, 60) for _ in range(2)]
        process.kill()
        for future in futures:
            with pytest.raises(BrokenExecutor, match=message):
                future.result(timeout=30)
        with pytest.raises(ClusterError, match=message):
            DaskPartitions(connected, [partition]).map(abs)
        with pytest.raises(ClusterError, match=message):
            pool.submit(abs, -3)


def test_an_error_of_the_work_itself_stays_what_it_is(client):
    with (
        cluster_pool(client.scheduler.address) as pool,
        pytest.raises(ValueError, match="invalid literal"),
    ):
        pool.submit(int, "x").result()


def test_work_that_is_cancelled_is_never_done(client, tmp_path, caplog):
    with cluster_pool(client.scheduler.address) as pool:
        before = [pool.submit(time.sleep, 0.5) for _ in range(4)]
        cancelled = pool.submit(Path.touch, tmp_path / "done")
        assert cancelled.cancel()
        assert cancelled.cancelled()
        after = [pool.submit(time.sleep, 0.1) for _ in range(4)]
        wait([*before, *after])
        assert not (tmp_path / "done").exists()
        pool.shutdown()
    assert [record for record in caplog.records if record.name == "concurrent.futures"] == []
