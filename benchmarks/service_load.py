"""The service under load: rates as ratios of one run, and CPU time of its process per request.

`wrk` (a Debian package) sends requests to a service that runs like `rareswitch serve`, with its log
in a file. The baseline of recording is an endpoint of this benchmark in the same process, with the
same guard and the same parsing of the report, but without a commit. Parts take turns of some
seconds, so a busy machine slows all of them equally. A report has one step with four actions and d
= 10: rows of features, or a raw observation of five columns with two actions. `act` has d = 100, 25
actions and 32 members, and every request assigns a new episode, which is on disk before the answer.

    python benchmarks/service_load.py --seconds 3 --rounds 5
    python benchmarks/service_load.py --only recording batches --before ../earlier/src

With `--before` the package in another folder takes turns with this package, and ratios of CPU times
measure the effect of a change.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rareswitch as rs
from rareswitch.campaigns import (
    Campaign,
    Protocol,
    Report,
    learn,
    list_campaigns,
    open_store,
    packed_features,
    status,
)
from rareswitch.campaigns.access import Access, Grant, operator
from rareswitch.features import ActionBlocks, Polynomial
from rareswitch.rules import EpisodeGrid

CALLERS, TOGETHER = 32, 100
LEARNT, HORIZON = 100_000, 5  # episodes of the log that a learner reads, and their steps
LUA = """
local number = 0
local function report()
  number = number + 1
  return before .. tag .. number .. after
end
function request()
  if method == "GET" then return wrk.format(method, nil, headers) end
  if together == 1 then return wrk.format(method, nil, headers, report()) end
  local reports = {}
  for place = 1, together do reports[place] = report() end
  return wrk.format(method, nil, headers, "[" .. table.concat(reports, ",") .. "]")
end
"""
PAUSE = "function delay() return math.random(0, 2 * {}) end\n"


class Load(NamedTuple):
    """The counts of `wrk`, and the CPU time of the service per request in milliseconds."""

    rate: float
    cpu: float
    middle: float  # of the latency, in milliseconds
    late: float  # its 99th percentile


@dataclass(kw_only=True)
class Running:
    """A running service, and the headers of the tokens that use it."""

    process: subprocess.Popen[bytes]
    port: int
    path: Path  # of the store
    tokens: dict[str, str]
    sent: int = 0

    def load(
        self,
        path: str,
        *,
        seconds: float,
        body: dict[str, Any] | None = None,
        role: str = "site",
        connections: int = CALLERS,
        together: int = 1,
        pause: int = 0,
        headers: dict[str, str] | None = None,
        until: Callable[[], bool] | None = None,
    ) -> Load:
        """Send requests for some seconds, or until a condition is true; reports have new ids.

        Each connection pauses for `pause` milliseconds on average before a request.
        """
        self.sent += 1
        told = {"Authorization": f"Bearer {self.tokens[role]}", **(headers or {})}
        told |= {"Content-Type": "application/json"} if body else {}
        around = json.dumps((body or {}) | {"id": "berlin:HERE"}).partition("HERE")
        values = {
            "method": "POST" if body else "GET", "before": around[0], "after": around[2],
            "tag": f"{self.sent}-", "together": together,
        }  # fmt: skip
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        listed = ", ".join(f"[{json.dumps(k)}] = {json.dumps(v)}" for k, v in told.items())
        script = self.path.with_name(f"load-{self.port}-{self.sent}.lua")
        pauses = PAUSE.format(pause) if pause else ""
        script.write_text("\n".join([*lines, f"headers = {{{listed}}}"]) + LUA + pauses)
        before, began = cpu_of(self.process.pid), time.perf_counter()
        asked = 600 if until else max(1, round(seconds))
        wrk = subprocess.Popen(
            ["wrk", "-t1", f"-c{connections}", f"-d{asked}s", "--latency", "-s", str(script),
             f"http://127.0.0.1:{self.port}{path}"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        while until is not None and not until() and wrk.poll() is None:
            time.sleep(0.1)
        if until is not None:
            wrk.send_signal(signal.SIGINT)
        said, _ = wrk.communicate()
        elapsed, used = time.perf_counter() - began, cpu_of(self.process.pid) - before
        if wrk.returncode or "Non-2xx" in said or "Socket errors" in said:
            raise SystemExit(f"{path}: {said}")
        count = int(re.search(r"(\d+) requests in", said)[1])
        middle, late = (_milliseconds(said, share) for share in ("50", "99"))
        return Load(count * together / elapsed, 1000 * used / (count * together), middle, late)


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU time that a process has used, with all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _milliseconds(said: str, share: str) -> float:
    found = re.search(rf"^ +{share}% +([\d.]+)(us|ms|s) *$", said, re.M)
    if found is None:
        raise SystemExit(f"wrk answered nothing within the seconds given:\n{said}")
    number, unit = found.groups()
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


# The store


def _rows(rng: np.random.Generator, actions: int, dim: int) -> list[list[float]]:
    return np.round(rng.random((actions, dim)) / dim, 6).tolist()


def one_step_report() -> dict[str, Any]:
    """Return a report without its id: one step, four actions, d = 10."""
    rows = _rows(np.random.default_rng(0), 4, 10)
    return {"features": rows[2:3], "rewards": [0.5], "first_features": rows, "actions": [2]}


def observed_report() -> dict[str, Any]:
    """Return a report without its id: one raw observation of four columns."""
    observation = dict.fromkeys(("age", "weight", "pressure", "sodium"), 0.123456)
    return {"observations": [observation], "actions": ["high"], "rewards": [0.5]}


def rows_request() -> dict[str, Any]:
    """Return a request for an action without its id: 25 rows with d = 100."""
    return {"features": _rows(np.random.default_rng(0), 25, 100)}


def observed_request() -> dict[str, Any]:
    """Return a request for an action with a raw observation of three columns, without its id."""
    return {"observation": dict.fromkeys(("age", "weight", "pressure"), 0.123456)}


def _blocks(name: str, columns: Sequence[str], actions: Sequence[str], **more: Any) -> Any:
    """Return the protocol of raw observations with a basis for each action, and its feature map."""
    made = ActionBlocks(Polynomial(inputs=len(columns), degree=1), actions=len(actions))
    features, data = packed_features(made, columns)
    told = {
        "task": rs.Task(dim=made.dim, horizon=1, episodes=10**7, feature_norm=2.0),
        "schedule": rs.UniformGrid(batches=3), "budget": 2,
    }  # fmt: skip
    return Protocol(name=name, features=features, actions=actions, **(told | more)), data


def make_store(path: Path) -> dict[str, str]:
    """Make the campaigns of the benchmark; return the secrets of tokens by role."""
    with open_store(f"sqlite:///{path}", create=True) as store:
        Campaign.create(
            store,
            Protocol(
                name="rows",
                task=rs.Task(dim=10, horizon=1, episodes=10**7),
                schedule=rs.UniformGrid(batches=3),
                budget=2,
            ),
            by="ana",
        )
        columns = ["age", "weight", "pressure", "sodium"]
        protocol, data = _blocks("observed", columns, ["low", "high"])
        Campaign.create(store, protocol, by="ana", features=data)
        names = [f"action-{number}" for number in range(25)]
        protocol, data = _blocks(
            "act", columns[:3], names,
            task=rs.Task(dim=100, horizon=1, episodes=10**7, feature_norm=2.0),
            recipe=rs.Recipe(exploration=rs.Ensemble(members=32)),
            schedule=EpisodeGrid(dates=(1, 51)),
        )  # fmt: skip
        acting = Campaign.create(store, protocol, by="ana", features=data)
        rng = np.random.default_rng(1)
        for number in range(60):
            observation = dict(zip(columns[:3], rng.random(3).tolist(), strict=True))
            acting.record(
                {"id": f"p{number}", "observations": [observation], "rewards": [rng.random()],
                 "actions": [int(rng.integers(25))]}
            )  # fmt: skip
        learn(acting)
        if acting.version != 2 or acting.policy().members != 32:
            raise SystemExit("act must be by a fitted policy of 32 members")
        access = Access(store)
        grants = {"site": Grant("*", "site", "berlin"), "monitor": Grant("*", "monitor")}
        return {
            role: access.issue_token(role, [grant], by=operator("ops"))[1]
            for role, grant in grants.items()
        }


def add_log(path: Path) -> None:
    """Add a campaign with an unread log, after which a policy is due."""
    rng = np.random.default_rng(2)
    with open_store(f"sqlite:///{path}") as store:
        protocol = Protocol(
            name="log",
            task=rs.Task(dim=10, horizon=HORIZON, episodes=10**7),
            schedule=EpisodeGrid(dates=(1, LEARNT + 1)),
            budget=1,
        )
        campaign = Campaign.create(store, protocol, by="ana")
        for answer in campaign.record_all(_five_steps(rng, number) for number in range(LEARNT)):
            if isinstance(answer, Exception):
                raise answer


def _five_steps(rng: np.random.Generator, number: int) -> Report:
    offered = rng.random((HORIZON, 4, 10)) / 10
    taken = rng.integers(4, size=HORIZON)
    episode = rs.Episode(
        features=offered[np.arange(HORIZON), taken],
        rewards=rng.random(HORIZON),
        next_features=list(offered[1:]),
    )
    return Report(id=f"p{number}", episode=episode, first_features=offered[0], actions=taken)


def five_step_report() -> dict[str, Any]:
    """Return a report of five steps, four actions and d = 10, without its id."""
    told = _five_steps(np.random.default_rng(3), 0).plain
    del told["id"]
    rounded = json.dumps(told)
    return json.loads(rounded, parse_float=lambda text: round(float(text), 6))


# The processes


def serve(path: str, port: int) -> None:
    """Serve a store, with an endpoint that validates reports and does not record them."""
    from rareswitch.service import server
    from rareswitch.service.api.field import read_work
    from rareswitch.service.app import Settings
    from rareswitch.service.endpoint import LARGE_BODY, Call, Endpoints

    more = Endpoints()

    @more.post("/v1/campaigns/{campaign}/valid", action="report", largest=LARGE_BODY)
    async def validate(campaign: Campaign, call: Call) -> dict[str, bool]:
        read_work(campaign, call, await call.data())
        return {"valid": True}

    server.ENDPOINTS = (*server.ENDPOINTS, *more.all)
    settings = Settings(rate=1e9, attempts=1e9)
    server.serve(
        server.ServerSettings(store=f"sqlite:///{path}", port=port, learner=False, service=settings)
    )


@contextmanager
def running(path: Path, tokens: dict[str, str], source: Path | None = None) -> Iterator[Running]:
    """Run the service of a store in its own process, with the package in `source` if given."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = _begin("--serve", path, "--port", port, source=source)
    try:
        _wait(process, f"http://127.0.0.1:{port}/healthz")
        yield Running(process=process, port=port, path=path, tokens=tokens)
    finally:
        process.terminate()
        process.wait(60)


def _begin(
    task: str, path: Path, *more: Any, source: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a process of this file with one BLAS thread; its log is in the store's folder."""
    command = [sys.executable, __file__, task, str(path), *map(str, more)]
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    settings = os.environ | dict.fromkeys(threads, "1")
    if source is not None:
        settings["PYTHONPATH"] = str(source.resolve())
    with open(path.with_suffix(f".{task.strip('-')}.log"), "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=settings)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    for _ in range(600):
        time.sleep(0.1)
        if process.poll() is not None:
            raise SystemExit("the service ended")
        try:
            urllib.request.urlopen(address).close()
        except OSError:
            continue
        return
    raise SystemExit("the service did not answer")


def learn_beside(path: str) -> None:
    """Run the learner of the service until this process is terminated."""
    from rareswitch.service.learner import run_learner

    run_learner(f"sqlite:///{path}", (), False, 1.0, "text", os.getppid())


# The parts


def recording(service: Running, seconds: float) -> dict[str, Load]:
    """Measure durable reports from 32 connections, and the same without a commit."""
    report, of = one_step_report(), "/v1/campaigns/rows"
    return {
        "validate one report": service.load(f"{of}/valid", body=report, seconds=seconds),
        "record one report": service.load(f"{of}/episodes", body=report, seconds=seconds),
    }


def batches(service: Running, seconds: float) -> dict[str, Load]:
    """Measure reports in batches of 100 from four connections."""
    told = {"connections": 4, "together": TOGETHER, "seconds": seconds}
    rows, observed = one_step_report(), observed_report()
    return {
        "batches, rows": service.load("/v1/campaigns/rows/episodes", body=rows, **told),
        "batches, observations": service.load(
            "/v1/campaigns/observed/episodes", body=observed, **told
        ),
    }


def acting(service: Running, seconds: float) -> dict[str, Load]:
    """Measure `act` with one caller and with eight pausing callers, and requests without disk."""
    found = {}
    for name, path, body in (
        ("health", "/healthz", None),
        ("act, rows", "/v1/campaigns/act/act", rows_request()),
        ("act, observation", "/v1/campaigns/act/act", observed_request()),
    ):
        alone = {"connections": 1, "seconds": seconds}
        eight = {"connections": 8, "pause": 80, "seconds": seconds}  # about 100 a second
        found[f"{name}, one caller"] = service.load(path, body=body, **alone)
        found[f"{name}, eight"] = service.load(path, body=body, **eight)
    return found


def reading(service: Running, seconds: float) -> dict[str, Load]:
    """Measure the policy in force, whole and not modified, and the status of the study."""
    told = {"connections": 8, "seconds": seconds}
    with open_store(f"sqlite:///{service.path}", read_only=True) as store:
        digest = Campaign(store, "act").policy_bytes().digest
    policy, known = "/v1/campaigns/act/policy", {"If-None-Match": f'"{digest}"'}
    return {
        "policy": service.load(policy, **told),
        "policy, not modified": service.load(policy, headers=known, **told),
        "summary": service.load("/v1/campaigns/rows", **told),
        "status": service.load("/v1/campaigns/rows/status", role="monitor", **told),
    }


BEFORE = ", before"
PARTS = {"recording": recording, "batches": batches, "acting": acting, "reading": reading}


def learning(source: Path, tokens: dict[str, str], seconds: float) -> dict[str, Load]:
    """Measure reports of five steps, alone and while a learner reads 10⁵ episodes and proposes."""
    path = source.with_name("learning.db")
    shutil.copyfile(source, path)  # a learner does its work only once
    told = {"body": five_step_report(), "seconds": seconds}
    to = "/v1/campaigns/log/episodes"
    with running(path, tokens) as service, open_store(f"sqlite:///{path}", read_only=True) as store:
        campaign = Campaign(store, "log")
        service.load(to, **(told | {"seconds": 1}))
        alone = service.load(to, **told)
        learner = _begin("--learn", path)
        try:
            beside = service.load(to, until=lambda: campaign.version == 2, **told)
        finally:
            learner.terminate()
            learner.wait(60)
        after = service.load(to, **told)
    path.unlink()
    return {"ingest before": alone, "ingest while a learner fits": beside, "ingest after": after}


def run(
    parts: Sequence[str] = (*PARTS, "learning"),
    *,
    seconds: float = 3,
    rounds: int = 5,
    before: Path | None = None,
) -> dict[str, str]:
    """Measure some parts in turns; return the numbers as texts."""
    found: dict[str, list[Load]] = {}

    def keep(loads: dict[str, Load], source: Path | None = None) -> None:
        for name, load in loads.items():
            found.setdefault(name if source is None else f"{name}{BEFORE}", []).append(load)

    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        path, other = Path(name) / "store.db", Path(name) / "before.db"
        tokens = make_store(path)
        shutil.copyfile(path, other)
        turns = [part for part in PARTS if part in parts]
        if turns:
            services = {None: stack.enter_context(running(path, tokens))}
            if before is not None:
                services[before] = stack.enter_context(running(other, tokens, before))
            for number in range(rounds + 1):
                for part in turns:
                    for source, service in services.items():
                        loads = PARTS[part](service, seconds if number else 1)
                        if number:  # the first turn warms up
                            keep(loads, source)
            for service in services.values():
                _check_recorded(service.path)
            stack.close()
        if "learning" in parts:
            add_log(path)
            for _ in range(rounds):
                keep(learning(path, tokens, seconds))
    return _texts(found) | _ratios(found)


def _check_recorded(path: Path) -> None:
    """Stop the benchmark if the service refused reports."""
    with open_store(f"sqlite:///{path}", read_only=True) as store:
        for name in list_campaigns(store):
            if refused := status(Campaign(store, name)).refused:
                raise SystemExit(f"{name}: {refused} reports were refused")


def _texts(found: dict[str, list[Load]]) -> dict[str, str]:
    return {
        name: f"{_spread([one.cpu for one in loads], '.3f')} ms of CPU, "
        f"{_spread([one.rate for one in loads], '.0f')} per second; latency "
        f"{_spread([one.middle for one in loads], '.2g')} ms, 99%: "
        f"{_spread([one.late for one in loads], '.2g')} ms"
        for name, loads in found.items()
    }


def _ratios(found: dict[str, list[Load]]) -> dict[str, str]:
    """Return the ratios of rates and of CPU times of two loads in the same round."""
    asked = {
        "record / validate": ("record one report", "validate one report"),
        "ingest while a learner fits / before": ("ingest while a learner fits", "ingest before"),
    }
    asked |= {f"{name}: now / before": (name, f"{name}{BEFORE}") for name in found}
    ratios = {}
    for name, (one, other) in asked.items():
        if one in found and other in found:
            pairs = [*zip(found[one], found[other], strict=True)]
            rates = _spread([a.rate / b.rate for a, b in pairs], ".0%")
            times = _spread([a.cpu / b.cpu for a, b in pairs], ".0%")
            ratios[name] = f"rate {rates}, CPU {times}"
    return ratios


def _spread(values: Sequence[float], form: str) -> str:
    """Return the median, the lowest and the highest."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:{form}} [{low:{form}}, {high:{form}}]"


def main() -> None:
    every = (*PARTS, "learning")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=every, default=every)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, metavar="FOLDER")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--serve", metavar="STORE", help=argparse.SUPPRESS)
    parser.add_argument("--learn", metavar="STORE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.port)
    elif given.learn:
        learn_beside(given.learn)
    else:
        told = {"seconds": given.seconds, "rounds": given.rounds, "before": given.before}
        for name, text in run(given.only, **told).items():
            print(f"| {name} | {text} |")


if __name__ == "__main__":
    main()
