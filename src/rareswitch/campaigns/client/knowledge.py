"""A site's cache of its campaign: the last verified policy, protocol and feature map, on disk.

Bytes are verified against their digest before they are stored, and stored before anything refers
to them. An offline site continues with its cache.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from rareswitch.campaigns.client.agreement import Agreement
from rareswitch.campaigns.client.exchange import (
    BYTES,
    Answer,
    Conversation,
    OfflineError,
    Request,
)
from rareswitch.campaigns.client.folder import Folder
from rareswitch.campaigns.client.line import Line, Timing
from rareswitch.campaigns.errors import CampaignError
from rareswitch.campaigns.rulebook.rows import digest_of
from rareswitch.core.policy import Policy

FILE = "campaign.json"
MOST_POLICIES = 8  # in memory


@dataclass(frozen=True, kw_only=True)
class Known:
    """The last verified answers of the server; `fetched` is the time."""

    version: int
    digest: str  # of the policy
    protocol: dict[str, Any]
    summary: dict[str, Any]
    fetched: str

    @property
    def stopped(self) -> bool:
        return bool(self.summary.get("stopped"))


class Knowledge:
    """The last fetched version in force, its policy and the protocol.

    They are fetched again when they are older than `fresh_for` seconds.
    """

    def __init__(
        self,
        folder: Folder,
        line: Line,
        *,
        fresh_for: float,
        timing: Timing,
    ) -> None:
        self.folder, self.line = folder, line
        self._fresh_for, self._timing = fresh_for, timing
        self._fresh_until = -float("inf")
        self._policies: dict[str, Policy] = {}
        self._agreement: Agreement | None = None

    @property
    def last(self) -> Known | None:
        """The last verified answers, perhaps from another process; None before the first."""
        values = self.folder.read_value(FILE)
        return None if values is None else Known(**values)

    @property
    def known(self) -> Known:
        """The last verified answers; raise before the first."""
        if (found := self.last) is None:
            raise OfflineError(
                "the policy was never fetched into this folder; call refresh() once while the "
                "server can be reached"
            )
        return found

    @property
    def agreement(self) -> Agreement:
        """The protocol, with its feature map from disk."""
        tables = self.known.protocol
        if self._agreement is None or self._agreement.tables != tables:
            terms = Agreement(tables=tables).features
            data = None if terms is None else self.folder.artifact(terms.digest)
            if terms is not None and data is None:
                raise self._missing("feature map", terms.digest)
            self._agreement = Agreement(tables=tables, map=data)
        return self._agreement

    @property
    def policy(self) -> Policy:
        """The last verified policy in force."""
        digest = self.known.digest
        if (found := self.policy_of(digest)) is None:
            raise self._missing("policy", digest)
        return found

    def policy_of(self, digest: str) -> Policy | None:
        """Return a policy from disk, if its bytes match their digest."""
        if digest not in self._policies:
            data = self.folder.artifact(digest)
            if data is None:
                return None
            while len(self._policies) >= MOST_POLICIES:
                self._policies.pop(next(iter(self._policies)), None)
            self._policies[digest] = Policy.from_bytes(data)
        return self._policies[digest]

    def _missing(self, what: str, digest: str) -> OfflineError:
        return OfflineError(
            f"the {what} {digest[:12]}… is not in {self.folder.path}; call refresh() while the "
            "server can be reached"
        )

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Report success or failure to the line; any answer of the service is a success."""
        try:
            yield
        except OfflineError as error:
            self.line.failed(str(error), error.fields.get("retry_after"))
            raise
        except CampaignError:
            self.line.worked()
            raise
        self.line.worked()

    def freshen(self) -> Conversation[None]:
        """Refresh if the last answer is old; without an answer, keep the cache."""
        known = self.last is not None
        if known and (self._timing.clock() < self._fresh_until or self.line.wait):
            return
        try:
            yield from self.refresh()
        except OfflineError:
            if not known:
                raise

    def refresh(self) -> Conversation[bool]:
        """Fetch summary, protocol, feature map and policy; return whether the version changed.

        The server sends only changed parts.
        """
        before = self.last
        with self.asking():
            summary = _table((yield Request()).checked(), "the campaign")
            tables = yield from self._fetch_protocol(summary, before)
            agreement = yield from self._fetch_map(Agreement(tables=tables))
            version, digest = yield from self._fetch_policy(agreement, before)
        known = Known(
            version=version,
            digest=digest,
            protocol=tables,
            summary=summary,
            fetched=self._timing.now(),
        )
        with self.folder.locked():
            self.folder.write_value(FILE, asdict(known))
        self._fresh_until = self._timing.clock() + self._fresh_for
        return before is None or before.version != version

    def _fetch_protocol(
        self, summary: dict[str, Any], before: Known | None
    ) -> Conversation[dict[str, Any]]:
        wanted = summary.get("protocol")
        if before is not None and Agreement(tables=before.protocol).digest == wanted:
            return before.protocol
        tables = _table((yield Request(path="/protocol")).checked(), "a protocol")
        agreement = Agreement(tables=tables)
        if agreement.digest != wanted:  # altered, or amended after the summary
            raise OfflineError(
                f"the protocol must have the SHA-256 {wanted}; got {agreement.digest}"
            )
        return tables

    def _fetch_map(self, agreement: Agreement) -> Conversation[Agreement]:
        """Return the agreement with its feature map, if any; the map is then on disk."""
        terms = agreement.features
        if terms is None:
            return agreement
        kept = data = self.folder.artifact(terms.digest)
        if data is None:
            answer = (yield Request(path="/features", accept=BYTES)).checked()
            data = verified(answer, terms.digest, "feature map")
        found = Agreement(tables=agreement.tables, map=data)
        _ = found.observer  # raises if the map does not fit the task
        if kept is None:
            self.folder.keep_artifact(terms.digest, data)
        return found

    def _fetch_policy(
        self, agreement: Agreement, before: Known | None
    ) -> Conversation[tuple[int, str]]:
        """Return version and digest of the policy in force; its bytes are then on disk."""
        mine = None if before is None or self.policy_of(before.digest) is None else before.digest
        answer = (yield Request(path="/policy", known=mine, accept=BYTES)).checked()
        if answer.status == 304 and "x-version" not in answer.headers:
            # A rollback gives known bytes a new version, so the answer must name the version.
            answer = (yield Request(path="/policy", accept=BYTES)).checked()
        version = answer.headers.get("x-version", "")
        digest = mine if answer.status == 304 else answer.etag
        if not version.isdecimal() or int(version) < 1 or digest is None:
            raise OfflineError(
                "the answer must have X-Version and ETag of the policy; is it a rareswitch service?"
            )
        if answer.status != 304:
            self._keep_policy(answer, digest, agreement)
        return int(version), digest

    def fetch_version(self, version: int, digest: str) -> Conversation[Policy]:
        """Return the policy of a version, from disk or from the server."""
        if (policy := self.policy_of(digest)) is None:
            with self.asking():
                answer = (yield Request(path=f"/policies/{version}", accept=BYTES)).checked()
                self._keep_policy(answer, digest, self.agreement)
            policy = self.policy_of(digest)
            assert policy is not None
        return policy

    def _keep_policy(self, answer: Answer, digest: str, agreement: Agreement) -> None:
        data = verified(answer, digest, "policy")
        agreement.check(Policy.from_bytes(data))
        self.folder.keep_artifact(digest, data)


def verified(answer: Answer, digest: str, what: str) -> bytes:
    """Return the bytes of an answer; raise if their SHA-256 differs."""
    if (found := digest_of(answer.body)) != digest:
        raise OfflineError(
            f"the {what} must have the SHA-256 {digest}; got {found} of {len(answer.body)} bytes: "
            "it was cut off or altered on the way, and is not used"
        )
    return answer.body


def _table(answer: Answer, what: str) -> dict[str, Any]:
    if answer.status == 200 and isinstance(values := answer.values, dict):
        return values
    raise OfflineError(f"the answer must be {what} in JSON; is it a rareswitch service?")
