"""Notices: webhooks and commands get an event when a person must act.

The events of a campaign follow from its ledger. The store keeps the last delivered entry of each
receiver, so a restart loses no event. An event is sent at least once, in the order of the ledger;
its `id` is the same each time, so a receiver can ignore repeats.
"""

import fcntl
import json
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.campaign import Campaign, list_campaigns, server_time
from rareswitch.campaigns.errors import CampaignError, UnavailableError
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.status import heads
from rareswitch.campaigns.store import Store
from rareswitch.campaigns.store.tables import notices
from rareswitch.service.receivers import Event, NotDeliveredError, Receiver
from rareswitch.service.telemetry import logger

ALL = "*"  # all campaigns; no campaign has this name
LEARNER = "learner"
SILENT_AFTER = 300.0  # seconds without a beat
WINDOW = 3600.0  # seconds in which refusals are counted
MOST_REFUSED, MOST_SHARE = 10, 0.1  # refusals are "rising" at this number and this share
LONGEST_PAUSE = 300.0  # seconds between two tries to reach a receiver
WAITS = ("candidate", "amendment", "reopening")
_KEEP = sa.text(
    "INSERT INTO notices (campaign, name, state) VALUES (:campaign, :name, :state) "
    "ON CONFLICT (campaign, name) DO UPDATE SET state = excluded.state"
)


def beat(store: Store) -> None:
    """Store a heartbeat of the learner; its process calls this every few seconds."""
    # Clocks are not compared: a watcher only checks whether the text has changed.
    keep(store, [(ALL, LEARNER, secrets.token_hex(8))])


def keep(store: Store, rows: Sequence[tuple[str, str, str]]) -> None:
    """Store texts by campaign and name."""
    told = [dict(zip(("campaign", "name", "state"), row, strict=True)) for row in rows]
    with store.writing(ALL) as connection:
        connection.execute(_KEEP, told)


def kept(store: Store) -> dict[tuple[str, str], str]:
    """Return all stored texts, by campaign and name."""
    with store.reading() as connection:
        return {(row.campaign, row.name): row.state for row in connection.execute(notices.select())}


def event_of(entries: Sequence[Entry], entry: Entry, link: str = "") -> Event | None:
    """Return the event of a ledger entry; None for entries without an event.

    An event has no return, evidence, reason or person: not every receiver may see those.
    """
    kind, told = entry.kind, entry.payload
    version = told.get("version")
    if kind in WAITS:
        following = entries[entry.number : entry.number + 1]
        if following and following[0].kind == "deployed" and kind == "candidate":
            return None  # the schedule put it in force at once
        about = f"candidate {entry.number} for version {version}"
        what = about if kind == "candidate" else f"{kind} {entry.number}"
        name, text = f"{kind}-waits", f"{what} waits for a signature"
    elif kind == "deployed":
        name, text = "version-in-force", f"version {version} is in force"
    elif kind == "rolled-back":
        name = "version-in-force"
        text = f"version {version} is in force: a rollback to version {told['to']}"
    elif kind in ("stopped", "reopened"):
        name, text = kind, f"the campaign was {kind}"
    else:
        return None
    data: dict[str, Any] = {"entry": entry.number, "text": text}
    data |= {"version": version} if version is not None else {}
    data |= {"link": link} if link else {}
    return {"type": name, "timestamp": entry.at, "data": data}


class Notices:
    """Send the events of all campaigns of a store to receivers; `step` is called every second.

    Only one process of a store sends: it holds a lock that ends with the process. A failed delivery
    is repeated after 2, 4, 8, … seconds.
    """

    def __init__(
        self,
        store: Store,
        receivers: Sequence[Receiver],
        *,
        public_url: str = "",
        silent_after: float = SILENT_AFTER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if len({receiver.name for receiver in receivers}) < len(receivers):
            raise ValueError("receivers must be distinct; got a repeated receiver")
        self._store, self._receivers, self._clock = store, receivers, clock
        self._url, self._silent_after = public_url.rstrip("/"), silent_after
        self._lock = _OneSender(store)
        self._campaigns: dict[str, Campaign] = {}
        self._counts: dict[str, deque[tuple[float, int, int]]] = {}
        self._heard: tuple[str, float] = "", clock()  # the last beat, and when it came
        self._failures: dict[str, int] = {}
        self._again: dict[str, float] = {}  # when a receiver is tried again
        self._told: dict[str, str] = {}  # the last error about a campaign

    @property
    def failures(self) -> Mapping[str, int]:
        """The number of failures of each receiver since its last delivery."""
        return {one.shown: self._failures.get(one.name, 0) for one in self._receivers}

    def follow(self, stopping: threading.Event, every: float = 1.0) -> None:
        """Send events until `stopping` is set; log errors and continue."""
        try:
            while not stopping.is_set():
                try:
                    self.step()
                except UnavailableError as error:
                    self._tell(ALL, error)
                except Exception:
                    logger.exception("notices failed")
                stopping.wait(every)
        finally:
            self.close()

    def close(self) -> None:
        """Let another process send."""
        self._lock.release()

    def step(self) -> None:
        """Send all undelivered events, if this process is the sender."""
        if not self._lock.acquire():
            return
        for name in list_campaigns(self._store):
            if name not in self._campaigns:
                self._campaigns[name] = Campaign(self._store, name)
        told = kept(self._store)
        token, now = told.get((ALL, LEARNER), ""), self._clock()
        if token != self._heard[0]:
            self._heard = token, now
        rising = {name: count for name in self._campaigns if (count := self._rising(name, now))}
        for receiver in self._receivers:
            if self._again.get(receiver.name, now) > now:
                continue
            try:
                self._serve(receiver, told, rising)
            except NotDeliveredError as error:
                failures = self._failures.get(receiver.name, 0) + 1
                pause = min(2.0**failures, LONGEST_PAUSE)
                self._failures[receiver.name] = failures
                self._again[receiver.name] = self._clock() + pause
                why = {"receiver": receiver.shown, "why": str(error), "again_in": pause}
                logger.warning("notice not delivered", extra={"told": why})

    def _serve(
        self, receiver: Receiver, told: Mapping[tuple[str, str], str], rising: Mapping[str, int]
    ) -> None:
        """Send one receiver its events; store each delivery before the next."""
        if (ALL, receiver.name) not in told:
            told = {**told, **self._begin(receiver, told)}
        for name in self._campaigns:
            try:
                self._serve_ledger(receiver, name, int(told.get((name, receiver.name), 0)))
            except UnavailableError:
                raise
            except CampaignError as error:  # a damaged campaign must not block others
                self._tell(name, error)
        flags: dict[str, Any] = json.loads(told[ALL, receiver.name])
        self._serve_learner(receiver, flags)
        self._serve_refusals(receiver, flags, rising)

    def _begin(
        self, receiver: Receiver, told: Mapping[tuple[str, str], str]
    ) -> dict[tuple[str, str], str]:
        """Start a new receiver with the pending decisions and later events only."""
        begun = {(ALL, receiver.name): json.dumps({"silent": None, "rising": []})}
        for name, campaign in self._campaigns.items():
            with suppress(CampaignError):
                state = campaign.state
                waiting = [state.waiting, state.amendment, state.reopening]
                first = min((one.number for one in waiting if one is not None), default=None)
                past = state.entries if first is None or state.stopped else first - 1
                begun[name, receiver.name] = told.get((name, receiver.name), str(past))
        keep(self._store, [(*key, state) for key, state in begun.items()])
        return begun

    def _serve_ledger(self, receiver: Receiver, name: str, number: int) -> None:
        entries = self._campaigns[name].entries
        sent = number
        for entry in entries[number:]:
            event = event_of(entries, entry, self._link(name, entry))
            if event is not None:
                self._send(receiver, f"{name}/{entry.number}", event, campaign=name)
                sent = entry.number
                keep(self._store, [(name, receiver.name, str(sent))])
        if len(entries) > sent:
            keep(self._store, [(name, receiver.name, str(len(entries)))])

    def _serve_learner(self, receiver: Receiver, flags: dict[str, Any]) -> None:
        token, at = self._heard
        # After a restart the time starts again, but no beat has come since the "silent" event.
        silent = flags["silent"] == token or self._clock() - at > self._silent_after
        if silent == (flags["silent"] is not None):
            return
        since = token if silent else flags["silent"]  # the beat after which it was silent
        seconds = round(self._silent_after)
        text = f"no learner was heard for {seconds} s" if silent else "the learner is heard again"
        name = "learner-silent" if silent else "learner-heard"
        self._send(receiver, f"{name}/{since}", {"type": name, "data": {"text": text}})
        self._keep_flags(receiver, flags, silent=since if silent else None)

    def _serve_refusals(
        self, receiver: Receiver, flags: dict[str, Any], rising: Mapping[str, int]
    ) -> None:
        for name, count in rising.items():
            if name not in flags["rising"]:
                text = f"{count} reports were refused within {round(WINDOW / 60)} minutes"
                event = {"type": "refusals-rising", "data": {"text": text, "refused": count}}
                number = self._counts[name][-1][1]
                self._send(receiver, f"{name}/refusals/{number}", event, campaign=name)
                self._keep_flags(receiver, flags, rising=[*flags["rising"], name])
        if calm := [name for name in flags["rising"] if name not in rising]:
            left = [name for name in flags["rising"] if name not in calm]
            self._keep_flags(receiver, flags, rising=left)

    def _keep_flags(self, receiver: Receiver, flags: dict[str, Any], **changes: Any) -> None:
        flags |= changes
        keep(self._store, [(ALL, receiver.name, json.dumps(flags))])

    def _send(self, receiver: Receiver, told: str, event: Event, campaign: str = "") -> None:
        data = dict(event["data"]) | ({"campaign": campaign} if campaign else {})
        at = event.get("timestamp") or server_time()
        whole = {"id": told, "type": event["type"], "timestamp": at, "data": data}
        receiver.send(whole)
        self._failures.pop(receiver.name, None)
        sent = {"receiver": receiver.shown, "type": event["type"], "id": told}
        logger.info("notice delivered", extra={"told": sent})

    def _link(self, name: str, entry: Entry) -> str:
        if not self._url:
            return ""
        page = f"{self._url}/studies/{name}"
        return f"{page}/candidates/{entry.number}" if entry.kind == "candidate" else page

    def _rising(self, name: str, now: float) -> int:
        """Return the number of refusals in the window if it is high, else 0."""
        counts = self._counts.setdefault(name, deque())
        found = heads(self._campaigns[name])
        counts.append((now, found["refusals"].length, found["episodes"].length))
        while now - counts[0][0] > WINDOW:
            counts.popleft()
        (_, refused_before, recorded_before), (_, refused, recorded) = counts[0], counts[-1]
        refused, recorded = refused - refused_before, recorded - recorded_before
        share = refused / max(1, refused + recorded)
        return refused if refused >= MOST_REFUSED and share > MOST_SHARE else 0

    def _tell(self, name: str, error: Exception) -> None:
        """Log an error of a campaign, unless it is the same as the last."""
        if self._told.get(name) != str(error):
            self._told[name] = str(error)
            logger.error("notices refused", extra={"told": {"campaign": name, "why": str(error)}})


class _OneSender:
    """The lock of the sending process: a file beside an SQLite store, or a server's lock."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file: int | None = None
        self._connection: Connection | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; return whether this process holds it."""
        return self._acquire_file() if self._store.is_sqlite else self._acquire_server()

    def _acquire_file(self) -> bool:
        if self._file is not None:
            return True
        assert self._store.path is not None
        file = os.open(f"{self._store.path.resolve()}.notices", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        self._file = file
        return True

    def _acquire_server(self) -> bool:
        if self._connection is not None:
            try:  # a restarted server has lost the lock
                self._connection.exec_driver_sql("SELECT 1")
                return True
            except sa.exc.DBAPIError:
                self.release()
        with self._store.plainly("read"):
            connection = self._store.engine.connect()
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            asked = sa.select(sa.func.pg_try_advisory_lock(sa.func.hashtext("sender of notices")))
            if connection.execute(asked).scalar():
                self._connection = connection
                return True
            connection.close()
            return False

    def release(self) -> None:
        """Release the lock, if this process holds it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._connection is not None:
            self._connection.invalidate()  # a lock ends with its session
            with suppress(sa.exc.DBAPIError):
                self._connection.close()
            self._connection = None
