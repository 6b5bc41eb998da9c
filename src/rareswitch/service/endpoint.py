"""Endpoints: a method, a path, the action that a role must allow, and a plain function.

The function takes its arguments by name: `campaign`, the parts of the path, `body`, `query`, and
`call` for the request itself. It returns plain values or a response.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from rareswitch.campaigns.access import Principal
from rareswitch.campaigns.access.secret_texts import PUBLIC_PART, csrf_of
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.reading import read_json
from rareswitch.service.problems import Problem

if TYPE_CHECKING:
    from rareswitch.service.app import Service

Handler = Callable[..., Any]
ANYBODY = ""  # the action of an endpoint that needs no role
SIGNED_IN = "signed in"  # the action of an endpoint for every account and token
LARGEST = 2**63 - 1  # the largest number of a store
SMALL_BODY, LARGE_BODY = 2**20, 16 * 2**20
READ_IN_LOOP = 131_072  # bytes; a longer body is read in a thread, so that others do not wait


class Struct(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A body or a query; unknown fields are refused."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One method of one path, with the facts for its OpenAPI description."""

    method: str
    path: str
    action: str
    handler: Handler
    body: Any = None
    query: type[Struct] | None = None
    answers: Mapping[int, Any] = field(default_factory=lambda: {200: dict[str, Any]})
    media_type: str = "application/json"
    largest: int = SMALL_BODY
    is_page: bool = False

    @property
    def arguments(self) -> frozenset[str]:
        """The names of the function's arguments."""
        return frozenset(inspect.signature(self.handler).parameters)

    @property
    def is_async(self) -> bool:
        """Whether the function runs in the event loop, not in a thread."""
        return inspect.iscoroutinefunction(self.handler)

    @property
    def name(self) -> str:
        return self.handler.__name__


@dataclass(kw_only=True)
class Call:
    """One request, with its caller and service."""

    request: Request
    service: "Service"
    endpoint: Endpoint
    principal: Principal
    session: str = ""  # the secret of the session, if the caller has one
    token: str = ""  # the secret of the token, if the caller has one
    campaign: Campaign | None = None

    @cached_property
    def site(self) -> str | None:
        """The caller's site in the campaign; None if the caller is not a site."""
        assert self.campaign is not None  # otherwise a site could pass as no site
        return self.principal.site(self.campaign.name)

    @property
    def csrf(self) -> str:
        """The text that each form of the session must send."""
        return csrf_of(self.session) if self.session else ""

    @property
    def address(self) -> str:
        """The network address of the client."""
        return self.request.client.host if self.request.client else "?"

    @property
    def caller(self) -> str:
        """The key for rate limits: the id of a token (labels repeat), an account or an address."""
        if self.token:
            return f"token {self.token[:PUBLIC_PART]}"
        account = self.principal.account
        return f"address {self.address}" if account is None else f"account {account}"

    async def data(self) -> bytes:
        """Return the bytes of the body; stop reading a body that is too large."""
        most, told = self.endpoint.largest, self.request.headers.get("content-length", "")
        if told.isdecimal() and int(told) > most:
            raise too_large(most)
        data = bytearray()
        try:
            async for chunk in self.request.stream():
                data += chunk
                if len(data) > most:
                    raise too_large(most)
        except ClientDisconnect:
            raise Problem(400, "body ended too early", code="unreadable", field="body") from None
        return bytes(data)

    async def body(self) -> Any:
        """Return the body as the endpoint's type."""
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Problem(
                415, f"content-type must be application/json; got {kind[:80] or 'nothing'}",
                code="media-type", field="content-type",
            )  # fmt: skip
        data = await self.data()
        if len(data) <= READ_IN_LOOP:
            return convert(read_body(data), self.endpoint.body)
        return await run_in_threadpool(lambda: convert(read_body(data), self.endpoint.body))

    def query(self) -> Any:
        """Return the query as the endpoint's type; text is converted to numbers."""
        given = self.request.query_params
        if len(given.multi_items()) != len(given):
            raise Problem(422, "query must have each name once", code="invalid", field="query")
        return msgspec.convert(dict(given), self.endpoint.query, strict=False)


def read_body(data: bytes) -> Any:
    """Parse JSON; refuse repeated keys, NaN and infinity."""
    try:
        return read_json(data)
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"body must be JSON; {error}", code="unreadable", field="body") from None


def convert(value: Any, kind: Any) -> Any:
    """Convert a value to a type; the error names the invalid field."""
    return msgspec.convert(value, kind)


def too_large(most: int) -> Problem:
    """Return the problem of a body that is too large."""
    return Problem(413, f"body must have at most {most} bytes", code="too-large", field="body")


class Endpoints:
    """Decorators that declare endpoints; `all` keeps their order.

    >>> endpoints = Endpoints()
    >>> @endpoints.get("/v1/campaigns/{campaign}/heads", action="look")
    ... def read_heads(campaign):
    ...     return {}
    >>> [(one.method, one.action) for one in endpoints.all]
    [('GET', 'look')]
    """

    def __init__(self, *, pages: bool = False) -> None:
        self.all: list[Endpoint] = []
        self._pages = pages

    def get(self, path: str, **told: Any) -> Callable[[Handler], Handler]:
        return self._add("GET", path, told)

    def post(self, path: str, **told: Any) -> Callable[[Handler], Handler]:
        return self._add("POST", path, told)

    def put(self, path: str, **told: Any) -> Callable[[Handler], Handler]:
        return self._add("PUT", path, told)

    def delete(self, path: str, **told: Any) -> Callable[[Handler], Handler]:
        return self._add("DELETE", path, told)

    def _add(self, method: str, path: str, told: dict[str, Any]) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            made = Endpoint(method=method, path=path, handler=handler, **told, is_page=self._pages)
            self.all.append(made)
            return handler

        return add


Number = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Page(Struct):
    """A page of rows: at most `limit` rows after the number `after`."""

    after: Annotated[int, msgspec.Meta(ge=0, le=LARGEST)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
