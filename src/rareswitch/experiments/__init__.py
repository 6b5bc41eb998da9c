"""Experiments as data, their runs, statistics, claims, figures and report."""

from pathlib import Path

# The experiments of `rareswitch reproduce` by name, in the order of the report.
PAPER = {
    path.stem.partition("-")[2]: path
    for path in sorted((Path(__file__).parent / "paper").glob("*.toml"))
}
# Those of the paper itself, and those that measure its theorems; the others are ours.
OF_THE_PAPER = ("figure1", "figure2", "figure3")
OF_ITS_THEOREMS = ("lower-bound", "switches", "bounds")
# Percentile intervals of fewer rounds contain the mean less often than 95%.
FEW_ROUNDS = 20
TOO_NARROW = f"intervals of fewer than {FEW_ROUNDS} rounds are too narrow"
# The comparison with other methods in many worlds: its name and its file.
FIELD = "field"
FIELD_SPEC = Path(__file__).parent / "field.toml"
