"""Live events: a stream of server-sent events about new rows in a campaign's record."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import UnavailableError
from rareswitch.campaigns.rulebook.rows import Entry, Head
from rareswitch.campaigns.store.rows import heads_of
from rareswitch.service.problems import Problem

EVERY = 0.5  # seconds between two looks at the store
ALIVE = 15.0  # seconds after which a comment keeps the connection open
MOST_STREAMS = 200
MOST_OF_ONE = 20  # streams of one caller


class Heads:
    """The heads of one campaign, read once for all streams of this process."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._known: dict[str, Head] = {}
        self._lock, self._at = asyncio.Lock(), -EVERY

    async def now(self) -> dict[str, Head]:
        """Return the heads, at most EVERY seconds old."""
        async with self._lock:
            time = asyncio.get_running_loop().time()
            if time - self._at >= EVERY:
                self._known = await run_in_threadpool(self._read)
                self._at = asyncio.get_running_loop().time()
        return self._known

    def _read(self) -> dict[str, Head]:
        with self._campaign.store.reading() as connection:
            return heads_of(connection, self._campaign.name)


def live_events(
    service: Any,
    campaign: Campaign,
    request: Request,
    *,
    caller: str,
    may: Callable[[str], Awaitable[bool]],
) -> StreamingResponse:
    """Return the stream: an event "heads" at once and after each change, and new "entry" events.

    `may(action)` returns the current right. It is called before each event, and the stream ends if
    the caller loses the right to look. `Last-Event-ID` is the number of the caller's last entry.
    """
    if service.streams.total() >= MOST_STREAMS or service.streams[caller] >= MOST_OF_ONE:
        most = f"at most {MOST_STREAMS} streams, and {MOST_OF_ONE} of one caller"
        raise Problem(429, most, code="too-many", retry_after=30)
    told = request.headers.get("last-event-id", "")
    if told and not (told.isdecimal() and len(told) < 19):
        raise Problem(
            422, "last-event-id must be the number of an entry", code="invalid",
            field="last-event-id",
        )  # fmt: skip
    shared = service.heads_of(campaign)

    before: dict[str, Head] = {}
    seen = int(told) if told else None

    async def news(*, quiet: bool) -> list[str] | None:
        """Return the events since the last look; None if the caller may no longer look."""
        nonlocal before, seen
        heads = await shared.now()
        changed = heads != before
        if (changed or quiet) and not await may("look"):
            return None
        if not changed:
            return [": alive\n\n"] if quiet else []
        lengths = {name: head.length for name, head in heads.items()}
        found = [_event("heads", lengths)]
        known = lengths["ledger"] if seen is None else seen
        if lengths["ledger"] > known and await may("unblinded"):
            entries = (await run_in_threadpool(lambda: campaign.entries))[known:]
            found += [_event("entry", _plain(entry), number=entry.number) for entry in entries]
        before, seen = heads, max(known, lengths["ledger"])
        return found

    async def events() -> AsyncIterator[str]:
        service.streams[caller] += 1
        try:
            yield "retry: 2000\n\n"
            silent = 0.0
            while not service.is_stopping:
                silent += EVERY
                try:
                    found = await news(quiet=silent >= ALIVE)
                except UnavailableError:  # keep the connection: a browser gives up after 503
                    found = [": the store is not available\n\n"] if silent >= ALIVE else []
                if found is None:
                    return
                for event in found:
                    silent = 0.0
                    yield event
                await asyncio.sleep(EVERY)
        finally:
            service.streams[caller] -= 1
            service.streams += Counter()  # drop callers without a stream

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events(), media_type="text/event-stream", headers=headers)


def _plain(entry: Entry) -> dict[str, Any]:
    return entry._asdict()


def _event(name: str, value: Any, *, number: int | None = None) -> str:
    cursor = "" if number is None else f"id: {number}\n"
    return f"{cursor}event: {name}\ndata: {json.dumps(value, ensure_ascii=True)}\n\n"
