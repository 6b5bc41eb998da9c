"""The client of a campaign, for programs with an event loop.

The loop sends requests; threads write files, because a flush to disk takes time.
"""

import asyncio
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import httpx

from rareswitch.campaigns.client.assignments import Assignment
from rareswitch.campaigns.client.client import LEAST_PAUSE
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
P = ParamSpec("P")


class AsyncEpisode:
    """One episode in progress; `async with` or `await` begins it. See `Episode`."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._begun: Episode | None = None

    @property
    def _episode(self) -> Episode:
        if self._begun is None:
            raise ValueError("the episode must begin first: async with client.episode(id) as e")
        return self._begun

    async def __aenter__(self) -> Self:
        self._begun = await self._begin()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await in_thread(self._episode.__exit__, kind, error, trace)

    @property
    def id(self) -> str:
        return self._episode.id

    @property
    def version(self) -> int:
        return self._episode.version

    @property
    def member(self) -> int:
        return self._episode.member

    @property
    def stage(self) -> int:
        return self._episode.stage

    @property
    def waits(self) -> bool:
        return self._episode.waits

    @property
    def action(self) -> str | int:
        return self._episode.action

    @property
    def probability(self) -> float:
        return self._episode.probability

    async def act(self, observation: Any) -> str | int:
        """Return the action's name for a raw observation, or its index for feature rows."""
        return await in_thread(self._episode.act, observation)

    async def take(self, action: str | int) -> None:
        """Record that a person took another action than the recommended action."""
        await in_thread(self._episode.take, action)

    async def reward(self, reward: float) -> None:
        """Record the reward of the last action, from 0 to 1."""
        await in_thread(self._episode.reward, reward)

    async def tell(self, **claims: Any) -> None:
        """Set site, began, ended, subgroup, events or participant; the last value counts."""
        await in_thread(self._episode.tell, **claims)

    async def cut_off(self, observation: Any = None) -> None:
        """Report the episode as truncated in its last state."""
        await in_thread(self._episode.cut_off, observation)

    async def finish(self) -> None:
        """Put the report in the outbox and end the episode."""
        await in_thread(self._episode.finish)

    async def suspend(self) -> None:
        """Leave the episode on disk, to continue later."""
        await in_thread(self._episode.suspend)


class AsyncClient:
    """A site of a campaign: `Client` with the same arguments and awaitable methods.

    With `background`, a task of the event loop sends reports, starting at the first awaited method.
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
        transport: httpx.AsyncBaseTransport | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._address = Address(url, campaign, token, insecure=insecure)
        self._timing = timing or Timing()
        self._background = background
        self._http = httpx.AsyncClient(**settings(timeout, transport))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._site = Site(
            self._address.folder(folder),
            campaign,
            assign=assign,
            fresh_for=fresh_for,
            timing=self._timing,
            on_report=self._on_report,
        )
        self._site.recover()

    @property
    def policy(self) -> Policy:
        """The last verified policy in force, without a request."""
        return self._site.knowledge.policy

    async def status(self) -> ClientStatus:
        """Return the status of the client, without a request."""
        return await in_thread(lambda: self._site.status)

    async def refresh(self) -> bool:
        """Fetch the policy in force and the protocol; return whether the version changed."""
        return await self._run(self._site.knowledge.refresh())

    async def reserve(self, ids: Sequence[str]) -> list[Assignment]:
        """Request assignments for episodes that begin later, perhaps offline."""
        return await self._run(self._site.assignments.reserve(ids))

    async def reserved(self) -> list[str]:
        """Return the ids of unused reserved assignments."""
        return await in_thread(self._site.assignments.reserved)

    def episode(self, episode_id: str, **claims: Any) -> AsyncEpisode:
        """Begin or continue the episode of that id: `async with`, or `await`."""
        return AsyncEpisode(lambda: self._run(self._site.begin(episode_id, claims)))

    async def unfinished(self) -> list[str]:
        """Return the ids of episodes in progress, in any process."""
        return await in_thread(self._site.unfinished)

    async def cancel(self, episode_id: str, reason: str) -> None:
        """Cancel an episode that never began."""
        await self._run(self._site.cancel(episode_id, reason))

    async def report(self, report: Report | Mapping[str, Any]) -> None:
        """Put the report of an episode that was played elsewhere into the outbox."""
        self._start()
        await in_thread(self._site.put, report)

    async def flush(self, wait: float = 0.0) -> Flushed:
        """Send pending reports now; retry for up to `wait` seconds if the connection fails."""
        end = self._timing.clock() + wait
        recorded = refused = 0
        while True:
            found = await self._run(self._site.send())
            recorded, refused = recorded + found.recorded, refused + found.refused
            left = end - self._timing.clock()
            if found.error is None or left <= 0.0:
                return found._replace(recorded=recorded, refused=refused)
            await asyncio.sleep(min(self._site.line.wait or LEAST_PAUSE, left))

    async def refused(self) -> list[Refused]:
        """Return the reports that the server refused, with its reasons."""
        return await in_thread(self._site.outbox.refused)

    async def close(self) -> None:
        """End the task and the connections; pending reports stay on disk."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self._address!r}, folder={str(self._site.folder.path)!r})"

    async def _run(self, talk: Conversation[T]) -> T:
        self._start()
        answer: Answer | Exception | None = None
        try:
            while True:
                request, result = await in_thread(advance, talk, answer)
                if request is None:
                    return result
                answer = await self._answer(request)
        finally:
            talk.close()

    async def _answer(self, request: Request) -> Answer | Exception:
        try:
            return answer_of(await self._http.request(**self._address.arguments(request)))
        except httpx.HTTPError as error:
            return self._address.offline(error)

    def _start(self) -> None:
        """Start the task that sends reports, once, in the loop of the first awaited method."""
        if self._background and self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.create_task(self._send_all(), name="rareswitch reports")
            self._wake.set()

    def _on_report(self) -> None:
        """Wake the task; called in the thread that wrote the report."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _send_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while not await self._is_sent():
                await asyncio.sleep(self._site.line.wait or LEAST_PAUSE)

    async def _is_sent(self) -> bool:
        """Send pending reports; return whether none is left."""
        try:
            return (await self._run(self._site.send())).error is None
        except Exception as error:  # a full disk or a closed connection: `status` shows it
            self._site.line.failed(str(error))
            return False


async def in_thread(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call a function in a thread to its end; a cancelled caller waits until files are complete."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *args, **named))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # mark it as retrieved
        raise
