"""The main route of the service in Starlette and Litestar, on uvicorn and granian, in one run.

Each of the four servers answers `POST /v1/campaigns/doors/episodes` in two ways: it only validates
the report, or it records the report durably. `wrk` (a Debian package) sends reports from 32
connections. The output has the answers per second and the CPU time of the server per answer.

    python benchmarks/frameworks.py --seconds 5
"""

import argparse
import asyncio
import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

SERVERS = ("starlette-uvicorn", "starlette-granian", "litestar-uvicorn", "litestar-granian")
ROUTE = "/v1/campaigns/doors/{}"
LUA = """
local n = 0
local thread = 0
function setup(t) t:set("id", thread) thread = thread + 1 end
function request()
  n = n + 1
  local name = string.format("%s-%d-%d", tag, id, n)
  local body = string.format('{"id": "%s", "features": [%s], "rewards": [0.5], '
    .. '"first_features": [%s], "actions": [0]}', name, row, rows)
  return wrk.format("POST", nil, {["Authorization"] = "Bearer rsw_benchmark",
    ["Content-Type"] = "application/json"}, body)
end
"""


def _campaign():
    import rareswitch as rs
    from rareswitch.campaigns import Campaign, Protocol, open_store

    store = open_store(os.environ["BENCHMARK_STORE"], create=True)
    protocol = Protocol(
        name="doors",
        task=rs.Task(dim=10, horizon=1, episodes=10_000_000),
        schedule=rs.UniformGrid(batches=3),
        budget=2,
    )
    return Campaign.create(store, protocol, by="ana")


_TOKENS = {hashlib.sha256(b"rsw_benchmark").hexdigest(): "site"}


def _known(header: str) -> bool:
    return hashlib.sha256(header.removeprefix("Bearer ").encode()).hexdigest() in _TOKENS


def _starlette():
    import msgspec
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    campaign = _campaign()

    async def validate(request):
        if not _known(request.headers["authorization"]):
            return Response(status_code=401)
        campaign.work_of(await request.body())
        return Response(msgspec.json.encode({"valid": True}), media_type="application/json")

    async def record(request):
        if not _known(request.headers["authorization"]):
            return Response(status_code=401)
        work = campaign.work_of(await request.body())
        found = await asyncio.wrap_future(campaign.submit(work))
        return Response(msgspec.json.encode(found._asdict()), media_type="application/json")

    return Starlette(
        routes=[
            Route(ROUTE.format("valid"), validate, methods=["POST"]),
            Route(ROUTE.format("episodes"), record, methods=["POST"]),
        ]
    )


def _litestar():
    from litestar import Litestar, Request, post
    from litestar.exceptions import NotAuthorizedException

    campaign = _campaign()

    def guard(connection, _):
        if not _known(connection.headers["authorization"]):
            raise NotAuthorizedException

    @post(ROUTE.format("valid"), guards=[guard], status_code=200)
    async def validate(request: Request) -> dict[str, bool]:
        campaign.work_of(await request.body())
        return {"valid": True}

    @post(ROUTE.format("episodes"), guards=[guard], status_code=200)
    async def record(request: Request) -> dict[str, int | bool | None]:
        work = campaign.work_of(await request.body())
        found = await asyncio.wrap_future(campaign.submit(work))
        return found._asdict()

    # Annotations are looked up in the module.
    return Litestar(route_handlers=[validate, record], openapi_config=None, logging_config=None)


def serve(name: str, port: int) -> None:
    """Serve in this process until it is terminated."""
    framework, server = name.split("-")
    if server == "uvicorn":
        import uvicorn

        app = {"starlette": _starlette, "litestar": _litestar}[framework]()
        uvicorn.run(app, port=port, log_level="error", access_log=False)
    else:
        import granian
        from granian.constants import Interfaces
        from granian.server.embed import Server

        del granian
        app = {"starlette": _starlette, "litestar": _litestar}[framework]()
        asyncio.run(Server(app, port=port, interface=Interfaces.ASGINL).serve())


def measure(name: str, seconds: int, port: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Return answers per second and CPU milliseconds per answer for both routes of a server."""
    environment = os.environ | {"BENCHMARK_STORE": str(folder / f"{name}.db")}
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", name, "--port", str(port)], env=environment
    )
    try:
        _wait(port, process)
        found = {}
        for route in ("valid", "episodes"):
            before = _cpu(process.pid)
            script = folder / f"{name}-{route}.lua"
            row = ", ".join(["0.1"] * 10)
            rows = f"[{row}], [{', '.join(['0.2'] * 10)}]"
            values = f'tag = "{route}"\nrow = "[{row}]"\nrows = "{rows}"\n'
            script.write_text(values + LUA)
            said = subprocess.run(
                ["wrk", "-t1", "-c32", f"-d{seconds}s", "-s", str(script),
                 f"http://127.0.0.1:{port}{ROUTE.format(route)}"],
                check=True, capture_output=True, text=True,
            ).stdout  # fmt: skip
            if "Non-2xx" in said:
                raise SystemExit(f"{name} {route}: {said}")
            count = int(re.search(r"(\d+) requests in", said)[1])
            found[route] = count / seconds, 1000 * (_cpu(process.pid) - before) / count
        return found
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()


def _wait(port: int, process: subprocess.Popen) -> None:
    for _ in range(200):
        time.sleep(0.1)
        if process.poll() is not None:
            raise SystemExit("the server ended")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/nothing")
        except urllib.error.HTTPError:
            return
        except OSError:
            continue


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--serve", choices=SERVERS)
    parser.add_argument("--port", type=int, default=8100)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.port)
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    print(f"{'server':<20}{'valid/s':>9}{'ms CPU':>8}{'durable/s':>11}{'ms CPU':>8}{'share':>8}")
    for number in range(given.rounds):
        for name in SERVERS:
            with tempfile.TemporaryDirectory() as folder:
                found = measure(name, given.seconds, given.port + number, Path(folder))
            (valid, one), (durable, two) = found["valid"], found["episodes"]
            print(
                f"{name:<20}{valid:>9.0f}{one:>8.3f}{durable:>11.0f}{two:>8.3f}"
                f"{durable / valid:>8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
