"""Assignments: reserved on disk, requested from the server, or drawn here from the episode's id."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rareswitch.campaigns.client import durable
from rareswitch.campaigns.client.exchange import (
    Conversation,
    NoCampaignError,
    OfflineError,
    Request,
)
from rareswitch.campaigns.client.folder import name_of
from rareswitch.campaigns.client.knowledge import Knowledge
from rareswitch.campaigns.errors import DamagedError, NotAllowedError
from rareswitch.campaigns.rulebook.names import checked_name
from rareswitch.support.arguments import short_repr

ASKED_TOGETHER = 100


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The version and member that play an episode; `key` draws the member.

    `assigned` is true if the server assigned it, false if this client drew the member from the id.
    """

    episode_id: str
    version: int
    member: int
    key: str
    digest: str
    assigned: bool = True


class Assignments:
    """The assignments of a site.

    The server is asked if the protocol requires it or if `always` is true. Otherwise the client
    draws the member from the id, as the server does for an unassigned episode.
    """

    def __init__(self, knowledge: Knowledge, *, always: bool) -> None:
        self._knowledge, self._folder, self._always = knowledge, knowledge.folder, always

    def reserve(self, ids: Sequence[str]) -> Conversation[list[Assignment]]:
        """Request assignments now; keep them and their policies on disk."""
        if isinstance(ids, str):
            raise TypeError(f"ids must be a list of episode ids; got {short_repr(ids)}")
        names = [checked_name("ids", name) for name in ids]
        yield from self._knowledge.freshen()
        found: list[Assignment] = []
        for start in range(0, len(names), ASKED_TOGETHER):
            some = yield from self._ask(names[start : start + ASKED_TOGETHER])
            with self._folder.locked():
                for one in some:
                    self._keep(one.episode_id, asdict(one))
            found += some
        return found

    def find(self, episode_id: str) -> Conversation[Assignment]:
        """Return the assignment of a new episode; its policy is then on disk."""
        kept = self._read(episode_id)
        if kept is not None and "key" in kept:
            return Assignment(**kept)
        yield from self._knowledge.freshen()
        if self._knowledge.agreement.assigned:
            why = "the protocol demands it ([intake] assigned)"
        elif self._always:
            why = "this client always asks (assign=True)"
        elif kept is not None:
            why = "the server was asked before, and its answer was lost"
        else:
            return self._drawn(episode_id)
        try:
            (found,) = yield from self._ask([episode_id])
        except NoCampaignError:
            raise
        except OfflineError as error:
            raise type(error)(
                f"episode {episode_id} cannot begin offline, the server must assign it: {why}. "
                f"Reserve assignments while the server can be reached: reserve(ids). ({error})",
                **error.fields,
            ) from error
        return found

    def _drawn(self, episode_id: str) -> Assignment:
        known = self._knowledge.known
        if known.stopped:
            raise NotAllowedError("the campaign has stopped; no episode may begin")
        return Assignment(
            episode_id=episode_id,
            version=known.version,
            member=self._knowledge.policy.allocate(episode_id),
            key=episode_id,
            digest=known.digest,
            assigned=False,
        )

    def _ask(self, ids: Sequence[str]) -> Conversation[list[Assignment]]:
        if not self._knowledge.agreement.assigned:
            # If the answer is lost, the client must not draw the member: the server may have
            # assigned the episode to another version.
            with self._folder.locked():
                for name in ids:
                    if self._read(name) is None:
                        self._keep(name, {"episode_id": name})
        body = {"id": ids[0]} if len(ids) == 1 else {"ids": list(ids)}
        with self._knowledge.asking():
            answer = (yield Request(method="POST", path="/assignments", body=body)).checked()
            rows = [answer.values] if len(ids) == 1 else answer.values
            if not isinstance(rows, list) or len(rows) != len(ids):
                raise OfflineError(f"the answer must be {len(ids)} assignments")
            found = [_assignment(*pair) for pair in zip(ids, rows, strict=True)]
        for one in found:
            policy = yield from self._knowledge.fetch_version(one.version, one.digest)
            if (drawn := policy.allocate(one.key)) != one.member:
                raise DamagedError(
                    f"episode {one.episode_id} was assigned to member {one.member}; its key draws "
                    f"member {drawn} of version {one.version}"
                )
        return found

    def reserved(self) -> list[str]:
        """Return the ids of assignments on disk that no episode has used."""
        names = self._folder.names("assignments")
        found = [self._folder.read_value(f"assignments/{name}") for name in names]
        return [one["episode_id"] for one in found if one is not None and "key" in one]

    def is_asked(self, episode_id: str) -> bool:
        """Return whether the disk shows that the server was asked for the assignment."""
        return self._read(episode_id) is not None

    def forget(self, episode_id: str) -> None:
        """Remove the assignment of an ended episode."""
        if (path := self._folder / f"assignments/{name_of(episode_id)}").exists():
            durable.remove(path)

    def _keep(self, episode_id: str, values: Mapping[str, Any]) -> None:
        self._folder.write_value(f"assignments/{name_of(episode_id)}", values)

    def _read(self, episode_id: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._folder.read_value(f"assignments/{name_of(episode_id)}")
        return found


def _assignment(episode_id: str, row: Any) -> Assignment:
    parts = {"episode_id": str, "version": int, "member": int, "key": str, "digest": str}
    if (
        not isinstance(row, dict)
        or any(not isinstance(row.get(name), kind) for name, kind in parts.items())
        or row["episode_id"] != episode_id
    ):
        raise OfflineError(f"the answer must be an assignment of {episode_id}")
    return Assignment(**{name: row[name] for name in parts})
