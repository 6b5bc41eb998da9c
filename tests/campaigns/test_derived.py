"""The derived files of an export: a function of the chains, the same in Markdown and in HTML."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hand_record import PROTOCOL, HandRecord, episode, hand_made
from rareswitch.campaigns.proof.export.cohorts import COHORT_COLUMNS, SITE_COLUMNS, as_csv, tally_of
from rareswitch.campaigns.proof.export.derived import derived_files
from rareswitch.campaigns.proof.export.export import export
from rareswitch.campaigns.proof.export.words import candidate_lines, protocol_at
from rareswitch.campaigns.proof.exported import ExportedRecord
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.running_mean import RunningMean
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.store.rows import StoredRecord
from small_export import full_campaign

NAMES = {"cohorts.json", "cohorts.csv", "sites.csv", "appendix.md", "report.html",
         "data-dictionary.md"}  # fmt: skip
HOSTILE = [
    "<script>alert(1)</script>",
    "a | b",
    "`code` *bold* _low_ [link](https://x) # ~~no~~ $x$",
    "two\nlines\r\n| and | a | row |",
    '" onload="x" \'&amp;',
    "line\u2028end \u202e turned \x00 zero\x1b[31m",
    "\\| \\` <!-- ",
    "=1+1",
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return a campaign with one of everything, and the folder of its export."""
    folder = tmp_path_factory.mktemp("derived")
    campaign = full_campaign(folder / "store.db")
    export(campaign, folder / "out", by="ana", reason="final report")
    yield campaign, folder / "out"
    campaign.store.close()


def derived_from(record):
    entries = [Entry.of(row) for row in record.rows("ledger")]
    return derived_files(record, entries, State().after(*entries))


def test_a_folder_gives_the_bytes_that_are_in_it(exported):
    _, folder = exported
    found = derived_from(ExportedRecord(folder))
    assert set(found) == NAMES
    for name, data in found.items():
        assert data == (folder / name).read_bytes(), name


def test_the_store_gives_the_same_bytes_again_at_a_later_time(exported):
    campaign, folder = exported
    with campaign.store.reading() as connection:
        record = StoredRecord(connection, campaign.name)
        once, again = derived_from(record), derived_from(record)
    assert once == again
    # By now the note of the export is in the ledger.
    assert b"27 entries" in once["report.html"]
    assert b"26 entries" in (folder / "report.html").read_bytes()


ELSEWHERE = """
import hashlib, locale, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_derived import ExportedRecord, derived_from
for name, data in sorted(derived_from(ExportedRecord(Path(sys.argv[1]))).items()):
    print(name, hashlib.sha256(data).hexdigest())
"""


def test_neither_hashes_nor_zones_nor_locales_change_a_byte(exported):
    told = set()
    for seed, zone, language in (("1", "UTC", "C"), ("2", "Asia/Tokyo", "C.UTF-8")):
        changed = {"PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": language,
                   "PYTHONPATH": os.pathsep.join(sys.path)}  # fmt: skip
        here = str(Path(__file__).parent)
        command = [sys.executable, "-c", ELSEWHERE, str(exported[1]), here]
        done = subprocess.run(
            command, env=os.environ | changed, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    assert len(told) == 1


def test_counts_are_those_written_down_by_hand():
    record, entries, state = hand_made()
    files = derived_files(record, entries, state)
    first, second = json.loads(files["cohorts.json"])
    returns = RunningMean()
    for total in (2.0, 1.0, 1.0):  # a, corrected twice, in its first place; c; f. b is withdrawn
        returns = returns.after(total / 2)
    low, high = returns.bounds(0.95)
    assert first["low"] == pytest.approx(2 * low, rel=1e-9)
    assert first["high"] == pytest.approx(2 * high, rel=1e-9)
    assert first["mean_return"] == pytest.approx(4 / 3, rel=1e-9)
    counts = {"recorded": 4, "late": 1, "withdrawn": 1, "corrected": 1, "episodes": 3,
              "compared": 2, "deviated": 1, "with_recommendation": 1, "overridden": 0,
              "overridden_steps": 0, "assigned": 3, "cancelled": 1, "missing": 1}  # fmt: skip
    assert {name: first[name] for name in counts} == counts
    counts = {"recorded": 2, "late": 0, "withdrawn": 0, "corrected": 0, "episodes": 2,
              "compared": 1, "deviated": 1, "with_recommendation": 1, "overridden": 1,
              "overridden_steps": 2, "assigned": 1, "cancelled": 0, "missing": 0,
              "in_force_since": 3, "origin": "unplanned", "observed": 4, "threshold": 3,
              "margin": 1}  # fmt: skip
    assert {name: second[name] for name in counts} == counts
    assert second["mean_return"] == 1.75
    sites = {(row["site"], row["version"]): row
             for row in csv.DictReader(io.StringIO(files["sites.csv"].decode()))}  # fmt: skip
    assert list(sites) == [("other", "1"), ("other", "2"), ("plain", "1"), ("plain", "2"),
                           ("", "1")]  # fmt: skip
    assert [row["recorded"] for row in sites.values()] == ["1", "1", "1", "1", "2"]
    assert [row["withdrawn"] for row in sites.values()] == ["0", "0", "1", "0", "0"]
    assert [row["mean_return"] for row in sites.values()] == ["2.0", "2.0", "", "1.5", "1.0"]
    text = files["appendix.md"].decode()
    assert "Episodes corrected: 1. Episodes withdrawn: 1." in text
    assert "| Episodes recorded | 6 of 20 planned |" in text
    assert "| plain | 2 |" in text  # two refusals of one reason
    assert "| other | 2 | 0 | 0 | 2 | 2 | 1 of 1 | 1 of 1 |" in text
    assert "| 9 | cancelled |" in text
    assert 'budget: \\{"deployments":2\\} → \\{"deployments":3\\}' in text


def test_the_course_has_the_returns_that_count():
    rows = [episode(seq, f"p{seq}", 1.0) for seq in range(1, 121)]
    rows.append(episode(121, "p1", 0.0, revision=1))
    course = tally_of(HandRecord(episodes=rows), hand_made()[2]).course
    assert [stretch.seq for stretch in course][-2:] == [117, 120]
    assert course[0].mean == 2 / 3
    assert {stretch.mean for stretch in course[1:]} == {1.0}
    assert len(course) == 40


@pytest.mark.parametrize("text", HOSTILE)
def test_what_people_write_is_only_text(text):
    files = derived_files(*hand_made(text=text))
    plain, hostile = derived_files(*hand_made()), files["appendix.md"].decode()
    page = files["report.html"].decode()
    assert len(hostile.splitlines()) == len(plain["appendix.md"].decode().splitlines())
    assert tags(page) == tags(plain["report.html"].decode())
    for line in hostile.splitlines():
        bare = re.sub(r"\\.", "", line)
        if line.startswith("|"):
            unchanged = plain["appendix.md"].decode().splitlines()
            assert bare.count("|") == unchanged[hostile.splitlines().index(line)].count("|")
        elif not line.startswith("#"):
            assert not set(bare) & set("`*_<>[]~$")
    for data in (hostile, page):
        assert not re.search("[\x00-\x09\x0b-\x1f\u2028\u202e]", data)
    assert json.loads(files["cohorts.json"])[0]["put_in_force_by"] == text


def test_a_lone_surrogate_is_written_as_its_escape():
    files = derived_files(*hand_made(text="\ud800"))
    assert json.loads(files["cohorts.json"])[0]["put_in_force_by"] == "\ud800"
    assert b"\\ud800" in files["cohorts.csv"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_cell_of_a_csv_is_a_formula(start):
    files = derived_files(*hand_made(text=f"{start}cmd|' /C calc'!A0"))
    for name, columns in (("cohorts.csv", COHORT_COLUMNS), ("sites.csv", SITE_COLUMNS)):
        rows = list(csv.reader(io.StringIO(files[name].decode(), newline="")))
        assert rows[0] == list(columns)
        cells = [cell for row in rows for cell in row]
        assert any("calc" in cell for cell in cells)
        assert not [cell for cell in cells if cell.startswith(start)]
    assert as_csv([{"n": -1.5}], {"n": ""}) == "n\n-1.5\n"


def test_markdown_and_html_hold_the_same_cells(exported):
    _, folder = exported
    markdown = (folder / "appendix.md").read_text()
    cells = [
        re.sub(r"\\(.)", r"\1", cell.strip())
        for line in markdown.splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "|  |"))
        for cell in re.split(r"(?<!\\)\|", line)[1:-1]
    ]
    page = Cells()
    page.feed((folder / "report.html").read_text())
    assert page.cells == cells
    assert len(cells) > 250


def test_a_report_has_the_sentences_that_the_signer_saw(exported):
    campaign, folder = exported
    page = Cells()
    page.feed((folder / "report.html").read_text())
    text = re.sub(r"\\(.)", r"\1", (folder / "appendix.md").read_text())
    assert len(campaign.state.candidates) == 5
    for one in campaign.state.candidates.values():
        known = {name: getattr(one, name) for name in ("version", "proposer", "planned")}
        known["protocol"] = protocol_at(campaign.entries, one.number)
        for line in candidate_lines(one.number, evidence=one.evidence, **known):
            assert line in page.sentences
            assert line in text


@pytest.mark.parametrize("evidence", [{}, [], 7, "text", {"triggers": 5, "gain": []}])
def test_evidence_of_another_shape_is_reported_as_not_recorded(evidence):
    files = derived_files(*hand_made(evidence=evidence))
    assert b"expected gain: not recorded" in files["appendix.md"]
    assert json.loads(files["cohorts.json"])[1]["observed"] is None


def test_a_long_register_is_cut_and_says_so():
    record, entries, state = hand_made()
    more = [entries[5]._replace(number=k) for k in range(12, 512)]
    text = derived_files(record, [*entries, *more], state)["appendix.md"].decode()
    assert text.count("| corrected |") + text.count("| withdrawn | plain") == 201  # one is a header
    assert "ledger.jsonl has 303 more corrections." in text


def test_a_campaign_of_no_episode_has_all_files():
    _, entries, state = hand_made()
    state.versions, state.candidates, state.stopped = state.versions[:1], {}, None
    files = derived_files(HandRecord(), entries[:2], state)
    assert set(files) == NAMES
    text = files["appendix.md"].decode()
    assert "None: no protocol revision" in text
    assert "No candidate was proposed." in text
    assert "No report claims a site." in text
    assert PROTOCOL["task"]["actions"][0] in text


class Cells(HTMLParser):
    """The texts of cells, and of paragraphs and items."""

    def __init__(self):
        super().__init__()
        self.cells, self.sentences, self._into = [], [], None

    def handle_starttag(self, tag, attrs):
        into = {"td": self.cells, "th": self.cells, "p": self.sentences, "li": self.sentences}
        if tag in into:
            self._into = into[tag]
            self._into.append("")

    def handle_endtag(self, tag):
        if tag in ("td", "th", "p", "li"):
            self._into = None

    def handle_data(self, data):
        if self._into is not None:
            self._into[-1] += data


def tags(page):
    """Return the names and attributes of all tags of a page, but for widths that follow text."""
    found = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found.append((tag, [name for name, _ in attrs if name != "class"]))

    Tags().feed(page)
    return found
