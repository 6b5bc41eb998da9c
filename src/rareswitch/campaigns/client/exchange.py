"""Requests and answers, apart from the library that carries them.

A conversation is a generator: it yields a `Request` and gets the `Answer`. Both clients run the
same conversations, with a blocking connection or an asynchronous one.
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
# Answers about the line, the server or the token: the same request may succeed later.
TEMPORARY = {401, 403, 404, 408, 421, 425, 429}
CLASSES: dict[str, type[CampaignError]] = {
    kind.code: kind
    for kind in (
        ConflictError, DamagedError, MovedError, NotAllowedError, RefusedError, UnreadableError,
    )
}  # fmt: skip


class OfflineError(CampaignError):
    """The server cannot be reached, or does not answer as it should; a later try may succeed."""


class DeniedError(OfflineError):
    """The server does not accept the token, or does not allow it this request."""


class NoCampaignError(OfflineError):
    """The server has no such campaign, or the token no role in it; reports stay in the outbox."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request about a campaign: `path` follows the campaign's address."""

    method: str = "GET"
    path: str = ""
    body: Any = None  # sent as JSON
    known: str | None = None  # the ETag of an answer that is here already
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
        """The entity tag, without its quotes and the mark of a weak one."""
        tag = self.headers.get("etag")
        return None if tag is None else tag.removeprefix("W/").strip('"')

    @property
    def retry_after(self) -> float | None:
        """The seconds after which the server wants to be asked again."""
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
        """Return the answer of a request that succeeded, or raise its problem."""
        if self.status in (200, 201, 202, 304):
            return self
        raise error_of(self.problem, self.status, retry_after=self.retry_after)


Conversation = Generator[Request, Answer, T]


def error_of(
    problem: Mapping[str, Any] | None, status: int, *, retry_after: float | None = None
) -> CampaignError:
    """Return the error that a problem document, or the status of a proxy's page, stands for."""
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
    """Return whether the same request may succeed later, so that it must be sent again.

    An answer without a problem document is not from the service: a proxy or the page of a wireless
    network made it. A 401 or 403 that names a field is about the report, and not about the token.
    """
    if status >= 500 or status < 400:
        return True
    if problem is None:
        return status != 413  # too large for the proxy: so it stays
    return status in TEMPORARY and not (status in (401, 403) and "field" in problem)


def advance(talk: Conversation[T], answer: Answer | Exception | None) -> tuple[Request | None, Any]:
    """Give a conversation its answer; return the next request, or None and the result."""
    try:
        if isinstance(answer, Exception):
            return talk.throw(answer), None
        return (next(talk) if answer is None else talk.send(answer)), None
    except StopIteration as end:
        return None, end.value
