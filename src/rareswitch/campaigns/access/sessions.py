"""Signing in: checks of passwords, and sessions."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.access import passwords
from rareswitch.campaigns.access.accounts import (
    LOCK,
    Account,
    Accounts,
    end_sessions,
    found_account,
    found_row,
    key_of,
    person_of,
    set_account,
)
from rareswitch.campaigns.access.attempts import (
    FREE,
    begin_attempt,
    end_attempts,
    signed_in_attempts,
)
from rareswitch.campaigns.access.cache import Known
from rareswitch.campaigns.access.errors import SignInError
from rareswitch.campaigns.access.roles import NOBODY, Principal
from rareswitch.campaigns.access.secret_texts import (
    SESSION,
    SecretText,
    csrf_of,
    new_secret,
    read_secret,
    same_csrf,
)
from rareswitch.campaigns.access.tables import sessions
from rareswitch.campaigns.errors import UnavailableError

IDLE = 3600.0  # seconds without a request after which a session ends
LONGEST = 12 * 3600.0  # seconds after which every session ends
TOUCHED = 60.0  # seconds between two updates of a session's last use
_WRONG = "name or password is wrong"


@dataclass(frozen=True)
class Session:
    """A signed-in person. `secret` belongs in a cookie, and `csrf` in each form."""

    secret: str = field(repr=False)
    csrf: str = field(repr=False)
    account: str
    principal: Principal

    @property
    def name(self) -> str:
        """The person's name."""
        return self.principal.name

    def has_csrf(self, given: Any) -> bool:
        """Return whether a text is the CSRF token of the session."""
        return same_csrf(self.secret, given)


class Sessions(Accounts):
    """The passwords and sessions of a store's accounts."""

    def sign_in(self, name: str, password: str, *, previous: str | None = None) -> Session:
        """Begin a session, or raise SignInError or TooManyError.

        The session with the secret `previous` ends, to prevent session fixation.
        """
        text, secret = new_secret(SESSION)
        old = read_secret(SESSION, previous)

        def begin(connection: Connection, row: Any) -> None:
            now = self.clock()
            ended = _is_over(now)
            if old is not None:
                ended = sa.or_(ended, sessions.c.digest == old.digest)
            connection.execute(sessions.delete().where(ended))
            made = {"id": secret.id, "digest": secret.digest, "account": row.account}
            connection.execute(sessions.insert().values(**made, created=now, seen=now))
            found.append(person_of(found_account(connection, row.account)))
            self._log(connection, found[0], "signed-in", row.name)

        found: list[Principal] = []
        row = self._checked(name, password, begin)
        if row is None:
            raise SignInError(_WRONG)
        return Session(text, csrf_of(text), row.account, found[0])

    def session(self, secret: str) -> Session | None:
        """Return the session of a secret, or None if it is unknown or has ended."""
        principal = self.principal_of_session(secret)
        if principal is None or principal.account is None:
            return None
        return Session(secret, csrf_of(secret), principal.account, principal)

    def principal_of_session(self, secret: str, *, used: bool = True) -> Principal | None:
        """Return the person of a session with their present roles.

        With `used` false, the call does not prolong the session.
        """
        given = read_secret(SESSION, secret)
        if given is None:
            return None
        known = self._cache.get(given.digest, lambda: self._session_principal(given, used=used))
        return known.principal if known is not None and self.clock() < known.ends else None

    def sign_out(self, secret: str) -> None:
        """End a session; a session that has ended stays ended."""
        given = read_secret(SESSION, secret)
        if given is None:
            return
        with self.changing() as connection:
            row = connection.execute(sa.select(sessions).where(sessions.c.id == given.id)).first()
            if row is not None and given.matches(row.digest):
                connection.execute(sessions.delete().where(sessions.c.id == given.id))
                found = found_account(connection, row.account)
                self._log(connection, person_of(found), "signed-out", found.name)

    def check_password(self, account: Account | str, password: str) -> bool:
        """Return whether a password is that of an enabled account; may raise TooManyError.

        Wrong passwords of signed-in people are counted separately, so a stranger who guesses
        passwords cannot prevent a person from signing.
        The call writes to the store: make it before a transaction on a campaign, not within.
        """
        return self._checked(account, password, signed_in=True) is not None

    def change_password(self, account: Account | str, old: str, new: str) -> None:
        """Set a new password; all sessions of the account end."""
        row = self._checked(account, old, signed_in=True)
        if row is None:
            raise SignInError("the present password is wrong")
        hashed = passwords.password_hash(passwords.checked_password(new, name=row.name))
        with self.changing() as connection:
            if not _same_account(row, found_row(connection, row.account)):
                raise SignInError("the password was changed meanwhile; sign in again")
            set_account(connection, row.account, password=hashed)
            end_sessions(connection, row.account)
            found = found_account(connection, row.account)
            self._log(connection, person_of(found), "password-changed", found.name)

    def _checked(
        self,
        account: Account | str,
        password: str,
        then: Callable[[Connection, Any], None] = lambda *_: None,
        *,
        signed_in: bool = False,
    ) -> Any | None:
        """Call `then` and return the account's row if it is enabled and the password is right.

        The store is not locked while the password is hashed. Unknown names cost the same work.
        """
        key = key_of(account)
        counted = signed_in_attempts(key) if signed_in else key
        with self.store.changing(LOCK) as connection:
            failures = begin_attempt(connection, counted, self.clock())
            row = found_row(connection, key)
            if row is not None and failures == FREE + 1:
                self._log(connection, NOBODY, "passwords-failed", row.name, attempts=FREE)
        right = passwords.password_matches(None if row is None else row.password, password)
        if row is None or row.disabled or not right:
            return None
        renewed = row.password
        if passwords.is_outdated(row.password):
            renewed = passwords.password_hash(password)
        with self.changing() as connection:
            if _same_account(row, found_row(connection, key)):
                end_attempts(connection, counted)
                set_account(connection, key, password=renewed)
                then(connection, row)
                return found_row(connection, key)
        # The hash was renewed or changed meanwhile.
        return self._checked(account, password, then, signed_in=signed_in)

    def _session_principal(self, given: SecretText, *, used: bool) -> Known | None:
        with self.store.reading() as connection:
            row = connection.execute(sa.select(sessions).where(sessions.c.id == given.id)).first()
            if row is None or not given.matches(row.digest):
                return None
            found = found_account(connection, row.account)
        now, ends = self.clock(), min(row.seen + IDLE, row.created + LONGEST)
        if now >= ends or found.disabled:
            return None
        if used and now >= row.seen + TOUCHED:
            ends = min(now + IDLE, row.created + LONGEST)
            self._touch(given.id, now)
        return Known(person_of(found), ends)

    def _touch(self, session: str, now: float) -> None:
        """Store the time of a session's last use."""
        change = sessions.update().where(sessions.c.id == session).values(seen=now)
        # A full disk must not prevent reading.
        with suppress(UnavailableError), self.store.changing("rareswitch-sessions") as connection:
            connection.execute(change)


def _same_account(before: Any, now: Any | None) -> bool:
    """Return whether an account has kept its password and is enabled."""
    if now is None or now.disabled:
        return False
    return passwords.same_hash(before.password, now.password)


def _is_over(now: float) -> sa.ColumnElement[bool]:
    return sa.or_(sessions.c.seen <= now - IDLE, sessions.c.created <= now - LONGEST)
