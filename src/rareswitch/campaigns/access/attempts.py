"""Wrong passwords: each one makes the next attempt wait longer, up to a few minutes.

Attempts are counted in the store before a password is checked, so parallel attempts, a restart or
another process give no extra attempt. Names without an account are counted in the same way, so an
answer does not reveal whether a name has an account.
"""

import hashlib
import math

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.access.errors import TooManyError
from rareswitch.campaigns.access.tables import attempts

FREE = 5  # attempts without a wait
LONGEST = 300.0  # seconds; an attacker cannot lock a person out permanently
FORGOTTEN = 3600.0  # seconds after which the count restarts
_COUNT = sa.text(
    "INSERT INTO attempts (name_digest, failures, last, until) VALUES (:name, 1, :now, :now) "
    "ON CONFLICT (name_digest) DO UPDATE SET failures = :failures, last = :now, until = :until"
)


def wait_after(failures: int) -> float:
    """Return the seconds to wait after a number of wrong passwords.

    >>> [wait_after(n) for n in (1, 4, 5, 6, 7, 100)]
    [0.0, 0.0, 1.0, 2.0, 4.0, 300.0]
    """
    return 0.0 if failures < FREE else min(2.0 ** min(failures - FREE, 60), LONGEST)


def begin_attempt(connection: Connection, account: str, now: float) -> int:
    """Count an attempt as wrong until it succeeds; return the count.

    Raise TooManyError, and count nothing, while the account has to wait.
    """
    connection.execute(attempts.delete().where(attempts.c.last < now - FORGOTTEN))
    name = _digest(account)
    row = connection.execute(sa.select(attempts).where(attempts.c.name_digest == name)).first()
    left = 0.0 if row is None else row.until - now
    if 0 < left <= LONGEST:  # more is left only if the clock was set back
        seconds = math.ceil(left)
        raise TooManyError(
            f"too many wrong passwords; try again in {seconds} s", retry_after=seconds
        )
    failures = 1 if row is None else row.failures + 1
    until = now + wait_after(failures)
    connection.execute(_COUNT, {"name": name, "now": now, "failures": failures, "until": until})
    return failures


def signed_in_attempts(account: str) -> str:
    """Return the name that counts the attempts of a signed-in person."""
    return f"{account} signed in"  # no key of an account has a space


def end_attempts(connection: Connection, account: str) -> None:
    """Forget the wrong attempts of an account after a success."""
    connection.execute(attempts.delete().where(attempts.c.name_digest == _digest(account)))


def _digest(account: str) -> str:
    return hashlib.sha256(account.encode()).hexdigest()
