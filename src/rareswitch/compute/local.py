"""Worker processes on this machine."""

import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess


class _Process(SpawnProcess):
    """A process that starts with Ctrl-C blocked, and whose start Ctrl-C does not interrupt.

    Otherwise Ctrl-C could print a traceback of Python's own start.
    """

    def start(self) -> None:
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            return super().start()
        pressed: list[int] = []
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        main = threading.current_thread() is threading.main_thread()
        if main:  # another thread may get the signal, but Python interrupts the main thread
            handler = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
        try:
            super().start()
        finally:
            if main:
                signal.signal(signal.SIGINT, handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if pressed:
            signal.raise_signal(signal.SIGINT)


class _Context(SpawnContext):
    """Spawn processes with Ctrl-C blocked."""

    Process = _Process


@contextmanager
def local_pool(workers: int) -> Iterator[Executor]:
    """Yield a pool of worker processes with one BLAS thread each; an exception kills them."""
    limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in limits}
    os.environ.update(dict.fromkeys(limits, "1"))
    here = "" in sys.path
    pool = ProcessPoolExecutor(workers, _Context(), initializer=_become_worker, initargs=(here,))
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        # All children, because Ctrl-C may come before the pool has registered a new process.
        processes = [process for process in active_children() if isinstance(process, _Process)]
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def portable(error: Exception) -> Exception:
    """Return the error if it can be pickled, or else an error with the same message.

    An error that cannot be unpickled would break the whole pool.
    """
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # its class may raise anything
        if isinstance(error, ValueError):
            return ValueError(str(error))
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _become_worker(here: bool) -> None:
    """Ignore Ctrl-C, end with the parent process, and import from its folders."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if here and "" not in sys.path:  # Python passes on only the parent's initial folder
        sys.path.insert(0, "")
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
