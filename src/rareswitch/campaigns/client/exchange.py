"""Requests and answers, independent of the HTTP library.

A conversation is a generator: it yields a `Request` and receives the `Answer`. The blocking and the
asynchronous client run the same conversations.
"""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rareswitch.campaigns.errors import (
    CampaignError,
    ConflictError,
    DamagedError,
    MovedError,
    NotAllowedError,
    RefusedError,
    UnreadableError,
)

T = TypeVar("T")
JSON, PROBLEM, BYTES = "application/json", "application/problem+json", "application/octet-stream"
# Problems of the connection, the server or the token: the same request may succeed later.
TEMPORARY = {401, 403, 404, 408, 421, 425, 429}
CLASSES: dict[str, type[CampaignError]] = {
    kind.code: kind
    for kind in (
        ConflictError, DamagedError, MovedError, NotAllowedError, RefusedError, UnreadableError,
    )
}  # fmt: skip


class OfflineError(CampaignError):
    """The server cannot be reached or gives no valid answer; a retry may succeed."""


class DeniedError(OfflineError):
    """The server rejects the token, or the token does not allow the request."""


class NoCampaignError(OfflineError):
    """The campaign does not exist, or the token has no role in it; reports stay in the outbox."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request about a campaign: `path` follows the campaign's address."""

    method: str = "GET"
    path: str = ""
    body: Any = None  # sent as JSON
    known: str | None = None  # the ETag of the cached answer
    accept: str = JSON

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Accept": f"{self.accept}, {PROBLEM}"}
        if self.known is not None:
            headers["If-None-Match"] = f'"{self.known}"'
        if self.body is not None:
            headers["Content-Type"] = JSON
        return headers

    @property
    def content(self) -> bytes | None:
        if self.body is None:
            return None
        return json.dumps(self.body, allow_nan=False, separators=(",", ":")).encode()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to a request; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def etag(self) -> str | None:
        """The entity tag, without quotes and weakness mark."""
        tag = self.headers.get("etag")
        return None if tag is None else tag.removeprefix("W/").strip('"')

    @property
    def retry_after(self) -> float | None:
        """The seconds to wait before the next request."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdecimal() and len(text) < 9 else None

    @property
    def values(self) -> Any:
        """The value of a JSON body; None for any other body."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (JSON, PROBLEM):
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def problem(self) -> dict[str, Any] | None:
        """The problem document of the service; None for the error page of a proxy."""
        found = self.values if self.status >= 400 else None
        return found if isinstance(found, dict) and "title" in found else None

    def checked(self) -> "Answer":
        """Return the answer if the request succeeded, else raise its problem."""
        if self.status in (200, 201, 202, 304):
            return self
        raise error_of(self.problem, self.status, retry_after=self.retry_after)


Conversation = Generator[Request, Answer, T]


def error_of(
    problem: Mapping[str, Any] | None, status: int, *, retry_after: float | None = None
) -> CampaignError:
    """Return the error of a problem document, or of a proxy's status."""
    told = problem or {}
    said = told.get("detail") or told.get("title") or f"the server answered with status {status}"
    fields = {"status": status, "problem": dict(told)}
    if is_temporary(problem, status):
        kind = DeniedError if status in (401, 403) else OfflineError
        if status == 404 and told.get("field") == "campaign":
            kind = NoCampaignError
        return kind(str(said), retry_after=retry_after, **fields)
    return CLASSES.get(str(told.get("code")), CampaignError)(str(said), **fields)


def is_temporary(problem: Mapping[str, Any] | None, status: int) -> bool:
    """Return whether the same request may succeed later and must be retried.

    An answer without a problem document is not from the service, but from a proxy or a captive
    portal. A 401 or 403 that names a field is about the report, not about the token.
    """
    if status >= 500 or status < 400:
        return True
    if problem is None:
        return status != 413  # too large for the proxy: permanent
    return status in TEMPORARY and not (status in (401, 403) and "field" in problem)


def advance(talk: Conversation[T], answer: Answer | Exception | None) -> tuple[Request | None, Any]:
    """Send a conversation its answer; return the next request, or None and the result."""
    try:
        if isinstance(answer, Exception):
            return talk.throw(answer), None
        return (next(talk) if answer is None else talk.send(answer)), None
    except StopIteration as end:
        return None, end.value
