"""Pages about accounts: signing in, invitations, passwords and passkeys, roles and tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from rareswitch.campaigns.rulebook.signatures import Passkey, from_base64url
from rareswitch.service.pages.rendering import render
from rareswitch.service.pages.view import View

ROLES = {
    "administrator": "creates studies and accounts, amends, stops",
    "statistician": "reads everything, proposes policies and amendments",
    "approver": "signs for candidates and amendments, rolls back, stops",
    "site": "gets treatments and reports its own episodes; sees no returns",
    "monitor": "reads everything, rolls back, stops",
    "auditor": "reads everything, verifies and exports",
}


def accounts_page(
    view: View,
    access: Any,
    *,
    campaigns: Sequence[str] = (),
    secret: Mapping[str, str] | None = None,
) -> str:
    """Return accounts with their roles, tokens, and the forms that change them.

    `secret` has the new link or token under `kind` and `value`; it is shown once.
    """
    return render(
        "accounts.html",
        view,
        accounts=list(access.accounts()),
        passkeys_of=access.passkeys,
        fingerprint=fingerprint,
        tokens=list(access.tokens()),
        log=access.latest_log(),
        campaigns=list(campaigns),
        roles=ROLES,
        secret=secret,
    )


def account_page(view: View, *, passkeys: Sequence[Any] = (), grants: Sequence[Any] = ()) -> str:
    """Return the viewer's own account: roles, password and passkeys."""
    return render(
        "account.html",
        view,
        passkeys=list(passkeys),
        fingerprint=fingerprint,
        grants=list(grants),
        roles=ROLES,
    )


def fingerprint(one: Any) -> str:
    """Return the SHA-256 of the public key of an account's passkey, as the verifier prints it."""
    public = from_base64url(one.public) or b""
    key = Passkey(one.account, 0, one.credential, one.algorithm, public, one.relying_party)
    return key.fingerprint


def sign_in_page(view: View, *, name: str = "", after: str = "/") -> str:
    """Return the sign-in form; `after` is the next page."""
    return render("sign_in.html", view, name=name, after=after)


def invitation_page(view: View, *, name: str, secret: str) -> str:
    """Return the form in which an invited person chooses a password."""
    return render("invitation.html", view, name=name, secret=secret)


def problem_page(view: View, *, status: int, title: str, detail: str) -> str:
    """Return a page with the reason for a refused request."""
    return render("problem.html", view, status=status, title=title, detail=detail)
