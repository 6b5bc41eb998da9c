"""Dask Distributed (extra `cluster`): the same pieces and the same fit on other machines.

What travels between processes is Dask's business; what is stored is the same files as ever.
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

# What Dask raises when the cluster itself fails.
FAILURES = (KilledWorker, CancelledError, ClosedClientError, CommClosedError)
LOST = "the cluster is lost: its scheduler ended or the connection broke"


class ClusterError(BrokenExecutor):
    """The cluster failed, not the work on it; the message is one line."""


@contextmanager
def cluster_client(
    address: str, announce: Announce = lambda line: None, *, timeout: float = 30.0
) -> Iterator[Client]:
    """Yield a client of "tcp://scheduler:8786", or of a cluster made here by "local:4".

    Waits up to `timeout` seconds for the first worker. Workers with another rareswitch, NumPy or
    Python are refused: they could give other numbers.
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
    """Yield an executor that runs on the cluster; a worker that dies costs only its pieces."""
    with cluster_client(address, announce, timeout=timeout) as client:
        announce(f"dashboard: {client.dashboard_link}")
        yield ClusterExecutor(client)


class ClusterExecutor(Executor):
    """Dask's executor, but where the cluster fails a future's `result()` is a `ClusterError`."""

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
    """Partitions of a log that live on the workers of a cluster."""

    def __init__(self, client: Client, partitions: Sequence[Future]) -> None:
        self._client = client
        self._partitions = tuple(partitions)

    def map(self, function: Callable[..., Floats], *arguments: Any) -> list[Floats]:
        """Compute where the data are; only the d or d² numbers of each partition travel."""
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
    """Return what must be the same in every process for the same numbers to come out."""
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
    gc.collect()  # ends the half-made client now; later its end may meet another's start, and hang
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
            continue  # it has gone since; whoever replaces it is checked as it works
        if isinstance(found, Exception):
            raise ClusterError(
                f"worker {worker} cannot run rareswitch {rareswitch.__version__} ({_line(found)}); "
                f"install it there"
            )
        _check_versions(worker, found, versions())


def _run_alike(
    wanted: dict[str, str], function: Callable[..., Any], /, *rest: Any, **named: Any
) -> Any:
    """Run a function on a worker, which may have joined after the others were checked."""
    _check_versions(platform.node(), versions(), wanted)
    return function(*rest, **named)


def _check_versions(worker: str, found: dict[str, str], wanted: dict[str, str]) -> None:
    for name, version in wanted.items():
        if found.get(name) != version:
            raise ClusterError(
                f"worker {worker} has {name} {found.get(name)}, and here it is {version}; the same "
                "numbers need the same versions: install one of them in both places"
            )


def _check_connected(client: Client) -> None:
    """Refuse work while Dask looks for a lost scheduler: it would be forgotten, never to end."""
    if client.status != "running":
        raise ClusterError(LOST)


def _plainly(error: BaseException) -> ClusterError:
    """Return a failure of the cluster as one line."""
    if isinstance(error, KilledWorker):
        return ClusterError(
            f"a piece of work died with each of {error.allowed_failures + 1} workers, the last at "
            f"{error.last_worker.address}; its log says why, often for lack of memory"
        )
    return ClusterError(LOST)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
