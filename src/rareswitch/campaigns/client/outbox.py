"""The outbox: reports on disk, in order of arrival, until the server acknowledges them."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rareswitch.campaigns.client import durable
from rareswitch.campaigns.client.folder import Folder, name_of
from rareswitch.campaigns.errors import ConflictError
from rareswitch.campaigns.rulebook.rows import canonical, digest_of

NAME = re.compile(r"(\d{12})-([0-9a-f]{32})-([0-9a-f]{16})")  # number, episode, content
MOST_REPORTS, MOST_BYTES = 100, 2**20  # in one request


class Waiting(NamedTuple):
    """A pending report, and the name of its file."""

    name: str
    report: dict[str, Any]


class Refused(NamedTuple):
    """A report that the server refused, and its problem document."""

    name: str
    report: dict[str, Any]
    problem: dict[str, Any]
    at: str


class Outbox:
    """The pending and refused reports of a folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def put(self, report: Mapping[str, Any]) -> bool:
        """Put a report on disk; return False if the same report is there already."""
        content = digest_of(canonical(report))[:16]
        episode = name_of(report["id"])
        with self._folder.locked():
            last = 0
            for name in self._names():
                number, of_episode, of_content = name.split("-")
                last = int(number)
                if of_episode == episode:
                    if of_content == content:
                        return False
                    raise ConflictError(
                        f"episode {report['id']} waits in the outbox with different content; a "
                        "report is never overwritten"
                    )
            self._folder.write_value(f"outbox/{last + 1:012d}-{episode}-{content}", report)
        return True

    def holds(self, episode_id: str) -> bool:
        """Return whether a report of the episode is pending."""
        return any(f"-{name_of(episode_id)}-" in name for name in self._names())

    def first(self, most: int = MOST_REPORTS) -> list[Waiting]:
        """Return the first pending reports: at most `most`, and about a megabyte."""
        found: list[Waiting] = []
        size = 0
        for name in self._names():
            if len(found) == most or size > MOST_BYTES:
                break
            path = self._folder / f"outbox/{name}"
            if (report := self._folder.read_value(f"outbox/{name}")) is not None:
                size += path.stat().st_size
                found.append(Waiting(name, report))
        return found

    def acknowledge(self, waiting: Waiting) -> None:
        """Remove a report that the server has recorded."""
        durable.remove(self._folder / f"outbox/{waiting.name}")

    def refuse(self, waiting: Waiting, problem: Mapping[str, Any], at: str) -> None:
        """Move a report to `refused`, with the reason; nothing sends it again."""
        told = {"report": waiting.report, "problem": problem, "at": at}
        with self._folder.locked():
            self._folder.write_value(f"refused/{waiting.name}", told)
            durable.remove(self._folder / f"outbox/{waiting.name}")

    def refused(self) -> list[Refused]:
        """Return the refused reports, with reasons."""
        found = [
            (name, self._folder.read_value(f"refused/{name}"))
            for name in self._folder.names("refused")
        ]
        return [Refused(name, **told) for name, told in found if told is not None]

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> list[str]:
        return [name for name in self._folder.names("outbox") if NAME.fullmatch(name)]
