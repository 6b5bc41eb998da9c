"""The server: the process that answers requests, and the learner's process."""

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rareswitch.campaigns.access import Access, Grant, operator
from rareswitch.campaigns.campaign import list_campaigns
from rareswitch.campaigns.errors import UnavailableError
from rareswitch.campaigns.rulebook.names import same_person
from rareswitch.campaigns.store import Store, open_store
from rareswitch.service.api import ENDPOINTS
from rareswitch.service.app import Service, Settings, make_app
from rareswitch.service.learner import run_learner
from rareswitch.service.notices import Notices
from rareswitch.service.openapi import describe
from rareswitch.service.pages import PAGES, STATIC, render_problem
from rareswitch.service.receivers import Receiver
from rareswitch.service.telemetry import begin_log, logger

GRACE = 10.0  # seconds for requests to end
LEARNER_GRACE = 5.0  # seconds for the learner to end, from the same moment
HEADERS_WITHIN = 15.0  # seconds from the start of a request to the end of its headers
BODY_WITHIN = 120.0  # seconds from there to the end of its body
LONGEST_PAUSE = 30.0  # seconds between two starts of a crashing learner


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The address to listen on, the store, and the processes."""

    store: str
    host: str = "127.0.0.1"
    port: int = 8000
    learner: bool = True
    every: float = 1.0
    log_format: str = "text"
    log_level: int = logging.INFO
    receivers: tuple[Receiver, ...] = ()
    service: Settings


def make_service(store: Store, settings: Settings) -> tuple[Service, Any]:
    """Return the service of a store and its application."""
    service = Service(store=store, settings=settings, access=Access(store))
    service.description = describe(ENDPOINTS)
    endpoints = (*ENDPOINTS, *PAGES)
    return service, make_app(service, endpoints, static=STATIC, render_problem=render_problem)


def first_link(service: Service, name: str) -> str | None:
    """Return the link of the first administrator; None if another is invited or active."""
    others = [one for one in service.access.accounts() if not same_person(one.name, name)]
    everywhere = Grant("*", "administrator")
    if not service.access.is_new or any(everywhere in one.grants for one in others):
        return None
    grants = [Grant("*", "administrator")]
    secret = service.access.invite(name, grants, by=operator(name))
    return f"{service.settings.public_url.rstrip('/')}/invitations/{secret}"


class Connection(HttpToolsProtocol):
    """A connection that is closed unless each of its requests arrives in time.

    The base class waits forever for the rest of a request, and idle connections count against the
    limit of open connections: a stranger could lock everybody out.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(HEADERS_WITHIN)

    def on_message_begin(self) -> None:
        self._expect(HEADERS_WITHIN)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._expect(BODY_WITHIN)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._expect(None)
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def _expect(self, seconds: float | None) -> None:
        """Set the seconds to wait for the next part of a request; None if no part is due."""
        if self._deadline is not None:
            self._deadline.cancel()
        later = None if seconds is None else self.loop.call_later(seconds, self._close)
        self._deadline = later

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket on an address; the error has the reason if that is impossible."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Send answers at once: asyncio's own loop would wait 40 ms for a full packet.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise UnavailableError(
            f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}; give "
            "another address with --bind"
        ) from None
    made.set_inheritable(True)
    return made


class _Server(uvicorn.Server):
    """End in order after a signal: streams of live events and the learner end first.

    The base class raises the signal again at the end; this would end the process before the store
    is closed.
    """

    def __init__(self, config: uvicorn.Config, service: Service, stopping: threading.Event) -> None:
        super().__init__(config)
        self._service, self._stopping = service, stopping

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._service.is_stopping = True
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
        self._stopping.set()


def serve(
    settings: ServerSettings,
    *,
    administrator: str = "administrator",
    tell: Callable[[str], None] = print,
    beside: Sequence[Callable[[Service, threading.Event], None]] = (),
) -> None:
    """Serve until SIGTERM or Ctrl-C; all acknowledged work is on disk.

    A missing store is created once the service has its address, and `tell` says that it is empty.
    Each function of `beside` runs in a thread until the event is set.
    """
    begin_log(as_json=settings.log_format == "json", level=settings.log_level)
    with (
        listen(settings.host, settings.port) as listening,
        open_store(settings.store, create=True) as store,
    ):
        service, app = make_service(store, settings.service)
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            host=settings.host,
            port=settings.port,
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=True,
            timeout_graceful_shutdown=int(GRACE),
            limit_concurrency=1000,
            h11_max_incomplete_event_size=65536,
        )
        stopping = threading.Event()
        server = _Server(config, service, stopping)
        threads = [
            threading.Thread(target=one, args=(service, stopping), daemon=True) for one in beside
        ]
        if settings.receivers:
            notices = Notices(store, settings.receivers, public_url=settings.service.public_url)
            threads.append(threading.Thread(target=notices.follow, args=(stopping,), daemon=True))
        if settings.learner:
            threads.append(threading.Thread(target=_keep_learner, args=(settings, stopping)))
        empty = service.access.is_new and not list_campaigns(store)
        link = first_link(service, administrator)
        tell(f"rareswitch serves {store.url} at {settings.service.public_url}")
        if empty:
            tell("the store is empty: it has no campaign and no account")
        if link is not None:
            tell(f"the first administrator, {administrator}, sets a password here, once:\n  {link}")
        with server.capture_signals():
            for thread in threads:
                thread.start()
            try:
                server.run(sockets=[listening])
            finally:
                stopping.set()
                end = time.monotonic() + GRACE
                for thread in threads:
                    thread.join(max(0.0, end - time.monotonic()))
    logger.info("stopped")


def _keep_learner(settings: ServerSettings, stopping: threading.Event) -> None:
    """Keep a learner's process running until the service stops."""
    context = multiprocessing.get_context("spawn")
    pause = 1.0
    while not stopping.is_set():
        process = context.Process(
            target=run_learner,
            args=(
                settings.store, settings.service.allow, settings.service.rehearsal, settings.every,
                settings.log_format, os.getpid(),
            ),
            name="rareswitch-learner",
        )  # fmt: skip
        process.start()
        began = time.monotonic()
        while process.is_alive() and not stopping.wait(0.2):
            pass
        if stopping.is_set():
            process.terminate()
            process.join(LEARNER_GRACE)
            if process.is_alive():  # in a long fit, which stores nothing
                process.kill()
                process.join()
            return
        if time.monotonic() - began > LONGEST_PAUSE:
            pause = 1.0
        told = {"code": process.exitcode, "again_in": pause}
        logger.error("learner died", extra={"told": told})
        stopping.wait(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
