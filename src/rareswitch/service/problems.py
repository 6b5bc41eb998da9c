"""Errors as problem documents (RFC 9457): a status, a sentence, and the invalid field."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from rareswitch.campaigns.access import ForbiddenError, SignInError, TooManyError, UnknownError
from rareswitch.campaigns.errors import (
    CampaignError,
    ConflictError,
    DamagedError,
    MovedError,
    NotAllowedError,
    RefusedError,
    UnavailableError,
    UnreadableError,
)

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "The request cannot be read",
    401: "Sign in first",
    403: "Your role does not allow this",
    404: "Not found",
    405: "The method does not fit",
    409: "The request conflicts with the record",
    412: "The request does not match the current state",
    413: "The request is too large",
    415: "The media type is not supported",
    422: "A value is not valid",
    429: "Too many requests",
    500: "The service failed",
    503: "The store is not available",
    507: "The store has no room",
}
STATUSES: dict[type[CampaignError], int] = {
    UnreadableError: 400,
    SignInError: 401,
    ForbiddenError: 403,
    UnknownError: 404,
    ConflictError: 409,
    MovedError: 409,
    NotAllowedError: 409,
    RefusedError: 422,
    TooManyError: 429,
    DamagedError: 500,
    UnavailableError: 503,
    CampaignError: 409,
}
_FIELD = re.compile(r"^((?:\[\w+\] )?[a-z_]+(?:\[\d+\])?)(?::| (?:must|needs|cannot) )")
# Sentences with the store's address and its driver's message; only the log may have them.
_INSIDE = re.compile(r"the store \S+ cannot be|the commit failed|there is no store in")
_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")


class Problem(Exception):  # noqa: N818 as RFC 9457 names it
    """An error with a problem document; `fields` are its further members.

    `title` replaces the title of the status.
    """

    def __init__(self, status: int, detail: str, *, title: str = "", **fields: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.fields = status, detail, fields
        self.title = title or TITLES.get(status, "The request failed")

    @property
    def plain(self) -> dict[str, Any]:
        """The document."""
        code = self.fields.get("code") or self.title.lower().replace(" ", "-")
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": code,
        } | {name: value for name, value in self.fields.items() if value is not None}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the response."""
        if self.status == 401:
            return {"WWW-Authenticate": 'Bearer realm="rareswitch"'}
        if "retry_after" in self.fields:
            return {"Retry-After": str(self.fields["retry_after"])}
        return {}

    @property
    def response(self) -> Response:
        """The document as a response."""
        return Response(
            msgspec.json.encode(self.plain), self.status, self.headers, media_type=MEDIA_TYPE
        )


def problem_of(error: BaseException) -> Problem:
    """Return the problem of an error; details of an unexpected error stay in the log."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, CampaignError):
        return _of_campaign(error)
    if isinstance(error, msgspec.ValidationError):
        return invalid(error)
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail))
    if isinstance(error, TypeError | ValueError):
        return Problem(422, str(error), code="invalid", field=field_of(str(error)))
    return Problem(500, "unexpected error; see the log of the service", code="failed")


def invalid(error: msgspec.ValidationError) -> Problem:
    """Return the problem of a body or a query that does not match its schema."""
    text = str(error)
    found = _PATH.search(text)
    field = found["path"] if found else None
    missing = re.search(r"required field `(\w+)`|unknown field `(\w+)`", text)
    if missing:
        field = ".".join(filter(None, [field, missing[1] or missing[2]]))
    said = _PATH.sub("", text)
    return Problem(422, f"{field}: {said}" if field else said, code="invalid", field=field)


def _of_campaign(error: CampaignError) -> Problem:
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    fields: dict[str, Any] = {"code": error.code, **error.fields}
    if isinstance(error, UnavailableError):
        status = 507 if error.full else 503
        fields["retry_after"] = 1
    if status in (400, 422):
        fields["field"] = field_of(str(error))
    detail = str(error)
    if isinstance(error, UnavailableError) and (_INSIDE.match(detail) or error.full):
        detail = "the store has no room left" if error.full else "the store is not available now"
    return Problem(status, detail, **fields)


def field_of(sentence: str) -> str | None:
    """Return the field at the start of a sentence, the form of every error in an argument.

    >>> field_of("rewards must lie in [0, 1]; got 2.0"), field_of("the campaign has stopped")
    ('rewards', None)
    """
    found = _FIELD.match(sentence)
    return found[1] if found else None


def describe_problems() -> Mapping[str, Any]:
    """Return the schema of a problem document."""
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": text,
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "code": text,
            "field": text,
        },
    }
