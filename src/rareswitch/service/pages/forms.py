"""Pages and forms over HTTP: the view of a request, forms with their CSRF secret, redirects."""

import base64
import binascii
import ipaddress
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from rareswitch.campaigns.campaign import Campaign
from rareswitch.service.app import check_csrf
from rareswitch.service.endpoint import ANYBODY, Call, Endpoints
from rareswitch.service.pages.view import View
from rareswitch.service.problems import Problem, problem_of

HTML = "text/html; charset=utf-8"
FORM = "application/x-www-form-urlencoded"
SAID = "rareswitch_said"  # the cookie of a message for the next page
MOST_FIELDS = 100
MOST_SAID = 500  # characters of a message
SECRET_FIELDS = ("password", "again", "old", "new", "csrf")  # never shown again

Form = dict[str, str]
Handler = Callable[[Call, Form], Response]
Shower = Callable[[Call, Problem, Form], Response]


def campaign_of(call: Call) -> Campaign:
    """Return the campaign of the path, found at admission."""
    assert call.campaign is not None
    return call.campaign


def view_of(call: Call, problem: Problem | None = None, form: Form | None = None) -> View:
    """Return the view of a request, with its stored message or a problem."""
    principal, campaign = call.principal, call.campaign
    if campaign is not None:
        principal = principal.where_public(campaign.name, campaign.terms)
    passkeys: tuple[str, ...] = ()
    if principal.account is not None:
        found = call.service.access.passkeys(principal.account)
        passkeys = tuple(one.credential for one in found)
    return View(
        principal,
        call.csrf,
        message="" if problem else _said(call),
        error=str(problem) if problem else "",
        signed_in=principal.via != "nobody",
        passkeys=passkeys,
        typed={name: text for name, text in (form or {}).items() if name not in SECRET_FIELDS},
    )


def page(call: Call, html: str, status: int = 200) -> Response:
    """Return a page and delete its message."""
    response = Response(html, status, media_type=HTML)
    if SAID in call.request.cookies:
        response.delete_cookie(SAID, httponly=True, samesite="strict")
    return response


def go_to(call: Call, path: str, message: str = "") -> Response:
    """Redirect after a form, with a message for the next page."""
    response = RedirectResponse(path, 303)
    if message:
        text = base64.urlsafe_b64encode(json.dumps(message[:MOST_SAID]).encode()).decode()
        response.set_cookie(
            SAID, text, max_age=60, httponly=True, samesite="strict",
            secure=call.service.settings.is_secure,
        )  # fmt: skip
    return response


def _said(call: Call) -> str:
    try:
        found = json.loads(base64.urlsafe_b64decode(call.request.cookies.get(SAID, "")))
    except (ValueError, binascii.Error, RecursionError):
        return ""
    return found[:MOST_SAID] if isinstance(found, str) else ""


async def read_form(call: Call) -> Form:
    """Return the fields of a form; raise for a repeated field."""
    kind = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise Problem(415, f"content-type must be {FORM}", code="media-type", field="content-type")
    try:
        text = (await call.data()).decode()
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=MOST_FIELDS,
            errors="strict",
        )  # fmt: skip
    except ValueError:
        raise Problem(400, "body must be the fields of a form", code="unreadable") from None
    if len({name for name, _ in pairs}) < len(pairs):
        raise Problem(400, "body must have each field once", code="unreadable")
    return dict(pairs)


def check_origin(call: Call) -> None:
    """Refuse a form of another site, if there is no session with a CSRF secret yet."""
    origin = call.request.headers.get("origin")
    if origin is None:  # no browser, or a very old one
        return
    told = urlsplit(origin)
    # A stranger's domain may point here, so a domain in Host proves nothing; an IP address or
    # localhost does.
    here = told.netloc == call.request.headers.get("host") and _is_no_domain(told.hostname or "")
    if origin != call.service.settings.origin and not (here and told.scheme == "http"):
        own = call.service.settings.origin
        raise Problem(403, f"the form must come from a page of {own}, the public URL", code="csrf")


def _is_no_domain(host: str) -> bool:
    """Return whether a host is an IP address or localhost, which no domain can imitate."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def form_endpoint(
    pages: Endpoints, path: str, *, action: str, again: Shower
) -> Callable[[Handler], Handler]:
    """Make the endpoint of a form; its handler runs in a thread after the CSRF check.

    `again` shows a refused form with the reason and the typed fields, without secrets.
    """

    def add(handler: Handler) -> Handler:
        async def answer(call: Call) -> Any:
            form = await read_form(call)
            if action == ANYBODY:
                check_origin(call)
            else:
                check_csrf(call, form.pop("csrf", ""))
            try:
                return await run_in_threadpool(handler, call, form)
            except Exception as error:
                problem = problem_of(error)
                if problem.status >= 500:
                    raise
                return await run_in_threadpool(again, call, problem, form)

        answer.__name__ = handler.__name__
        answer.__doc__ = handler.__doc__
        pages.post(path, action=action, answers={303: None})(answer)
        return handler

    return add
