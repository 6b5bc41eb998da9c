"""A site of a campaign: its episodes, its outbox, and every conversation with the server.

Conversations are generators (`exchange.py`), so this module is independent of the HTTP library.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NamedTuple

from rareswitch.campaigns.client.assignments import Assignment, Assignments
from rareswitch.campaigns.client.episode import Episode, check_report, checked_claims
from rareswitch.campaigns.client.exchange import Conversation, OfflineError, Request
from rareswitch.campaigns.client.folder import Folder
from rareswitch.campaigns.client.journal import Journal, read_lines
from rareswitch.campaigns.client.knowledge import Knowledge
from rareswitch.campaigns.client.line import Line, Timing
from rareswitch.campaigns.client.outbox import Outbox
from rareswitch.campaigns.client.sending import Flushed, send
from rareswitch.campaigns.errors import CampaignError, ConflictError, DamagedError
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.rulebook.names import checked_name
from rareswitch.support.arguments import short_repr


class ClientStatus(NamedTuple):
    """The status of a client, without a request."""

    campaign: str
    version: int | None
    digest: str | None
    fetched: str | None  # the time of the last successful refresh
    stopped: bool
    waiting: int  # reports in the outbox
    refused: int  # reports
    damaged: int  # files
    in_progress: int  # episodes
    reserved: int  # unused assignments
    failures: int  # consecutive, to reach the server
    error: str | None  # of the last failure


class Site:
    """The episodes and reports of a client, on disk; `on_report` is called for each report."""

    def __init__(
        self,
        folder: Folder,
        campaign: str,
        *,
        assign: bool,
        fresh_for: float,
        timing: Timing,
        on_report: Callable[[], None],
    ) -> None:
        self.folder, self.campaign, self.now = folder, campaign, timing.now
        self.line, self._on_report = Line(timing), on_report
        self.knowledge = Knowledge(folder, self.line, fresh_for=fresh_for, timing=timing)
        self.assignments = Assignments(self.knowledge, always=assign)
        self.outbox = Outbox(folder)

    @property
    def status(self) -> ClientStatus:
        known = self.knowledge.last
        return ClientStatus(
            campaign=self.campaign,
            version=None if known is None else known.version,
            digest=None if known is None else known.digest,
            fetched=None if known is None else known.fetched,
            stopped=known is not None and known.stopped,
            waiting=len(self.outbox),
            refused=len(self.folder.names("refused")),
            damaged=len(self.folder.names("damaged")),
            in_progress=len(self.unfinished()),
            reserved=len(self.assignments.reserved()),
            failures=self.line.failures,
            error=self.line.error,
        )

    def begin(self, episode_id: str, claims: Mapping[str, Any]) -> Conversation[Episode]:
        """Begin or continue the episode of that id."""
        checked_name("episode_id", episode_id)
        if (episode := self._resume(episode_id)) is not None:
            if claims:
                episode.tell(**claims)
            return episode
        if self.outbox.holds(episode_id):
            raise ConflictError(f"episode {episode_id} is over: its report waits in the outbox")
        given = yield from self.assignments.find(episode_id)
        yield from self.knowledge.fetch_version(given.version, given.digest)
        told = checked_claims(self.knowledge.agreement, claims)
        first = {"begin": asdict(given), "claims": told}
        return self._opened(Journal.create(self.folder, episode_id, first))

    def _resume(self, episode_id: str) -> Episode | None:
        """Open the episode in progress of that id; an ended episode goes to the outbox."""
        journal = Journal.open(self.folder, episode_id)
        if journal is None:
            return None
        try:
            episode = self._opened(journal)
            if episode.is_over:
                episode.finish()
                return None
        except BaseException:
            journal.close()
            raise
        return episode

    def _opened(self, journal: Journal) -> Episode:
        given = Assignment(**journal.lines[0]["begin"])
        policy = self.knowledge.policy_of(given.digest)
        if policy is None:
            raise OfflineError(
                f"the policy of version {given.version}, which plays episode {given.episode_id}, "
                f"is not in {self.folder.path}"
            )
        return Episode(
            journal, given, self.knowledge.agreement, policy, put=self._finish, now=self.now
        )

    def unfinished(self) -> list[str]:
        """Return the ids of episodes in progress, in any process."""
        return [lines[0]["begin"]["episode_id"] for lines in self._journals()]

    def recover(self) -> None:
        """Put reports that a dead process left in journals into the outbox."""
        for lines in self._journals():
            # Other journals stay closed: a process may be about to begin their episodes.
            if any("report" in line or "cut" in line for line in lines):
                with suppress(CampaignError):  # another process is finishing it
                    self._resume(lines[0]["begin"]["episode_id"])

    def _journals(self) -> list[list[dict[str, Any]]]:
        """Return the lines of every journal; move unreadable journals to `damaged`."""
        found = []
        for name in self.folder.names("episodes"):
            try:
                lines, _ = read_lines((self.folder / f"episodes/{name}").read_bytes())
                found.append(lines)
            except FileNotFoundError:  # finished by another process
                continue
            except DamagedError:
                self.folder.put_aside(f"episodes/{name}")
        return found

    def put(self, report: Report | Mapping[str, Any]) -> None:
        """Put a report into the outbox; raise if it does not fit the protocol's task."""
        if isinstance(report, Report):
            values = report.plain
            if report.participant is not None:
                values["participant"] = report.participant
        elif isinstance(report, Mapping):
            values = dict(report)
        else:
            raise TypeError(f"report must be a Report or its fields; got {short_repr(report)}")
        check_report(self.knowledge.agreement, values)
        self._finish(values)

    def _finish(self, report: Mapping[str, Any]) -> None:
        self.outbox.put(report)
        self.assignments.forget(report["id"])
        self._on_report()

    def send(self) -> Conversation[Flushed]:
        """Send pending reports."""
        return (yield from send(self.knowledge, self.outbox, self.now))

    def cancel(self, episode_id: str, reason: str) -> Conversation[None]:
        """Cancel an episode that never began; inform the server if it assigned the episode."""
        checked_name("episode_id", episode_id)
        journal = Journal.open(self.folder, episode_id)
        try:
            begun = None if journal is None else Assignment(**journal.lines[0]["begin"])
            if begun is None or begun.assigned or self.assignments.is_asked(episode_id):
                path = f"/episodes/{episode_id}/cancellation"
                with self.knowledge.asking():
                    (yield Request(method="POST", path=path, body={"reason": reason})).checked()
            self.assignments.forget(episode_id)
            if journal is not None:
                journal.remove()
        finally:
            if journal is not None:
                journal.close()
