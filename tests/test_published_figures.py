"""The figures on the pages of evidence are those of `benchmarks/published.py`."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EVIDENCE = ("paper", "mixtures", "field", "where-worse")
PAGES = ("README.md", *(f"docs/evidence/{name}.md" for name in EVIDENCE))
TRIPLE = re.compile(r"(?<![\d.])([-−]?\d[\d.]*) \[([-−]?\d[\d.]*), ([-−]?\d[\d.]*)\]")
NUMBER = re.compile(r"(?<![\d.])[-−]?\d+\.\d\d+(?![\d.])")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ABOUT_FIGURES = {  # the six claims of the front page
    "batch-ends-close", "rareswitch-same-order", "close-throughout", "less-adaptivity-costs-more",
    "slopes-near-half", "graceful-under-misspecification",
}  # fmt: skip


@pytest.fixture(scope="module")
def published():
    path = ROOT / "docs" / "_static" / "published.csv"
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def unpublished(text, published):
    """Return the intervals of a text, and the numbers of its tables, that are not published."""
    text = CODE.sub("", text)
    columns = ("value", "low", "high")
    rows = [[float(row[name]) for name in columns if row[name]] for row in published]
    rows += [[-row[0], -row[2], -row[1]] for row in rows if len(row) == 3]  # "less by 0.14"
    found = []
    for triple in TRIPLE.finditer(re.sub(r"\n +", " ", text)):
        numbers = triple.groups()
        same = (row for row in rows if len(row) == 3 and all(map(rounds_to, row, numbers)))
        if not any(same):
            found.append(triple[0])
    every = [number for row in rows for number in row]
    tables = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    shown = NUMBER.findall(TRIPLE.sub("", tables))
    return found + [one for one in shown if not any(rounds_to(number, one) for number in every)]


def rounds_to(number, shown):
    """Return whether a number, rounded to as many decimals, is the shown one."""
    return f"{number:.{len(shown.partition('.')[2])}f}" == shown.replace("−", "-")


@pytest.mark.parametrize("page", PAGES)
def test_the_figures_of_a_page_are_published(page, published):
    assert unpublished((ROOT / page).read_text(encoding="utf-8"), published) == []


def test_a_figure_that_is_not_published_is_found(published):
    row = next(row for row in published if row["subject"] == "mixture-9" and row["low"])
    value, low, high = (float(row[name]) for name in ("value", "low", "high"))
    right = f"With nine switches {value:.2f}\n  [{low:.2f}, {high:.2f}]\n| {value:.3f} |\n"
    assert unpublished(right, published) == []
    wrong = f"{value:.3f} [{low:.3f}, {high + 0.001:.3f}]"
    assert unpublished(f"{right}{wrong}\n| {value + 1.0:.3f} |\n", published) == [
        wrong,
        f"{value + 1.0:.3f}",
    ]


def test_the_front_page_counts_the_claims_that_hold(published):
    claims = {row["subject"]: row["quantity"] for row in published if row["experiment"] == "claims"}
    verdicts = [claims[name] for name in ABOUT_FIGURES]
    assert (verdicts.count("holds"), len(verdicts)) == (5, 6)
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "five of our six claims about its figures" in text
