"""Tokens: secrets for devices and programs, with their own roles, expiry and revocation."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.access.accounts import (
    Account,
    Accounts,
    acting,
    found_account,
    found_row,
    grants_of,
    kept_grants,
)
from rareswitch.campaigns.access.cache import Known
from rareswitch.campaigns.access.errors import ForbiddenError, UnknownError
from rareswitch.campaigns.access.log import time_text
from rareswitch.campaigns.access.roles import (
    EVERYWHERE,
    PERSONAL,
    Grant,
    Principal,
    checked_grants,
)
from rareswitch.campaigns.access.secret_texts import TOKEN, SecretText, new_secret, read_secret
from rareswitch.campaigns.access.tables import tokens
from rareswitch.campaigns.rulebook.names import MOST_CHARACTERS, checked_text
from rareswitch.campaigns.rulebook.rows import canonical
from rareswitch.support.arguments import real, short_repr

DAY = 86_400.0
MOST_DAYS = 3650


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token without its secret. `account` is the person for whom it acts, if any.

    `state` is valid, expired or revoked.
    """

    id: str
    label: str
    account: str | None
    grants: tuple[Grant, ...]
    issuer: str
    created: str
    expires: str
    revoked: str | None
    state: str

    @property
    def plain(self) -> dict[str, Any]:
        """The token as a JSON object."""
        return vars(self) | {"grants": [grant.plain for grant in self.grants]}


class Tokens(Accounts):
    """The tokens of a store."""

    def issue_token(
        self,
        label: str,
        grants: Iterable[Grant],
        *,
        by: Principal | str,
        account: Account | str | None = None,
        days: float = 90,
    ) -> tuple[Token, str]:
        """Issue a token; return it and its secret, which is shown only once.

        An administrator may give any role. Everybody else may give their own roles, for their own
        account. A token with an `account` acts for it, with at most its present roles. Only such a
        token can have the roles approver and administrator.
        """
        label = checked_text("label", label, most=MOST_CHARACTERS).strip()
        given, seconds = checked_grants(grants), DAY * real("days", days, above=0, most=MOST_DAYS)
        if not given:
            raise ValueError("grants must not be empty: a token without a role allows nothing")
        text, secret = new_secret(TOKEN)
        with self.changing() as connection:
            person = acting(connection, by)
            owner = _owner(connection, person, account)
            _check_grants(connection, person, owner, given)
            now = self.clock()
            row = {
                "id": secret.id, "digest": secret.digest, "label": label, "account": owner,
                "grants": canonical([grant.plain for grant in given]), "issuer": person.name,
                "created": now, "expires": now + seconds, "revoked": None,
            }  # fmt: skip
            connection.execute(tokens.insert().values(**row))
            plain = {"label": label, "account": owner, "grants": [one.plain for one in given]}
            self._log(connection, person, "token-issued", secret.id, **plain)
            return self._token(_row(connection, secret.id)), text

    def principal_of_token(self, secret: str) -> Principal | None:
        """Return the principal of a token; None if it is unknown, expired or revoked."""
        given = read_secret(TOKEN, secret)
        if given is None:
            return None
        known = self._cache.get(given.digest, lambda: self._token_principal(given))
        return known.principal if known is not None and self.clock() < known.ends else None

    def cached_principal(self, secret: str) -> Principal | None:
        """Return the principal of a token that was used within the last second; never block."""
        given = read_secret(TOKEN, secret)
        known = None if given is None else self._cache.peek(given.digest)
        return known.principal if known is not None and self.clock() < known.ends else None

    def tokens(self, account: Account | str | None = None) -> list[Token]:
        """Return all tokens, or the tokens of an account, the oldest first."""
        asked = sa.select(tokens).order_by(tokens.c.created, tokens.c.id)
        with self.store.reading() as connection:
            if account is not None:
                key = found_account(connection, account).account
                asked = asked.where(tokens.c.account == key)
            return [self._token(row) for row in connection.execute(asked).all()]

    def revoke_token(self, id: str, by: Principal | str) -> Token:
        """Revoke a token permanently; an administrator may revoke any, others only their own."""
        with self.changing() as connection:
            person = acting(connection, by)
            row = _row(connection, id)
            mine = person.account is not None and row.account == person.account
            if not mine and not person.may("accounts", EVERYWHERE):
                raise ForbiddenError("a token is revoked by its owner or by an administrator")
            if row.revoked is None:
                change = tokens.update().where(tokens.c.id == row.id)
                connection.execute(change.values(revoked=self.clock()))
                self._log(connection, person, "token-revoked", row.id, label=row.label)
            return self._token(_row(connection, row.id))

    def _token_principal(self, given: SecretText) -> Known | None:
        with self.store.reading() as connection:
            row = connection.execute(sa.select(tokens).where(tokens.c.id == given.id)).first()
            if row is None or not given.matches(row.digest):
                return None
            if row.revoked is not None or self.clock() >= row.expires:
                return None
            grants = _grants(row)
            if row.account is None:
                return Known(Principal(f"token {row.label}", None, grants, "token"), row.expires)
            owner = found_row(connection, row.account)
            if owner is None or owner.disabled:
                return None
            own = grants_of(connection, row.account)
        kept = kept_grants(grants, own)
        return Known(Principal(owner.name, row.account, kept, "token"), row.expires)

    def _token(self, row: Any) -> Token:
        ended = self.clock() >= row.expires
        return Token(
            id=row.id,
            label=row.label,
            account=row.account,
            grants=_grants(row),
            issuer=row.issuer,
            created=time_text(row.created),
            expires=time_text(row.expires),
            revoked=None if row.revoked is None else time_text(row.revoked),
            state="revoked" if row.revoked is not None else "expired" if ended else "valid",
        )


def _grants(row: Any) -> tuple[Grant, ...]:
    return checked_grants(map(Grant.read, json.loads(row.grants)))


def _row(connection: Connection, id: str) -> Any:
    row = None
    if isinstance(id, str) and id.isascii() and id.isalnum():
        row = connection.execute(sa.select(tokens).where(tokens.c.id == id)).first()
    if row is None:
        raise UnknownError(f"id must be that of a token; got {short_repr(id)}")
    return row


def _owner(connection: Connection, person: Principal, account: Account | str | None) -> str | None:
    """Return the account for which a token acts."""
    if account is None:
        if person.may("accounts", EVERYWHERE):
            return None
        account = person.account
        if account is None:
            raise ForbiddenError("only a person can issue a token")
    if person.via == "token":
        raise ForbiddenError("a token cannot issue a token for a person; sign in instead")
    owner = found_account(connection, account)
    if owner.account != person.account and person.via != "machine":
        raise ForbiddenError("account must be your own; a token cannot act for another person")
    if owner.disabled or not owner.accepted:
        raise ForbiddenError(f"account must be one that can sign in; {owner.name} cannot")
    return owner.account


def _check_grants(
    connection: Connection, person: Principal, owner: str | None, given: tuple[Grant, ...]
) -> None:
    """Raise ForbiddenError for a role that a token of this issuer and owner cannot have."""
    own = () if owner is None else grants_of(connection, owner)
    for grant in given:
        if not person.may_give(grant):
            raise ForbiddenError(f"grants must be your own; you do not have {grant}")
        if owner is None and grant.role in PERSONAL:
            raise ForbiddenError(
                f"a token with the role {grant.role} needs an account: a person answers for it"
            )
        if owner is not None and not any(one.covers(grant) for one in own):
            raise ForbiddenError(f"grants must be those of the account; it is not {grant}")
