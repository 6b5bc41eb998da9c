"""Dask Distributed (extra `cluster`): the same pieces and the same fit on other machines.

What travels between processes is Dask's business; what is stored is the same files as ever.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from distributed import Client, Future, LocalCluster

from rareswitch.core.arguments import Floats


@contextmanager
def cluster_client(address: str) -> Iterator[Client]:
    """Yield a client of "tcp://scheduler:8786", or of a cluster made here by "local:4"."""
    kind, _, count = address.partition(":")
    if kind != "local":
        try:
            client = Client(address, timeout="10s")
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"cluster {address!r} cannot be reached ({error})") from None
        with client:
            yield client
        return
    if not count.isdigit() or int(count) < 1:
        raise ValueError(
            f'cluster must be "tcp://host:port" or "local:N" with N ≥ 1; got {address!r}'
        )
    with (
        LocalCluster(n_workers=int(count), threads_per_worker=1, processes=True) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def cluster_pool(
    address: str, announce: Callable[[str], None] = lambda line: None
) -> Iterator[Executor]:
    """Yield an executor that runs on the cluster; a worker that dies costs only its pieces."""
    with cluster_client(address) as client:
        announce(f"dashboard: {client.dashboard_link}")
        executor: Executor = client.get_executor(pure=False)
        yield executor


class DaskPartitions:
    """Partitions of a log that live on the workers of a cluster."""

    def __init__(self, client: Client, partitions: Sequence[Future]) -> None:
        self._client = client
        self._partitions = tuple(partitions)

    def map(self, function: Callable[..., Floats], *arguments: Any) -> list[Floats]:
        """Compute where the data are; only the d or d² numbers of each partition travel."""
        parts = [
            self._client.submit(function, partition, *arguments, pure=False)
            for partition in self._partitions
        ]
        values: list[Floats] = self._client.gather(parts)
        return values
