"""The blocking client of a campaign."""

import os
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from rareswitch.campaigns.client.assignments import Assignment
from rareswitch.campaigns.client.connection import Address, answer_of, settings
from rareswitch.campaigns.client.episode import Episode
from rareswitch.campaigns.client.exchange import Answer, Conversation, Request, advance
from rareswitch.campaigns.client.line import Timing
from rareswitch.campaigns.client.outbox import Refused
from rareswitch.campaigns.client.sending import Flushed
from rareswitch.campaigns.client.site import ClientStatus, Site
from rareswitch.campaigns.report import Report
from rareswitch.core.policy import Policy

T = TypeVar("T")
LEAST_PAUSE = 1.0  # seconds between tries while another process sends


class Client:
    """A site of a campaign: it acts by the last verified policy, and reports when it can.

    `token` defaults to the environment variable RARESWITCH_TOKEN. `folder` holds policy, episodes
    and reports, by default `~/.local/state/rareswitch`; several processes may share it. With
    `assign`, the server assigns every episode, even if the protocol does not require it. A policy
    older than `fresh_for` seconds is fetched again. With `background`, a thread sends reports;
    without it, `flush` does.
    """

    def __init__(
        self,
        url: str,
        campaign: str,
        *,
        token: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        assign: bool = False,
        background: bool = True,
        fresh_for: float = 60.0,
        timeout: float = 10.0,
        insecure: bool = False,
        transport: httpx.BaseTransport | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._address = Address(url, campaign, token, insecure=insecure)
        self._timing = timing or Timing()
        self._background = background
        self._wake, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._http = httpx.Client(**settings(timeout, transport))
        self._site = Site(
            self._address.folder(folder),
            campaign,
            assign=assign,
            fresh_for=fresh_for,
            timing=self._timing,
            on_report=self._start,
        )
        self._site.recover()
        if len(self._site.outbox):
            self._start()

    @property
    def policy(self) -> Policy:
        """The last verified policy in force, without a request."""
        return self._site.knowledge.policy

    def status(self) -> ClientStatus:
        """Return the status of the client, without a request."""
        return self._site.status

    def refresh(self) -> bool:
        """Fetch the policy in force and the protocol; return whether the version changed."""
        return self._run(self._site.knowledge.refresh())

    def reserve(self, ids: Sequence[str]) -> list[Assignment]:
        """Request assignments for episodes that begin later, perhaps offline."""
        return self._run(self._site.assignments.reserve(ids))

    def reserved(self) -> list[str]:
        """Return the ids of unused reserved assignments."""
        return self._site.assignments.reserved()

    def episode(self, episode_id: str, **claims: Any) -> Episode:
        """Begin or continue the episode of that id.

        `claims` are site, began, subgroup, events or participant of its report.
        """
        return self._run(self._site.begin(episode_id, claims))

    def unfinished(self) -> list[str]:
        """Return the ids of episodes in progress, in any process."""
        return self._site.unfinished()

    def cancel(self, episode_id: str, reason: str) -> None:
        """Cancel an episode that never began.

        The ledger names the person who cancels an assignment, so the token must belong to a
        person's account.
        """
        self._run(self._site.cancel(episode_id, reason))

    def report(self, report: Report | Mapping[str, Any]) -> None:
        """Put the report of an episode that was played elsewhere into the outbox."""
        self._site.put(report)

    def flush(self, wait: float = 0.0) -> Flushed:
        """Send pending reports now; retry for up to `wait` seconds if the connection fails."""
        end = self._timing.clock() + wait
        recorded = refused = 0
        while True:
            found = self._run(self._site.send())
            recorded, refused = recorded + found.recorded, refused + found.refused
            left = end - self._timing.clock()
            if found.error is None or left <= 0.0:
                return found._replace(recorded=recorded, refused=refused)
            self._timing.sleep(min(self._site.line.wait or LEAST_PAUSE, left))

    def refused(self) -> list[Refused]:
        """Return the reports that the server refused, with its reasons."""
        return self._site.outbox.refused()

    def close(self) -> None:
        """End the thread and the connections; pending reports stay on disk."""
        self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._address!r}, folder={str(self._site.folder.path)!r})"

    def _run(self, talk: Conversation[T]) -> T:
        answer: Answer | Exception | None = None
        try:
            while True:
                request, result = advance(talk, answer)
                if request is None:
                    return result
                answer = self._answer(request)
        finally:
            talk.close()

    def _answer(self, request: Request) -> Answer | Exception:
        try:
            return answer_of(self._http.request(**self._address.arguments(request)))
        except httpx.HTTPError as error:
            return self._address.offline(error)

    def _start(self) -> None:
        """Start or wake the thread that sends reports; a forked child starts its own thread."""
        if not self._background or self._closed.is_set():
            return
        self._wake.set()
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._send_all, name="rareswitch reports", daemon=True
                )
                self._thread.start()

    def _send_all(self) -> None:
        while not self._closed.is_set():
            self._wake.wait()
            self._wake.clear()
            while not self._closed.is_set() and not self._is_sent():
                self._closed.wait(self._site.line.wait or LEAST_PAUSE)

    def _is_sent(self) -> bool:
        """Send pending reports; return whether none is left."""
        try:
            return self._run(self._site.send()).error is None
        except Exception as error:  # a full disk or a closed connection: `status` shows it
            self._site.line.failed(str(error))
            return False
