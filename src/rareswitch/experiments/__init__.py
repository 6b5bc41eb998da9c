"""Experiments as data, their runs, statistics, claims, figures and report."""

from pathlib import Path

# The names of the paper's experiments, in the order of the report.
PAPER = {
    path.stem.partition("-")[2]: path
    for path in sorted((Path(__file__).parent / "paper").glob("*.toml"))
}
# The comparison with other methods in many worlds: its name and its file.
FIELD = "field"
FIELD_SPEC = Path(__file__).parent / "field.toml"
