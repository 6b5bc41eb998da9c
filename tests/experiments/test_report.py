import base64
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest

from experiments.miniature import (
    EVERY,
    GRID,
    GROWTH,
    Inline,
    computed,
    experiment,
    save_title,
    small_paper,
)
from rareswitch.experiments import PAPER, report
from rareswitch.experiments.claims import Claim
from rareswitch.experiments.report import CLAIMS
from rareswitch.experiments.run import reproduce
from rareswitch.support import drawing

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Read a page: its tags must nest. Keep links, text, and wide elements outside scroll boxes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.ids, self.text, self.tags = [], [], [], [], set()
        self.classes, self.unboxed = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        self.links += [attrs[name] for name in ("href", "src", "srcset") if name in attrs]
        self.ids += [attrs["id"]] if "id" in attrs else []
        if tag in ("table", "img") and not any("scroll" in found for found in self.classes):
            self.unboxed.append(tag)
        if tag not in VOID:
            self.open.append(tag)
            self.classes.append((attrs.get("class") or "").split())

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.classes.pop()

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """Return the report on all the paper's experiments, small, with results and claims."""
    out = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "save_figure", save_title)
        results, claims = reproduce(
            small_paper(), out, Inline(), command="rareswitch reproduce --rounds 2"
        )
    return (out / "report.html").read_text(encoding="utf-8"), results, claims, out


@cache
def read(text):
    return Page(text)


def rendered(results, claims, out, command):
    report.write_report(results, claims, out, command)
    return Page((out / "report.html").read_text(encoding="utf-8"))


def test_the_report_is_well_formed_with_a_section_for_each_experiment(paper):
    page = read(paper[0])
    assert paper[0].startswith("<!doctype html>")
    assert {"html", "head", "title", "body", "table", "h1", "h2", "img"} <= page.tags
    assert len(page.ids) == len(set(page.ids))
    assert set(page.ids) == {*PAPER, "claims", "run"}
    assert {link[1:] for link in page.links if link.startswith("#")} == set(page.ids)


def test_the_report_needs_nothing_but_itself(paper):
    text = paper[0]
    for link in read(text).links:
        assert link.startswith(("#", "data:image/svg+xml;base64,"))
    assert not read(text).tags & {"script", "link", "iframe", "object"}
    assert not re.search(r"url\(|@import", text)


def test_wide_tables_and_figures_scroll_inside_their_boxes(paper):
    text = paper[0]
    assert read(text).unboxed == []
    assert text.count('tabindex="0" role="group" aria-label="') == (
        text.count("<table") + text.count("<img")
    )
    phone = text[text.index("(max-width: 48rem)") : text.index("(max-width: 40rem)")]
    assert re.search(r"\.scroll \{[^}]*overflow-x: auto", text)
    assert re.search(r"\.figure img \{[^}]*width: 46rem; max-width: none", phone)


def test_the_pictures_are_those_of_the_folders(paper):
    text, results, _, out = paper
    pictures = [base64.b64decode(s.partition(",")[2]) for s in read(text).links if s[0] == "d"]
    assert pictures == [(out / name / "figure.svg").read_bytes() for name in results]


def test_the_report_gives_every_verdict_with_its_evidence(paper):
    text, _, claims, _ = paper
    assert len(claims) == sum(map(len, CLAIMS.values())) == 20
    words = read(text).words
    for claim in claims:
        assert claim.statement in words
        assert " ".join(claim.evidence.split()) in words
    for verdict in ("holds", "does not hold", "undecided"):
        count = sum(claim.verdict == verdict for claim in claims)
        assert len(re.findall(rf'<td class="verdict \w+">{verdict}</td>', text)) == count


def test_the_report_tells_what_was_run_and_how_to_run_it_again(paper):
    text, results, _, _ = paper
    words = read(text).words
    assert "rareswitch reproduce --rounds 2" in words
    for name, runs in results.items():
        assert runs.experiment.digest[:16] in words
        assert f"rareswitch plot OUT/{name}" in words
        for arm in runs.experiment.arms:
            assert arm.label in words


def test_the_report_has_the_tables_of_bounds_readings_and_beta(paper):
    words = read(paper[0]).words
    for heading in (
        "Every bound and its measured quantity",
        "The reading choices and their effect",
        "Needed β",
    ):
        assert heading in words
    assert "vacuous" in words


def test_mixtures_come_after_the_figures_and_are_said_to_be_ours(paper):
    page = read(paper[0])
    assert page.ids[:5] == ["claims", "figure1", "figure2", "figure3", "mixtures"]
    assert "The paper deploys one policy at a time" in page.words


def test_final_rows_are_paired_with_the_one_baseline(paper):
    runs = paper[1]["figure1"]
    rows = runs.compare()
    assert [row["name"] for row in rows] == [arm.name for arm in runs.experiment.arms]
    assert rows[0]["difference"] is None
    assert rows[3]["difference"][0] == pytest.approx(runs.final[3].mean() - runs.final[0].mean())
    assert rows[3]["switches"] == runs.switches[3].mean()
    assert rows[3]["deployments"] == runs.deployments[3].mean() > rows[3]["switches"]


def test_arms_on_other_worlds_are_not_subtracted(paper):
    runs = paper[1]["figure3"]
    compared = {row["name"] for row in runs.compare() if row["difference"] is not None}
    assert compared == {"rareswitch-8-zeta-0.0", "random-zeta-0.0"}
    assert "minus Batch B=50, ζ=0.0, paired" in read(paper[0]).words
    assert "minus LSVI-UCB, paired" in read(paper[0]).words


def test_reading_rows_are_paired_with_the_default_of_their_family(paper):
    runs = paper[1]["readings"]
    rows = {row["label"]: row for row in report.list_readings(runs)}
    assert len(rows) == len(runs.experiment.arms)
    names = [arm.name for arm in runs.experiment.arms]
    default, padded = names.index("batch-50-completed"), names.index("batch-50-padded")
    assert rows["Batch B=50, completed"]["difference"] is None
    assert rows["Batch B=50, padded"]["difference"][0] == pytest.approx(
        runs.final[padded].mean() - runs.final[default].mean()
    )
    assert rows["Batch B=40, grid last"]["difference"] is None
    assert rows["Batch B=40, grid balanced"]["difference"] is not None


def test_bound_and_radius_rows_hold_what_was_measured(paper):
    bounds, beta = paper[1]["bounds"], paper[1]["beta"]
    row = report.list_bounds(bounds)[2]
    assert row["label"] == "Batch B=30"
    assert row["regret"] == pytest.approx(bounds.regret[2].sum(axis=-1).mean())
    assert (row["switches"], row["limit"]) == (bounds.switches[2].max(), 29)
    assert row["growth"] <= row["growth_bound"]
    assert not row["limit_vacuous"]
    rows = report.list_radii(beta)
    assert len(rows) == len(beta.experiment.arms)
    assert rows[0]["radius_max"] == beta.radius[0].max() > 0.0
    assert rows[0]["optimistic"] == pytest.approx(beta.optimistic[0].mean())


def test_a_report_on_one_experiment_has_no_empty_parts(tmp_path):
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini" / "figure.svg").write_text("<svg/>")
    runs = computed(experiment(arms=EVERY + GRID), tmp_path / "pieces")
    page = rendered({"mini": runs}, [], tmp_path, "rareswitch run")
    assert page.ids == ["mini", "run"]
    assert "Claim" not in page.words


def test_only_few_rounds_are_noted():
    assert report.few_rounds({"figure1": 50, "mixtures": 20}) == ""
    assert report.few_rounds({"members": 16, "figure1": 50}).endswith("narrow; members has 16")


def test_the_report_tells_every_version_that_computed_a_piece(tmp_path):
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini" / "figure.svg").write_text("<svg/>")
    runs = computed(experiment(arms=EVERY), tmp_path / "pieces")
    other = runs.versions[0] | {"numpy": "1.0"}
    runs = replace(runs, versions=(*runs.versions, other))
    words = rendered({"mini": runs}, [], tmp_path, "rareswitch run").words
    for each in runs.versions:
        assert f"NumPy {each['numpy']} ({each['blas']})" in words


def test_labels_titles_and_evidence_are_escaped(tmp_path):
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini" / "figure.svg").write_text("<svg/>")
    nasty = "<script>alert('x')</script> & \\\"co\\\""
    arms = GROWTH.replace("RareSwitch η={eta}", nasty).replace("[2, 8]", "2")
    spec = experiment(arms=arms, title=nasty, about=nasty)
    runs = computed(spec, tmp_path / "pieces")
    claim = Claim(
        name="c", statement=spec.title, source="<b>", verdict="holds", evidence=spec.title
    )
    page = rendered({"mini": runs}, [claim], tmp_path, "<i>")
    assert not page.tags & {"script", "b"}
    assert page.words.count(spec.title) == 6  # the label twice: it is the baseline too
