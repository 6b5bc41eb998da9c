"""The wheel is small, holds the package alone, and works with the libraries of each extra alone."""

import json
import os
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import rareswitch
from empty_environment import EmptyEnvironment, build, install, newest_python

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LARGEST_WHEEL = 1_500_000  # bytes

WITHOUT_LIBRARIES = """
import sys
import rareswitch as rs
rs.Learner(rs.Task(dim=2, horizon=1, episodes=9), rs.SpreadBudget(switches=2)).policy.digest
rs.simulate(rs.worlds.hard_to_learn(d=4, horizon=2), rs.EveryEpisode(), episodes=3)
tops = {name.partition(".")[0] for name in sys.modules}
# NumPy's random numbers make the first; Debian's Python has the second.
ours = {"cython_runtime", "sitecustomize", *sys.stdlib_module_names}
libraries = {name for name in tops if not name.startswith("_")} - ours
assert libraries == {"numpy", "rareswitch"}, libraries
"""
PROTOCOL = """
import rareswitch as rs
from pathlib import Path
protocol = rs.campaigns.Protocol(
    name="doors", task=rs.Task(dim=2, horizon=1, episodes=30), schedule=rs.UniformGrid(batches=3),
    budget=2,
)
Path("protocol.toml").write_text(protocol.to_toml())
"""
EXPERIMENT = """
name = "small"
title = "Small"
rounds = 2
episodes = 30

[world]
kind = "hard-to-learn"
d = 4
horizon = 2

[[arms]]
name = "mixture"
schedule = { kind = "spread-budget", switches = 2 }
"""
CLIENT = """
from rareswitch.campaigns.client import Client, OfflineError
client = Client("http://127.0.0.1:9", "doors", token="none", folder="state", background=False)
try:
    client.refresh()
except OfflineError:
    print("offline")
"""
CLUSTER = """
import bokeh
import numpy as np
from rareswitch.compute.dask import cluster_client
if __name__ == "__main__":
    with cluster_client("local:1") as client:
        print(client.submit(sum, [1, 2]).result())
"""
FEATURES = """
from rareswitch.features import Cosines
print(Cosines.radial(inputs=2, components=5, bandwidths=(1.0,)).size)
"""
LOGS = """
from rareswitch.trajectories import Trajectory, read_log, write_log
once = Trajectory(observations=[0, 1], actions=[1], rewards=[0.5], terminated=True)
write_log("log.parquet", [once])
print(list(read_log("log.parquet")) == [once])
"""
POSTGRES = """
from rareswitch import campaigns
try:
    campaigns.open_store("postgresql://nobody@127.0.0.1:9/none")
except campaigns.UnavailableError as error:
    print("refused" in str(error))
"""
SERVICE = """
import asyncio, json
from rareswitch.campaigns import open_store
from rareswitch.service import server
from rareswitch.service.app import Settings
store = open_store("store.db", create=True)
service, app = server.make_service(store, Settings())
async def ask(path):
    sent = []
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message):
        sent.append(message)
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
             "query_string": b"", "headers": [(b"host", b"localhost")], "scheme": "http",
             "http_version": "1.1", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000),
             "root_path": "", "state": {}}
    await app(scope, receive, send)
    return sent[0]["status"]
print(asyncio.run(ask("/healthz")), asyncio.run(ask("/sign-in")))
"""
PAGES = """
# Pages

```{toctree}
reference/api/index
reference/cli
```
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    return EmptyEnvironment(tmp_path_factory.mktemp("environment"), wheel)


def test_the_wheel_is_small_and_holds_the_package_alone(wheel):
    assert wheel.stat().st_size < LARGEST_WHEEL
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    folders = {name.partition("/")[0] for name in names}
    assert folders == {"rareswitch", f"rareswitch-{rareswitch.__version__}.dist-info"}
    assert not [name for name in names if "test_" in name or "__pycache__" in name]
    files = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".so")
    }
    assert files == {name for name in names if name.startswith("rareswitch/")}
    assert "rareswitch/py.typed" in files


def test_the_releases_of_python_that_are_claimed_are_those_tried():
    claimed = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    newest = int(claimed[-1].partition(".")[2])
    assert claimed == [f"3.{minor}" for minor in range(11, newest + 1)]
    assert PROJECT["requires-python"] == f">={claimed[0]}"


def test_the_sdist_holds_what_the_tests_and_pages_need(tmp_path):
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
        "CITATION.cff", "VISION.md", "check", "docs/conf.py", "tests/conftest.py",
        "deploy/compose.yaml", "examples/one_page.py", "benchmarks/__main__.py",
        "src/rareswitch/py.typed",
    ):  # fmt: skip
        assert needed in names
    assert not [name for name in names if "/_build/" in name or ".venv" in name]


def test_the_citation_names_this_version():
    lines = (ROOT / "CITATION.cff").read_text("utf-8").splitlines()
    assert f"version: {rareswitch.__version__}" in lines


def test_every_extra_is_tried_here():
    mark = "test_the_extra_"
    tried = {name.removeprefix(mark) for name in globals() if name.startswith(mark)}
    whole = {"test", "check", "dev"}  # this suite runs with them
    assert tried == set(PROJECT["optional-dependencies"]) - whole


def test_without_extras_numpy_click_and_rich_suffice(environment):
    brought = environment.distributions() - {"markdown-it-py", "mdurl", "pygments"}  # of rich
    assert brought == {"numpy", "click", "rich"}
    environment.run("", "python", "-c", WITHOUT_LIBRARIES)
    assert "Commands:" in environment.run("", "rareswitch", "--help")
    told = environment.run("", "rareswitch", "learn", "--episodes", "50", "--json")
    assert json.loads(told)["deployments"]


def test_a_library_of_another_extra_is_not_there(environment):
    with pytest.raises(AssertionError, match="No module named 'sqlalchemy'"):
        environment.run("client", "python", "-c", "import sqlalchemy")


def test_the_extra_campaigns(environment):
    environment.run("campaigns", "python", "-c", PROTOCOL)
    store = "sqlite:///store.db"
    for command in ("init protocol.toml --by ana", "status --json", "verify --json"):
        told = environment.run("campaigns", "rareswitch", "campaign", *command.split(),
                               RARESWITCH_STORE=store)  # fmt: skip
    assert json.loads(told)


def test_the_extra_client(environment):
    assert environment.run("client", "python", "-c", CLIENT) == "offline\n"


def test_the_extra_cluster(environment, tmp_path):
    script = tmp_path / "small.py"
    script.write_text(CLUSTER, encoding="utf-8")
    assert environment.run("cluster", "python", str(script)) == "3\n"


def test_the_extra_experiments(environment, tmp_path):
    spec = tmp_path / "small.toml"
    spec.write_text(EXPERIMENT, encoding="utf-8")
    out = tmp_path / "results"
    environment.run(
        "experiments", "rareswitch", "run", str(spec), "--out", str(out), "--workers", "1"
    )
    assert (out / "small" / "figure.png").exists()


def test_the_extra_features(environment):
    assert environment.run("features", "python", "-c", FEATURES) == "5\n"


def test_the_extra_gym(environment):
    settings = ["--episodes", "20", "--switches", "2", "--horizon", "20", "--evaluate", "10"]
    told = environment.run("gym", "rareswitch", "train", "FrozenLake-v1", *settings, "--json")
    assert json.loads(told)


def test_the_extra_logs(environment):
    assert environment.run("logs", "python", "-c", LOGS) == "True\n"


def test_the_extra_postgres(environment):
    assert environment.run("postgres", "python", "-c", POSTGRES) == "True\n"


def test_the_extra_service(environment):
    assert environment.run("service", "python", "-c", SERVICE) == "200 200\n"


def test_every_extra_installs_on_the_newest_python(wheel, tmp_path):
    """The index has all requirements for it, and they work together."""
    extras = set(PROJECT["optional-dependencies"]) - {"test", "check", "docs", "dev"}
    place = tmp_path / "environment"
    install(newest_python(), f"{wheel}[{','.join(sorted(extras))}]", place)
    command = ("train", "FrozenLake-v1", "--episodes", "20", "--horizon", "9", "--json")
    for program, *arguments in (
        ("rareswitch", *command),
        *(("python", "-c", code) for code in (PROTOCOL, CLIENT, FEATURES, LOGS, POSTGRES, SERVICE)),
        ("rareswitch", "campaign", "init", "protocol.toml", "--by", "ana"),
        ("rareswitch", "campaign", "verify"),
    ):
        done = subprocess.run(
            [str(place / "bin" / program), *arguments],
            cwd=tmp_path, env={"RARESWITCH_STORE": "sqlite:///a.db", "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not done.returncode, done.stdout + done.stderr
        assert "False" not in done.stdout


def test_the_extra_docs(environment, tmp_path):
    """Everything that the pages import is there: autodoc finds every object."""
    pages = tmp_path / "docs"
    (pages / "reference").mkdir(parents=True)
    for name in ("conf.py", "cli_reference.py", "_static", "reference/api"):
        os.symlink(ROOT / "docs" / name, pages / name)
    (pages / "index.md").write_text(PAGES, encoding="utf-8")
    unknown = "suppress_warnings=myst.xref_missing"  # the other pages are not here
    faster = "extensions=myst_parser,sphinx.ext.autodoc,sphinx_copybutton"  # no source code
    command = ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "dummy", "-D", unknown]
    command += ["-D", faster, str(pages), str(tmp_path / "built")]
    environment.run("docs", "python", *command)
