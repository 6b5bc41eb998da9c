"""The client runs with NumPy and httpx: without a store's libraries."""

import json
import subprocess
import sys

from contract_server import TOKEN
from rareswitch.campaigns import episodes

# rareswitch needs NumPy, click and rich; httpx brings its own libraries, which are listed here.
ALLOWED = {
    "rareswitch", "numpy", "httpx", "httpcore", "h11", "anyio", "idna", "certifi", "sniffio",
    "typing_extensions", "exceptiongroup",
}  # fmt: skip
SOURCE = """
import json, os, sys
import importlib.metadata  # before the hook: httpx reads versions

class Blocked:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in {allowed!r} or top.startswith("_"):
            return None
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
for name in ("sqlalchemy", "orjson", "pyarrow", "alembic", "tomli_w", "msgspec", "click"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{{name}} is not blocked")

from rareswitch.campaigns.client import Client

with Client(sys.argv[1], campaign="doors", folder=sys.argv[2], background=False) as client:
    with client.episode("berlin:1") as episode:
        episode.act({{"severity": 2}})
        episode.reward(0.5)
    print(json.dumps(client.flush()))
"""


def test_a_client_acts_and_reports_without_the_libraries_of_a_store(server, tmp_path, monkeypatch):
    monkeypatch.setenv("RARESWITCH_TOKEN", TOKEN)
    with server.listening() as url:
        command = [sys.executable, "-c", SOURCE.format(allowed=ALLOWED), url, str(tmp_path / "s")]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [1, 0, 0, None]
    assert [one["deviations"] for one in episodes(server.campaign)] == [0]
