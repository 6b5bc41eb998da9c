"""Dask Distributed (extra `cluster`): run pieces of work and fits on other machines.

Dask moves data between processes; stored files are the same as without a cluster.
"""

import gc
import platform
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from concurrent.futures import Future as LocalFuture
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.client import ClosedClientError
from distributed.comm.core import CommClosedError

import rareswitch
from rareswitch.support.arguments import Floats, real

Announce = Callable[[str], None]
CONNECT_SECONDS = 10

# Exceptions of Dask for a failure of the cluster itself.
FAILURES = (KilledWorker, CancelledError, ClosedClientError, CommClosedError)
LOST = "the cluster is lost: its scheduler ended or the connection broke"


class ClusterError(BrokenExecutor):
    """A failure of the cluster, not of the work on it, as a message of one line."""


@contextmanager
def cluster_client(
    address: str, announce: Announce = lambda line: None, *, timeout: float = 30.0
) -> Iterator[Client]:
    """Yield a client of "tcp://scheduler:8786", or of a new local cluster, "local:4".

    It waits up to `timeout` seconds for the first worker. Workers with another version of
    rareswitch, NumPy or Python are an error, because their numbers could differ.
    """
    timeout = real("timeout", timeout, above=0.0)
    with ExitStack() as stack:
        kind, _, count = address.partition(":")
        if kind == "local":
            if not count.isdecimal() or int(count) < 1:
                raise ValueError(
                    f'cluster must be "tcp://host:port" or "local:N" with N ≥ 1; got {address!r}'
                )
            made = LocalCluster(n_workers=int(count), threads_per_worker=1, processes=True)
            client = stack.enter_context(Client(stack.enter_context(made)))
        else:
            client = stack.enter_context(_connect(address))
        try:
            _await_workers(client, address, announce, timeout)
            _check_workers(client)
        except FAILURES as error:
            raise _plainly(error) from None
        yield client


@contextmanager
def cluster_pool(
    address: str, announce: Announce = lambda line: None, *, timeout: float = 30.0
) -> Iterator[Executor]:
    """Yield an executor on the cluster; the death of a worker costs only its pieces of work."""
    with cluster_client(address, announce, timeout=timeout) as client:
        announce(f"dashboard: {client.dashboard_link}")
        yield ClusterExecutor(client)


class ClusterExecutor(Executor):
    """Dask's executor, with a `ClusterError` from a future's `result()` if the cluster fails."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._executor = client.get_executor(pure=False)

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **named: Any
    ) -> LocalFuture[Any]:
        future: LocalFuture[Any] = LocalFuture()
        _check_connected(self._client)
        try:
            remote = self._executor.submit(_run_alike, versions(), function, *arguments, **named)
        except FAILURES as error:
            raise _plainly(error) from None

        def pass_on(done: LocalFuture[Any]) -> None:
            if not future.set_running_or_notify_cancel():
                return  # cancelled here
            error = CancelledError() if done.cancelled() else done.exception()
            if error is None:
                future.set_result(done.result())
            else:
                future.set_exception(_plainly(error) if isinstance(error, FAILURES) else error)

        remote.add_done_callback(pass_on)
        future.add_done_callback(lambda done: remote.cancel() if done.cancelled() else None)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait=wait and not cancel_futures)


class DaskPartitions:
    """Partitions of a log on the workers of a cluster."""

    def __init__(self, client: Client, partitions: Sequence[Future]) -> None:
        self._client = client
        self._partitions = tuple(partitions)

    def map(self, function: Callable[..., Floats], *arguments: Any) -> list[Floats]:
        """Compute on the workers; only the d or d² numbers of each partition are moved."""
        _check_connected(self._client)
        try:
            parts = [
                self._client.submit(function, partition, *arguments, pure=False)
                for partition in self._partitions
            ]
            values: list[Floats] = self._client.gather(parts)
        except FAILURES as error:
            raise _plainly(error) from None
        return values


def versions() -> dict[str, str]:
    """Return the versions that must agree in every process for equal numbers."""
    major, minor, _ = platform.python_version_tuple()
    return {
        "rareswitch": rareswitch.__version__,
        "NumPy": np.__version__,
        "Python": f"{major}.{minor}",
    }


def _connect(address: str) -> Client:
    try:
        return Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        reason = _line(error)
    gc.collect()  # a later close of the incomplete client could coincide with a start and hang
    raise ClusterError(f"cluster {address!r} cannot be reached ({reason})")


def _await_workers(client: Client, address: str, announce: Announce, timeout: float) -> None:
    if client.scheduler_info()["workers"]:
        return
    announce(f"waiting up to {timeout:g} s for a worker of {address}")
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        raise ClusterError(
            f"cluster {address!r} has no workers after {timeout:g} s; start one with "
            f"`dask worker {address}`"
        ) from None


def _check_workers(client: Client) -> None:
    for worker, found in client.run(versions, on_error="return").items():
        if isinstance(found, OSError):
            continue  # the worker has left; its replacement is checked when it works
        if isinstance(found, Exception):
            raise ClusterError(
                f"worker {worker} cannot run rareswitch {rareswitch.__version__} ({_line(found)}); "
                f"install it there"
            )
        _check_versions(worker, found, versions())


def _run_alike(
    wanted: dict[str, str], function: Callable[..., Any], /, *rest: Any, **named: Any
) -> Any:
    """Check the worker's versions, because it may have joined late, and run a function."""
    _check_versions(platform.node(), versions(), wanted)
    return function(*rest, **named)


def _check_versions(worker: str, found: dict[str, str], wanted: dict[str, str]) -> None:
    for name, version in wanted.items():
        if found.get(name) != version:
            raise ClusterError(
                f"worker {worker} has {name} {found.get(name)}, and this machine {version}; equal "
                "numbers need equal versions: install one of them in both places"
            )


def _check_connected(client: Client) -> None:
    """Raise an error while Dask looks for a lost scheduler: it would forget new work."""
    if client.status != "running":
        raise ClusterError(LOST)


def _plainly(error: BaseException) -> ClusterError:
    """Describe a failure of the cluster in one line."""
    if isinstance(error, KilledWorker):
        return ClusterError(
            f"a piece of work died with each of {error.allowed_failures + 1} workers, the last at "
            f"{error.last_worker.address}; read its log for the cause, often too little memory"
        )
    return ClusterError(LOST)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
