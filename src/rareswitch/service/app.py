"""The application: it identifies the caller, checks the role, calls the endpoint, and answers."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rareswitch.campaigns.access import NOBODY, Access, Principal
from rareswitch.campaigns.access.secret_texts import same_csrf
from rareswitch.campaigns.campaign import Campaign, list_campaigns
from rareswitch.campaigns.errors import NotAllowedError, UnavailableError
from rareswitch.campaigns.rulebook.names import NAME
from rareswitch.campaigns.store import Store
from rareswitch.service.endpoint import ANYBODY, LARGEST, SIGNED_IN, Call, Endpoint
from rareswitch.service.limits import Rate
from rareswitch.service.live import Heads
from rareswitch.service.problems import Problem, problem_of
from rareswitch.service.telemetry import Telemetry, logger

COOKIE = "rareswitch_session"
SAFE = ("GET", "HEAD")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a service.

    `public_url` is the address for browsers, also behind a proxy. `rate` is the most requests per
    second of one caller; `attempts` is that of an address without a valid token or session. With
    `rehearsal` the campaigns of the store may be rehearsals.
    """

    public_url: str = "http://localhost:8000"
    allow: tuple[str, ...] = ()
    rehearsal: bool = False
    rate: float = 2000.0
    attempts: float = 20.0

    @property
    def is_secure(self) -> bool:
        return self.public_url.startswith("https://")

    @property
    def cookie(self) -> str:
        """The name of the session cookie; with HTTPS no other host and no HTTP page can set it."""
        return f"__Host-{COOKIE}" if self.is_secure else COOKIE

    @property
    def origin(self) -> str:
        """The scheme, host and port for browsers; passkeys are bound to them."""
        parts = urlsplit(self.public_url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def relying_party(self) -> str:
        """The domain of the passkeys."""
        return urlsplit(self.public_url).hostname or ""


@dataclass(kw_only=True)
class Service:
    """A store over HTTP: its campaigns, its accounts, and the counts of this process."""

    store: Store
    settings: Settings
    access: Access
    telemetry: Telemetry = field(default_factory=Telemetry)
    description: dict[str, Any] = field(default_factory=dict)  # of the API
    is_stopping: bool = False
    streams: Counter[str] = field(default_factory=Counter)  # of live events, by caller

    def __post_init__(self) -> None:
        self._campaigns: dict[str, Campaign] = {}
        self._heads: dict[str, Heads] = {}
        self._busy = Counter[str]()
        self._counting = threading.Lock()
        self.rate, self.attempts = Rate(self.settings.rate), Rate(self.settings.attempts)

    def known_campaign(self, name: str) -> Campaign | None:
        """Return a cached campaign, or None; the store is not read."""
        return self._campaigns.get(name)

    def find_campaign(self, name: str) -> Campaign | None:
        """Return a campaign of the store, or None."""
        if (found := self._campaigns.get(name)) is None:
            if len(name) > 200 or not NAME.fullmatch(name):
                return None
            try:
                found = Campaign(
                    self.store,
                    name,
                    allow=self.settings.allow,
                    rehearsal=self.settings.rehearsal,
                )
            except NotAllowedError:
                return None
            self._campaigns[name] = found
        return found

    def heads_of(self, campaign: Campaign) -> Heads:
        """Return the heads of a campaign, shared by all streams."""
        return self._heads.setdefault(campaign.name, Heads(campaign))

    @contextmanager
    def few(self, work: str, most: int) -> Iterator[None]:
        """Limit concurrent heavy work to `most` callers; refuse the others at once."""
        with self._counting:
            if self._busy[work] >= most:
                raise Problem(
                    429, f"at most {most} at once: {work}; try again", code="busy", retry_after=1
                )
            self._busy[work] += 1
        try:
            yield
        finally:
            with self._counting:
                self._busy[work] -= 1

    def visible(self, principal: Principal) -> list[Campaign]:
        """Return the campaigns that a principal may look at."""
        found = [self.find_campaign(name) for name in list_campaigns(self.store)]
        return [one for one in found if one is not None and may(principal, "look", one)]


async def _may(principal: Principal, action: str, campaign: Campaign) -> bool:
    """Return the same as `may`; read the store in a thread, and only if necessary."""
    if principal.may(action, campaign.name):
        return True
    return action == "look" and await run_in_threadpool(may, principal, action, campaign)


def may(principal: Principal, action: str, campaign: Campaign) -> bool:
    """Return whether a principal may do an action; a protocol may let everybody look."""
    if principal.may(action, campaign.name):
        return True
    return principal.where_public(campaign.name, campaign.terms).may(action, campaign.name)


def present(call: Call) -> Principal:
    """Return the caller with its current roles; nobody if the token or session has ended."""
    access, found = call.service.access, None
    if call.token:
        found = access.principal_of_token(call.token)
    elif call.session:
        found = access.principal_of_session(call.session, used=False)
    return found or NOBODY


Renderer = Callable[[Call, Problem], Response]


def make_app(
    service: Service,
    endpoints: Sequence[Endpoint],
    *,
    static: Mapping[str, ASGIApp] | None = None,
    render_problem: Renderer | None = None,
) -> ASGIApp:
    """Return the application of the endpoints."""
    answering = _Answering(service, render_problem)
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    routes: list[Any] = [Mount(path, app=app) for path, app in (static or {}).items()]
    routes += [
        Route(one.path, answering.of(one), methods=[one.method], name=one.name) for one in endpoints
    ]
    handlers: dict[Any, Any] = {404: answering.nowhere, 405: _problem, Exception: _problem}
    handlers[ValueError] = _no_number  # a number in a path has too many digits for Python
    # Each method of a path is a route, so a wrong method needs a route too.
    routes += [
        Route(path, _wrong_method([one.method for one in some])) for path, some in by_path.items()
    ]
    app = Starlette(routes=routes, exception_handlers=handlers)
    return _Headers(app, secure=service.settings.is_secure)


_NOTHING = Problem(404, "this address does not exist", code="not-found")


def _problem(_: Request, error: Exception) -> Response:
    return problem_of(error).response


def _no_number(_: Request, error: Exception) -> Response:
    return _NOTHING.response


def _wrong_method(methods: Iterable[str]) -> Any:
    allowed = sorted({*methods, *(["HEAD"] if "GET" in methods else [])})

    class WrongMethod:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            detail = f"method must be {' or '.join(allowed)}; got {scope['method'][:20]}"
            response = Problem(405, detail, code="method").response
            response.headers["Allow"] = ", ".join(allowed)
            await response(scope, receive, send)

    return WrongMethod()


class _Answering:
    """Make the function that answers the requests to an endpoint."""

    def __init__(self, service: Service, render_problem: Renderer | None) -> None:
        self.service, self._render = service, render_problem

    def nowhere(self, request: Request, error: Exception) -> Response:
        """Answer for an unknown address, with a page if a browser asks."""
        is_page = "text/html" in request.headers.get("accept", "")
        if self._render is None or not is_page or request.url.path.startswith("/v1"):
            return _NOTHING.response
        endpoint = Endpoint(method="GET", path="", handler=_no_number, action=ANYBODY, is_page=True)
        call = Call(request=request, service=self.service, endpoint=endpoint, principal=NOBODY)
        return self._render(call, _NOTHING)

    def of(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        arguments, takes = endpoint.arguments, endpoint.arguments - {"call", "body", "query"}
        telemetry = self.service.telemetry

        async def answer(request: Request) -> Response:
            began = time.perf_counter()
            call = Call(request=request, service=self.service, endpoint=endpoint, principal=NOBODY)
            try:
                await self._admit(call)
                given: dict[str, Any] = {"call": call} if "call" in arguments else {}
                if "query" in arguments:
                    given["query"] = call.query()
                if "body" in arguments:
                    given["body"] = await call.body()
                for name in takes:
                    given[name] = call.campaign if name == "campaign" else _part(request, name)
                if endpoint.is_async:
                    value = await endpoint.handler(**given)
                else:
                    value = await run_in_threadpool(endpoint.handler, **given)
                response = value if isinstance(value, Response) else _plain(endpoint, value)
            except Exception as error:
                response = self._told(call, error)
            seconds = time.perf_counter() - began
            roles = {grant.role for grant in call.principal.grants}
            who = "+".join(sorted(roles)) or call.principal.via
            telemetry.answered(endpoint.method, endpoint.path, response.status_code, seconds, who)
            return response

        return answer

    def _told(self, call: Call, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == 500:
            told = {"route": call.endpoint.path, "method": call.endpoint.method}
            logger.error("failed", exc_info=error, extra={"told": told})
        elif isinstance(error, UnavailableError):
            logger.error("store unavailable", extra={"told": {"why": str(error)}})
        if call.endpoint.is_page and self._render is not None:
            if problem.status == 401 and call.request.method in SAFE:
                after = quote(call.request.url.path, safe="/")
                return RedirectResponse(f"/sign-in?after={after}", 303)
            return self._render(call, problem)
        return problem.response

    async def _admit(self, call: Call) -> None:
        """Identify the caller; raise unless a role allows the action."""
        service, request, action = self.service, call.request, call.endpoint.action
        if service.is_stopping and request.method not in SAFE:
            raise Problem(503, "the service is stopping", code="stopping", retry_after=5)
        await self._identify(call)
        name, principal = request.path_params.get("campaign"), call.principal
        known = principal.via != "nobody"
        if name is not None:
            call.campaign = await self._campaign(name)
        if action == ANYBODY:
            return
        if name is None:
            allowed = known and (action == SIGNED_IN or principal.may(action, "*"))
        else:
            allowed = call.campaign is not None and await _may(principal, action, call.campaign)
        if allowed:
            return
        if not known:
            raise Problem(401, "send a token, or sign in", code="sign-in")
        if name is not None and not (
            call.campaign is not None and await _may(principal, "look", call.campaign)
        ):
            raise Problem(
                404, "the campaign does not exist, or you have no role in it", code="not-found",
                field="campaign",
            )  # fmt: skip
        where = "" if name is None else f" in {name}"
        raise Problem(
            403, f"your roles{where} do not allow this: {action}", code="forbidden", action=action
        )

    async def _campaign(self, name: str) -> Campaign | None:
        found = self.service.known_campaign(name)
        return found or await run_in_threadpool(self.service.find_campaign, name)

    async def _identify(self, call: Call) -> None:
        """Set the caller: by a token, by a session cookie, or nobody."""
        request, access = call.request, self.service.access
        header = request.headers.get("authorization", "")
        token = header[7:].strip() if header[:7].lower() == "bearer " else ""
        token = token or request.headers.get("ocp-apim-subscription-key", "")
        if token or header:
            found = access.cached_principal(token)
            if found is None:
                found = await run_in_threadpool(access.principal_of_token, token)
            if found is None:
                # Only wrong tokens count, so strangers behind the same proxy block nobody.
                self.service.attempts.check(call.address)
                raise Problem(401, "the token is unknown, expired or revoked", code="token")
            call.principal, call.token = found, token
            self.service.rate.check(call.caller)
        elif cookie := request.cookies.get(self.service.settings.cookie, ""):
            principal = await run_in_threadpool(access.principal_of_session, cookie)
            if principal is not None:
                call.principal, call.session = principal, cookie
                self.service.rate.check(call.caller)
                if not call.endpoint.is_page:
                    check_csrf(call, request.headers.get("x-csrf-token", ""))
            else:
                self.service.attempts.check(call.address)
        else:
            self.service.rate.check(call.caller)


def check_csrf(call: Call, given: str) -> None:
    """Raise if a session's change lacks the CSRF secret."""
    if call.request.method in SAFE:
        return
    if not call.session or not same_csrf(call.session, given):
        raise Problem(403, "the page is out of date: reload it", code="csrf")


def _part(request: Request, name: str) -> Any:
    """Return a part of the path; a number above the store's range is not found."""
    value = request.path_params[name]
    if isinstance(value, int) and value > LARGEST:
        raise Problem(404, "this address does not exist", code="not-found", field=name)
    return value


def _plain(endpoint: Endpoint, value: Any) -> Response:
    status = min(endpoint.answers)
    if value is None:
        return Response(status_code=204)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], int):
        status, value = value
    return Response(msgspec.json.encode(value), status, media_type="application/json")


class _Headers:
    """Add the security headers to every answer; caches may keep static files only."""

    def __init__(self, app: ASGIApp, *, secure: bool) -> None:
        self._app = app
        told = HEADERS | ({"Strict-Transport-Security": "max-age=31536000"} if secure else {})
        self._told = [(name.lower().encode(), value.encode()) for name, value in told.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                told = {name for name, _ in headers}
                headers += [pair for pair in self._told if pair[0] not in told]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
            await send(message)

        await self._app(scope, receive, tell)


logging.getLogger("rareswitch.service").addHandler(logging.NullHandler())
