"""Invitations: a link to set the password of an account, once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.access import passwords
from rareswitch.campaigns.access.accounts import (
    Account,
    Accounts,
    add_grants,
    administrator,
    end_sessions,
    end_tokens,
    found_account,
    found_row,
    new_account,
    person_of,
    set_account,
)
from rareswitch.campaigns.access.attempts import end_attempts, signed_in_attempts
from rareswitch.campaigns.access.errors import SignInError
from rareswitch.campaigns.access.log import time_text
from rareswitch.campaigns.access.roles import Grant, Principal, checked_grants
from rareswitch.campaigns.access.secret_texts import INVITATION, new_secret, read_secret
from rareswitch.campaigns.access.tables import invitations
from rareswitch.campaigns.errors import ConflictError, NotAllowedError
from rareswitch.campaigns.rulebook.names import checked_person
from rareswitch.support.arguments import real

_SPENT = "the invitation is not valid: it was used, replaced or has expired; ask for a new one"


@dataclass(frozen=True)
class Invitation:
    """An offer to set the password of an account, once."""

    account: str
    name: str
    grants: tuple[Grant, ...]
    expires: str


class Invitations(Accounts):
    """The invitations of a store, and the passwords that they set."""

    def invite(
        self, name: str, grants: Iterable[Grant], *, by: Principal | str, hours: float = 72
    ) -> str:
        """Invite a person and give roles; return the secret of the link, which is shown once.

        A person who has not accepted yet gets a new link; the old link stops working.
        """
        name, given, seconds = checked_person("name", name), checked_grants(grants), _seconds(hours)
        with self.changing() as connection:
            person = administrator(connection, by)
            if found_row(connection, name) is None:
                new_account(connection, name, self.clock())
            found = found_account(connection, name)
            if found.accepted:
                raise ConflictError(
                    f"{found.name} has an account already: grant a role, or reset the password"
                )
            _check_enabled(found)
            checked_grants((*found.grants, *given))
            added = [grant for grant in given if grant not in found.grants]
            add_grants(connection, found.account, added)
            self._log(connection, person, "invited", found.name, grants=[g.plain for g in given])
            return self._offer(connection, found.account, seconds)

    def reset_password(
        self, account: Account | str, *, by: Principal | str, hours: float = 72
    ) -> str:
        """Return the secret of a link to set a new password, once.

        The old password works until the link is used.
        """
        seconds = _seconds(hours)
        with self.changing() as connection:
            person = administrator(connection, by)
            found = found_account(connection, account)
            _check_enabled(found)
            self._log(connection, person, "reset-offered", found.name)
            return self._offer(connection, found.account, seconds)

    def invitation(self, secret: str) -> Invitation:
        """Return a valid invitation, or raise SignInError."""
        with self.store.reading() as connection:
            row = self._invited(connection, secret)
            found = found_account(connection, row.account)
            return Invitation(found.account, found.name, found.grants, time_text(row.expires))

    def accept(self, secret: str, password: str) -> Account:
        """Set the password of the invited person; the invitation is used up, and sessions end.

        The old password may have been stolen, so the person's tokens are revoked too.
        """
        name = self.invitation(secret).name
        hashed = passwords.password_hash(passwords.checked_password(password, name=name))
        with self.changing() as connection:
            row = self._invited(connection, secret)  # it may have been accepted meanwhile
            connection.execute(invitations.delete().where(invitations.c.account == row.account))
            set_account(connection, row.account, password=hashed)
            end_sessions(connection, row.account)
            end_tokens(connection, row.account, self.clock())
            end_attempts(connection, row.account)
            end_attempts(connection, signed_in_attempts(row.account))
            found = found_account(connection, row.account)
            self._log(connection, person_of(found), "accepted", found.name)
            return found

    def _invited(self, connection: Connection, secret: str) -> Any:
        given = read_secret(INVITATION, secret)
        row = None
        if given is not None:
            asked = sa.select(invitations).where(invitations.c.id == given.id)
            row = connection.execute(asked).first()
        if row is None or given is None or not given.matches(row.digest):
            raise SignInError(_SPENT)
        if self.clock() >= row.expires:
            raise SignInError(_SPENT)
        return row

    def _offer(self, connection: Connection, account: str, seconds: float) -> str:
        """Replace the invitations of an account by a new invitation; return its secret."""
        connection.execute(invitations.delete().where(invitations.c.account == account))
        text, secret = new_secret(INVITATION)
        connection.execute(
            invitations.insert().values(
                id=secret.id,
                digest=secret.digest,
                account=account,
                expires=self.clock() + seconds,
            )
        )
        return text


def _check_enabled(account: Account) -> None:
    if account.disabled:
        raise NotAllowedError(f"the account of {account.name} is disabled; enable it first")


def _seconds(hours: float) -> float:
    return 3600.0 * real("hours", hours, above=0, most=24 * 365)
