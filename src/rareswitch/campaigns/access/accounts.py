"""Accounts: one for each person, with roles, and the rules for changing them."""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.access.cache import cache_of
from rareswitch.campaigns.access.errors import ForbiddenError, UnknownError
from rareswitch.campaigns.access.log import (
    LogEntry,
    append_entry,
    entries_after,
    latest_entries,
    time_text,
)
from rareswitch.campaigns.access.roles import (
    EVERYWHERE,
    Grant,
    Principal,
    checked_grants,
    operator,
)
from rareswitch.campaigns.access.tables import (
    account_grants,
    accounts,
    invitations,
    sessions,
    tokens,
)
from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.rulebook.names import MOST_CHARACTERS, checked_person, person_key
from rareswitch.campaigns.store import Store
from rareswitch.support.arguments import short_repr, whole

LOCK = "rareswitch-access"  # one change of access at a time
ADMINISTRATOR = Grant(EVERYWHERE, "administrator")
RESERVED = ("nobody", "operator")  # names in the log of callers without an account
MOST_IN_PAGE = 1000


@dataclass(frozen=True, kw_only=True)
class Account:
    """A person who may sign in. `account` is the key of the name; all its spellings share it.

    `accepted` is whether the person has accepted the invitation and has a password.
    """

    account: str
    name: str
    grants: tuple[Grant, ...]
    accepted: bool
    disabled: bool
    created: str

    @property
    def plain(self) -> dict[str, Any]:
        """The account as a JSON object."""
        return vars(self) | {"grants": [grant.plain for grant in self.grants]}


def key_of(account: Account | str) -> str:
    """Return the key of an account, given as an Account, a key or a spelling of its name."""
    if isinstance(account, Account):
        return account.account
    if not isinstance(account, str):
        raise TypeError(f"account must be a name; got {short_repr(account)}")
    # A longer text names nobody; skip the work.
    return person_key(account) if len(account) <= 3 * MOST_CHARACTERS else ""


class Accounts:
    """The accounts of a store. `clock` returns seconds since 1970."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self.store, self.clock = store, clock
        self._cache = cache_of(store)

    @property
    def is_new(self) -> bool:
        """Whether nobody has accepted an invitation yet."""
        with self.store.reading() as connection:
            return _is_new(connection)

    def accounts(self) -> list[Account]:
        """Return all accounts, sorted by key."""
        with self.store.reading() as connection:
            asked = sa.select(accounts).order_by(accounts.c.account)
            return [_account(connection, row) for row in connection.execute(asked).all()]

    def account(self, account: Account | str) -> Account:
        """Return the present state of an account."""
        with self.store.reading() as connection:
            return found_account(connection, account)

    def grant(self, account: Account | str, grant: Grant, by: Principal | str) -> Account:
        """Give an account a role; this call is idempotent."""
        with self.changing() as connection:
            person = administrator(connection, by)
            found = found_account(connection, account)
            if grant not in found.grants:
                checked_grants((*found.grants, grant))
                add_grants(connection, found.account, [grant])
                self._log(connection, person, "granted", found.name, grant=grant.plain)
            return found_account(connection, account)

    def withdraw_grant(self, account: Account | str, grant: Grant, by: Principal | str) -> Account:
        """Remove a role from an account and from its tokens."""
        with self.changing() as connection:
            person = administrator(connection, by)
            found = found_account(connection, account)
            if grant not in found.grants:
                raise NotAllowedError(f"{found.name} is not {grant}; no role was withdrawn")
            columns = account_grants.c
            connection.execute(
                account_grants.delete().where(
                    columns.account == found.account,
                    columns.campaign == grant.campaign,
                    columns.role == grant.role,
                    columns.site == grant.site,
                )
            )
            _check_administrators(connection, found)
            self._log(connection, person, "grant-withdrawn", found.name, grant=grant.plain)
            return found_account(connection, account)

    def disable(self, account: Account | str, by: Principal | str) -> Account:
        """Disable an account: its sessions end, and its tokens and invitations stop working."""
        with self.changing() as connection:
            person = administrator(connection, by)
            found = found_account(connection, account)
            if not found.disabled:
                set_account(connection, found.account, disabled=True)
                _check_administrators(connection, found)
                end_sessions(connection, found.account)
                connection.execute(
                    invitations.delete().where(invitations.c.account == found.account)
                )
                self._log(connection, person, "disabled", found.name)
            return found_account(connection, account)

    def enable(self, account: Account | str, by: Principal | str) -> Account:
        """Enable a disabled account; password, roles, tokens and passkeys work again."""
        with self.changing() as connection:
            person = administrator(connection, by)
            found = found_account(connection, account)
            if found.disabled:
                set_account(connection, found.account, disabled=False)
                self._log(connection, person, "enabled", found.name)
            return found_account(connection, account)

    def log(self, after: int = 0, limit: int = 100) -> list[LogEntry]:
        """Return changes of access with numbers above `after`, in order."""
        after = whole("after", after, least=0)
        limit = whole("limit", limit, least=1, most=MOST_IN_PAGE)
        with self.store.reading() as connection:
            return entries_after(connection, after, limit)

    def latest_log(self, limit: int = 100) -> list[LogEntry]:
        """Return the last changes of access, the newest first."""
        limit = whole("limit", limit, least=1, most=MOST_IN_PAGE)
        with self.store.reading() as connection:
            return latest_entries(connection, limit)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Yield a connection for one change of access; clear the cache afterwards."""
        try:
            with self.store.changing(LOCK) as connection:
                yield connection
        finally:
            self._cache.clear()

    def _log(
        self, connection: Connection, by: Principal, action: str, about: str, **details: Any
    ) -> None:
        append_entry(connection, self.clock(), by, action, about, details)


def new_account(connection: Connection, name: str, now: float) -> str:
    """Insert the account of a person without a password; return its key."""
    name = checked_person("name", name)
    if (key := person_key(name)) in RESERVED:
        raise ValueError(f"name must be that of a person; got {short_repr(name)}")
    connection.execute(
        accounts.insert().values(
            account=key,
            name=name,
            handle=secrets.token_hex(32),
            password=None,
            disabled=False,
            created=now,
        )
    )
    return key


def found_row(connection: Connection, account: Account | str) -> Any | None:
    """Return the row of an account, including its password's hash."""
    asked = sa.select(accounts).where(accounts.c.account == key_of(account))
    return connection.execute(asked).first()


def found_account(connection: Connection, account: Account | str) -> Account:
    """Return an account, or raise UnknownError."""
    row = found_row(connection, account)
    if row is None:
        raise UnknownError(f"account must exist in the store; got {short_repr(account)}")
    return _account(connection, row)


def grants_of(connection: Connection, account: str) -> tuple[Grant, ...]:
    columns = account_grants.c
    asked = sa.select(columns.campaign, columns.role, columns.site)
    rows = connection.execute(asked.where(columns.account == account))
    return checked_grants(Grant(*row) for row in rows)


def add_grants(connection: Connection, account: str, grants: Iterable[Grant]) -> None:
    rows = [
        {"account": account, "campaign": one.campaign, "role": one.role, "site": one.site}
        for one in grants
    ]
    if rows:
        connection.execute(account_grants.insert(), rows)


def set_account(connection: Connection, account: str, **values: Any) -> None:
    connection.execute(accounts.update().where(accounts.c.account == account).values(**values))


def end_sessions(connection: Connection, account: str) -> None:
    connection.execute(sessions.delete().where(sessions.c.account == account))


def end_tokens(connection: Connection, account: str, now: float) -> None:
    """Revoke the tokens that act for a person."""
    mine = (tokens.c.account == account, tokens.c.revoked.is_(None))
    connection.execute(tokens.update().where(*mine).values(revoked=now))


def person_of(account: Account) -> Principal:
    """Return the person who is signed in to an account."""
    return Principal(account.name, account.account, account.grants, "session")


def kept_grants(given: Iterable[Grant], own: Iterable[Grant]) -> tuple[Grant, ...]:
    """Return the given grants that the own grants still cover."""
    own = tuple(own)
    return tuple(grant for grant in given if any(one.covers(grant) for one in own))


def acting(connection: Connection, by: Principal | str) -> Principal:
    """Return the acting principal with its present roles.

    `by` is a principal or the name of an account. While nobody can sign in yet, any name is the
    machine's operator.
    """
    if isinstance(by, Principal) and by.account is None:
        return by
    account = by.account if isinstance(by, Principal) else by
    row = found_row(connection, account or "")
    if row is None or row.password is None or row.disabled:
        if isinstance(by, str) and _is_new(connection):
            return operator(by)
        raise ForbiddenError("by must be a person whose account can sign in")
    own = grants_of(connection, row.account)
    if isinstance(by, str):
        return Principal(row.name, row.account, own, "session")
    return replace(by, grants=kept_grants(by.grants, own))


def administrator(connection: Connection, by: Principal | str) -> Principal:
    """Return the acting principal; raise if it may not change accounts."""
    person = acting(connection, by)
    if not person.may("accounts", EVERYWHERE):
        raise ForbiddenError(
            "accounts are changed by an administrator of all campaigns; ask one of them"
        )
    return person


def _is_new(connection: Connection) -> bool:
    asked = sa.select(accounts.c.account).where(accounts.c.password.is_not(None)).limit(1)
    return connection.execute(asked).first() is None


def _account(connection: Connection, row: Any) -> Account:
    return Account(
        account=row.account,
        name=row.name,
        grants=grants_of(connection, row.account),
        accepted=row.password is not None,
        disabled=bool(row.disabled),
        created=time_text(row.created),
    )


def _check_administrators(connection: Connection, before: Account) -> None:
    """Raise NotAllowedError if the change just made leaves no administrator who can sign in.

    `before` is the account before the change.
    """
    if ADMINISTRATOR not in before.grants or before.disabled or not before.accepted:
        return
    columns = account_grants.c
    asked = (
        sa.select(columns.account)
        .join(accounts, accounts.c.account == columns.account)
        .where(
            columns.campaign == EVERYWHERE,
            columns.role == "administrator",
            accounts.c.password.is_not(None),
            accounts.c.disabled.is_(False),
        )
    )
    if connection.execute(asked.limit(1)).first() is None:
        raise NotAllowedError(
            f"{before.name} is the last administrator; make another person administrator first"
        )
