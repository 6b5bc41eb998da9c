"""Endpoints of accounts and tokens. A secret appears in one answer only."""

from typing import Annotated, Any

import msgspec

from rareswitch.campaigns.access import Grant, Token
from rareswitch.service.endpoint import SIGNED_IN, Call, Endpoints, Name, Page, Struct
from rareswitch.service.problems import Problem
from rareswitch.service.signing import person_of

people = Endpoints()
PlainTable = dict[str, Any]


class GrantBody(Struct):
    """A role in a campaign, or in all campaigns ("*"); the role site needs a site."""

    campaign: Name
    role: Name
    site: Annotated[str, msgspec.Meta(max_length=200)] = ""

    @property
    def grant(self) -> Grant:
        return Grant(self.campaign, self.role, self.site)


class NewToken(Struct):
    """A token: its label, its grants, and the days until it expires."""

    label: Name
    grants: Annotated[list[GrantBody], msgspec.Meta(min_length=1, max_length=100)]
    days: Annotated[float, msgspec.Meta(gt=0, le=3650)] = 90
    personal: bool = False  # it acts in your name


class NewAccount(Struct):
    """An account to invite."""

    name: Name
    grants: Annotated[list[GrantBody], msgspec.Meta(max_length=100)] = []


@people.get("/v1/me", action=SIGNED_IN)
def read_me(call: Call) -> PlainTable:
    """Return your name and your roles."""
    found = call.principal
    grants = [grant.plain for grant in found.grants]
    return {"name": found.name, "person": found.account is not None, "grants": grants}


@people.get("/v1/tokens", action=SIGNED_IN, answers={200: list[PlainTable]})
def read_tokens(call: Call) -> list[PlainTable]:
    """List tokens without secrets: all for an administrator, otherwise those in your name."""
    found = call.service.access.tokens()
    if not call.principal.may("accounts", "*"):
        found = [one for one in found if _is_mine(one, call)]
    return [one.plain for one in found]


def _is_mine(token: Token, call: Call) -> bool:
    """Return whether a token acts in the caller's name; its issuer does not matter."""
    return token.account is not None and token.account == call.principal.account


@people.post("/v1/tokens", action=SIGNED_IN, body=NewToken, answers={201: PlainTable})
def issue_token(body: NewToken, call: Call) -> PlainTable:
    """Issue a token with roles that you may give; its secret is in this answer only."""
    person_of(call)
    token, secret = call.service.access.issue_token(
        body.label,
        [one.grant for one in body.grants],
        by=call.principal,
        account=call.principal.account if body.personal else None,
        days=body.days,
    )
    return {**token.plain, "secret": secret}


@people.delete("/v1/tokens/{token_id}", action=SIGNED_IN, answers={204: None})
def revoke_token(token_id: str, call: Call) -> None:
    """Revoke your own token, or any token as an administrator."""
    access = call.service.access
    found = [one for one in access.tokens() if one.id == token_id]
    if not found or not (_is_mine(found[0], call) or call.principal.may("accounts", "*")):
        raise Problem(404, "you have no such token", code="not-found", field="token_id")
    access.revoke_token(token_id, by=call.principal)


@people.get("/v1/accounts", action="accounts", answers={200: list[PlainTable]})
def read_accounts(call: Call) -> list[PlainTable]:
    """List accounts with their roles."""
    return [one.plain for one in call.service.access.accounts()]


@people.post("/v1/accounts", action="accounts", body=NewAccount, answers={201: PlainTable})
def invite(body: NewAccount, call: Call) -> PlainTable:
    """Invite a person; the link appears in this answer only and works once."""
    grants = [one.grant for one in body.grants]
    secret = call.service.access.invite(body.name, grants, by=call.principal)
    return {"name": body.name, "link": _link(call, secret)}


@people.post("/v1/accounts/{account}/grants", action="accounts", body=GrantBody,
             answers={204: None})  # fmt: skip
def grant_role(account: str, body: GrantBody, call: Call) -> None:
    """Give a role to an account."""
    call.service.access.grant(account, body.grant, by=call.principal)


@people.post("/v1/accounts/{account}/withdrawn-grants", action="accounts", body=GrantBody,
             answers={204: None})  # fmt: skip
def withdraw_role(account: str, body: GrantBody, call: Call) -> None:
    """Take a role from an account."""
    call.service.access.withdraw_grant(account, body.grant, by=call.principal)


@people.delete("/v1/accounts/{account}", action="accounts", answers={204: None})
def disable_account(account: str, call: Call) -> None:
    """Disable an account; its sessions end and its tokens stop working."""
    call.service.access.disable(account, by=call.principal)


@people.post("/v1/accounts/{account}/enabling", action="accounts", answers={204: None})
def enable_account(account: str, call: Call) -> None:
    """Enable a disabled account."""
    call.service.access.enable(account, by=call.principal)


@people.post("/v1/accounts/{account}/reset", action="accounts", answers={201: PlainTable})
def reset_password(account: str, call: Call) -> PlainTable:
    """Return a link that sets a new password; it appears in this answer only."""
    secret = call.service.access.reset_password(account, by=call.principal)
    return {"name": account, "link": _link(call, secret)}


@people.get("/v1/access-log", action="accounts", query=Page, answers={200: list[PlainTable]})
def read_access_log(query: Page, call: Call) -> list[PlainTable]:
    """Return the access log, oldest entry first: who gave which role to whom, and when."""
    found = call.service.access.log(after=query.after, limit=query.limit)
    return [one.plain for one in found]


def _link(call: Call, secret: str) -> str:
    return f"{call.service.settings.public_url.rstrip('/')}/invitations/{secret}"
