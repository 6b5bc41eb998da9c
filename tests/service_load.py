"""Sites that assign and report over HTTP, ask again until they are answered, and keep the answers.

At the end the log must have each acknowledged episode once, at the place that was told.
"""

import http.client
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import rareswitch as rs
from campaign_builders import chain, check_chains
from rareswitch.campaigns import Campaign, open_store, verify
from running_service import report_of, study
from service_process import DOWN, PATIENCE, ServiceProcess, ask, tokens_of_sites, wait_until

CLIENTS = 16
LEAST = 3  # kills of every drill
PATHS = {name: f"/v1/campaigns/doors/{name}" for name in ("assignments", "episodes", "policy")}


@dataclass
class Site:
    """One client with one connection, and all that it was told."""

    name: str
    token: str
    ports: tuple[int, ...]
    ended: threading.Event
    gives_up: bool = False  # when the service does not answer, in place of asking again
    assigned: dict[str, tuple[int, int]] = field(default_factory=dict)
    recorded: dict[str, int] = field(default_factory=dict)
    new: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    refused: set[str] = field(default_factory=set)  # the reasons of refusals for now
    cuts: int = 0  # connections that ended without an answer
    unexpected: list[str] = field(default_factory=list)

    def work(self) -> None:
        """Assign and report one episode after the other."""
        self._connection, number = None, 0
        try:
            while not self.ended.is_set():
                self._one_episode(number)
                number += 1
        except _GivenUp:
            pass
        except Exception as error:
            self.unexpected.append(f"{type(error).__name__}: {error}")
        finally:
            self._close()

    def _one_episode(self, number: int) -> None:
        report = report_of(number, site=self.name)
        name = report["id"]
        if number % 2:  # a report comes also without an assignment
            found = self._until_answered("assignments", {"id": name})
            self.assigned[name] = found["version"], found["member"]
        found = self._until_answered("episodes", report)
        self.new[name] += found["new"]
        self.recorded[name] = found["seq"]
        if number % 5 == 0:  # sent twice, as by a client that lost the answer
            again = self._until_answered("episodes", report)
            self.new[name] += again["new"]
            if again["seq"] != found["seq"]:
                self.unexpected.append(f"{name}: row {found['seq']}, then row {again['seq']}")

    def _until_answered(self, what: str, body: dict) -> dict:
        """Send a request again until the service says that it is done."""
        while True:
            try:
                status, headers, data = self._ask(what, body)
            except DOWN:
                self._close()
                self.cuts += 1
                if self.gives_up:
                    raise _GivenUp from None
                time.sleep(0.2)
                continue
            self.statuses[status] += 1
            if status in (200, 201):
                return json.loads(data)
            if status not in (503, 507) or "Retry-After" not in headers:
                raise AssertionError(f"{what}: {status} {data[:500]!r}")
            if "problem+json" not in headers["Content-Type"]:
                raise AssertionError(f"{what}: {status} as {headers['Content-Type']}")
            self.refused.add(json.loads(data)["detail"])
            time.sleep(0.05)

    def _ask(self, what: str, body: dict):
        if self._connection is None:
            port = self.ports[(self.cuts + hash(self.name)) % len(self.ports)]
            self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        return ask(self._connection, "POST", PATHS[what], self.token, body)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _GivenUp(Exception):  # noqa: N818 it is no error
    """The service does not answer any more."""


class Load:
    """Sites that work in threads of this process until the block is left."""

    def __init__(self, tokens: dict[str, str], *ports: int, gives_up: bool = False) -> None:
        self.ended = threading.Event()
        self.sites = [
            Site(name, token, ports, self.ended, gives_up) for name, token in tokens.items()
        ]
        self._threads = [threading.Thread(target=site.work, daemon=True) for site in self.sites]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()

    def join(self) -> None:
        """Wait until every site has its last answer."""
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a site still waits for an answer"

    @property
    def acknowledged(self) -> int:
        return sum(len(site.recorded) for site in self.sites)

    @property
    def statuses(self) -> Counter[int]:
        return sum((site.statuses for site in self.sites), Counter[int]())

    @property
    def refused(self) -> set[str]:
        return set[str]().union(*(site.refused for site in self.sites))

    @property
    def cuts(self) -> int:
        return sum(site.cuts for site in self.sites)

    @property
    def unexpected(self) -> list[str]:
        return [one for site in self.sites for one in site.unexpected]

    def wait_for(self, more: int) -> None:
        """Wait until so many more episodes are acknowledged."""
        before = self.acknowledged
        wait_until(
            lambda: self.acknowledged >= before + more or self.unexpected,
            "no episode is acknowledged any more",
            every=0.002,
        )
        assert not self.unexpected, self.unexpected


def check_record(url: str, load: Load) -> int:
    """Compare the record with the answers; return the number of recorded episodes.

    Every site has asked until it was answered, so neither may have more than the other.
    """
    assert load.unexpected == []
    told = {name: seq for site in load.sites for name, seq in site.recorded.items()}
    members = {name: one for site in load.sites for name, one in site.assigned.items()}
    with open_store(url) as store:
        campaign = Campaign(store, "doors")
        rows = chain(campaign, "episodes")
        assert {row.episode_id: row.seq for row in rows} == told
        assert [row.seq for row in rows] == list(range(1, len(told) + 1))
        assigned = chain(campaign, "assignments")
        found = {row.episode_id: (row.version, row.member) for row in assigned}
        assert {name: found.get(name) for name in members} == members
        assert len(found) == len(assigned)
        assert chain(campaign, "refusals") == []
        check_chains(campaign)
        assert verify(campaign).problems == []
    twice = [name for site in load.sites for name, count in site.new.items() if count > 1]
    assert twice == []
    return len(rows)


def large_study(**changes):
    """Return a study that no drill fills: the schedule deploys a policy every 50 episodes."""
    task = rs.Task(dim=6, horizon=1, episodes=100_000, one_hot=True)
    told = {"task": task, "schedule": rs.UniformGrid(batches=2000), "budget": 2000}
    return study(**(told | {"approval": rs.campaigns.Approval(by="schedule")} | changes))


@dataclass(frozen=True)
class Drill:
    """The figures of a drill."""

    kills: int
    while_starting: int
    episodes: int
    assignments: int
    requests: int
    cuts: int
    versions: int
    median_start: float
    longest_orphan: float


def kill_under_load(
    url: str, folder: Path, *, kills: int, seconds: float = float("inf"), seed: int = 7
) -> Drill:
    """Kill the service -9 again and again while sites assign and report; check the record.

    About one kill in four comes at a random point of the start. `seconds` ends the drill early,
    after LEAST kills. At the end the learner must still deploy policies.
    """
    chance, began, starts, orphans = random.Random(seed), time.monotonic(), list[float](), [0.0]
    tokens = tokens_of_sites(url, [f"site{k}" for k in range(CLIENTS)], *large_study())
    done = while_starting = 0
    with ServiceProcess(url, folder) as service:
        service.start()
        with Load(tokens, service.port) as load:
            while done < kills and (done < LEAST or time.monotonic() < began + seconds):
                load.wait_for(chance.randrange(1, 150))
                service.kill()
                killed, done = time.monotonic(), done + 1
                if done < kills and done % 4 == 2:
                    service.start(wait=False)
                    time.sleep(chance.uniform(0.0, 1.5 * median(starts or [1.0])))
                    service.kill()
                    done, while_starting = done + 1, while_starting + 1
                begun = time.monotonic()
                service.start()
                starts.append(time.monotonic() - begun)
                wait_until(lambda: not service.orphans(), f"orphans: {service.orphans()}")
                orphans.append(time.monotonic() - killed)
            load.wait_for(CLIENTS)
            with open_store(url) as store:
                campaign = Campaign(store, "doors")
                version = campaign.version
                wait_until(lambda: campaign.version > version, "nobody learns any more", every=0.5)
        status = service.stop()
        assert status == 0, f"exit status {status}"
        wait_until(lambda: not service.orphans(), "a process outlives the service")
    episodes = check_record(url, load)
    with open_store(url) as store:
        versions = Campaign(store, "doors").version
        assignments = len(chain(Campaign(store, "doors"), "assignments"))
    return Drill(
        kills=done,
        while_starting=while_starting,
        episodes=episodes,
        assignments=assignments,
        requests=load.statuses.total(),
        cuts=load.cuts,
        versions=versions,
        median_start=round(median(starts), 2),
        longest_orphan=round(max(orphans), 2),
    )
