"""The endpoints of accounts: sign-in, sign-out, invitations, own account, all accounts."""

import ipaddress
import json
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from rareswitch.campaigns.access import Grant, SignInError
from rareswitch.campaigns.campaign import list_campaigns
from rareswitch.service.endpoint import ANYBODY, SIGNED_IN, Call, Endpoints
from rareswitch.service.pages.forms import Form, form_endpoint, go_to, page, view_of
from rareswitch.service.pages.looking import render_problem
from rareswitch.service.pages.people import (
    account_page,
    accounts_page,
    invitation_page,
    sign_in_page,
)
from rareswitch.service.problems import Problem
from rareswitch.service.signing import person_of

entering = Endpoints(pages=True)
NO_PASSKEY = (
    "You have no passkey. Add one before you sign decisions of studies that require a passkey."
)
STRANGERS = 4  # most concurrent password checks, so that a flood leaves threads for others
LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


# Signing in


@entering.get("/sign-in", action=ANYBODY)
def show_sign_in(call: Call) -> Response:
    """Show the form to sign in."""
    return page(call, sign_in_page(view_of(call), after=_inside(call.request.query_params)))


def _sign_in_again(call: Call, problem: Problem, form: Form) -> Response:
    view = view_of(call, problem)
    html = sign_in_page(view, name=form.get("name", ""), after=_inside(form))
    response = page(call, html, problem.status)
    response.headers.update(problem.headers)
    return response


@form_endpoint(entering, "/sign-in", action=ANYBODY, again=_sign_in_again)
def sign_in(call: Call, form: Form) -> Response:
    """Begin a session."""
    call.service.attempts.check(call.address)
    with call.service.few("sign-in", STRANGERS):
        return _begin(call, form.get("name", ""), form.get("password", ""), _inside(form))


def _begin(call: Call, name: str, password: str, path: str, message: str = "") -> Response:
    """Begin a session and redirect to a page; an earlier session of the browser ends."""
    previous = call.request.cookies.get(call.service.settings.cookie)
    session = call.service.access.sign_in(name, password, previous=previous)
    response = go_to(call, path, message)
    settings = call.service.settings
    response.set_cookie(
        settings.cookie, session.secret, httponly=True, samesite="strict",
        secure=settings.is_secure,
    )  # fmt: skip
    return response


def _inside(given: Any) -> str:
    """Return the path if it is a page of this service."""
    path = str(given.get("after", "/"))
    inside = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if inside else "/"


def _problem_again(call: Call, problem: Problem, form: Form) -> Response:
    return render_problem(call, problem)


@form_endpoint(entering, "/sign-out", action=SIGNED_IN, again=_problem_again)
def sign_out(call: Call, form: Form) -> Response:
    """End the session."""
    call.service.access.sign_out(call.session)
    response = go_to(call, "/sign-in", "You signed out.")
    settings = call.service.settings
    response.delete_cookie(
        settings.cookie, httponly=True, samesite="strict", secure=settings.is_secure
    )
    return response


@entering.get("/invitations/{secret}", action=ANYBODY)
def show_invitation(call: Call, secret: str) -> Response:
    """Show an invited person the form for a password."""
    try:
        found = call.service.access.invitation(secret)
    except SignInError as error:
        raise Problem(404, str(error), code="not-found") from None
    return page(call, invitation_page(view_of(call), name=found.name, secret=secret))


def _invitation_again(call: Call, problem: Problem, form: Form) -> Response:
    secret = call.request.path_params["secret"]
    try:
        found = call.service.access.invitation(secret)
    except SignInError as error:
        return render_problem(call, Problem(404, str(error), code="not-found"))
    html = invitation_page(view_of(call, problem), name=found.name, secret=secret)
    return page(call, html, problem.status)


@form_endpoint(entering, "/invitations/{secret}", action=ANYBODY, again=_invitation_again)
def accept_invitation(call: Call, form: Form) -> Response:
    """Set the password of an invited person, and sign them in."""
    password = _twice(form, "password")
    account = call.service.access.accept(call.request.path_params["secret"], password)
    return _begin(call, account.name, password, "/", f"Welcome, {account.name}.")


def _twice(form: Form, name: str) -> str:
    password = form.get(name, "")
    if password != form.get("again", ""):
        raise Problem(422, "the two passwords must be the same", code="invalid", field="again")
    return password


# Own account


@entering.get("/account", action=SIGNED_IN)
def show_account(call: Call) -> Response:
    """Show the viewer's own account."""
    return _account(call)


def _account(call: Call, problem: Problem | None = None, form: Form | None = None) -> Response:
    person_of(call)
    passkeys = call.service.access.passkeys(call.principal.account or "")
    view = view_of(call, problem, form)
    html = account_page(view, passkeys=passkeys, grants=call.principal.grants)
    return page(call, html, problem.status if problem else 200)


@form_endpoint(entering, "/account/password", action=SIGNED_IN, again=_account)
def change_password(call: Call, form: Form) -> Response:
    """Change the viewer's password and begin a new session; all others end."""
    name, account = person_of(call), call.principal.account or ""
    new = _twice(form, "new")
    try:
        call.service.access.change_password(account, form.get("old", ""), new)
    except SignInError as error:
        raise Problem(403, str(error), code="password") from None
    return _begin(call, name, new, "/account", "Your password is changed. Other sessions ended.")


def _options_problem(call: Call, problem: Problem, form: Form) -> Response:
    return problem.response


@form_endpoint(entering, "/account/passkeys/options", action=SIGNED_IN, again=_options_problem)
def tell_passkey_options(call: Call, form: Form) -> Response:
    """Return the options of a new passkey, after a check of the password."""
    person_of(call)
    access, account = call.service.access, call.principal.account or ""
    _check_password(call, form)
    origin = _origin(call)
    options = access.passkey_options(account, urlsplit(origin).hostname or "", origin)
    return Response(msgspec.json.encode(options), media_type="application/json")


def _check_password(call: Call, form: Form) -> None:
    """Raise unless the form has the password: a stranger may use an open session."""
    account = call.principal.account or ""
    if not call.service.access.check_password(account, form.get("password", "")):
        raise Problem(403, "the password is not that of your account", code="password")


def _origin(call: Call) -> str:
    """Return the address of the page: the public address, or another name of this machine."""
    public = urlsplit(call.service.settings.public_url)
    told = urlsplit(call.request.headers.get("origin", ""))
    local = public.hostname in LOOPBACK and told.hostname in LOOPBACK
    found = told if local and told.scheme else public
    try:
        ipaddress.ip_address(found.hostname or "")
    except ValueError:
        return f"{found.scheme}://{found.netloc}"
    name = f"{found.scheme}://localhost:{found.port}" if local else "the name of its host"
    raise Problem(
        422, f"passkeys belong to a host name, not to {found.hostname}: open {name}", code="origin"
    )


@form_endpoint(entering, "/account/passkeys", action=SIGNED_IN, again=_account)
def change_passkeys(call: Call, form: Form) -> Response:
    """Add a passkey of an authenticator, or remove a passkey."""
    person_of(call)
    access, account = call.service.access, call.principal.account or ""
    if form.get("remove"):
        _check_password(call, form)
        access.remove_passkey(account, form["remove"], by=call.principal)
        done = "The passkey is removed. Its signatures stay valid."
        return go_to(call, "/account", done if access.passkeys(account) else f"{done} {NO_PASSKEY}")
    try:
        answer = json.loads(form.get("answer", ""))
    except ValueError:
        raise Problem(422, "answer must be the browser's passkey answer", code="invalid") from None
    made = access.add_passkey(account, answer, label=form.get("label", ""))
    return go_to(call, "/account", f"The passkey {made.label} is added. It can sign decisions.")


# All accounts


@entering.get("/accounts", action="accounts")
def show_accounts(call: Call) -> Response:
    """Show all accounts, tokens and changes of access."""
    return _accounts(call)


def _accounts(
    call: Call,
    problem: Problem | None = None,
    form: Form | None = None,
    secret: dict[str, str] | None = None,
) -> Response:
    names = list_campaigns(call.service.store)
    view = view_of(call, problem, form)
    html = accounts_page(view, call.service.access, campaigns=names, secret=secret)
    return page(call, html, problem.status if problem else 200)


def _link(call: Call, kind: str, secret: str) -> Response:
    """Show a link once, without a redirect, so that it is stored nowhere."""
    address = f"{call.service.settings.public_url.rstrip('/')}/invitations/{secret}"
    return _accounts(call, secret={"kind": kind, "value": address})


def _grant(form: Form) -> Grant:
    return Grant(form.get("campaign", ""), form.get("role", ""), form.get("site", "").strip())


@form_endpoint(entering, "/accounts/invite", action="accounts", again=_accounts)
def invite_person(call: Call, form: Form) -> Response:
    """Invite a person, and show the link."""
    name = form.get("name", "")
    secret = call.service.access.invite(name, [_grant(form)], by=call.principal)
    return _link(call, f"Invitation for {name}", secret)


@form_endpoint(entering, "/accounts/reset", action="accounts", again=_accounts)
def reset_password(call: Call, form: Form) -> Response:
    """Show a link that sets a new password."""
    access, account = call.service.access, form.get("account", "")
    secret = access.reset_password(account, by=call.principal)
    return _link(call, f"New password for {access.account(account).name}", secret)


@form_endpoint(entering, "/accounts/grant", action="accounts", again=_accounts)
def give_role(call: Call, form: Form) -> Response:
    """Give a role to a person."""
    found = call.service.access.grant(form.get("account", ""), _grant(form), by=call.principal)
    return go_to(call, "/accounts", f"{found.name} is now {_grant(form)}.")


@form_endpoint(entering, "/accounts/withdraw", action="accounts", again=_accounts)
def withdraw_role(call: Call, form: Form) -> Response:
    """Take a role from a person."""
    access, account = call.service.access, form.get("account", "")
    found = access.withdraw_grant(account, _grant(form), by=call.principal)
    return go_to(call, "/accounts", f"{found.name} is no longer {_grant(form)}.")


@form_endpoint(entering, "/accounts/disable", action="accounts", again=_accounts)
def disable_account(call: Call, form: Form) -> Response:
    """Disable an account."""
    found = call.service.access.disable(form.get("account", ""), by=call.principal)
    return go_to(call, "/accounts", f"The account of {found.name} is disabled.")


@form_endpoint(entering, "/accounts/enable", action="accounts", again=_accounts)
def enable_account(call: Call, form: Form) -> Response:
    """Enable an account again."""
    found = call.service.access.enable(form.get("account", ""), by=call.principal)
    return go_to(call, "/accounts", f"The account of {found.name} is enabled.")


@form_endpoint(entering, "/accounts/token", action="accounts", again=_accounts)
def make_token(call: Call, form: Form) -> Response:
    """Issue a token, and show it once."""
    days = form.get("days", "90")
    if not days.isdecimal():
        raise Problem(422, "days must be a whole number", code="invalid", field="days")
    label = form.get("label", "")
    _, secret = call.service.access.issue_token(
        label, [_grant(form)], by=call.principal, days=int(days[:6])
    )
    return _accounts(call, secret={"kind": f"Token {label}", "value": secret})


@form_endpoint(entering, "/accounts/revoke", action="accounts", again=_accounts)
def revoke_token(call: Call, form: Form) -> Response:
    """Revoke a token."""
    found = call.service.access.revoke_token(form.get("token", ""), by=call.principal)
    return go_to(call, "/accounts", f"The token {found.label} is revoked.")
