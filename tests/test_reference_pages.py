"""The pages of docs/reference name every public object once, and every stream."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import rareswitch as rs
from rareswitch.campaigns import errors
from rareswitch.campaigns.store.schema import NEWEST
from rareswitch.support.streams import Stream

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
MODULES = (
    "rules", "gym", "features", "evaluation", "trajectories", "sim", "sim.worlds", "sim.baselines",
    "campaigns", "campaigns.client", "campaigns.access",
)  # fmt: skip
DIRECTIVE = re.compile(r"^\.\. auto(?:class|exception|function):: (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def listed():
    pages = (path.read_text(encoding="utf-8") for path in REFERENCE.glob("api/*.md"))
    return [name for page in pages for name in DIRECTIVE.findall(page)]


def test_each_object_stands_once(listed):
    assert [name for name, times in Counter(listed).items() if times > 1] == []


@pytest.mark.parametrize("module", MODULES)
def test_every_public_object_is_listed(module, listed):
    home = import_module(f"rareswitch.{module}")
    names = {name.rpartition(".")[2] for name in listed}
    names |= set(vars(errors))  # one directive lists all errors of campaigns
    methods = set(dir(rs.campaigns.Campaign)) | {"init", "import_reports", "episodes", "head"}
    missing = [
        name
        for name in home.__all__
        if name not in names and name.upper() != name and name not in methods
    ]
    assert missing == []


def test_every_name_of_the_package_is_listed(listed):
    names = {name.rpartition(".")[2] for name in listed}
    index = (REFERENCE / "api" / "index.md").read_text(encoding="utf-8")
    assert [n for n in rs.__all__ if n not in names and f"`rs.{n}`" not in index] == []


def test_every_stream_is_listed():
    page = (REFERENCE / "streams.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) (\w+) \|", page, re.MULTILINE)
    assert rows == [(str(stream.value), stream.name.lower()) for stream in Stream]


def test_the_schema_of_a_store_is_the_newest():
    page = (REFERENCE / "formats.md").read_text(encoding="utf-8")
    assert f"schema {NEWEST} |" in page
