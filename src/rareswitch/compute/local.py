"""Worker processes on this machine."""

import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait


@contextmanager
def local_pool(workers: int) -> Iterator[Executor]:
    """Yield a pool of worker processes with one BLAS thread each; leaving early kills them."""
    limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in limits}
    os.environ.update(dict.fromkeys(limits, "1"))
    here = "" in sys.path
    pool = ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=_become_worker, initargs=(here,)
    )
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def portable(error: Exception) -> Exception:
    """Return an error that another process can read: itself, or one that says the same.

    An error that cannot be read would end the whole pool.
    """
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class may raise
        if isinstance(error, ValueError):
            return ValueError(str(error))
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _become_worker(here: bool) -> None:
    """Leave Ctrl-C to the parent, and do not outlive it; import from where it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if here and "" not in sys.path:  # Python passes on the folder that the parent began in
        sys.path.insert(0, "")
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
