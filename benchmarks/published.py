"""Keep the figures that pages quote in a table; a test compares it with the pages.

    rareswitch reproduce
    rareswitch reproduce field
    rareswitch run examples/few_switches.toml
    python benchmarks/published.py results docs/_static/published.csv

The table has a row for each arm and quantity, for each ratio of two arms, and for each interval in
the evidence of a claim, whose quantity is the verdict.
"""

import csv
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rareswitch.experiments import field
from rareswitch.experiments.report import check_claims, find_field
from rareswitch.experiments.results import Results, load_results
from rareswitch.experiments.worth import find_pairs

COLUMNS = ("experiment", "subject", "quantity", "value", "low", "high")
CURVES = {"figure1": (100, 500)}  # the episodes of a table besides the last
BATCHES = {"members": 32}  # regret in units of a batch
PAIRS = {  # arms whose ratio of regrets a page quotes
    "few-switches": (
        ("mixture-9", "lsvi-ucb"), ("mixture-2", "grid-2"), ("mixture-4", "grid-4"),
        ("mixture-9", "grid-9"),
    ),
    "mixtures": (
        ("mixture-spread-9", "lsvi-ucb"),
        ("misspecified-mixture-spread-9", "misspecified-lsvi-ucb"),
    ),
}  # fmt: skip
TRIPLE = re.compile(r"(-?\d[\d.]*) \[(-?[\d.]+), (-?[\d.]+)\]")
Row = tuple[Any, ...]


def rows_of(name: str, results: Results) -> Iterator[Row]:
    """Yield the rows of an experiment."""
    names = [arm.name for arm in results.arms]
    for row in results.compare():
        regret = (row["mean"], *row["interval"])
        yield name, row["name"], "regret", *regret
        if factor := BATCHES.get(name):
            yield name, row["name"], "regret in batches", *(factor * number for number in regret)
        yield name, row["name"], "deployments", row["deployments"]
        yield name, row["name"], "switches", row["switches"]
    for one, other in PAIRS.get(name, ()):
        ratio = results.ratio(names.index(one), names.index(other))
        yield name, f"{one} / {other}", "ratio", *ratio
    for row in results.summary():
        if row["episode"] in CURVES.get(name, ()):
            yield name, row["arm"], f"regret at {row['episode']}", row["mean"]
    if name == "worth":
        for pair in find_pairs(results):
            yield name, pair.name, "ratio of worthwhile", *pair.ratio
            yield name, pair.name, "deployments of worthwhile", pair.made[1]


def rows_of_field(worlds: Mapping[str, Results]) -> Iterator[Row]:
    """Yield the regret of the best arm of each method in each world, and the default's ratio."""
    for name, results in worlds.items():
        for row in field.best_rows(results):
            yield name, row["label"], "regret", row["mean"], *row["interval"]
    for compared in field.compare(worlds):
        entry = compared.entry
        yield compared.world, f"{entry.method}, {entry.budget}", "ratio", *compared.ratio


def rows_of_claims(results: Mapping[str, Results]) -> Iterator[Row]:
    """Yield the verdict of each claim, with each interval of its evidence."""
    for claim in check_claims(results):
        yield "claims", claim.name, claim.verdict
        for triple in TRIPLE.findall(claim.evidence):
            yield "claims", claim.name, claim.verdict, *map(float, triple)


def main() -> None:
    folder, table = map(Path, sys.argv[1:3])
    found = [path.parent for path in sorted(folder.glob("*/manifest.json"))]
    results = {path.name: load_results(path) for path in found}
    worlds = find_field(results)
    rows = [row for name in results if name not in worlds for row in rows_of(name, results[name])]
    rows += [*(rows_of_field(worlds) if worlds else ()), *rows_of_claims(results)]
    with open(table, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            numbers = [f"{number:.6g}" for number in row[3:]]
            writer.writerow([*row[:3], *numbers, *[""] * (3 - len(numbers))])


if __name__ == "__main__":
    main()
