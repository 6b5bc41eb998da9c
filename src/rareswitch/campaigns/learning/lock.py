"""There is one learner of a campaign at a time; when it dies, another may take its place."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import sqlalchemy as sa

from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.store import Store
from rareswitch.campaigns.store.store import unavailable

# How long a server may need to notice that the process of the last learner is dead, in seconds.
NOTICED = 5.0


@contextmanager
def learner_lock(store: Store, campaign: str) -> Iterator[None]:
    """Hold the lock of a campaign's learner, which the system takes back from a dead process."""
    store.check_writable()
    lock = _lock_of_file if store.is_sqlite else _lock_of_server
    with lock(store, campaign):
        yield


@contextmanager
def _lock_of_file(store: Store, campaign: str) -> Iterator[None]:
    assert store.path is not None
    # Two paths to one file, such as symbolic links, share one lock.
    path = f"{store.path.resolve()}.{campaign}.learner"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unavailable(error, f"the lock file {path} cannot be opened") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise _taken(campaign) from None
    try:
        yield
    finally:
        os.close(file)


@contextmanager
def _lock_of_server(store: Store, campaign: str) -> Iterator[None]:
    key = sa.func.hashtext(f"learner of {campaign}")
    with store.plainly("opened"):
        connection = store.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    try:
        asked, end = sa.select(sa.func.pg_try_advisory_lock(key)), time.monotonic() + NOTICED
        with store.plainly("read"):
            while not connection.execute(asked).scalar():
                if time.monotonic() > end:
                    raise _taken(campaign)
                time.sleep(NOTICED / 50)
        try:
            yield
        finally:
            with suppress(sa.exc.DBAPIError):  # a server that is gone has no locks
                connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))
    finally:
        connection.close()


def _taken(campaign: str) -> NotAllowedError:
    return NotAllowedError(
        f"another process is the learner of {campaign}, such as `rareswitch campaign learn "
        "--follow`; it proposes policies that are due, and must end before another learns"
    )
